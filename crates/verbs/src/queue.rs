//! What waits in a session, and changing it: with its keeper, or as its keeper for that moment.

use berth_api::Problem;
use berth_api::message::Request;
use berth_api::turn::{TurnView, split_turn_id};
use berth_core::{Command, Refusal, SessionId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ctx::Ctx;
use crate::turns;

/// What waits: `berth queue --json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Queue")]
pub struct Waiting {
    /// The session's id.
    pub session: String,
    /// Why nothing begins, if something holds it.
    pub held: Option<String>,
    /// The turn the agent has.
    pub current: Option<String>,
    /// The turns that wait, the next one first.
    pub queued: Vec<TurnView>,
    /// Present, and true, only if the session's keeper does not answer. All other fields then come from the files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeper_silent: bool,
}

/// What waits in a session. `handle` is how whoever asks calls it.
pub fn waiting(ctx: &Ctx, id: &SessionId, handle: &str) -> Result<Waiting, Problem> {
    let status = ctx.status(id)?;
    let Some(known) = status.turns else {
        return Err(berth_api::problem::refusal(&Refusal::NoTurns, handle));
    };
    let numbers = || known.queued.iter().filter_map(|turn| split_turn_id(turn)).map(|(_, number)| number);
    let mut queued = match (numbers().min(), numbers().max()) {
        (Some(first), Some(last)) => turns::page(ctx, id, first, last - first + 1, usize::MAX)?.turns,
        _ => vec![],
    };
    queued.retain(|view| view.position.is_some());
    queued.sort_by_key(|view| view.position);
    let keeper_silent = status.keeper_silent;
    Ok(Waiting { session: id.to_string(), held: known.held, current: known.current, queued, keeper_silent })
}

/// Withdraws a turn that waits.
pub fn withdraw(ctx: &Ctx, id: &SessionId, turn: u64) -> Result<(), Problem> {
    turns::change(ctx, id, Request::Withdraw { turn }, Command::Withdraw { turn, by: ctx.me() })
}

/// Puts a turn that waits at another place: so many before it.
pub fn shift(ctx: &Ctx, id: &SessionId, turn: u64, to: u64) -> Result<(), Problem> {
    turns::change(ctx, id, Request::Move { turn, to }, Command::Move { turn, to })
}

/// Has a turn that waits say something else.
pub fn edit(ctx: &Ctx, id: &SessionId, turn: u64, text: String) -> Result<(), Problem> {
    let command = Command::Edit { turn, text: text.clone(), by: ctx.me() };
    turns::change(ctx, id, Request::Edit { turn, text }, command)
}

/// Lets no further turn begin.
pub fn pause(ctx: &Ctx, id: &SessionId) -> Result<(), Problem> {
    turns::change(ctx, id, Request::Pause, Command::Pause { by: ctx.me() })
}

/// Lets the queue go on, whatever held it. Whoever does that wants what waits in it: a session without a keeper
/// is started for that.
pub fn go_on(ctx: &Ctx, id: &SessionId) -> Result<(), Problem> {
    turns::change(ctx, id, Request::GoOn, Command::GoOn { by: ctx.me() })?;
    let waits = ctx.status(id)?.turns.is_some_and(|turns| !turns.queued.is_empty());
    if waits && ctx.keeper_of(id)?.is_none() {
        turns::begin_again(ctx, id)?;
    }
    Ok(())
}
