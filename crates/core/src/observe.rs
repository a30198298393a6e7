//! Observations: what the world reports. Late or twice is fine.

use std::time::Duration;

use crate::turns::{Able, Ask, Hold, TurnEnd};
use crate::{
    Conversation, Ending, Epoch, Event, Exit, Now, Outcome, Phase, Process, Session, SessionId, Told, edges,
    owners, turns,
};

/// How long what an agent left behind may take to end once the agent itself is gone.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How long a killed process may take to disappear before we say that it does not.
pub const PROOF_PATIENCE: Duration = Duration::from_secs(5);

/// A report from the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    /// The agent's process exists.
    Spawned {
        /** Of which run. */
        epoch: Epoch,
        /** It. */
        agent: Process,
    },
    /// The agent's process could not be made.
    SpawnFailed {
        /** Of which run. */
        epoch: Epoch,
        /** Why, for people. */
        reason: String,
    },
    /// The agent's first process ended.
    Exited {
        /** Of which run. */
        epoch: Epoch,
        /** How. */
        exit: Exit,
        /** Whether the kernel killed it because memory ran out. */
        oom: bool,
    },
    /// The kernel killed processes of the run because memory ran out.
    OomKilled {
        /** Of which run. */
        epoch: Epoch,
        /** How many so far. */
        kills: u64,
    },
    /// Nothing of the run is left: proven, not assumed.
    Empty {
        /** Of which run. */
        epoch: Epoch,
    },
    /// Killed, and still there after [`PROOF_PATIENCE`].
    StillThere {
        /** Of which run. */
        epoch: Epoch,
        /** What, and why, for people. */
        left: Vec<String>,
    },
    /// A keeper opened the session and is not the one that held this run, or lost what it knew of it;
    /// nothing of the run is left.
    KeeperGone {
        /** Of which run. */
        epoch: Epoch,
    },
    /// A session that owns this helper has no keeper any more.
    OwnerGone {
        /** Which session. */
        owner: SessionId,
    },
    /// The helper can be used.
    Ready {
        /** Which run. */
        epoch: Epoch,
        /** Where it is reached, if it has an address. */
        address: Option<String>,
    },
    /// The helper is not ready, and its time is up.
    NotReady {
        /** Which run. */
        epoch: Epoch,
        /** Why, for people. */
        reason: String,
    },
    /// The agent takes turns.
    AgentReady {
        /** Of which run. */
        epoch: Epoch,
        /** What it is able to do. */
        able: Able,
    },
    /// The agent in the terminal was started with our hooks.
    HooksCarried {
        /** Which run. */
        epoch: Epoch,
    },
    /// The agent in the terminal told something.
    Told {
        /** Of which run. */
        epoch: Epoch,
        /** What. */
        told: Told,
    },
    /// What was typed into the terminal does not wait there any more.
    DraftGone,
    /// The agent writes this conversation.
    Conversation {
        /** It. */
        conversation: Conversation,
    },
    /// The agent has a prompt.
    TurnBegan {
        /** Of which turn. */
        turn: u64,
    },
    /// A turn is over.
    TurnOver {
        /** Which. */
        turn: u64,
        /** How. */
        end: TurnEnd,
    },
    /// The agent waits for an answer.
    Asks {
        /** To what. */
        ask: Ask,
    },
    /// The agent waits for an answer no longer.
    Unasked {
        /** To which question. */
        request: String,
    },
    /// The queue cannot go on.
    Held {
        /** Why. */
        hold: Hold,
    },
    /// The agent cannot be used.
    Broken {
        /** Of which run. */
        epoch: Epoch,
        /** Why, for people. */
        reason: String,
    },
    /// Time passed.
    Tick,
}

