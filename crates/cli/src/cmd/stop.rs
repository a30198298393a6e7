//! `berth stop`: ends sessions, and waits until the end of each is proven.

use berth_api::{Problem, ProblemCode};
use berth_core::SessionId;
use berth_store::session_status;
pub(crate) use berth_verbs::stop::stop_together;

use crate::args::StopArgs;
use crate::ctx::CommandContext;
use crate::listing::ListExtent;
use crate::target_session::{TargetSession, TargetSource};
use crate::{consent, print};

pub(crate) fn run(ctx: &CommandContext, args: &StopArgs) -> Result<u8, Problem> {
    let mut worst = 0;
    let mut stopped = Vec::new();
    let meant = if args.all {
        all(ctx, &mut worst)?
    } else {
        let mut meant = ctx.chosen(&args.sessions, &args.which, ListExtent::All, &mut worst)?;
        // Of sessions that only meet conditions, the question names only those that run.
        meant.retain(|meant| {
            meant.how != TargetSource::Matched
                || !session_status::status(&ctx.home, &meant.id).is_ok_and(|it| it.is_over())
        });
        meant
    };
    let needs_yes = args.all || meant.iter().any(TargetSession::is_implied);
    if needs_yes && !meant.is_empty() {
        consent::require_yes(&what_would_happen(&meant), args.yes)?;
    }
    let ids: Vec<SessionId> = meant.iter().map(|meant| meant.id.clone()).collect();
    let grace_ms = u64::try_from(args.grace.as_millis()).unwrap_or(u64::MAX);
    for (ended, TargetSession { handle, .. }) in stop_together(ctx, &ids, grace_ms).zip(&meant) {
        match ended {
            Ok(status) => {
                if !args.json {
                    print::note(&format!(
                        "{handle}: {}",
                        print::exit_summary(&status).unwrap_or_else(|| status.state.to_string())
                    ));
                }
                stopped.push(status);
            }
            Err(problem) => {
                print::problem(&problem);
                worst = worst.max(problem.code.exit_code());
            }
        }
    }
    if args.json {
        print::json(&stopped)?;
    } else if ids.is_empty() {
        print::note("no session runs");
    }
    Ok(worst)
}

/// All sessions of this state directory that run, or of which processes may be left. A session that cannot be read
/// may run as well: its problem is printed and decides the exit code.
fn all(ctx: &CommandContext, worst: &mut u8) -> Result<Vec<TargetSession>, Problem> {
    let ids = ctx.home.list()?;
    let mut running = Vec::new();
    for id in ids {
        match session_status::status(&ctx.home, &id) {
            Ok(status) if status.is_over() => {}
            Ok(status) => running.push(TargetSession {
                handle: status.handle().to_owned(),
                id,
                how: TargetSource::Named,
            }),
            // Another process is creating this session, or gave up creating it: no process of it runs.
            Err(problem) if problem.code == ProblemCode::NotFound => {}
            Err(problem) => {
                print::problem(&problem);
                *worst = problem.code.exit_code().max(*worst);
            }
        }
    }
    Ok(running)
}

fn what_would_happen(meant: &[TargetSession]) -> String {
    let handles: Vec<&str> = meant.iter().map(|meant| meant.handle.as_str()).collect();
    match meant {
        [TargetSession { handle, how: TargetSource::Terminal, .. }] => {
            format!("session `{handle}`, the current one of this terminal, would be stopped")
        }
        [TargetSession { handle, how: TargetSource::Env, .. }] => {
            format!("session `{handle}`, which BERTH_SESSION names, would be stopped")
        }
        [TargetSession { handle, how: TargetSource::Named | TargetSource::Matched, .. }] => {
            format!("session `{handle}` would be stopped")
        }
        _ => format!("{} sessions would be stopped: {}", meant.len(), handles.join(", ")),
    }
}
