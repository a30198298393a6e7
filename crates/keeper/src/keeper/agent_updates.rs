//! An agent on pipes: what it does and says, and what follows from that.
//!
//! Promise: what is reported of an agent was in its output before.
//! Not here: its lines (`berth_driver`), its pipes (`agent_link`), the turns it gets (`effects`).
//! Start with [`Keeper::heed`].

use std::io;
use std::time::Duration;

use berth_api::message::Notice;
use berth_core::{Event, Observation, Phase, TurnState};
use berth_driver::{Activity, Driver, Out, Trouble, Update};
use berth_host::clock;
use berth_store::conversations::LOCK_PATIENCE;
use berth_store::killpoint;

use super::agent_link::{AgentLink, ReplayedOutput};
use super::{Keeper, cwd_of, take_up};
use crate::driver::{self, pipes::Pipes};
use crate::journaled_session::Input;
use crate::turn;

/// How long lists may be behind what the agent does at the moment, which is in no journal.
const ACTIVITY_DELAY_MS: u64 = 250;

impl Keeper {
    /// Takes a new agent's pipes into the loop, and says the first words to it.
    pub(super) fn talk_to(&mut self, driver: Box<dyn Driver>, pipes: Pipes) -> io::Result<()> {
        let out = self.link(driver, pipes)?;
        self.heed(out);
        Ok(())
    }

    /// Takes the pipes of an agent of the image before this one into the loop.
    pub(super) fn talk_again(&mut self, pipes: Pipes) -> io::Result<()> {
        let spec = self.journal.session().spec.as_ref();
        let Some(driver) = spec.and_then(|spec| driver::of(&spec.driver, self.identity.session())) else {
            return Err(io::Error::other("there is no driver for it"));
        };
        // Its first words were said by that image.
        let _ = self.link(driver, pipes)?;
        let was_ready = self.journal.session().turns.ready.is_some();
        let Some(agent) = &mut self.agent else { return Ok(()) };
        let ReplayedOutput { updates, is_ready } =
            agent.replay_output(self.journal.history(), &self.identity);
        self.heed(Out { bytes: Vec::new(), updates });
        let session = self.journal.session();
        let epoch = session.epoch;
        let proves = self.agent.as_ref().is_some_and(AgentLink::proves_acceptance);
        let unheard = session.turns.current.as_ref().is_some_and(|current| {
            session.turns.open(current.turn).is_some_and(|turn| turn.state == TurnState::Delivered)
        });
        if proves && unheard {
            // It may be on disk without having been said: a write that failed can be there all the same.
            let reason = "the keeper was replaced before the agent said that it has its turn".to_owned();
            self.report(vec![Observation::Broken { epoch, reason }]);
        } else if was_ready && !is_ready {
            let reason =
                "the keeper was replaced, and the beginning of its output is no longer kept".to_owned();
            self.report(vec![Observation::Broken { epoch, reason }]);
        }
        Ok(())
    }

    /// Registers an agent's pipes. Returns the driver's first words.
    fn link(&mut self, driver: Box<dyn Driver>, pipes: Pipes) -> io::Result<Out> {
        let complaints = self.identity.files().complaints();
        let mut agent = AgentLink::new(self.event_loop.epoll().clone(), driver, pipes, complaints)?;
        let out = agent.begin(self.conversation.begin(), cwd_of(self.journal.session()));
        self.agent = Some(agent);
        self.renew_watchdog();
        Ok(out)
    }

    /// Says what a driver wants said, and reports what it learned.
    pub(super) fn heed(&mut self, out: Out) {
        self.say(&out.bytes);
        let mut reports = Vec::new();
        for update in out.updates {
            self.learn(update, &mut reports);
        }
        self.report(reports);
    }

    fn say(&mut self, bytes: &[u8]) {
        let Some(agent) = self.agent.as_mut().filter(|_| !bytes.is_empty()) else { return };
        let is_read = agent.say(bytes);
        if agent.has_words() {
            // Half a line is with the agent, and a new image would not know the rest of it.
            self.event_loop.disarm_watchdog();
        }
        if !is_read {
            let reason = "it does not read its input".to_owned();
            self.report(vec![Observation::Broken { epoch: self.journal.epoch(), reason }]);
        }
    }

