//! Helpers: sessions that other sessions share, and the set of those who own one.
//!
//! Promise: the last owner out stops the run, exactly once, after the time it may linger; while
//! somebody owns it, it is never stopped for being idle; whoever joins joins a run that nobody has
//! asked to end. An owner is a session id, never a directory.
//! Not here: noticing that an owner is gone, looking whether a helper is ready (the keeper reports
//! both), finding a helper by its name.
//! Start with [`Sharing`], then [`join`] and [`leave`].

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Actor, Epoch, Event, Name, Now, Phase, Refusal, Session, SessionId, Spec};

#[cfg(test)]
mod tests;

/// How many may own a helper at once. Each costs its keeper a descriptor.
const MOST_OWNERS: usize = 256;
/// How many of those who left are remembered: leaving twice is no mistake.
const REMEMBERED: usize = 256;
/// How patient the end of a helper without owners, or of one that never got ready, is with it.
pub const OWNERLESS_GRACE: Duration = Duration::from_secs(2);

/// What makes a session a helper: its terms, who owns the current run, and whether that is ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// What it is called, where, and when it ends.
    pub terms: Terms,
    /// Who owns the current run, in the order they joined.
    pub owners: Vec<Owner>,
    /// Who owned it and left, the latest last.
    pub past: VecDeque<SessionId>,
    /// Nobody owns it, and at this moment of the boot clock it is stopped for that.
    pub stop_at_boot_ms: Option<u64>,
    /// Whether the current or last run can be used.
    pub readiness: Readiness,
}

/// How a helper is shared. Part of its record; the first two never change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// What people call it.
    pub name: Name,
    /// Among whom that name means this helper.
    pub scope: Scope,
    /// How long it stays when its last owner has left.
    pub linger_ms: u64,
    /// What makes it ready. `None`: it is as soon as it runs.
    pub ready: Option<ReadyWhen>,
    /// How long it may take to get ready.
    pub ready_within_ms: u64,
}

/// Among whom a helper's name means the same helper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Callers in this directory.
    Dir(String),
    /// All callers of the account.
    User,
}

/// The sign that a helper can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadyWhen {
    /// A process of the run listens on this port.
    Tcp(u16),
    /// A process of the run listens on this socket.
    Unix(String),
    /// The run's output has a match of this pattern.
    Line(String),
}

/// Whether a run can be used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Readiness {
    /// Not seen yet.
    #[default]
    Awaited,
    /// Yes, at this address if it has one.
    Ready(Option<String>),
    /// It took too long.
    Never(String),
}

/// One who owns a helper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The session.
    pub session: SessionId,
    /// Whether it wants the helper between its turns, too.
    pub keep: bool,
}

/// Why an owner is no longer one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaving {
    /// Somebody said so.
    Released,
    /// Its run ended, or its keeper died.
    Gone,
}

impl Sharing {
    /// A helper nobody owns yet.
    pub fn new(terms: Terms) -> Self {
        let (owners, past) = (Vec::new(), VecDeque::new());
        Self { terms, owners, past, stop_at_boot_ms: None, readiness: Readiness::Awaited }
    }

    /// Whether this session owns the current run.
    pub fn is_owner(&self, session: &SessionId) -> bool {
        self.owners.iter().any(|owner| owner.session == *session)
    }

    /// Whether this session owned it once and does not any more.
    pub fn was_owner(&self, session: &SessionId) -> bool {
        self.past.contains(session)
    }

    fn joined(&mut self, owner: &Owner) {
        self.stop_at_boot_ms = None;
        self.past.retain(|past| *past != owner.session);
        match self.owners.iter_mut().find(|known| known.session == owner.session) {
            Some(known) => known.keep = owner.keep,
            None => self.owners.push(owner.clone()),
        }
    }

    fn left(&mut self, session: &SessionId, stop_at_boot_ms: Option<u64>) {
        self.owners.retain(|owner| owner.session != *session);
        self.remember(session.clone());
        self.stop_at_boot_ms = stop_at_boot_ms;
    }

    fn remember(&mut self, session: SessionId) {
        self.past.retain(|past| *past != session);
        self.past.push_back(session);
        while self.past.len() > REMEMBERED {
            self.past.pop_front();
        }
    }

    pub(crate) fn run_starting(&mut self) {
        self.readiness = Readiness::Awaited;
        self.run_ended();
    }

    /// Ownership is of a run: who wants the next one asks for it.
    pub(crate) fn run_ended(&mut self) {
        self.stop_at_boot_ms = None;
        for owner in std::mem::take(&mut self.owners) {
            self.remember(owner.session);
        }
    }
}

impl Session {
    /// The address of a helper that can be used now (`None` inside if it has none).
    pub fn ready(&self) -> Option<Option<&str>> {
        let sharing = self.sharing.as_ref()?;
        match (&self.phase, &sharing.terms.ready, &sharing.readiness) {
            (Phase::Running { .. }, None, _) => Some(None),
            (Phase::Running { .. }, Some(_), Readiness::Ready(address)) => Some(address.as_deref()),
            (Phase::Running { .. }, Some(_), Readiness::Awaited | Readiness::Never(_)) => None,
            (Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. }, _, _) => None,
        }
    }

    /// When a helper without owners is stopped, on the boot clock.
    pub fn idle_end_boot_ms(&self) -> Option<u64> {
        self.sharing.as_ref()?.stop_at_boot_ms.filter(|_| may_be_used(self))
    }

    pub(crate) fn apply_shared(&mut self, change: impl FnOnce(&mut Sharing)) {
        if let Some(sharing) = &mut self.sharing {
            change(sharing);
        }
    }
}

