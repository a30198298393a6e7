//! `berth resume`: the next run of a session.

use std::time::{Duration, Instant};

use berth_api::message::Request;
use berth_api::{Code, Problem};
use berth_keeper::{start, view};

use crate::args::Resume;
use crate::cmd::run;
use crate::ctx::Ctx;
use crate::tty;

/// How long a keeper may take to leave once its run is over.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(ctx: &Ctx, args: &Resume) -> Result<u8, Problem> {
    let id = ctx.find(&args.session)?;
    let asked_at = Instant::now();
    while ctx.is_kept(&id) {
        // Who has ended a run holds the lease a moment longer, to say goodbye; so does who clears up
        // after a crash, but nobody can connect to that one.
        let runs = view::history(&ctx.home, &id)?.session.is_live() && ctx.keeper_of(&id)?.is_some();
        if runs || asked_at.elapsed() > GOODBYE_PATIENCE {
            return Err(Problem::new(Code::Held, format!("session `{}` is running already", args.session))
                .hint(format!("join it with `berth attach {}`", args.session)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let resume = Request::Resume { size: tty::size().unwrap_or_default() };
    let (connection, status) = start::keeper(&ctx.home, &id, resume, tty::place())?;
    run::stay(ctx, connection, &status, args.detach, args.json)
}
