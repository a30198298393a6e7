//! Why a queue does not go on, and who has it go on again.

use crate::{Actor, Event, Refusal, Session};

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
}

/// Whether a queue goes on behind a turn nobody knows the end of.
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
        Some(Hold::Paused { .. } | Hold::Unknown { .. }) => vec![],
        // The next run lifts these. Whoever pauses means that one, too.
        Some(Hold::ForeignWriter { .. } | Hold::AgentFailed { .. } | Hold::Draft) | None => {
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
