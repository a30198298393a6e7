//! The back end of the simulated session: files on a disk that fails, or memory that others may claim.

use berth_core::{Epoch, SessionId};
use berth_journal::fake_disk::FakeDisk;
use berth_journal::{Checkpoint, Committed, Seq};
use berth_store::claim::{AppendError, AppendPoint, FileClaim, MemoryClaim, MemoryStore, SessionClaim};
use berth_store::session_view::StoredEvent;

/// The id of the one session.
pub(crate) const SESSION: &str = "0123456789ab";

pub(crate) fn id() -> SessionId {
    SessionId::parse(SESSION).expect("an id")
}

/// The back end of a life.
#[derive(Clone)]
pub(crate) enum SimulatedStore {
    Files(FakeDisk),
    Memory(MemoryStore),
}

impl SimulatedStore {
    /// The events that a reader without bugs finds.
    pub(crate) fn read(&self, from: u64) -> Result<Vec<Committed<StoredEvent>>, String> {
        match self {
            Self::Files(disk) => berth_journal::read_journal(disk, SESSION, Seq(from))
                .map_err(|error| format!("a reader finds: {error}")),
            Self::Memory(store) => Ok(store.read(&id(), from, usize::MAX)),
        }
    }
}

/// A claim in either back end.
pub(crate) enum SimulatedClaim {
    Files(FileClaim<FakeDisk>),
    Memory(MemoryClaim),
}

impl SessionClaim for SimulatedClaim {
    fn point(&self) -> AppendPoint {
        match self {
            Self::Files(claim) => claim.point(),
            Self::Memory(claim) => claim.point(),
        }
    }

    fn renew(&mut self, last: Epoch) -> Epoch {
        match self {
            Self::Files(claim) => claim.renew(last),
            Self::Memory(claim) => claim.renew(last),
        }
    }

    fn append(
        &mut self,
        at: AppendPoint,
        batch: Vec<StoredEvent>,
    ) -> Result<Vec<Committed<StoredEvent>>, AppendError> {
        match self {
            Self::Files(claim) => claim.append(at, batch),
            Self::Memory(claim) => claim.append(at, batch),
        }
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        match self {
            Self::Files(claim) => claim.checkpoint(),
            Self::Memory(claim) => claim.checkpoint(),
        }
    }

    fn close(self) -> Result<(), AppendError> {
        match self {
            Self::Files(claim) => claim.close(),
            Self::Memory(claim) => claim.close(),
        }
    }
}
