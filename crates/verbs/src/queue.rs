//! Queue of a session: waiting turns, and changes of them, through the keeper or with the lease.

use berth_api::Problem;
use berth_api::message::KeeperRequest;
use berth_api::turn::TurnView;
use berth_core::{Command, Refusal, SessionId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::context::VerbContext;
use crate::turns;

/// Queue of a session, as `berth queue --json` prints it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Queue")]
pub struct QueueView {
    /// Id of the session.
    pub session: String,
    /// Reason why no turn begins; null if the queue is not held.
    pub held: Option<String>,
    /// Id of the turn that the agent has.
    pub current: Option<String>,
    /// Waiting turns, the next one first.
    pub queued: Vec<TurnView>,
    /// Present, and true, only if the session's keeper does not answer. All other fields then come from the files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeper_silent: bool,
}

/// Reads the queue of a session. `handle` is the caller's own word for the session, for messages.
pub fn waiting_turns(ctx: &VerbContext, id: &SessionId, handle: &str) -> Result<QueueView, Problem> {
    let status = ctx.status(id)?;
    let Some(known) = status.turns else {
        return Err(berth_api::problem::refusal(&Refusal::NoTurns, handle));
    };
    let mut queued = turns::with_numbers(ctx, id, turns::queued_numbers(&known))?;
    queued.retain(|view| view.position.is_some());
    queued.sort_by_key(|view| view.position);
    let keeper_silent = status.keeper_silent;
    Ok(QueueView { session: id.to_string(), held: known.held, current: known.current, queued, keeper_silent })
}

/// Withdraws a waiting turn.
pub fn withdraw_turn(ctx: &VerbContext, id: &SessionId, turn: u64) -> Result<(), Problem> {
    turns::change(ctx, id, KeeperRequest::Withdraw { turn }, Command::Withdraw { turn, by: ctx.me() })
}

/// Moves a waiting turn to another place; `to` is the number of turns before it.
pub fn move_turn(ctx: &VerbContext, id: &SessionId, turn: u64, to: u64) -> Result<(), Problem> {
    turns::change(ctx, id, KeeperRequest::Move { turn, to }, Command::Move { turn, to })
}

/// Changes the text of a waiting turn.
pub fn edit_turn(ctx: &VerbContext, id: &SessionId, turn: u64, text: String) -> Result<(), Problem> {
    let command = Command::Edit { turn, text: text.clone(), by: ctx.me() };
    turns::change(ctx, id, KeeperRequest::Edit { turn, text }, command)
}

/// Pauses the queue: no further turn begins.
pub fn pause_queue(ctx: &VerbContext, id: &SessionId) -> Result<(), Problem> {
    turns::change(ctx, id, KeeperRequest::Pause, Command::Pause { by: ctx.me() })
}

/// Continues the queue, whatever held it. The caller wants its turns to run, so a session without a keeper is started.
pub fn continue_queue(ctx: &VerbContext, id: &SessionId) -> Result<(), Problem> {
    turns::change(ctx, id, KeeperRequest::GoOn, Command::GoOn { by: ctx.me() })?;
    let waits = ctx.status(id)?.turns.is_some_and(|turns| !turns.queued.is_empty());
    if waits && ctx.keeper_of(id)?.is_none() {
        turns::begin_again(ctx, id)?;
    }
    Ok(())
}
