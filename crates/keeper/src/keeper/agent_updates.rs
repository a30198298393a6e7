//! The activity and output of an agent on pipes, and the keeper's reactions.
//!
//! Promise: every report about an agent was in its output before.
//! Not here: its lines (`berth_driver`), its pipes (`agent_link`), the turns it gets (`effects`).
//! Start with [`Keeper::heed`].

use std::io;
use std::time::Duration;

use berth_api::message::KeeperNotice;
use berth_core::{Event, Observation, RunPhase, TurnProgress};
use berth_driver::{AgentActivity, AgentFailure, AgentUpdate, Driver, DriverOutput};
use berth_host::clock;
use berth_store::conversation_locks::LOCK_PATIENCE;
use berth_store::killpoint;

use super::agent_link::{AgentLink, ReplayedOutput};
use super::{Keeper, cwd_of, prepared_conversation};
use crate::agent_launch::{self, pipes::AgentPipes};
use crate::turn_outcome;

/// The delay of lists behind the agent's current activity, which is in no journal.
const ACTIVITY_DELAY_MS: u64 = 250;

impl Keeper {
    /// Registers a new agent's pipes with the loop, and sends it the first messages.
    pub(super) fn talk_to(&mut self, driver: Box<dyn Driver>, pipes: AgentPipes) -> io::Result<()> {
        let out = self.link(driver, pipes)?;
        self.heed(out);
        Ok(())
    }

    /// Registers the pipes of an agent of the previous image with the loop.
    pub(super) fn talk_again(&mut self, pipes: AgentPipes) -> io::Result<()> {
        let spec = self.journal.session().spec.as_ref();
        let Some(driver) = spec.and_then(|spec| agent_launch::of(&spec.driver, self.identity.session()))
        else {
            return Err(io::Error::other("there is no driver for it"));
        };
        // The previous image sent the first messages.
        let _ = self.link(driver, pipes)?;
        let was_ready = self.journal.session().turns.ready.is_some();
        let Some(agent) = &mut self.agent else { return Ok(()) };
        let ReplayedOutput { updates, is_ready } =
            agent.replay_output(self.journal.history(), &self.identity);
        self.heed(DriverOutput { bytes: Vec::new(), updates });
        let session = self.journal.session();
        let epoch = session.epoch;
        let proves = self.agent.as_ref().is_some_and(AgentLink::proves_acceptance);
        let unheard = session.turns.current.as_ref().is_some_and(|current| {
            session.turns.open(current.turn).is_some_and(|turn| turn.state == TurnProgress::Delivered)
        });
        if proves && unheard {
            // The delivery may be on disk although the prompt was never sent: a write that failed can be there
            // all the same.
            let reason = "the keeper was replaced before the agent confirmed the turn".to_owned();
            self.report(vec![Observation::Broken { epoch, reason }]);
        } else if was_ready && !is_ready {
            let reason =
                "the keeper was replaced, and the beginning of its output is no longer kept".to_owned();
            self.report(vec![Observation::Broken { epoch, reason }]);
        }
        Ok(())
    }

    /// Registers an agent's pipes. Returns the driver's first words.
    fn link(&mut self, driver: Box<dyn Driver>, pipes: AgentPipes) -> io::Result<DriverOutput> {
        let complaints = self.identity.files().complaints();
        let mut agent = AgentLink::new(self.event_loop.epoll().clone(), driver, pipes, complaints)?;
        let out = agent.begin(self.conversation.begin(), cwd_of(self.journal.session()));
        self.agent = Some(agent);
        self.renew_watchdog();
        Ok(out)
    }

