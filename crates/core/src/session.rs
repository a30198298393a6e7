//! State of a session, and how events change it.
//!
//! Promise: applying an event never fails, and replay gives the state of the live session.
//! Not here: which commands are allowed ([`crate::decide()`]), and what follows from reports ([`crate::observe()`]).
//! Start with [`Session`] and [`Session::apply`].

use crate::activity::TerminalActivity;
use crate::owners::{self, HelperSharing};
use crate::turns::{ReleaseReason, SessionExpiry, SessionTurns};
use crate::{
    Actor, Conversation, ConversationOrigin, Epoch, Event, Fence, HelperReadiness, NextInterface,
    ProcessExit, ProcessRef, RunBoundary, RunOutcome, SafeName, SessionSpec,
};

/// State of one session, as far as the rules need it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Session {
    /// Program and how it is run. `None` before [`Event::Created`].
    pub spec: Option<SessionSpec>,
    /// Name of the session, if it has one.
    pub name: Option<SafeName>,
    /// Number of the current or last run. It only grows.
    pub epoch: Epoch,
    /// Keeper of the current or last run.
    pub keeper: Option<ProcessRef>,
    /// Offset at which the output of the current or last run begins.
    pub output_from: u64,
    /// Means that hold the processes of the current or last run together.
    pub boundary: RunBoundary,
    /// Number of processes of the current or last run that the kernel killed because memory ran out.
    pub oom_kills: u64,
    /// Phase of the current or last run.
    pub phase: RunPhase,
    /// Client that asked for the end of the current or last run.
    pub stopped_by: Option<Actor>,
    /// Fence of the last writer. It only grows.
    pub fence: Fence,
    /// Client that may type now.
    pub writer: Option<Writer>,
    /// Terms and owners, if the session is a helper.
    pub sharing: Option<HelperSharing>,
    /// Turns of the session, if its agent takes turns.
    pub turns: SessionTurns,
    /// Turn edges of an agent in a terminal; `None` until it reports one in the current run.
    pub edges: Option<TerminalActivity>,
    /// True if the agent has a terminal, and reported its turn edges in any run or was started with our hooks.
    pub tells: bool,
    /// Interface of the next run, if it differs from that of the live run.
    pub next_interface: Option<NextInterface>,
    /// True if the run ended for another interface. The next run begins without a further request, and has that
    /// interface.
    pub switching: bool,
    /// Conversation that the agent writes, or wrote last.
    pub conversation: Option<Conversation>,
    /// Number of the last turn of a conversation that was given up for a new one; 0 if none was.
    pub given_up_after: u64,
    /// Reason why berth itself ended the current or last run.
    pub released: Option<ReleaseReason>,
    /// End of the session's time to live.
    pub expiry: Option<SessionExpiry>,
    /// True if the session is archived.
    pub archived: bool,
    /// Tags of the session, in order.
    pub tags: Vec<SafeName>,
    /// Note about the session.
    pub note: Option<String>,
}

/// Attached client that may type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    /// Fence of the client.
    pub fence: Fence,
    /// The client itself.
    pub holder: Actor,
}

/// Phase of a run. Only a phase with a process has one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RunPhase {
    /// No run yet.
    #[default]
    New,
    /// The start is on disk; the process may exist.
    Starting,
    /// The agent runs.
    Running {
        /// First process of the agent.
        agent: ProcessRef,
    },
    /// A client asked for the end, or the agent ended and its other processes are being ended.
    Ending(EndingRun),
    /// The run is over, and nothing of it remains.
    Ended {
        /// Outcome of the run.
        outcome: RunOutcome,
    },
}

/// A run that is being ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndingRun {
    /// First process of the agent, unless it was never seen.
    pub agent: Option<ProcessRef>,
    /// Exit of that process, once it ended.
    pub exit: Option<ProcessExit>,
    /// True if the kernel killed it because memory ran out.
    pub oom: bool,
    /// Time of the kill, on the boot clock.
    pub kill_at_boot_ms: u64,
    /// True if the kill was ordered.
    pub killed: bool,
    /// Processes that could not be ended, each with the reason.
    pub left: Vec<String>,
}

impl EndingRun {
    /// Outcome of the run once nothing of it is left, if the agent's end was seen.
    pub(crate) fn outcome(&self) -> Option<RunOutcome> {
        let exited = self.exit.map(RunOutcome::Exited);
        if self.oom { exited.map(|_| RunOutcome::OutOfMemory) } else { exited }
    }
}

