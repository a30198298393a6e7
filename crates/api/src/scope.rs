//! Scopes: the rights that tokens and grants give.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Rights of a token. Each scope includes the ones before it.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AccessScope {
    /// Read: lists, states, transcripts, screens, events.
    Read,
    /// Give work: send turns, change the queue, start sessions with an agent of the table as it is.
    Send,
    /// Control: start any command, stop, answer an agent's questions, type into a terminal, archive, manage helpers,
    /// sweep.
    Control,
    /// Everything, including deletion for good and making tokens.
    Admin,
}

impl AccessScope {
    /// All scopes, the smallest first.
    pub const ALL: [Self; 4] = [Self::Read, Self::Send, Self::Control, Self::Admin];

    /// Word that stands for the scope.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Send => "send",
            Self::Control => "control",
            Self::Admin => "admin",
        }
    }

    /// Finds a scope by its word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.word() == word)
    }
}

impl fmt::Display for AccessScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
