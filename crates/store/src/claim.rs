//! Claims: the right to append to one session, numbered by epochs.
//!
//! Promise: a batch is appended only by the claim that is current, with the epoch and behind the event that the batch was
//! decided on. A batch of an older claim, or one that does not know of the last event, is rejected, and nothing of it is
//! written.
//! Two back ends: [`FileClaim`], whose lease keeps a second claim away, and [`MemoryClaim`], which a later claim
//! supersedes.
//! Not here: the locks of a claim on files (see [`Lease`](crate::store::Lease)).
//! Start with [`SessionClaim`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_core::{Epoch, SessionId};
use berth_journal::{
    Checkpoint, Committed, Journal, JournalDisk, JournalError, MemoryJournal, RealDisk, Seq,
};

use crate::session_view::StoredEvent;

/// State of a session that a batch was decided on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppendPoint {
    /// Epoch of the claim.
    pub epoch: Epoch,
    /// Number of the last event.
    pub end: u64,
}

/// The right to append to one session. It is released when it is dropped.
pub trait SessionClaim {
    /// The epoch of this claim, and the number of the last event that it knows of.
    fn point(&self) -> AppendPoint;

    /// Raises the epoch of this claim above `last`, the one of the run that is over, for the next run.
    fn renew(&mut self, last: Epoch) -> Epoch;

    /// Commits a batch that was decided at this point: all of it, or nothing.
    fn append(
        &mut self,
        at: AppendPoint,
        batch: Vec<StoredEvent>,
    ) -> Result<Vec<Committed<StoredEvent>>, AppendError>;

    /// The last committed event, for a snapshot; `None` before the first, and where there are no snapshots.
    fn checkpoint(&self) -> Option<Checkpoint>;

    /// Closes the journal, so that later damage can be told from a crash.
    fn close(self) -> Result<(), AppendError>;
}

/// Reason why nothing was appended.
#[derive(Debug)]
pub enum AppendError {
    /// The disk failed, or the journal on it is damaged.
    Journal(JournalError),
    /// A later claim was made, or this one was renewed, since the batch was decided.
    StaleEpoch {
        /** The epoch of the batch. */
        given: Epoch,
        /** The epoch that counts. */
        current: Epoch,
    },
    /// Events were appended since the batch was decided.
    StaleEnd {
        /** The last event that the batch was decided on. */
        given: u64,
        /** The last event there is. */
        current: u64,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(error) => error.fmt(f),
            Self::StaleEpoch { given, current } => {
                write!(
                    f,
                    "a batch of epoch {given} was rejected: the session was claimed again, with epoch {current}"
                )
            }
            Self::StaleEnd { given, current } => {
                write!(f, "a batch behind event {given} was rejected: the last event is {current}")
            }
        }
    }
}

impl std::error::Error for AppendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Journal(error) => error.source(),
            Self::StaleEpoch { .. } | Self::StaleEnd { .. } => None,
        }
    }
}

impl From<JournalError> for AppendError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl AppendPoint {
    /// Rejects a batch that was decided at another point than this one.
    fn admit(self, given: AppendPoint) -> Result<(), AppendError> {
        if given.epoch != self.epoch {
            return Err(AppendError::StaleEpoch { given: given.epoch, current: self.epoch });
        }
        if given.end != self.end {
            return Err(AppendError::StaleEnd { given: given.end, current: self.end });
        }
        Ok(())
    }
}

/// A claim on a session in files. A second one cannot be made while the lease is held, so its epoch rises only when it
/// is renewed.
#[derive(Debug)]
pub struct FileClaim<D: JournalDisk = RealDisk> {
    journal: Journal<StoredEvent, D>,
    epoch: Epoch,
}

impl<D: JournalDisk> FileClaim<D> {
    /// A new claim, on a journal whose last run had the epoch `last`.
    pub fn new(journal: Journal<StoredEvent, D>, last: Epoch) -> Self {
        Self { journal, epoch: last.next() }
    }

    /// The claim under which the run `running` was begun: its process goes on with another image, and has the locks.
    pub fn inherited(journal: Journal<StoredEvent, D>, running: Epoch) -> Self {
        Self { journal, epoch: running }
    }
}

impl<D: JournalDisk> SessionClaim for FileClaim<D> {
    fn point(&self) -> AppendPoint {
        AppendPoint { epoch: self.epoch, end: self.journal.next_seq().0 - 1 }
    }

    fn renew(&mut self, last: Epoch) -> Epoch {
        self.epoch = self.epoch.max(last.next());
        self.epoch
    }

    fn append(
        &mut self,
        at: AppendPoint,
        batch: Vec<StoredEvent>,
    ) -> Result<Vec<Committed<StoredEvent>>, AppendError> {
        self.point().admit(at)?;
        Ok(self.journal.append(batch)?)
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        self.journal.checkpoint()
    }

    fn close(self) -> Result<(), AppendError> {
        Ok(self.journal.close()?)
    }
}

/// Sessions in memory, shared by all clones. A claim supersedes the one before, as where no lock can be held.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    sessions: Arc<Mutex<BTreeMap<SessionId, MemorySession>>>,
    #[cfg(feature = "testing")]
    accepts_old_epochs: bool,
}

#[derive(Debug, Default)]
struct MemorySession {
    /// The epoch of the last claim.
    epoch: Epoch,
    journal: MemoryJournal<StoredEvent>,
}

impl MemoryStore {
    /// A store with a bug: it appends what a superseded claim brings.
    #[cfg(feature = "testing")]
    pub fn accepting_old_epochs() -> Self {
        Self { accepts_old_epochs: true, ..Self::default() }
    }

