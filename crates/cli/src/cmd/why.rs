//! `berth why`: the evidence behind a state.

use berth_api::Problem;
use berth_keeper::view;

use crate::args::Why;
use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Why) -> Result<u8, Problem> {
    let id = ctx.find(&args.session)?;
    let why = view::why(&ctx.home, &id)?;
    if args.json {
        print::json(&why)?;
        return Ok(0);
    }
    let mut text =
        format!("{} is {}\n", why.name.as_deref().unwrap_or(&why.id), print::painted(&why.state, 0));
    for fact in &why.evidence {
        let age =
            if fact.age_ms == 0 { "now".to_owned() } else { format!("{} ago", print::age(fact.age_ms)) };
        text.push_str(&format!("  {:9}  {} ({age})\n", fact.source, fact.fact));
    }
    text.push_str(&format!("{}\n", why.would_change));
    print::text(&text)?;
    Ok(0)
}
