//! `berth stop`: end sessions, and wait until each is proven over.

use std::time::Duration;

use berth_api::message::{Answer, Request};
use berth_api::{Code, Problem, Status};
use berth_core::{PROOF_PATIENCE, SessionId};

use crate::args::Stop;
use crate::ctx::Ctx;
use crate::print;

/// How long a keeper may take for everything but the ending itself.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(ctx: &Ctx, args: &Stop) -> Result<u8, Problem> {
    // All names are looked up first: a typing mistake must not leave half of them stopped.
    let ids: Vec<SessionId> = args.sessions.iter().map(|text| ctx.find(text)).collect::<Result<_, _>>()?;
    let grace_ms = u64::try_from(args.grace.as_millis()).unwrap_or(u64::MAX);
    let mut worst = 0;
    let mut stopped = Vec::new();
    for (id, named) in ids.iter().zip(&args.sessions) {
        match stop(ctx, id, grace_ms) {
            Ok(status) => {
                if !args.json {
                    print::note(&format!(
                        "{named}: {}",
                        print::ending(&status).unwrap_or(status.state.clone())
                    ));
                }
                stopped.push(status);
            }
            Err(problem) => {
                print::problem(&problem);
                worst = problem.code.exit_code();
            }
        }
    }
    if args.json {
        print::json(&stopped)?;
    }
    Ok(worst)
}

fn stop(ctx: &Ctx, id: &SessionId, grace_ms: u64) -> Result<Status, Problem> {
    if let Some(mut keeper) = ctx.keeper_of(id)? {
        // It answers when the run is over, or proven not to be; both have their time.
        let patience =
            Duration::from_millis(grace_ms).saturating_add(2 * PROOF_PATIENCE).saturating_add(PATIENCE);
        let _ = keeper.set_patience(Some(patience));
        match keeper.ask(Request::Stop { grace_ms }) {
            Ok(Answer::Done { status }) => return Ok(*status),
            Ok(other) => {
                return Err(Problem::new(Code::Bug, format!("the keeper gave an odd answer: {other:?}")));
            }
            // It was leaving already: what it left on disk tells.
            Err(problem) if problem.code == Code::Unreachable && !ctx.is_kept(id) => {}
            Err(problem) => return Err(problem),
        }
    }
    ctx.status(id)
}
