//! Own a helper no longer.

use std::time::{Duration, Instant};

use berth_api::message::{Answer, Request};
use berth_api::{Code, Problem, Status};
use berth_core::{Refusal, SessionId};
use berth_store::view;

use super::{described, reworded};
use crate::ctx::Ctx;

/// How long a keeper may take in all: end hooks have five seconds.
const PATIENCE: Duration = Duration::from_secs(4);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Makes a session own a helper no longer; answered when that is recorded.
pub fn release(helpers: &Ctx, id: &SessionId, owner: &SessionId) -> Result<Status, Problem> {
    let left = leave(helpers, id, owner).map_err(|problem| reworded(problem, id))?;
    Ok(described(helpers, left))
}

fn leave(ctx: &Ctx, id: &SessionId, owner: &SessionId) -> Result<Status, Problem> {
    match ask_to_leave(ctx, id, owner)? {
        Some(Answer::Done { status }) => Ok(*status),
        Some(other) => Err(Problem::new(Code::Bug, format!("the keeper gave an odd answer: {other:?}"))),
        // It does not run. What the last keeper left behind, if it died, is ended on this occasion.
        None => {
            let status = ctx.status(id)?;
            let sharing = view::history(&ctx.home, id)?.session.sharing;
            let refusal = match sharing {
                Some(sharing) if sharing.was_owner(owner) || sharing.is_owner(owner) => return Ok(status),
                Some(_) => Refusal::NotOwner { owner: owner.clone() },
                None => Refusal::NotShared,
            };
            Err(berth_api::problem::refusal(&refusal, status.handle()))
        }
    }
}

/// Asks the keeper; `None` if there is none. One that breaks off was leaving, and by now there may be
/// another one: leaving twice is leaving once.
fn ask_to_leave(ctx: &Ctx, id: &SessionId, owner: &SessionId) -> Result<Option<Answer>, Problem> {
    let began_at = Instant::now();
    let mut pause = Duration::from_millis(1);
    while let Some(mut keeper) = ctx.keeper_of(id)? {
        let left = PATIENCE.saturating_sub(began_at.elapsed());
        let _ = keeper.set_patience(Some(left.max(Duration::from_millis(1))));
        match keeper.ask(Request::Leave { owner: owner.to_string() }) {
            Ok(answer) => return Ok(Some(answer)),
            // Gone, or it has no room for us now.
            Err(problem)
                if matches!(problem.code, Code::Unreachable | Code::Held)
                    && began_at.elapsed() < PATIENCE =>
            {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(problem) if problem.code == Code::Unreachable => {
                return Err(problem.hint("the helper will be released when the session ends; try again"));
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok(None)
}
