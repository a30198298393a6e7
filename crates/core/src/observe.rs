//! Observations: reports from the world.
//!
//! Promise: a report that comes late, twice or for another run changes nothing that it should not.
//! Not here: observing (the keeper does).
//! Start with [`observe`].

use std::time::Duration;

use crate::turns::{AgentCapabilities, AgentQuestion, QueueHold, TurnEnd};
use crate::{
    ClockReading, Conversation, EndingRun, Epoch, Event, ProcessExit, ProcessRef, RunOutcome, RunPhase,
    Session, SessionId, TerminalReport, activity, owners, turns,
};

/// Time that the other processes of a run get to end once the agent itself is gone.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// Time that a killed process gets to disappear before it is reported as left over.
pub const PROOF_TIMEOUT: Duration = Duration::from_secs(5);

/// A report from the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    /// The agent's process exists.
    Spawned {
        /** Number of the run. */
        epoch: Epoch,
        /** First process of the agent. */
        agent: ProcessRef,
    },
    /// The agent's process could not be made.
    SpawnFailed {
        /** Number of the run. */
        epoch: Epoch,
        /** Reason, for people. */
        reason: String,
    },
    /// The agent's first process ended.
    Exited {
        /** Number of the run. */
        epoch: Epoch,
        /** Exit of that process. */
        exit: ProcessExit,
        /** True if the kernel killed it because memory ran out. */
        oom: bool,
    },
    /// The kernel killed processes of the run because memory ran out.
    OomKilled {
        /** Number of the run. */
        epoch: Epoch,
        /** Number of killed processes so far. */
        kills: u64,
    },
    /// Nothing of the run is left: proven, not assumed.
    Empty {
        /** Number of the run. */
        epoch: Epoch,
    },
    /// Killed, and still there after [`PROOF_TIMEOUT`].
    StillThere {
        /** Number of the run. */
        epoch: Epoch,
        /** Processes that are left, each with the reason, for people. */
        left: Vec<String>,
    },
    /// A keeper opened the session and is not the one that held this run, or lost its knowledge of it; nothing of
    /// the run is left.
    KeeperGone {
        /** Number of the run. */
        epoch: Epoch,
    },
    /// A session that owns this helper has no keeper any more.
    OwnerGone {
        /** Id of the session. */
        owner: SessionId,
    },
    /// The helper is ready.
    Ready {
        /** Number of the run. */
        epoch: Epoch,
        /** Address of the helper, if it has one. */
        address: Option<String>,
    },
    /// The helper is not ready, and its time is up.
    NotReady {
        /** Number of the run. */
        epoch: Epoch,
        /** Reason, for people. */
        reason: String,
    },
    /// The agent is ready to take turns.
    AgentReady {
        /** Number of the run. */
        epoch: Epoch,
        /** Abilities of the agent. */
        able: AgentCapabilities,
    },
    /// The agent in the terminal was started with our hooks.
    HooksInjected {
        /** Number of the run. */
        epoch: Epoch,
    },
    /// The agent in the terminal reported an event.
    Told {
        /** Number of the run. */
        epoch: Epoch,
        /** The report. */
        told: TerminalReport,
    },
    /// The unsent text in the terminal is gone.
    DraftGone,
    /// The agent writes this conversation.
    Conversation {
        /** The conversation. */
        conversation: Conversation,
    },
    /// The agent confirmed a prompt.
    TurnBegan {
        /** Number of the turn. */
        turn: u64,
    },
    /// A turn is over.
    TurnOver {
        /** Number of the turn. */
        turn: u64,
        /** Final state and answer. */
        end: TurnEnd,
    },
    /// The agent waits for an answer.
    Asks {
        /** The question. */
        ask: AgentQuestion,
    },
    /// The agent no longer waits for an answer.
    QuestionWithdrawn {
        /** Name of the question. */
        request: String,
    },
    /// The queue cannot go on.
    Held {
        /** Reason. */
        hold: QueueHold,
    },
    /// The agent cannot be used.
    Broken {
        /** Number of the run. */
        epoch: Epoch,
        /** Reason, for people. */
        reason: String,
    },
    /// Time passed.
    Tick,
}

