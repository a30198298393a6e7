//! What every journal must look like where it speaks of turns, in a few words of its own.
//!
//! As in `rules.rs`: which event may follow which, whoever wrote it.

use std::collections::BTreeMap;

use berth_core::{Event, Final, Hold, MOST_RETRIES, Manner, Prompt, Retry};

/// What the journal says of turns so far.
#[derive(Clone, Default, Debug)]
pub(crate) struct TurnRules {
    turns: Vec<Turn>,
    /// Which turn a key belongs to.
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
struct Turn {
    /// What it was accepted with.
    text: String,
    /// What the agent is to hear.
    says: String,
    manner: Manner,
    retry: Option<Retry>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Waits,
    WithAgent,
    Over(Final),
}

type Held = Result<(), &'static str>;

impl TurnRules {
    /// Takes the next event, or says which rule it breaks. `runs`: the run whose agent was seen and is not
    /// being ended.
    pub(crate) fn follow(&mut self, event: &Event, runs: Option<u64>) -> Held {
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
                let given = self.at(*turn, Stage::Waits)?;
                check(is_free || given.manner == Manner::Steer, "one turn at a time")?;
                given.stage = Stage::WithAgent;
                self.current.get_or_insert(*turn);
            }
            Event::TurnBegan { turn } => drop(self.at(*turn, Stage::WithAgent)?),
            Event::CancelRequested { turn, .. } => {
                check(self.current == Some(*turn), "only what runs is broken off")?;
                check(!self.is_cancelled, "it is asked to break off once")?;
                self.is_cancelled = true;
            }
            Event::TurnEnded { turn, end, .. } => {
                let was_refused = end.state == Final::Failed && end.failure.may_pass();
                self.refused = was_refused.then_some(*turn);
                self.ended(*turn, end.state)?;
            }
            Event::TurnLate { turn, .. } => {
                check(self.stage(*turn).is_some_and(Stage::is_over), "late is what comes after the end")?;
            }
            Event::QueueHeld { hold } => {
                self.is_held = true;
                self.until_next_run = match hold {
                    Hold::ForeignWriter { .. } | Hold::AgentFailed { .. } | Hold::Draft => true,
                    Hold::Paused { .. }
                    | Hold::Unknown { .. }
                    | Hold::ModelFailed { .. }
                    | Hold::Retrying { .. } => false,
                };
            }
            Event::QueueResumed { .. } => {
                check(self.is_held, "only what is held goes on")?;
                self.is_held = false;
            }
            Event::QueueMoved { turn, .. } => drop(self.at(*turn, Stage::Waits)?),
            Event::TurnEdited { turn, text, .. } => self.at(*turn, Stage::Waits)?.says.clone_from(text),
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
            | Event::Declared { .. }
            | Event::Respecified { .. }
            | Event::OwnerJoined { .. }
            | Event::OwnerLeft { .. }
            | Event::BecameReady { .. }
            | Event::NeverReady { .. }
            | Event::ConversationEntered { .. }
            | Event::ConversationLeft { .. }
            | Event::Asked { .. }
            | Event::Answered { .. }
            | Event::Unasked { .. }
            | Event::Released { .. }
            | Event::ExpirySet { .. }
            | Event::Archived { .. }
            | Event::Restored { .. }
            | Event::Tagged { .. }
            | Event::Noted { .. }
            | Event::Imported { .. }
            | Event::PolicySet { .. }
            | Event::InterfaceChosen { .. }
            | Event::HooksCarried { .. }
            | Event::EdgeSeen { .. }
            | Event::Warned { .. } => {}
        }
        Ok(())
    }

    fn accepted(&mut self, turn: u64, prompt: &Prompt, refused: Option<u64>) -> Held {
        check(turn == self.turns.len() as u64 + 1, "turns are numbered without a gap")?;
        if let Some(key) = &prompt.key {
            check(self.keys.insert(key.clone(), turn).is_none(), "a key means one turn")?;
        }
        if let Some(retry) = prompt.retry {
            let refused = refused.ok_or("only what the model just refused is retried, and once")?;
            let before = self.turns.get(refused as usize - 1).and_then(|turn| turn.retry);
            let Retry { of, attempt } = before.unwrap_or(Retry { of: refused, attempt: 0 });
            check(retry == Retry { of, attempt: attempt + 1 }, "attempts are counted")?;
            check(retry.attempt <= MOST_RETRIES, "nothing is retried for ever")?;
        }
        let (text, manner, retry) = (prompt.text.clone(), prompt.manner, prompt.retry);
        self.turns.push(Turn { says: text.clone(), text, manner, retry, stage: Stage::Waits });
        Ok(())
    }

    fn ended(&mut self, turn: u64, end: Final) -> Held {
        let stage = self.stage(turn).ok_or("a turn is accepted before it ends")?;
        match stage {
            Stage::Over(_) => return Err("a turn ends once"),
            Stage::Waits => check(end == Final::Cancelled, "what waits can only be withdrawn")?,
            Stage::WithAgent => {}
        }
        self.turns[turn as usize - 1].stage = Stage::Over(end);
        if self.current == Some(turn) {
            (self.current, self.is_cancelled) = (None, false);
            let left = self.turns.iter().any(|turn| turn.stage == Stage::WithAgent);
            check(!left, "what was steered into a turn ends with it")?;
        }
        Ok(())
    }

    fn at(&mut self, turn: u64, stage: Stage) -> Result<&mut Turn, &'static str> {
        let at = turn.checked_sub(1).and_then(|at| self.turns.get_mut(at as usize));
        at.filter(|turn| turn.stage == stage).ok_or("a turn waits, is with the agent, is over, in this order")
    }

    fn stage(&self, turn: u64) -> Option<Stage> {
        Some(self.turns.get(turn.checked_sub(1)? as usize)?.stage)
    }

    /// What a turn says, and which turn a key means.
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

    /// Those that are not over.
    pub(crate) fn open(&self) -> usize {
        self.turns.iter().filter(|turn| !turn.stage.is_over()).count()
    }

    pub(crate) fn ends(&self) -> impl Iterator<Item = Final> {
        self.turns.iter().filter_map(|turn| match turn.stage {
            Stage::Over(end) => Some(end),
            Stage::Waits | Stage::WithAgent => None,
        })
    }
}

impl Stage {
    fn is_over(self) -> bool {
        match self {
            Self::Over(_) => true,
            Self::Waits | Self::WithAgent => false,
        }
    }
}

fn check(holds: bool, rule: &'static str) -> Held {
    if holds { Ok(()) } else { Err(rule) }
}
