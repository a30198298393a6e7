//! Turns: accepted inputs, each with a receipt and exactly one final state.
//!
//! Promise: turns are given to the agent in the order they were accepted, one at a time, each at most
//! once; the first final state wins and what comes later is kept beside it; a key means one turn; what is
//! refused leaves nothing behind. Memory does not grow with the age of a session, but for 16 bytes per key.
//! Not here: talking to the agent (the keeper's drivers do, and report), what became of a turn whose
//! keeper died (the keeper looks at what the agent wrote, and reports), the record of a turn that is long over (it is in
//! the journal).
//! Start with [`Turns`] and [`Turn`], then `send` (what is accepted), `queue` (what becomes of what waits),
//! `report` (what follows from the world's reports), `time` (what follows from none), `apply` (what events
//! change); `hold` is why nothing goes on, `ask` are the agent's questions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::{Outcome, Phase, Session};

mod apply;
mod ask;
mod hold;
mod keys;
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
pub use keys::{KnownKey, TurnKeys, key_hash, text_digest};
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
/// How many turns that are over are kept in memory, those that ended last. Unit tests keep few, so that short lives
/// outgrow them.
pub const MOST_OVER_KEPT: usize = if cfg!(test) { 4 } else { 64 };
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
    /// Turns that are not over, and the last [`MOST_OVER_KEPT`] that are, by number. [`Self::find`] and [`Self::open`]
    /// look turns up: what is not in here may still have been accepted.
    pub window: BTreeMap<u64, Turn>,
    /// Turns of the window that are over, in the order they ended.
    pub over: VecDeque<u64>,
    /// How many were ever accepted: the number of the latest.
    pub total: u64,
    /// The keys of all that were ever accepted.
    pub keys: TurnKeys,
    /// How many the agent was ever given.
    pub given_total: u64,
    /// The highest number of a turn that the agent was given; 0 if none was.
    pub last_given: u64,
    /// The highest number of a turn that is done; 0 if none is.
    pub last_done: u64,
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
    pub was_of_use: bool,
}

/// Where the turn of a number is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnLookup<'a> {
    /// In memory.
    Here(&'a Turn),
    /// Accepted, over and no longer in memory. How it ended is in the journal.
    Past,
    /// Never accepted.
    Absent,
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
    /// Where the turn of this number is.
    pub fn find(&self, turn: u64) -> TurnLookup<'_> {
        match self.window.get(&turn) {
            Some(known) => TurnLookup::Here(known),
            None if (1..=self.total).contains(&turn) => TurnLookup::Past,
            None => TurnLookup::Absent,
        }
    }

    /// The turn of this number, if it waits or the agent has it. One that is over may no longer be in memory.
    pub fn open(&self, turn: u64) -> Option<&Turn> {
        self.window.get(&turn).filter(|turn| !turn.state.is_over())
    }

    fn open_mut(&mut self, turn: u64) -> Option<&mut Turn> {
        self.window.get_mut(&turn).filter(|turn| !turn.state.is_over())
    }

    /// The turn this key belongs to, whatever its age.
    pub fn keyed(&self, key: &str) -> Option<u64> {
        self.keys.find(key_hash(key)).map(|known| known.turn.into())
    }

    /// Adds the key of a turn that was accepted: a snapshot has no keys, they come from the turn index.
    pub fn remember_key(&mut self, hash: u64, turn: u32, digest: u32) {
        self.keys.remember(KnownKey { hash, turn, digest });
    }

    /// The number of the latest turn; 0 before the first.
    pub fn last(&self) -> u64 {
        self.total
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
        match (&self.current, self.open(next)?.manner) {
            (None, _) => Some(next),
            (Some(current), Manner::Steer) if able.steer && current.cancel.is_none() => Some(next),
            (Some(_), _) => None,
        }
    }
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
