//! Requests about a helper: starting it, owning it, and waiting until it is ready.
//!
//! Promise: no helper runs without a recorded owner.
//! Not here: the rules (`berth_core::owners`), watching owners and readiness (`helper_role`).
//! Start with [`Keeper::start_helper`], then [`Keeper::join`].

use berth_api::helper::{Owner as AskingOwner, Terms, Wanted};
use berth_api::message::{Answer, Size, Take};
use berth_api::{Code, Problem, redact};
use berth_core::{
    Actor, Command, Event, Exit, Observation, Outcome, Owner, Phase, Readiness, Refusal, Session, SessionId,
};
use berth_store::home::Home;
use berth_store::output::OutputFiles;
use berth_store::store::Lease;

use super::begin::{Plan, settle_past};
use super::client_table::ClientWait;
use super::helper_role::{OwnerCheck, keeper_of_owner};
use super::{Keeper, last_lines, trouble};
use crate::helpers;
use crate::journaled_session::{Input, JournaledSession};

/// How much of a helper's output is looked at when it fails.
const LAST_WORDS_BYTES: u64 = 16 * 1024;

impl Keeper {
    /// Makes the helper or begins its next run, and records its first owner with it.
    pub(super) fn start_helper(
        home: &Home,
        id: SessionId,
        lease: Lease,
        spec: berth_api::record::Spec,
        terms: Terms,
        owner: AskingOwner,
    ) -> Result<Self, Problem> {
        let bad = |what: String| Problem::new(Code::Usage, what);
        let name = terms.name.clone();
        let mut terms: berth_core::Terms =
            terms.try_into().map_err(|odd: berth_api::record::BadRecord| bad(odd.to_string()))?;
        let owner: Owner =
            owner.try_into().map_err(|odd: berth_api::record::BadRecord| bad(odd.to_string()))?;
        let spec: berth_core::Spec = spec.into();
        // Before anything is recorded or runs.
        let (its_keeper, pidfd) = keeper_of_owner(home, &owner.session)?;
        let files = home.session(&id);
        let is_new = !files.has_events()?;
        let (journal, torn) = match is_new {
            true => (JournaledSession::create(&lease)?, None),
            false => JournaledSession::open(&lease)?,
        };
        if let Some(sharing) = &journal.history().session.sharing {
            terms.scope = helpers::as_recorded(&sharing.terms.scope, terms.scope);
        }
        let mut before = settle_past(&files, &journal)?;
        files
            .doubt_short_cut()
            .map_err(|error| trouble(&format!("begin the next run of helper {id}"), &error))?;
        if journal.history().session.spec.is_none() {
            let create = Command::Create { spec: spec.clone(), name: Some(terms.name.clone()) };
            before.push(Input::Command(create));
        }
        before.extend(torn.map(|what| Input::Note(Event::Warned { what })));
        before.push(Input::Command(Command::Declare { spec: spec.clone(), terms }));
        let after = vec![Input::Command(Command::Join { owner: owner.clone() })];
        let plan =
            Plan { before, after, size: Size::default(), spec, take: Take::Nobody, by: Actor::default() };
        let mut keeper = Self::start_run(lease, journal, plan, is_new).map_err(|problem| {
            let what = format!("helper `{name}` could not be started: {}", problem.what);
            Problem { what, ..problem }
        })?;
        if keeper.helper.watch(owner.session.clone(), its_keeper, pidfd).is_err() {
            // Its end would not be noticed, so it does not own the helper; then no session does, and it is stopped.
            keeper.report(vec![Observation::OwnerGone { owner: owner.session }]);
        }
        keeper.begin_probe(None);
        Ok(keeper)
    }

