//! `berth history`: lists the saved copies of a session's transcript.

use std::fmt::Write;

use berth_api::Problem;
use berth_verbs::history;

use crate::args::HistoryArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::target_session::TargetSession;

pub(crate) fn run(ctx: &CommandContext, args: &HistoryArgs) -> Result<u8, Problem> {
    let TargetSession { id, handle, .. } = ctx.target(args.session.as_deref())?;
    let history = history::read_history(ctx, &id)?;
    if args.json {
        print::json(&history)?;
        return Ok(0);
    }
    let mut text = String::new();
    for point in history.points.iter().rev() {
        let after = point.turn.map_or_else(|| "no turn".to_owned(), |turn| format!("turn {turn}"));
        let beside = match point.beside {
            0 => String::new(),
            1 => ", 1 file beside".to_owned(),
            more => format!(", {more} files beside"),
        };
        let size = print::describe_size(point.size);
        let _ = writeln!(text, "{:>4}  {}  {after:<10}  {size:>9}{beside}", point.number, point.at);
    }
    print::text(&text)?;
    if let Some(full) = &history.full {
        print::note(&format!(
            "no more copies are made: {full}; `berth config --explain history` explains the limits"
        ));
    }
    let last = history.points.last().map(|point| point.size);
    match (&history.original, last) {
        (None, _) => print::note("no copies yet: a copy is made at the end of each turn"),
        (Some(original), _) if original.size.is_none() => print::note(&format!(
            "the agent's own file is gone ({}); `berth restore {handle} --history` puts it back",
            original.path.display()
        )),
        (Some(original), Some(last)) => match original.size.unwrap_or(0).cmp(&last) {
            std::cmp::Ordering::Less => print::note(&format!(
                "the agent's own file is shorter than its last copy ({})",
                original.path.display()
            )),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => print::note("the agent wrote more since the last copy"),
        },
        (Some(_), None) => {}
    }
    Ok(0)
}
