//! Ending sessions, until each is proven over.

use std::time::Duration;

use berth_api::message::{Answer, Request};
use berth_api::{Code, Problem, Status};
use berth_core::{PROOF_PATIENCE, SessionId};

use crate::ctx::Ctx;

/// How long a keeper may take for everything but the ending itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many sessions are stopped at a time: each costs a thread and a connection.
const AT_ONCE: usize = 256;

/// Stops them all at once, so that many that are deaf cost the patience of one.
pub fn stop_together<'a>(
    ctx: &'a Ctx,
    ids: &'a [SessionId],
    grace_ms: u64,
) -> impl Iterator<Item = Result<Status, Problem>> + use<'a> {
    ids.chunks(AT_ONCE).flat_map(move |some| stop_some(ctx, some, grace_ms))
}

fn stop_some(ctx: &Ctx, ids: &[SessionId], grace_ms: u64) -> Vec<Result<Status, Problem>> {
    std::thread::scope(|scope| {
        let stopping: Vec<_> = ids.iter().map(|id| scope.spawn(|| stop(ctx, id, grace_ms))).collect();
        let ended = stopping.into_iter().map(|thread| thread.join());
        ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Stops one; answered when it is proven over.
pub fn stop(ctx: &Ctx, id: &SessionId, grace_ms: u64) -> Result<Status, Problem> {
    let status = ask_to_stop(ctx, id, grace_ms)?;
    if status.is_over() {
        return Ok(status);
    }
    // There was nobody to ask, and then there was: somebody started the next run.
    let status = ask_to_stop(ctx, id, grace_ms)?;
    if status.is_over() {
        return Ok(status);
    }
    Err(Problem::new(
        Code::Held,
        format!("session `{}` is not over: it is {}", status.handle(), status.state),
    )
    .hint("it was started again meanwhile; try again"))
}

fn ask_to_stop(ctx: &Ctx, id: &SessionId, grace_ms: u64) -> Result<Status, Problem> {
    if let Some(mut keeper) = ctx.keeper_of(id)? {
        // It answers when the run is over, or proven not to be; both have their time.
        let patience =
            Duration::from_millis(grace_ms).saturating_add(2 * PROOF_PATIENCE).saturating_add(PATIENCE);
        let _ = keeper.set_patience(Some(patience));
        match keeper.ask(Request::Stop { grace_ms }) {
            Ok(Answer::Done { status }) => return Ok(*status),
            Ok(other) => {
                return Err(Problem::new(Code::Bug, format!("the keeper gave an odd answer: {other:?}")));
            }
            // It was leaving already: what it left on disk tells.
            Err(problem) if problem.code == Code::Unreachable && ctx.is_gone(id) => {}
            Err(problem) => return Err(problem),
        }
    }
    ctx.status(id)
}
