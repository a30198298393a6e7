//! `berth wait`: until a run ends, or says something.

use std::time::{Duration, Instant};

use berth_api::{Code, Problem, Status};
use berth_core::SessionId;
use berth_screen::Plain;

use crate::args::{Wait, WaitFor};
use crate::cmd::follow::{Followed, News, follow};
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
    match follow(ctx, id, u64::MAX, end_of(timeout), |_| Ok(false))? {
        Followed::Ended | Followed::Enough => ctx.status(id),
        Followed::TimedOut => Err(timed_out(id, timeout, "it has not ended")),
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
    let mut found = || {
        let mut matched = false;
        reader.drain(&mut |bytes| {
            plain.feed(bytes, &mut text);
            matched |= regex.is_match(&text);
            if text.len() > 2 * LOOK_BACK_BYTES {
                text.drain(..begin_of_look_back(&text));
            }
            Ok(())
        })?;
        Ok(matched)
    };
    if found()? {
        return Ok(());
    }
    let hear = |news: News| match news {
        News::Output => found(),
        News::Event { .. } => Ok(false),
    };
    match follow(ctx, id, u64::MAX, end_of(timeout), hear)? {
        Followed::Enough => Ok(()),
        Followed::TimedOut => Err(timed_out(id, timeout, "nothing in its output matches")),
        Followed::Ended if found()? => Ok(()),
        Followed::Ended => {
            Err(Problem::new(Code::Refused, format!("session {id} ended and nothing in its output matches"))
                .hint(format!("`berth output {id}` prints what it said")))
        }
    }
}

/// Where to cut text that became too long: behind a line end if there is one, so that no line begins
/// where it did not.
fn begin_of_look_back(text: &[u8]) -> usize {
    let cut = text.len().saturating_sub(LOOK_BACK_BYTES);
    text[cut..].iter().position(|byte| *byte == b'\n').map_or(cut, |line_end| cut + line_end + 1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_ends_with_a_line() {
        let line = b"0123456789\n";
        let text = line.repeat(2 * LOOK_BACK_BYTES / line.len() + 2);
        let begin = begin_of_look_back(&text);
        assert!(text[begin..].starts_with(b"0123"));
        assert!(text.len() - begin > LOOK_BACK_BYTES - line.len());
        let one_line = vec![b'x'; 2 * LOOK_BACK_BYTES + 1];
        assert_eq!(begin_of_look_back(&one_line), LOOK_BACK_BYTES + 1, "a line without an end is cut");
    }
}