    /// Sends the driver's messages to the agent, and reports its updates.
    pub(super) fn heed(&mut self, out: DriverOutput) {
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

    fn learn(&mut self, update: AgentUpdate, reports: &mut Vec<Observation>) {
        let session = self.journal.session();
        // The end of a turn may be on its way to the disk: text behind it belongs to no turn.
        let ended = self.agent.as_ref().and_then(AgentLink::ended_turn);
        let current = session.turns.current.as_ref().map(|current| current.turn);
        let (epoch, current) = (session.epoch, current.filter(|turn| Some(*turn) != ended));
        match update {
            AgentUpdate::Ready => {
                let able = self.agent.as_ref().map(AgentLink::able).unwrap_or_default();
                reports.push(Observation::AgentReady { epoch, able });
                self.remember_conversation();
            }
            AgentUpdate::Conversation { id } => {
                self.status.note_conversation(&id);
                reports.extend(self.enter(id, LOCK_PATIENCE).reports);
            }
            AgentUpdate::Model { model } => self.status.note_model(model),
            AgentUpdate::Context { context } => self.status.note_context(context),
            AgentUpdate::Began { turn } => reports.push(Observation::TurnBegan { turn }),
            AgentUpdate::Said { text } => self.on_said(current, text),
            AgentUpdate::Doing { activity } => self.on_activity(current, activity),
            AgentUpdate::Asks { ask } => reports.push(Observation::Asks { ask }),
            AgentUpdate::QuestionWithdrawn { request } => {
                reports.push(Observation::QuestionWithdrawn { request })
            }
            AgentUpdate::Ended { turn, end } => {
                killpoint::reached("answered");
                if let Some(agent) = self.agent.as_mut().filter(|_| current == Some(turn)) {
                    agent.end_turn(turn);
                }
                reports.push(Observation::TurnOver { turn, end });
                self.remember_conversation();
            }
            AgentUpdate::Late { turn, end } => reports.push(Observation::TurnOver { turn, end }),
            AgentUpdate::Remark { what } => {
                self.note(Event::Warned { what });
            }
            AgentUpdate::Broken { trouble } if self.begins_anew(&trouble) => {}
            AgentUpdate::Broken { trouble } => {
                let reason = self.describe(&trouble);
                reports.push(Observation::Broken { epoch, reason });
            }
        }
    }

    fn on_said(&mut self, turn: Option<u64>, text: String) {
        if let (Some(agent), Some(turn)) = (&mut self.agent, turn) {
            agent.add_words(&text);
            self.clients.tell_followers(turn, &KeeperNotice::Said { turn, text });
        }
    }

    fn on_activity(&mut self, turn: Option<u64>, activity: AgentActivity) {
        let Some(agent) = &mut self.agent else { return };
        if agent.note_activity(&activity, turn.is_some()) {
            self.write_status_within(ACTIVITY_DELAY_MS);
        }
        if let Some(turn) = turn {
            let AgentActivity { what, detail, tokens } = activity;
            self.clients.tell_followers(turn, &KeeperNotice::Doing { turn, activity: what, detail, tokens });
        }
    }

    /// Begins another conversation in place of one without any answer: agents record none before the first prompt, and
    /// it is not known whether they received that. No text is lost by it. False if the trouble is a different one.
    fn begins_anew(&mut self, trouble: &AgentFailure) -> bool {
        let AgentFailure::NoConversation { id } = trouble else { return false };
        let session = self.journal.session();
        let (Some(spec), Some(agent)) = (&session.spec, &mut self.agent) else { return false };
        if prepared_conversation::has_a_past(session, spec) {
            return false;
        }
        let Some(out) = agent.begin_anew(&spec.cwd) else { return false };
        let what = format!("conversation {id} was never begun; the agent begins another one");
        self.note(Event::Warned { what });
        self.say(&out.bytes);
        true
    }

    fn describe(&self, trouble: &AgentFailure) -> String {
        match trouble {
            AgentFailure::NoConversation { id } => turn_outcome::no_conversation(id, &self.handle_name()),
            AgentFailure::InUse { said } => format!("another program writes its conversation: {said}"),
            AgentFailure::NotLoggedIn { said } => {
                format!("it is not logged in: {said} (log in with its own command, or give it a key)")
            }
            AgentFailure::Protocol { said } => {
                let complaint = self.agent.as_ref().map(AgentLink::complaint).unwrap_or_default();
                format!("{said}{complaint}")
            }
        }
    }

    // The agent's conversation.

    /// Notes that the agent writes this conversation from now on.
    pub(super) fn enter(
        &mut self,
        id: String,
        patience: Duration,
    ) -> super::run_conversation::EnteredConversation {
        let entered = self.conversation.enter(&self.identity, self.journal.session(), id, patience);
        if entered.has_new_lock {
            self.renew_watchdog();
        }
        entered
    }

    /// Records the state of the conversation: the agent has just finished its answer.
    pub(super) fn remember_conversation(&mut self) {
        self.conversation.remember(self.journal.session(), self.output.end());
    }

    // Deadlines of the agent.

    /// The next deadline of an agent on pipes, on the boot clock.
    pub(super) fn agent_due_ms(&self) -> Option<u64> {
        self.agent.as_ref()?.due_ms(self.journal.session(), self.run.was_terminated())
    }

    pub(super) fn on_agent_time(&mut self) {
        let is_due = |keeper: &Self| keeper.agent_due_ms().is_some_and(|due| due <= clock::boot_ms());
        if !is_due(self) {
            return;
        }
        // After a slow sync the kernel's report about the agent's end may not have been read yet.
        self.on_children();
        if !is_due(self) {
            return;
        }
        let session = self.journal.session();
        if matches!(session.phase, RunPhase::Ending(_)) {
            return self.run.terminate();
        }
        let epoch = session.epoch;
        let Some(agent) = &mut self.agent else { return };
        let reason = agent.take_overdue();
        self.report(vec![Observation::Broken { epoch, reason }]);
    }
}
