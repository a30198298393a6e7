//! Stopping sessions, until each is proven to be over.

use std::time::Duration;

use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::{PROOF_TIMEOUT, SessionId};

use crate::context::VerbContext;

/// Time that a keeper may take in addition to the end of the run.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limit for sessions that are stopped in parallel: each costs a thread and a connection.
const AT_ONCE: usize = 256;

/// Stops all sessions in parallel, so that many stuck agents cost the timeout of one.
pub fn stop_together<'a>(
    ctx: &'a VerbContext,
    ids: &'a [SessionId],
    grace_ms: u64,
) -> impl Iterator<Item = Result<SessionStatus, Problem>> + use<'a> {
    ids.chunks(AT_ONCE).flat_map(move |some| stop_some(ctx, some, grace_ms))
}

fn stop_some(ctx: &VerbContext, ids: &[SessionId], grace_ms: u64) -> Vec<Result<SessionStatus, Problem>> {
    std::thread::scope(|scope| {
        let stopping: Vec<_> = ids.iter().map(|id| scope.spawn(|| stop(ctx, id, grace_ms))).collect();
        let ended = stopping.into_iter().map(|thread| thread.join());
        ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Stops one session; returns when its end is proven.
pub fn stop(ctx: &VerbContext, id: &SessionId, grace_ms: u64) -> Result<SessionStatus, Problem> {
    let status = ask_to_stop(ctx, id, grace_ms)?;
    if status.is_over() {
        return Ok(status);
    }
    // The session had no keeper, and then had one: another client started the next run.
    let status = ask_to_stop(ctx, id, grace_ms)?;
    if status.is_over() {
        return Ok(status);
    }
    Err(Problem::held(format!("session `{}` is not over: it is {}", status.handle(), status.state))
        .hint("it was started again meanwhile; try again"))
}

fn ask_to_stop(ctx: &VerbContext, id: &SessionId, grace_ms: u64) -> Result<SessionStatus, Problem> {
    if let Some(mut keeper) = ctx.keeper_of(id)? {
        // The keeper answers when the end of the run is proven or has failed; both have their timeout.
        let patience =
            Duration::from_millis(grace_ms).saturating_add(2 * PROOF_TIMEOUT).saturating_add(PATIENCE);
        let _ = keeper.set_timeout(Some(patience));
        match keeper.ask(KeeperRequest::Stop { grace_ms }) {
            Ok(KeeperAnswer::Done { status }) => return Ok(*status),
            Ok(other) => {
                return Err(Problem::bug(format!("the keeper sent an unexpected answer: {other:?}")));
            }
            // The keeper was leaving already: the files have the result.
            Err(problem) if problem.code == ProblemCode::Unreachable && ctx.is_gone(id) => {}
            Err(problem) => return Err(problem),
        }
    }
    ctx.status(id)
}
