//! A scope that systemd made for one process, divided into groups by that process.
//!
//! Promise: only a scope that was made for this very process is divided.
//! Not here: asking systemd for the scope (see [`crate::systemd`]).
//! Start with [`scope_of_mine`].

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{find_mount, make, own_groups};

/// The controllers that groups in a scope are given, where the scope has them.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// The scope that systemd made for this process alone, as a place to make groups in; `None` if it runs
/// in another cgroup or may not write there.
///
/// Groups can have limits only if no process is in the scope itself, so this one moves to the group
/// `keeper` in it. A second call finds it there, also after it replaced its image.
pub fn scope_of_mine() -> Option<PathBuf> {
    let cgroups = own_groups().ok()?;
    let scope = find_mount().ok()?.join(scope_in(&cgroups, std::process::id())?);
    settle_in(&scope).ok()?;
    Some(scope)
}

/// The name of the scope for process `pid`. The number tells it from the scope of an earlier process for
/// the same purpose, which systemd may not have cleared away yet.
pub fn scope_name(purpose: &str, pid: u32) -> String {
    format!("berth-{purpose}-{pid}.scope")
}

/// The scope of process `pid`, from the top of the hierarchy, if that is where it runs. The scope of
/// another process, such as the keeper whose agent started us, is not ours to divide.
fn scope_in(cgroups: &str, pid: u32) -> Option<&str> {
    let mine = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let scope = mine.strip_suffix("/keeper").unwrap_or(mine);
    let name = scope.rsplit('/').next()?;
    (name.starts_with("berth-") && name.ends_with(&format!("-{pid}.scope"))).then_some(scope)
}

/// Moves this process from the scope to `keeper` in it, then hands the controllers down.
fn settle_in(scope: &Path) -> io::Result<()> {
    let keeper = scope.join("keeper");
    make(&keeper).map_err(io::Error::other)?;
    // 0 means the process that writes it.
    write_existing(&keeper.join("cgroup.procs"), "0")?;
    let offered = fs::read_to_string(scope.join("cgroup.controllers"))?;
    for controller in
        CONTROLLERS.iter().filter(|wanted| offered.split_whitespace().any(|one| one == **wanted))
    {
        // One at a time: a group is useful without the one that is refused.
        let _ = write_existing(&scope.join("cgroup.subtree_control"), &format!("+{controller}"));
    }
    Ok(())
}

/// Writes to an existing file of the kernel, and never makes one.
fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    fs::File::options().write(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_ours_only_if_it_was_made_for_this_process() {
        let at = |path: &str| format!("4:memory:/x\n0::/{path}\n");
        let scope = format!("user.slice/app.slice/{}", scope_name("s-1", 42));
        assert_eq!(scope_in(&at(&scope), 42), Some(scope.as_str()));
        assert_eq!(scope_in(&at(&format!("{scope}/keeper")), 42), Some(scope.as_str()));
        assert_eq!(scope_in(&at(&scope), 2), None);
        assert_eq!(scope_in(&at(&format!("{scope}/run")), 42), None);
        assert_eq!(scope_in(&at("app.slice/other-42.scope"), 42), None);
        assert_eq!(scope_in("4:memory:/berth-s-1-42.scope\n", 42), None);
    }
}
