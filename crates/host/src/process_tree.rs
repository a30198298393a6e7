//! The process tree below us: adopting, reaping, listing and signalling it.
//!
//! Promise: after [`become_subreaper`] no descendant can leave the tree, and [`reap_children`] is the only wait
//! in the process, so no exit is lost. A signal goes only to a process that was a descendant.
//! Not here: processes of others, and orphans of a keeper that died (see [`processes_with_variable`] and [`processes_with_open_lock`], which
//! look at every process there is).
//! Start with [`reap_children`].

mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::identity::{Pidfd, ProcessStat, stat_at};
use crate::process::all_processes;
use crate::{checked, proc};
pub use search::{
    ProcessMatches, held_files, held_files_in, listed_lockers, open_files_below, process_variables,
    processes_mentioning, processes_with_open_lock, processes_with_variable, processes_with_variable_named,
};

/// How often [`signal_descendants`] looks again while the tree keeps growing.
const ROUNDS: usize = 8;
/// How often [`process_and_descendants`] walks the tree because a process ended on the way.
const WALKS: usize = 3;

/// Makes this process the parent of descendants whose own parent ends.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: takes no memory.
    checked(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })?;
    Ok(())
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitStatus {
    /// The process exited with this code.
    Code(i32),
    /// This signal ended the process.
    Signal(i32),
}

/// The result of [`reap_children`].
#[derive(Debug, Default)]
pub struct ReapResult {
    /// The children that ended, with their exit.
    pub exits: Vec<(u32, WaitStatus)>,
    /// There are no children, living or dead. In a subreaper: no descendants at all.
    pub no_children: bool,
}

/// Collects every child that has ended by now. Never blocks.
pub fn reap_children() -> io::Result<ReapResult> {
    let mut reaped = ReapResult::default();
    loop {
        // SAFETY: all zeroes is a valid `siginfo_t`.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // __WALL: children made with an unusual exit signal count as well.
        let options = libc::WEXITED | libc::WNOHANG | libc::__WALL;
        // SAFETY: `info` is writable.
        if unsafe { libc::waitid(libc::P_ALL, 0, &mut info, options) } != 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ECHILD) => reaped.no_children = true,
                Some(libc::EINTR) => continue,
                _ => return Err(error),
            }
            return Ok(reaped);
        }
        // SAFETY: `waitid` filled these fields for a child, or left them zero.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == 0 {
            return Ok(reaped);
        }
        let exit = if info.si_code == libc::CLD_EXITED {
            WaitStatus::Code(status)
        } else {
            WaitStatus::Signal(status)
        };
        reaped.exits.push((pid.cast_unsigned(), exit));
    }
}

/// All living descendants of a process. A process that starts meanwhile may be missing, so a caller that wants none
/// left must repeat this until the list is empty.
pub fn descendants(of: u32) -> io::Result<Vec<u32>> {
    Ok(descendants_in(&process_and_descendants(of)?, of))
}

/// All descendants of a process, nearest first, including ended ones that were not reaped. Reads the kernel's lists
/// of children, so that the cost follows the size of the tree and not the number of processes on the host; a kernel
/// without these lists costs a [`all_processes`]. A list that is read while one of the children ends can miss a sibling: use
/// this for signals, which are sent again, and not as proof that nothing is left.
pub fn process_and_descendants(of: u32) -> io::Result<Vec<ProcessStat>> {
    if !Path::new("/proc/thread-self/children").exists() {
        return all_processes();
    }
    let proc = proc::open()?;
    let mut found = Vec::new();
    for _ in 0..WALKS {
        found.clear();
        if walk(&proc, of, &mut found)? {
            break;
        }
    }
    Ok(found)
}

/// Walks the tree below a process. False if a process ended on the way: its children have another parent now.
fn walk(proc: &OwnedFd, of: u32, found: &mut Vec<ProcessStat>) -> io::Result<bool> {
    let mut is_whole = children(proc, of, found)?;
    let mut next = 0;
    while let Some(pid) = found.get(next).map(|stat| stat.pid) {
        is_whole &= children(proc, pid, found)?;
        next += 1;
    }
    Ok(is_whole)
}

