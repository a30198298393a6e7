//! Turns: accepted inputs, each with a receipt and exactly one final state.
//!
//! Promise: turns are given to the agent in the order they were accepted, one at a time, each at most
//! once; the first final state wins and what comes later is kept beside it; a key means one turn; what is
//! refused leaves nothing behind.
//! Not here: talking to the agent (the keeper's drivers do, and report), what became of a turn whose
//! keeper died (the keeper looks at what the agent wrote, and reports).
//! Start with [`Turns`], then [`send`]; `report` is what follows from the world's reports, `ask` the agent's
//! questions.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::{Actor, Event, Now, Outcome, Phase, Refusal, Session};

mod ask;
mod report;
#[cfg(test)]
mod tests;

pub use ask::{Ask, AskKind, AskOption, Wish};
pub(crate) use ask::{answer, asks, unasked};
pub(crate) use report::{began, broken, conversation, hold, is_withdrawn, ready, run_over, tick, turn_over};
use report::{expired, withdrawn};

/// How many turns may wait in a session.
pub const MOST_QUEUED: usize = 100;
/// The longest prompt, in bytes.
pub const MAX_PROMPT_BYTES: usize = 1 << 20;
/// The longest key of a turn, in bytes.
pub const MAX_KEY_BYTES: usize = 256;
/// How many different ends of one turn are kept: the first, and what was said later.
pub const MOST_ENDS: usize = 8;
/// How many questions of an agent may wait for an answer. One that asks more is not answered.
pub const MOST_ASKS: usize = 64;
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
    /// What the agent wants to know.
    pub asks: Vec<Ask>,
    /// What the agent of the current run is able to do, once it takes turns.
    pub ready: Option<Able>,
    /// Since when the agent has nothing to do, on the boot clock.
    pub quiet_since_boot_ms: Option<u64>,
    /// The agent of the current run was given a turn, or ended when none waited: another run is no second try
    /// of the same.
    was_of_use: bool,
}

/// One accepted input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Where it stands.
    pub state: TurnState,
    /// What to say, until that is no longer needed.
    pub prompt: Arc<str>,
    /// What makes the prompt it was accepted with known again, for as long as the session lives.
    digest: [u64; 2],
    /// What makes the call repeatable.
    pub key: Option<Arc<str>>,
    /// It is withdrawn if the agent does not have it by then, on the boot clock.
    pub start_by: Option<StartBy>,
    /// How it meets a turn that is running.
    pub manner: Manner,
    /// Whether the agent was given it.
    given: bool,
    /// What makes every end that was told of it known again.
    ends: Vec<[u64; 2]>,
}

/// A moment until which a turn has to be with the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartBy {
    /// Of which boot.
    pub boot_id: String,
    /// On its clock.
    pub boot_ms: u64,
}

/// The turn an agent has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Current {
    /// Which.
    pub turn: u64,
    /// Where its output begins.
    pub output_from: u64,
    /// Turns whose text was added to it.
    pub steered: Vec<u64>,
    /// Somebody wants it broken off.
    pub cancel: Option<Cancel>,
}

/// Somebody wants a turn broken off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cancel {
    /// Who.
    pub by: Actor,
    /// For another turn, rather than for its own sake.
    pub for_another: bool,
    /// When patience with the agent ends, on the boot clock.
    pub until_boot_ms: u64,
}

/// Where a turn stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnState {
    /// On disk, and waiting.
    Queued,
    /// On its way to the agent, or there.
    Delivered,
    /// The agent said that it has it.
    Working,
    /// Over, in this way.
    Over(Final),
}

/// How a turn ended. Once, and for good.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Final {
    /// The agent said so.
    Done,
    /// The agent, or its end, said so.
    Failed,
    /// Somebody wanted that.
    Cancelled,
    /// Cut off, and proven not to have been finished.
    Interrupted,
    /// With the agent, and nobody can prove how it ended.
    Unknown,
}

impl TurnState {
    /// The word people see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Delivered => "delivered",
            Self::Working => "working",
            Self::Over(Final::Done) => "done",
            Self::Over(Final::Failed) => "failed",
            Self::Over(Final::Cancelled) => "cancelled",
            Self::Over(Final::Interrupted) => "interrupted",
            Self::Over(Final::Unknown) => "unknown",
        }
    }

    /// Whether it will not change any more.
    pub fn is_over(self) -> bool {
        match self {
            Self::Over(_) => true,
            Self::Queued | Self::Delivered | Self::Working => false,
        }
    }
}

