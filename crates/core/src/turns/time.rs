//! What time alone changes: turns that come too late, agents with nothing to do, sessions whose time is up.
//!
//! Promise: moments are on the boot clock and of one boot; those of an earlier one have passed.
//! Not here: what is done when a moment has come (`report`).

use super::Hold;
use crate::{Boot, Now, Phase, Session};

/// Why berth ended a run that nobody asked to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Release {
    /// The agent had nothing to do for the time given.
    Idle,
    /// The session's time is up.
    Expired,
    /// It did not break a turn off when asked to.
    Unresponsive,
    /// A client chose another interface of the agent.
    Switched,
    /// It cannot be used.
    Broken {
        /** Why, for people. */
        reason: String,
    },
}

/// When a session's time is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// Of which boot.
    pub boot: Boot,
    /// On its clock.
    pub boot_ms: u64,
}

impl Session {
    /// When the agent is released for having nothing to do, on the boot clock.
    pub fn release_at_boot_ms(&self) -> Option<u64> {
        let idle_ms = self.spec.as_ref()?.policy.idle_ms?;
        // What cannot come back stays: the conversation would be lost.
        self.turns.ready.filter(|able| able.resume)?;
        match self.phase {
            Phase::Running { .. } => Some(self.turns.quiet_since_boot_ms?.saturating_add(idle_ms)),
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => None,
        }
    }

    /// Whether the session's time is up.
    pub fn is_expired(&self, boot: &Boot, boot_ms: u64) -> bool {
        self.expiry.as_ref().is_some_and(|expiry| expiry.boot == *boot && expiry.boot_ms <= boot_ms)
    }

    /// The boot whose clock the current or last run counts by.
    pub(super) fn boot(&self) -> &Boot {
        const NONE: &Boot = &Boot(String::new());
        self.keeper.as_ref().map_or(NONE, |keeper| &keeper.boot)
    }

    /// By when a turn has to be with the agent, on the boot clock. A moment of an earlier boot has passed.
    fn start_by_boot_ms(&self, turn: u64) -> Option<u64> {
        let start_by = self.turns.open(turn)?.start_by.as_ref()?;
        Some(if start_by.boot == *self.boot() { start_by.boot_ms } else { 0 })
    }

    pub(super) fn is_late(&self, turn: u64, now: Now) -> bool {
        self.start_by_boot_ms(turn).is_some_and(|at| at <= now.boot_ms)
    }

    /// When the back-off before a retry is over, on the boot clock. One of an earlier boot is over.
    pub(super) fn back_off_until_boot_ms(&self) -> Option<u64> {
        match &self.turns.hold {
            Some(Hold::Retrying { boot, until_boot_ms, .. }) => {
                Some(if boot == self.boot() { *until_boot_ms } else { 0 })
            }
            Some(
                Hold::Paused { .. }
                | Hold::Unknown { .. }
                | Hold::ForeignWriter { .. }
                | Hold::Draft
                | Hold::AgentFailed { .. }
                | Hold::ModelFailed { .. },
            )
            | None => None,
        }
    }

    /// The next moment at which time alone changes something about its turns, on the boot clock.
    pub fn turns_wake_at_boot_ms(&self) -> Option<u64> {
        if !self.is_live() {
            return None;
        }
        let withdrawals = self.turns.queue.iter().filter_map(|turn| self.start_by_boot_ms(*turn));
        let cancel = self.turns.current.as_ref().and_then(|current| current.cancel.as_ref());
        let cancel = cancel.filter(|_| matches!(self.phase, Phase::Running { .. }));
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

/// Whether its run can be ended for a reason of our own.
pub(super) fn may_be_released(session: &Session) -> bool {
    match session.phase {
        Phase::Starting | Phase::Running { .. } => true,
        Phase::New | Phase::Ending(_) | Phase::Ended { .. } => false,
    }
}
