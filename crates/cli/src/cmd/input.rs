//! `berth input`: type into a session's terminal from a script.

use std::io::Read;

use berth_api::message::Request;
use berth_api::{Code, Problem, problem};
use berth_core::Refusal;

use crate::args::Input;
use crate::ctx::Ctx;

/// The most that can be typed at once.
const MAX_BYTES: u64 = 128 * 1024;

pub(crate) fn run(ctx: &Ctx, args: &Input) -> Result<u8, Problem> {
    let id = ctx.find(&args.session)?;
    let mut text = if args.text == ["-"] { standard_input()? } else { args.text.join(" ") };
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
    match ctx.ask(&id, Request::Type { text, take: args.take })? {
        Some(_) => Ok(0),
        None => Err(problem::refusal(&Refusal::NotRunning, &args.session)),
    }
}

fn standard_input() -> Result<String, Problem> {
    let mut text = String::new();
    std::io::stdin().lock().take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| {
        Problem::new(Code::Refused, format!("cannot read standard input as text: {error}; nothing was typed"))
    })?;
    Ok(text)
}
