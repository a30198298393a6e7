//! Bugs on purpose. A simulation that does not notice them proves nothing.

use berth_core::Event;
use berth_journal::Planted;

/// What is wrong with the simulated keeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// Nothing.
    None,
    /// Tells clients first and writes then.
    PublishBeforeAppend,
    /// Acts on what it is about to write.
    EffectBeforeCommit,
    /// After a crash the epoch starts again at 1.
    EpochReset,
    /// The journal has a bug.
    Journal(Planted),
    /// One kind of event changes nothing, live and in replay.
    Forgets(Kind),
}

/// A kind of event that can be forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    RunStarting,
    RunStarted,
    StopRequested,
    AgentExited,
    KillOrdered,
    RunEnded,
    WriterGranted,
    WriterReleased,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::RunStarting,
        Self::RunStarted,
        Self::StopRequested,
        Self::AgentExited,
        Self::KillOrdered,
        Self::RunEnded,
        Self::WriterGranted,
        Self::WriterReleased,
    ];

    pub(crate) fn is(self, event: &Event) -> bool {
        match self {
            Self::RunStarting => matches!(event, Event::RunStarting { .. }),
            Self::RunStarted => matches!(event, Event::RunStarted { .. }),
            Self::StopRequested => matches!(event, Event::StopRequested { .. }),
            Self::AgentExited => matches!(event, Event::AgentExited { .. }),
            Self::KillOrdered => matches!(event, Event::KillOrdered { .. }),
            Self::RunEnded => matches!(event, Event::RunEnded { .. }),
            Self::WriterGranted => matches!(event, Event::WriterGranted { .. }),
            Self::WriterReleased => matches!(event, Event::WriterReleased { .. }),
        }
    }
}

impl Bug {
    pub(crate) fn planted(self) -> Planted {
        match self {
            Self::Journal(planted) => planted,
            Self::None
            | Self::PublishBeforeAppend
            | Self::EffectBeforeCommit
            | Self::EpochReset
            | Self::Forgets(_) => Planted::default(),
        }
    }

    pub(crate) fn forgets(self, event: &Event) -> bool {
        matches!(self, Self::Forgets(kind) if kind.is(event))
    }
}
