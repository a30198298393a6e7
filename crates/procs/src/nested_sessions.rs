//! Sessions that were started inside this one: below us in the process tree, and not ours.
//!
//! Promise: a keeper that its own lease proves to be the keeper of another session, and everything below it, is neither
//! signalled nor waited for; nor is a notifier that signed for its seat. A process that merely looks like one is ours.
//! Not here: ending processes. Start with `below`.

use std::io;

use berth_host::identity::{self, ProcessStat};
use berth_host::process::all_processes;
use berth_host::process_tree;
use berth_store::SessionFiles;
use berth_store::{keepers, notifications};

/// How far up the tree a keeper is looked for.
const MOST_ANCESTORS: usize = 1000;

/// A list of processes, in two parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescendantProcesses {
    /// Processes of this session.
    pub ours: Vec<u32>,
    /// Keepers of other sessions, and the processes below them.
    pub others: Vec<u32>,
}

/// Sorts the processes below process `me`.
pub fn sort_descendants(me: u32) -> io::Result<DescendantProcesses> {
    Ok(sort_listed_descendants(&process_tree::process_and_descendants(me)?, me))
}

/// Like [`sort_descendants`], from a list of processes that was made before.
pub fn sort_listed_descendants(list: &[ProcessStat], me: u32) -> DescendantProcesses {
    let all = process_tree::descendants_in(list, me);
    let keepers: Vec<u32> = all.iter().copied().filter(|pid| is_of_others(*pid)).collect();
    without(list, &all, keepers)
}

/// Separates the keepers of other sessions, and the processes below them, from a set of processes.
pub fn separate_nested_sessions(some: &[u32]) -> io::Result<DescendantProcesses> {
    let keepers: Vec<u32> = some.iter().copied().filter(|pid| is_of_others(*pid)).collect();
    let list = if keepers.is_empty() { vec![] } else { all_processes()? };
    Ok(without(&list, some, keepers))
}

fn without(list: &[ProcessStat], all: &[u32], keepers: Vec<u32>) -> DescendantProcesses {
    let below = keepers.iter().flat_map(|keeper| process_tree::descendants_in(list, *keeper));
    let others: Vec<u32> = keepers.iter().copied().chain(below).collect();
    DescendantProcesses { ours: all.iter().copied().filter(|pid| !others.contains(pid)).collect(), others }
}

/// True if no process of ours is below process `me` any more, while processes of others are.
///
/// This walks `/proc` twice, because one pass can miss a process whose parent ends during it, and the lists of
/// children are no proof.
pub fn only_others_are_below(me: u32) -> bool {
    let only_others = || {
        let all = all_processes().map(|all| sort_listed_descendants(&all, me));
        all.is_ok_and(|below| below.ours.is_empty() && !below.others.is_empty())
    };
    only_others() && only_others()
}

fn is_of_others(pid: u32) -> bool {
    keepers::session_of_keeper(pid).is_some() || notifications::is_notifier_running(pid)
}

/// The session of the nearest keeper above a process.
pub fn keeper_above(stat: &ProcessStat) -> Option<SessionFiles> {
    let mut parent = stat.ppid;
    if notifications::is_notifier_running(stat.pid) {
        return None;
    }
    for _ in 0..MOST_ANCESTORS {
        if parent <= 1 || notifications::is_notifier_running(parent) {
            return None;
        }
        if let Some(session) = keepers::session_of_keeper(parent) {
            return Some(session);
        }
        parent = identity::process_stat(parent).ok()?.ppid;
    }
    None
}

/// The other copy of a session whose keeper is above this process: the session was copied, or is a copy. Sessions
/// inside sessions have other names.
pub fn kept_elsewhere(pid: u32, session: &SessionFiles) -> Option<SessionFiles> {
    let other = keeper_above(&identity::process_stat(pid).ok()?)?;
    other.is_copy_of(session).then_some(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_only_looks_like_a_keeper_is_ours() {
        assert!(!is_of_others(std::process::id()));
    }
}
