//! Reports of an agent's hooks, in one form for all agents.
//!
//! Promise: a report does not prove its sender; a keeper checks the process at the other end of the socket.
//! Not here: the events of each agent (see `verbs::hook`), and the holders of a conversation (see `keeper::holders`).
//! Start with [`HookReport`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An event of an agent, as its hook reports it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HookReport {
    /// Kind of conversation: `claude`, `codex`, or a kind from the config.
    pub kind: String,
    /// Agent's own id of the open conversation.
    pub conversation_id: String,
    /// Path of the agent's transcript, if the event names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<PathBuf>,
    /// Working directory of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Model in use, if the event names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Time of the event, in milliseconds since 1970.
    pub at_ms: u64,
    /// The event itself.
    pub told: HookEvent,
    /// Reason why the guard stopped a prompt before its turn began; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_up: Option<String>,
}

/// Kinds of events that agents report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum HookEvent {
    /// The agent opened the conversation.
    Started {
        /// Source, in the agent's own word: `startup`, `resume`, `clear`, `compact`.
        how: String,
    },
    /// The agent was given a prompt, and begins a turn.
    Prompt {
        /// Text of the prompt.
        text: String,
    },
    /// The agent is about to use a tool, or has used one: it works.
    Tool {
        /// Name of the tool.
        name: String,
    },
    /// The agent waits for a user's answer.
    NeedsYou {
        /// Subject of the question, for people.
        what: String,
        /// True if the hook waits for the answer and passes it on. The agent shows its question on its screen
        /// meanwhile.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waits: bool,
    },
    /// The agent ended its turn.
    Stopped {
        /// Last message of the agent.
        answer: Option<String>,
    },
    /// The turn was interrupted.
    Interrupted,
    /// The agent closed the conversation.
    Ended {
        /// Reason, in the agent's own word.
        why: String,
    },
}
