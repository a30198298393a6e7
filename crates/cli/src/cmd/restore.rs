//! `berth restore`: archived sessions, back in the list.

use berth_api::Problem;

use crate::args::Restore;
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::{life, print};

pub(crate) fn run(ctx: &Ctx, args: &Restore) -> Result<u8, Problem> {
    let meant = ctx.targets(&args.sessions)?;
    let mut worst = 0;
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
