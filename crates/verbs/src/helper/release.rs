//! Releasing a helper: a session stops owning it.

use std::time::{Duration, Instant};

use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::{Refusal, SessionId};
use berth_store::session_status;

use super::{describe_helper, reword_for_helper};
use crate::context::VerbContext;

/// Time that a keeper may take in all: end hooks have five seconds.
const PATIENCE: Duration = Duration::from_secs(4);

/// Limit for the pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Makes a session release a helper; returns when that is recorded.
pub fn release(helpers: &VerbContext, id: &SessionId, owner: &SessionId) -> Result<SessionStatus, Problem> {
    let left = leave(helpers, id, owner).map_err(|problem| reword_for_helper(problem, id))?;
    Ok(describe_helper(helpers, left))
}

fn leave(ctx: &VerbContext, id: &SessionId, owner: &SessionId) -> Result<SessionStatus, Problem> {
    match ask_to_leave(ctx, id, owner)? {
        Some(KeeperAnswer::Done { status }) => Ok(*status),
        Some(other) => Err(Problem::bug(format!("the keeper sent an unexpected answer: {other:?}"))),
        // The helper does not run. Processes that its last keeper left behind are ended on this occasion.
        None => {
            let status = ctx.status(id)?;
            let sharing = session_status::history(&ctx.home, id)?.session.sharing;
            let refusal = match sharing {
                Some(sharing) if sharing.was_owner(owner) || sharing.is_owner(owner) => return Ok(status),
                Some(_) => Refusal::NotOwner { owner: owner.clone() },
                None => Refusal::NotShared,
            };
            Err(berth_api::problem::refusal(&refusal, status.handle()))
        }
    }
}

/// Asks the keeper; `None` if there is none. A keeper that disconnects was leaving, and by now there may be another
/// one: leaving twice has the effect of leaving once.
fn ask_to_leave(
    ctx: &VerbContext,
    id: &SessionId,
    owner: &SessionId,
) -> Result<Option<KeeperAnswer>, Problem> {
    let began_at = Instant::now();
    let mut pause = Duration::from_millis(1);
    while let Some(mut keeper) = ctx.keeper_of(id)? {
        let left = PATIENCE.saturating_sub(began_at.elapsed());
        let _ = keeper.set_timeout(Some(left.max(Duration::from_millis(1))));
        match keeper.ask(KeeperRequest::Leave { owner: owner.to_string() }) {
            Ok(answer) => return Ok(Some(answer)),
            // The keeper is gone, or serves too many clients.
            Err(problem)
                if matches!(problem.code, ProblemCode::Unreachable | ProblemCode::Held)
                    && began_at.elapsed() < PATIENCE =>
            {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(problem) if problem.code == ProblemCode::Unreachable => {
                return Err(problem.hint("the helper will be released when the session ends; try again"));
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok(None)
}
