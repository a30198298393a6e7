//! `berth helper stop`: ends helpers, with or without owners, and waits for proof of the end.

use berth_api::Problem;
use berth_core::SessionId;

use super::{describe_helper, find, reword_for_helper};
use crate::args::HelperStopArgs;
use crate::cmd;
use crate::ctx::CommandContext;
use crate::print;

pub(crate) fn run(helpers: &CommandContext, args: &HelperStopArgs) -> Result<u8, Problem> {
    // All names are looked up first: a typing mistake must not leave half of them stopped.
    let ids: Vec<SessionId> = args.names.iter().map(|name| find(helpers, name)).collect::<Result<_, _>>()?;
    let grace_ms = u64::try_from(args.grace.as_millis()).unwrap_or(u64::MAX);
    let mut worst = 0;
    let mut stopped = Vec::new();
    for ((ended, id), named) in cmd::stop::stop_together(helpers, &ids, grace_ms).zip(&ids).zip(&args.names) {
        match ended {
            Ok(status) => {
                if !args.json {
                    let how = print::exit_summary(&status).unwrap_or_else(|| status.state.to_string());
                    print::note(&format!("{named}: {how}"));
                }
                stopped.push(describe_helper(helpers, status));
            }
            Err(problem) => {
                print::problem(&reword_for_helper(problem.clone(), id));
                worst = worst.max(problem.code.exit_code());
            }
        }
    }
    if args.json {
        print::json(&stopped)?;
    }
    Ok(worst)
}
