//! What people do with a session besides running it: put it away, bring it back, sort it, write about it,
//! and say when it ends by itself.
//!
//! Promise: only what does not run is put away, and what was put away runs again only after it was brought
//! back. All of it may be asked for twice: the second time changes nothing, but for a time to live, which counts
//! from the moment it is given.
//! Not here: proving that nothing runs, and when it has been at rest for long enough (see `keeper`).
//! Start with [`archive`].

use crate::turns::{Expiry, OnFailed, OnUnknown, Release};
use crate::{Actor, Event, Name, Notify, Now, Policy, Refusal, Session};

/// How many tags a session has at most.
pub(crate) const MOST_TAGS: usize = 32;
/// The longest note, in bytes.
pub const MAX_NOTE_BYTES: usize = 4096;

/// What becomes of one of the times in a [`Policy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Term {
    /// It stays as it is.
    #[default]
    Same,
    /// It never comes.
    Never,
    /// It is this long, in milliseconds.
    After(u64),
}

impl Term {
    fn of(self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::Same => before,
            Self::Never => None,
            Self::After(ms) => Some(ms),
        }
    }
}

/// What is to be different in a [`Policy`]. The rest stays, so that two who change different things do not
/// undo each other's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PolicyChange {
    /// For [`Policy::idle_ms`].
    pub idle: Term,
    /// For [`Policy::ttl_ms`]. It counts from now, or from the next run.
    pub ttl: Term,
    /// For [`Policy::archive_after_ms`].
    pub archive_after: Term,
    /// For [`Policy::on_unknown`].
    pub on_unknown: Option<OnUnknown>,
    /// For [`Policy::on_failed`].
    pub on_failed: Option<OnFailed>,
    /// For [`Policy::notify`].
    pub notify: Option<Notify>,
}

impl PolicyChange {
    /// The policy this makes of another one.
    pub fn of(&self, before: &Policy) -> Policy {
        Policy {
            idle_ms: self.idle.of(before.idle_ms),
            ttl_ms: self.ttl.of(before.ttl_ms),
            archive_after_ms: self.archive_after.of(before.archive_after_ms),
            on_unknown: self.on_unknown.unwrap_or(before.on_unknown),
            on_failed: self.on_failed.unwrap_or(before.on_failed),
            notify: self.notify.as_ref().unwrap_or(&before.notify).clone(),
        }
    }
}

/// Puts a session away that does not run.
pub(crate) fn archive(session: &Session, by: Actor) -> Result<Vec<Event>, Refusal> {
    if session.is_live() {
        return Err(Refusal::StillRunning);
    }
    Ok(if session.archived { vec![] } else { vec![Event::Archived { by }] })
}

/// Brings it back. It runs only when somebody asks for that, too.
pub(crate) fn restore(session: &Session, by: Actor) -> Vec<Event> {
    if session.archived { vec![Event::Restored { by }] } else { vec![] }
}

/// Adds some tags and takes others away.
pub(crate) fn tag(session: &Session, add: Vec<Name>, remove: &[Name]) -> Result<Vec<Event>, Refusal> {
    let mut tags = session.tags.clone();
    tags.extend(add);
    tags.retain(|tag| !remove.contains(tag));
    tags.sort();
    tags.dedup();
    if tags.len() > MOST_TAGS {
        return Err(Refusal::TooManyTags { limit: MOST_TAGS });
    }
    Ok(if tags == session.tags { vec![] } else { vec![Event::Tagged { tags }] })
}

/// Replaces what somebody wrote about it.
pub(crate) fn note(session: &Session, note: Option<String>) -> Result<Vec<Event>, Refusal> {
    let note = note.filter(|note| !note.is_empty());
    if let Some(bytes) = note.as_ref().map(String::len).filter(|bytes| *bytes > MAX_NOTE_BYTES) {
        return Err(Refusal::NoteTooLong { bytes, limit: MAX_NOTE_BYTES });
    }
    Ok(if note == session.note { vec![] } else { vec![Event::Noted { note }] })
}

/// Says when it ends by itself, from now on.
pub(crate) fn set_policy(session: &Session, change: &PolicyChange, now: Now) -> Result<Vec<Event>, Refusal> {
    let before = session.policy();
    let policy = change.of(&before);
    // The same time once more is a new time: whoever gives it means from now on.
    let is_new_time = match change.ttl {
        Term::Same => false,
        Term::Never => before.ttl_ms.is_some(),
        Term::After(_) => true,
    };
    // It was ended for good; another time to live does not undo that.
    if is_new_time && session.released == Some(Release::Expired) {
        return Err(Refusal::Expired);
    }
    // One at rest gets its time with its next run.
    let live = session.keeper.as_ref().filter(|_| is_new_time && session.is_live());
    let expiry = live.zip(policy.ttl_ms).map(|(keeper, ttl_ms)| Event::ExpirySet {
        expiry: Expiry { boot: keeper.boot.clone(), boot_ms: now.boot_ms.saturating_add(ttl_ms) },
    });
    let set = (policy != before).then_some(Event::PolicySet { policy });
    Ok(set.into_iter().chain(expiry).collect())
}

impl Session {
    /// When it ends by itself, and what waits for what.
    pub fn policy(&self) -> Policy {
        self.spec.as_ref().map(|spec| spec.policy.clone()).unwrap_or_default()
    }

    /// Another time to live begins anew: with [`Event::ExpirySet`] if it runs, else with the next run.
    pub(crate) fn apply_policy(&mut self, policy: &Policy) {
        let Some(spec) = &mut self.spec else { return };
        if spec.policy.ttl_ms != policy.ttl_ms {
            self.expiry = None;
        }
        spec.policy = policy.clone();
    }
}
