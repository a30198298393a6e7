//! States of sessions and turns, on every border: one word each.
//!
//! Promise: a session's state that this version does not know (a newer host reports it) is kept and shown as it is.
//! Not here: how a state follows from what happened (`berth_core`).
//! Start with [`SessionState`] and [`TurnState`].

use std::fmt;

use berth_core as core;
use schemars::{JsonSchema, Schema};
use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The state of a session: `running` if it has a terminal; `working`, `needs-you` and `idle` in place of it if its agent
/// takes turns, and `idle` also while the agent is paused to save memory; `lost` if its keeper died before the end.
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
    /// The word of a newer version, as `berth ls --hosts` may read it; empty if no state is known.
    #[serde(untagged)]
    #[schemars(skip)]
    #[cfg_attr(feature = "clap", value(skip))]
    Other(String),
}

/// The state of a turn; `unknown`: it was given to the agent, and nothing proves how it ended.
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

/// Lists the known states directly: the variant that is left out would make them an alternative of one.
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

    /// Whether the last run is over; false for a state that this version does not know.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Stopped | Self::Lost | Self::Archived => true,
            Self::NeedsYou | Self::Starting | Self::Running | Self::Working => false,
            Self::Stopping | Self::Idle | Self::Other(_) => false,
        }
    }
}

impl TurnState {
    /// Whether the turn is over: its state does not change any more.
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

impl From<core::State> for SessionState {
    fn from(state: core::State) -> Self {
        match state {
            core::State::Starting => Self::Starting,
            core::State::Running => Self::Running,
            core::State::Working => Self::Working,
            core::State::NeedsYou => Self::NeedsYou,
            core::State::Idle => Self::Idle,
            core::State::Stopping => Self::Stopping,
            core::State::Stopped => Self::Stopped,
            core::State::Lost => Self::Lost,
            core::State::Archived => Self::Archived,
        }
    }
}

impl From<core::TurnState> for TurnState {
    fn from(state: core::TurnState) -> Self {
        match state {
            core::TurnState::Queued => Self::Queued,
            core::TurnState::Delivered => Self::Delivered,
            core::TurnState::Working => Self::Working,
            core::TurnState::Over(end) => end.into(),
        }
    }
}

impl From<crate::turn::Final> for TurnState {
    fn from(end: crate::turn::Final) -> Self {
        core::Final::from(end).into()
    }
}

impl From<core::Final> for TurnState {
    fn from(end: core::Final) -> Self {
        match end {
            core::Final::Done => Self::Done,
            core::Final::Failed => Self::Failed,
            core::Final::Cancelled => Self::Cancelled,
            core::Final::Interrupted => Self::Interrupted,
            core::Final::Unknown => Self::Unknown,
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