    /// A session wants to own this helper.
    pub(super) fn join(
        &mut self,
        key: u64,
        owner: AskingOwner,
        wanted: &Wanted,
    ) -> Result<Option<Answer>, Problem> {
        let owner: Owner = owner
            .try_into()
            .map_err(|odd: berth_api::record::BadRecord| Problem::new(Code::Usage, odd.to_string()))?;
        // An end that was not looked at yet is an end.
        self.on_children();
        match self.journal.session().phase {
            Phase::Starting | Phase::Running { .. } => {}
            // A dying helper is not shared: the answer is its end, and then the next one can begin.
            Phase::New | Phase::Ending(_) | Phase::Ended { .. } => return self.await_end(key),
        }
        self.is_wanted(wanted)?;
        if self.journal.session().ready().is_none() {
            self.room_for_lasting()?;
        }
        let gone = Observation::OwnerGone { owner: owner.session.clone() };
        if self.journal.waiting().contains(&gone) {
            // Said later, it would be said of the one that asks now.
            let what = format!("the end of an earlier run of session {} cannot be recorded", owner.session);
            return Err(Problem::new(Code::Refused, what).hint("the disk refuses to take it; make room"));
        }
        // Looked up each time: what is watched may be a run of that session that dies while this one asks.
        let session = owner.session.clone();
        let (its_keeper, pidfd) = keeper_of_owner(&self.identity.home(), &session)?;
        let mut superseded = self.helper.tokens_of(&session);
        let mut added = None;
        if self.helper.watches(&session, &its_keeper) {
            superseded.clear();
        } else {
            let watched = self.helper.watch(session.clone(), its_keeper, pidfd);
            added = Some(watched.map_err(|error| trouble("watch the owner of a helper", &error))?);
        }
        let answers = self.take(vec![Input::Command(Command::Join { owner })]);
        let refusal = match answers.map(|answers| answers.into_iter().find_map(Result::err)) {
            Ok(None) => {
                // The end of an earlier run is not the leaving of this one.
                self.helper.unwatch(superseded);
                self.helper.forget_unclear(&session);
                self.await_readiness(key);
                return Ok(None);
            }
            Ok(Some(Refusal::BeingEnded | Refusal::NotRunning)) => None,
            Ok(Some(refusal)) => Some(self.refused(&refusal)),
            Err(problem) => Some(problem),
        };
        self.helper.unwatch(added);
        refusal.map_or_else(|| self.await_end(key), Err)
    }

    /// A session no longer owns this helper. What follows from that is not part of the answer.
    pub(super) fn leave_helper(&mut self, owner: &str) -> Result<Option<Answer>, Problem> {
        let owner = SessionId::parse(owner)
            .ok_or_else(|| Problem::new(Code::Usage, format!("`{owner}` is not the id of a session")))?;
        self.order(Command::Leave { owner: owner.clone() })?;
        let tokens = self.helper.tokens_of(&owner);
        self.helper.unwatch(tokens);
        self.done()
    }

    /// Refuses if the helper is another one than the asker takes it for.
    fn is_wanted(&self, wanted: &Wanted) -> Result<(), Problem> {
        let session = self.journal.session();
        let Some(sharing) = &session.sharing else { return Err(self.refused(&Refusal::NotShared)) };
        let spec = session.spec.clone().unwrap_or_default();
        let terms = Terms::from(sharing.terms.clone());
        let name = &terms.name;
        let other = |what: String| {
            Err(Problem::new(Code::Refused, format!("helper `{name}` runs already, {what}")).hint(format!(
                "leave that option out to share it as it is, use another name, or end it with \
                 `berth helper stop {name}`"
            )))
        };
        let recorded = &sharing.terms.scope;
        let is_of_here = |scope: &berth_api::helper::Scope| {
            helpers::as_recorded(recorded, scope.clone().into()) == *recorded
        };
        let is_of_here = wanted.scope.as_ref().is_none_or(is_of_here);
        if *name != wanted.name || !is_of_here {
            return Err(self.refused(&Refusal::OtherHelper));
        }
        if spec.command != wanted.command {
            return Err(Problem::new(
                Code::Refused,
                format!(
                    "helper `{name}` runs already, with another command: {}",
                    redact::command_line(&spec.command)
                ),
            )
            .hint(format!("use another name, or end it first with `berth helper stop {name}`")));
        }
        if wanted.cwd.as_ref().is_some_and(|cwd| !helpers::is_same_dir(cwd.as_ref(), spec.cwd.as_ref())) {
            return other(format!("in another directory: {}", spec.cwd));
        }
        if wanted.linger_ms.is_some_and(|linger_ms| linger_ms != terms.linger_ms) {
            return other(format!("with --idle {}ms", terms.linger_ms));
        }
        match (&wanted.ready, &terms.ready) {
            (Some(asked), Some(ready)) if asked != ready => other(format!("with --ready {ready}")),
            (Some(_), None) => other("without --ready".to_owned()),
            (Some(_), Some(_)) | (None, _) => Ok(()),
        }
    }

    /// The kernel says that the keeper of an owner has ended.
    pub(super) fn on_owner(&mut self, token: u64) {
        if let Some(owner) = self.helper.end_of(token) {
            self.report(vec![Observation::OwnerGone { owner }]);
        }
    }

