//! `berth stop`: end sessions, and wait until each is proven over.

use std::time::Duration;

use berth_api::message::{Answer, Request};
use berth_api::{Code, Problem, Status};
use berth_core::{PROOF_PATIENCE, SessionId};
use berth_keeper::view;

use crate::args::Stop;
use crate::ctx::{Ctx, is_unrecorded_loss};
use crate::meant::{How, Meant};
use crate::{consent, print};

/// How long a keeper may take for everything but the ending itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many sessions are stopped at a time: each costs a thread and a connection.
const AT_ONCE: usize = 64;

pub(crate) fn run(ctx: &Ctx, args: &Stop) -> Result<u8, Problem> {
    let mut worst = 0;
    let mut stopped = Vec::new();
    let meant = if args.all { all(ctx, &mut worst)? } else { ctx.targets(&args.sessions)? };
    let needs_yes = args.all || meant.iter().any(Meant::is_implied);
    if needs_yes && !meant.is_empty() {
        consent::ask(&what_would_happen(&meant), args.yes)?;
    }
    let ids: Vec<SessionId> = meant.iter().map(|meant| meant.id.clone()).collect();
    let grace_ms = u64::try_from(args.grace.as_millis()).unwrap_or(u64::MAX);
    for (ended, Meant { handle, .. }) in stop_together(ctx, &ids, grace_ms).zip(&meant) {
        match ended {
            Ok(status) => {
                if !args.json {
                    print::note(&format!(
                        "{handle}: {}",
                        print::ending(&status).unwrap_or(status.state.clone())
                    ));
                }
                stopped.push(status);
            }
            Err(problem) => {
                print::problem(&problem);
                worst = worst.max(problem.code.exit_code());
            }
        }
    }
    if args.json {
        print::json(&stopped)?;
    } else if ids.is_empty() {
        print::note("nothing runs");
    }
    Ok(worst)
}

/// All of this state directory that runs, or of which something may be left. What cannot be read is told, and
/// makes the exit code: nobody knows whether it runs.
fn all(ctx: &Ctx, worst: &mut u8) -> Result<Vec<Meant>, Problem> {
    let ids = ctx.home.session_ids().map_err(|error| {
        Problem::new(Code::Refused, format!("cannot list {}: {error}", ctx.home.sessions_dir().display()))
    })?;
    let mut running = Vec::new();
    for id in ids {
        match view::status(&ctx.home, &id) {
            Ok(status) if is_over(&status) => {}
            Ok(status) => running.push(Meant { handle: status.handle().to_owned(), id, how: How::Named }),
            // Somebody is making it this very moment, or gave up: nothing of it runs.
            Err(problem) if problem.code == Code::NotFound => {}
            Err(problem) => {
                print::problem(&problem);
                *worst = problem.code.exit_code().max(*worst);
            }
        }
    }
    Ok(running)
}

fn what_would_happen(meant: &[Meant]) -> String {
    let handles: Vec<&str> = meant.iter().map(|meant| meant.handle.as_str()).collect();
    match meant {
        [Meant { handle, how: How::Terminal, .. }] => {
            format!("session `{handle}`, the current one of this terminal, would be stopped")
        }
        [Meant { handle, how: How::Env, .. }] => {
            format!("session `{handle}`, which BERTH_SESSION names, would be stopped")
        }
        [Meant { handle, how: How::Named, .. }] => format!("session `{handle}` would be stopped"),
        _ => format!("{} sessions would be stopped: {}", meant.len(), handles.join(", ")),
    }
}

/// Stops them all at once, so that many that are deaf cost the patience of one.
pub(crate) fn stop_together<'a>(
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

fn stop(ctx: &Ctx, id: &SessionId, grace_ms: u64) -> Result<Status, Problem> {
    let status = ask_to_stop(ctx, id, grace_ms)?;
    if is_over(&status) {
        return Ok(status);
    }
    // There was nobody to ask, and then there was: somebody started the next run.
    let status = ask_to_stop(ctx, id, grace_ms)?;
    if is_over(&status) {
        return Ok(status);
    }
    Err(Problem::new(
        Code::Held,
        format!("session `{}` is not over: it is {}", status.handle(), status.state),
    )
    .hint("somebody starts it again and again, or just did; try again"))
}

/// Whether nothing of a session runs, and that is recorded. One whose first run never began is stopped
/// without an end.
pub(crate) fn is_over(status: &Status) -> bool {
    let is_released = status.state == "idle" && status.keeper_pid.is_none();
    let is_ended = matches!(status.state.as_str(), "stopped" | "lost" | "archived");
    (is_released || is_ended) && !is_unrecorded_loss(status)
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
