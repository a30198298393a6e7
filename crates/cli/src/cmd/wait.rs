//! `berth wait`: until a run ends, or says something.

use std::time::{Duration, Instant};

use berth_api::client::Arrival;
use berth_api::message::{Notice, Request};
use berth_api::record::Event;
use berth_api::{Code, Problem, Status};
use berth_core::SessionId;
use berth_screen::Plain;

use crate::args::{Wait, WaitFor};
use crate::cmd::output::Reader;
use crate::ctx::Ctx;
use crate::print;

/// How much of the output a pattern can look back over.
const LOOK_BACK_BYTES: usize = 1024 * 1024;

pub(crate) fn run(ctx: &Ctx, args: &Wait) -> Result<u8, Problem> {
    let id = ctx.find(&args.session)?;
    match &args.what {
        WaitFor::Exit => {
            let status = until_exit(ctx, &id, args.timeout)?;
            if args.json {
                print::json(&status)?;
            }
            exit_code(&status)
        }
        WaitFor::Output(regex) => {
            until_output(ctx, &id, regex, args.timeout)?;
            if args.json {
                print::json(&ctx.status(&id)?)?;
            }
            Ok(0)
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
    let watched = watch(ctx, id, timeout, |_| Ok(false))?;
    match watched {
        Watched::Ended | Watched::Satisfied => ctx.status(id),
        Watched::TimedOut => Err(timed_out(id, timeout, "it has not ended")),
    }
}

fn until_output(
    ctx: &Ctx,
    id: &SessionId,
    regex: &regex::bytes::Regex,
    timeout: Option<Duration>,
) -> Result<(), Problem> {
    let mut reader = Reader::new(ctx, id, ctx.status(id)?.output_from);
    let mut plain = Plain::default();
    let mut text = Vec::new();
    let mut found = |_: Glance| {
        let mut matched = false;
        reader.drain(&mut |bytes| {
            plain.feed(bytes, &mut text);
            matched |= regex.is_match(&text);
            if text.len() > 2 * LOOK_BACK_BYTES {
                text.drain(..text.len() - LOOK_BACK_BYTES);
            }
            Ok(())
        })?;
        Ok(matched)
    };
    if found(Glance)? {
        return Ok(());
    }
    match watch(ctx, id, timeout, &mut found)? {
        Watched::Satisfied => Ok(()),
        Watched::TimedOut => Err(timed_out(id, timeout, "nothing in its output matches")),
        Watched::Ended if found(Glance)? => Ok(()),
        Watched::Ended => {
            Err(Problem::new(Code::Refused, format!("session {id} ended and nothing in its output matches"))
                .hint(format!("`berth output {id}` prints what it said")))
        }
    }
}

/// One look at the output.
struct Glance;

enum Watched {
    Satisfied,
    Ended,
    TimedOut,
}

fn watch(
    ctx: &Ctx,
    id: &SessionId,
    timeout: Option<Duration>,
    mut satisfied: impl FnMut(Glance) -> Result<bool, Problem>,
) -> Result<Watched, Problem> {
    // A time that no clock can reach is for ever.
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    while let Some(mut keeper) = ctx.keeper_of(id)? {
        let _ = keeper.send(Request::Watch { from: u64::MAX });
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Watched::TimedOut);
            }
            let _ = keeper.set_patience(left);
            match keeper.next() {
                Ok(Some(Arrival::Notice(Notice::Event { entry, .. }))) => match entry.event {
                    Event::RunEnded { .. } => return Ok(Watched::Ended),
                    _ => continue,
                },
                Ok(Some(_)) if satisfied(Glance)? => return Ok(Watched::Satisfied),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) => {}
                Err(_) => break,
            }
        }
    }
    Ok(Watched::Ended)
}

fn timed_out(id: &SessionId, timeout: Option<Duration>, what: &str) -> Problem {
    let waited = print::age(timeout.map_or(0, |timeout| timeout.as_millis() as u64));
    Problem::new(Code::TimedOut, format!("waited {waited} for session {id}: {what}"))
        .hint(format!("`berth why {id}` shows what it is doing; `berth screen {id}` what it shows"))
}
