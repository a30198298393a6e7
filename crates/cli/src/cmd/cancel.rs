//! `berth cancel`: cancels a queued or running turn, and waits for its end.

use std::time::Instant;

use berth_api::{Problem, ProblemCode, TurnState};

use crate::args::CancelArgs;
use crate::ctx::CommandContext;
use crate::{print, turns};

pub(crate) fn run(ctx: &CommandContext, args: &CancelArgs) -> Result<u8, Problem> {
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
    // Any other state means that the turn was over before the agent heard of the cancellation.
    Ok(if is_withdrawn { 0 } else { ProblemCode::Refused.exit_code() })
}
