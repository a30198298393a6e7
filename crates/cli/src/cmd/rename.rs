//! `berth rename`: gives a session another name.

use berth_api::Problem;
use berth_core::SafeName;

use crate::args::RenameArgs;
use crate::ctx::CommandContext;
use crate::target_session::{TargetSession, single_word};
use crate::{lifecycle, print};

pub(crate) fn run(ctx: &CommandContext, args: &RenameArgs) -> Result<u8, Problem> {
    let name: Vec<String> = args.name.iter().cloned().collect();
    let (TargetSession { id, .. }, name) = ctx.target_and(&args.session, &name, "the new name")?;
    let name = single_word(&name, "name")?;
    let name = SafeName::parse(name).map_err(|bad| Problem::usage(bad.to_string()))?;
    lifecycle::rename(ctx, &id, &name)?;
    print::note(&format!("{id} is now `{name}`"));
    Ok(0)
}
