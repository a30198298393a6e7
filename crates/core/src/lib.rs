//! The rules of a session: who may do what, and what follows from it.
//!
//! Four functions, all pure. [`decide`] answers a command with events or a [`Refusal`];
//! [`observe`] turns a report from the world into events (late or twice is fine);
//! [`Session::apply`] changes the state, live and in replay alike; [`effects`] says what the
//! world still owes that state.
//!
//! Promise: of all runs at most one is live, epochs and fences only grow, and a run that has
//! ended never changes its outcome. A helper's last owner out stops it, once. A turn is given to the
//! agent at most once and has one final state.
//! Not here: files, processes, clocks, randomness (callers pass values in).
//! Start with [`Session`], then [`decide`].

#![forbid(unsafe_code)]

mod decide;
mod edges;
mod effects;
mod event;
mod grants;
mod id;
mod interface;
mod life;
mod observe;
mod occasion;
mod owners;
mod session;
#[cfg(test)]
mod tests;
mod turns;

pub use decide::{Command, Refusal, decide};
pub use edges::{Edge, Edges, EndProof, Told};
pub use effects::{Effect, effects};
pub use event::{
    Actor, Boot, Boundary, Conversation, Event, Exit, Limits, Origin, Outcome, Policy, Process, Spec,
    TerminalTraits,
};
pub use grants::{Caller, Deed, Forbidden, Grant, Target, may, needed};
pub use id::{BadName, Epoch, Fence, Name, SessionId};
pub use interface::{Interface, InterfaceLaunch, NextInterface};
pub use life::{MAX_NOTE_BYTES, PolicyChange, Term};
pub use observe::{Observation, PROOF_PATIENCE, observe};
pub use occasion::{Notify, Occasion, occasions};
pub use owners::{Leaving, OWNERLESS_GRACE, Owner, Readiness, ReadyWhen, Scope, Sharing, Terms};
pub use session::{Ending, Phase, Session, State, Writer};
pub use turns::{
    Able, Ask, AskKind, AskOption, BadAnswer, CANCEL_PATIENCE, Cancel, Current, Expiry, FIRST_BACK_OFF,
    Failure, Final, Hold, KnownKey, MAX_KEY_BYTES, MAX_PROMPT_BYTES, MAX_REPLY_BYTES, MOST_ASKS,
    MOST_OVER_KEPT, MOST_QUEUED, MOST_RETRIES, Manner, OnFailed, OnUnknown, Prompt, RELEASE_GRACE, Release,
    Reply, Retry, StartBy, Turn, TurnEnd, TurnKeys, TurnLookup, TurnState, Turns, Wish, key_hash,
    text_digest,
};

/// A moment, as both clocks tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// For people: milliseconds since 1970. Never used for a decision.
    pub wall_ms: u64,
    /// For durations: milliseconds since boot, suspended time included.
    pub boot_ms: u64,
}
