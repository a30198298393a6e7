//! `berth purge`: sessions deleted for good.

use berth_api::Problem;
use berth_verbs::purge::{self, Doomed, archived};

use crate::args::Purge;
use crate::cmd::archive::{listed, sessions};
use crate::ctx::Ctx;
use crate::listing::Extent;
use crate::meant::Meant;
use crate::{consent, print, tty};

pub(crate) fn run(ctx: &Ctx, args: &Purge) -> Result<u8, Problem> {
    let mut worst = 0;
    let mut doomed =
        if args.archived { archived(ctx, args.older_than)? } else { named(ctx, args, &mut worst)? };
    if doomed.is_empty() {
        print::note("no session is archived, or none for so long; nothing was deleted");
    } else if args.dry_run && !args.json {
        print::text(&doomed.iter().map(|doomed| line(doomed) + "\n").collect::<String>())?;
    }
    if doomed.is_empty() || args.dry_run {
        return if args.json { print::json(&doomed).map(|()| worst) } else { Ok(worst) };
    }
    if !args.yes && tty::can_ask() {
        doomed.iter().for_each(|doomed| print::note(&line(doomed)));
    }
    let bytes: u64 = doomed.iter().map(|doomed| doomed.bytes).sum();
    let handles: Vec<&str> = doomed.iter().map(Doomed::handle).collect();
    let what = format!("{}, {}, would be deleted for good", sessions(handles.len()), print::size(bytes));
    consent::ask(&format!("{what}: {}", listed(&handles)), args.yes)?;
    for doomed in &mut doomed {
        // A yes is to what was shown.
        match doomed.purge(ctx) {
            Ok(()) => {
                if !args.json {
                    print::note(&format!("{} is deleted, {}", doomed.handle(), print::size(doomed.bytes)));
                }
            }
            Err(problem) => {
                print::problem(&problem);
                worst = worst.max(problem.code.exit_code());
            }
        }
    }
    if args.json {
        print::json(&doomed)?;
    }
    Ok(worst)
}

fn line(doomed: &Doomed) -> String {
    let name = doomed.name.as_ref().map(|name| format!(", the name `{name}`")).unwrap_or_default();
    let key = doomed.key.as_ref().map(|key| format!(", the key `{key}`")).unwrap_or_default();
    format!("{}  {:8}  {}{name}{key}", doomed.id, doomed.state, print::size(doomed.bytes))
}

/// Those that were named, or match the conditions. One that runs, or cannot be told not to, is refused before anything is deleted.
fn named(ctx: &Ctx, args: &Purge, worst: &mut u8) -> Result<Vec<Doomed>, Problem> {
    let mut doomed: Vec<Doomed> = Vec::new();
    for Meant { id, handle, .. } in ctx.chosen(&args.sessions, &args.which, Extent::All, worst)? {
        let one = purge::named(ctx, &id, &handle)?;
        // Named twice is meant once.
        if !doomed.iter().any(|known| known.id == one.id) {
            doomed.push(one);
        }
    }
    Ok(doomed)
}