/// How a turn meets one that is running.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Manner {
    /// It waits.
    #[default]
    Queue,
    /// Its text is added to the running turn.
    Steer,
    /// The running turn is broken off for it.
    Interrupt,
}

/// What an agent is able to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Able {
    /// Take text into a turn that runs.
    pub steer: bool,
    /// Take its conversation up again after it was ended.
    pub resume: bool,
}

/// How a turn ended, in full.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TurnEnd {
    /// How.
    pub state: Final,
    /// Why it is not done, for people.
    pub reason: Option<String>,
    /// What the agent said.
    pub answer: String,
    /// Whether that is only the beginning of it: the rest is in the output.
    pub cut: bool,
    /// What it read and wrote, if it said so.
    pub input_tokens: Option<u64>,
    /// The same for what it wrote.
    pub output_tokens: Option<u64>,
}

impl TurnEnd {
    /// An end without an answer.
    pub fn without_answer(state: Final, reason: impl Into<String>) -> Self {
        let (answer, reason) = (String::new(), Some(reason.into()));
        Self { state, reason, answer, cut: false, input_tokens: None, output_tokens: None }
    }
}

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

/// Why berth ended a run that nobody asked to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Release {
    /// The agent had nothing to do for the time given.
    Idle,
    /// The session's time is up.
    Expired,
    /// It did not break a turn off when asked to.
    Unresponsive,
    /// It cannot be used.
    Broken {
        /** Why, for people. */
        reason: String,
    },
}

/// When a session's time is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// Of which boot.
    pub boot_id: String,
    /// On its clock.
    pub boot_ms: u64,
}

