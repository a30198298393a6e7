//! Holds: reasons why a queue does not go on, and how it is resumed.

use super::TurnFailure;
use crate::{Actor, BootId, Event, Refusal, Session};

/// Reason why a queue does not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueueHold {
    /// A user paused the queue.
    Paused {
        /** Client that asked. */
        by: Actor,
    },
    /// The end of a turn is unknown, and waiting turns may build on it.
    Unknown {
        /** Number of the turn. */
        turn: u64,
    },
    /// A process that is not ours writes the conversation.
    ForeignWriter {
        /** The other writer, for people. */
        who: String,
    },
    /// A user typed text into the terminal and did not send it: the next turn would be joined with it.
    Draft,
    /// The agent ended or failed before it took a turn.
    AgentFailed {
        /** Reason, for people. */
        reason: String,
    },
    /// A turn failed because of the model: waiting turns would fail as well.
    ModelFailed {
        /** Number of the turn. */
        turn: u64,
        /** Kind of failure. */
        failure: TurnFailure,
        /** Reason, in the agent's words. */
        reason: String,
    },
    /// A turn failed because of the model, which may pass: its text is sent again after a back-off.
    Retrying {
        /** Number of the turn that failed. */
        turn: u64,
        /** Kind of failure. */
        failure: TurnFailure,
        /** Reason, in the agent's words. */
        reason: String,
        /** Number of the turn that repeats its text. */
        by: u64,
        /** Number of that attempt, from 1 on. */
        attempt: u32,
        /** The boot on whose clock the back-off counts. */
        boot: BootId,
        /** End of the back-off, on that clock. */
        until_boot_ms: u64,
    },
}

impl QueueHold {
    /// True if a user has to act before the queue goes on. The user who paused it knows that, and a back-off ends
    /// by itself.
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

    /// Number of the turn that repeats the text of a failed one, if the queue waits for that back-off.
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

/// Policy of a queue behind a turn that failed because of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailed {
    /// Wait for a user.
    #[default]
    Hold,
    /// Go on.
    Continue,
    /// Send the failed turn's text again after a back-off, if the failure may pass; otherwise wait for a user.
    Retry,
}

/// Policy of a queue behind a turn whose end is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnUnknown {
    /// Wait for a user.
    #[default]
    Hold,
    /// Go on.
    Continue,
}

pub(crate) fn pause(session: &Session, by: Actor) -> Result<Vec<Event>, Refusal> {
    if !session.takes_turns() {
        return Err(Refusal::NoTurns);
    }
    Ok(match session.turns.hold {
        Some(QueueHold::Paused { .. } | QueueHold::Unknown { .. } | QueueHold::ModelFailed { .. }) => vec![],
        // The next run, or time, lifts these holds. A pause replaces them.
        Some(
            QueueHold::ForeignWriter { .. }
            | QueueHold::AgentFailed { .. }
            | QueueHold::Draft
            | QueueHold::Retrying { .. },
        )
        | None => {
            vec![Event::QueueHeld { hold: QueueHold::Paused { by } }]
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
