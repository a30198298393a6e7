//! `berth purge`: deletes sessions permanently.

use berth_api::Problem;
use berth_verbs::purge::{self, PurgedSession, archived};

use crate::args::PurgeArgs;
use crate::cmd::archive::{listed, sessions};
use crate::ctx::CommandContext;
use crate::listing::ListExtent;
use crate::target_session::TargetSession;
use crate::{consent, print, tty};

pub(crate) fn run(ctx: &CommandContext, args: &PurgeArgs) -> Result<u8, Problem> {
    let mut worst = 0;
    let mut doomed =
        if args.archived { archived(ctx, args.older_than)? } else { named(ctx, args, &mut worst)? };
    if doomed.is_empty() {
        print::note("no session was archived that long ago; nothing was deleted");
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
    let handles: Vec<&str> = doomed.iter().map(PurgedSession::handle).collect();
    let what =
        format!("{}, {}, would be deleted for good", sessions(handles.len()), print::describe_size(bytes));
    consent::require_yes(&format!("{what}: {}", listed(&handles)), args.yes)?;
    for doomed in &mut doomed {
        // The consent covers only the sessions that were shown.
        match doomed.purge(ctx) {
            Ok(()) => {
                if !args.json {
                    print::note(&format!(
                        "{} is deleted, {}",
                        doomed.handle(),
                        print::describe_size(doomed.bytes)
                    ));
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

fn line(doomed: &PurgedSession) -> String {
    let name = doomed.name.as_ref().map(|name| format!(", the name `{name}`")).unwrap_or_default();
    let key = doomed.key.as_ref().map(|key| format!(", the key `{key}`")).unwrap_or_default();
    format!("{}  {:8}  {}{name}{key}", doomed.id, doomed.state, print::describe_size(doomed.bytes))
}

/// The sessions that are named or meet the conditions. A session that runs, or whose end is not proven, is refused
/// before any session is deleted.
fn named(ctx: &CommandContext, args: &PurgeArgs, worst: &mut u8) -> Result<Vec<PurgedSession>, Problem> {
    let mut doomed: Vec<PurgedSession> = Vec::new();
    for TargetSession { id, handle, .. } in ctx.chosen(&args.sessions, &args.which, ListExtent::All, worst)? {
        let one = purge::named(ctx, &id, &handle)?;
        // A session that is named twice is deleted once.
        if !doomed.iter().any(|known| known.id == one.id) {
            doomed.push(one);
        }
    }
    Ok(doomed)
}