/// State of a session, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionState {
    /// The run is about to begin.
    Starting,
    /// The agent runs.
    Running,
    /// The agent has a turn.
    Working,
    /// The agent, or its queue, waits for an answer of a user.
    NeedsYou,
    /// The agent is idle. It may also be gone until the next turn.
    Idle,
    /// The run is being ended.
    Stopping,
    /// The run is over.
    Stopped,
    /// The run's keeper died before its end was recorded.
    Lost,
    /// The session is archived: nothing of it runs.
    Archived,
}

impl Session {
    /// Replays the events of a session.
    pub fn replay<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut session = Self::default();
        for event in events {
            session.apply(event);
        }
        session
    }

    /// True if a run is recorded as not over.
    pub fn is_live(&self) -> bool {
        match self.phase {
            RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ending(_) => true,
            RunPhase::New | RunPhase::Ended { .. } => false,
        }
    }

    /// Process of the agent, while it is believed to exist.
    pub fn agent(&self) -> Option<&ProcessRef> {
        match &self.phase {
            RunPhase::Running { agent } => Some(agent),
            RunPhase::Ending(EndingRun { agent, exit: None, .. }) => agent.as_ref(),
            RunPhase::New | RunPhase::Starting | RunPhase::Ending(_) | RunPhase::Ended { .. } => None,
        }
    }

    /// Outcome of the last run, if it is over.
    pub fn outcome(&self) -> Option<&RunOutcome> {
        match &self.phase {
            RunPhase::Ended { outcome } => Some(outcome),
            RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ending(_) => None,
        }
    }

    /// State in one word. `kept` is true if a keeper holds the lease.
    pub fn state(&self, kept: bool) -> SessionState {
        match (&self.phase, kept) {
            (RunPhase::New | RunPhase::Ended { .. }, _) if self.archived => SessionState::Archived,
            (RunPhase::Ended { outcome: RunOutcome::Lost }, _) => SessionState::Lost,
            (RunPhase::Ended { .. }, true) if self.switching && self.goes_on() => SessionState::Starting,
            (RunPhase::Ended { outcome: RunOutcome::Exited(_) }, _)
                if self.released == Some(ReleaseReason::Idle) && self.stopped_by.is_none() =>
            {
                SessionState::Idle
            }
            (
                RunPhase::Ended {
                    outcome: RunOutcome::Exited(_) | RunOutcome::OutOfMemory | RunOutcome::StartFailed(_),
                },
                _,
            ) => SessionState::Stopped,
            (RunPhase::New, false) => SessionState::Stopped,
            (RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ending(_), false) => {
                SessionState::Lost
            }
            (RunPhase::New | RunPhase::Starting, true) => SessionState::Starting,
            (RunPhase::Running { .. }, true) if self.takes_turns() => self.busy_state(),
            (RunPhase::Running { .. }, true) => SessionState::Running,
            (RunPhase::Ending(_), true) => SessionState::Stopping,
        }
    }

    /// State of a session whose agent takes turns, while the run is live.
    fn busy_state(&self) -> SessionState {
        let turns = &self.turns;
        if turns.needs_someone() {
            SessionState::NeedsYou
        } else if turns.ready.is_none() {
            // A terminal can be used before its agent reports anything; until then, its state is unknown.
            if self.has_terminal() { SessionState::Running } else { SessionState::Starting }
        } else if turns.current.is_some()
            || self.due_turn().is_some()
            || self.edges.is_some_and(|edges| edges.working)
        {
            SessionState::Working
        } else {
            SessionState::Idle
        }
    }

    /// Applies an event. This never fails: an event in the journal has happened.
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
                self.phase = RunPhase::Starting;
                self.stopped_by = None;
                self.released = None;
                self.switching = false;
                self.writer = None;
                self.apply_shared(HelperSharing::run_starting);
                self.edges = None;
                self.turns.run_starting();
            }
            Event::RunStarted { agent, .. } => match &mut self.phase {
                // The end was asked for before the process was seen: now there is a process to end.
                RunPhase::Ending(ending) => ending.agent = Some(agent.clone()),
                RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ended { .. } => {
                    self.phase = RunPhase::Running { agent: agent.clone() }
                }
            },
            Event::StopRequested { by, kill_at_boot_ms, .. } => {
                self.stopped_by.get_or_insert_with(|| by.clone());
                // If the run is over, only the next one is left to be stopped.
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
                self.phase = RunPhase::Ended { outcome: outcome.clone() };
                self.edges = None;
                self.turns.run_ended();
                self.writer = None;
                self.interface_run_ended();
                self.apply_shared(HelperSharing::run_ended);
            }
            Event::WriterGranted { fence, holder, .. } => {
                self.fence = *fence;
                self.writer = Some(Writer { fence: *fence, holder: holder.clone() });
            }
            Event::WriterReleased { .. } => self.writer = None,
            Event::CommandChanged { spec } => self.spec = Some(spec.clone()),
            Event::HelperDeclared { terms } => match &mut self.sharing {
                Some(sharing) => sharing.terms = terms.clone(),
                None => self.sharing = Some(HelperSharing::new(terms.clone())),
            },
            Event::OwnerJoined { owner } => owners::apply_joined(self, owner),
            Event::OwnerLeft { owner, stop_at_boot_ms, .. } => {
                owners::apply_left(self, owner, *stop_at_boot_ms)
            }
            Event::BecameReady { address, .. } => {
                self.apply_shared(|sharing| sharing.readiness = HelperReadiness::Ready(address.clone()));
            }
            Event::NeverReady { reason, .. } => {
                self.apply_shared(|sharing| sharing.readiness = HelperReadiness::Never(reason.clone()));
            }
            Event::InterfaceChosen { interface, at_once, .. } => self.interface_chosen(*interface, *at_once),
            Event::ConversationEntered { conversation } => self.conversation = Some(conversation.clone()),
            Event::ConversationLeft { .. } => {
                self.conversation = None;
                self.given_up_after = self.turns.last();
                if let Some(spec) = &mut self.spec {
                    spec.origin = ConversationOrigin::New;
                }
            }
            Event::AgentReady { able, at_boot_ms, .. } => {
                if self.has_terminal() {
                    self.tells = true;
                    self.edges = Some(TerminalActivity::default());
                }
                self.turns.ready(*able, *at_boot_ms);
            }
            Event::HooksInjected { .. } => self.tells = true,
            Event::ActivityReported { edge, .. } => {
                let joins = self.joins_prompts();
                self.edges.get_or_insert_default().apply(*edge, joins);
            }
            Event::TurnAccepted { prompt, .. } => self.turns.accepted(prompt),
            Event::TurnDelivered { turn, output_from, .. } => self.turns.delivered(*turn, *output_from),
            Event::TurnBegan { turn } => {
                self.turns.began(*turn);
                self.edges.iter_mut().for_each(TerminalActivity::turn_began);
            }
            Event::CancelRequested { turn, cancel } => self.turns.cancel_requested(*turn, cancel),
            Event::TurnEnded { turn, end, at_boot_ms } => self.turns.ended(*turn, end, *at_boot_ms),
            Event::LateResult { turn, end } => self.turns.keep_result(*turn, end),
            Event::QuestionAsked { ask } => self.turns.asks.push(ask.clone()),
            Event::Answered { request, .. } | Event::QuestionWithdrawn { request } => {
                self.turns.asks.retain(|ask| ask.request != *request);
            }
            Event::QueueHeld { hold } => self.turns.hold = Some(hold.clone()),
            Event::QueueResumed { .. } => self.turns.hold = None,
            Event::QueueMoved { turn, to } => self.turns.moved(*turn, *to),
            Event::TurnEdited { turn, text, .. } => self.turns.edited(*turn, text),
            Event::RunReleased { why, kill_at_boot_ms, .. } => {
                self.released.get_or_insert_with(|| why.clone());
                self.end_by(*kill_at_boot_ms);
            }
            Event::ExpirySet { expiry } => self.expiry = Some(expiry.clone()),
            Event::Archived { .. } => self.archived = true,
            Event::Restored { .. } => self.archived = false,
            Event::TagsChanged { tags } => self.tags = tags.clone(),
            Event::NoteChanged { note } => self.note = note.clone(),
            Event::PolicySet { policy } => self.apply_policy(policy),
            Event::Typed { .. }
            | Event::Imported { .. }
            | Event::KeeperRestarted { .. }
            | Event::OutputDropped { .. }
            | Event::Warned { .. } => {}
        }
    }

    /// Enters the ending phase, or stays in it with the earlier of two deadlines.
    fn end_by(&mut self, kill_at_boot_ms: u64) -> &mut EndingRun {
        if !matches!(self.phase, RunPhase::Ending(_)) {
            let agent = self.agent().cloned();
            self.phase = RunPhase::Ending(EndingRun { agent, kill_at_boot_ms, ..EndingRun::default() });
        }
        match &mut self.phase {
            RunPhase::Ending(ending) => {
                ending.kill_at_boot_ms = ending.kill_at_boot_ms.min(kill_at_boot_ms);
                ending
            }
            RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ended { .. } => {
                unreachable!("the phase was set to Ending just above")
            }
        }
    }
}
