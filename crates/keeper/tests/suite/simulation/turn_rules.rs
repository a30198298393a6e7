//! Rules that every journal must follow where it records turns, stated independently of the keeper.
//!
//! As in `rules.rs`: the allowed order of events, for any writer.

use std::collections::BTreeMap;

use berth_core::{Event, FinalState, MOST_RETRIES, QueueHold, SendMode, TurnPrompt, TurnRetry};

/// The state of turns that the journal so far leads to.
#[derive(Clone, Default, Debug)]
pub(crate) struct TurnRules {
    turns: Vec<CheckedTurn>,
    /// The turn that each key belongs to.
    keys: BTreeMap<String, u64>,
    /// The agent of the live run takes turns.
    is_ready: bool,
    is_held: bool,
    /// The next run lifts what holds.
    until_next_run: bool,
    current: Option<u64>,
    is_cancelled: bool,
    /// The turn that the model refused in the event just before: the only one that may be retried.
    refused: Option<u64>,
}

#[derive(Clone, Debug)]
struct CheckedTurn {
    /// The text it was accepted with.
    text: String,
    /// The text that the agent is to get.
    says: String,
    manner: SendMode,
    retry: Option<TurnRetry>,
    stage: CheckedTurnStage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CheckedTurnStage {
    Waits,
    WithAgent,
    Over(FinalState),
}

type TurnRuleResult = Result<(), &'static str>;

impl TurnRules {
    /// Takes the next event, or says which rule it breaks. `runs`: the run whose agent was seen and is not being ended.
    pub(crate) fn follow(&mut self, event: &Event, runs: Option<u64>) -> TurnRuleResult {
        let refused = self.refused.take();
        match event {
            Event::RunStarting { .. } => {
                (self.is_ready, self.is_cancelled) = (false, false);
                self.is_held &= !self.until_next_run;
            }
            Event::RunEnded { .. } => {
                self.is_ready = false;
                check(self.current.is_none(), "no turn outlives its run")?;
            }
            Event::AgentReady { .. } => {
                check(!self.is_ready, "an agent becomes ready once")?;
                self.is_ready = true;
            }
            Event::TurnAccepted { turn, prompt } => self.accepted(*turn, prompt, refused)?,
            Event::TurnDelivered { turn, epoch, .. } => {
                check(runs == Some(epoch.0) && self.is_ready, "only an agent that takes turns gets one")?;
                check(!self.is_held, "a queue that is held gives nothing")?;
                let is_free = self.current.is_none();
                let given = self.at(*turn, CheckedTurnStage::Waits)?;
                check(is_free || given.manner == SendMode::Steer, "one turn at a time")?;
                given.stage = CheckedTurnStage::WithAgent;
                self.current.get_or_insert(*turn);
            }
            Event::TurnBegan { turn } => drop(self.at(*turn, CheckedTurnStage::WithAgent)?),
            Event::CancelRequested { turn, .. } => {
                check(self.current == Some(*turn), "only what runs is broken off")?;
                check(!self.is_cancelled, "it is asked to break off once")?;
                self.is_cancelled = true;
            }
            Event::TurnEnded { turn, end, .. } => {
                let was_refused = end.state == FinalState::Failed && end.failure.is_transient();
                self.refused = was_refused.then_some(*turn);
                self.ended(*turn, end.state)?;
            }
            Event::LateResult { turn, .. } => {
                check(
                    self.stage(*turn).is_some_and(CheckedTurnStage::is_over),
                    "late is what comes after the end",
                )?;
            }
            Event::QueueHeld { hold } => {
                self.is_held = true;
                self.until_next_run = match hold {
                    QueueHold::ForeignWriter { .. } | QueueHold::AgentFailed { .. } | QueueHold::Draft => {
                        true
                    }
                    QueueHold::Paused { .. }
                    | QueueHold::Unknown { .. }
                    | QueueHold::ModelFailed { .. }
                    | QueueHold::Retrying { .. } => false,
                };
            }
            Event::QueueResumed { .. } => {
                check(self.is_held, "only what is held goes on")?;
                self.is_held = false;
            }
            Event::QueueMoved { turn, .. } => drop(self.at(*turn, CheckedTurnStage::Waits)?),
            Event::TurnEdited { turn, text, .. } => {
                self.at(*turn, CheckedTurnStage::Waits)?.says.clone_from(text)
            }
            Event::Created { .. }
            | Event::Renamed { .. }
            | Event::RunStarted { .. }
            | Event::StopRequested { .. }
            | Event::AgentExited { .. }
            | Event::OomKilled { .. }
            | Event::KillOrdered { .. }
            | Event::EndUnproven { .. }
            | Event::WriterGranted { .. }
            | Event::WriterReleased { .. }
            | Event::Typed { .. }
            | Event::KeeperRestarted { .. }
            | Event::OutputDropped { .. }
            | Event::HelperDeclared { .. }
            | Event::CommandChanged { .. }
            | Event::OwnerJoined { .. }
            | Event::OwnerLeft { .. }
            | Event::BecameReady { .. }
            | Event::NeverReady { .. }
            | Event::ConversationEntered { .. }
            | Event::ConversationLeft { .. }
            | Event::QuestionAsked { .. }
            | Event::Answered { .. }
            | Event::QuestionWithdrawn { .. }
            | Event::RunReleased { .. }
            | Event::ExpirySet { .. }
            | Event::Archived { .. }
            | Event::Restored { .. }
            | Event::TagsChanged { .. }
            | Event::NoteChanged { .. }
            | Event::Imported { .. }
            | Event::PolicySet { .. }
            | Event::InterfaceChosen { .. }
            | Event::HooksInjected { .. }
            | Event::ActivityReported { .. }
            | Event::Warned { .. } => {}
        }
        Ok(())
    }

