//! A turn on its way to an agent, whichever kind: given once, when nobody else writes its conversation.
//!
//! Promise: it is recorded as delivered before the agent hears of it, and said once; the agent has read what others said
//! before it, as far as the record shows that.
//! Not here: which turn is due (`berth_core`), how it is said (`agent`, `edges`), who else writes (`conversation`, `seen`).
//! Start with [`Keeper::deliver_turn`].

use berth_core::{Command, Effect, Hold, Observation};
use berth_store::killpoint;

use super::Keeper;
use super::edges::Typable;
use crate::owner::Input;

/// What a keeper knows of turns on their way and has in no journal.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Where what the agent printed began when it was last given a turn.
    pub(super) given_from: u64,
    /// The turn for which the agent was started again because somebody else had written.
    reread_for: Option<u64>,
    /// Somebody else wrote the conversation after the run's agent read it: what it says next would be a second branch.
    pub(super) outdated: bool,
}

impl Keeper {
    /// Gives the turn that is due to the agent, unless somebody else is writing its conversation.
    pub(super) fn deliver_turn(&mut self, turn: u64) {
        killpoint::reached("due");
        // The cheap question first: it is asked again and again while a terminal is not ready.
        match self.can_be_typed() {
            Typable::Now => {}
            Typable::Later => return,
            Typable::Held(hold) => return self.report(vec![Observation::Held { hold }]),
        }
        if let Some(report) = self.in_the_way_of(turn) {
            return self.report(vec![report]);
        }
        let output_from = self.output.end();
        self.delivery.given_from = output_from;
        self.with_keys_held(|keeper| {
            // If the disk is full, it is tried again when there may be room; see `on_time`.
            match keeper.take(vec![Input::Command(Command::Deliver { turn, output_from })]) {
                Ok(_) if keeper.owner.owed().contains(&Effect::Say { turn }) => {
                    keeper.performed.push(Effect::Say { turn });
                    keeper.say_turn(turn);
                }
                Ok(_) => {}
                Err(_) => keeper.retry_soon(),
            }
        });
    }

    /// What others do in its conversation, or did, that the agent has to know of before it gets this turn.
    fn in_the_way_of(&mut self, turn: u64) -> Option<Observation> {
        let session = &self.owner.history().session;
        let (epoch, in_terminal) = (session.epoch, session.has_terminal());
        if let Some(known) = session.conversation.clone() {
            let mut reports = Vec::new();
            // It changed, and somebody else had the right to write it then.
            self.enter(known.id, &mut reports);
            let held = reports.into_iter().find(|report| matches!(report, Observation::Held { .. }));
            if held.is_some() {
                return held;
            }
        }
        if let Some(who) = self.foreign_writer() {
            // One in a terminal is not started again for this. What was said shows in the record.
            self.delivery.outdated = !in_terminal;
            return Some(Observation::Held { hold: Hold::ForeignWriter { who } });
        }
        if self.delivery.outdated {
            let reason = "another program wrote its conversation meanwhile; the next run reads it anew";
            return Some(Observation::Broken { epoch, reason: reason.to_owned() });
        }
        if in_terminal {
            let who = self.another_wrote()?;
            return Some(Observation::Held { hold: Hold::ForeignWriter { who } });
        }
        let what = self.another_wrote().filter(|_| self.delivery.reread_for != Some(turn))?;
        self.delivery.reread_for = Some(turn);
        Some(Observation::Broken { epoch, reason: format!("{what}; the next run reads it anew") })
    }

    /// Does something without being replaced in the middle of it: what is recorded as said must be said, and a
    /// new image would not know that it was not. A disk that hangs cannot be helped by a new image anyway.
    pub(super) fn undisturbed<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(watchdog) = &self.watchdog {
            watchdog.disarm();
        }
        let was_undisturbed = std::mem::replace(&mut self.writing.is_undisturbed, true);
        let done = what(self);
        self.writing.is_undisturbed = was_undisturbed;
        if !was_undisturbed {
            self.arm_watchdog();
        }
        done
    }

    /// [`Self::undisturbed`], and clients are not read meanwhile: keys of a person would be joined with what is typed.
    pub(super) fn with_keys_held<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        self.writing.holds_keys = true;
        let done = self.undisturbed(what);
        self.writing.holds_keys = false;
        done
    }

    /// Says a turn's prompt. What is recorded as delivered is said once.
    pub(super) fn say_turn(&mut self, turn: u64) {
        killpoint::reached("delivered");
        let session = &self.owner.history().session;
        let Some(text) = session.turns.open(turn).map(|turn| turn.prompt.clone()) else { return };
        if session.has_terminal() {
            return self.paste_turn(turn, &text);
        }
        let is_whole = session.turns.current.as_ref().is_some_and(|current| current.turn == turn);
        self.say_to_agent(turn, &text, is_whole);
    }

    pub(super) fn interrupt_turn(&mut self, turn: u64) {
        if self.owner.history().session.has_terminal() {
            return self.break_off_in_terminal(turn);
        }
        self.break_agent_off(turn);
    }

    /// Forgets that a turn was to be delivered, so that it is tried again.
    pub(super) fn deliver_again(&mut self) {
        self.performed.retain(|effect| !matches!(effect, Effect::Deliver { .. }));
    }
}
