//! `berth cancel`: cancel a queued or running turn.

use std::time::Instant;

use berth_api::{Code, Problem, TurnState};

use crate::args::Cancel;
use crate::ctx::Ctx;
use crate::{print, turns};

pub(crate) fn run(ctx: &Ctx, args: &Cancel) -> Result<u8, Problem> {
    let (id, number) = turns::find(ctx, &args.turn, None)?;
    let mut view = turns::cancel(ctx, &id, number)?;
    let until = Instant::now() + turns::CANCEL_TAKES;
    if !view.state.is_final() {
        view = turns::follow(ctx, &id, number, None, Some(until), |_| Ok(false))?;
    }
    if args.json {
        print::json(&view)?;
    } else {
        print::note(&format!("turn {} {}", view.turn, view.state));
    }
    let is_withdrawn = matches!(view.state, TurnState::Cancelled | TurnState::Interrupted);
    // Else it was done before the agent could be told.
    Ok(if is_withdrawn { 0 } else { Code::Refused.exit_code() })
}
