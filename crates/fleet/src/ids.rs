//! Numbers and texts of the record, as types that cannot be mixed up.

use std::fmt;

/// Number of a host in its fleet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub u32);

/// Number of a host's ownership of a session. A session without an owner yet has term 0; each claim adds one.
///
/// Not an [`berth_core::Epoch`], which numbers runs: a host begins many runs under one term.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Term(pub u64);

impl Term {
    /// The term after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Number of an event in its session, from 1. As the end of a record, 0 means that there is no event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct EventNumber(pub u64);

impl EventNumber {
    /// The number `count` events further.
    pub fn plus(self, count: usize) -> Self {
        Self(self.0 + count as u64)
    }
}

/// Number of a start of a host's node. Of two machines that claim to be one host, the larger number wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Incarnation(pub u64);

/// Count of a host's heartbeats. A counter and not a time: no two clocks are ever compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct HeartbeatCount(pub u64);

/// Number of a post in the inbox. Numbers grow and may have gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PostNumber(pub u64);

/// Opaque text that every engine stores unchanged: no NUL, which PostgreSQL cannot store, and not too long.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordText(String);

/// Reason why a text is not a valid [`RecordText`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadRecordText {
    /// The character NUL is in it. JSON writes it as `\u0000`, which is allowed.
    Nul,
    /// The text is longer than [`RecordText::MAX_BYTES`].
    TooLong,
}

impl RecordText {
    /// Limit of the length in bytes. A prompt of 16 MiB fits, also when JSON escapes half of it.
    pub const MAX_BYTES: usize = 32 << 20;

    /// Checks and wraps a text.
    pub fn parse(text: impl Into<String>) -> Result<Self, BadRecordText> {
        let text = text.into();
        if text.len() > Self::MAX_BYTES {
            return Err(BadRecordText::TooLong);
        }
        if text.contains('\0') { Err(BadRecordText::Nul) } else { Ok(Self(text)) }
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for BadRecordText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nul => f.write_str("the shared record cannot store the character NUL"),
            Self::TooLong => write!(f, "the shared record stores at most {} bytes", RecordText::MAX_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BadRecordText, RecordText};

    #[test]
    fn a_text_with_nul_is_rejected_and_its_json_escape_is_not() {
        assert_eq!(RecordText::parse("a\0b"), Err(BadRecordText::Nul));
        assert_eq!(RecordText::parse("a\\u0000b").map(|text| text.as_str().len()), Ok(8));
    }

    #[test]
    fn a_text_longer_than_the_limit_is_rejected() {
        assert_eq!(RecordText::parse("x".repeat(RecordText::MAX_BYTES + 1)), Err(BadRecordText::TooLong));
    }
}
