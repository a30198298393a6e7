//! Waiting for turns and sessions: a bounded while, and no longer than somebody wants to know.

use std::io;
use std::time::{Duration, Instant};

use berth_api::client::Arrival;
use berth_api::message::{Answer, Request};
use berth_api::{Code, Connection, Problem, Status};
use berth_core::SessionId;

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
    gone: &Gone,
) -> Result<TurnTold, Problem> {
    let known = turns::view(ctx, id, number)?;
    if turns::is_over(&known.state) {
        return Ok(TurnTold::from(&known));
    }
    match turns::follow(ctx, id, number, connection, Some(until), |_| Ok(gone.is_set())) {
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
    loop {
        if is_so(what, &status) {
            return Ok(waited(true, &status));
        }
        if is_stuck(what, &status) || gone.is_set() || until <= Instant::now() {
            return Ok(waited(false, &status));
        }
        status = next(ctx, id, &status, until)?;
    }
}

fn is_so(what: WaitFor, status: &Status) -> bool {
    let waits = status.turns.as_ref().is_some_and(|turns| !turns.queued.is_empty());
    match what {
        WaitFor::Idle => status.state == "idle" && !waits,
        WaitFor::NeedsYou => status.state == "needs-you",
        WaitFor::Exit => is_over(status),
    }
}

fn is_over(status: &Status) -> bool {
    matches!(status.state.as_str(), "stopped" | "lost" | "archived")
        || (status.state == "idle" && status.keeper_pid.is_none())
}

/// Whether it stays as it is until somebody does something.
fn is_stuck(what: WaitFor, status: &Status) -> bool {
    let is_held = status.turns.as_ref().is_some_and(|turns| turns.held.is_some() && turns.current.is_none());
    match what {
        WaitFor::Idle => is_over(status) || is_held || status.state == "needs-you",
        WaitFor::NeedsYou => is_over(status) || is_held,
        WaitFor::Exit => false,
    }
}

/// What is known once something happened, or a moment later.
fn next(ctx: &Ctx, id: &SessionId, known: &Status, until: Instant) -> Result<Status, Problem> {
    let left = until.saturating_duration_since(Instant::now()).min(TICK).max(Duration::from_millis(1));
    let Some(mut keeper) = ctx.keeper_of(id)? else {
        std::thread::sleep(left);
        return ctx.status(id);
    };
    let _ = keeper.set_patience(Some(left));
    let _ = keeper.send(Request::Watch { from: known.seq + 1 });
    loop {
        match keeper.next() {
            // The first answer says how it is; what comes then is news.
            Ok(Some(Arrival::Answer(Answer::Done { status }))) if status.seq > known.seq => {
                return Ok(*status);
            }
            // It serves too many already: then it is looked at now and then.
            Ok(Some(Arrival::Answer(Answer::Problem { .. }))) => {
                std::thread::sleep(left);
                return ctx.status(id);
            }
            Ok(Some(Arrival::Notice(berth_api::message::Notice::Event { .. }))) => return ctx.status(id),
            Ok(Some(_)) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return ctx.status(id);
            }
            Ok(None) | Err(_) => return ctx.status(id),
        }
        if until <= Instant::now() {
            return ctx.status(id);
        }
    }
}
