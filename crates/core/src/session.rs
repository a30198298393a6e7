//! A session's state, and how events change it.

use crate::edges::Edges;
use crate::owners::{self, Sharing};
use crate::turns::{Expiry, Release, Turns};
use crate::{
    Actor, Boundary, Conversation, Epoch, Event, Exit, Fence, Name, NextInterface, Origin, Outcome, Process,
    Readiness, Spec,
};

/// Everything the rules need to know about one session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Session {
    /// What it runs. `None` before [`Event::Created`].
    pub spec: Option<Spec>,
    /// What people call it.
    pub name: Option<Name>,
    /// The number of the current or last run. Only grows.
    pub epoch: Epoch,
    /// The keeper of the current or last run.
    pub keeper: Option<Process>,
    /// Where the output of the current or last run begins.
    pub output_from: u64,
    /// What holds the current or last run together.
    pub boundary: Boundary,
    /// How many processes of the current or last run the kernel killed because memory ran out.
    pub oom_kills: u64,
    /// Where the current or last run stands.
    pub phase: Phase,
    /// Who asked for the end of the current or last run.
    pub stopped_by: Option<Actor>,
    /// The number of the last writer. Only grows.
    pub fence: Fence,
    /// Who may type now.
    pub writer: Option<Writer>,
    /// Who shares it, if it is a helper.
    pub sharing: Option<Sharing>,
    /// What was asked of its agent, if that takes turns.
    pub turns: Turns,
    /// What the agent in its terminal told, once it did in the current run.
    pub edges: Option<Edges>,
    /// Whether its agent has a terminal and told its edges in any run, or was started to.
    pub tells: bool,
    /// The interface that the next run has, if it is another one than that of the run that is live.
    pub next_interface: Option<NextInterface>,
    /// Whether the run ended for another interface, which the next run has. That begins without anybody asking again.
    pub switching: bool,
    /// The conversation its agent writes, or wrote last.
    pub conversation: Option<Conversation>,
    /// The last turn of a conversation that was given up for a new one; 0 if none was.
    pub given_up_after: u64,
    /// Why berth itself ended the current or last run.
    pub released: Option<Release>,
    /// When its time is up.
    pub expiry: Option<Expiry>,
    /// Whether somebody put it away.
    pub archived: bool,
    /// What people sort it by, in order.
    pub tags: Vec<Name>,
    /// The note about the session.
    pub note: Option<String>,
}

/// The attached client that types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    /// Their number.
    pub fence: Fence,
    /// Who.
    pub holder: Actor,
}

/// Where a run stands. Only a phase with a process has one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// No run yet.
    #[default]
    New,
    /// The record is there, the process may be.
    Starting,
    /// The agent runs.
    Running {
        /// Its first process.
        agent: Process,
    },
    /// Somebody asked for the end, or the agent ended and its tree is being cleared.
    Ending(Ending),
    /// Over, and nothing of it remains.
    Ended {
        /// How.
        outcome: Outcome,
    },
}

/// A run that is being ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ending {
    /// The agent's first process, unless it was never seen.
    pub agent: Option<Process>,
    /// How that process ended, once it did.
    pub exit: Option<Exit>,
    /// Whether the kernel killed it because memory ran out.
    pub oom: bool,
    /// When patience ends, on the boot clock.
    pub kill_at_boot_ms: u64,
    /// Whether patience has ended.
    pub killed: bool,
    /// What could not be ended, and why.
    pub left: Vec<String>,
}

impl Ending {
    /// How the run ends once nothing of it is left, if the agent's end was seen.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let exited = self.exit.map(Outcome::Exited);
        if self.oom { exited.map(|_| Outcome::OutOfMemory) } else { exited }
    }
}

/// A session's state in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// About to run.
    Starting,
    /// The agent runs.
    Running,
    /// The agent has a turn.
    Working,
    /// The agent, or what waits for it, needs somebody's word.
    NeedsYou,
    /// The agent has nothing to do. Between its turns it may be gone, too.
    Idle,
    /// The run is being ended.
    Stopping,
    /// The run is over.
    Stopped,
    /// The run's keeper died before its end was recorded.
    Lost,
    /// Somebody put it away: nothing of it runs.
    Archived,
}

