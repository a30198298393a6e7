//! `berth answer`: what a session's agent wants to know.

use berth_api::turn::{Ask, Wish};
use berth_api::{Code, Problem};
use berth_verbs::answer;

use crate::args::Answer;
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Answer) -> Result<u8, Problem> {
    if let Some(asked) = asked(ctx, args) {
        return Err(asked);
    }
    let (Meant { id, handle, .. }, words) = match args.text {
        // The text is the answer.
        Some(_) if args.answer.is_empty() && ctx.session.is_none() => {
            (ctx.target(Some(&args.session))?, vec![])
        }
        Some(_) | None => ctx.target_and(&args.session, &args.answer, "allow, deny or an option")?,
    };
    let wish = wish(&words, args.text.clone())?;
    let status = answer::answer(ctx, &id, &handle, args.request.clone(), wish, None)?;
    if args.json {
        print::json(&status)?;
    }
    Ok(0)
}

fn wish(words: &[String], text: Option<String>) -> Result<Wish, Problem> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match (words.as_slice(), text) {
        (["allow" | "yes"], None) => Ok(Wish::Allow),
        (["allow" | "yes", ..], _) => Err(Problem::new(Code::Usage, "`allow` takes no text and no option")
            .hint("a reason goes with `deny`; what else it is to know, `berth send` it")),
        (["deny" | "no"], reason) => Ok(Wish::Deny { reason }),
        (["deny" | "no", reason], None) => Ok(Wish::Deny { reason: Some((*reason).to_owned()) }),
        (["deny" | "no", ..], _) => {
            Err(Problem::new(Code::Usage, "`deny` takes one reason").hint("put the reason in quotes"))
        }
        (ids, text) => Ok(Wish::Options { ids: ids.iter().map(|id| (*id).to_owned()).collect(), text }),
    }
}

/// Whoever names only a session wants to know what it asks.
fn asked(ctx: &Ctx, args: &Answer) -> Option<Problem> {
    if !args.answer.is_empty() || args.text.is_some() || ctx.session.is_some() {
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
    let several = if ask.several { " (several are possible)" } else { "" };
    let text = if ask.takes_text { ", or --text and your own words" } else { "" };
    let reason = if ask.takes_reason { "; `deny` takes a reason" } else { "" };
    let hint = format!("answer `allow`, `deny`, or one of: {}{several}{text}{reason}", options.join(", "));
    Some(Problem::new(Code::Usage, what).hint(hint))
}
