//! `berth helper ensure`: makes a session own a helper, and starts the helper if it does not run.

use berth_api::Problem;
use berth_verbs::helper::{HelperRequest, ensure};

use super::owner;
use crate::args::HelperEnsureArgs;
use crate::args::helper::HelperScopeArg;
use crate::cmd::run::recorded_command;
use crate::ctx::CommandContext;
use crate::print;

pub(crate) fn run(
    ctx: &CommandContext,
    helpers: &CommandContext,
    args: &HelperEnsureArgs,
) -> Result<u8, Problem> {
    let asked = HelperRequest {
        name: args.name.clone(),
        owner: owner(ctx, args.owner.as_ref())?,
        keep: args.keep,
        is_of_account: args.scope == HelperScopeArg::User,
        cwd: args.cwd.clone(),
        linger: args.idle,
        ready: args.ready.clone(),
        ready_within: args.ready_timeout,
        command: recorded_command(&args.command)?,
    };
    let status = ensure(helpers, &asked)?;
    let printed = if args.json {
        print::json(&status)
    } else {
        let address = status.helper.as_ref().and_then(|helper| helper.address.clone());
        print::text(&format!("{}\n", address.unwrap_or_else(|| "running".to_owned())))
    };
    printed.map_err(|problem| {
        let id = &status.id;
        problem.hint(format!("the helper runs: `berth helper show {id}`, `berth helper release {id}`"))
    })?;
    Ok(0)
}