impl Session {
    /// Replays a history.
    pub fn replay<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut session = Self::default();
        for event in events {
            session.apply(event);
        }
        session
    }

    /// Whether a run is recorded as not over.
    pub fn is_live(&self) -> bool {
        match self.phase {
            Phase::Starting | Phase::Running { .. } | Phase::Ending(_) => true,
            Phase::New | Phase::Ended { .. } => false,
        }
    }

    /// The agent's process, while it is believed to be there.
    pub fn agent(&self) -> Option<&Process> {
        match &self.phase {
            Phase::Running { agent } => Some(agent),
            Phase::Ending(Ending { agent, exit: None, .. }) => agent.as_ref(),
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => None,
        }
    }

    /// How the last run ended, if it did.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended { outcome } => Some(outcome),
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ending(_) => None,
        }
    }

    /// The state in one word; `kept` says whether a keeper holds the lease.
    pub fn state(&self, kept: bool) -> State {
        match (&self.phase, kept) {
            (Phase::New | Phase::Ended { .. }, _) if self.archived => State::Archived,
            (Phase::Ended { outcome: Outcome::Lost }, _) => State::Lost,
            (Phase::Ended { .. }, true) if self.switching && self.goes_on() => State::Starting,
            (Phase::Ended { outcome: Outcome::Exited(_) }, _)
                if self.released == Some(Release::Idle) && self.stopped_by.is_none() =>
            {
                State::Idle
            }
            (
                Phase::Ended { outcome: Outcome::Exited(_) | Outcome::OutOfMemory | Outcome::StartFailed(_) },
                _,
            ) => State::Stopped,
            (Phase::New, false) => State::Stopped,
            (Phase::Starting | Phase::Running { .. } | Phase::Ending(_), false) => State::Lost,
            (Phase::New | Phase::Starting, true) => State::Starting,
            (Phase::Running { .. }, true) if self.takes_turns() => self.busy_state(),
            (Phase::Running { .. }, true) => State::Running,
            (Phase::Ending(_), true) => State::Stopping,
        }
    }

    /// The state of a session whose agent takes turns, while that runs.
    fn busy_state(&self) -> State {
        let turns = &self.turns;
        if turns.needs_someone() {
            State::NeedsYou
        } else if turns.ready.is_none() {
            // A terminal can be used before its agent tells anything, and nobody can tell what that does.
            if self.has_terminal() { State::Running } else { State::Starting }
        } else if turns.current.is_some()
            || self.due_turn().is_some()
            || self.edges.is_some_and(|edges| edges.working)
        {
            State::Working
        } else {
            State::Idle
        }
    }

    /// Changes the state. Never fails: what is in the journal has happened.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Created { spec, name } => {
                self.spec = Some(spec.clone());
                self.name = name.clone();
            }
            Event::Renamed { name } => self.name = Some(name.clone()),
            Event::RunStarting { epoch, keeper, output_from, boundary } => {
                self.boundary = boundary.clone();
                self.oom_kills = 0;
                self.epoch = *epoch;
                self.keeper = Some(keeper.clone());
                self.output_from = *output_from;
                self.phase = Phase::Starting;
                self.stopped_by = None;
                self.released = None;
                self.switching = false;
                self.writer = None;
                self.apply_shared(Sharing::run_starting);
                self.edges = None;
                self.turns.run_starting();
            }
            Event::RunStarted { agent, .. } => match &mut self.phase {
                // Asked to end before the process was seen: now there is something to end.
                Phase::Ending(ending) => ending.agent = Some(agent.clone()),
                Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ended { .. } => {
                    self.phase = Phase::Running { agent: agent.clone() }
                }
            },
            Event::StopRequested { by, kill_at_boot_ms, .. } => {
                self.stopped_by.get_or_insert_with(|| by.clone());
                // Of a run that is over only the next one is left to be stopped.
                if self.is_live() {
                    self.end_by(*kill_at_boot_ms);
                }
            }
            Event::AgentExited { exit, oom, kill_at_boot_ms, .. } => {
                let ending = self.end_by(*kill_at_boot_ms);
                (ending.exit, ending.oom) = (Some(*exit), *oom);
                self.turns.agent_exited();
            }
            Event::OomKilled { kills, .. } => self.oom_kills = *kills,
            Event::KillOrdered { .. } => {
                let now = self.end_by(u64::MAX);
                now.killed = true;
            }
            Event::EndUnproven { left, .. } => self.end_by(u64::MAX).left = left.clone(),
            Event::RunEnded { outcome, .. } => {
                self.phase = Phase::Ended { outcome: outcome.clone() };
                self.edges = None;
                self.turns.run_ended();
                self.writer = None;
                self.interface_run_ended();
                self.apply_shared(Sharing::run_ended);
            }
            Event::WriterGranted { fence, holder, .. } => {
                self.fence = *fence;
                self.writer = Some(Writer { fence: *fence, holder: holder.clone() });
            }
            Event::WriterReleased { .. } => self.writer = None,
            Event::Respecified { spec } => self.spec = Some(spec.clone()),
            Event::Declared { terms } => match &mut self.sharing {
                Some(sharing) => sharing.terms = terms.clone(),
                None => self.sharing = Some(Sharing::new(terms.clone())),
            },
            Event::OwnerJoined { owner } => owners::apply_joined(self, owner),
            Event::OwnerLeft { owner, stop_at_boot_ms, .. } => {
                owners::apply_left(self, owner, *stop_at_boot_ms)
            }
            Event::BecameReady { address, .. } => {
                self.apply_shared(|sharing| sharing.readiness = Readiness::Ready(address.clone()));
            }
            Event::NeverReady { reason, .. } => {
                self.apply_shared(|sharing| sharing.readiness = Readiness::Never(reason.clone()));
            }
            Event::InterfaceChosen { interface, at_once, .. } => self.interface_chosen(*interface, *at_once),
            Event::ConversationEntered { conversation } => self.conversation = Some(conversation.clone()),
            Event::ConversationLeft { .. } => {
                self.conversation = None;
                self.given_up_after = self.turns.last();
                if let Some(spec) = &mut self.spec {
                    spec.origin = Origin::New;
                }
            }
            Event::AgentReady { able, at_boot_ms, .. } => {
                if self.has_terminal() {
                    self.tells = true;
                    self.edges = Some(Edges::default());
                }
                self.turns.ready(*able, *at_boot_ms);
            }
            Event::HooksCarried { .. } => self.tells = true,
            Event::EdgeSeen { edge, .. } => {
                let joins = self.joins_prompts();
                self.edges.get_or_insert_default().apply(*edge, joins);
            }
            Event::TurnAccepted { prompt, .. } => self.turns.accepted(prompt),
            Event::TurnDelivered { turn, output_from, .. } => self.turns.delivered(*turn, *output_from),
            Event::TurnBegan { turn } => {
                self.turns.began(*turn);
                self.edges.iter_mut().for_each(Edges::turn_began);
            }
            Event::CancelRequested { turn, cancel } => self.turns.cancel_requested(*turn, cancel),
            Event::TurnEnded { turn, end, at_boot_ms } => self.turns.ended(*turn, end, *at_boot_ms),
            Event::TurnLate { turn, end } => self.turns.told(*turn, end),
            Event::Asked { ask } => self.turns.asks.push(ask.clone()),
            Event::Answered { request, .. } | Event::Unasked { request } => {
                self.turns.asks.retain(|ask| ask.request != *request);
            }
            Event::QueueHeld { hold } => self.turns.hold = Some(hold.clone()),
            Event::QueueResumed { .. } => self.turns.hold = None,
            Event::QueueMoved { turn, to } => self.turns.moved(*turn, *to),
            Event::TurnEdited { turn, text, .. } => self.turns.edited(*turn, text),
            Event::Released { why, kill_at_boot_ms, .. } => {
                self.released.get_or_insert_with(|| why.clone());
                self.end_by(*kill_at_boot_ms);
            }
            Event::ExpirySet { expiry } => self.expiry = Some(expiry.clone()),
            Event::Archived { .. } => self.archived = true,
            Event::Restored { .. } => self.archived = false,
            Event::Tagged { tags } => self.tags = tags.clone(),
            Event::Noted { note } => self.note = note.clone(),
            Event::PolicySet { policy } => self.apply_policy(policy),
            Event::Typed { .. }
            | Event::Imported { .. }
            | Event::KeeperRestarted { .. }
            | Event::OutputDropped { .. }
            | Event::Warned { .. } => {}
        }
    }

    /// Enters the ending phase (or stays in it) with the earlier of two deadlines.
    fn end_by(&mut self, kill_at_boot_ms: u64) -> &mut Ending {
        if !matches!(self.phase, Phase::Ending(_)) {
            let agent = self.agent().cloned();
            self.phase = Phase::Ending(Ending { agent, kill_at_boot_ms, ..Ending::default() });
        }
        match &mut self.phase {
            Phase::Ending(ending) => {
                ending.kill_at_boot_ms = ending.kill_at_boot_ms.min(kill_at_boot_ms);
                ending
            }
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ended { .. } => {
                unreachable!("the phase was set to Ending just above")
            }
        }
    }
}