/// What a caller wants said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prompt {
    /// Who wants it.
    pub by: Actor,
    /// What.
    pub text: String,
    /// What makes the call repeatable.
    pub key: Option<String>,
    /// It has to be with the agent by then.
    pub start_by: Option<StartBy>,
    /// How it meets a turn that is running.
    pub manner: Manner,
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
        let held = match &self.hold {
            Some(Hold::Unknown { .. } | Hold::ForeignWriter { .. } | Hold::AgentFailed { .. }) => true,
            Some(Hold::Paused { .. }) | None => false,
        };
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

    pub(crate) fn run_starting(&mut self) {
        self.run_ended();
        self.was_of_use = false;
        match self.hold {
            Some(Hold::AgentFailed { .. } | Hold::ForeignWriter { .. }) => self.hold = None,
            Some(Hold::Paused { .. } | Hold::Unknown { .. }) | None => {}
        }
    }

    pub(crate) fn run_ended(&mut self) {
        self.ready = None;
        self.quiet_since_boot_ms = None;
        self.asks.clear();
    }

    pub(crate) fn agent_exited(&mut self) {
        self.was_of_use |= self.queue.is_empty();
    }

    pub(crate) fn ready(&mut self, able: Able, at_boot_ms: u64) {
        self.ready = Some(able);
        let is_quiet = self.current.is_none() && self.queue.is_empty();
        self.quiet_since_boot_ms = is_quiet.then_some(at_boot_ms);
    }

    pub(crate) fn cancel_requested(&mut self, turn: u64, cancel: &Cancel) {
        if let Some(current) = self.current.as_mut().filter(|current| current.turn == turn) {
            current.cancel = Some(cancel.clone());
        }
    }

    pub(crate) fn accepted(&mut self, prompt: &Prompt) {
        self.all.push(Turn {
            state: TurnState::Queued,
            prompt: prompt.text.as_str().into(),
            digest: digest(prompt.text.as_str()),
            key: prompt.key.as_deref().map(Into::into),
            start_by: prompt.start_by.clone(),
            manner: prompt.manner,
            given: false,
            ends: Vec::new(),
        });
        let turn = self.last();
        match prompt.manner {
            Manner::Queue => self.queue.push_back(turn),
            // Before what waits, behind others who were in the same hurry before.
            Manner::Steer | Manner::Interrupt => {
                let in_a_hurry = |turn: &u64| {
                    self.get(*turn).is_some_and(|turn| match turn.manner {
                        Manner::Steer | Manner::Interrupt => true,
                        Manner::Queue => false,
                    })
                };
                let at = self.queue.iter().take_while(|turn| in_a_hurry(turn)).count();
                self.queue.insert(at, turn);
            }
        }
        self.quiet_since_boot_ms = None;
    }

    pub(crate) fn delivered(&mut self, turn: u64, output_from: u64) {
        self.queue.retain(|queued| *queued != turn);
        match &mut self.current {
            Some(current) => current.steered.push(turn),
            None => self.current = Some(Current { turn, output_from, steered: Vec::new(), cancel: None }),
        }
        self.set(turn, TurnState::Delivered);
        if let Some(given) = self.get_mut(turn) {
            given.given = true;
        }
        self.quiet_since_boot_ms = None;
        self.was_of_use = true;
    }

    pub(crate) fn began(&mut self, turn: u64) {
        self.set(turn, TurnState::Working);
    }

    pub(crate) fn ended(&mut self, turn: u64, end: &TurnEnd, at_boot_ms: u64) {
        self.queue.retain(|queued| *queued != turn);
        self.set(turn, TurnState::Over(end.state));
        self.told(turn, end);
        if let Some(over) = self.get_mut(turn) {
            over.prompt = "".into();
        }
        if let Some(current) = &mut self.current {
            current.steered.retain(|steered| *steered != turn);
            if current.turn == turn {
                self.current = None;
                self.asks.clear();
            }
        }
        let is_quiet = self.ready.is_some() && self.current.is_none() && self.queue.is_empty();
        self.quiet_since_boot_ms = is_quiet.then_some(at_boot_ms);
    }

    /// Somebody said how a turn ended, for the first time or later.
    pub(crate) fn told(&mut self, turn: u64, end: &TurnEnd) {
        if let Some(over) = self.get_mut(turn) {
            over.ends.push(digest(end));
        }
    }

    pub(crate) fn moved(&mut self, turn: u64, to: u64) {
        self.queue.retain(|queued| *queued != turn);
        let to = usize::try_from(to).unwrap_or(usize::MAX).min(self.queue.len());
        self.queue.insert(to, turn);
    }

    /// The digest stays: a key belongs to the call that was accepted, and that had the first text.
    pub(crate) fn edited(&mut self, turn: u64, text: &str) {
        if let Some(known) = self.get_mut(turn).filter(|known| known.state == TurnState::Queued) {
            known.prompt = text.into();
        }
    }

    /// A state never goes back, and a final one stays.
    fn set(&mut self, turn: u64, state: TurnState) {
        if let Some(known) = self.get_mut(turn)
            && !known.state.is_over()
        {
            known.state = state;
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
    /// Whether its agent takes turns. (One in a terminal does not.)
    pub fn takes_turns(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.takes_turns())
    }

    /// The turn that is due, if the agent can have one now.
    pub fn due_turn(&self) -> Option<u64> {
        match self.phase {
            Phase::Running { .. } => self.turns.due(),
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => None,
        }
    }

    /// When the agent is released for having nothing to do, on the boot clock.
    pub fn release_at_boot_ms(&self) -> Option<u64> {
        let idle_ms = self.spec.as_ref()?.policy.idle_ms?;
        // What cannot come back stays: the conversation would be lost.
        self.turns.ready.filter(|able| able.resume)?;
        match self.phase {
            Phase::Running { .. } => Some(self.turns.quiet_since_boot_ms?.saturating_add(idle_ms)),
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => None,
        }
    }

    /// Whether the session's time is up.
    pub fn is_expired(&self, boot_id: &str, boot_ms: u64) -> bool {
        self.expiry.as_ref().is_some_and(|expiry| expiry.boot_id == boot_id && expiry.boot_ms <= boot_ms)
    }

    /// The boot whose clock the current or last run counts by.
    fn boot_id(&self) -> &str {
        self.keeper.as_ref().map_or("", |keeper| keeper.boot_id.as_str())
    }

    /// By when a turn has to be with the agent, on the boot clock. A moment of an earlier boot has passed.
    fn start_by_boot_ms(&self, turn: u64) -> Option<u64> {
        let start_by = self.turns.get(turn)?.start_by.as_ref()?;
        Some(if start_by.boot_id == self.boot_id() { start_by.boot_ms } else { 0 })
    }

    fn is_late(&self, turn: u64, now: Now) -> bool {
        self.start_by_boot_ms(turn).is_some_and(|at| at <= now.boot_ms)
    }

    /// The next moment at which time alone changes something about its turns, on the boot clock.
    pub fn turns_wake_at_boot_ms(&self) -> Option<u64> {
        if !self.is_live() {
            return None;
        }
        let withdrawals = self.turns.queue.iter().filter_map(|turn| self.start_by_boot_ms(*turn));
        let cancel = self.turns.current.as_ref().and_then(|current| current.cancel.as_ref());
        let cancel = cancel.filter(|_| matches!(self.phase, Phase::Running { .. }));
        let expiry = self.expiry.as_ref().filter(|it| it.boot_id == self.boot_id() && may_be_released(self));
        withdrawals
            .chain(cancel.map(|cancel| cancel.until_boot_ms))
            .chain(expiry.map(|expiry| expiry.boot_ms))
            .chain(self.release_at_boot_ms())
            .min()
    }

    /// Whether a run that ended is followed by another one without anybody asking again: somebody asked
    /// for what still waits. Whoever puts the session away puts that away, too.
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
        over_for_now && !ended_for_good && self.turns.hold.is_none() && !self.turns.queue.is_empty()
    }
}

