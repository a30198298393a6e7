//! An append-only file that survives crashes.
//!
//! Promise: an event handed out as [`Committed`] is on disk and comes back, in order, from every later
//! [`Journal::open`]. What was not committed comes back whole, from the front of its batch, or not at all. Damage is
//! refused, never guessed around. This holds if the disk keeps what a successful sync covered, and if writing into
//! a page leaves the synced bytes beside it alone.
//!
//! Not here: what an event means (see [`JournalRecord`]), who may write (callers hold a lock: two writers of one directory
//! are not noticed in time), and throwing old segments away.
//!
//! Start with [`Journal::append`], then `recover.rs` for what [`Journal::open`] makes of a crash. The bytes are
//! described in `docs/journal-format.md`.

#![forbid(unsafe_code)]

mod disk;
mod error;
mod event;
#[cfg(feature = "testing")]
pub mod fake_disk;
mod files;
mod frame;
mod hash_chain;
mod index;
mod journal;
mod memory;
#[cfg(feature = "testing")]
mod planted_bugs;
mod recover;
mod salvage;
mod segment;

pub use disk::{JournalDisk, RealDisk};
pub use error::{FrameFlaw, JournalError, SegmentDamage};
pub use event::{Checkpoint, Committed, JournalRecord, Seq};
pub use hash_chain::{ChainHead, InvalidChainHead, chain_heads, segments_between};
pub use journal::{Journal, JournalLimits, UnsettledJournal};
pub use memory::MemoryJournal;
#[cfg(feature = "testing")]
pub use planted_bugs::PlantedBugs;
pub use recover::{RecoveredJournal, TornTail, read_journal, read_journal_after, read_journal_range};
pub use salvage::salvage_journal;
