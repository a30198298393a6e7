//! Types for ids, names and numbers, so that they cannot be mixed up.
//!
//! Promise: a value of these types is valid by construction.
//! Start with [`SessionId`] and [`SafeName`].

use std::fmt;

/// A session's id: twelve characters that stay the same for its whole life.
///
/// Random rather than ordered by time, so that two or three characters are usually enough to name
/// a session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(String);

impl SessionId {
    /// Number of characters in every id.
    pub const LENGTH: usize = 12;
    /// Digits and lower-case letters without those that people misread (`i l o u`).
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

    /// Makes an id out of random bytes (5 bits of each are used).
    pub fn from_random(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes.iter().map(|byte| Self::ALPHABET[usize::from(byte % 32)] as char).collect())
    }

    /// Parses an id; `None` if `text` is not a valid one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == Self::LENGTH && text.bytes().all(|byte| Self::ALPHABET.contains(&byte));
        fits.then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name that a user gave a session. Safe as a file name by construction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SafeName(String);

/// Reason why a text is not a valid [`SafeName`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadName {
    /// The text is empty.
    Empty,
    /// The text is longer than [`SafeName::MAX_BYTES`].
    TooLong,
    /// The first character is neither a letter nor a digit.
    Start(char),
    /// A character is not a letter, a digit, `.`, `_` or `-`.
    Character(char),
}

impl SafeName {
    /// Limit of the length of a name, in bytes.
    pub const MAX_BYTES: usize = 64;

    /// Checks and wraps a name.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let first = text.chars().next().ok_or(BadName::Empty)?;
        if text.len() > Self::MAX_BYTES {
            return Err(BadName::TooLong);
        }
        if !first.is_ascii_alphanumeric() {
            return Err(BadName::Start(first));
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
            Some(odd) => Err(BadName::Character(odd)),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SafeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a name cannot be empty"),
            Self::TooLong => write!(f, "a name has at most {} characters", SafeName::MAX_BYTES),
            Self::Start(c) => write!(f, "a name starts with a letter or a digit, not with {c:?}"),
            Self::Character(c) => write!(f, "a name is made of letters, digits, `.`, `_` and `-`, not {c:?}"),
        }
    }
}

/// Number of a run. Each new run of a session gets the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a writer. Input carries it, so that input of a replaced writer is rejected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Fence(pub u64);

impl Fence {
    /// The fence after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
