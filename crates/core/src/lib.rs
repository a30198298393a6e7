//! The rules of a session, and the types they are about: spec, state, events, turns, questions, helpers, grants, kinds of
//! notifications; which commands are allowed, and what follows from them.
//!
//! Four functions, all pure. [`decide`] answers a command with events or a [`Refusal`];
//! [`observe`] turns a report from the world into events (late or twice is fine);
//! [`Session::apply`] changes the state, live and in replay alike; [`effects`] lists what the keeper still has to
//! do in the world for that state.
//!
//! Promise: of all runs at most one is live, epochs and fences only grow, and a run that has
//! ended never changes its outcome. A helper's last owner out stops it, once. A turn is given to the
//! agent at most once and has one final state.
//! Not here: files, processes, clocks, randomness (callers pass values in).
//! Start with [`Session`], then [`decide`].

#![forbid(unsafe_code)]

mod activity;
mod decide;
mod effects;
mod event;
mod grants;
mod id;
mod interface;
mod lifecycle;
mod notification;
mod observe;
mod owners;
mod session;
#[cfg(test)]
mod tests;
mod turns;

pub use activity::{ActivityChange, EndProof, TerminalActivity, TerminalReport};
pub use decide::{Command, Refusal, decide};
pub use effects::{Effect, effects};
pub use event::{
    Actor, BootId, Conversation, ConversationOrigin, Event, ProcessExit, ProcessRef, RunBoundary, RunLimits,
    RunOutcome, SessionPolicy, SessionSpec, TerminalTraits,
};
pub use grants::{
    ActionForbidden, ActionTarget, CallerAction, CallerKind, Grant, check_permission, required_grant,
};
pub use id::{BadName, Epoch, Fence, SafeName, SessionId};
pub use interface::{AgentInterface, InterfaceLaunch, NextInterface};
pub use lifecycle::{MAX_NOTE_BYTES, PolicyChange, TimeoutChange};
pub use notification::{NotificationKind, NotificationPolicy, occasions};
pub use observe::{Observation, PROOF_TIMEOUT, observe};
pub use owners::{
    HelperOwner, HelperReadiness, HelperScope, HelperSharing, HelperTerms, LeaveReason, OWNERLESS_GRACE,
    ReadinessProbe,
};
pub use session::{EndingRun, RunPhase, Session, SessionState, Writer};
pub use turns::{
    AgentCapabilities, AgentQuestion, BadReply, CANCEL_PATIENCE, CancelRequest, ChosenReply, CurrentTurn,
    FIRST_BACK_OFF, FinalState, KnownKey, MAX_KEY_BYTES, MAX_PROMPT_BYTES, MAX_REPLY_BYTES, MOST_ASKS,
    MOST_OVER_KEPT, MOST_QUEUED, MOST_RETRIES, OnFailed, OnUnknown, QuestionOption, QuestionOptionKind,
    QuestionReply, QueueHold, RELEASE_GRACE, ReleaseReason, SendMode, SessionExpiry, SessionTurns,
    StartDeadline, Turn, TurnEnd, TurnFailure, TurnKeys, TurnLookup, TurnProgress, TurnPrompt, TurnRetry,
    key_hash, text_digest,
};

/// A point in time, on both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockReading {
    /// Wall clock, in milliseconds since 1970. For people; never used for a decision.
    pub wall_ms: u64,
    /// Boot clock, in milliseconds since boot, suspended time included. For durations and deadlines.
    pub boot_ms: u64,
}
