//! The agent that a hook belongs to: the nearest agent above the hook's process.
//!
//! Promise: a process that an agent inside of another agent started is never taken for the outer one's. In doubt, the
//! hook belongs to no agent.
//! Not here: the contents of a hook's report (see `berth_api::hook`). Start with [`is_hook_of_agent`].

use std::path::{Path, PathBuf};

use berth_host::identity;

/// The largest number of generations between an agent and its hook.
const MOST_GENERATIONS: usize = 64;
/// Programs that only start other programs: they are not agents.
const STARTERS: [&str; 14] = [
    "berth", "sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox", "env", "node", "bun", "npx",
    "timeout",
];

/// The suffix of the name of a program whose file is gone.
const REPLACED: &str = " (deleted)";

/// True if the nearest agent above `teller` is the one whose first process is `agent`.
pub fn is_hook_of_agent(teller: u32, agent: u32) -> bool {
    let mut pid = teller;
    // A program between the two is an agent of its own, unless it only starts programs. The agent's first process may
    // be such a starter itself: then the first other program below it is the agent.
    let mut others = 0;
    for _ in 0..MOST_GENERATIONS {
        if pid == agent {
            let first_only_starts = starts_others(agent);
            return others == 0 || (others == 1 && first_only_starts);
        }
        if pid != teller && !starts_others(pid) {
            others += 1;
        }
        match identity::process_stat(pid) {
            Ok(stat) if stat.ppid > 1 => pid = stat.ppid,
            Ok(_) | Err(_) => return false,
        }
    }
    false
}

fn starts_others(pid: u32) -> bool {
    let program: Option<PathBuf> = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = program.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    // The kernel adds the suffix to a program that was replaced while it runs.
    name.is_some_and(|name| STARTERS.contains(&name.strip_suffix(REPLACED).unwrap_or(name)))
}
