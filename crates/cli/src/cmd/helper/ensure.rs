//! `berth helper ensure`: own a helper, and start it if it does not run.

use berth_api::Problem;
use berth_verbs::helper::{Asked, ensure};

use super::owner;
use crate::args::Ensure;
use crate::args::helper::ScopeArg;
use crate::cmd::run::words;
use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx, helpers: &Ctx, args: &Ensure) -> Result<u8, Problem> {
    let asked = Asked {
        name: args.name.clone(),
        owner: owner(ctx, args.owner.as_ref())?,
        keep: args.keep,
        is_of_account: args.scope == ScopeArg::User,
        cwd: args.cwd.clone(),
        linger: args.idle,
        ready: args.ready.clone(),
        ready_within: args.ready_timeout,
        command: words(&args.command)?,
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
