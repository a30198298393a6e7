//! Sessions that were started inside this one. They are below us in the process tree, and not ours.
//!
//! Promise: a keeper that its own lease proves to be the keeper of another session, and everything
//! below it, is neither signalled nor waited for; nor is a notifier that signed for its seat. Who merely looks
//! like one is ours.

use std::io;

use berth_host::identity::{self, ProcessStat};
use berth_host::process::census;
use berth_host::tree;
use berth_store::SessionFiles;
use berth_store::keepers;

use crate::notify;

/// How far up the tree a keeper is looked for.
const MOST_ANCESTORS: usize = 1000;

/// A list of processes, in two parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Below {
    /// Of this session.
    pub(crate) ours: Vec<u32>,
    /// Keepers of other sessions, and what is below them.
    pub(crate) others: Vec<u32>,
}

/// Looks at what is below process `me` now.
pub(crate) fn below(me: u32) -> io::Result<Below> {
    Ok(below_in(&tree::family(me)?, me))
}

/// The same from a list of processes that was made before.
pub(crate) fn below_in(list: &[ProcessStat], me: u32) -> Below {
    let all = tree::descendants_in(list, me);
    let keepers: Vec<u32> = all.iter().copied().filter(|pid| is_of_others(*pid)).collect();
    without(list, &all, keepers)
}

/// Takes the keepers of other sessions, and what is below them, out of some processes.
pub(crate) fn split(some: &[u32]) -> io::Result<Below> {
    let keepers: Vec<u32> = some.iter().copied().filter(|pid| is_of_others(*pid)).collect();
    let list = if keepers.is_empty() { vec![] } else { census()? };
    Ok(without(&list, some, keepers))
}

fn without(list: &[ProcessStat], all: &[u32], keepers: Vec<u32>) -> Below {
    let below = keepers.iter().flat_map(|keeper| tree::descendants_in(list, *keeper));
    let others: Vec<u32> = keepers.iter().copied().chain(below).collect();
    Below { ours: all.iter().copied().filter(|pid| !others.contains(pid)).collect(), others }
}

/// Whether nothing of ours is below process `me` any more, while something of others is.
///
/// Two looks at every process there is, because one pass over /proc can miss a process whose parent ends during it, and
/// the lists of children are no proof.
pub(crate) fn only_others_are_below(me: u32) -> bool {
    let only_others = || {
        let all = census().map(|all| below_in(&all, me));
        all.is_ok_and(|below| below.ours.is_empty() && !below.others.is_empty())
    };
    only_others() && only_others()
}

fn is_of_others(pid: u32) -> bool {
    keepers::kept_by(pid).is_some() || notify::is_at_work(pid)
}

/// The session of the nearest keeper above a process.
pub(crate) fn keeper_above(stat: &ProcessStat) -> Option<SessionFiles> {
    let mut parent = stat.ppid;
    if notify::is_at_work(stat.pid) {
        return None;
    }
    for _ in 0..MOST_ANCESTORS {
        if parent <= 1 || notify::is_at_work(parent) {
            return None;
        }
        if let Some(session) = keepers::kept_by(parent) {
            return Some(session);
        }
        parent = identity::stat(parent).ok()?.ppid;
    }
    None
}

/// Where a session is kept as well, by a keeper above this process: in a copy, or in what this is a copy of. Sessions
/// inside sessions have other names.
pub(crate) fn kept_elsewhere(pid: u32, session: &SessionFiles) -> Option<SessionFiles> {
    let other = keeper_above(&identity::stat(pid).ok()?)?;
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