/// Events that follow from a report.
pub fn observe(session: &Session, observation: &Observation, now: ClockReading) -> Vec<Event> {
    let current = |epoch: &Epoch| *epoch == session.epoch;
    match (observation, &session.phase) {
        (Observation::Spawned { epoch, agent }, RunPhase::Starting) if current(epoch) => {
            vec![Event::RunStarted { epoch: *epoch, agent: agent.clone() }]
        }
        (Observation::Spawned { epoch, agent }, RunPhase::Ending(EndingRun { agent: None, .. }))
            if current(epoch) =>
        {
            vec![Event::RunStarted { epoch: *epoch, agent: agent.clone() }]
        }
        (Observation::SpawnFailed { epoch, reason }, RunPhase::Starting | RunPhase::Ending(_))
            if current(epoch) =>
        {
            run_ended(session, RunOutcome::StartFailed(reason.clone()), now)
        }
        (
            Observation::Exited { epoch, exit, oom },
            RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ending(EndingRun { exit: None, .. }),
        ) if current(epoch) => {
            let kill_at_boot_ms = match &session.phase {
                // The request for the end set the patience, for all processes of the run.
                RunPhase::Ending(ending) => ending.kill_at_boot_ms,
                RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ended { .. } => {
                    now.boot_ms + EXIT_GRACE.as_millis() as u64
                }
            };
            vec![Event::AgentExited { epoch: *epoch, exit: *exit, oom: *oom, kill_at_boot_ms }]
        }
        (
            Observation::OomKilled { epoch, kills },
            RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ending(_),
        ) if current(epoch) && *kills > session.oom_kills => {
            vec![Event::OomKilled { epoch: *epoch, kills: *kills }]
        }
        (Observation::Empty { epoch }, RunPhase::Ending(ending)) if current(epoch) => {
            let outcome = ending.outcome();
            outcome.map(|outcome| run_ended(session, outcome, now)).unwrap_or_default()
        }
        (Observation::StillThere { epoch, left }, RunPhase::Ending(ending))
            if current(epoch) && ending.killed && ending.left != *left =>
        {
            vec![Event::EndUnproven { epoch: *epoch, left: left.clone() }]
        }
        (
            Observation::KeeperGone { epoch },
            RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ending(_),
        ) if current(epoch) => run_ended(session, gone_outcome(session), now),
        (Observation::Tick, RunPhase::Ending(ending))
            if !ending.killed && now.boot_ms >= ending.kill_at_boot_ms =>
        {
            std::iter::once(Event::KillOrdered { epoch: session.epoch })
                .chain(turns::tick(session, now))
                .collect()
        }
        (Observation::Tick, RunPhase::Starting | RunPhase::Running { .. }) => {
            owners::tick(session, now).into_iter().chain(turns::tick(session, now)).collect()
        }
        (Observation::Tick, RunPhase::Ending(_)) => turns::tick(session, now),
        // The time to live ended between two runs.
        (Observation::Tick, RunPhase::Ended { .. }) if session.goes_on() => turns::tick(session, now),
        (Observation::AgentReady { epoch, able }, _) => turns::ready(session, *epoch, *able, now),
        (Observation::HooksInjected { epoch }, _) => activity::hooks_injected(session, *epoch),
        (Observation::Told { epoch, told }, _) => activity::terminal_report(session, *epoch, told, now),
        (Observation::DraftGone, _) => activity::draft_cleared(session),
        (Observation::Conversation { conversation }, _) => turns::conversation(session, conversation),
        (Observation::TurnBegan { turn }, _) => turns::began(session, *turn),
        (Observation::TurnOver { turn, end }, _) => turns::turn_over(session, *turn, end.clone(), now),
        (Observation::Asks { ask }, _) => turns::question_asked(session, ask),
        (Observation::QuestionWithdrawn { request }, _) => turns::question_withdrawn(session, request),
        (Observation::Held { hold }, _) => turns::hold(session, hold),
        (Observation::Broken { epoch, reason }, _) => turns::broken(session, *epoch, reason, now),
        (Observation::OwnerGone { owner }, _) => owners::owner_gone(session, owner, now),
        (Observation::Ready { epoch, address }, _) => owners::became_ready(session, *epoch, address.clone()),
        (Observation::NotReady { epoch, reason }, _) => {
            owners::never_ready(session, *epoch, reason.clone(), now)
        }
        // Reports of an earlier run, repeated ones, and those that come too late to matter.
        (
            Observation::Spawned { .. }
            | Observation::SpawnFailed { .. }
            | Observation::Exited { .. }
            | Observation::OomKilled { .. }
            | Observation::Empty { .. }
            | Observation::StillThere { .. }
            | Observation::KeeperGone { .. }
            | Observation::Tick,
            RunPhase::New
            | RunPhase::Starting
            | RunPhase::Running { .. }
            | RunPhase::Ending(_)
            | RunPhase::Ended { .. },
        ) => vec![],
    }
}

/// Ends a run, and the turn that its agent had.
fn run_ended(session: &Session, outcome: RunOutcome, now: ClockReading) -> Vec<Event> {
    let mut events = turns::run_over(session, &outcome, now);
    events.push(Event::RunEnded { epoch: session.epoch, outcome });
    events
}

/// A keeper that died after it had recorded the agent's end lost no part of the outcome.
fn gone_outcome(session: &Session) -> RunOutcome {
    match &session.phase {
        RunPhase::Ending(ending) => ending.outcome().unwrap_or(RunOutcome::Lost),
        RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ended { .. } => {
            RunOutcome::Lost
        }
    }
}