    /// Claims a session, and makes it if there is none. Every earlier claim is superseded.
    pub fn claim(&self, id: &SessionId) -> MemoryClaim {
        let mut sessions = self.sessions();
        let session = sessions.entry(id.clone()).or_default();
        session.epoch = session.epoch.next();
        let point = AppendPoint { epoch: session.epoch, end: session.journal.end().0 };
        MemoryClaim { store: self.clone(), id: id.clone(), point }
    }

    /// The claim under which the run `running` was begun: its process goes on with another image.
    pub fn inherited(&self, id: &SessionId, running: Epoch) -> MemoryClaim {
        let point = AppendPoint { epoch: running, end: self.end(id) };
        MemoryClaim { store: self.clone(), id: id.clone(), point }
    }

    /// At most `limit` events of a session from number `from` on.
    pub fn read(&self, id: &SessionId, from: u64, limit: usize) -> Vec<Committed<StoredEvent>> {
        let sessions = self.sessions();
        sessions.get(id).map_or_else(Vec::new, |session| session.journal.read(Seq(from), limit))
    }

    /// The number of a session's last event.
    pub fn end(&self, id: &SessionId) -> u64 {
        self.sessions().get(id).map_or(0, |session| session.journal.end().0)
    }

    /// True if there is such a session.
    pub fn exists(&self, id: &SessionId) -> bool {
        self.sessions().contains_key(id)
    }

    /// All session ids, sorted.
    pub fn list(&self) -> Vec<SessionId> {
        self.sessions().keys().cloned().collect()
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionId, MemorySession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rejects_old_epochs(&self) -> bool {
        #[cfg(feature = "testing")]
        return !self.accepts_old_epochs;
        #[cfg(not(feature = "testing"))]
        true
    }
}

/// A claim on a session in memory.
#[derive(Debug)]
pub struct MemoryClaim {
    store: MemoryStore,
    id: SessionId,
    point: AppendPoint,
}

impl SessionClaim for MemoryClaim {
    fn point(&self) -> AppendPoint {
        self.point
    }

    fn renew(&mut self, last: Epoch) -> Epoch {
        let mut sessions = self.store.sessions();
        let session = sessions.entry(self.id.clone()).or_default();
        // A superseded claim keeps its epoch: what it appends is rejected.
        if session.epoch == self.point.epoch {
            session.epoch = session.epoch.max(last.next());
            self.point.epoch = session.epoch;
        }
        self.point.epoch
    }

    fn append(
        &mut self,
        at: AppendPoint,
        batch: Vec<StoredEvent>,
    ) -> Result<Vec<Committed<StoredEvent>>, AppendError> {
        let mut sessions = self.store.sessions();
        let session = sessions.entry(self.id.clone()).or_default();
        let epoch = if self.store.rejects_old_epochs() { session.epoch } else { at.epoch };
        AppendPoint { epoch, end: session.journal.end().0 }.admit(at)?;
        let committed = session.journal.append(batch);
        self.point.end = session.journal.end().0;
        Ok(committed)
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        None
    }

    fn close(self) -> Result<(), AppendError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use berth_core::Event;
    use berth_journal::JournalLimits;
    use berth_journal::fake_disk::FakeDisk;

    use super::*;

    fn id() -> SessionId {
        SessionId::parse("0123456789ab").expect("an id")
    }

    fn batch() -> Vec<StoredEvent> {
        vec![StoredEvent { at_ms: 0, event: Event::Warned { what: "a test".to_owned() } }]
    }

    fn is_stale_epoch(result: Result<Vec<Committed<StoredEvent>>, AppendError>) -> bool {
        matches!(result, Err(AppendError::StaleEpoch { .. }))
    }

    #[test]
    fn a_file_claim_rejects_a_batch_of_an_old_epoch_or_behind_an_old_event() {
        let journal =
            Journal::create(FakeDisk::new(1), "0123456789ab", JournalLimits::default()).expect("a journal");
        let mut claim = FileClaim::new(journal, Epoch(3));
        let first = claim.point();
        assert_eq!(first, AppendPoint { epoch: Epoch(4), end: 0 });
        claim.append(first, batch()).expect("the first batch");
        let again = claim.append(first, batch());
        assert!(matches!(again, Err(AppendError::StaleEnd { given: 0, current: 1 })), "{again:?}");
        let before = claim.point();
        assert_eq!(claim.renew(Epoch(4)), Epoch(5));
        assert!(is_stale_epoch(claim.append(before, batch())));
        claim.append(claim.point(), batch()).expect("the current point");
        assert_eq!(claim.point().end, 2, "what was rejected left nothing");
    }

    #[test]
    fn a_memory_claim_is_superseded_by_the_next_one_and_appends_nothing_any_more() {
        let store = MemoryStore::default();
        let mut old = store.claim(&id());
        old.append(old.point(), batch()).expect("the only claim");
        let mut new = store.claim(&id());
        assert!(new.point().epoch > old.point().epoch);
        assert!(is_stale_epoch(old.append(old.point(), batch())));
        assert!(old.renew(Epoch(9)) < new.point().epoch, "a superseded claim is not renewed");
        let at = new.point();
        new.append(at, batch()).expect("the current claim");
        let again = new.append(at, batch());
        assert!(matches!(again, Err(AppendError::StaleEnd { given: 1, current: 2 })), "{again:?}");
        assert_eq!((store.end(&id()), store.read(&id(), 2, 9).len(), store.list().len()), (2, 1, 1));
    }
}
