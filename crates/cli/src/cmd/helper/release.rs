//! `berth helper release`: own a helper no longer.

use berth_api::Problem;
use berth_verbs::helper::{find_owned, release};

use super::{here, owner};
use crate::args::Release;
use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx, helpers: &Ctx, args: &Release) -> Result<u8, Problem> {
    let owner = owner(ctx, args.owner.as_ref())?;
    let id = find_owned(helpers, &args.name, here().as_deref(), &owner)?;
    let status = release(helpers, &id, &owner)?;
    if args.json {
        print::json(&status)?;
    }
    Ok(0)
}
