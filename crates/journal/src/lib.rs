//! An append-only file that survives crashes.
//!
//! Promise: an event handed out as [`Committed`] is on disk and comes back, in order, from every later
//! [`Journal::open`]. What was not committed comes back whole, from the front of its batch, or not at all. Damage is
//! refused, never guessed around. This holds if the disk keeps what a successful sync covered, and if writing into
//! a page leaves the synced bytes beside it alone.
//!
//! Not here: what an event means (see [`Record`]), who may write (callers hold a lock: two writers of one directory
//! are not noticed in time), and throwing old segments away.
//!
//! Start with [`Journal::append`], then `recover.rs` for what [`Journal::open`] makes of a crash. The bytes are
//! described in `docs/journal-format.md`.

#![forbid(unsafe_code)]

mod chain;
mod disk;
mod error;
mod event;
#[cfg(feature = "testing")]
pub mod fake;
mod files;
mod frame;
mod index;
mod journal;
mod memory;
#[cfg(feature = "testing")]
mod planted;
mod recover;
mod salvage;
mod segment;

pub use chain::{Head, NotAHead, heads, segments_of};
pub use disk::{Disk, RealDisk};
pub use error::{Damage, Flaw, JournalError};
pub use event::{Checkpoint, Committed, Record, Seq};
pub use journal::{Journal, Limits, Unsettled};
pub use memory::MemoryJournal;
#[cfg(feature = "testing")]
pub use planted::Planted;
pub use recover::{Recovered, TornTail, read, read_after, read_range};
pub use salvage::salvage;