/// Nobody has asked for the end of the run.
fn may_be_used(session: &Session) -> bool {
    match session.phase {
        Phase::Starting | Phase::Running { .. } => true,
        Phase::New | Phase::Ending(_) | Phase::Ended { .. } => false,
    }
}

/// Says what a helper is. Only between its runs, and never something else than before.
pub(crate) fn declare(session: &Session, spec: Spec, terms: Terms) -> Result<Vec<Event>, Refusal> {
    let Some(known) = &session.spec else { return Err(Refusal::NotCreated) };
    if session.is_live() {
        return Err(Refusal::AlreadyRunning);
    }
    let is_other = match &session.sharing {
        Some(sharing) => (&sharing.terms.name, &sharing.terms.scope) != (&terms.name, &terms.scope),
        // A record of an older version knows its name at most.
        None => session.name.as_ref().is_some_and(|name| *name != terms.name),
    };
    if is_other {
        return Err(Refusal::OtherHelper);
    }
    let mut events = Vec::new();
    if *known != spec {
        events.push(Event::Respecified { spec });
    }
    if session.sharing.as_ref().is_none_or(|sharing| sharing.terms != terms) {
        events.push(Event::Declared { terms });
    }
    Ok(events)
}

pub(crate) fn join(session: &Session, owner: Owner) -> Result<Vec<Event>, Refusal> {
    let Some(sharing) = &session.sharing else { return Err(Refusal::NotShared) };
    match session.phase {
        Phase::Starting | Phase::Running { .. } => {}
        Phase::Ending(_) => return Err(Refusal::BeingEnded),
        Phase::New | Phase::Ended { .. } => return Err(Refusal::NotRunning),
    }
    if sharing.owners.contains(&owner) {
        return Ok(vec![]);
    }
    if sharing.owners.len() >= MOST_OWNERS && !sharing.is_owner(&owner.session) {
        return Err(Refusal::TooManyOwners { limit: MOST_OWNERS });
    }
    Ok(vec![Event::OwnerJoined { owner }])
}

pub(crate) fn leave(session: &Session, owner: SessionId, now: Now) -> Result<Vec<Event>, Refusal> {
    let Some(sharing) = &session.sharing else { return Err(Refusal::NotShared) };
    if sharing.is_owner(&owner) {
        return Ok(left(session, sharing, owner, Leaving::Released, now));
    }
    if sharing.was_owner(&owner) { Ok(vec![]) } else { Err(Refusal::NotOwner { owner }) }
}

pub(crate) fn gone(session: &Session, owner: &SessionId, now: Now) -> Vec<Event> {
    match &session.sharing {
        Some(sharing) if sharing.is_owner(owner) => left(session, sharing, owner.clone(), Leaving::Gone, now),
        Some(_) | None => vec![],
    }
}

/// The last one out sets the clock. If there is no time to linger, the stop is in the same commit: there
/// is no moment at which the run is doomed and somebody could join it.
fn left(session: &Session, sharing: &Sharing, owner: SessionId, why: Leaving, now: Now) -> Vec<Event> {
    let is_last = sharing.owners.len() == 1 && may_be_used(session);
    let stop_at_boot_ms = is_last.then(|| now.boot_ms.saturating_add(sharing.terms.linger_ms));
    let mut events = vec![Event::OwnerLeft { owner, why, stop_at_boot_ms }];
    if is_last && sharing.terms.linger_ms == 0 {
        events.push(stop(session, "its last owner leaving", now));
    }
    events
}

/// What time alone brings to a helper nobody owns.
pub(crate) fn tick(session: &Session, now: Now) -> Vec<Event> {
    match session.idle_end_boot_ms() {
        Some(stop_at) if stop_at <= now.boot_ms => vec![stop(session, "its last owner leaving", now)],
        Some(_) | None => vec![],
    }
}

pub(crate) fn became_ready(session: &Session, epoch: Epoch, address: Option<String>) -> Vec<Event> {
    match &session.sharing {
        Some(sharing)
            if epoch == session.epoch && may_be_used(session) && sharing.readiness == Readiness::Awaited =>
        {
            vec![Event::BecameReady { epoch, address }]
        }
        Some(_) | None => vec![],
    }
}

pub(crate) fn never_ready(session: &Session, epoch: Epoch, reason: String, now: Now) -> Vec<Event> {
    match &session.sharing {
        Some(sharing)
            if epoch == session.epoch && may_be_used(session) && sharing.readiness == Readiness::Awaited =>
        {
            vec![Event::NeverReady { epoch, reason }, stop(session, "not getting ready in time", now)]
        }
        Some(_) | None => vec![],
    }
}

fn stop(session: &Session, place: &str, now: Now) -> Event {
    let pid = session.keeper.as_ref().map_or(0, |keeper| keeper.pid);
    let by = Actor { pid, uid: None, place: place.to_owned() };
    let kill_at_boot_ms = now.boot_ms.saturating_add(OWNERLESS_GRACE.as_millis() as u64);
    Event::StopRequested { epoch: session.epoch, by, kill_at_boot_ms }
}

pub(crate) fn apply_joined(session: &mut Session, owner: &Owner) {
    session.apply_shared(|sharing| sharing.joined(owner));
}

pub(crate) fn apply_left(session: &mut Session, owner: &SessionId, stop_at_boot_ms: Option<u64>) {
    session.apply_shared(|sharing| sharing.left(owner, stop_at_boot_ms));
}
