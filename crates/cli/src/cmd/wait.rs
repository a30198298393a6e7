//! `berth wait`: waits for a turn, a state of the agent, the end of a run, or a line of output.

use std::time::{Duration, Instant};

use berth_api::turn::split_turn_id;
use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::SessionId;
use berth_store::session_status;
use berth_verbs::follow::{FollowEnd, RunUpdate, follow};
use berth_verbs::wait::{self, AwaitedState, OutputMatcher};

use crate::args::{WaitArgs, WaitForArg};
use crate::ctx::CommandContext;
use crate::target_session::TargetSession;
use crate::{print, turns};

pub(crate) fn run(ctx: &CommandContext, args: &WaitArgs) -> Result<u8, Problem> {
    // The timeout begins here, so that it covers the reads below.
    let until = end_of(args.timeout);
    let named = args.session.as_deref();
    let found = ctx.target(named);
    let is_turn = named.is_some_and(|named| split_turn_id(named).is_some());
    // A session may have the name `v1.2`. That session then comes before turn 2 of a session `v1`.
    if is_turn && found.as_ref().is_err_and(|problem| problem.code == ProblemCode::NotFound) {
        return until_turn_is_over(ctx, named.unwrap_or_default(), args, until);
    }
    let TargetSession { id, handle, .. } = found?;
    let session = session_status::history(&ctx.home, &id)?.session;
    let (takes_turns, has_terminal) = (session.takes_turns(), session.has_terminal());
    // The default for a session with a terminal is the end of its run, also if the agent reports turns.
    let what = args.what.clone().unwrap_or(if has_terminal { WaitForArg::Exit } else { WaitForArg::Idle });
    match &what {
        WaitForArg::Idle | WaitForArg::NeedsYou | WaitForArg::Done if !takes_turns => {
            Err(berth_api::problem::refusal(&berth_core::Refusal::NoTurns, &handle))
        }
        WaitForArg::Idle => until_state(ctx, &id, &handle, args, (AwaitedState::Idle, until)),
        WaitForArg::NeedsYou => until_state(ctx, &id, &handle, args, (AwaitedState::NeedsYou, until)),
        WaitForArg::Done => {
            let number = wait::latest_turn(&ctx.session(&id).status()?, &handle)?;
            until_over(ctx, &id, number, args, until)
        }
        WaitForArg::Exit => {
            let status = until_exit(ctx, &id, args.timeout)?;
            if args.json {
                print::json(&status)?;
            }
            wait::exit_code(&status)
        }
        WaitForArg::Output(regex) => {
            until_output(ctx, &id, regex, args.timeout, until)?;
            if args.json {
                print::json(&ctx.session(&id).status()?)?;
            }
            Ok(0)
        }
    }
}

fn until_turn_is_over(
    ctx: &CommandContext,
    turn: &str,
    args: &WaitArgs,
    until: Option<Instant>,
) -> Result<u8, Problem> {
    let (id, number) = turns::find(ctx, turn, None)?;
    if let Some(WaitForArg::Idle | WaitForArg::NeedsYou | WaitForArg::Exit | WaitForArg::Output(_)) =
        &args.what
    {
        let what = format!("{turn} is a turn, and the only condition for a turn is `done`");
        return Err(Problem::usage(what).hint("name its session to wait for something else"));
    }
    until_over(ctx, &id, number, args, until)
}

fn until_over(
    ctx: &CommandContext,
    id: &SessionId,
    number: u64,
    args: &WaitArgs,
    until: Option<Instant>,
) -> Result<u8, Problem> {
    let mut known = ctx.session(id).turn(number)?;
    if !known.state.is_final() {
        known = turns::follow(ctx, id, number, None, until, |_| Ok(false))?;
    }
    if args.json {
        print::json(&known)?;
    }
    Ok(turns::exit_code(&known))
}

/// Waits until a session whose agent takes turns is in this state.
fn until_state(
    ctx: &CommandContext,
    id: &SessionId,
    handle: &str,
    args: &WaitArgs,
    (wanted, until): (AwaitedState, Option<Instant>),
) -> Result<u8, Problem> {
    let is_there = |status: &SessionStatus| wait::is_reached(status, wanted);
    loop {
        let mut status = ctx.session(id).status()?;
        if !is_there(&status) {
            let hear = |news: RunUpdate| match news {
                RunUpdate::Event { .. } => Ok(is_there(&ctx.session(id).status()?)),
                RunUpdate::Output => Ok(false),
            };
            match follow(ctx.session(id).events(status.seq + 1), until, hear)? {
                FollowEnd::TimedOut => {
                    return Err(timed_out(id, args.timeout, &format!("is not {}", wanted.state())));
                }
                FollowEnd::Enough => {}
                FollowEnd::Ended => {
                    status = ctx.session(id).status()?;
                    if !is_there(&status) && status.keeper_pid.is_none() {
                        return Err(wait::not_running_problem(&status, handle, wanted));
                    }
                }
            }
            status = ctx.session(id).status()?;
        }
        if is_there(&status) {
            if args.json {
                print::json(&status)?;
            }
            return Ok(0);
        }
    }
}

/// Waits for the end of the run; an error after the timeout.
pub(crate) fn until_exit(
    ctx: &CommandContext,
    id: &SessionId,
    timeout: Option<Duration>,
) -> Result<SessionStatus, Problem> {
    match follow(ctx.session(id).news(), end_of(timeout), |_| Ok(false))? {
        FollowEnd::Ended | FollowEnd::Enough => ctx.session(id).status(),
        FollowEnd::TimedOut => Err(timed_out(id, timeout, "has not ended")),
    }
}

fn until_output(
    ctx: &CommandContext,
    id: &SessionId,
    regex: &regex::bytes::Regex,
    timeout: Option<Duration>,
    until: Option<Instant>,
) -> Result<(), Problem> {
    let mut matcher = OutputMatcher::new(ctx, id, ctx.session(id).status()?.output_from, regex.clone());
    if matcher.read_and_match()? {
        return Ok(());
    }
    let hear = |news: RunUpdate| match news {
        RunUpdate::Output => matcher.read_and_match(),
        RunUpdate::Event { .. } => Ok(false),
    };
    match follow(ctx.session(id).news(), until, hear)? {
        FollowEnd::Enough => Ok(()),
        FollowEnd::TimedOut => Err(timed_out(id, timeout, "printed no match")),
        FollowEnd::Ended if matcher.read_and_match()? => Ok(()),
        FollowEnd::Ended => Err(wait::output_missing_problem(id)),
    }
}

/// The end of a timeout. `None`, which means no limit, without a timeout or with one beyond the range of the clock.
fn end_of(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?)
}

fn timed_out(id: &SessionId, timeout: Option<Duration>, what: &str) -> Problem {
    let waited = print::describe_age(timeout.map_or(0, |timeout| timeout.as_millis() as u64));
    Problem::timed_out(format!("timed out after {waited}: session {id} {what}"))
        .hint(format!("`berth why {id}` explains its state; `berth screen {id}` prints its screen"))
}
