//! What a keeper does for a helper: who owns it, and who waits for it.
//!
//! Promise: an owner whose keeper ends is noticed by the kernel, also if it ends while it is being
//! looked up, and also after this keeper replaced its own program.
//! Not here: the rules (see `berth_core::owners`), looking whether it is ready (see `ready`).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use berth_api::helper::{Owner as AskingOwner, Terms, Wanted};
use berth_api::message::{Answer, Size, Take};
use berth_api::{Code, Problem, redact};
use berth_core::{
    Actor, Command, Epoch, Event, Exit, Observation, Outcome, Owner, Phase, Readiness, Refusal, Session,
    SessionId,
};
use berth_host::identity::{Identity, Pidfd};
use berth_screen::Plain;
use berth_store::home::Home;
use berth_store::store::{self, Lease};
use berth_store::{output, view};
use rustix::event::epoll;

use super::begin::{Plan, settle_past};
use super::{FIRST_OWNER, Keeper, trouble};
use crate::owner::{self, Input};
use crate::{helpers, recover};
use berth_store::keepers::{self, NoKeeper};

/// How much of what a helper printed last is looked at, and how much of that is shown, when it fails.
const LAST_WORDS_BYTES: u64 = 16 * 1024;
const LAST_LINES: usize = 12;
const LAST_LINE_CHARS: usize = 200;

/// The keepers of those who own this helper, by their number in the event loop.
#[derive(Debug, Default)]
pub(super) struct Owners {
    watched: BTreeMap<u64, Watched>,
    seen: u64,
    /// Owners of whom it could not be told whether they are still there. They are looked at again.
    unclear: Vec<SessionId>,
}

/// One keeper of an owner. A session that was resumed has another one, which is not the one that dies.
#[derive(Debug)]
struct Watched {
    session: SessionId,
    keeper: Identity,
    pidfd: Pidfd,
}

impl Owners {
    fn tokens_of(&self, session: &SessionId) -> Vec<u64> {
        self.watched.iter().filter(|(_, it)| it.session == *session).map(|(token, _)| *token).collect()
    }

    fn watches(&self, session: &SessionId, keeper: &Identity) -> bool {
        self.watched.values().any(|it| it.session == *session && it.keeper == *keeper)
    }
}

