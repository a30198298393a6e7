//! Helpers: sessions that other sessions share, and the set of those who own one.
//!
//! Promise: when the last owner has left, the run is stopped exactly once, after the linger time. While the
//! helper has an owner, it is never stopped for being idle. A session joins only a run whose end was not
//! requested. An owner is a session id, never a directory.
//! Not here: noticing that an owner is gone and checking whether a helper is ready (the keeper reports both),
//! finding a helper by its name.
//! Start with [`HelperSharing`], then [`join`] and [`leave`].

use std::collections::VecDeque;
use std::time::Duration;

use crate::{
    Actor, ClockReading, Epoch, Event, Refusal, RunPhase, SafeName, Session, SessionId, SessionSpec,
};

#[cfg(test)]
mod tests;

/// Limit of the number of owners. Each costs its keeper a descriptor.
const MOST_OWNERS: usize = 256;
/// Number of former owners that are remembered, so that leaving twice is not an error.
const REMEMBERED: usize = 256;
/// Time between the polite signal and the kill, for a helper without owners or one that never got ready.
pub const OWNERLESS_GRACE: Duration = Duration::from_secs(2);

/// The parts of a session that make it a helper: its terms, the owners of the current run, and its readiness.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HelperSharing {
    /// Name, scope and time limits.
    pub terms: HelperTerms,
    /// Owners of the current run, in the order they joined.
    pub owners: Vec<HelperOwner>,
    /// Former owners, the latest last.
    pub past: VecDeque<SessionId>,
    /// Time at which the helper is stopped for having no owner, on the boot clock; `None` while it has one.
    pub stop_at_boot_ms: Option<u64>,
    /// Readiness of the current or last run.
    pub readiness: HelperReadiness,
}

/// Terms on which sessions share a helper. Part of its record; the name and the scope never change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HelperTerms {
    /// Name of the helper.
    pub name: SafeName,
    /// Callers among which the name means this helper.
    pub scope: HelperScope,
    /// Time that the helper stays after its last owner has left, in milliseconds.
    pub linger_ms: u64,
    /// Condition that makes it ready. `None`: it is ready as soon as it runs.
    pub ready: Option<ReadinessProbe>,
    /// Time that it may take to get ready, in milliseconds.
    pub ready_within_ms: u64,
}

/// Callers among which a helper's name means the same helper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HelperScope {
    /// Callers in this directory.
    Dir(String),
    /// All callers of the account.
    User,
}

/// Condition that makes a helper ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadinessProbe {
    /// A process of the run listens on this port.
    Tcp(u16),
    /// A process of the run listens on this socket.
    Unix(String),
    /// The run's output has a match of this pattern.
    Line(String),
}

/// Readiness of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HelperReadiness {
    /// Not ready yet.
    #[default]
    Awaited,
    /// Ready, at this address if it has one.
    Ready(Option<String>),
    /// Not ready in time, for this reason.
    Never(String),
}

/// An owner of a helper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HelperOwner {
    /// Id of the owning session.
    pub session: SessionId,
    /// True if the owner wants to keep the helper between its own turns as well.
    pub keep: bool,
}

/// Reason why an owner left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaveReason {
    /// A client released the helper.
    Released,
    /// The owner's run ended, or its keeper died.
    Gone,
}

impl HelperSharing {
    /// A helper without owners.
    pub fn new(terms: HelperTerms) -> Self {
        let (owners, past) = (Vec::new(), VecDeque::new());
        Self { terms, owners, past, stop_at_boot_ms: None, readiness: HelperReadiness::Awaited }
    }

    /// True if the session owns the current run.
    pub fn is_owner(&self, session: &SessionId) -> bool {
        self.owners.iter().any(|owner| owner.session == *session)
    }

    /// True if the session owned the helper once and does not any more.
    pub fn was_owner(&self, session: &SessionId) -> bool {
        self.past.contains(session)
    }

    fn joined(&mut self, owner: &HelperOwner) {
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
        self.readiness = HelperReadiness::Awaited;
        self.run_ended();
    }

    /// Clears the owners: a session owns one run, and asks again for the next one.
    pub(crate) fn run_ended(&mut self) {
        self.stop_at_boot_ms = None;
        for owner in std::mem::take(&mut self.owners) {
            self.remember(owner.session);
        }
    }
}

impl Session {
    /// Address of a helper that is ready (`None` inside if it has none); `None` if it is not.
    pub fn ready(&self) -> Option<Option<&str>> {
        let sharing = self.sharing.as_ref()?;
        match (&self.phase, &sharing.terms.ready, &sharing.readiness) {
            (RunPhase::Running { .. }, None, _) => Some(None),
            (RunPhase::Running { .. }, Some(_), HelperReadiness::Ready(address)) => Some(address.as_deref()),
            (RunPhase::Running { .. }, Some(_), HelperReadiness::Awaited | HelperReadiness::Never(_)) => None,
            (RunPhase::New | RunPhase::Starting | RunPhase::Ending(_) | RunPhase::Ended { .. }, _, _) => None,
        }
    }

    /// Time at which a helper without owners is stopped, on the boot clock.
    pub fn idle_end_boot_ms(&self) -> Option<u64> {
        self.sharing.as_ref()?.stop_at_boot_ms.filter(|_| may_be_used(self))
    }

    pub(crate) fn apply_shared(&mut self, change: impl FnOnce(&mut HelperSharing)) {
        if let Some(sharing) = &mut self.sharing {
            change(sharing);
        }
    }
}

