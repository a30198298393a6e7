//! Bugs on purpose. A simulation that does not notice them proves nothing.

use berth_core::{Event, FinalState, SendMode, TurnPrompt, TurnRetry};
use berth_journal::PlantedBugs;

use crate::simulation::forgetful_session::ExpectedBatchResult;

/// A planted bug of the simulated keeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeeperBug {
    /// No bug.
    None,
    /// Tells clients first and writes then.
    PublishBeforeAppend,
    /// Answers requests when their batch is on its way, and not when it is committed.
    AnswersBeforeCommit,
    /// Performs effects before their batch is written.
    EffectBeforeCommit,
    /// After a crash the epoch starts again at 1.
    EpochReset,
    /// The store appends batches of a keeper whose claim was superseded.
    OldEpochAccepted,
    /// After a restart in place it sends its earlier messages to the agent again.
    SaysAgain,
    /// Retries a turn whose end is unknown.
    RetriesUnknown,
    /// Retries a failed turn twice at once.
    RetriesTwice,
    /// Believes a snapshot whose last event is not in the journal.
    SnapshotAhead,
    /// The journal has a bug.
    Journal(PlantedBugs),
    /// One kind of event changes nothing, live and in replay.
    Forgets(ForgettableEvent),
}

/// A kind of event that can be forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ForgettableEvent {
    RunStarting,
    RunStarted,
    StopRequested,
    AgentExited,
    KillOrdered,
    RunEnded,
    WriterGranted,
    WriterReleased,
    AgentReady,
    TurnAccepted,
    TurnDelivered,
    TurnEnded,
    CancelRequested,
    QueueHeld,
    QueueResumed,
    Released,
}

impl ForgettableEvent {
    /// The kinds that occur only where an agent takes turns.
    pub(crate) const OF_TURNS: [Self; 8] = [
        Self::AgentReady,
        Self::TurnAccepted,
        Self::TurnDelivered,
        Self::TurnEnded,
        Self::CancelRequested,
        Self::QueueHeld,
        Self::QueueResumed,
        Self::Released,
    ];

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
            Self::AgentReady => matches!(event, Event::AgentReady { .. }),
            Self::TurnAccepted => matches!(event, Event::TurnAccepted { .. }),
            Self::TurnDelivered => matches!(event, Event::TurnDelivered { .. }),
            Self::TurnEnded => matches!(event, Event::TurnEnded { .. }),
            Self::CancelRequested => matches!(event, Event::CancelRequested { .. }),
            Self::QueueHeld => matches!(event, Event::QueueHeld { .. }),
            Self::QueueResumed => matches!(event, Event::QueueResumed { .. }),
            Self::Released => matches!(event, Event::RunReleased { .. }),
        }
    }
}

impl KeeperBug {
    pub(crate) fn planted(self) -> PlantedBugs {
        match self {
            Self::Journal(planted) => planted,
            Self::None
            | Self::PublishBeforeAppend
            | Self::AnswersBeforeCommit
            | Self::EffectBeforeCommit
            | Self::EpochReset
            | Self::OldEpochAccepted
            | Self::SaysAgain
            | Self::RetriesUnknown
            | Self::RetriesTwice
            | Self::SnapshotAhead
            | Self::Forgets(_) => PlantedBugs::default(),
        }
    }

    /// The retry that must not be, behind the events of a batch.
    pub(crate) fn wrong_retry(self, plan: &ExpectedBatchResult) -> Option<Event> {
        let retry = plan.events.iter().find_map(|stored| match (self, &stored.event) {
            (Self::RetriesUnknown, Event::TurnEnded { turn, end, .. })
                if end.state == FinalState::Unknown =>
            {
                Some(TurnRetry { of: *turn, attempt: 1 })
            }
            (Self::RetriesTwice, Event::TurnAccepted { prompt, .. }) => prompt.retry,
            _ => None,
        })?;
        let (by, text, manner) = (Default::default(), "once more".to_owned(), SendMode::Queue);
        let prompt = TurnPrompt { by, text, key: None, start_by: None, manner, retry: Some(retry) };
        Some(Event::TurnAccepted { turn: plan.then.turns.last() + 1, prompt })
    }

    pub(crate) fn forgets(self, event: &Event) -> bool {
        matches!(self, Self::Forgets(kind) if kind.is(event))
    }
}
