//! Waits of MCP calls for turns and sessions: with a timeout, and no longer than the client stays.

use std::time::{Duration, Instant};

use berth_api::{KeeperConnection, Problem, ProblemCode, SessionState, SessionStatus};
use berth_core::SessionId;
use berth_verbs::VerbContext;
use berth_verbs::session_cursor::{CursorNews, SessionCursor};
use berth_verbs::turns;

use super::CallCancellation;
use super::tool_types::{McpSession, McpTurn, McpWaitFor, WaitToolResult};

/// How long to wait for news before checking if the client still waits.
const TICK: Duration = Duration::from_millis(200);

/// The turn once it is over, or as it is when the time is up.
pub(super) fn until_over(
    ctx: &VerbContext,
    id: &SessionId,
    number: u64,
    connection: Option<KeeperConnection>,
    until: Instant,
    is_enough: impl Fn(&turns::TurnNews<'_>) -> bool,
) -> Result<McpTurn, Problem> {
    let known = ctx.session(id).turn(number)?;
    if known.state.is_final() {
        return Ok(McpTurn::from(&known));
    }
    match turns::follow(ctx, id, number, connection, Some(until), |news| Ok(is_enough(&news))) {
        Ok(view) => Ok(McpTurn::from(&view)),
        // The turn goes on, and its state says so.
        Err(problem) if problem.code == ProblemCode::TimedOut => {
            Ok(McpTurn::from(&ctx.session(id).turn(number)?))
        }
        // The turn is accepted but held; the result says by what.
        Err(problem) if problem.code == ProblemCode::Held => {
            let mut told = McpTurn::from(&ctx.session(id).turn(number)?);
            told.held = told.held.or(Some(problem.what));
            Ok(told)
        }
        Err(problem) => Err(problem),
    }
}

/// The session once the condition holds, when that needs help from outside first, or when the time is up.
pub(super) fn until_condition(
    ctx: &VerbContext,
    id: &SessionId,
    what: McpWaitFor,
    until: Instant,
    gone: &CallCancellation,
) -> Result<WaitToolResult, Problem> {
    let waited = |reached: bool, status: &SessionStatus| WaitToolResult {
        reached,
        session: McpSession::from(status),
        turn: None,
    };
    let mut status = ctx.session(id).status()?;
    if status.turns.is_none() && what != McpWaitFor::Exit {
        return Err(berth_api::problem::refusal(&berth_core::Refusal::NoTurns, status.handle()));
    }
    let mut cursor = ctx.session(id).events(status.seq + 1);
    loop {
        if is_met(what, &status) {
            return Ok(waited(true, &status));
        }
        if cannot_change(what, &status) || gone.is_set() || until <= Instant::now() {
            return Ok(waited(false, &status));
        }
        status = next(ctx, id, &mut cursor, until)?;
    }
}

fn is_met(what: McpWaitFor, status: &SessionStatus) -> bool {
    let waits = status.turns.as_ref().is_some_and(|turns| !turns.queued.is_empty());
    match what {
        McpWaitFor::Idle => status.state == SessionState::Idle && !waits,
        McpWaitFor::NeedsYou => status.state == SessionState::NeedsYou,
        McpWaitFor::Exit => status.is_over(),
    }
}

/// True if the condition cannot hold until a client acts on the session.
fn cannot_change(what: McpWaitFor, status: &SessionStatus) -> bool {
    let is_held = status.turns.as_ref().is_some_and(|turns| turns.held.is_some() && turns.current.is_none());
    match what {
        McpWaitFor::Idle => status.is_over() || is_held || status.state == SessionState::NeedsYou,
        McpWaitFor::NeedsYou => status.is_over() || is_held,
        McpWaitFor::Exit => false,
    }
}

/// The session's status after the next event, or after a moment.
fn next(
    ctx: &VerbContext,
    id: &SessionId,
    cursor: &mut SessionCursor,
    until: Instant,
) -> Result<SessionStatus, Problem> {
    let until = until.min(Instant::now() + TICK);
    while let Some(news) = cursor.next(Some(until)) {
        if matches!(news, CursorNews::Event { .. } | CursorNews::Lost | CursorNews::Purged(_)) {
            break;
        }
    }
    ctx.session(id).status()
}
