//! `berth resume`: the next run of a session.

use std::time::{Duration, Instant};

use berth_api::message::Request;
use berth_api::{Code, Problem};
use berth_keeper::{recover, start, view};

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
        let session = view::history(&ctx.home, &id)?.session;
        if recover::lost_its_keeper(&session) {
            // Somebody else clears up after a crash, and needs the lease for that.
            if asked_at.elapsed() > recover::HEALER_PATIENCE {
                return Err(recover::is_being_healed(&args.session));
            }
        } else if (session.is_live() && ctx.keeper_of(&id)?.is_some())
            // Who has ended a run holds the lease a moment longer, to say goodbye.
            || asked_at.elapsed() > GOODBYE_PATIENCE
        {
            return Err(Problem::new(Code::Held, format!("session `{}` is running already", args.session))
                .hint(format!("join it with `berth attach {}`", args.session)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let resume = Request::Resume { size: tty::size().unwrap_or_default() };
    let (connection, status) = start::keeper(&ctx.home, &id, resume, tty::place())?;
    run::stay(ctx, connection, &status, args.detach, args.json)
}