fn may_be_released(session: &Session) -> bool {
    match session.phase {
        Phase::Starting | Phase::Running { .. } => true,
        Phase::New | Phase::Ending(_) | Phase::Ended { .. } => false,
    }
}

/// Accepts a prompt, or recognises one that was accepted before.
pub(crate) fn send(session: &Session, prompt: Prompt, now: Now) -> Result<Vec<Event>, Refusal> {
    if session.spec.is_none() {
        return Err(Refusal::NotCreated);
    }
    if !session.takes_turns() {
        return Err(Refusal::NoTurns);
    }
    let turns = &session.turns;
    if let Some(turn) = prompt.key.as_deref().and_then(|key| turns.keyed(key)) {
        let same = turns.get(turn).is_some_and(|known| known.digest == digest(prompt.text.as_str()));
        return if same { Ok(vec![]) } else { Err(Refusal::KeyReused { turn }) };
    }
    if session.archived {
        return Err(Refusal::Archived);
    }
    can_be_said(&prompt.text)?;
    if let Some(bytes) = prompt.key.as_ref().map(String::len).filter(|len| !(1..=MAX_KEY_BYTES).contains(len))
    {
        return Err(Refusal::BadKey { bytes, limit: MAX_KEY_BYTES });
    }
    if turns.queue.len() >= MOST_QUEUED {
        return Err(Refusal::QueueFull { limit: MOST_QUEUED });
    }
    if matches!(session.phase, Phase::Ending(_)) && session.stopped_by.is_some() {
        return Err(Refusal::BeingEnded);
    }
    // A session at rest may be looked at on the clock of another boot; whoever starts it knows that clock.
    let is_over = session.is_live() && session.is_expired(session.boot_id(), now.boot_ms);
    if is_over || session.released == Some(Release::Expired) {
        return Err(Refusal::Expired);
    }
    let running = turns.current.as_ref();
    if prompt.manner == Manner::Steer && running.is_some() && turns.ready.is_some_and(|able| !able.steer) {
        return Err(Refusal::CannotSteer);
    }
    let by = prompt.by.clone();
    let interrupted = running
        .filter(|current| prompt.manner == Manner::Interrupt && current.cancel.is_none())
        .map(|current| cancel_requested(current.turn, by, true, now));
    Ok(std::iter::once(Event::TurnAccepted { turn: turns.last() + 1, prompt }).chain(interrupted).collect())
}

fn can_be_said(text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::EmptyPrompt);
    }
    if text.len() > MAX_PROMPT_BYTES {
        return Err(Refusal::PromptTooLong { bytes: text.len(), limit: MAX_PROMPT_BYTES });
    }
    Ok(())
}

fn cancel_requested(turn: u64, by: Actor, for_another: bool, now: Now) -> Event {
    let until_boot_ms = now.boot_ms.saturating_add(CANCEL_PATIENCE.as_millis() as u64);
    Event::CancelRequested { turn, cancel: Cancel { by, for_another, until_boot_ms } }
}

