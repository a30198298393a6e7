//! Why a queue does not go on, and who has it go on again.

use super::Failure;
use crate::{Actor, Boot, Event, Refusal, Session};

/// Why a queue does not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Somebody wanted that.
    Paused {
        /** Who. */
        by: Actor,
    },
    /// Nobody knows what became of a turn, and what waits may build on it.
    Unknown {
        /** Which. */
        turn: u64,
    },
    /// Somebody who is none of ours writes the conversation.
    ForeignWriter {
        /** Who, for people. */
        who: String,
    },
    /// Somebody typed something into the terminal and did not send it: it would be joined with what waits.
    Draft,
    /// The agent did not come as far as taking a turn.
    AgentFailed {
        /** Why, for people. */
        reason: String,
    },
    /// A turn failed for a reason that is the model's: what waits would fail as well.
    ModelFailed {
        /** Which. */
        turn: u64,
        /** What failed. */
        failure: Failure,
        /** Why, in the agent's words. */
        reason: String,
    },
    /// A turn failed for a reason that is the model's and may pass: its text is said again after a while.
    Retrying {
        /** The turn that failed. */
        turn: u64,
        /** What failed. */
        failure: Failure,
        /** Why, in the agent's words. */
        reason: String,
        /** The turn that says its text again. */
        by: u64,
        /** The number of that attempt, from 1 on. */
        attempt: u32,
        /** The boot on whose clock the back-off counts. */
        boot: Boot,
        /** When the back-off is over, on that clock. */
        until_boot_ms: u64,
    },
}

impl Hold {
    /// Whether somebody has to act before the queue goes on. Who paused it knows that, and a back-off ends by itself.
    pub fn needs_someone(&self) -> bool {
        match self {
            Self::Unknown { .. }
            | Self::ForeignWriter { .. }
            | Self::Draft
            | Self::AgentFailed { .. }
            | Self::ModelFailed { .. } => true,
            Self::Paused { .. } | Self::Retrying { .. } => false,
        }
    }

    /// The turn that says the text of a failed one again, if the queue waits for that back-off.
    pub(crate) fn retry(&self) -> Option<u64> {
        match self {
            Self::Retrying { by, .. } => Some(*by),
            Self::Paused { .. }
            | Self::Unknown { .. }
            | Self::ForeignWriter { .. }
            | Self::Draft
            | Self::AgentFailed { .. }
            | Self::ModelFailed { .. } => None,
        }
    }
}

/// What a queue does behind a turn that failed for a reason that is the model's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailed {
    /// It waits for somebody's word.
    #[default]
    Hold,
    /// It goes on.
    Continue,
    /// The failed turn's text is said again after a back-off, if the failure may pass; otherwise it waits.
    Retry,
}

/// Whether a queue goes on after a turn whose end is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnUnknown {
    /// Not without somebody's word.
    #[default]
    Hold,
    /// It does.
    Continue,
}

pub(crate) fn pause(session: &Session, by: Actor) -> Result<Vec<Event>, Refusal> {
    if !session.takes_turns() {
        return Err(Refusal::NoTurns);
    }
    Ok(match session.turns.hold {
        Some(Hold::Paused { .. } | Hold::Unknown { .. } | Hold::ModelFailed { .. }) => vec![],
        // The next run, or time, lifts these. A pause replaces them.
        Some(Hold::ForeignWriter { .. } | Hold::AgentFailed { .. } | Hold::Draft | Hold::Retrying { .. })
        | None => {
            vec![Event::QueueHeld { hold: Hold::Paused { by } }]
        }
    })
}

pub(crate) fn go_on(session: &Session, by: Actor) -> Result<Vec<Event>, Refusal> {
    if !session.takes_turns() {
        return Err(Refusal::NoTurns);
    }
    Ok(match session.turns.hold {
        Some(_) => vec![Event::QueueResumed { by }],
        None => vec![],
    })
}
