//! Waiting for turns and sessions: a bounded while, and no longer than somebody wants to know.

use std::time::{Duration, Instant};

use berth_api::{Code, Connection, Problem, SessionState, Status};
use berth_core::SessionId;
use berth_verbs::cursor::{Cursor, News};

use super::Gone;
use super::told::{SessionTold, TurnTold, WaitFor, Waited};
use crate::ctx::Ctx;
use crate::turns;

/// How long to wait for news before it is looked whether anybody still waits.
const TICK: Duration = Duration::from_millis(200);

/// The turn when it is over, or as it is when the time is up.
pub(super) fn until_over(
    ctx: &Ctx,
    id: &SessionId,
    number: u64,
    connection: Option<Connection>,
    until: Instant,
    is_enough: impl Fn(&turns::News<'_>) -> bool,
) -> Result<TurnTold, Problem> {
    let known = turns::view(ctx, id, number)?;
    if known.state.is_final() {
        return Ok(TurnTold::from(&known));
    }
    match turns::follow(ctx, id, number, connection, Some(until), |news| Ok(is_enough(&news))) {
        Ok(view) => Ok(TurnTold::from(&view)),
        // It goes on; so says what is told of it.
        Err(problem) if problem.code == Code::TimedOut => Ok(TurnTold::from(&turns::view(ctx, id, number)?)),
        // It is accepted, and something holds it: what, is told with it.
        Err(problem) if problem.code == Code::Held => {
            let mut told = TurnTold::from(&turns::view(ctx, id, number)?);
            told.held = told.held.or(Some(problem.what));
            Ok(told)
        }
        Err(problem) => Err(problem),
    }
}

/// The session when it is as wanted, when it will not be so by itself, or when the time is up.
pub(super) fn until_calm(
    ctx: &Ctx,
    id: &SessionId,
    what: WaitFor,
    until: Instant,
    gone: &Gone,
) -> Result<Waited, Problem> {
    let waited =
        |reached: bool, status: &Status| Waited { reached, session: SessionTold::from(status), turn: None };
    let mut status = ctx.status(id)?;
    if status.turns.is_none() && what != WaitFor::Exit {
        return Err(berth_api::problem::refusal(&berth_core::Refusal::NoTurns, status.handle()));
    }
    let mut cursor = ctx.session(id).events(status.seq + 1);
    loop {
        if is_so(what, &status) {
            return Ok(waited(true, &status));
        }
        if is_stuck(what, &status) || gone.is_set() || until <= Instant::now() {
            return Ok(waited(false, &status));
        }
        status = next(ctx, id, &mut cursor, until)?;
    }
}

fn is_so(what: WaitFor, status: &Status) -> bool {
    let waits = status.turns.as_ref().is_some_and(|turns| !turns.queued.is_empty());
    match what {
        WaitFor::Idle => status.state == SessionState::Idle && !waits,
        WaitFor::NeedsYou => status.state == SessionState::NeedsYou,
        WaitFor::Exit => is_over(status),
    }
}

fn is_over(status: &Status) -> bool {
    status.state.is_final() || status.is_released()
}

/// Whether it stays as it is until somebody does something.
fn is_stuck(what: WaitFor, status: &Status) -> bool {
    let is_held = status.turns.as_ref().is_some_and(|turns| turns.held.is_some() && turns.current.is_none());
    match what {
        WaitFor::Idle => is_over(status) || is_held || status.state == SessionState::NeedsYou,
        WaitFor::NeedsYou => is_over(status) || is_held,
        WaitFor::Exit => false,
    }
}

/// What is known once something happened, or a moment later.
fn next(ctx: &Ctx, id: &SessionId, cursor: &mut Cursor, until: Instant) -> Result<Status, Problem> {
    let until = until.min(Instant::now() + TICK);
    while let Some(news) = cursor.next(Some(until)) {
        if matches!(news, News::Event { .. } | News::Lost | News::Purged(_)) {
            break;
        }
    }
    ctx.status(id)
}
