//! `berth tag`: what people sort sessions by.

use berth_api::Problem;
use berth_api::message::Request;
use berth_core::Command;

use crate::args::Tag;
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::{life, print};

pub(crate) fn run(ctx: &Ctx, args: &Tag) -> Result<u8, Problem> {
    let (Meant { id, handle, .. }, words) = ctx.target_then(args.session.as_deref(), &args.add)?;
    let (add, remove) = (life::tags(&words)?, life::tags(&args.remove)?);
    let is_change = !add.is_empty() || !remove.is_empty();
    if is_change {
        let words = |tags: &[berth_core::Name]| tags.iter().map(ToString::to_string).collect();
        let request = Request::Tag { add: words(&add), remove: words(&remove) };
        life::change(ctx, &id, request, Command::Tag { add, remove })?;
    }
    let tags = ctx.known(&id)?.0.tags;
    if args.json {
        print::json(&tags)?;
    } else if is_change {
        let all = if tags.is_empty() { "no tags".to_owned() } else { tags.join(", ") };
        print::note(&format!("{handle}: {all}"));
    } else {
        print::text(&tags.iter().map(|tag| format!("{tag}\n")).collect::<String>())?;
    }
    Ok(0)
}
