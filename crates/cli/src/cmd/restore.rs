//! `berth restore`: archived sessions, back in the list.

use berth_api::{Code, Problem};
use berth_verbs::history;

use crate::args::Restore;
use crate::ctx::Ctx;
use crate::listing::Extent;
use crate::meant::Meant;
use crate::{life, print};

pub(crate) fn run(ctx: &Ctx, args: &Restore) -> Result<u8, Problem> {
    let mut worst = 0;
    let meant = ctx.chosen(&args.sessions, &args.which, Extent::Archived, &mut worst)?;
    if args.history {
        return transcript(ctx, args, &meant);
    }
    let mut restored = Vec::new();
    for Meant { id, .. } in &meant {
        match life::restore(ctx, id) {
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

/// Puts the agent's transcript back.
fn transcript(ctx: &Ctx, args: &Restore, meant: &[Meant]) -> Result<u8, Problem> {
    let [Meant { id, handle, .. }] = meant else {
        let what = "--history puts the transcript of one session back at a time";
        return Err(Problem::new(Code::Usage, what).hint("name one session"));
    };
    let restored = history::restore(ctx, id, args.at, args.to.as_deref())?;
    if args.json {
        print::json(&restored)?;
        return Ok(0);
    }
    for file in &restored.files {
        print::text(&format!("{}\n", file.display()))?;
    }
    for file in &restored.there {
        print::note(&format!("{} was there already, and is left as it is", file.display()));
    }
    let after = restored.point.turn.map(|turn| format!(", after turn {turn}")).unwrap_or_default();
    let next =
        if args.to.is_some() { String::new() } else { format!("; `berth resume {handle}` goes on with it") };
    print::note(&format!("as of {}{after}{next}", restored.point.at));
    Ok(0)
}
