//! `berth queue`: what waits in a session.

use berth_api::Problem;
use berth_api::message::Request;
use berth_core::{Command, SessionId};
use serde::Serialize;

use crate::args::{Queue, QueueVerb};
use crate::cmd::turns::table;
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::{print, turns};

/// What `--json` prints.
#[derive(Serialize)]
struct Waiting {
    session: String,
    held: Option<String>,
    current: Option<String>,
    queued: Vec<berth_api::turn::TurnView>,
}

pub(crate) fn run(ctx: &Ctx, args: &Queue) -> Result<u8, Problem> {
    let Meant { id, handle, .. } = ctx.target(args.session.as_deref())?;
    match &args.verb {
        None => {}
        Some(QueueVerb::Drop { turn }) => {
            let (_, number) = turns::find(ctx, turn, Some(&id))?;
            let command = Command::Withdraw { turn: number, by: ctx.me() };
            turns::change(ctx, &id, Request::Withdraw { turn: number }, command)?;
        }
        Some(QueueVerb::Move { turn, to }) => {
            let (_, number) = turns::find(ctx, turn, Some(&id))?;
            let to = to.saturating_sub(1);
            turns::change(ctx, &id, Request::Move { turn: number, to }, Command::Move { turn: number, to })?;
        }
        Some(QueueVerb::Pause) => {
            turns::change(ctx, &id, Request::Pause, Command::Pause { by: ctx.me() })?;
        }
        Some(QueueVerb::Resume) => {
            turns::change(ctx, &id, Request::GoOn, Command::GoOn { by: ctx.me() })?;
            go_on(ctx, &id)?;
        }
    }
    show(ctx, &id, &handle, args.json)
}

/// What waits, and why nothing begins.
fn show(ctx: &Ctx, id: &SessionId, handle: &str, json: bool) -> Result<u8, Problem> {
    let status = ctx.status(id)?;
    let Some(known) = status.turns else {
        return Err(berth_api::problem::refusal(&berth_core::Refusal::NoTurns, handle));
    };
    let mut queued = turns::views(ctx, id)?;
    queued.retain(|view| view.position.is_some());
    queued.sort_by_key(|view| view.position);
    if json {
        let waiting = Waiting { session: id.to_string(), held: known.held, current: known.current, queued };
        print::json(&waiting)?;
        return Ok(0);
    }
    print::text(&table(&queued))?;
    if queued.is_empty() {
        print::note("nothing waits");
    }
    if let Some(held) = known.held {
        print::note(&format!("the queue is held: {held}"));
    }
    Ok(0)
}

/// Whoever lets a queue go on wants what waits in it: a session without a keeper is started for that.
fn go_on(ctx: &Ctx, id: &SessionId) -> Result<(), Problem> {
    let waits = ctx.status(id)?.turns.is_some_and(|turns| !turns.queued.is_empty());
    if waits && ctx.keeper_of(id)?.is_none() {
        turns::begin_again(ctx, id)?;
    }
    Ok(())
}
