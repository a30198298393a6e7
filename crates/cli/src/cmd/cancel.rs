//! `berth cancel`: withdraw a turn, or have it broken off.

use std::time::{Duration, Instant};

use berth_api::message::Request;
use berth_api::{Code, Problem};
use berth_core::{CANCEL_PATIENCE, Command, RELEASE_GRACE};

use crate::args::Cancel;
use crate::ctx::Ctx;
use crate::{print, turns};

/// How long the end of a run may take that is ended because its agent does not heed.
const END_PATIENCE: Duration = Duration::from_secs(15);

pub(crate) fn run(ctx: &Ctx, args: &Cancel) -> Result<u8, Problem> {
    let (id, number) = turns::find(ctx, &args.turn, None)?;
    turns::view(ctx, &id, number)?;
    let command = Command::Cancel { turn: number, by: ctx.me() };
    turns::change(ctx, &id, Request::Cancel { turn: number }, command)?;
    let until = Instant::now() + CANCEL_PATIENCE + RELEASE_GRACE + END_PATIENCE;
    let mut view = turns::view(ctx, &id, number)?;
    if !turns::is_over(&view.state) {
        let keeper = ctx.keeper_of(&id)?;
        view = turns::follow(ctx, &id, number, keeper, Some(until), |_| Ok(false))?;
    }
    if args.json {
        print::json(&view)?;
    } else {
        print::note(&format!("turn {} {}", view.turn, view.state));
    }
    match view.state.as_str() {
        "cancelled" | "interrupted" => Ok(0),
        // It was done before the agent could be told.
        _ => Ok(Code::Refused.exit_code()),
    }
}
