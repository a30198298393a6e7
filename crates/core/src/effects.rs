//! Effects: what the world still owes the state.
//!
//! They follow from the state alone, so recovery is: replay, look, ask again. The keeper performs
//! an effect once and again only after it came back to life.

use crate::{Ending, Epoch, Phase, Session, TurnState};

/// Something to be done to the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Make the agent's process.
    Spawn {
        /** For which run. */
        epoch: Epoch,
    },
    /// Ask every process of the run to end.
    Terminate {
        /** Which run. */
        epoch: Epoch,
    },
    /// Kill every process of the run until none is left.
    Kill {
        /** Which run. */
        epoch: Epoch,
    },
    /// Report [`crate::Observation::Empty`] as soon as nothing of the run is left.
    Prove {
        /** Which run. */
        epoch: Epoch,
    },
    /// Report [`crate::Observation::Tick`] at this moment of the boot clock.
    WakeAt {
        /** When. */
        boot_ms: u64,
    },
    /// Give the agent the turn that is due: record that, then say it.
    Deliver {
        /** Which. */
        turn: u64,
    },
    /// Say a turn's prompt to the agent, once. Owed until the agent says that it has it. Whoever continues a
    /// keeper's work cannot tell whether that was done: it does not say it, and reports
    /// [`crate::Observation::Broken`].
    Say {
        /** Which. */
        turn: u64,
    },
    /// Ask the agent to break off the turn it has.
    Interrupt {
        /** Which. */
        turn: u64,
    },
    /// The run is over, and what waits needs another one. Whoever is refused that because the session's time
    /// is up reports [`crate::Observation::Tick`], and nothing waits any more.
    NextRun {
        /** The one that is over. */
        epoch: Epoch,
    },
    /// The run is over: the keeper is no longer needed.
    Leave,
}

/// What is owed, in the order to do it.
pub fn effects(session: &Session) -> Vec<Effect> {
    let epoch = session.epoch;
    let wake = |kill_at: Option<u64>| {
        let all = [kill_at, session.idle_end_boot_ms(), session.turns_wake_at_boot_ms()];
        all.into_iter().flatten().min().map(|boot_ms| Effect::WakeAt { boot_ms })
    };
    match &session.phase {
        Phase::New => vec![],
        Phase::Running { .. } => turns(session).into_iter().chain(wake(None)).collect(),
        Phase::Starting => [Effect::Spawn { epoch }].into_iter().chain(wake(None)).collect(),
        // The process may exist without having been seen; the report of its birth comes first.
        Phase::Ending(Ending { agent: None, exit: None, .. }) => wake(None).into_iter().collect(),
        Phase::Ending(ending) => {
            let step = if ending.killed { Effect::Kill { epoch } } else { Effect::Terminate { epoch } };
            let prove = ending.exit.map(|_| Effect::Prove { epoch });
            let kill_at = (!ending.killed).then_some(ending.kill_at_boot_ms);
            [step].into_iter().chain(prove).chain(wake(kill_at)).collect()
        }
        Phase::Ended { .. } if session.goes_on() => vec![Effect::NextRun { epoch }],
        Phase::Ended { .. } => vec![Effect::Leave],
    }
}

/// What is owed to the turns of an agent that runs.
fn turns(session: &Session) -> Vec<Effect> {
    let mut owed = Vec::new();
    if let Some(current) = &session.turns.current {
        let with_it = std::iter::once(&current.turn).chain(&current.steered);
        let unheard =
            |turn: &&u64| session.turns.open(**turn).is_some_and(|it| it.state == TurnState::Delivered);
        owed.extend(with_it.filter(unheard).map(|turn| Effect::Say { turn: *turn }));
        owed.extend(current.cancel.as_ref().map(|_| Effect::Interrupt { turn: current.turn }));
    }
    owed.extend(session.due_turn().map(|turn| Effect::Deliver { turn }));
    owed
}
