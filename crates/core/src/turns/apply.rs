//! What events make of the turns: a change for each, and no decision.

use std::hash::{Hash, Hasher};

use super::keys::StableHasher;
use super::{
    Able, Cancel, Current, Final, Hold, MOST_OVER_KEPT, Manner, Prompt, Turn, TurnEnd, TurnState, Turns,
    key_hash, text_digest,
};

impl Turns {
    pub(crate) fn run_starting(&mut self) {
        self.run_ended();
        self.was_of_use = false;
        match self.hold {
            Some(Hold::AgentFailed { .. } | Hold::ForeignWriter { .. } | Hold::Draft) => self.hold = None,
            Some(
                Hold::Paused { .. } | Hold::Unknown { .. } | Hold::ModelFailed { .. } | Hold::Retrying { .. },
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

    pub(crate) fn ready(&mut self, able: Able, at_boot_ms: u64) {
        self.ready = Some(able);
        // It came after all.
        if matches!(self.hold, Some(Hold::AgentFailed { .. })) {
            self.hold = None;
        }
        let is_quiet = self.current.is_none() && self.queue.is_empty();
        self.quiet_since_boot_ms = is_quiet.then_some(at_boot_ms);
    }

    pub(crate) fn cancel_requested(&mut self, turn: u64, cancel: &Cancel) {
        if let Some(current) = self.current.as_mut().filter(|current| current.turn == turn) {
            current.cancel = Some(cancel.clone());
        }
    }

    pub(crate) fn accepted(&mut self, prompt: &Prompt) {
        self.total += 1;
        let turn = self.total;
        if let Some(key) = &prompt.key {
            let number = u32::try_from(turn).expect("four billion turns take longer than any session lives");
            self.remember_key(key_hash(key), number, text_digest(&prompt.text));
        }
        let accepted = Turn {
            state: TurnState::Queued,
            prompt: prompt.text.as_str().into(),
            start_by: prompt.start_by.clone(),
            manner: prompt.manner,
            retry: prompt.retry,
            ends: Vec::new(),
        };
        self.window.insert(turn, accepted);
        match prompt.manner {
            Manner::Queue => self.queue.push_back(turn),
            // Before what waits, behind others who were in the same hurry before.
            Manner::Steer | Manner::Interrupt => {
                let in_a_hurry = |turn: &u64| {
                    self.open(*turn).is_some_and(|turn| match turn.manner {
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
        if let Some(given) = self.open_mut(turn) {
            let is_first_time = given.state == TurnState::Queued;
            given.state = TurnState::Delivered;
            self.given_total += u64::from(is_first_time);
            self.last_given = self.last_given.max(turn);
        }
        self.quiet_since_boot_ms = None;
        self.was_of_use = true;
    }

    pub(crate) fn began(&mut self, turn: u64) {
        if let Some(begun) = self.open_mut(turn) {
            begun.state = TurnState::Working;
        }
    }

    /// The first end of a turn counts. The turn that has been over for the longest time makes room for it.
    pub(crate) fn ended(&mut self, turn: u64, end: &TurnEnd, at_boot_ms: u64) {
        self.queue.retain(|queued| *queued != turn);
        if let Some(over) = self.open_mut(turn) {
            over.state = TurnState::Over(end.state);
            over.prompt = "".into();
            self.over.push_back(turn);
            if end.state == Final::Done {
                self.last_done = self.last_done.max(turn);
            }
        }
        self.told(turn, end);
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

    /// Somebody said how a turn ended, for the first time or later.
    pub(crate) fn told(&mut self, turn: u64, end: &TurnEnd) {
        if let Some(over) = self.window.get_mut(&turn) {
            over.ends.push(end_digest(end));
        }
    }

    pub(crate) fn moved(&mut self, turn: u64, to: u64) {
        self.queue.retain(|queued| *queued != turn);
        let to = usize::try_from(to).unwrap_or(usize::MAX).min(self.queue.len());
        self.queue.insert(to, turn);
    }

    /// The digest of its key stays: a key belongs to the call that was accepted, and that had the first text.
    pub(crate) fn edited(&mut self, turn: u64, text: &str) {
        if let Some(known) = self.open_mut(turn).filter(|known| known.state == TurnState::Queued) {
            known.prompt = text.into();
        }
    }
}

/// What makes an end known again that was told before. A version that computes it in another way keeps such an end once
/// more, and nothing else follows.
pub(super) fn end_digest(end: &TurnEnd) -> u64 {
    let mut hasher = StableHasher::default();
    end.hash(&mut hasher);
    hasher.finish()
}
