//! Turns: accepted inputs, each with a receipt and exactly one final state.
//!
//! Promise: turns are given to the agent in the order they were accepted, one at a time, each at most once. The
//! first final state wins, and later reports are kept beside it. A key means one turn. A refused prompt leaves
//! nothing behind. Memory does not grow with the age of a session, except for 16 bytes per key.
//! Not here: talking to the agent (the keeper's drivers do, and report), the outcome of a turn whose keeper died
//! (the keeper reads the agent's record, and reports), the record of a turn that is long over (it is in the journal).
//! Start with [`SessionTurns`] and [`Turn`], then `send` (accepting), `queue` (changing the queue), `report` (reports
//! from the world), `time` (deadlines), `apply` (events), `hold` (reasons why the queue waits), `ask` (the
//! agent's questions).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::{RunOutcome, RunPhase, Session};

mod apply;
mod hold;
mod keys;
mod question;
mod queue;
mod report;
mod send;
#[cfg(test)]
mod tests;
mod timeouts;
mod turn;

pub use hold::{OnFailed, OnUnknown, QueueHold};
pub(crate) use hold::{go_on, pause};
pub use keys::{KnownKey, TurnKeys, key_hash, text_digest};
pub use question::{AgentQuestion, BadReply, ChosenReply, QuestionOption, QuestionOptionKind, QuestionReply};
pub(crate) use question::{answer, question_asked, question_withdrawn};
pub(crate) use queue::{cancel, cancel_requested, deliver, edit, move_turn, withdraw};
pub(crate) use report::{began, broken, conversation, hold, is_withdrawn, ready, run_over, tick, turn_over};
pub(crate) use send::{check_typed_prompt, send};
pub use timeouts::{ReleaseReason, SessionExpiry};
pub use turn::{
    CancelRequest, CurrentTurn, FinalState, SendMode, StartDeadline, Turn, TurnEnd, TurnFailure,
    TurnProgress, TurnPrompt, TurnRetry,
};

/// Limit of the number of waiting turns in a session.
pub const MOST_QUEUED: usize = 100;
/// Limit of the length of a prompt, in bytes.
pub const MAX_PROMPT_BYTES: usize = 1 << 20;
/// Limit of the length of a turn's key, in bytes.
pub const MAX_KEY_BYTES: usize = 256;
/// Number of turns that are over and kept in memory, those that ended last. Unit tests keep few, so that short
/// lives outgrow them.
pub const MOST_OVER_KEPT: usize = if cfg!(test) { 4 } else { 64 };
/// Limit of the number of different ends of one turn that are kept: the first, and later reports.
const MOST_ENDS: usize = 8;
/// Limit of the number of an agent's open questions. Further questions are not answered.
pub const MOST_ASKS: usize = 64;
/// Limit of the length of an answer's text, in bytes.
pub const MAX_REPLY_BYTES: usize = 64 << 10;
/// Limit of the number of retries of a failed turn, with [`OnFailed::Retry`].
pub const MOST_RETRIES: u32 = 5;
/// The back-off before the first retry. Each further one waits twice as long as the one before.
pub const FIRST_BACK_OFF: Duration = Duration::from_secs(60);
/// Time that an agent may take to interrupt a turn before its run is ended for it.
pub const CANCEL_PATIENCE: Duration = Duration::from_secs(10);
/// Time between the polite signal and the kill, for a run that berth itself ends.
pub const RELEASE_GRACE: Duration = Duration::from_secs(5);

/// Turns of a session whose agent takes turns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionTurns {
    /// Turns that are not over, and the last [`MOST_OVER_KEPT`] that are, by number. Look turns up with
    /// [`Self::find`] and [`Self::open`]: a turn that is not in here may still have been accepted.
    pub window: BTreeMap<u64, Turn>,
    /// Turns of the window that are over, in the order they ended.
    pub over: VecDeque<u64>,
    /// Number of turns ever accepted, which is the number of the latest.
    pub total: u64,
    /// Keys of all turns ever accepted.
    pub keys: TurnKeys,
    /// Number of turns ever given to the agent.
    pub given_total: u64,
    /// Highest number of a turn that was given to the agent; 0 if none was.
    pub last_given: u64,
    /// Highest number of a turn that is done; 0 if none is.
    pub last_done: u64,
    /// Waiting turns, in the order they will be given to the agent.
    pub queue: VecDeque<u64>,
    /// Turn that the agent has.
    pub current: Option<CurrentTurn>,
    /// Reason why no turn of the queue reaches the agent.
    pub hold: Option<QueueHold>,
    /// Open questions of the agent.
    pub asks: Vec<AgentQuestion>,
    /// Abilities of the current run's agent, once it takes turns.
    pub ready: Option<AgentCapabilities>,
    /// Time since which the agent is idle, on the boot clock.
    pub quiet_since_boot_ms: Option<u64>,
    /// True if the agent of the current run was given a turn, or ended when none waited: then another run is not
    /// a second try of a failed start.
    pub was_of_use: bool,
}

