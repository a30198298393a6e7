//! `berth setup claude` and `berth setup codex`: lists the changes, and shows them as a diff (--dry-run) or makes them.

use std::path::Path;

use berth_api::Problem;
use berth_conversations::injected_hooks;
use berth_store::StateDir;
use berth_verbs::setup::SetupPlan;

use crate::args::SetupModeArgs;
use crate::print;

/// Sets an agent up, or undoes the setup.
pub(super) fn run(
    agent: &str,
    how: SetupModeArgs,
    plan: impl Fn(&Path, bool) -> Result<SetupPlan, Problem>,
) -> Result<u8, Problem> {
    // The hook may run with another HOME, so its command line names the state directory.
    let root = if how.dry_run { StateDir::place()? } else { StateDir::locate()?.root().to_owned() };
    let plan = plan(&root, how.remove)?;
    // The hooks call berth through this link, so it is made even if all files are up to date.
    let link = injected_hooks::hook_link_path(&root);
    let leads_nowhere = !how.remove && !link.exists();
    if !how.remove && !how.dry_run {
        SetupPlan::link(&root)?;
    }
    plan.summary.iter().for_each(print::note);
    if how.dry_run {
        let shown: Vec<String> = plan.changes.iter().map(berth_verbs::setup::FileEdit::diff).collect();
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
