//! Identity and rights of a caller: a process outside of all sessions, or an agent inside of one.
//!
//! Promise: an operation without a keeper obeys the same table of rights (`berth_core::check_permission`) as a request to a keeper.
//! Not here: the evidence for attribution (see `berth_procs::callers`), tokens (see the gateway).
//! Start with [`VerbContext::from_here`] and [`of_pid`]; then [`VerbContext::may`].

use std::os::fd::AsFd;

use berth_api::message::ClaimedCaller;
use berth_api::{AccessScope, Problem};
use berth_core::{ActionTarget, CallerAction, Grant, SessionId};
use berth_procs::callers::{self, CallerAttribution};
use berth_store::{StateDir, session_status};

pub use berth_procs::callers::EnclosingSession;

use crate::context::VerbContext;

/// The sessions that a process is inside of, the strongest evidence first; empty if it is outside of all. Usually there
/// is one; a process inside of several has only the rights that all of them allow. An error means that attribution is
/// not possible: such a caller may read, and no more.
pub fn of_pid(home: &StateDir, pid: u32) -> Result<Vec<EnclosingSession>, Problem> {
    enclosing_sessions(callers::sessions_around_process(home, pid))
}

/// The sessions of the process at the other end of a local connection. The kernel names the process that connected.
pub fn of_peer(home: &StateDir, stream: &impl AsFd) -> Result<Vec<EnclosingSession>, Problem> {
    enclosing_sessions(callers::sessions_around_peer(home, stream))
}

fn enclosing_sessions(seen: CallerAttribution) -> Result<Vec<EnclosingSession>, Problem> {
    match seen {
        CallerAttribution::Outside => Ok(vec![]),
        CallerAttribution::Inside(all) => Ok(all),
        CallerAttribution::Unseen(why) => {
            Err(Problem::not_allowed(format!("cannot identify the caller: {why}"))
                .hint("keep the calling process alive until the answer arrives, and visible in /proc"))
        }
    }
}

/// The scope of an agent with this grant, where access is checked by scope. An operation on one session checks the
/// grant itself again, because an agent has more rights over its own child sessions.
pub fn scope_of(grant: Grant) -> AccessScope {
    match grant {
        Grant::Nothing | Grant::Send | Grant::Control => AccessScope::Control,
        Grant::Admin => AccessScope::Admin,
    }
}

/// The scope of an agent with this grant on another host, where its child sessions are not known: no further than the
/// grant itself.
pub fn scope_elsewhere(grant: Grant) -> AccessScope {
    match grant {
        Grant::Nothing => AccessScope::Read,
        Grant::Send => AccessScope::Send,
        Grant::Control => AccessScope::Control,
        Grant::Admin => AccessScope::Admin,
    }
}

/// The grant of a session.
pub fn grant_of(home: &StateDir, session: &SessionId) -> Grant {
    callers::enclosing_session(home, session.clone()).grant
}

impl VerbContext {
    /// Adds the sessions that this process is inside of: new sessions become children of the innermost one.
    pub fn from_here(self) -> Self {
        match callers::sessions_around_process(&self.home, std::process::id()) {
            // The pid numbers in /proc may belong to another pid namespace, so attribution is not possible.
            CallerAttribution::Unseen(why) => Self { unseen: Some(why), ..self },
            CallerAttribution::Outside => self,
            CallerAttribution::Inside(all) => {
                let mut sessions = all.into_iter().map(|inside| inside.session);
                Self { parent: sessions.next(), also: sessions.collect(), ..self }
            }
        }
    }

    /// The caller's identity in the form that a keeper expects.
    pub fn asker(&self) -> ClaimedCaller {
        let also = self.also.iter().map(ToString::to_string).collect();
        ClaimedCaller {
            place: self.place.clone(),
            agent: self.parent.as_ref().map(ToString::to_string),
            also,
        }
    }

    fn seen(&self) -> CallerAttribution {
        match (&self.unseen, &self.parent) {
            (Some(why), _) => CallerAttribution::Unseen(why.clone()),
            (None, None) => CallerAttribution::Outside,
            (None, Some(agent)) => {
                let all = std::iter::once(agent).chain(&self.also);
                CallerAttribution::Inside(
                    all.map(|agent| callers::enclosing_session(&self.home, agent.clone())).collect(),
                )
            }
        }
    }

    /// Refuses an operation on a session that the caller's grant or scope does not allow.
    pub fn may(&self, action: CallerAction, id: &SessionId) -> Result<(), Problem> {
        if self.parent.is_none() && self.unseen.is_none() {
            return Ok(());
        }
        let known = session_status::status(&self.home, id).ok();
        let handle = known.as_ref().map_or_else(|| id.to_string(), |known| known.handle().to_owned());
        let parent = known.and_then(|known| known.what.parent);
        let target = |inside: &SessionId| {
            callers::action_target_with_parent(&self.home, inside, id, parent.as_deref())
        };
        self.seen().allow(action, &handle, target)
    }

    /// Refuses an operation that is not about one session; `what` names its object in the error.
    pub fn may_at_all(&self, action: CallerAction, what: &str) -> Result<(), Problem> {
        self.seen().allow(action, what, |_| ActionTarget::NoSession)
    }
}
