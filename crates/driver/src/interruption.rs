//! Interruptions: the reasons with which drivers report that an agent ended a turn early.
//!
//! Promise: [`InterruptionReason::of`] recognises every reason that a driver wrote.
//! Not here: turns that ended because the agent died or the session was stopped.

/// Why an agent reports a turn as cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterruptionReason {
    /// berth asked for it.
    Requested,
    /// berth asked for it, and the agent reported no result.
    WithoutResult,
    /// The agent stops a turn that was denied a permission.
    AfterDenial,
    /// The agent gives no cause.
    ByAgent,
}

impl InterruptionReason {
    const ALL: [Self; 4] = [Self::Requested, Self::WithoutResult, Self::AfterDenial, Self::ByAgent];

    /// The reason in the record of the turn.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Requested => "interrupted",
            Self::WithoutResult => "interrupted, without a result",
            Self::AfterDenial => "the agent interrupted it after a permission was denied",
            Self::ByAgent => "the agent interrupted it",
        }
    }

    /// The interruption with this reason; `None` for a reason that is not an agent's interruption.
    pub fn of(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.reason() == reason)
    }
}