/// What follows from a report?
pub fn observe(session: &Session, observation: &Observation, now: Now) -> Vec<Event> {
    let current = |epoch: &Epoch| *epoch == session.epoch;
    match (observation, &session.phase) {
        (Observation::Spawned { epoch, agent }, Phase::Starting) if current(epoch) => {
            vec![Event::RunStarted { epoch: *epoch, agent: agent.clone() }]
        }
        (Observation::Spawned { epoch, agent }, Phase::Ending(Ending { agent: None, .. }))
            if current(epoch) =>
        {
            vec![Event::RunStarted { epoch: *epoch, agent: agent.clone() }]
        }
        (Observation::SpawnFailed { epoch, reason }, Phase::Starting | Phase::Ending(_))
            if current(epoch) =>
        {
            run_ended(session, Outcome::StartFailed(reason.clone()), now)
        }
        (
            Observation::Exited { epoch, exit, oom },
            Phase::Starting | Phase::Running { .. } | Phase::Ending(Ending { exit: None, .. }),
        ) if current(epoch) => {
            let kill_at_boot_ms = match &session.phase {
                // Whoever asked for the end said how patient to be, with all of the run.
                Phase::Ending(ending) => ending.kill_at_boot_ms,
                Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ended { .. } => {
                    now.boot_ms + EXIT_GRACE.as_millis() as u64
                }
            };
            vec![Event::AgentExited { epoch: *epoch, exit: *exit, oom: *oom, kill_at_boot_ms }]
        }
        (
            Observation::OomKilled { epoch, kills },
            Phase::Starting | Phase::Running { .. } | Phase::Ending(_),
        ) if current(epoch) && *kills > session.oom_kills => {
            vec![Event::OomKilled { epoch: *epoch, kills: *kills }]
        }
        (Observation::Empty { epoch }, Phase::Ending(ending)) if current(epoch) => {
            let outcome = ending.outcome();
            outcome.map(|outcome| run_ended(session, outcome, now)).unwrap_or_default()
        }
        (Observation::StillThere { epoch, left }, Phase::Ending(ending))
            if current(epoch) && ending.killed && ending.left != *left =>
        {
            vec![Event::EndUnproven { epoch: *epoch, left: left.clone() }]
        }
        (Observation::KeeperGone { epoch }, Phase::Starting | Phase::Running { .. } | Phase::Ending(_))
            if current(epoch) =>
        {
            run_ended(session, gone_outcome(session), now)
        }
        (Observation::Tick, Phase::Ending(ending))
            if !ending.killed && now.boot_ms >= ending.kill_at_boot_ms =>
        {
            std::iter::once(Event::KillOrdered { epoch: session.epoch })
                .chain(turns::tick(session, now))
                .collect()
        }
        (Observation::Tick, Phase::Starting | Phase::Running { .. }) => {
            owners::tick(session, now).into_iter().chain(turns::tick(session, now)).collect()
        }
        (Observation::Tick, Phase::Ending(_)) => turns::tick(session, now),
        // Its time was up between two runs.
        (Observation::Tick, Phase::Ended { .. }) if session.goes_on() => turns::tick(session, now),
        (Observation::AgentReady { epoch, able }, _) => turns::ready(session, *epoch, *able, now),
        (Observation::HooksCarried { epoch }, _) => edges::hooks_carried(session, *epoch),
        (Observation::Told { epoch, told }, _) => edges::told(session, *epoch, told, now),
        (Observation::DraftGone, _) => edges::draft_gone(session),
        (Observation::Conversation { conversation }, _) => turns::conversation(session, conversation),
        (Observation::TurnBegan { turn }, _) => turns::began(session, *turn),
        (Observation::TurnOver { turn, end }, _) => turns::turn_over(session, *turn, end.clone(), now),
        (Observation::Asks { ask }, _) => turns::asks(session, ask),
        (Observation::Unasked { request }, _) => turns::unasked(session, request),
        (Observation::Held { hold }, _) => turns::hold(session, hold),
        (Observation::Broken { epoch, reason }, _) => turns::broken(session, *epoch, reason, now),
        (Observation::OwnerGone { owner }, _) => owners::gone(session, owner, now),
        (Observation::Ready { epoch, address }, _) => owners::became_ready(session, *epoch, address.clone()),
        (Observation::NotReady { epoch, reason }, _) => {
            owners::never_ready(session, *epoch, reason.clone(), now)
        }
        // Of an earlier run, a second time, or too late to matter.
        (
            Observation::Spawned { .. }
            | Observation::SpawnFailed { .. }
            | Observation::Exited { .. }
            | Observation::OomKilled { .. }
            | Observation::Empty { .. }
            | Observation::StillThere { .. }
            | Observation::KeeperGone { .. }
            | Observation::Tick,
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ending(_) | Phase::Ended { .. },
        ) => vec![],
    }
}

/// The end of a run, and of the turn its agent had.
fn run_ended(session: &Session, outcome: Outcome, now: Now) -> Vec<Event> {
    let mut events = turns::run_over(session, &outcome, now);
    events.push(Event::RunEnded { epoch: session.epoch, outcome });
    events
}

/// A keeper that died after it had recorded the agent's end lost nothing worth the word.
fn gone_outcome(session: &Session) -> Outcome {
    match &session.phase {
        Phase::Ending(ending) => ending.outcome().unwrap_or(Outcome::Lost),
        Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ended { .. } => Outcome::Lost,
    }
}
