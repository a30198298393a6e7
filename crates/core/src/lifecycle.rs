//! Life cycle of a session besides running: archive, restore, tags, note and policy.
//!
//! Promise: only a session that does not run is archived, and an archived session runs again only after it was
//! restored. Every command may be repeated: the second time changes nothing, except for a time to live, which
//! counts from the moment it is given.
//! Not here: proving that nothing runs, and deciding when a session was at rest for long enough (see `keeper`).
//! Start with [`archive`].

use crate::turns::{OnFailed, OnUnknown, ReleaseReason, SessionExpiry};
use crate::{Actor, ClockReading, Event, NotificationPolicy, Refusal, SafeName, Session, SessionPolicy};

/// Limit of the number of tags of a session.
pub(crate) const MOST_TAGS: usize = 32;
/// Limit of the size of a note, in bytes.
pub const MAX_NOTE_BYTES: usize = 4096;

/// Change of one time limit of a [`SessionPolicy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimeoutChange {
    /// Keep the limit as it is.
    #[default]
    Same,
    /// Remove the limit.
    Never,
    /// Set the limit to this many milliseconds.
    After(u64),
}

impl TimeoutChange {
    fn of(self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::Same => before,
            Self::Never => None,
            Self::After(ms) => Some(ms),
        }
    }
}

/// Changes to a [`SessionPolicy`]. Settings without a change stay, so that two clients who change different settings do
/// not undo each other's changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PolicyChange {
    /// Change of [`SessionPolicy::idle_ms`].
    pub idle: TimeoutChange,
    /// Change of [`SessionPolicy::ttl_ms`]. The time counts from now, or from the next run.
    pub ttl: TimeoutChange,
    /// Change of [`SessionPolicy::archive_after_ms`].
    pub archive_after: TimeoutChange,
    /// Change of [`SessionPolicy::on_unknown`].
    pub on_unknown: Option<OnUnknown>,
    /// Change of [`SessionPolicy::on_failed`].
    pub on_failed: Option<OnFailed>,
    /// Change of [`SessionPolicy::notify`].
    pub notify: Option<NotificationPolicy>,
}

impl PolicyChange {
    /// Applies the changes to a policy.
    pub fn of(&self, before: &SessionPolicy) -> SessionPolicy {
        SessionPolicy {
            idle_ms: self.idle.of(before.idle_ms),
            ttl_ms: self.ttl.of(before.ttl_ms),
            archive_after_ms: self.archive_after.of(before.archive_after_ms),
            on_unknown: self.on_unknown.unwrap_or(before.on_unknown),
            on_failed: self.on_failed.unwrap_or(before.on_failed),
            notify: self.notify.as_ref().unwrap_or(&before.notify).clone(),
        }
    }
}

/// Archives a session that does not run.
pub(crate) fn archive(session: &Session, by: Actor) -> Result<Vec<Event>, Refusal> {
    if session.is_live() {
        return Err(Refusal::StillRunning);
    }
    Ok(if session.archived { vec![] } else { vec![Event::Archived { by }] })
}

/// Restores an archived session. It runs only after a further request.
pub(crate) fn restore(session: &Session, by: Actor) -> Vec<Event> {
    if session.archived { vec![Event::Restored { by }] } else { vec![] }
}

/// Adds and removes tags.
pub(crate) fn tag(session: &Session, add: Vec<SafeName>, remove: &[SafeName]) -> Result<Vec<Event>, Refusal> {
    let mut tags = session.tags.clone();
    tags.extend(add);
    tags.retain(|tag| !remove.contains(tag));
    tags.sort();
    tags.dedup();
    if tags.len() > MOST_TAGS {
        return Err(Refusal::TooManyTags { limit: MOST_TAGS });
    }
    Ok(if tags == session.tags { vec![] } else { vec![Event::TagsChanged { tags }] })
}

/// Replaces the note.
pub(crate) fn note(session: &Session, note: Option<String>) -> Result<Vec<Event>, Refusal> {
    let note = note.filter(|note| !note.is_empty());
    if let Some(bytes) = note.as_ref().map(String::len).filter(|bytes| *bytes > MAX_NOTE_BYTES) {
        return Err(Refusal::NoteTooLong { bytes, limit: MAX_NOTE_BYTES });
    }
    Ok(if note == session.note { vec![] } else { vec![Event::NoteChanged { note }] })
}

/// Changes the policy, from now on.
pub(crate) fn set_policy(
    session: &Session,
    change: &PolicyChange,
    now: ClockReading,
) -> Result<Vec<Event>, Refusal> {
    let before = session.policy();
    let policy = change.of(&before);
    // A limit that is given again counts anew, even if it is equal: its sender means "from now on".
    let is_new_time = match change.ttl {
        TimeoutChange::Same => false,
        TimeoutChange::Never => before.ttl_ms.is_some(),
        TimeoutChange::After(_) => true,
    };
    // An expired session was ended for good; another time to live does not undo that.
    if is_new_time && session.released == Some(ReleaseReason::Expired) {
        return Err(Refusal::Expired);
    }
    // The limit of a session at rest begins with its next run.
    let live = session.keeper.as_ref().filter(|_| is_new_time && session.is_live());
    let expiry = live.zip(policy.ttl_ms).map(|(keeper, ttl_ms)| Event::ExpirySet {
        expiry: SessionExpiry { boot: keeper.boot.clone(), boot_ms: now.boot_ms.saturating_add(ttl_ms) },
    });
    let set = (policy != before).then_some(Event::PolicySet { policy });
    Ok(set.into_iter().chain(expiry).collect())
}

impl Session {
    /// Policy of the session, or the default before it is created.
    pub fn policy(&self) -> SessionPolicy {
        self.spec.as_ref().map(|spec| spec.policy.clone()).unwrap_or_default()
    }

    /// A changed time to live begins anew: with [`Event::ExpirySet`] if the session runs, else with the next run.
    pub(crate) fn apply_policy(&mut self, policy: &SessionPolicy) {
        let Some(spec) = &mut self.spec else { return };
        if spec.policy.ttl_ms != policy.ttl_ms {
            self.expiry = None;
        }
        spec.policy = policy.clone();
    }
}
