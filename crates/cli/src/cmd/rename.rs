//! `berth rename`: another name for a session.

use berth_api::message::Request;
use berth_api::{Code, Problem};
use berth_core::{Command, Deed, Name, SessionId};
use berth_keeper::{recover, view};

use crate::args::Rename;
use crate::ctx::Ctx;
use crate::meant::{Meant, only};
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Rename) -> Result<u8, Problem> {
    let name: Vec<String> = args.name.iter().cloned().collect();
    let (Meant { id, .. }, name) = ctx.target_and(&args.session, &name, "the new name")?;
    let name = only(&name, "name")?;
    let name = Name::parse(name).map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
    to(ctx, &id, &name)?;
    print::note(&format!("{id} is now `{name}`"));
    Ok(0)
}

/// Gives a session this name, if no other has it.
pub(crate) fn to(ctx: &Ctx, id: &SessionId, name: &Name) -> Result<(), Problem> {
    ctx.may(Deed::Rename, id)?;
    // Held until the session itself says its new name.
    let lock = ctx.home.lock_names()?;
    let old = view::history(&ctx.home, id)?.session.name;
    lock.claim_name(name, id)?;
    if let Err(problem) = rename(ctx, id, name) {
        // Who did not answer may have the new name all the same, and then needs its pointer.
        if problem.code != Code::Unreachable && old.as_ref() != Some(name) {
            lock.drop_name(name, id);
        }
        return Err(problem);
    }
    if let Some(old) = old.filter(|old| old != name) {
        lock.drop_name(&old, id);
    }
    Ok(())
}

fn rename(ctx: &Ctx, id: &SessionId, name: &Name) -> Result<(), Problem> {
    if ctx.ask(id, Request::Rename { name: name.to_string() })?.is_some() {
        return Ok(());
    }
    // Nobody keeps it: for this one event we do.
    recover::heal(&ctx.home, id)?;
    recover::with_lease(&ctx.home, id, Command::Rename { name: name.clone() })
}
