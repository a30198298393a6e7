//! The next run of a session.

use std::time::{Duration, Instant};

use berth_api::message::{Request, Take};
use berth_api::record::Interface;
use berth_api::{Code, Connection, Problem, Status};
use berth_core::SessionId;
use berth_keeper::{recover, start};
use berth_store::{process, view};

use crate::ctx::Ctx;
use crate::{history, turns};

/// Starts the next run, once the last one is proven gone.
pub fn begin(
    ctx: &Ctx,
    id: &SessionId,
    named: &str,
    fresh: bool,
    take: Take,
) -> Result<(Connection, Status), Problem> {
    begin_with(ctx, id, named, fresh, take, None)
}

/// Starts the next run with an interface of its agent; `None` for the one it had last.
pub fn begin_with(
    ctx: &Ctx,
    id: &SessionId,
    named: &str,
    fresh: bool,
    take: Take,
    interface: Option<Interface>,
) -> Result<(Connection, Status), Problem> {
    ctx.may_start_again(id)?;
    let asked_at = Instant::now();
    while ctx.is_kept(id) {
        ctx.home.session(id).refuse_stranger(named)?;
        let session = view::history(&ctx.home, id)?.session;
        if process::lost_its_keeper(&session) {
            // Somebody else clears up after a crash, and needs the lease for that.
            if asked_at.elapsed() > recover::HEALER_PATIENCE {
                return Err(recover::is_being_healed(named));
            }
        } else if (session.is_live() && ctx.keeper_of(id)?.is_some())
            // Who has ended a run holds the lease a moment longer, to say goodbye.
            || asked_at.elapsed() > recover::GOODBYE_PATIENCE
        {
            return Err(Problem::new(Code::Held, format!("session `{named}` is running already"))
                .hint(format!("join it with `berth attach {named}`")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if !fresh {
        turns::free_conversation(ctx, id)?;
    }
    let resume =
        Request::Resume { size: ctx.size.unwrap_or_default(), fresh, take, restore: true, interface };
    start::keeper_with(&ctx.home, id, resume, ctx.asker(), &history::variables())
}