    fn accepted(&mut self, turn: u64, prompt: &TurnPrompt, refused: Option<u64>) -> TurnRuleResult {
        check(turn == self.turns.len() as u64 + 1, "turns are numbered without a gap")?;
        if let Some(key) = &prompt.key {
            check(self.keys.insert(key.clone(), turn).is_none(), "a key means one turn")?;
        }
        if let Some(retry) = prompt.retry {
            let refused = refused.ok_or("only what the model just refused is retried, and once")?;
            let before = self.turns.get(refused as usize - 1).and_then(|turn| turn.retry);
            let TurnRetry { of, attempt } = before.unwrap_or(TurnRetry { of: refused, attempt: 0 });
            check(retry == TurnRetry { of, attempt: attempt + 1 }, "attempts are counted")?;
            check(retry.attempt <= MOST_RETRIES, "nothing is retried for ever")?;
        }
        let (text, manner, retry) = (prompt.text.clone(), prompt.manner, prompt.retry);
        self.turns.push(CheckedTurn {
            says: text.clone(),
            text,
            manner,
            retry,
            stage: CheckedTurnStage::Waits,
        });
        Ok(())
    }

    fn ended(&mut self, turn: u64, end: FinalState) -> TurnRuleResult {
        let stage = self.stage(turn).ok_or("a turn is accepted before it ends")?;
        match stage {
            CheckedTurnStage::Over(_) => return Err("a turn ends once"),
            CheckedTurnStage::Waits => {
                check(end == FinalState::Cancelled, "what waits can only be withdrawn")?
            }
            CheckedTurnStage::WithAgent => {}
        }
        self.turns[turn as usize - 1].stage = CheckedTurnStage::Over(end);
        if self.current == Some(turn) {
            (self.current, self.is_cancelled) = (None, false);
            let left = self.turns.iter().any(|turn| turn.stage == CheckedTurnStage::WithAgent);
            check(!left, "what was steered into a turn ends with it")?;
        }
        Ok(())
    }

    fn at(&mut self, turn: u64, stage: CheckedTurnStage) -> Result<&mut CheckedTurn, &'static str> {
        let at = turn.checked_sub(1).and_then(|at| self.turns.get_mut(at as usize));
        at.filter(|turn| turn.stage == stage).ok_or("a turn waits, is with the agent, is over, in this order")
    }

    fn stage(&self, turn: u64) -> Option<CheckedTurnStage> {
        Some(self.turns.get(turn.checked_sub(1)? as usize)?.stage)
    }

    /// True if a turn has this text, and this key means it.
    pub(crate) fn knows(&self, turn: u64, text: &str, key: Option<&str>) -> bool {
        let known = turn.checked_sub(1).and_then(|at| self.turns.get(at as usize));
        known.is_some_and(|known| known.text == text)
            && key.is_none_or(|key| self.keys.get(key) == Some(&turn))
    }

    pub(crate) fn says(&self, turn: u64) -> Option<&str> {
        Some(&self.turns.get(turn.checked_sub(1)? as usize)?.says)
    }

    pub(crate) fn count(&self) -> u64 {
        self.turns.len() as u64
    }

    /// The number of turns that are not over.
    pub(crate) fn open(&self) -> usize {
        self.turns.iter().filter(|turn| !turn.stage.is_over()).count()
    }

    pub(crate) fn ends(&self) -> impl Iterator<Item = FinalState> {
        self.turns.iter().filter_map(|turn| match turn.stage {
            CheckedTurnStage::Over(end) => Some(end),
            CheckedTurnStage::Waits | CheckedTurnStage::WithAgent => None,
        })
    }
}

impl CheckedTurnStage {
    fn is_over(self) -> bool {
        match self {
            Self::Over(_) => true,
            Self::Waits | Self::WithAgent => false,
        }
    }
}

fn check(holds: bool, rule: &'static str) -> TurnRuleResult {
    if holds { Ok(()) } else { Err(rule) }
}
