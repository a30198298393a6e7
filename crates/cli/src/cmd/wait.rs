//! `berth wait`: until a run ends, or says something.

use std::time::{Duration, Instant};

use berth_api::turn::split_turn_id;
use berth_api::{Code, Problem, Status};
use berth_core::SessionId;
use berth_store::view;
use berth_verbs::wait::{self, Matcher, Wanted};

use crate::args::{Wait, WaitFor};
use crate::cmd::follow::{Followed, News, follow};
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::{print, turns};

pub(crate) fn run(ctx: &Ctx, args: &Wait) -> Result<u8, Problem> {
    // The timeout begins here, so that it covers the reads below.
    let until = end_of(args.timeout);
    let named = args.session.as_deref();
    let found = ctx.target(named);
    let is_turn = named.is_some_and(|named| split_turn_id(named).is_some());
    // A session may be called `v1.2`, and then that is meant.
    if is_turn && found.as_ref().is_err_and(|problem| problem.code == Code::NotFound) {
        return until_turn_is_over(ctx, named.unwrap_or_default(), args, until);
    }
    let Meant { id, handle, .. } = found?;
    let session = view::history(&ctx.home, &id)?.session;
    let (takes_turns, has_terminal) = (session.takes_turns(), session.has_terminal());
    // Whatever a terminal tells of turns, what runs in it ends.
    let what = args.what.clone().unwrap_or(if has_terminal { WaitFor::Exit } else { WaitFor::Idle });
    match &what {
        WaitFor::Idle | WaitFor::NeedsYou | WaitFor::Done if !takes_turns => {
            Err(berth_api::problem::refusal(&berth_core::Refusal::NoTurns, &handle))
        }
        WaitFor::Idle => until_state(ctx, &id, &handle, args, (Wanted::Idle, until)),
        WaitFor::NeedsYou => until_state(ctx, &id, &handle, args, (Wanted::NeedsYou, until)),
        WaitFor::Done => {
            let number = wait::latest_turn(&ctx.status(&id)?, &handle)?;
            until_over(ctx, &id, number, args, until)
        }
        WaitFor::Exit => {
            let status = until_exit(ctx, &id, args.timeout)?;
            if args.json {
                print::json(&status)?;
            }
            exit_code(&status)
        }
        WaitFor::Output(regex) => {
            until_output(ctx, &id, regex, args.timeout, until)?;
            if args.json {
                print::json(&ctx.status(&id)?)?;
            }
            Ok(0)
        }
    }
}

fn until_turn_is_over(ctx: &Ctx, turn: &str, args: &Wait, until: Option<Instant>) -> Result<u8, Problem> {
    let (id, number) = turns::find(ctx, turn, None)?;
    if let Some(WaitFor::Idle | WaitFor::NeedsYou | WaitFor::Exit | WaitFor::Output(_)) = &args.what {
        let what = format!("{turn} is a turn; it can only be waited for until it is done");
        return Err(Problem::new(Code::Usage, what).hint("name its session to wait for something else"));
    }
    until_over(ctx, &id, number, args, until)
}

fn until_over(
    ctx: &Ctx,
    id: &SessionId,
    number: u64,
    args: &Wait,
    until: Option<Instant>,
) -> Result<u8, Problem> {
    let mut known = turns::view(ctx, id, number)?;
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
    ctx: &Ctx,
    id: &SessionId,
    handle: &str,
    args: &Wait,
    (wanted, until): (Wanted, Option<Instant>),
) -> Result<u8, Problem> {
    let is_there = |status: &Status| wait::is_there(status, wanted);
    loop {
        let mut status = ctx.status(id)?;
        if !is_there(&status) {
            let hear = |news: News| match news {
                News::Event { .. } => Ok(is_there(&ctx.status(id)?)),
                News::Output => Ok(false),
            };
            match follow(ctx.session(id).events(status.seq + 1), until, hear)? {
                Followed::TimedOut => {
                    return Err(timed_out(id, args.timeout, &format!("it is not {}", wanted.state())));
                }
                Followed::Enough => {}
                Followed::Ended => {
                    status = ctx.status(id)?;
                    if !is_there(&status) && status.keeper_pid.is_none() {
                        return Err(wait::will_not_be(&status, handle, wanted));
                    }
                }
            }
            status = ctx.status(id)?;
        }
        if is_there(&status) {
            if args.json {
                print::json(&status)?;
            }
            return Ok(0);
        }
    }
}

/// The code of a command that stands for this run.
pub(crate) fn exit_code(status: &Status) -> Result<u8, Problem> {
    match status.exit {
        Some(code) => Ok(u8::try_from(code).unwrap_or(Code::Refused.exit_code())),
        None => {
            let why = status.failure.clone().unwrap_or_else(|| format!("it is {}", status.state));
            Err(Problem::new(
                Code::Refused,
                format!("the run of session `{}` has no exit code: {why}", status.handle()),
            )
            .hint(format!(
                "`berth log {0}` tells what happened, `berth resume {0}` starts it again",
                status.handle()
            )))
        }
    }
}

/// Waits for the end of the run.
pub(crate) fn until_exit(ctx: &Ctx, id: &SessionId, timeout: Option<Duration>) -> Result<Status, Problem> {
    match follow(ctx.session(id).news(), end_of(timeout), |_| Ok(false))? {
        Followed::Ended | Followed::Enough => ctx.status(id),
        Followed::TimedOut => Err(timed_out(id, timeout, "it has not ended")),
    }
}

fn until_output(
    ctx: &Ctx,
    id: &SessionId,
    regex: &regex::bytes::Regex,
    timeout: Option<Duration>,
    until: Option<Instant>,
) -> Result<(), Problem> {
    let mut matcher = Matcher::new(ctx, id, ctx.status(id)?.output_from, regex.clone());
    if matcher.look()? {
        return Ok(());
    }
    let hear = |news: News| match news {
        News::Output => matcher.look(),
        News::Event { .. } => Ok(false),
    };
    match follow(ctx.session(id).news(), until, hear)? {
        Followed::Enough => Ok(()),
        Followed::TimedOut => Err(timed_out(id, timeout, "nothing in its output matches")),
        Followed::Ended if matcher.look()? => Ok(()),
        Followed::Ended => Err(wait::never_said(id)),
    }
}

/// When the time is up. A time that no clock can reach is for ever.
fn end_of(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?)
}

fn timed_out(id: &SessionId, timeout: Option<Duration>, what: &str) -> Problem {
    let waited = print::age(timeout.map_or(0, |timeout| timeout.as_millis() as u64));
    Problem::new(Code::TimedOut, format!("waited {waited} for session {id}: {what}"))
        .hint(format!("`berth why {id}` shows what it is doing; `berth screen {id}` what it shows"))
}
