//! What an agent tells through its hooks, whichever agent it is.
//!
//! Promise: nothing in here is believed for what it says of itself: a keeper looks who is at the other end.
//! Not here: what each agent calls its events (see `verbs::hook`), who holds a conversation (see `keeper::holders`).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Something happened in an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Which kind of conversations it writes.
    pub kind: String,
    /// The conversation it has open, by the agent's own id.
    pub conversation_id: String,
    /// Where it writes that down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<PathBuf>,
    /// The directory it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The model it uses, if this event says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What.
    pub told: Told,
    /// It was given something to do, and the guard held that up, for this reason: it broke off before it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_up: Option<String>,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum Told {
    /// It opened the conversation.
    Started {
        /// In its own word: `startup`, `resume`, `clear`, `compact`.
        how: String,
    },
    /// It was given something to do, and begins.
    Prompt {
        /// What.
        text: String,
    },
    /// It is about to use a tool, or has: it works.
    Tool {
        /// Which.
        name: String,
    },
    /// It waits for somebody's word.
    NeedsYou {
        /// About what.
        what: String,
        /// Its hook waits for an answer and passes it on; the agent asks on its screen meanwhile.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waits: bool,
    },
    /// It ended its turn.
    Stopped {
        /// What it said last.
        answer: Option<String>,
    },
    /// It was made to break off.
    Interrupted,
    /// It closed the conversation.
    Ended {
        /// In its own word.
        why: String,
    },
}
