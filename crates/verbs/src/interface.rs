//! Switching interfaces: between an agent's chat and its own interface in a terminal.
//!
//! Promise: the choice is on disk when this returns; the current run ends after its turn, and the next run begins with
//! the other interface in the same conversation.
//! Start with [`switch`], then wait with [`crate::run::await_ready`].

use berth_api::message::{KeeperAnswer, KeeperRequest, WriterTakeover};
use berth_api::record::AgentInterface;
use berth_api::{KeeperConnection, Problem, ProblemCode, SessionStatus};
use berth_core::{CallerAction, Refusal, SessionId};

use crate::context::{ANSWER_PATIENCE, VerbContext};
use crate::{resume, turns};

/// Chooses the interface of a session. `handle` is the caller's name for the session. With `at_once` a turn that runs is
/// interrupted; else it goes on, and `next_interface` of the status says what comes after it.
pub fn switch(
    ctx: &VerbContext,
    id: &SessionId,
    handle: &str,
    to: AgentInterface,
    at_once: bool,
) -> Result<(KeeperConnection, SessionStatus), Problem> {
    ctx.may(CallerAction::Stop, id)?;
    let status = ctx.status(id)?;
    if status.archived_at.is_some() {
        return Err(berth_api::problem::refusal(&Refusal::Archived, handle));
    }
    if let Some(mut keeper) = ctx.keeper_of(id)? {
        let _ = keeper.set_timeout(Some(ANSWER_PATIENCE));
        let answer = keeper.ask(KeeperRequest::SwitchInterface { to, at_once });
        let _ = keeper.set_timeout(None);
        match answer {
            Ok(KeeperAnswer::Done { status }) if !status.is_over() => return Ok((keeper, *status)),
            // The run has ended, and its keeper is about to leave.
            Ok(KeeperAnswer::Done { .. }) => {}
            Ok(other) => return Err(turns::unexpected_answer(&other)),
            Err(problem) if problem.code == ProblemCode::Unreachable && ctx.is_gone(id) => {}
            Err(problem) if problem.code == ProblemCode::Unreachable => {
                let hint = format!("the switch may still happen; `berth show {handle}` shows the outcome");
                return Err(problem.hint(hint));
            }
            Err(problem) => return Err(problem),
        }
    }
    resume::start_run(ctx, id, handle, false, WriterTakeover::None, Some(to))
}
