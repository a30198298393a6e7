//! `berth cancel`: cancel a queued or running turn.

use std::time::Instant;

use berth_api::{Code, Problem};

use crate::args::Cancel;
use crate::ctx::Ctx;
use crate::{print, turns};

pub(crate) fn run(ctx: &Ctx, args: &Cancel) -> Result<u8, Problem> {
    let (id, number) = turns::find(ctx, &args.turn, None)?;
    let mut view = turns::cancel(ctx, &id, number)?;
    let until = Instant::now() + turns::CANCEL_TAKES;
    if !turns::is_over(&view.state) {
        view = turns::follow(ctx, &id, number, None, Some(until), |_| Ok(false))?;
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
