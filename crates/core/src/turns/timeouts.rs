//! Deadlines: turns that come too late, idle agents, sessions whose time to live has ended.
//!
//! Promise: times are on the boot clock and belong to one boot; those of an earlier boot have passed.
//! Not here: the events when a time has come (`report`).

use super::QueueHold;
use crate::{BootId, ClockReading, RunPhase, Session};

/// Reason why berth itself ended a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReleaseReason {
    /// The agent was idle for the time that the policy gives.
    Idle,
    /// The session's time to live has ended.
    Expired,
    /// The agent did not interrupt a turn when asked to.
    Unresponsive,
    /// A client chose another interface of the agent.
    Switched,
    /// The agent cannot be used.
    Broken {
        /** Reason, for people. */
        reason: String,
    },
}

/// End of a session's time to live.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionExpiry {
    /// Boot that the time belongs to.
    pub boot: BootId,
    /// Time on the clock of that boot.
    pub boot_ms: u64,
}

impl Session {
    /// Time at which the idle agent is released, on the boot clock.
    pub fn release_at_boot_ms(&self) -> Option<u64> {
        let idle_ms = self.spec.as_ref()?.policy.idle_ms?;
        // An agent that cannot resume stays: the conversation would be lost.
        self.turns.ready.filter(|able| able.resume)?;
        match self.phase {
            RunPhase::Running { .. } => Some(self.turns.quiet_since_boot_ms?.saturating_add(idle_ms)),
            RunPhase::New | RunPhase::Starting | RunPhase::Ending(_) | RunPhase::Ended { .. } => None,
        }
    }

    /// True if the session's time to live has ended.
    pub fn is_expired(&self, boot: &BootId, boot_ms: u64) -> bool {
        self.expiry.as_ref().is_some_and(|expiry| expiry.boot == *boot && expiry.boot_ms <= boot_ms)
    }

    /// Boot whose clock the current or last run counts by.
    pub(super) fn boot(&self) -> &BootId {
        const NONE: &BootId = &BootId(String::new());
        self.keeper.as_ref().map_or(NONE, |keeper| &keeper.boot)
    }

    /// Time by which the agent must have a turn, on the boot clock. A time of an earlier boot has passed.
    fn start_by_boot_ms(&self, turn: u64) -> Option<u64> {
        let start_by = self.turns.open(turn)?.start_by.as_ref()?;
        Some(if start_by.boot == *self.boot() { start_by.boot_ms } else { 0 })
    }

    pub(super) fn is_late(&self, turn: u64, now: ClockReading) -> bool {
        self.start_by_boot_ms(turn).is_some_and(|at| at <= now.boot_ms)
    }

    /// End of the back-off before a retry, on the boot clock. One of an earlier boot is over.
    pub(super) fn back_off_until_boot_ms(&self) -> Option<u64> {
        match &self.turns.hold {
            Some(QueueHold::Retrying { boot, until_boot_ms, .. }) => {
                Some(if boot == self.boot() { *until_boot_ms } else { 0 })
            }
            Some(
                QueueHold::Paused { .. }
                | QueueHold::Unknown { .. }
                | QueueHold::ForeignWriter { .. }
                | QueueHold::Draft
                | QueueHold::AgentFailed { .. }
                | QueueHold::ModelFailed { .. },
            )
            | None => None,
        }
    }

    /// Next time at which time alone changes the turns, on the boot clock.
    pub fn turns_wake_at_boot_ms(&self) -> Option<u64> {
        if !self.is_live() {
            return None;
        }
        let withdrawals = self.turns.queue.iter().filter_map(|turn| self.start_by_boot_ms(*turn));
        let cancel = self.turns.current.as_ref().and_then(|current| current.cancel.as_ref());
        let cancel = cancel.filter(|_| matches!(self.phase, RunPhase::Running { .. }));
        let expiry = self.expiry.as_ref().filter(|it| it.boot == *self.boot() && may_be_released(self));
        withdrawals
            .chain(cancel.map(|cancel| cancel.until_boot_ms))
            .chain(expiry.map(|expiry| expiry.boot_ms))
            .chain(self.release_at_boot_ms())
            .chain(self.back_off_until_boot_ms())
            .chain(self.switch_is_due().then_some(0))
            .min()
    }
}

/// True if berth itself may end the run.
pub(super) fn may_be_released(session: &Session) -> bool {
    match session.phase {
        RunPhase::Starting | RunPhase::Running { .. } => true,
        RunPhase::New | RunPhase::Ending(_) | RunPhase::Ended { .. } => false,
    }
}
