//! `berth rename`: another name for a session.

use berth_api::{Code, Problem};
use berth_core::Name;

use crate::args::Rename;
use crate::ctx::Ctx;
use crate::meant::{Meant, only};
use crate::{life, print};

pub(crate) fn run(ctx: &Ctx, args: &Rename) -> Result<u8, Problem> {
    let name: Vec<String> = args.name.iter().cloned().collect();
    let (Meant { id, .. }, name) = ctx.target_and(&args.session, &name, "the new name")?;
    let name = only(&name, "name")?;
    let name = Name::parse(name).map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
    life::rename(ctx, &id, &name)?;
    print::note(&format!("{id} is now `{name}`"));
    Ok(0)
}