    fn learn(&mut self, update: Update, reports: &mut Vec<Observation>) {
        let session = self.journal.session();
        let (epoch, current) = (session.epoch, session.turns.current.as_ref().map(|current| current.turn));
        match update {
            Update::Ready => {
                let able = self.agent.as_ref().map(AgentLink::able).unwrap_or_default();
                reports.push(Observation::AgentReady { epoch, able });
                self.remember_conversation();
            }
            Update::Conversation { id } => {
                self.status.note_conversation(&id);
                reports.extend(self.enter(id, LOCK_PATIENCE).reports);
            }
            Update::Model { model } => self.status.note_model(model),
            Update::Context { context } => self.status.note_context(context),
            Update::Began { turn } => reports.push(Observation::TurnBegan { turn }),
            Update::Said { text } => self.on_said(current, text),
            Update::Doing { activity } => self.on_activity(current, activity),
            Update::Asks { ask } => reports.push(Observation::Asks { ask }),
            Update::Unasked { request } => reports.push(Observation::Unasked { request }),
            Update::Ended { turn, end } => {
                killpoint::reached("answered");
                if let Some(agent) = self.agent.as_mut().filter(|_| current == Some(turn)) {
                    agent.end_turn();
                }
                reports.push(Observation::TurnOver { turn, end });
                self.remember_conversation();
            }
            Update::Late { turn, end } => reports.push(Observation::TurnOver { turn, end }),
            Update::Remark { what } => {
                // In its place among the others, but it changes nothing: a note that fails is not missed.
                let _ = self.take(vec![Input::Note(Event::Warned { what })]);
            }
            Update::Broken { trouble } if self.begins_anew(&trouble) => {}
            Update::Broken { trouble } => {
                let reason = self.describe(&trouble);
                reports.push(Observation::Broken { epoch, reason });
            }
        }
    }

    fn on_said(&mut self, turn: Option<u64>, text: String) {
        if let (Some(agent), Some(turn)) = (&mut self.agent, turn) {
            agent.add_words(&text);
            self.clients.tell_followers(turn, &Notice::Said { turn, text });
        }
    }

    fn on_activity(&mut self, turn: Option<u64>, activity: Activity) {
        let Some(agent) = &mut self.agent else { return };
        if agent.note_activity(&activity, turn.is_some()) {
            self.write_status_within(ACTIVITY_DELAY_MS);
        }
        if let Some(turn) = turn {
            let Activity { what, detail, tokens } = activity;
            self.clients.tell_followers(turn, &Notice::Doing { turn, what, detail, tokens });
        }
    }

    /// Begins another conversation in place of one in which nothing was ever answered: agents record none before the first
    /// prompt, and it is not known whether they had that. Nothing is forgotten by it. False if the trouble is another one.
    fn begins_anew(&mut self, trouble: &Trouble) -> bool {
        let Trouble::NoConversation { id } = trouble else { return false };
        let session = self.journal.session();
        let (Some(spec), Some(agent)) = (&session.spec, &mut self.agent) else { return false };
        if take_up::has_a_past(session, spec) {
            return false;
        }
        let Some(out) = agent.begin_anew(&spec.cwd) else { return false };
        let what = format!("conversation {id} was never begun; the agent begins another one");
        let _ = self.take(vec![Input::Note(Event::Warned { what })]);
        self.say(&out.bytes);
        true
    }

    fn describe(&self, trouble: &Trouble) -> String {
        match trouble {
            Trouble::NoConversation { id } => turn::no_conversation(id, &self.handle_name()),
            Trouble::InUse { said } => format!("another program writes its conversation: {said}"),
            Trouble::NotLoggedIn { said } => {
                format!("it is not logged in: {said} (log in with its own command, or give it a key)")
            }
            Trouble::Protocol { said } => {
                let complaint = self.agent.as_ref().map(AgentLink::complaint).unwrap_or_default();
                format!("{said}{complaint}")
            }
        }
    }

    // The conversation.

    /// The agent writes this conversation from now on.
    pub(super) fn enter(&mut self, id: String, patience: Duration) -> super::agent_conversation::Entered {
        let entered = self.conversation.enter(&self.identity, self.journal.session(), id, patience);
        if entered.has_new_lock {
            self.renew_watchdog();
        }
        entered
    }

    /// Remembers the conversation as it is: the agent has just said all it had to say.
    pub(super) fn remember_conversation(&mut self) {
        self.conversation.remember(self.journal.session(), self.output.end());
    }

    // Time.

    /// When something about an agent on pipes is due, on the boot clock.
    pub(super) fn agent_due_ms(&self) -> Option<u64> {
        self.agent.as_ref()?.due_ms(self.journal.session(), self.run.was_terminated())
    }

    pub(super) fn on_agent_time(&mut self) {
        if self.agent_due_ms().is_none_or(|due| due > clock::boot_ms()) {
            return;
        }
        let session = self.journal.session();
        if matches!(session.phase, Phase::Ending(_)) {
            return self.run.terminate();
        }
        let epoch = session.epoch;
        let Some(agent) = &mut self.agent else { return };
        let reason = agent.take_overdue();
        self.report(vec![Observation::Broken { epoch, reason }]);
    }
}
