//! `berth resume`: the next run of a session.

use berth_api::message::Request;
use berth_api::{Code, Problem};
use berth_keeper::start;

use crate::args::Resume;
use crate::cmd::run;
use crate::ctx::Ctx;
use crate::tty;

pub(crate) fn run(ctx: &Ctx, args: &Resume) -> Result<u8, Problem> {
    let id = ctx.find(&args.session)?;
    if ctx.is_kept(&id) {
        return Err(Problem::new(Code::Held, format!("session `{}` is running already", args.session))
            .hint(format!("join it with `berth attach {}`", args.session)));
    }
    let resume = Request::Resume { size: tty::size().unwrap_or_default() };
    let (connection, status) = start::keeper(&ctx.home, &id, resume, tty::place())?;
    run::stay(ctx, connection, &status, args.detach, args.json)
}
