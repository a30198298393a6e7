//! Effects: what the keeper still has to do in the world for a state.
//!
//! Promise: effects follow from the state alone, so recovery is: replay, look, ask again. The keeper performs each
//! effect once, and once more only after it was restarted.
//! Not here: performing effects (the keeper does).
//! Start with [`effects`].

use crate::{EndingRun, Epoch, RunPhase, Session, TurnProgress};

/// An action in the world that a state asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Start the agent's process.
    Spawn {
        /** Number of the run. */
        epoch: Epoch,
    },
    /// Ask every process of the run to end.
    Terminate {
        /** Number of the run. */
        epoch: Epoch,
    },
    /// Kill every process of the run until none is left.
    Kill {
        /** Number of the run. */
        epoch: Epoch,
    },
    /// Report [`crate::Observation::Empty`] as soon as nothing of the run is left.
    Prove {
        /** Number of the run. */
        epoch: Epoch,
    },
    /// Report [`crate::Observation::Tick`] at this time of the boot clock.
    WakeAt {
        /** Time of the boot clock. */
        boot_ms: u64,
    },
    /// Give the due turn to the agent: record that, then send the prompt.
    Deliver {
        /** Number of the turn. */
        turn: u64,
    },
    /// Send a turn's prompt to the agent, once. Owed until the agent confirms that it has the prompt. A keeper that
    /// continues the work of another cannot tell whether the prompt was sent: it does not send it, and reports
    /// [`crate::Observation::Broken`].
    Say {
        /** Number of the turn. */
        turn: u64,
    },
    /// Ask the agent to interrupt its turn.
    Interrupt {
        /** Number of the turn. */
        turn: u64,
    },
    /// Begin the next run for the waiting turns: this one is over. A keeper that is refused because the session's
    /// time to live has ended reports [`crate::Observation::Tick`], and nothing waits any more.
    NextRun {
        /** Number of the run that is over. */
        epoch: Epoch,
    },
    /// Leave: the run is over, and the keeper is no longer needed.
    Leave,
}

/// Lists the effects that a state asks for, in the order to perform them.
pub fn effects(session: &Session) -> Vec<Effect> {
    let epoch = session.epoch;
    let wake = |kill_at: Option<u64>| {
        let all = [kill_at, session.idle_end_boot_ms(), session.turns_wake_at_boot_ms()];
        all.into_iter().flatten().min().map(|boot_ms| Effect::WakeAt { boot_ms })
    };
    match &session.phase {
        RunPhase::New => vec![],
        RunPhase::Running { .. } => turns(session).into_iter().chain(wake(None)).collect(),
        RunPhase::Starting => [Effect::Spawn { epoch }].into_iter().chain(wake(None)).collect(),
        // The process may exist without having been seen; the report of its birth comes first.
        RunPhase::Ending(EndingRun { agent: None, exit: None, .. }) => wake(None).into_iter().collect(),
        RunPhase::Ending(ending) => {
            let step = if ending.killed { Effect::Kill { epoch } } else { Effect::Terminate { epoch } };
            let prove = ending.exit.map(|_| Effect::Prove { epoch });
            let kill_at = (!ending.killed).then_some(ending.kill_at_boot_ms);
            [step].into_iter().chain(prove).chain(wake(kill_at)).collect()
        }
        RunPhase::Ended { .. } if session.goes_on() => vec![Effect::NextRun { epoch }],
        RunPhase::Ended { .. } => vec![Effect::Leave],
    }
}

/// Effects for the turns of an agent that runs.
fn turns(session: &Session) -> Vec<Effect> {
    let mut owed = Vec::new();
    if let Some(current) = &session.turns.current {
        let with_it = std::iter::once(&current.turn).chain(&current.steered);
        let unheard =
            |turn: &&u64| session.turns.open(**turn).is_some_and(|it| it.state == TurnProgress::Delivered);
        owed.extend(with_it.filter(unheard).map(|turn| Effect::Say { turn: *turn }));
        owed.extend(current.cancel.as_ref().map(|_| Effect::Interrupt { turn: current.turn }));
    }
    owed.extend(session.due_turn().map(|turn| Effect::Deliver { turn }));
    owed
}
