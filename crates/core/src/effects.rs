//! Effects: what the world still owes the state.
//!
//! They follow from the state alone, so recovery is: replay, look, ask again. The keeper performs
//! an effect once and again only after it came back to life.

use crate::{Ending, Epoch, Phase, Session};

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
    /// The run is over: the keeper is no longer needed.
    Leave,
}

/// What is owed, in the order to do it.
pub fn effects(session: &Session) -> Vec<Effect> {
    let epoch = session.epoch;
    let idle_end = session.idle_end_boot_ms().map(|boot_ms| Effect::WakeAt { boot_ms });
    match &session.phase {
        Phase::New => vec![],
        Phase::Running { .. } => idle_end.into_iter().collect(),
        Phase::Starting => [Effect::Spawn { epoch }].into_iter().chain(idle_end).collect(),
        // The process may exist without having been seen; the report of its birth comes first.
        Phase::Ending(Ending { agent: None, exit: None, .. }) => vec![],
        Phase::Ending(ending) => {
            let step = if ending.killed { Effect::Kill { epoch } } else { Effect::Terminate { epoch } };
            let mut owed = vec![step];
            if ending.exit.is_some() {
                owed.push(Effect::Prove { epoch });
            }
            if !ending.killed {
                owed.push(Effect::WakeAt { boot_ms: ending.kill_at_boot_ms });
            }
            owed
        }
        Phase::Ended { .. } => vec![Effect::Leave],
    }
}
