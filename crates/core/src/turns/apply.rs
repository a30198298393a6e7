//! Applies events to the turns: one change for each, and no decision.

use std::hash::{Hash, Hasher};

use super::keys::StableHasher;
use super::{
    AgentCapabilities, CancelRequest, CurrentTurn, FinalState, MOST_OVER_KEPT, QueueHold, SendMode,
    SessionTurns, Turn, TurnEnd, TurnProgress, TurnPrompt, key_hash, text_digest,
};

impl SessionTurns {
    pub(crate) fn run_starting(&mut self) {
        self.run_ended();
        self.was_of_use = false;
        match self.hold {
            Some(QueueHold::AgentFailed { .. } | QueueHold::ForeignWriter { .. } | QueueHold::Draft) => {
                self.hold = None
            }
            Some(
                QueueHold::Paused { .. }
                | QueueHold::Unknown { .. }
                | QueueHold::ModelFailed { .. }
                | QueueHold::Retrying { .. },
            )
            | None => {}
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

    pub(crate) fn ready(&mut self, able: AgentCapabilities, at_boot_ms: u64) {
        self.ready = Some(able);
        // The agent became ready after all.
        if matches!(self.hold, Some(QueueHold::AgentFailed { .. })) {
            self.hold = None;
        }
        let is_quiet = self.current.is_none() && self.queue.is_empty();
        self.quiet_since_boot_ms = is_quiet.then_some(at_boot_ms);
    }

    pub(crate) fn cancel_requested(&mut self, turn: u64, cancel: &CancelRequest) {
        if let Some(current) = self.current.as_mut().filter(|current| current.turn == turn) {
            current.cancel = Some(cancel.clone());
        }
    }

    pub(crate) fn accepted(&mut self, prompt: &TurnPrompt) {
        self.total += 1;
        let turn = self.total;
        if let Some(key) = &prompt.key {
            let number = u32::try_from(turn).expect("four billion turns take longer than any session lives");
            self.remember_key(key_hash(key), number, text_digest(&prompt.text));
        }
        let accepted = Turn {
            state: TurnProgress::Queued,
            prompt: prompt.text.as_str().into(),
            start_by: prompt.start_by.clone(),
            manner: prompt.manner,
            retry: prompt.retry,
            ends: Vec::new(),
        };
        self.window.insert(turn, accepted);
        match prompt.manner {
            SendMode::Queue => self.queue.push_back(turn),
            // Put it before the waiting turns, behind earlier ones that were in the same hurry.
            SendMode::Steer | SendMode::Interrupt => {
                let in_a_hurry = |turn: &u64| {
                    self.open(*turn).is_some_and(|turn| match turn.manner {
                        SendMode::Steer | SendMode::Interrupt => true,
                        SendMode::Queue => false,
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
            None => self.current = Some(CurrentTurn { turn, output_from, steered: Vec::new(), cancel: None }),
        }
        if let Some(given) = self.open_mut(turn) {
            let is_first_time = given.state == TurnProgress::Queued;
            given.state = TurnProgress::Delivered;
            self.given_total += u64::from(is_first_time);
            self.last_given = self.last_given.max(turn);
        }
        self.quiet_since_boot_ms = None;
        self.was_of_use = true;
    }

    pub(crate) fn began(&mut self, turn: u64) {
        if let Some(begun) = self.open_mut(turn) {
            begun.state = TurnProgress::Working;
        }
    }

    /// Ends a turn; only its first end counts. The turn that has been over for the longest time makes room for it.
    pub(crate) fn ended(&mut self, turn: u64, end: &TurnEnd, at_boot_ms: u64) {
        self.queue.retain(|queued| *queued != turn);
        if let Some(over) = self.open_mut(turn) {
            over.state = TurnProgress::Over(end.state);
            over.prompt = "".into();
            self.over.push_back(turn);
            if end.state == FinalState::Done {
                self.last_done = self.last_done.max(turn);
            }
        }
        self.keep_result(turn, end);
        while self.over.len() > MOST_OVER_KEPT {
            let evicted = self.over.pop_front();
            evicted.and_then(|turn| self.window.remove(&turn));
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

    /// Remembers a reported end of a turn, the first or a later one.
    pub(crate) fn keep_result(&mut self, turn: u64, end: &TurnEnd) {
        if let Some(over) = self.window.get_mut(&turn) {
            over.ends.push(end_digest(end));
        }
    }

    pub(crate) fn moved(&mut self, turn: u64, to: u64) {
        self.queue.retain(|queued| *queued != turn);
        let to = usize::try_from(to).unwrap_or(usize::MAX).min(self.queue.len());
        self.queue.insert(to, turn);
    }

    /// Replaces the text. The digest of the key stays: a key belongs to the accepted call, which had the first text.
    pub(crate) fn edited(&mut self, turn: u64, text: &str) {
        if let Some(known) = self.open_mut(turn).filter(|known| known.state == TurnProgress::Queued) {
            known.prompt = text.into();
        }
    }
}

/// Digest of a turn's end, for recognising a repeated report. A version that computes it in another way keeps
/// such an end once more, and nothing else follows.
pub(super) fn end_digest(end: &TurnEnd) -> u64 {
    let mut hasher = StableHasher::default();
    end.hash(&mut hasher);
    hasher.finish()
}