    /// Watches the recorded owners in a new image. An owner that is gone meanwhile has left.
    pub(super) fn watch_owners_again(&mut self) {
        let sharing = self.journal.session().sharing.as_ref();
        let owners = sharing.map(|sharing| sharing.owners.clone()).unwrap_or_default();
        for owner in owners {
            if let Some(why) = self.check_owner(owner.session.clone()) {
                let session = owner.session;
                let what =
                    format!("cannot tell whether session {session} still runs; it stays an owner: {why}");
                let _ = self.take(vec![Input::Note(Event::Warned { what })]);
            }
        }
    }

    /// Looks again at the owners of which it could not be told whether they are there.
    pub(super) fn look_again_at_owners(&mut self) {
        for session in self.helper.take_unclear() {
            let sharing = self.journal.session().sharing.as_ref();
            if sharing.is_some_and(|sharing| sharing.is_owner(&session)) {
                let _ = self.check_owner(session);
            }
        }
    }

    /// Watches an owner, or reports that it is gone. Returns why neither can be done; then it is tried again.
    fn check_owner(&mut self, owner: SessionId) -> Option<String> {
        match self.helper.watch_again(&self.identity.home(), &owner) {
            OwnerCheck::Watched => None,
            OwnerCheck::Gone => {
                self.report(vec![Observation::OwnerGone { owner }]);
                None
            }
            OwnerCheck::Unclear(why) => {
                self.helper.note_unclear(owner);
                self.journal.retry_soon();
                Some(why)
            }
        }
    }

    fn await_end(&mut self, key: u64) -> Result<Option<Answer>, Problem> {
        self.room_for_lasting()?;
        self.answer_at_the_end(key);
        Ok(None)
    }

    /// Begins to look whether the helper is ready. `since_awake_ms`: when the image before this one began to.
    pub(super) fn begin_probe(&mut self, since_awake_ms: Option<u64>) {
        match self.helper.begin_probe(self.journal.session(), since_awake_ms) {
            Some(report) => self.report(vec![report]),
            None => self.look_whether_ready(),
        }
    }

    /// Answers when the helper is ready, or will not be: now, or later.
    pub(super) fn await_readiness(&mut self, key: u64) {
        if self.journal.session().sharing.is_some() {
            self.clients.wait_for(key, ClientWait::HelperReady);
            self.answer_waiting_for_readiness();
        }
    }

    /// Tells all clients that wait for the helper what became of it.
    pub(super) fn answer_waiting_for_readiness(&mut self) {
        if !self.clients.any_waits_for(ClientWait::HelperReady) {
            return;
        }
        let session = self.journal.session();
        let answer = match &session.phase {
            Phase::Running { .. } if session.ready().is_some() => {
                Answer::Done { status: Box::new(self.status()) }
            }
            Phase::New | Phase::Starting | Phase::Running { .. } => return,
            Phase::Ending(_) | Phase::Ended { .. } => Answer::Problem { problem: self.unready(session) },
        };
        self.clients.answer_waiting(ClientWait::HelperReady, &answer);
    }

    /// Why the helper cannot be used, with what it printed last.
    fn unready(&self, session: &Session) -> Problem {
        let name = self.handle_name();
        let readiness = session.sharing.as_ref().map(|sharing| &sharing.readiness);
        let exit = match &session.phase {
            Phase::Ending(ending) => ending.exit,
            Phase::Ended { outcome: Outcome::Exited(exit) } => Some(*exit),
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ended { .. } => None,
        };
        let (code, mut what) = match (readiness, &session.stopped_by, exit) {
            (Some(Readiness::Never(reason)), _, _) => {
                (Code::TimedOut, format!("helper `{name}` did not get ready: {reason}"))
            }
            (_, Some(by), _) => {
                (Code::Refused, format!("helper `{name}` was stopped before it was ready, by {}", by.place))
            }
            (_, None, Some(exit)) => {
                let how = match exit {
                    Exit::Code(code) => format!("exit {code}"),
                    Exit::Signal(signal) => format!("signal {signal}"),
                };
                (Code::Refused, format!("helper `{name}` ended before it was ready: {how}"))
            }
            (_, None, None) => (Code::Refused, format!("helper `{name}` is over before it was ready")),
        };
        what.push_str(&last_words(&self.identity.files().output(), session.output_from));
        Problem::new(code, what)
            .hint(format!("`berth helper output {}` prints all it said", self.identity.session()))
    }
}

/// What the output of a run says at its end, as lines to put below a sentence.
fn last_words(output: &OutputFiles, from: u64) -> String {
    let bytes = output.tail(from, LAST_WORDS_BYTES).unwrap_or_default();
    last_lines(&bytes)
}
