//! Another interface of a session's agent: its chat, or its own interface in a terminal.
//!
//! Promise: what was chosen is on disk when this returns; the run that is live ends at the end of its turn, and the next
//! one begins with the other interface in the same conversation.
//! Start with [`switch`], then wait with [`crate::run::await_ready`].

use berth_api::message::{Answer, Request, Take};
use berth_api::record::Interface;
use berth_api::{Code, Connection, Problem, Status};
use berth_core::{Deed, Refusal, SessionId};

use crate::ctx::{ANSWER_PATIENCE, Ctx};
use crate::{resume, turns};

/// Chooses the interface of a session. `handle` is the caller's name for the session. With `at_once` a turn that runs is
/// interrupted; else it goes on, and `next_interface` of the status says what comes after it.
pub fn switch(
    ctx: &Ctx,
    id: &SessionId,
    handle: &str,
    to: Interface,
    at_once: bool,
) -> Result<(Connection, Status), Problem> {
    ctx.may(Deed::Stop, id)?;
    let status = ctx.status(id)?;
    if status.archived_at.is_some() {
        return Err(berth_api::problem::refusal(&Refusal::Archived, handle));
    }
    if let Some(mut keeper) = ctx.keeper_of(id)? {
        let _ = keeper.set_patience(Some(ANSWER_PATIENCE));
        let answer = keeper.ask(Request::SwitchInterface { to, at_once });
        let _ = keeper.set_patience(None);
        match answer {
            Ok(Answer::Done { status }) if !status.is_over() => return Ok((keeper, *status)),
            // Its run is over, and its keeper about to leave.
            Ok(Answer::Done { .. }) => {}
            Ok(other) => return Err(turns::odd(&other)),
            Err(problem) if problem.code == Code::Unreachable && ctx.is_gone(id) => {}
            Err(problem) if problem.code == Code::Unreachable => {
                let hint = format!("the switch may still happen; `berth show {handle}` tells");
                return Err(problem.hint(hint));
            }
            Err(problem) => return Err(problem),
        }
    }
    resume::begin_with(ctx, id, handle, false, Take::Nobody, Some(to))
}
