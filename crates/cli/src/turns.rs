//! Finds the turn that a user means. For operations on turns see [`berth_verbs::turns`].

use berth_api::turn::split_turn_id;
use berth_api::{Problem, ProblemCode};
use berth_core::SessionId;

pub(crate) use berth_verbs::turns::*;

use crate::ctx::CommandContext;
use crate::target_session::TargetSession;

/// The turn a user means: `fix.3`; with `of` or `--session` also `3`; or `fix`, for its current or latest turn.
pub(crate) fn find(
    ctx: &CommandContext,
    text: &str,
    of: Option<&SessionId>,
) -> Result<(SessionId, u64), Problem> {
    // With --session too a number is enough.
    let named = ctx.session.as_deref().filter(|_| of.is_none()).map(|named| ctx.find(named)).transpose()?;
    let of = of.or(named.as_ref());
    if let (Some(id), Ok(number)) = (of, text.parse::<u64>()) {
        return Ok((id.clone(), number));
    }
    let (id, number) = match split_turn_id(text) {
        Some((session, number)) => match ctx.find(session) {
            Ok(id) => (id, number),
            // A session may be called `v1.2`.
            Err(problem) => latest_of(ctx, text).map_err(|_| problem)?,
        },
        None if of.is_some() => return Err(not_a_turn(text)),
        None => latest_of(ctx, text).map_err(|problem| match problem.code {
            // A number needs its session.
            ProblemCode::NotFound if text.parse::<u64>().is_ok() => not_a_turn(text),
            _ => problem,
        })?,
    };
    if of.is_some_and(|of| *of != id) {
        return Err(Problem::usage(format!("turn {text} is of another session")));
    }
    Ok((id, number))
}

/// The current or latest turn of a session.
fn latest_of(ctx: &CommandContext, text: &str) -> Result<(SessionId, u64), Problem> {
    let TargetSession { id, handle, .. } = ctx.target(Some(text))?;
    let number = berth_verbs::wait::current_or_latest_turn(&ctx.known(&id)?.0, &handle)?;
    Ok((id, number))
}

fn not_a_turn(text: &str) -> Problem {
    Problem::usage(format!("`{text}` is not a turn"))
        .hint("a turn is a session, a dot and a number, as in fix.3; `berth turns S` lists them")
}
