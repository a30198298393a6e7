//! Finding processes by evidence they carry: a mark in the environment, a lock on a file.
//!
//! Promise: each process found is told by its [`Identity`], read through the same directory of `/proc`
//! as the evidence, so both are of one process.
//! Not here: what to do with them.
//! Start with [`with_open_lock`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};

use crate::identity::{Identity, ProcessStat, boot_id, stat_at};
use crate::proc;

/// The outcome of a search through all processes.
#[derive(Debug, Default)]
pub struct Found {
    /// Those that carry the evidence.
    pub processes: Vec<Identity>,
    /// How many could not be looked into. For an ordinary user these are the processes of others.
    pub unreadable: usize,
}

/// Processes whose environment held `key=value` when they started their program. A program may
/// overwrite that memory (some do, to show a title in `ps`), so a miss is no proof.
pub fn with_mark(key: &str, value: &str) -> io::Result<Found> {
    let mark = format!("{key}={value}");
    let mut environment = Vec::new();
    search(|proc, pid| {
        let process = proc::directory(proc, &format!("{pid}"))?;
        proc::read_all(process.as_fd(), "environ", &mut environment)?;
        let marked = environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes());
        if marked { stat_at(process.as_fd(), "stat").map(Some) } else { Ok(None) }
    })
}

/// Other processes that have this very file open for writing and, through that descriptor, locked with
/// `flock`. One that merely reads the file, or waits for the lock, is not among them.
pub fn with_open_lock(path: &Path) -> io::Result<Found> {
    let file = place(CWD, path)?;
    let me = std::process::id();
    let mut buffer = Vec::new();
    search(|proc, pid| {
        if pid == me {
            return Ok(None);
        }
        let descriptors = proc::directory(proc, &format!("{pid}/fd"))?;
        let descriptors = descriptors.as_fd();
        let mut holds = false;
        proc::each_number(descriptors, |fd, name| {
            if !holds && place(descriptors, name).is_ok_and(|place| place == file) {
                match proc::read_all(descriptors, &format!("../fdinfo/{fd}"), &mut buffer) {
                    Ok(()) => holds = shows_lock(&String::from_utf8_lossy(&buffer)),
                    // Closed while we looked; there may be another one.
                    Err(error) if proc::is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })?;
        if holds { stat_at(descriptors, "../stat").map(Some) } else { Ok(None) }
    })
}

/// Asks `look` about every process, and collects those it returns unless they have ended.
fn search(mut look: impl FnMut(BorrowedFd<'_>, u32) -> io::Result<Option<ProcessStat>>) -> io::Result<Found> {
    let mut found = Found::default();
    let proc = proc::open()?;
    let boot_id = boot_id()?;
    proc::each_pid(&proc, |pid| {
        match look(proc.as_fd(), pid) {
            Ok(Some(stat)) if !stat.is_zombie() => {
                let boot_id = boot_id.to_owned();
                found.processes.push(Identity { pid, start_ticks: stat.start_ticks, boot_id });
            }
            Ok(_) => {}
            Err(error) if proc::is_gone(&error) => {}
            Err(error) if proc::is_hidden(&error) => found.unreadable += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    Ok(found)
}

/// Device and inode of a file.
fn place(at: BorrowedFd<'_>, path: impl rustix::path::Arg) -> io::Result<(u32, u32, u64)> {
    // DONT_SYNC: any process may have a file of a dead network mount open, and asking that server for
    // fresh numbers would hang us. The ones we compare never change.
    let Statx { stx_dev_major, stx_dev_minor, stx_ino, .. } =
        statx(at, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
    Ok((stx_dev_major, stx_dev_minor, stx_ino))
}

/// Whether a `fdinfo` shows a descriptor that is open for writing and has an flock.
fn shows_lock(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    writes && fdinfo.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK"))
}

#[cfg(test)]
mod tests {
    use super::shows_lock;

    #[test]
    fn a_lock_counts_only_on_a_descriptor_that_can_write() {
        let lock = "lock:\t1: FLOCK  ADVISORY  WRITE 42 fe:00:131 0 EOF\n";
        assert!(shows_lock(&format!("pos:\t0\nflags:\t02100002\nino:\t131\n{lock}")));
        assert!(!shows_lock(&format!("pos:\t0\nflags:\t02100000\nino:\t131\n{lock}")));
        assert!(!shows_lock("pos:\t0\nflags:\t02100002\nino:\t131\n"));
    }
}
