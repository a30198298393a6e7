//! Who asks, as far as it matters what they may: somebody outside of all sessions, or an agent.
//!
//! Promise: what is done without a keeper obeys the same table (`berth_core::may`) as what a keeper is asked.
//! Not here: the evidence (see `berth_keeper::callers`), tokens (see the gateway).
//! Start with [`Ctx::from_here`] and [`of_pid`]; then [`Ctx::may`].

use std::os::fd::AsFd;

use berth_api::message::Asker;
use berth_api::{Code, Problem, Scope};
use berth_core::{Deed, Grant, SessionId, Target};
use berth_keeper::callers::{self, Seen};
use berth_store::{Home, view};

pub use berth_keeper::callers::Inside;

use crate::ctx::Ctx;

/// The sessions a process is inside of, the strongest evidence first; none if it is outside of all. Usually it is one;
/// who is inside of several may do what all of them allow. A problem if nobody can tell: then it may look, and no more.
pub fn of_pid(home: &Home, pid: u32) -> Result<Vec<Inside>, Problem> {
    told(callers::of_process(home, pid))
}

/// The same for whoever is at the other end of a local connection: it is the very process that connected.
pub fn of_peer(home: &Home, stream: &impl AsFd) -> Result<Vec<Inside>, Problem> {
    told(callers::of_peer(home, stream))
}

fn told(seen: Seen) -> Result<Vec<Inside>, Problem> {
    match seen {
        Seen::Outside => Ok(vec![]),
        Seen::Inside(all) => Ok(all),
        Seen::Unseen(why) => {
            Err(Problem::new(Code::NotAllowed, format!("it cannot be told who asks: {why}"))
                .hint("the calling process has to stay until it is done, where /proc shows it"))
        }
    }
}

/// How far an agent may go at a door that asks for scopes. What is about one session is looked at more closely
/// by whoever does it, and there its children are its own.
pub fn scope_of(grant: Grant) -> Scope {
    match grant {
        Grant::Nothing | Grant::Send | Grant::Control => Scope::Control,
        Grant::Admin => Scope::Admin,
    }
}

/// The same where nobody knows its children: no further than the grant itself.
pub fn scope_elsewhere(grant: Grant) -> Scope {
    match grant {
        Grant::Nothing => Scope::Read,
        Grant::Send => Scope::Send,
        Grant::Control => Scope::Control,
        Grant::Admin => Scope::Admin,
    }
}

/// What a session was given.
pub fn grant_of(home: &Home, session: &SessionId) -> Grant {
    callers::inside(home, session.clone()).grant
}

impl Ctx {
    /// The same for this very process: what it starts is a child of the session it is inside of.
    pub fn from_here(self) -> Self {
        match callers::of_process(&self.home, std::process::id()) {
            // The numbers of /proc may be those of another pid namespace, and then nobody can tell.
            Seen::Unseen(why) => Self { unseen: Some(why), ..self },
            Seen::Outside => self,
            Seen::Inside(all) => {
                let mut sessions = all.into_iter().map(|inside| inside.session);
                Self { parent: sessions.next(), also: sessions.collect(), ..self }
            }
        }
    }

    /// Who asks, for a keeper.
    pub fn asker(&self) -> Asker {
        let also = self.also.iter().map(ToString::to_string).collect();
        Asker { place: self.place.clone(), agent: self.parent.as_ref().map(ToString::to_string), also }
    }

    fn seen(&self) -> Seen {
        match (&self.unseen, &self.parent) {
            (Some(why), _) => Seen::Unseen(why.clone()),
            (None, None) => Seen::Outside,
            (None, Some(agent)) => {
                let all = std::iter::once(agent).chain(&self.also);
                Seen::Inside(all.map(|agent| callers::inside(&self.home, agent.clone())).collect())
            }
        }
    }

    /// Refuses what whoever asks may not do to a session.
    pub fn may(&self, deed: Deed, id: &SessionId) -> Result<(), Problem> {
        if self.parent.is_none() && self.unseen.is_none() {
            return Ok(());
        }
        let known = view::status(&self.home, id).ok();
        let handle = known.as_ref().map_or_else(|| id.to_string(), |known| known.handle().to_owned());
        let parent = known.and_then(|known| known.what.parent);
        let target = |inside: &SessionId| callers::target(&self.home, inside, id, parent.as_deref());
        self.seen().allow(deed, &handle, target)
    }

    /// The same for what is about no session in particular; `what` is what it is about.
    pub fn may_at_all(&self, deed: Deed, what: &str) -> Result<(), Problem> {
        self.seen().allow(deed, what, |_| Target::Nobody)
    }
}
