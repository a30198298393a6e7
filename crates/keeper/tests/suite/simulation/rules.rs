//! Rules that every journal must follow, stated independently of the keeper.
//!
//! This does not repeat `core`: it knows no commands and no effects, only the allowed order of events. Readers of the
//! journal rely on that order, for any writer.

use berth_core::{Event, ProcessExit};

use crate::simulation::turn_rules::TurnRules;

/// The state that the journal so far leads to.
#[derive(Clone, Default, Debug)]
pub(crate) struct JournalRules {
    created: bool,
    epoch: u64,
    /// The run that is not over.
    pub(crate) live: Option<u64>,
    started: bool,
    /// True if a client, or berth itself, wants the run to end.
    ending: bool,
    exited: Option<ProcessExit>,
    killed: bool,
    fence: u64,
    /// The fence of the writer whose input may reach the agent.
    pub(crate) writer: Option<u64>,
    /// True if a client archived the session.
    pub(crate) archived: bool,
    pub(crate) turns: TurnRules,
}

impl JournalRules {
    /// Applies the next event, or returns the rule it breaks.
    pub(crate) fn follow(&mut self, event: &Event) -> Result<(), String> {
        let followed = self.may_follow(event).and_then(|()| {
            let runs = self.live.filter(|_| self.started && self.exited.is_none() && !self.ending);
            self.turns.follow(event, runs)
        });
        followed.map_err(|rule| format!("{rule}: {event:?} after {self:?}"))?;
        match event {
            Event::Created { .. } => self.created = true,
            Event::RunStarting { epoch, .. } => {
                (self.live, self.epoch, self.writer) = (Some(epoch.0), epoch.0, None);
                (self.started, self.ending, self.exited, self.killed) = (false, false, None, false);
            }
            Event::RunStarted { .. } => self.started = true,
            Event::AgentExited { exit, .. } => self.exited = Some(*exit),
            Event::KillOrdered { .. } => self.killed = true,
            Event::RunEnded { .. } => (self.live, self.writer) = (None, None),
            Event::WriterGranted { fence, .. } => (self.fence, self.writer) = (fence.0, Some(fence.0)),
            Event::WriterReleased { .. } => self.writer = None,
            Event::StopRequested { .. } | Event::RunReleased { .. } => self.ending = true,
            Event::Archived { .. } => self.archived = true,
            Event::Restored { .. } => self.archived = false,
            Event::Renamed { .. }
            | Event::OomKilled { .. }
            | Event::EndUnproven { .. }
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
            | Event::AgentReady { .. }
            | Event::TurnAccepted { .. }
            | Event::TurnDelivered { .. }
            | Event::TurnBegan { .. }
            | Event::CancelRequested { .. }
            | Event::TurnEnded { .. }
            | Event::LateResult { .. }
            | Event::QuestionAsked { .. }
            | Event::Answered { .. }
            | Event::QuestionWithdrawn { .. }
            | Event::QueueHeld { .. }
            | Event::QueueResumed { .. }
            | Event::QueueMoved { .. }
            | Event::TurnEdited { .. }
            | Event::ExpirySet { .. }
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

    fn may_follow(&self, event: &Event) -> Result<(), &'static str> {
        let live = |epoch: u64| self.live == Some(epoch);
        match event {
            Event::Created { .. } => check(!self.created, "a session is created once"),
            _ if !self.created => Err("a session is created before anything else"),
            Event::RunStarting { epoch, .. } => {
                check(self.live.is_none(), "at most one run is live")?;
                check(!self.archived, "what was put away does not run")?;
                check(epoch.0 > self.epoch, "epochs grow")
            }
            Event::RunStarted { epoch, .. } => {
                check(live(epoch.0) && !self.started, "only the live run starts, once")
            }
            Event::StopRequested { epoch, .. } => {
                // Or what would have followed a run that is over.
                let next = self.live.is_none() && epoch.0 == self.epoch && self.turns.open() > 0;
                check(live(epoch.0) || next, "only a live run is stopped")
            }
            Event::RunReleased { epoch, .. } => {
                check(live(epoch.0) && !self.ending, "only a live run is released, once")
            }
            Event::AgentExited { epoch, .. } => {
                check(live(epoch.0) && self.exited.is_none(), "only the live run's agent exits, once")
            }
            Event::OomKilled { epoch, .. } => check(live(epoch.0), "memory runs out in a live run"),
            Event::KillOrdered { epoch } => {
                check(live(epoch.0) && !self.killed, "only the live run is killed, once")
            }
            Event::EndUnproven { epoch, .. } => {
                check(live(epoch.0) && self.killed, "only what was killed can refuse to end")
            }
            Event::RunEnded { epoch, .. } => check(live(epoch.0), "a run ends once"),
            Event::WriterGranted { fence, taken_from, .. } => {
                check(self.live.is_some(), "only a live run has a writer")?;
                check(fence.0 > self.fence, "fences grow")?;
                check(taken_from.is_some() == self.writer.is_some(), "who loses the right is named")
            }
            Event::WriterReleased { fence } => {
                check(self.writer == Some(fence.0), "only the writer gives the right back")
            }
            Event::Typed { .. } => check(self.writer.is_some(), "only a writer types"),
            Event::Archived { .. } => {
                check(self.live.is_none(), "only what does not run is put away")?;
                check(!self.archived, "it is put away once")
            }
            Event::Restored { .. } => check(self.archived, "only what was put away comes back"),
            Event::Renamed { .. }
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
            | Event::AgentReady { .. }
            | Event::TurnAccepted { .. }
            | Event::TurnDelivered { .. }
            | Event::TurnBegan { .. }
            | Event::CancelRequested { .. }
            | Event::TurnEnded { .. }
            | Event::LateResult { .. }
            | Event::QuestionAsked { .. }
            | Event::Answered { .. }
            | Event::QuestionWithdrawn { .. }
            | Event::QueueHeld { .. }
            | Event::QueueResumed { .. }
            | Event::QueueMoved { .. }
            | Event::TurnEdited { .. }
            | Event::ExpirySet { .. }
            | Event::TagsChanged { .. }
            | Event::NoteChanged { .. }
            | Event::Imported { .. }
            | Event::PolicySet { .. }
            | Event::InterfaceChosen { .. }
            | Event::HooksInjected { .. }
            | Event::ActivityReported { .. }
            | Event::Warned { .. } => Ok(()),
        }
    }
}

fn check(holds: bool, rule: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(rule) }
}
