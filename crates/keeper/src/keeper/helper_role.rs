//! The role of a helper: the keepers of the sessions that own it, and whether it is ready.
//!
//! Promise: an owner whose keeper ends is noticed by the kernel, also if it ends while it is being looked up, and also
//! after this keeper replaced its own program.
//! Not here: the rules (`berth_core::owners`), requests about owners (`helper_requests`), signs
//! of readiness (`readiness`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use berth_api::Problem;
use berth_core::{Observation, RunPhase, Session, SessionId};
use berth_host::identity::{Pidfd, ProcessIdentity};
use berth_store::keepers::NoKeeper;
use berth_store::state_dir::StateDir;

use super::event_loop::{Epoll, FIRST_OWNER};
use super::identity::KeeperIdentity;
use super::readiness::ReadinessCheck;
use crate::spawn_keeper::LOOKING_SINCE;

/// The owners of this helper and its readiness; empty for a session.
#[derive(Debug)]
pub(super) struct HelperRole {
    epoll: Epoll,
    watched: BTreeMap<u64, WatchedOwner>,
    next_token: u64,
    /// Owners whose state is unknown. They are checked again.
    unclear: Vec<SessionId>,
    /// Set until the helper is ready or is known never to be.
    probe: Option<ReadinessCheck>,
}

/// One keeper of an owner. A resumed session has another keeper, which is not the one that ends.
#[derive(Debug)]
struct WatchedOwner {
    session: SessionId,
    keeper: ProcessIdentity,
    pidfd: Pidfd,
}

/// The result of checking an owner again.
#[derive(Debug)]
pub(super) enum OwnerCheck {
    Watched,
    Gone,
    /// The state is unknown; the text says why.
    Unclear(String),
}

impl HelperRole {
    pub(super) fn new(epoll: Epoll) -> Self {
        Self { epoll, watched: BTreeMap::new(), next_token: FIRST_OWNER, unclear: Vec::new(), probe: None }
    }

    // Owners of the helper.

    /// The tokens under which keepers of this owner are watched.
    pub(super) fn tokens_of(&self, session: &SessionId) -> Vec<u64> {
        self.watched.iter().filter(|(_, it)| it.session == *session).map(|(token, _)| *token).collect()
    }

    /// True if this keeper of an owner is watched already.
    pub(super) fn watches(&self, session: &SessionId, keeper: &ProcessIdentity) -> bool {
        self.watched.values().any(|it| it.session == *session && it.keeper == *keeper)
    }

    pub(super) fn watch(
        &mut self,
        session: SessionId,
        keeper: ProcessIdentity,
        pidfd: Pidfd,
    ) -> io::Result<u64> {
        let token = self.next_token;
        // Level-triggered: the end of a process before this line is reported all the same.
        self.epoll.add_readable(&pidfd, token)?;
        self.next_token += 1;
        self.watched.insert(token, WatchedOwner { session, keeper, pidfd });
        Ok(token)
    }

    pub(super) fn unwatch(&mut self, tokens: impl IntoIterator<Item = u64>) {
        tokens.into_iter().for_each(|token| drop(self.end_of(token)));
    }

    /// Stops watching the keeper of an owner. Returns the owner.
    pub(super) fn end_of(&mut self, token: u64) -> Option<SessionId> {
        let WatchedOwner { session, pidfd, .. } = self.watched.remove(&token)?;
        self.epoll.remove(&pidfd);
        Some(session)
    }

    /// Watches a recorded owner in a new image: descriptors did not come along.
    pub(super) fn watch_again(&mut self, home: &StateDir, session: &SessionId) -> OwnerCheck {
        match home.sessions().session(session).keeper() {
            Ok((keeper, pidfd)) => match self.watch(session.clone(), keeper, pidfd) {
                Ok(_) => OwnerCheck::Watched,
                Err(error) => OwnerCheck::Unclear(error.to_string()),
            },
            Err(NoKeeper::Unknown | NoKeeper::NotKept | NoKeeper::OtherAccount(_)) => OwnerCheck::Gone,
            Err(NoKeeper::CannotTell(why)) => OwnerCheck::Unclear(why),
        }
    }

    /// Schedules another check of an owner.
    pub(super) fn note_unclear(&mut self, session: SessionId) {
        self.unclear.push(session);
    }

    pub(super) fn take_unclear(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.unclear)
    }

    /// The state of this owner is known again.
    pub(super) fn forget_unclear(&mut self, session: &SessionId) {
        self.unclear.retain(|unclear| unclear != session);
    }

    // Readiness of the helper.

    /// Starts the readiness probe, if this is a helper with signs of readiness that is not ready yet.
    /// `since_awake_ms`: the start of the previous image's probe. Returns the reason if the helper can never be ready.
    pub(super) fn begin_probe(
        &mut self,
        session: &Session,
        since_awake_ms: Option<u64>,
    ) -> Option<Observation> {
        match ReadinessCheck::begin(session, since_awake_ms)? {
            Ok(probe) => self.probe = Some(probe),
            Err(reason) => return Some(Observation::NotReady { epoch: session.epoch, reason }),
        }
        None
    }

    /// The time of the next look, on the boot clock.
    pub(super) fn probe_at_ms(&self) -> Option<u64> {
        self.probe.as_ref().map(ReadinessCheck::due_ms)
    }

    /// The argument with which a new image continues the probe.
    pub(super) fn probe_argument(&self) -> Option<OsString> {
        self.probe.as_ref().map(|probe| format!("{LOOKING_SINCE}{}", probe.since_awake_ms()).into())
    }

    /// Looks, if it is time to. Returns the result once it is known.
    pub(super) fn probe(
        &mut self,
        session: &Session,
        identity: &KeeperIdentity,
        output_end: u64,
    ) -> Option<Observation> {
        let mut probe = self.probe.take()?;
        match session.phase {
            RunPhase::Starting | RunPhase::Running { .. } => {}
            // The helper will not be ready any more, and the waiting clients are told so.
            RunPhase::New | RunPhase::Ending(_) | RunPhase::Ended { .. } => return None,
        }
        let found = probe.probe_if_due(session.epoch, identity, output_end);
        if found.is_none() {
            self.probe = Some(probe);
        }
        found
    }
}

/// The keeper of a session that wants to own a helper.
pub(super) fn keeper_of_owner(
    home: &StateDir,
    session: &SessionId,
) -> Result<(ProcessIdentity, Pidfd), Problem> {
    home.sessions().session(session).keeper().map_err(|no_keeper| match no_keeper {
        NoKeeper::Unknown => Problem::not_found(format!("there is no session {session}"))
            .hint("`berth ls --all` lists the sessions there are"),
        NoKeeper::NotKept => Problem::refused(format!(
            "session {session} is not running; only a running session can own a helper"
        ))
        .hint(format!("start it with `berth resume {session}`")),
        NoKeeper::OtherAccount(uid) => Problem::refused(format!(
            "session {session} belongs to another account (uid {uid}) and cannot own your helper"
        ))
        .hint("name a session of your own with --owner S"),
        NoKeeper::CannotTell(why) => Problem::refused(format!(
            "cannot tell whether session {session} is running, so it cannot own a helper: {why}"
        ))
        .hint(format!("`berth why {session}` shows what is known about it")),
    })
}
