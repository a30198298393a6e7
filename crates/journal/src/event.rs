//! What the journal takes in and hands out: [`Record`]s go in, [`Committed`] ones come out, numbered by [`Seq`].

use std::fmt;
use std::ops::Deref;

/// The number of an event. The first one is `Seq(1)`, and there are no gaps.
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
    /// The number of the event.
    pub seq: Seq,
    /// A checksum of its number and its payload. Another event of that number has another one.
    pub sum: u32,
}

/// Something that can be written to a journal and read back years later.
pub trait Record: Sized {
    /// Puts the bytes of this record at the end of `out`. At least one byte: nothing at all is refused.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads what [`encode`](Record::encode) wrote. The bytes are the whole record and have passed their checksum,
    /// so an error here means another program version, not a bad disk. The text says what is wrong, for people.
    fn decode(bytes: &[u8]) -> Result<Self, String>;
}

/// An event that is on disk. Only the journal can make one, so whoever asks for a `Committed` cannot be handed an
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

    /// The event's number.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The event itself.
    pub fn get(&self) -> &T {
        &self.event
    }

    /// The event itself, for keeps. It is no longer known to be committed.
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
