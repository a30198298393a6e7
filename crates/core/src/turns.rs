//! Turns: accepted inputs, each with a receipt and exactly one final state.
//!
//! Promise: turns are given to the agent in the order they were accepted, one at a time, each at most
//! once; the first final state wins and what comes later is kept beside it; a key means one turn; what is
//! refused leaves nothing behind.
//! Not here: talking to the agent (the keeper's drivers do, and report), what became of a turn whose
//! keeper died (the keeper looks at what the agent wrote, and reports).
//! Start with [`Turns`] and [`Turn`], then `send` (what is accepted), `queue` (what becomes of what waits),
//! `report` (what follows from the world's reports), `time` (what follows from none), `apply` (what events
//! change); `hold` is why nothing goes on, `ask` are the agent's questions.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::{Outcome, Phase, Session};

mod apply;
mod ask;
mod hold;
mod queue;
mod report;
mod send;
#[cfg(test)]
mod tests;
mod time;
mod turn;

pub use ask::{Ask, AskKind, AskOption, BadAnswer, Reply, Wish};
pub(crate) use ask::{answer, asks, unasked};
pub use hold::{Hold, OnFailed, OnUnknown};
pub(crate) use hold::{go_on, pause};
pub(crate) use queue::{cancel, cancel_requested, deliver, edit, shift, withdraw};
pub(crate) use report::{began, broken, conversation, hold, is_withdrawn, ready, run_over, tick, turn_over};
pub(crate) use send::{can_be_typed, send};
pub use time::{Expiry, Release};
pub use turn::{Cancel, Current, Failure, Final, Manner, Prompt, Retry, StartBy, Turn, TurnEnd, TurnState};

/// How many turns may wait in a session.
pub const MOST_QUEUED: usize = 100;
/// The longest prompt, in bytes.
pub const MAX_PROMPT_BYTES: usize = 1 << 20;
/// The longest key of a turn, in bytes.
pub const MAX_KEY_BYTES: usize = 256;
/// How many different ends of one turn are kept: the first, and what was said later.
const MOST_ENDS: usize = 8;
/// How many questions of an agent may wait for an answer. One that asks more is not answered.
pub const MOST_ASKS: usize = 64;
/// The longest text of an answer, in bytes.
pub const MAX_REPLY_BYTES: usize = 64 << 10;
/// How often the text of a failed turn is said again, with [`OnFailed::Retry`].
pub const MOST_RETRIES: u32 = 5;
/// The back-off before the first retry. Each further one waits twice as long as the one before.
pub const FIRST_BACK_OFF: Duration = Duration::from_secs(60);
/// How long an agent may take to break off a turn before its run is ended for it.
pub const CANCEL_PATIENCE: Duration = Duration::from_secs(10);
/// How patient the end of a run is that berth itself decided on.
pub const RELEASE_GRACE: Duration = Duration::from_secs(5);

/// What a session whose agent takes turns has of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Turns {
    /// All there ever were, by number: the first is number 1.
    pub all: Vec<Turn>,
    /// Which wait, in the order they will be given to the agent.
    pub queue: VecDeque<u64>,
    /// The one the agent has.
    pub current: Option<Current>,
    /// Why the queue does not go on: nothing of it reaches the agent.
    pub hold: Option<Hold>,
    /// Questions of the agent.
    pub asks: Vec<Ask>,
    /// What the agent of the current run is able to do, once it takes turns.
    pub ready: Option<Able>,
    /// Since when the agent has nothing to do, on the boot clock.
    pub quiet_since_boot_ms: Option<u64>,
    /// The agent of the current run was given a turn, or ended when none waited: another run is no second try
    /// of the same.
    was_of_use: bool,
}

/// What an agent is able to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Able {
    /// Take text into a turn that runs.
    pub steer: bool,
    /// Take its conversation up again after it was ended.
    pub resume: bool,
}

impl Turns {
    /// The turn of this number.
    pub fn get(&self, turn: u64) -> Option<&Turn> {
        self.all.get(usize::try_from(turn.checked_sub(1)?).ok()?)
    }

    fn get_mut(&mut self, turn: u64) -> Option<&mut Turn> {
        self.all.get_mut(usize::try_from(turn.checked_sub(1)?).ok()?)
    }

    /// The turn this key belongs to.
    pub fn keyed(&self, key: &str) -> Option<u64> {
        let at = self.all.iter().position(|turn| turn.key.as_deref() == Some(key))?;
        Some(at as u64 + 1)
    }

    /// Whether the agent was given this turn, whatever became of it.
    pub fn was_given(&self, turn: u64) -> bool {
        self.get(turn).is_some_and(|turn| turn.given)
    }

    /// The number of the latest turn; 0 before the first.
    pub fn last(&self) -> u64 {
        self.all.len() as u64
    }

    /// The turn the agent has, if it is this one or has its text.
    fn has(&self, turn: u64) -> bool {
        self.current.as_ref().is_some_and(|it| it.turn == turn || it.steered.contains(&turn))
    }

    /// Whether somebody has to act before it goes on.
    pub fn needs_someone(&self) -> bool {
        let held = self.hold.as_ref().is_some_and(Hold::needs_someone);
        held || !self.asks.is_empty()
    }

    /// What is to be given to the agent now: the next turn, or text for the one it has.
    fn due(&self) -> Option<u64> {
        let able = self.ready.filter(|_| self.hold.is_none())?;
        let next = *self.queue.front()?;
        match (&self.current, self.get(next)?.manner) {
            (None, _) => Some(next),
            (Some(current), Manner::Steer) if able.steer && current.cancel.is_none() => Some(next),
            (Some(_), _) => None,
        }
    }
}

/// Two hashes with different beginnings: what is told apart by them is never written down, only compared
/// within one life of a program.
fn digest(what: impl Hash) -> [u64; 2] {
    [1_u8, 2].map(|salt| {
        let mut hasher = DefaultHasher::new();
        (salt, &what).hash(&mut hasher);
        hasher.finish()
    })
}

impl Session {
    /// Whether its agent takes turns. (One in a terminal does if it tells its edges.)
    pub fn takes_turns(&self) -> bool {
        self.tells || self.spec.as_ref().is_some_and(|spec| spec.takes_turns())
    }

    /// The turn that is due, if the agent can have one now.
    pub fn due_turn(&self) -> Option<u64> {
        match self.phase {
            Phase::Running { .. } if self.is_free() && self.next_interface.is_none() => self.turns.due(),
            Phase::Running { .. } => None,
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => None,
        }
    }

    /// Whether a run that ended is followed by another one without anybody asking again: somebody asked
    /// for what still waits, or for another interface. Archiving the session ends that as well.
    pub fn goes_on(&self) -> bool {
        let over_for_now = match self.phase {
            Phase::Ended { outcome: Outcome::Exited(_) | Outcome::OutOfMemory } => true,
            Phase::Ended { outcome: Outcome::StartFailed(_) | Outcome::Lost }
            | Phase::New
            | Phase::Starting
            | Phase::Running { .. }
            | Phase::Ending(_) => false,
        };
        let ended_for_good =
            self.stopped_by.is_some() || self.released == Some(Release::Expired) || self.archived;
        // A back-off counts only while there is a run.
        let goes_on = self.turns.hold.as_ref().is_none_or(|hold| hold.retry().is_some());
        let waits = goes_on && !self.turns.queue.is_empty();
        over_for_now && !ended_for_good && (self.switching || waits)
    }
}
