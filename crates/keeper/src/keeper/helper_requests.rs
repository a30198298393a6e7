//! Requests about a helper: starting it, owning it, and waiting until it is ready.
//!
//! Promise: no helper runs without a recorded owner.
//! Not here: the rules (`berth_core::owners`), watching owners and readiness (`helper_role`).
//! Start with [`Keeper::start_helper`], then [`Keeper::join`].

use berth_api::helper::{HelperOwner as AskingOwner, HelperRequirements, HelperTerms};
use berth_api::message::{KeeperAnswer, WindowSize, WriterTakeover};
use berth_api::{Problem, ProblemCode, redact};
use berth_core::{
    Actor, Command, Event, HelperOwner, HelperReadiness, Observation, ProcessExit, Refusal, RunOutcome,
    RunPhase, Session, SessionId,
};
use berth_store::output::OutputFiles;
use berth_store::state_dir::StateDir;
use berth_store::store::Lease;

use super::client_table::ClientWait;
use super::helper_role::{OwnerCheck, keeper_of_owner};
use super::startup::{RunStartPlan, recover_last_run};
use super::{Keeper, last_lines, trouble};
use crate::helpers;
use crate::journaled_session::{JournaledSession, SessionInput};

/// The bytes of a helper's output that are searched when it fails.
const LAST_WORDS_BYTES: u64 = 16 * 1024;

impl Keeper {
    /// Makes the helper or begins its next run, and records its first owner with it.
    pub(super) fn start_helper(
        home: &StateDir,
        id: SessionId,
        lease: Lease,
        spec: berth_api::record::SessionSpec,
        terms: HelperTerms,
        owner: AskingOwner,
    ) -> Result<Self, Problem> {
        let bad = |what: String| Problem::usage(what);
        let name = terms.name.clone();
        let mut terms: berth_core::HelperTerms =
            terms.try_into().map_err(|odd: berth_api::record::BadRecord| bad(odd.to_string()))?;
        let owner: HelperOwner =
            owner.try_into().map_err(|odd: berth_api::record::BadRecord| bad(odd.to_string()))?;
        let spec: berth_core::SessionSpec = spec.into();
        // Checked before anything is recorded or runs.
        let (its_keeper, pidfd) = keeper_of_owner(home, &owner.session)?;
        let files = home.session(&id);
        let is_new = !files.has_events()?;
        let (journal, torn) = match is_new {
            true => (JournaledSession::create(&lease)?, None),
            false => JournaledSession::open(&lease)?,
        };
        if let Some(sharing) = &journal.history().session.sharing {
            terms.scope = helpers::canonical_scope(&sharing.terms.scope, terms.scope);
        }
        let mut before = recover_last_run(&files, &journal)?;
        files
            .invalidate_status_cache()
            .map_err(|error| trouble(&format!("begin the next run of helper {id}"), &error))?;
        if journal.history().session.spec.is_none() {
            let create = Command::Create { spec: spec.clone(), name: Some(terms.name.clone()) };
            before.push(SessionInput::Command(create));
        }
        before.extend(torn.map(|what| SessionInput::Note(Event::Warned { what })));
        before.push(SessionInput::Command(Command::Declare { spec: spec.clone(), terms }));
        let after = vec![SessionInput::Command(Command::Join { owner: owner.clone() })];
        let plan = RunStartPlan {
            before,
            after,
            size: WindowSize::default(),
            spec,
            take: WriterTakeover::None,
            by: Actor::default(),
        };
        let mut keeper = Self::start_run(lease, journal, plan, is_new).map_err(|problem| {
            let what = format!("helper `{name}` could not be started: {}", problem.what);
            Problem { what, ..problem }
        })?;
        if keeper.helper.watch(owner.session.clone(), its_keeper, pidfd).is_err() {
            // The owner's end would not be noticed, so it does not own the helper. Then no session owns it, and
            // it is stopped.
            keeper.report(vec![Observation::OwnerGone { owner: owner.session }]);
        }
        keeper.begin_probe(None);
        Ok(keeper)
    }

