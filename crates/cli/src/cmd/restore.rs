//! `berth restore`: restores archived sessions to the list, and saved transcripts to their place.

use berth_api::Problem;
use berth_verbs::history;

use crate::args::RestoreArgs;
use crate::ctx::CommandContext;
use crate::listing::ListExtent;
use crate::target_session::TargetSession;
use crate::{lifecycle, print};

pub(crate) fn run(ctx: &CommandContext, args: &RestoreArgs) -> Result<u8, Problem> {
    let mut worst = 0;
    let meant = ctx.chosen(&args.sessions, &args.which, ListExtent::Archived, &mut worst)?;
    if args.history {
        return transcript(ctx, args, &meant);
    }
    let mut restored = Vec::new();
    for TargetSession { id, .. } in &meant {
        match lifecycle::restore(ctx, id) {
            Ok(status) => {
                if !args.json {
                    let next = if status.keeper_pid.is_some() {
                        String::new()
                    } else {
                        format!("; `berth resume {}` starts it", status.handle())
                    };
                    print::note(&format!("{} is {}{next}", status.handle(), status.state));
                }
                restored.push(status);
            }
            Err(problem) => {
                print::problem(&problem);
                worst = worst.max(problem.code.exit_code());
            }
        }
    }
    if args.json {
        print::json(&restored)?;
    }
    Ok(worst)
}

/// Writes a saved copy of the agent's transcript back to its place, or to `--to`.
fn transcript(ctx: &CommandContext, args: &RestoreArgs, meant: &[TargetSession]) -> Result<u8, Problem> {
    let [TargetSession { id, handle, .. }] = meant else {
        let what = "--history restores the transcript of one session at a time";
        return Err(Problem::usage(what).hint("name one session"));
    };
    let restored = history::restore_history(ctx, id, args.at, args.to.as_deref())?;
    if args.json {
        print::json(&restored)?;
        return Ok(0);
    }
    for file in &restored.files {
        print::text(&format!("{}\n", file.display()))?;
    }
    for file in &restored.there {
        print::note(&format!("{} exists already, and is left as it is", file.display()));
    }
    let after = restored.point.turn.map(|turn| format!(", after turn {turn}")).unwrap_or_default();
    let next =
        if args.to.is_some() { String::new() } else { format!("; `berth resume {handle}` goes on with it") };
    print::note(&format!("as of {}{after}{next}", restored.point.at));
    Ok(0)
}