impl Keeper {
    /// Makes the helper or begins its next run, and records its first owner with it: no helper runs
    /// whose owner nobody knows.
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
        let (its_keeper, pidfd) = keeper_of_owner(home.root(), &owner.session)?;
        let dir = home.session_dir(&id);
        let is_new = !store::exists(&dir)?;
        let (journal, torn) = match is_new {
            true => (owner::Owner::create(&dir, &id, &lease)?, None),
            false => owner::Owner::open(&dir, &id, &lease)?,
        };
        if let Some(sharing) = &journal.history().session.sharing {
            terms.scope = helpers::as_recorded(&sharing.terms.scope, terms.scope);
        }
        let mut before = settle_past(&dir, &id, &journal)?;
        view::doubt_short_cut(&dir)
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
        let new_in = is_new.then(|| home.sessions_dir());
        let mut keeper =
            Self::start_run(id, dir, lease, journal, plan, new_in.as_deref()).map_err(|problem| {
                let what = format!("helper `{name}` could not be started: {}", problem.what);
                Problem { what, ..problem }
            })?;
        if keeper.watch_owner(owner.session.clone(), its_keeper, pidfd).is_err() {
            // Nobody would notice its end, so it does not own it; then nobody does, and it is stopped.
            keeper.report(vec![Observation::OwnerGone { owner: owner.session }]);
        }
        keeper.begin_to_look(None);
        Ok(keeper)
    }

    /// Whether this is kept on the shelf of helpers, also if its record does not say who owns it.
    pub(super) fn is_helper(&self) -> bool {
        self.dir.parent().and_then(Path::file_name).is_some_and(|name| name == "helpers")
    }

    /// What the run inherits from us: which session it is of, and where the record of all is.
    pub(super) fn variables(&self, epoch: Epoch) -> Vec<(&'static str, String)> {
        let shelf = self.dir.parent();
        let whose = if self.is_helper() { "BERTH_HELPER" } else { "BERTH_SESSION" };
        let mut variables =
            vec![(whose, self.id.to_string()), (recover::MARK, recover::mark(&self.id, epoch))];
        // A hook may run with another HOME, and has to find the same sessions all the same.
        let root = shelf.and_then(Path::parent).and_then(Path::to_str);
        variables.extend(root.map(|root| ("BERTH_HOME", root.to_owned())));
        variables
    }

    /// Somebody wants to own this helper.
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
        match self.owner.history().session.phase {
            Phase::Starting | Phase::Running { .. } => {}
            // Nobody is given a dying helper: the answer is its end, and then the next one can begin.
            Phase::New | Phase::Ending(_) | Phase::Ended { .. } => return self.await_end(key),
        }
        self.is_wanted(wanted)?;
        if self.owner.history().session.ready().is_none() {
            self.room_for_lasting()?;
        }
        let gone = Observation::OwnerGone { owner: owner.session.clone() };
        if self.unjournalled.contains(&gone) {
            // Said later, it would be said of the one that asks now.
            let what = format!("the end of an earlier run of session {} cannot be recorded", owner.session);
            return Err(Problem::new(Code::Refused, what).hint("the disk refuses to take it; make room"));
        }
        // Looked up each time: what is watched may be a run of that session that dies while this one asks.
        let session = owner.session.clone();
        let (its_keeper, pidfd) = keeper_of_owner(self.root(), &session)?;
        let mut superseded = self.owners.tokens_of(&session);
        let mut added = None;
        if self.owners.watches(&session, &its_keeper) {
            superseded.clear();
        } else {
            let watched = self.watch_owner(session.clone(), its_keeper, pidfd);
            added = Some(watched.map_err(|error| trouble("watch the owner of a helper", &error))?);
        }
        let answers = self.take(vec![Input::Command(Command::Join { owner })]);
        let refusal = match answers.map(|answers| answers.into_iter().find_map(Result::err)) {
            Ok(None) => {
                // The end of an earlier run is not the leaving of this one.
                superseded.into_iter().for_each(|token| self.unwatch(token));
                self.owners.unclear.retain(|unclear| *unclear != session);
                self.await_ready(key);
                return Ok(None);
            }
            Ok(Some(Refusal::BeingEnded | Refusal::NotRunning)) => None,
            Ok(Some(refusal)) => Some(self.refused(&refusal)),
            Err(problem) => Some(problem),
        };
        added.into_iter().for_each(|token| self.unwatch(token));
        refusal.map_or_else(|| self.await_end(key), Err)
    }

    /// Somebody no longer owns this helper. What follows from that is the loop's business, not theirs.
    pub(super) fn leave_helper(&mut self, owner: &str) -> Result<Option<Answer>, Problem> {
        let owner = SessionId::parse(owner)
            .ok_or_else(|| Problem::new(Code::Usage, format!("`{owner}` is not the id of a session")))?;
        self.order(Command::Leave { owner: owner.clone() })?;
        self.owners.tokens_of(&owner).into_iter().for_each(|token| self.unwatch(token));
        self.done()
    }

    /// Whether this is what the asker takes it for.
    fn is_wanted(&self, wanted: &Wanted) -> Result<(), Problem> {
        let session = &self.owner.history().session;
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

    pub(super) fn root(&self) -> &Path {
        self.dir.parent().and_then(Path::parent).expect("a helper lives two steps below the state directory")
    }

    fn watch_owner(&mut self, session: SessionId, keeper: Identity, pidfd: Pidfd) -> io::Result<u64> {
        let token = FIRST_OWNER + self.owners.seen;
        // Level-triggered: one that ended before this line is told all the same.
        epoll::add(&self.epoll, pidfd.as_fd(), epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        self.owners.seen += 1;
        self.owners.watched.insert(token, Watched { session, keeper, pidfd });
        Ok(token)
    }

    fn unwatch(&mut self, token: u64) {
        if let Some(watched) = self.owners.watched.remove(&token) {
            self.epoll_delete(&watched.pidfd);
        }
    }

    /// The kernel says that the keeper of an owner has ended.
    pub(super) fn on_owner(&mut self, token: u64) {
        let Some(Watched { session, pidfd, .. }) = self.owners.watched.remove(&token) else { return };
        self.epoll_delete(&pidfd);
        self.report(vec![Observation::OwnerGone { owner: session }]);
    }

    /// Descriptors did not come along into this image; who is gone meanwhile has left.
    pub(super) fn watch_owners_again(&mut self) {
        let owners = match &self.owner.history().session.sharing {
            Some(sharing) => sharing.owners.clone(),
            None => return,
        };
        for owner in owners {
            if let Err(why) = self.watch_again(&owner.session) {
                let session = owner.session;
                let what =
                    format!("cannot tell whether session {session} still runs; it stays an owner: {why}");
                let _ = self.take(vec![Input::Note(Event::Warned { what })]);
                self.owners.unclear.push(session);
                self.retry_soon();
            }
        }
    }

    /// Those of whom it could not be told whether they are there are looked at again, until it can.
    pub(super) fn look_again_at_owners(&mut self) {
        for session in std::mem::take(&mut self.owners.unclear) {
            let sharing = self.owner.history().session.sharing.as_ref();
            if sharing.is_some_and(|sharing| sharing.is_owner(&session))
                && self.watch_again(&session).is_err()
            {
                self.owners.unclear.push(session);
                self.retry_soon();
            }
        }
    }

    /// Watches an owner that is recorded as one, or reports that it is gone. Says why neither can be done.
    fn watch_again(&mut self, session: &SessionId) -> Result<(), String> {
        match keepers::keeper_of(&owner_dir(self.root(), session)) {
            Ok((keeper, pidfd)) => self
                .watch_owner(session.clone(), keeper, pidfd)
                .map(|_| ())
                .map_err(|error| error.to_string()),
            Err(NoKeeper::Unknown | NoKeeper::NotKept | NoKeeper::OtherAccount(_)) => {
                self.report(vec![Observation::OwnerGone { owner: session.clone() }]);
                Ok(())
            }
            Err(NoKeeper::CannotTell(why)) => Err(why),
        }
    }

    /// When a helper without owners is stopped. Once that is reported, a full disk decides when it is
    /// tried again.
    pub(super) fn idle_end_ms(&self) -> Option<u64> {
        let reported = self.unjournalled.contains(&Observation::Tick);
        self.owner.history().session.idle_end_boot_ms().filter(|_| !reported)
    }

    fn await_end(&mut self, key: u64) -> Result<Option<Answer>, Problem> {
        self.room_for_lasting()?;
        self.answer_at_the_end(key);
        Ok(None)
    }

    /// Answers when the helper is ready, or will not be: now, or later.
    pub(super) fn await_ready(&mut self, key: u64) {
        if self.owner.history().session.sharing.is_none() {
            return;
        }
        if let Some(client) = self.clients.get_mut(&key) {
            client.awaits_ready = true;
        }
        self.tell_readiness();
    }

    /// Everyone who waits for the helper hears what became of it.
    pub(super) fn tell_readiness(&mut self) {
        let waiting: Vec<u64> =
            self.clients.iter().filter(|(_, client)| client.awaits_ready).map(|(key, _)| *key).collect();
        if waiting.is_empty() {
            return;
        }
        let session = &self.owner.history().session;
        let answer = match &session.phase {
            Phase::Running { .. } if session.ready().is_some() => {
                Answer::Done { status: Box::new(self.status()) }
            }
            Phase::New | Phase::Starting | Phase::Running { .. } => return,
            Phase::Ending(_) | Phase::Ended { .. } => Answer::Problem { problem: self.unready(session) },
        };
        for key in waiting {
            if let Some(client) = self.clients.get_mut(&key) {
                client.awaits_ready = false;
            }
            self.answer(key, &answer);
        }
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
        what.push_str(&last_words(&self.dir.join("output"), session.output_from));
        Problem::new(code, what).hint(format!("`berth helper output {}` prints all it said", self.id))
    }
}

/// What the output of a run says at its end, as lines to put below a sentence.
fn last_words(dir: &Path, from: u64) -> String {
    let bytes = output::tail(dir, from, LAST_WORDS_BYTES).unwrap_or_default();
    last_lines(&bytes)
}

/// The last lines of what a program printed, as lines to put below a sentence.
pub(super) fn last_lines(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    Plain::default().feed(bytes, &mut text);
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let shown = lines[lines.len().saturating_sub(LAST_LINES)..].iter();
    let shown = shown.map(|line| format!("\n  {}", line.chars().take(LAST_LINE_CHARS).collect::<String>()));
    format!("; it printed last:{}", shown.collect::<String>())
}

fn owner_dir(root: &Path, session: &SessionId) -> std::path::PathBuf {
    root.join("sessions").join(session.as_str())
}

/// The keeper of a session that wants to own a helper.
fn keeper_of_owner(root: &Path, session: &SessionId) -> Result<(Identity, Pidfd), Problem> {
    keepers::keeper_of(&owner_dir(root, session)).map_err(|no_keeper| match no_keeper {
        NoKeeper::Unknown => Problem::new(Code::NotFound, format!("there is no session {session}"))
            .hint("`berth ls --all` lists the sessions there are"),
        NoKeeper::NotKept => Problem::new(
            Code::Refused,
            format!("session {session} is not running; only a running session can own a helper"),
        )
        .hint(format!("start it with `berth resume {session}`")),
        NoKeeper::OtherAccount(uid) => Problem::new(
            Code::Refused,
            format!("session {session} belongs to another account (uid {uid}) and cannot own your helper"),
        )
        .hint("name a session of your own with --owner S"),
        NoKeeper::CannotTell(why) => Problem::new(
            Code::Refused,
            format!("cannot tell whether session {session} is running, so it cannot own a helper: {why}"),
        )
        .hint(format!("`berth why {session}` shows what is known about it")),
    })
}
