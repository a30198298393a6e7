//! `berth stop`: end sessions, and wait until each is proven over.

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_store::view;
pub(crate) use berth_verbs::stop::stop_together;

use crate::args::Stop;
use crate::ctx::Ctx;
use crate::listing::Extent;
use crate::meant::{How, Meant};
use crate::{consent, print};

pub(crate) fn run(ctx: &Ctx, args: &Stop) -> Result<u8, Problem> {
    let mut worst = 0;
    let mut stopped = Vec::new();
    let meant = if args.all {
        all(ctx, &mut worst)?
    } else {
        let mut meant = ctx.chosen(&args.sessions, &args.which, Extent::All, &mut worst)?;
        // Of what merely matches, only what runs is asked about.
        meant.retain(|meant| {
            meant.how != How::Matched || !view::status(&ctx.home, &meant.id).is_ok_and(|it| it.is_over())
        });
        meant
    };
    let needs_yes = args.all || meant.iter().any(Meant::is_implied);
    if needs_yes && !meant.is_empty() {
        consent::ask(&what_would_happen(&meant), args.yes)?;
    }
    let ids: Vec<SessionId> = meant.iter().map(|meant| meant.id.clone()).collect();
    let grace_ms = u64::try_from(args.grace.as_millis()).unwrap_or(u64::MAX);
    for (ended, Meant { handle, .. }) in stop_together(ctx, &ids, grace_ms).zip(&meant) {
        match ended {
            Ok(status) => {
                if !args.json {
                    print::note(&format!(
                        "{handle}: {}",
                        print::ending(&status).unwrap_or_else(|| status.state.to_string())
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
        print::note("nothing runs");
    }
    Ok(worst)
}

/// All of this state directory that runs, or of which something may be left. What cannot be read is told, and
/// makes the exit code: nobody knows whether it runs.
fn all(ctx: &Ctx, worst: &mut u8) -> Result<Vec<Meant>, Problem> {
    let ids = ctx.home.list()?;
    let mut running = Vec::new();
    for id in ids {
        match view::status(&ctx.home, &id) {
            Ok(status) if status.is_over() => {}
            Ok(status) => running.push(Meant { handle: status.handle().to_owned(), id, how: How::Named }),
            // Somebody is making it this very moment, or gave up: nothing of it runs.
            Err(problem) if problem.code == Code::NotFound => {}
            Err(problem) => {
                print::problem(&problem);
                *worst = problem.code.exit_code().max(*worst);
            }
        }
    }
    Ok(running)
}

fn what_would_happen(meant: &[Meant]) -> String {
    let handles: Vec<&str> = meant.iter().map(|meant| meant.handle.as_str()).collect();
    match meant {
        [Meant { handle, how: How::Terminal, .. }] => {
            format!("session `{handle}`, the current one of this terminal, would be stopped")
        }
        [Meant { handle, how: How::Env, .. }] => {
            format!("session `{handle}`, which BERTH_SESSION names, would be stopped")
        }
        [Meant { handle, how: How::Named | How::Matched, .. }] => {
            format!("session `{handle}` would be stopped")
        }
        _ => format!("{} sessions would be stopped: {}", meant.len(), handles.join(", ")),
    }
}
