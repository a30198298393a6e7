//! `berth input`: type into a session's terminal from a script.

use std::io::Read;

use berth_api::client::Arrival;
use berth_api::message::{Answer, Request};
use berth_api::{Code, Problem, problem};
use berth_core::Refusal;

use crate::args::Input;
use crate::ctx::{ANSWER_PATIENCE, Ctx};
use crate::meant::Meant;

/// The most that can be typed at once.
pub(crate) const MAX_BYTES: u64 = 128 * 1024;

pub(crate) fn run(ctx: &Ctx, args: &Input) -> Result<u8, Problem> {
    let (Meant { id, handle, .. }, words) = ctx.target_and(&args.session, &args.text, "what to type")?;
    let mut text = if words == ["-"] { standard_input()? } else { words.join(" ") };
    if args.enter {
        text.push('\r');
    }
    if text.len() as u64 > MAX_BYTES {
        return Err(Problem::new(
            Code::Refused,
            format!("at most {MAX_BYTES} bytes can be typed at once; nothing was"),
        )
        .hint("send it in pieces, or put it in a file and name the file"));
    }
    let Some(mut keeper) = ctx.keeper_of(&id)? else {
        return Err(problem::refusal(&Refusal::NotRunning, &handle));
    };
    let _ = keeper.set_patience(Some(ANSWER_PATIENCE));
    let mut heard = keeper.send(Request::Type { text, take: args.take }).and_then(|()| keeper.next());
    loop {
        match heard {
            Ok(Some(Arrival::Answer(Answer::Problem { problem }))) => return Err(problem),
            Ok(Some(Arrival::Answer(_))) => return Ok(0),
            Ok(Some(Arrival::Output(_) | Arrival::Screen(_) | Arrival::Notice(_))) => heard = keeper.next(),
            Ok(None) | Err(_) => return Err(unknown(&handle)),
        }
    }
}

/// A keeper that was asked and did not answer: not even the record tells whether the keys went through.
fn unknown(session: &str) -> Problem {
    let what = format!("the keeper of session `{session}` did not answer: it may or may not have been typed");
    Problem::new(Code::Unreachable, what)
        .hint(format!("look with `berth screen {session}` or `berth log {session}` before typing it again"))
}

fn standard_input() -> Result<String, Problem> {
    let mut text = String::new();
    std::io::stdin().lock().take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| {
        Problem::new(Code::Refused, format!("cannot read standard input as text: {error}; nothing was typed"))
    })?;
    Ok(text)
}
