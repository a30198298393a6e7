//! Resuming a session: the next run.

use std::time::{Duration, Instant};

use berth_api::message::{KeeperRequest, WriterTakeover};
use berth_api::record::AgentInterface;
use berth_api::{KeeperConnection, Problem, SessionStatus};
use berth_core::SessionId;
use berth_keeper::{recover, spawn_keeper};
use berth_store::{process_ref, session_status};

use crate::context::VerbContext;
use crate::{history, turns};

/// Starts the next run, once every process of the last one is proven to be gone.
pub fn begin(
    ctx: &VerbContext,
    id: &SessionId,
    named: &str,
    fresh: bool,
    take: WriterTakeover,
) -> Result<(KeeperConnection, SessionStatus), Problem> {
    start_run(ctx, id, named, fresh, take, None)
}

/// Starts the next run with an interface of its agent; `None` keeps the interface of the last run.
pub fn start_run(
    ctx: &VerbContext,
    id: &SessionId,
    named: &str,
    fresh: bool,
    take: WriterTakeover,
    interface: Option<AgentInterface>,
) -> Result<(KeeperConnection, SessionStatus), Problem> {
    ctx.may_start_again(id)?;
    let asked_at = Instant::now();
    while ctx.is_kept(id) {
        ctx.home.session(id).refuse_stranger(named)?;
        let session = session_status::history(&ctx.home, id)?.session;
        if process_ref::lost_its_keeper(&session) {
            // Another process clears up after a crash, and needs the lease for that.
            if asked_at.elapsed() > recover::HEALER_PATIENCE {
                return Err(recover::being_recovered_problem(named));
            }
        } else if (session.is_live() && ctx.keeper_of(id)?.is_some())
            // A keeper that has ended its run holds the lease a moment longer, to notify its clients.
            || asked_at.elapsed() > recover::GOODBYE_PATIENCE
        {
            return Err(Problem::held(format!("session `{named}` is running already"))
                .hint(format!("join it with `berth attach {named}`")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if !fresh {
        turns::free_conversation(ctx, id)?;
    }
    let resume =
        KeeperRequest::Resume { size: ctx.size.unwrap_or_default(), fresh, take, restore: true, interface };
    spawn_keeper::spawn_keeper_with_variables(&ctx.home, id, resume, ctx.asker(), &history::variables())
}
