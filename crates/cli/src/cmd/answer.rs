//! `berth answer`: what a session's agent wants to know.

use berth_api::turn::{Ask, Wish};
use berth_api::{Code, Problem};
use berth_verbs::answer;

use crate::args::Answer;
use crate::ctx::Ctx;
use crate::meant::{Meant, only};
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Answer) -> Result<u8, Problem> {
    let option: Vec<String> = args.option.iter().cloned().collect();
    if let Some(asked) = asked(ctx, args) {
        return Err(asked);
    }
    let (Meant { id, handle, .. }, option) =
        ctx.target_and(&args.session, &option, "allow, deny or an option")?;
    let wish = match only(&option, "answer")? {
        "allow" | "yes" => Wish::Allow,
        "deny" | "no" => Wish::Deny,
        option => Wish::Option(option.to_owned()),
    };
    let status = answer::answer(ctx, &id, &handle, args.request.clone(), wish, None)?;
    if args.json {
        print::json(&status)?;
    }
    Ok(0)
}

/// Whoever names only a session wants to know what it asks.
fn asked(ctx: &Ctx, args: &Answer) -> Option<Problem> {
    if args.option.is_some() || ctx.session.is_some() {
        return None;
    }
    let id = ctx.find(&args.session).ok()?;
    let asks = ctx.status(&id).ok()?.turns?.asks;
    let is_meant = |ask: &&Ask| args.request.as_ref().is_none_or(|request| *request == ask.request);
    let ask = asks.iter().find(is_meant)?;
    let more = match asks.len() - 1 {
        0 => String::new(),
        _ if args.request.is_some() => String::new(),
        more => format!(" (and {more} more: `berth show {}`)", args.session),
    };
    let (tool, detail) = (&ask.tool, &ask.detail);
    let what =
        format!("no answer is given; `{}` asks ({}): {tool}: {detail}{more}", args.session, ask.request);
    let options: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
    let hint = format!("answer `allow`, `deny`, or one of: {}", options.join(", "));
    Some(Problem::new(Code::Usage, what).hint(hint))
}
