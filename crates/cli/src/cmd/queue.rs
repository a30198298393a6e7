//! `berth queue`: shows and changes a session's queue of turns.

use berth_api::Problem;
use berth_core::SessionId;
use berth_verbs::queue;

use crate::args::{QueueArgs, QueueVerb};
use crate::cmd::send;
use crate::cmd::turns::table;
use crate::ctx::CommandContext;
use crate::target_session::TargetSession;
use crate::{print, turns};

pub(crate) fn run(ctx: &CommandContext, args: &QueueArgs) -> Result<u8, Problem> {
    let TargetSession { id, handle, .. } = ctx.target(args.session.as_deref())?;
    let number = |turn: &str| turns::find(ctx, turn, Some(&id)).map(|(_, number)| number);
    match &args.verb {
        None => {}
        Some(QueueVerb::Drop { turn }) => queue::withdraw_turn(ctx, &id, number(turn)?)?,
        Some(QueueVerb::Move { turn, to }) => {
            queue::move_turn(ctx, &id, number(turn)?, to.saturating_sub(1))?
        }
        Some(QueueVerb::Edit { turn, text }) => {
            let number = number(turn)?;
            queue::edit_turn(ctx, &id, number, send::text(text)?)?;
        }
        Some(QueueVerb::Pause) => queue::pause_queue(ctx, &id)?,
        Some(QueueVerb::Resume) => queue::continue_queue(ctx, &id)?,
    }
    show(ctx, &id, &handle, args.json)
}

/// Prints the queued turns, and the reason if the queue is held.
fn show(ctx: &CommandContext, id: &SessionId, handle: &str, json: bool) -> Result<u8, Problem> {
    let waiting = queue::waiting_turns(ctx, id, handle)?;
    print::note_if_unresponsive(waiting.keeper_silent, handle);
    if json {
        print::json(&waiting)?;
        return Ok(0);
    }
    print::text(&table(&waiting.queued))?;
    if waiting.queued.is_empty() {
        print::note("no turn is queued");
    }
    if let Some(held) = waiting.held {
        print::note(&format!("the queue is held: {held}"));
    }
    Ok(0)
}