/// Place of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnLookup<'a> {
    /// In memory.
    Here(&'a Turn),
    /// The turn was accepted, is over and is no longer in memory. The journal has its end.
    Past,
    /// The turn was never accepted.
    Absent,
}

/// Abilities of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgentCapabilities {
    /// True if it takes text into a running turn.
    pub steer: bool,
    /// True if it can resume its conversation after it was ended.
    pub resume: bool,
}

impl SessionTurns {
    /// Finds a turn by its number.
    pub fn find(&self, turn: u64) -> TurnLookup<'_> {
        match self.window.get(&turn) {
            Some(known) => TurnLookup::Here(known),
            None if (1..=self.total).contains(&turn) => TurnLookup::Past,
            None => TurnLookup::Absent,
        }
    }

    /// Finds a turn that waits or that the agent has. A turn that is over may no longer be in memory.
    pub fn open(&self, turn: u64) -> Option<&Turn> {
        self.window.get(&turn).filter(|turn| !turn.state.is_over())
    }

    fn open_mut(&mut self, turn: u64) -> Option<&mut Turn> {
        self.window.get_mut(&turn).filter(|turn| !turn.state.is_over())
    }

    /// Number of the turn that a key belongs to, whatever its age.
    pub fn keyed(&self, key: &str) -> Option<u64> {
        self.keys.find(key_hash(key)).map(|known| known.turn.into())
    }

    /// Adds the key of an accepted turn: a snapshot has no keys, they come from the turn index.
    pub fn remember_key(&mut self, hash: u64, turn: u32, digest: u32) {
        self.keys.remember(KnownKey { hash, turn, digest });
    }

    /// Number of the latest turn; 0 before the first.
    pub fn last(&self) -> u64 {
        self.total
    }

    /// True if the agent has this turn, or its text as a part of another turn.
    fn has(&self, turn: u64) -> bool {
        self.current.as_ref().is_some_and(|it| it.turn == turn || it.steered.contains(&turn))
    }

    /// True if a user has to act before the queue goes on.
    pub fn needs_someone(&self) -> bool {
        let held = self.hold.as_ref().is_some_and(QueueHold::needs_someone);
        held || !self.asks.is_empty()
    }

    /// Next turn to give to the agent: the first of the queue, or text for the running turn.
    fn due(&self) -> Option<u64> {
        let able = self.ready.filter(|_| self.hold.is_none())?;
        let next = *self.queue.front()?;
        match (&self.current, self.open(next)?.manner) {
            (None, _) => Some(next),
            (Some(current), SendMode::Steer) if able.steer && current.cancel.is_none() => Some(next),
            (Some(_), _) => None,
        }
    }
}

impl Session {
    /// True if the agent takes turns. (An agent in a terminal does if it reports its turn edges.)
    pub fn takes_turns(&self) -> bool {
        self.tells || self.spec.as_ref().is_some_and(|spec| spec.takes_turns())
    }

    /// Number of the due turn, if the agent can have one now.
    pub fn due_turn(&self) -> Option<u64> {
        match self.phase {
            RunPhase::Running { .. } if self.is_free() && self.next_interface.is_none() => self.turns.due(),
            RunPhase::Running { .. } => None,
            RunPhase::New | RunPhase::Starting | RunPhase::Ending(_) | RunPhase::Ended { .. } => None,
        }
    }

    /// True if an ended run is followed by another one without a further request: turns still wait, or another
    /// interface was chosen. Archiving the session ends that as well.
    pub fn goes_on(&self) -> bool {
        let over_for_now = match self.phase {
            RunPhase::Ended { outcome: RunOutcome::Exited(_) | RunOutcome::OutOfMemory } => true,
            RunPhase::Ended { outcome: RunOutcome::StartFailed(_) | RunOutcome::Lost }
            | RunPhase::New
            | RunPhase::Starting
            | RunPhase::Running { .. }
            | RunPhase::Ending(_) => false,
        };
        let ended_for_good =
            self.stopped_by.is_some() || self.released == Some(ReleaseReason::Expired) || self.archived;
        // A back-off counts only while a run is live.
        let goes_on = self.turns.hold.as_ref().is_none_or(|hold| hold.retry().is_some());
        let waits = goes_on && !self.turns.queue.is_empty();
        over_for_now && !ended_for_good && (self.switching || waits)
    }
}
