//! The role of a helper: the keepers of the sessions that own it, and whether it is ready.
//!
//! Promise: an owner whose keeper ends is noticed by the kernel, also if it ends while it is being looked up, and also
//! after this keeper replaced its own program.
//! Not here: the rules (`berth_core::owners`), requests about owners (`helper_requests`), signs of readiness
//! (`readiness`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use berth_api::{Code, Problem};
use berth_core::{Observation, Phase, Session, SessionId};
use berth_host::identity::{Identity, Pidfd};
use berth_store::home::Home;
use berth_store::keepers::NoKeeper;

use super::event_loop::{Epoll, FIRST_OWNER};
use super::identity::KeeperIdentity;
use super::readiness::ReadinessProbe;
use crate::start::LOOKING_SINCE;

/// The owners of this helper and its readiness; empty for a session.
#[derive(Debug)]
pub(super) struct HelperRole {
    epoll: Epoll,
    watched: BTreeMap<u64, WatchedOwner>,
    next_token: u64,
    /// Owners of which it could not be told whether they are still there. They are looked at again.
    unclear: Vec<SessionId>,
    /// Set until the helper is ready or is known never to be.
    probe: Option<ReadinessProbe>,
}

/// One keeper of an owner. A session that was resumed has another one, which is not the one that dies.
#[derive(Debug)]
struct WatchedOwner {
    session: SessionId,
    keeper: Identity,
    pidfd: Pidfd,
}

/// What came of looking at an owner again.
#[derive(Debug)]
pub(super) enum OwnerCheck {
    Watched,
    Gone,
    /// It cannot be told; the text says why.
    Unclear(String),
}

impl HelperRole {
    pub(super) fn new(epoll: Epoll) -> Self {
        Self { epoll, watched: BTreeMap::new(), next_token: FIRST_OWNER, unclear: Vec::new(), probe: None }
    }

    // Owners.

    /// The tokens under which keepers of this owner are watched.
    pub(super) fn tokens_of(&self, session: &SessionId) -> Vec<u64> {
        self.watched.iter().filter(|(_, it)| it.session == *session).map(|(token, _)| *token).collect()
    }

    /// True if this keeper of an owner is watched already.
    pub(super) fn watches(&self, session: &SessionId, keeper: &Identity) -> bool {
        self.watched.values().any(|it| it.session == *session && it.keeper == *keeper)
    }

    pub(super) fn watch(&mut self, session: SessionId, keeper: Identity, pidfd: Pidfd) -> io::Result<u64> {
        let token = self.next_token;
        // Level-triggered: a process that ended before this line is reported all the same.
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
    pub(super) fn watch_again(&mut self, home: &Home, session: &SessionId) -> OwnerCheck {
        match home.sessions().session(session).keeper() {
            Ok((keeper, pidfd)) => match self.watch(session.clone(), keeper, pidfd) {
                Ok(_) => OwnerCheck::Watched,
                Err(error) => OwnerCheck::Unclear(error.to_string()),
            },
            Err(NoKeeper::Unknown | NoKeeper::NotKept | NoKeeper::OtherAccount(_)) => OwnerCheck::Gone,
            Err(NoKeeper::CannotTell(why)) => OwnerCheck::Unclear(why),
        }
    }

    /// Has an owner looked at again later.
    pub(super) fn note_unclear(&mut self, session: SessionId) {
        self.unclear.push(session);
    }

    pub(super) fn take_unclear(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.unclear)
    }

    /// It is known again whether this owner is there.
    pub(super) fn forget_unclear(&mut self, session: &SessionId) {
        self.unclear.retain(|unclear| unclear != session);
    }

    // Readiness.

    /// Begins to look for signs of readiness, if this is a helper that has some and is not ready yet. `since_awake_ms`:
    /// when the image before this one began to. Returns why it never will be ready, if that is known.
    pub(super) fn begin_probe(
        &mut self,
        session: &Session,
        since_awake_ms: Option<u64>,
    ) -> Option<Observation> {
        match ReadinessProbe::begin(session, since_awake_ms)? {
            Ok(probe) => self.probe = Some(probe),
            Err(reason) => return Some(Observation::NotReady { epoch: session.epoch, reason }),
        }
        None
    }

    /// When to look again, on the boot clock.
    pub(super) fn probe_at_ms(&self) -> Option<u64> {
        self.probe.as_ref().map(ReadinessProbe::due_ms)
    }

    /// The argument with which a new image goes on looking.
    pub(super) fn probe_argument(&self) -> Option<OsString> {
        self.probe.as_ref().map(|probe| format!("{LOOKING_SINCE}{}", probe.since_awake_ms()).into())
    }

    /// Looks, if it is time to. Returns whether the helper got ready, once that is known.
    pub(super) fn probe(
        &mut self,
        session: &Session,
        identity: &KeeperIdentity,
        output_end: u64,
    ) -> Option<Observation> {
        let mut probe = self.probe.take()?;
        match session.phase {
            Phase::Starting | Phase::Running { .. } => {}
            // It will not be ready any more, and the clients that wait are told so.
            Phase::New | Phase::Ending(_) | Phase::Ended { .. } => return None,
        }
        let found = probe.look(session.epoch, identity, output_end);
        if found.is_none() {
            self.probe = Some(probe);
        }
        found
    }
}

/// The keeper of a session that wants to own a helper.
pub(super) fn keeper_of_owner(home: &Home, session: &SessionId) -> Result<(Identity, Pidfd), Problem> {
    home.sessions().session(session).keeper().map_err(|no_keeper| match no_keeper {
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