/// True if a run is live and no client has asked for its end.
fn may_be_used(session: &Session) -> bool {
    match session.phase {
        RunPhase::Starting | RunPhase::Running { .. } => true,
        RunPhase::New | RunPhase::Ending(_) | RunPhase::Ended { .. } => false,
    }
}

/// Declares the terms of a helper. Allowed only between its runs, and never with the name or scope of another helper.
pub(crate) fn declare(
    session: &Session,
    spec: SessionSpec,
    terms: HelperTerms,
) -> Result<Vec<Event>, Refusal> {
    let Some(known) = &session.spec else { return Err(Refusal::NotCreated) };
    if session.is_live() {
        return Err(Refusal::AlreadyRunning);
    }
    let is_other = match &session.sharing {
        Some(sharing) => (&sharing.terms.name, &sharing.terms.scope) != (&terms.name, &terms.scope),
        // A record of an older version has a name at most.
        None => session.name.as_ref().is_some_and(|name| *name != terms.name),
    };
    if is_other {
        return Err(Refusal::OtherHelper);
    }
    let mut events = Vec::new();
    if *known != spec {
        events.push(Event::CommandChanged { spec });
    }
    if session.sharing.as_ref().is_none_or(|sharing| sharing.terms != terms) {
        events.push(Event::HelperDeclared { terms });
    }
    Ok(events)
}

pub(crate) fn join(session: &Session, owner: HelperOwner) -> Result<Vec<Event>, Refusal> {
    let Some(sharing) = &session.sharing else { return Err(Refusal::NotShared) };
    match session.phase {
        RunPhase::Starting | RunPhase::Running { .. } => {}
        RunPhase::Ending(_) => return Err(Refusal::BeingEnded),
        RunPhase::New | RunPhase::Ended { .. } => return Err(Refusal::NotRunning),
    }
    if sharing.owners.contains(&owner) {
        return Ok(vec![]);
    }
    if sharing.owners.len() >= MOST_OWNERS && !sharing.is_owner(&owner.session) {
        return Err(Refusal::TooManyOwners { limit: MOST_OWNERS });
    }
    Ok(vec![Event::OwnerJoined { owner }])
}

pub(crate) fn leave(session: &Session, owner: SessionId, now: ClockReading) -> Result<Vec<Event>, Refusal> {
    let Some(sharing) = &session.sharing else { return Err(Refusal::NotShared) };
    if sharing.is_owner(&owner) {
        return Ok(left(session, sharing, owner, LeaveReason::Released, now));
    }
    if sharing.was_owner(&owner) { Ok(vec![]) } else { Err(Refusal::NotOwner { owner }) }
}

pub(crate) fn owner_gone(session: &Session, owner: &SessionId, now: ClockReading) -> Vec<Event> {
    match &session.sharing {
        Some(sharing) if sharing.is_owner(owner) => {
            left(session, sharing, owner.clone(), LeaveReason::Gone, now)
        }
        Some(_) | None => vec![],
    }
}

/// Sets the time of the stop when the last owner leaves. Without a linger time the stop is in the same commit: at
/// no moment is the run doomed and can still be joined.
fn left(
    session: &Session,
    sharing: &HelperSharing,
    owner: SessionId,
    why: LeaveReason,
    now: ClockReading,
) -> Vec<Event> {
    let is_last = sharing.owners.len() == 1 && may_be_used(session);
    let stop_at_boot_ms = is_last.then(|| now.boot_ms.saturating_add(sharing.terms.linger_ms));
    let mut events = vec![Event::OwnerLeft { owner, why, stop_at_boot_ms }];
    if is_last && sharing.terms.linger_ms == 0 {
        events.push(stop(session, "its last owner leaving", now));
    }
    events
}

/// Stops a helper without owners when its time has come.
pub(crate) fn tick(session: &Session, now: ClockReading) -> Vec<Event> {
    match session.idle_end_boot_ms() {
        Some(stop_at) if stop_at <= now.boot_ms => vec![stop(session, "its last owner leaving", now)],
        Some(_) | None => vec![],
    }
}

pub(crate) fn became_ready(session: &Session, epoch: Epoch, address: Option<String>) -> Vec<Event> {
    match &session.sharing {
        Some(sharing)
            if epoch == session.epoch
                && may_be_used(session)
                && sharing.readiness == HelperReadiness::Awaited =>
        {
            vec![Event::BecameReady { epoch, address }]
        }
        Some(_) | None => vec![],
    }
}

pub(crate) fn never_ready(session: &Session, epoch: Epoch, reason: String, now: ClockReading) -> Vec<Event> {
    match &session.sharing {
        Some(sharing)
            if epoch == session.epoch
                && may_be_used(session)
                && sharing.readiness == HelperReadiness::Awaited =>
        {
            vec![Event::NeverReady { epoch, reason }, stop(session, "not getting ready in time", now)]
        }
        Some(_) | None => vec![],
    }
}

fn stop(session: &Session, place: &str, now: ClockReading) -> Event {
    let pid = session.keeper.as_ref().map_or(0, |keeper| keeper.pid);
    let by = Actor { pid, uid: None, place: place.to_owned() };
    let kill_at_boot_ms = now.boot_ms.saturating_add(OWNERLESS_GRACE.as_millis() as u64);
    Event::StopRequested { epoch: session.epoch, by, kill_at_boot_ms }
}

pub(crate) fn apply_joined(session: &mut Session, owner: &HelperOwner) {
    session.apply_shared(|sharing| sharing.joined(owner));
}

pub(crate) fn apply_left(session: &mut Session, owner: &SessionId, stop_at_boot_ms: Option<u64>) {
    session.apply_shared(|sharing| sharing.left(owner, stop_at_boot_ms));
}
