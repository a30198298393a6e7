//! `berth screen`: prints a session's screen.

use berth_api::Problem;
use berth_verbs::screen;

use crate::args::ScreenArgs;
use crate::ctx::CommandContext;
use crate::print;

pub(crate) fn run(ctx: &CommandContext, args: &ScreenArgs) -> Result<u8, Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    let screen = screen::screen_text(ctx, &id, args.ansi)? + "\n";
    if args.ansi { print::raw(screen.as_bytes()) } else { print::text(&screen) }?;
    Ok(0)
}
