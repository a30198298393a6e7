//! `berth helper release`: ends a session's ownership of a helper.

use berth_api::Problem;
use berth_verbs::helper::{find_owned, release};

use super::{here, owner};
use crate::args::HelperReleaseArgs;
use crate::ctx::CommandContext;
use crate::print;

pub(crate) fn run(
    ctx: &CommandContext,
    helpers: &CommandContext,
    args: &HelperReleaseArgs,
) -> Result<u8, Problem> {
    let owner = owner(ctx, args.owner.as_ref())?;
    let id = find_owned(helpers, &args.name, here().as_deref(), &owner)?;
    let status = release(helpers, &id, &owner)?;
    if args.json {
        print::json(&status)?;
    }
    Ok(0)
}