    /// Makes a session an owner of this helper.
    pub(super) fn join(
        &mut self,
        key: u64,
        owner: AskingOwner,
        wanted: &HelperRequirements,
    ) -> Result<Option<KeeperAnswer>, Problem> {
        let owner: HelperOwner =
            owner.try_into().map_err(|odd: berth_api::record::BadRecord| Problem::usage(odd.to_string()))?;
        // Includes an end that was not processed yet.
        self.on_children();
        match self.journal.session().phase {
            RunPhase::Starting | RunPhase::Running { .. } => {}
            // A dying helper is not shared: the caller waits for its end, and then the next one can begin.
            RunPhase::New | RunPhase::Ending(_) | RunPhase::Ended { .. } => return self.await_end(key),
        }
        self.is_wanted(wanted)?;
        if self.journal.session().ready().is_none() {
            self.room_for_lasting()?;
        }
        let gone = Observation::OwnerGone { owner: owner.session.clone() };
        if self.journal.waiting().contains(&gone) {
            // If it were recorded later, it would end the ownership of the session that asks now.
            let what = format!("the end of an earlier run of session {} cannot be recorded", owner.session);
            return Err(Problem::refused(what).hint("the disk refuses to take it; make room"));
        }
        // Looked up each time: the watched keeper may be of a run of that session that is about to end.
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
        let answers = self.take(vec![SessionInput::Command(Command::Join { owner })]);
        let refusal = match answers.map(|answers| answers.into_iter().find_map(Result::err)) {
            Ok(None) => {
                // The end of an earlier run does not end the ownership of this one.
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

    /// Removes a session from the owners of this helper. The answer does not wait for the consequences.
    pub(super) fn leave_helper(&mut self, owner: &str) -> Result<Option<KeeperAnswer>, Problem> {
        let owner = SessionId::parse(owner)
            .ok_or_else(|| Problem::usage(format!("`{owner}` is not the id of a session")))?;
        self.order(Command::Leave { owner: owner.clone() })?;
        let tokens = self.helper.tokens_of(&owner);
        self.helper.unwatch(tokens);
        self.done()
    }

    /// Rejects the request if the helper differs from the caller's expectation.
    fn is_wanted(&self, wanted: &HelperRequirements) -> Result<(), Problem> {
        let session = self.journal.session();
        let Some(sharing) = &session.sharing else { return Err(self.refused(&Refusal::NotShared)) };
        let spec = session.spec.clone().unwrap_or_default();
        let terms = HelperTerms::from(sharing.terms.clone());
        let name = &terms.name;
        let other = |what: String| {
            Err(Problem::refused(format!("helper `{name}` runs already, {what}")).hint(format!(
                "leave that option out to share it as it is, use another name, or end it with \
                 `berth helper stop {name}`"
            )))
        };
        let recorded = &sharing.terms.scope;
        let is_of_here = |scope: &berth_api::helper::HelperScope| {
            helpers::canonical_scope(recorded, scope.clone().into()) == *recorded
        };
        let is_of_here = wanted.scope.as_ref().is_none_or(is_of_here);
        if *name != wanted.name || !is_of_here {
            return Err(self.refused(&Refusal::OtherHelper));
        }
        if spec.command != wanted.command {
            return Err(Problem::refused(format!(
                "helper `{name}` runs already, with another command: {}",
                redact::redact_command_line(&spec.command)
            ))
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

    /// Handles the end of an owner's keeper, reported by the kernel.
    pub(super) fn on_owner(&mut self, token: u64) {
        if let Some(owner) = self.helper.end_of(token) {
            self.report(vec![Observation::OwnerGone { owner }]);
        }
    }

    /// Watches the recorded owners in a new image. An owner that ended meanwhile has left.
    pub(super) fn watch_owners_again(&mut self) {
        let sharing = self.journal.session().sharing.as_ref();
        let owners = sharing.map(|sharing| sharing.owners.clone()).unwrap_or_default();
        for owner in owners {
            if let Some(why) = self.check_owner(owner.session.clone()) {
                let session = owner.session;
                let what =
                    format!("cannot tell whether session {session} still runs; it stays an owner: {why}");
                let _ = self.take(vec![SessionInput::Note(Event::Warned { what })]);
            }
        }
    }

    /// Checks the owners again whose state was unknown.
    pub(super) fn look_again_at_owners(&mut self) {
        for session in self.helper.take_unclear() {
            let sharing = self.journal.session().sharing.as_ref();
            if sharing.is_some_and(|sharing| sharing.is_owner(&session)) {
                let _ = self.check_owner(session);
            }
        }
    }

    /// Watches an owner, or reports that it is gone. Returns a reason if neither is possible; then it is tried again.
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

    fn await_end(&mut self, key: u64) -> Result<Option<KeeperAnswer>, Problem> {
        self.room_for_lasting()?;
        self.answer_at_the_end(key);
        Ok(None)
    }

    /// Starts the readiness probe. `since_awake_ms`: the start of the previous image's probe.
    pub(super) fn begin_probe(&mut self, since_awake_ms: Option<u64>) {
        match self.helper.begin_probe(self.journal.session(), since_awake_ms) {
            Some(report) => self.report(vec![report]),
            None => self.look_whether_ready(),
        }
    }

    /// Answers when the helper is ready or has failed: now, or later.
    pub(super) fn await_readiness(&mut self, key: u64) {
        if self.journal.session().sharing.is_some() {
            self.clients.wait_for(key, ClientWait::HelperReady);
            self.answer_waiting_for_readiness();
        }
    }

    /// Sends the outcome to all clients that wait for the helper.
    pub(super) fn answer_waiting_for_readiness(&mut self) {
        if !self.clients.any_waits_for(ClientWait::HelperReady) {
            return;
        }
        let session = self.journal.session();
        let answer = match &session.phase {
            RunPhase::Running { .. } if session.ready().is_some() => {
                KeeperAnswer::Done { status: Box::new(self.status()) }
            }
            RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } => return,
            RunPhase::Ending(_) | RunPhase::Ended { .. } => {
                KeeperAnswer::Problem { problem: self.unready(session) }
            }
        };
        self.clients.answer_waiting(ClientWait::HelperReady, &answer);
    }

    /// The error for a helper that cannot be used, with its last output.
    fn unready(&self, session: &Session) -> Problem {
        let name = self.handle_name();
        let readiness = session.sharing.as_ref().map(|sharing| &sharing.readiness);
        let exit = match &session.phase {
            RunPhase::Ending(ending) => ending.exit,
            RunPhase::Ended { outcome: RunOutcome::Exited(exit) } => Some(*exit),
            RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ended { .. } => None,
        };
        let (code, mut what) = match (readiness, &session.stopped_by, exit) {
            (Some(HelperReadiness::Never(reason)), _, _) => {
                (ProblemCode::TimedOut, format!("helper `{name}` did not get ready: {reason}"))
            }
            (_, Some(by), _) => (
                ProblemCode::Refused,
                format!("helper `{name}` was stopped before it was ready, by {}", by.place),
            ),
            (_, None, Some(exit)) => {
                let how = match exit {
                    ProcessExit::Code(code) => format!("exit {code}"),
                    ProcessExit::Signal(signal) => format!("signal {signal}"),
                };
                (ProblemCode::Refused, format!("helper `{name}` ended before it was ready: {how}"))
            }
            (_, None, None) => (ProblemCode::Refused, format!("helper `{name}` is over before it was ready")),
        };
        what.push_str(&last_words(&self.identity.files().output(), session.output_from));
        Problem::new(code, what)
            .hint(format!("`berth helper output {}` prints its output", self.identity.session()))
    }
}

/// The last lines of a run's output, to be shown below a sentence.
fn last_words(output: &OutputFiles, from: u64) -> String {
    let bytes = output.tail(from, LAST_WORDS_BYTES).unwrap_or_default();
    last_lines(&bytes)
}
