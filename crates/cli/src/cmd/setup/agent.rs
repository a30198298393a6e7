//! `berth setup claude` and `berth setup codex`: says what changes, shows it (--dry-run) or does it.

use std::path::Path;

use berth_api::Problem;
use berth_keeper::carried;
use berth_store::Home;
use berth_verbs::setup::Plan;

use crate::args::SetupHow;
use crate::print;

/// Sets an agent up, or takes that away.
pub(super) fn run(
    agent: &str,
    how: SetupHow,
    plan: impl Fn(&Path, bool) -> Result<Plan, Problem>,
) -> Result<u8, Problem> {
    // The hook may run with another HOME: it is told where this is.
    let root = if how.dry_run { Home::place()? } else { Home::locate()?.root().to_owned() };
    let plan = plan(&root, how.remove)?;
    // What is set up calls berth by it, also where all files are as they should be.
    let link = carried::link_path(&root);
    let leads_nowhere = !how.remove && !link.exists();
    if !how.remove && !how.dry_run {
        Plan::link(&root)?;
    }
    plan.summary.iter().for_each(print::note);
    if how.dry_run {
        let shown: Vec<String> = plan.changes.iter().map(berth_verbs::setup::Change::diff).collect();
        print::text(&shown.concat())?;
    }
    if !how.dry_run {
        plan.carry_out()?;
        for change in &plan.changes {
            let what = if change.after.is_some() { "wrote" } else { "removed" };
            print::note(&format!("{what} {}", change.path.display()));
        }
    }
    if leads_nowhere && plan.is_done() {
        let what = if how.dry_run { "would make" } else { "made" };
        print::note(&format!("{what} the link {}", link.display()));
    } else if plan.is_done() {
        let what = if how.remove { "is set up there" } else { "has to be changed" };
        print::note(&format!("nothing {what}: {agent}"));
    } else if how.dry_run {
        print::note("nothing was changed (--dry-run)");
    }
    plan.notes.iter().for_each(print::note);
    Ok(0)
}