/// Adds the children of each thread of a process. False if the process, a thread or a child ended meanwhile.
fn children(proc: &OwnedFd, of: u32, found: &mut Vec<ProcessStat>) -> io::Result<bool> {
    let is_away = |error: &io::Error| proc::is_gone(error) || proc::is_hidden(error);
    let threads = match proc::directory(proc.as_fd(), &format!("{of}/task")) {
        Ok(threads) => threads,
        Err(error) if is_away(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut is_whole = true;
    let mut list = Vec::new();
    proc::each_number(threads.as_fd(), |thread, _| {
        match proc::read_all(threads.as_fd(), &format!("{thread}/children"), &mut list) {
            Ok(()) => {}
            Err(error) if is_away(&error) => is_whole = false,
            Err(error) => return Err(error),
        }
        for child in String::from_utf8_lossy(&list).split_ascii_whitespace() {
            match stat_at(proc.as_fd(), &format!("{child}/stat")) {
                // A child that moved to another parent meanwhile may be listed twice.
                Ok(stat) if found.iter().all(|known| known.pid != stat.pid) => found.push(stat),
                Ok(_) => {}
                Err(error) if is_away(&error) => is_whole = false,
                Err(error) => return Err(error),
            }
        }
        list.clear();
        Ok(())
    })?;
    Ok(is_whole)
}

/// The living descendants in a list of processes that was made before, by [`all_processes`] or [`process_and_descendants`].
pub fn descendants_in(all: &[ProcessStat], of: u32) -> Vec<u32> {
    below(of, &all.iter().filter_map(parent_of).collect::<Vec<_>>())
}

/// Sends each living descendant the signals that `choose` names for it, in that order. Returns the processes that
/// could not be signalled. A process that starts meanwhile may be missed.
pub fn signal_descendants(
    of: u32,
    mut choose: impl FnMut(u32) -> Vec<i32>,
) -> io::Result<Vec<(u32, io::Error)>> {
    let mut refused = Vec::new();
    for (pid, pidfd) in hold_descendants(of)? {
        for signal in choose(pid) {
            if let Err(error) = pidfd.signal(signal) {
                refused.push((pid, error));
                break;
            }
        }
    }
    Ok(refused)
}

/// Opens the descendants so that no reused pid can slip in. A list alone proves nothing: by the time a
/// pid from it is opened, it may mean another process. So we list again with the processes held open:
/// while a held process has not exited, its pid is its own, and so is its line in the second list. A
/// chain of such lines up to `of` is proof, and only what has that proof is returned.
fn hold_descendants(of: u32) -> io::Result<BTreeMap<u32, Pidfd>> {
    let mut held: BTreeMap<u32, Pidfd> = BTreeMap::new();
    for round in 1.. {
        let parents: Vec<(u32, u32)> = process_and_descendants(of)?.iter().filter_map(parent_of).collect();
        held.retain(|_, pidfd| !pidfd.has_exited());
        let listed = below(of, &parents);
        let sure: Vec<(u32, u32)> = parents.into_iter().filter(|(pid, _)| held.contains_key(pid)).collect();
        let sure: BTreeSet<u32> = below(of, &sure).into_iter().collect();
        if round == ROUNDS || listed.iter().all(|pid| sure.contains(pid)) {
            held.retain(|pid, _| sure.contains(pid));
            break;
        }
        for pid in listed {
            // A process that cannot be opened has ended; if it has not, the next round tries again.
            if !held.contains_key(&pid)
                && let Ok(pidfd) = Pidfd::open(pid)
            {
                held.insert(pid, pidfd);
            }
        }
    }
    Ok(held)
}

fn parent_of(stat: &ProcessStat) -> Option<(u32, u32)> {
    (!stat.is_zombie()).then_some((stat.pid, stat.ppid))
}

/// The pids below `of` in a list of (pid, parent), nearest first.
fn below(of: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &(pid, parent) in parents {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = children.remove(&of).unwrap_or_default();
    let mut next = 0;
    // `remove` makes this end even if the list, read while things change, has a circle in it.
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grandchildren_are_below_and_siblings_are_not() {
        assert_eq!(below(1, &[(4, 3), (2, 1), (3, 2), (9, 8), (8, 7)]), [2, 3, 4]);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        assert_eq!(below(1, &[(2, 1), (3, 2), (2, 3)]), [2, 3, 2]);
    }
}
