//! Input and output of the journal: [`JournalRecord`]s go in, [`Committed`] ones come out, numbered by [`Seq`].

use std::fmt;
use std::ops::Deref;

/// Number of an event. The first one is `Seq(1)`, and there are no gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl Seq {
    pub(crate) fn plus(self, count: usize) -> Seq {
        Seq(self.0 + count as u64)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A committed event that a reader or an opening can begin behind, without the events before it. It names an event,
/// and not the file that has it: events move when a segment is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Number of the event.
    pub seq: Seq,
    /// Checksum of the number and the payload, so that another event with this number has another sum.
    pub sum: u32,
}

/// A value that can be written to a journal and read back years later.
pub trait JournalRecord: Sized {
    /// Appends the bytes of this record to `out`. At least one byte: an empty record is refused.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes the bytes that [`encode`](JournalRecord::encode) wrote. They are the whole record and have passed their
    /// checksum, so an error here means another program version, not a bad disk. The text describes the error, for
    /// people.
    fn decode(bytes: &[u8]) -> Result<Self, String>;
}

/// An event that is on disk. Only the journal can make one, so code that asks for a `Committed` cannot be given an
/// event too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<T> {
    seq: Seq,
    event: T,
}

impl<T> Committed<T> {
    pub(crate) fn new(seq: Seq, event: T) -> Self {
        Committed { seq, event }
    }

    /// Number of the event.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The event itself.
    pub fn get(&self) -> &T {
        &self.event
    }

    /// Unwraps the event. The result is no longer known to be committed.
    pub fn into_inner(self) -> T {
        self.event
    }
}

impl<T> Deref for Committed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.event
    }
}
