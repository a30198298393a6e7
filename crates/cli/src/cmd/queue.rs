//! `berth queue`: what waits in a session.

use berth_api::Problem;
use berth_core::SessionId;
use berth_verbs::queue;

use crate::args::{Queue, QueueVerb};
use crate::cmd::send;
use crate::cmd::turns::table;
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::{print, turns};

pub(crate) fn run(ctx: &Ctx, args: &Queue) -> Result<u8, Problem> {
    let Meant { id, handle, .. } = ctx.target(args.session.as_deref())?;
    let number = |turn: &str| turns::find(ctx, turn, Some(&id)).map(|(_, number)| number);
    match &args.verb {
        None => {}
        Some(QueueVerb::Drop { turn }) => queue::withdraw(ctx, &id, number(turn)?)?,
        Some(QueueVerb::Move { turn, to }) => queue::shift(ctx, &id, number(turn)?, to.saturating_sub(1))?,
        Some(QueueVerb::Edit { turn, text }) => {
            let number = number(turn)?;
            queue::edit(ctx, &id, number, send::text(text)?)?;
        }
        Some(QueueVerb::Pause) => queue::pause(ctx, &id)?,
        Some(QueueVerb::Resume) => queue::go_on(ctx, &id)?,
    }
    show(ctx, &id, &handle, args.json)
}

/// What waits, and why nothing begins.
fn show(ctx: &Ctx, id: &SessionId, handle: &str, json: bool) -> Result<u8, Problem> {
    let waiting = queue::waiting(ctx, id, handle)?;
    print::note_if_silent(waiting.keeper_silent, handle);
    if json {
        print::json(&waiting)?;
        return Ok(0);
    }
    print::text(&table(&waiting.queued))?;
    if waiting.queued.is_empty() {
        print::note("nothing waits");
    }
    if let Some(held) = waiting.held {
        print::note(&format!("the queue is held: {held}"));
    }
    Ok(0)
}
