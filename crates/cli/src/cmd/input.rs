//! `berth input`: types into a session's terminal from a script.

use std::io::Read;

use berth_api::Problem;
use berth_verbs::input::{self, MAX_BYTES};

use crate::args::InputArgs;
use crate::ctx::CommandContext;
use crate::target_session::TargetSession;

pub(crate) fn run(ctx: &CommandContext, args: &InputArgs) -> Result<u8, Problem> {
    let (TargetSession { id, handle, .. }, words) =
        ctx.target_and(&args.session, &args.text, "the text to type")?;
    let mut text = if words == ["-"] { standard_input()? } else { words.join(" ") };
    if args.enter {
        text.push('\r');
    }
    input::type_into_session(ctx, &id, &handle, text, args.take).map(|_| 0)
}

fn standard_input() -> Result<String, Problem> {
    let mut text = String::new();
    std::io::stdin().lock().take(MAX_BYTES as u64 + 1).read_to_string(&mut text).map_err(|error| {
        Problem::refused(format!("cannot read standard input as text: {error}; nothing was typed"))
    })?;
    Ok(text)
}
