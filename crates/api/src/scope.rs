//! What somebody may do: the words of tokens and of grants.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a token allows. Each includes the ones before it.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look: lists, states, transcripts, screens, events.
    Read,
    /// Say something: turns, the queue, new sessions of an agent of the table as it is.
    Send,
    /// Decide: start any command, stop, answer what an agent asks, type into a terminal, archive, helpers, sweep.
    Control,
    /// Everything: delete for good, make tokens.
    Admin,
}

impl Scope {
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::Read, Self::Send, Self::Control, Self::Admin];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Send => "send",
            Self::Control => "control",
            Self::Admin => "admin",
        }
    }

    /// The scope that is written so.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.word() == word)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
