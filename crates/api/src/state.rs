//! States of sessions and turns, on every border: one word each.
//!
//! Promise: a session's state that this version does not know (a newer host reports it) is kept and shown unchanged.
//! Not here: how a state follows from what happened (`berth_core`).
//! Start with [`SessionState`] and [`TurnState`].

use std::fmt;

use berth_core as core;
use schemars::{JsonSchema, Schema};
use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// State of a session. `starting`: the run is about to begin. `running`: a command runs, or an agent that takes no
/// turns. If the agent takes turns, one of three replaces `running`. `working`: the agent has a turn. `needs-you`: the
/// agent, or its queue, waits for an answer of a user. `idle`: the agent waits for a turn, or is paused to save memory.
/// `stopping`: the run is being ended. `stopped`: the run is over. `lost`: the keeper died before the end of the run was
/// recorded. `archived`: the session is archived and does not run.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[schemars(transform = only_way)]
#[expect(missing_docs, reason = "mirrors berth_core::State")]
pub enum SessionState {
    NeedsYou,
    Lost,
    Starting,
    Running,
    Working,
    Stopping,
    Idle,
    Stopped,
    Archived,
    /// State that only a newer version knows, as `berth ls --hosts` may receive it; empty if no state is known.
    #[serde(untagged)]
    #[schemars(skip)]
    #[cfg_attr(feature = "clap", value(skip))]
    Other(String),
}

/// State of a turn. `queued`: it waits. `delivered`: the agent was given it. `working`: the agent confirmed it. `done`:
/// the agent reported success. `failed`: the agent, or its end, reported a failure. `cancelled`: a client cancelled it.
/// `interrupted`: it was interrupted, and is proven unfinished. `unknown`: the agent was given it, and nothing proves how
/// it ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "mirrors berth_core::TurnState")]
pub enum TurnState {
    Queued,
    Delivered,
    Working,
    Done,
    Failed,
    Cancelled,
    Interrupted,
    #[default]
    Unknown,
}

/// Lists the known states directly: the skipped variant would otherwise make them one alternative of a choice.
fn only_way(schema: &mut Schema) {
    if let Some(Value::Array(ways)) = schema.remove("anyOf") {
        let ways = ways.into_iter().filter_map(|way| Schema::try_from(way).ok());
        ways.for_each(|mut way| schema.ensure_object().append(way.ensure_object()));
    }
}

impl SessionState {
    /// The states that this version knows, in the order of lists: those that need attention first.
    pub const ALL: [Self; 9] = [
        Self::NeedsYou,
        Self::Lost,
        Self::Starting,
        Self::Running,
        Self::Working,
        Self::Stopping,
        Self::Idle,
        Self::Stopped,
        Self::Archived,
    ];

    /// True if the last run is over; false for a state that this version does not know.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Stopped | Self::Lost | Self::Archived => true,
            Self::NeedsYou | Self::Starting | Self::Running | Self::Working => false,
            Self::Stopping | Self::Idle | Self::Other(_) => false,
        }
    }
}

impl TurnState {
    /// True if the turn is over: its state does not change any more.
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Delivered | Self::Working => false,
            Self::Done | Self::Failed | Self::Cancelled | Self::Interrupted | Self::Unknown => true,
        }
    }
}

impl Default for SessionState {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl From<&str> for SessionState {
    fn from(word: &str) -> Self {
        let known = Self::deserialize(IntoDeserializer::<serde::de::value::Error>::into_deserializer(word));
        known.unwrap_or_else(|_| Self::Other(word.to_owned()))
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for TurnState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl From<core::SessionState> for SessionState {
    fn from(state: core::SessionState) -> Self {
        match state {
            core::SessionState::Starting => Self::Starting,
            core::SessionState::Running => Self::Running,
            core::SessionState::Working => Self::Working,
            core::SessionState::NeedsYou => Self::NeedsYou,
            core::SessionState::Idle => Self::Idle,
            core::SessionState::Stopping => Self::Stopping,
            core::SessionState::Stopped => Self::Stopped,
            core::SessionState::Lost => Self::Lost,
            core::SessionState::Archived => Self::Archived,
        }
    }
}

impl From<core::TurnProgress> for TurnState {
    fn from(state: core::TurnProgress) -> Self {
        match state {
            core::TurnProgress::Queued => Self::Queued,
            core::TurnProgress::Delivered => Self::Delivered,
            core::TurnProgress::Working => Self::Working,
            core::TurnProgress::Over(end) => end.into(),
        }
    }
}

impl From<crate::turn::FinalState> for TurnState {
    fn from(end: crate::turn::FinalState) -> Self {
        core::FinalState::from(end).into()
    }
}

impl From<core::FinalState> for TurnState {
    fn from(end: core::FinalState) -> Self {
        match end {
            core::FinalState::Done => Self::Done,
            core::FinalState::Failed => Self::Failed,
            core::FinalState::Cancelled => Self::Cancelled,
            core::FinalState::Interrupted => Self::Interrupted,
            core::FinalState::Unknown => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_the_same_word_in_json_and_on_a_terminal() {
        for state in SessionState::ALL {
            let word = state.to_string();
            assert_eq!(serde_json::to_value(&state).unwrap(), word);
            assert_eq!(serde_json::from_value::<SessionState>(word.as_str().into()).unwrap(), state);
            assert_eq!(SessionState::from(word.as_str()), state);
        }
        assert_eq!(format!("{:<10}|", SessionState::NeedsYou), "needs-you |");
        assert_eq!(serde_json::to_value(TurnState::Interrupted).unwrap(), TurnState::Interrupted.to_string());
    }

    #[test]
    fn a_state_of_a_newer_version_is_kept_as_it_is_and_is_not_final() {
        let state: SessionState = serde_json::from_str("\"dreaming\"").unwrap();
        assert_eq!((state.to_string(), state.is_final()), ("dreaming".to_owned(), false));
        assert_eq!(serde_json::to_string(&state).unwrap(), "\"dreaming\"");
        assert_eq!(SessionState::from("dreaming"), state);
    }

    #[test]
    fn schemas_list_the_known_states() {
        let schema = schemars::schema_for!(SessionState);
        assert_eq!(
            schema.get("enum").and_then(|words| words.as_array()).map(Vec::len),
            Some(9),
            "{schema:?}"
        );
        let schema = schemars::schema_for!(TurnState);
        assert_eq!(
            schema.get("enum").and_then(|words| words.as_array()).map(Vec::len),
            Some(8),
            "{schema:?}"
        );
    }
}
