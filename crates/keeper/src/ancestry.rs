//! Whose hook it is: which agent is nearest above a process.
//!
//! Promise: a process that an agent inside of another agent started is never taken for the outer one's; where that
//! cannot be told, it is nobody's.
//! Not here: what is told (see `berth_api::hook`). Start with [`is_told_by`].

use std::path::{Path, PathBuf};

use berth_host::identity;

/// How many generations there are between an agent and its hook at most.
const MOST_GENERATIONS: usize = 64;
/// What only starts other programs: it is no agent.
const STARTERS: [&str; 14] = [
    "berth", "sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox", "env", "node", "bun", "npx",
    "timeout",
];

/// What stands behind the name of a program whose file is gone.
const REPLACED: &str = " (deleted)";

/// Whether the nearest agent above `teller` is the one whose first process is `agent`.
pub(crate) fn is_told_by(teller: u32, agent: u32) -> bool {
    let mut pid = teller;
    // Whoever is on the way is an agent of its own, unless it only starts programs. The agent's first process may be
    // such a starter itself: then the first other program below it is the agent.
    let mut others = 0;
    for _ in 0..MOST_GENERATIONS {
        if pid == agent {
            let first_only_starts = starts_others(agent);
            return others == 0 || (others == 1 && first_only_starts);
        }
        if pid != teller && !starts_others(pid) {
            others += 1;
        }
        match identity::stat(pid) {
            Ok(stat) if stat.ppid > 1 => pid = stat.ppid,
            Ok(_) | Err(_) => return false,
        }
    }
    false
}

fn starts_others(pid: u32) -> bool {
    let program: Option<PathBuf> = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = program.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    // The kernel says so of a program that was replaced while it runs.
    name.is_some_and(|name| STARTERS.contains(&name.strip_suffix(REPLACED).unwrap_or(name)))
}