/// Withdraws what waits, and nothing else.
pub(crate) fn withdraw(session: &Session, turn: u64, by: Actor, now: Now) -> Result<Vec<Event>, Refusal> {
    match session.turns.get(turn).map(|known| known.state) {
        Some(TurnState::Delivered | TurnState::Working) => Err(Refusal::TurnStarted { turn }),
        Some(TurnState::Queued | TurnState::Over(_)) | None => cancel(session, turn, by, now),
    }
}

/// Withdraws what waits; has the agent break off what it has.
pub(crate) fn cancel(session: &Session, turn: u64, by: Actor, now: Now) -> Result<Vec<Event>, Refusal> {
    let known = session.turns.get(turn).ok_or(Refusal::NoSuchTurn { turn })?;
    match known.state {
        TurnState::Over(end) => Err(Refusal::TurnOver { turn, end }),
        TurnState::Queued => {
            let end = TurnEnd::without_answer(Final::Cancelled, format!("withdrawn by {}", who(&by)));
            Ok(vec![over(turn, end, now)])
        }
        TurnState::Delivered | TurnState::Working => match &session.turns.current {
            Some(current) if current.turn == turn && current.cancel.is_none() => {
                Ok(vec![cancel_requested(turn, by, false, now)])
            }
            Some(current) if current.steered.contains(&turn) => {
                Err(Refusal::PartOf { turn, whole: current.turn })
            }
            Some(_) | None => Ok(vec![]),
        },
    }
}

fn who(by: &Actor) -> String {
    if by.place.is_empty() { format!("process {}", by.pid) } else { by.place.clone() }
}

fn over(turn: u64, end: TurnEnd, now: Now) -> Event {
    Event::TurnEnded { turn, end, at_boot_ms: now.boot_ms }
}

/// Puts a waiting turn at another place; 0 is the front.
pub(crate) fn shift(session: &Session, turn: u64, to: u64) -> Result<Vec<Event>, Refusal> {
    let known = session.turns.get(turn).ok_or(Refusal::NoSuchTurn { turn })?;
    match known.state {
        TurnState::Queued => {
            let stays = session.turns.queue.iter().position(|queued| *queued == turn);
            let to = to.min(session.turns.queue.len().saturating_sub(1) as u64);
            Ok(if stays == usize::try_from(to).ok() { vec![] } else { vec![Event::QueueMoved { turn, to }] })
        }
        TurnState::Over(end) => Err(Refusal::TurnOver { turn, end }),
        TurnState::Delivered | TurnState::Working => Err(Refusal::TurnStarted { turn }),
    }
}

/// Has a waiting turn say something else. Its number, its place, its key and whatever else was asked of it stay.
pub(crate) fn edit(session: &Session, turn: u64, text: String, by: Actor) -> Result<Vec<Event>, Refusal> {
    let known = session.turns.get(turn).ok_or(Refusal::NoSuchTurn { turn })?;
    match known.state {
        TurnState::Queued => {
            can_be_said(&text)?;
            Ok(if *known.prompt == *text { vec![] } else { vec![Event::TurnEdited { turn, text, by }] })
        }
        TurnState::Over(end) => Err(Refusal::TurnOver { turn, end }),
        TurnState::Delivered | TurnState::Working => Err(Refusal::TurnStarted { turn }),
    }
}

pub(crate) fn pause(session: &Session, by: Actor) -> Result<Vec<Event>, Refusal> {
    if !session.takes_turns() {
        return Err(Refusal::NoTurns);
    }
    Ok(match session.turns.hold {
        Some(Hold::Paused { .. } | Hold::Unknown { .. }) => vec![],
        // The next run lifts these. Whoever pauses means that one, too.
        Some(Hold::ForeignWriter { .. } | Hold::AgentFailed { .. }) | None => {
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

/// Gives the due turn to the agent: on disk before the agent hears of it. If it is too late for that, it is
/// withdrawn instead.
pub(crate) fn deliver(
    session: &Session,
    turn: u64,
    output_from: u64,
    now: Now,
) -> Result<Vec<Event>, Refusal> {
    if session.due_turn() != Some(turn) {
        return Err(Refusal::NotDue { turn });
    }
    if session.is_expired(session.boot_id(), now.boot_ms) {
        return Ok(expired(session, now));
    }
    if session.is_late(turn, now) {
        return Ok(vec![withdrawn(turn, now)]);
    }
    Ok(vec![Event::TurnDelivered { turn, epoch: session.epoch, output_from }])
}
