//! Finding processes by evidence they carry: a mark in the environment, a lock on a file.
//!
//! Promise: each process found is told by its [`ProcessIdentity`], read through the same directory of `/proc`
//! as the evidence, so both are of one process.
//! Not here: what to do with them.
//! Start with [`processes_with_open_lock`].

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, readlinkat, statx};

use crate::identity::{ProcessIdentity, ProcessStat, boot_id, stat_at};
use crate::proc;

/// The number of reads of an environment that is still empty, before it is taken for empty.
const READS: usize = 1000;
const PAUSE: Duration = Duration::from_millis(1);
/// The suffix that the kernel adds to the path of an open file that was removed.
const REMOVED: &str = " (deleted)";

/// The outcome of a search through all processes.
#[derive(Debug, Default)]
pub struct ProcessMatches {
    /// The processes that carry the evidence.
    pub processes: Vec<ProcessIdentity>,
    /// The number of processes that could not be looked into. For an ordinary user these are the processes of others.
    pub unreadable: usize,
}

/// Processes whose environment held `key=value` when they started their program. A program may
/// overwrite that memory (some do, to show a title in `ps`), so a miss is not proof.
pub fn processes_with_variable(key: &str, value: &str) -> io::Result<ProcessMatches> {
    let mark = format!("{key}={value}");
    let mut environment = Vec::new();
    search(|proc, pid| {
        let process = proc::directory(proc, &format!("{pid}"))?;
        read_environment(process.as_fd(), &mut environment)?;
        let marked = environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes());
        if marked { stat_at(process.as_fd(), "stat").map(Some) } else { Ok(None) }
    })
}

/// Every process whose environment held a variable `key` when it started its program, with the value. A
/// miss is not proof, as with [`processes_with_variable`].
pub fn processes_with_variable_named(key: &str) -> io::Result<Vec<(ProcessIdentity, String)>> {
    let beginning = format!("{key}=");
    let mut environment = Vec::new();
    let mut values = Vec::new();
    let found = search(|proc, pid| {
        let process = proc::directory(proc, &format!("{pid}"))?;
        read_environment(process.as_fd(), &mut environment)?;
        let mut variables = environment.split(|&byte| byte == 0);
        let Some(value) = variables.find_map(|variable| variable.strip_prefix(beginning.as_bytes())) else {
            return Ok(None);
        };
        let stat = stat_at(process.as_fd(), "stat")?;
        if !stat.is_zombie() {
            values.push(String::from_utf8_lossy(value).into_owned());
        }
        Ok(Some(stat))
    })?;
    Ok(found.processes.into_iter().zip(values).collect())
}

/// Processes of which a word of the command line, or a variable they started with, ends in one of these. Meant for
/// distinctive texts such as an id: one walk, and a closer look only at processes that match.
pub fn processes_mentioning(ends: &[&str]) -> io::Result<ProcessMatches> {
    let mut buffer = Vec::new();
    search(|proc, pid| {
        let process = proc::directory(proc, &format!("{pid}"))?;
        let has = |text: &[u8]| {
            let mut pieces = text.split(|&byte| byte == 0);
            pieces.any(|piece| ends.iter().any(|end| piece.ends_with(end.as_bytes())))
        };
        proc::read_all(process.as_fd(), "cmdline", &mut buffer)?;
        if !has(&buffer) {
            read_environment(process.as_fd(), &mut buffer)?;
            if !has(&buffer) {
                return Ok(None);
            }
        }
        stat_at(process.as_fd(), "stat").map(Some)
    })
}

/// Other processes that have this very file open for writing and, through that descriptor, locked with `flock`. A
/// process that merely reads the file, or waits for the lock, is not among them.
pub fn processes_with_open_lock(path: &Path) -> io::Result<ProcessMatches> {
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
                    // Closed while we looked; another descriptor of the process may match.
                    Err(error) if proc::is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })?;
        if holds { stat_at(descriptors, "../stat").map(Some) } else { Ok(None) }
    })
}

/// The values of some variables in the environment a process started its program with.
pub fn process_variables<const N: usize>(pid: u32, names: [&str; N]) -> io::Result<[Option<String>; N]> {
    let process = proc::directory(CWD, &format!("/proc/{pid}"))?;
    let mut environment = Vec::new();
    read_environment(process.as_fd(), &mut environment)?;
    let value = |name: &str| {
        let mut pairs = environment.split(|&byte| byte == 0);
        pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    Ok(names.map(|name| value(name).map(|value| String::from_utf8_lossy(value).into_owned())))
}

/// The files of this name that a process has open and locked, by the paths they had when it opened them. A removed
/// file is still locked, and is listed by its old path.
pub fn held_files(pid: u32, name: &str) -> io::Result<Vec<PathBuf>> {
    let removed = format!("{name}{REMOVED}");
    let held = held_where(pid, |path| {
        path.file_name().is_some_and(|file| file == name || file == removed.as_str())
    })?;
    Ok(held.into_iter().map(|path| path.with_file_name(name)).collect())
}

/// The files directly in this directory that a process has open and locked.
pub fn held_files_in(pid: u32, dir: &Path) -> io::Result<Vec<PathBuf>> {
    held_where(pid, |path| path.parent() == Some(dir))
}

/// The files below this directory that a process has open. The kernel resolves symbolic links in these names.
pub fn open_files_below(pid: u32, dir: &Path) -> io::Result<Vec<PathBuf>> {
    open_where(pid, |path, _| path.starts_with(dir))
}

fn held_where(pid: u32, is_wanted: impl Fn(&Path) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut buffer = Vec::new();
    open_where(pid, |path, (descriptors, fd)| {
        is_wanted(path)
            && proc::read_all(descriptors, &format!("../fdinfo/{fd}"), &mut buffer).is_ok()
            && shows_lock(&String::from_utf8_lossy(&buffer))
    })
}

/// The open files of a process that `is_wanted` selects, by the directory of descriptors and the number in it.
fn open_where(
    pid: u32,
    mut is_wanted: impl FnMut(&Path, (BorrowedFd<'_>, u32)) -> bool,
) -> io::Result<Vec<PathBuf>> {
    let descriptors = proc::directory(CWD, &format!("/proc/{pid}/fd"))?;
    let descriptors = descriptors.as_fd();
    let mut found = Vec::new();
    proc::each_number(descriptors, |fd, link| {
        let Ok(target) = readlinkat(descriptors, link, Vec::new()) else { return Ok(()) };
        let path = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if is_wanted(&path, (descriptors, fd)) {
            found.push(path);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The processes that took a lock on a file, by the kernel's list of locks: one read, for any number of processes. A
/// hint: the list leaves out other pid namespaces, names the process that took a lock and not those that inherited
/// it, and some file systems have other numbers there. [`processes_with_open_lock`] is certain.
pub fn listed_lockers(path: &Path) -> io::Result<Vec<u32>> {
    let (_, _, inode) = place(CWD, path)?;
    let mut buffer = Vec::new();
    proc::read_all(CWD, "/proc/locks", &mut buffer)?;
    Ok(lockers_in(&String::from_utf8_lossy(&buffer), inode))
}

fn lockers_in(list: &str, inode: u64) -> Vec<u32> {
    let lines = list.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        // An arrow marks processes that wait.
        let is_lock = words.next()? == "FLOCK";
        let pid = words.nth(2)?.parse().ok()?;
        let on = words.next()?.rsplit(':').next()?.parse::<u64>().ok()?;
        (is_lock && on == inode).then_some(pid)
    });
    lines.collect()
}

/// Reads the environment of a process. In the middle of an exec it looks empty, and a process must not escape us by
/// starting another program at the right moment. So an empty environment is read again until it is certain that
/// there is none.
fn read_environment(process: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> io::Result<()> {
    for _ in 0..READS {
        proc::read_all(process, "environ", buffer)?;
        if !buffer.is_empty() {
            return Ok(());
        }
        let mut line = [0; proc::STAT_SIZE];
        if has_no_environment(proc::read_once(process, "stat", &mut line)?) {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

/// True if a line of `stat` belongs to a kernel thread, a zombie, or a program that was started without any variable.
fn has_no_environment(line: &[u8]) -> bool {
    /// The flag of a kernel thread.
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let numbers = line.rsplit(|&byte| byte == b')').next().unwrap_or_default();
    let fields: Vec<&str> =
        std::str::from_utf8(numbers).unwrap_or_default().split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // Fields 9, 50 and 51 of the manual page, which counts from 1 and has two before the parenthesis.
    let (flags, start, end) = (number(6), number(47), number(48));
    flags & KERNEL_THREAD != 0 || matches!(fields.first(), Some(&("Z" | "X"))) || (start == end && end != 0)
}

/// Calls `look` with every process, and collects the processes it returns unless they have ended.
fn search(
    mut look: impl FnMut(BorrowedFd<'_>, u32) -> io::Result<Option<ProcessStat>>,
) -> io::Result<ProcessMatches> {
    let mut found = ProcessMatches::default();
    let proc = proc::open()?;
    let boot = boot_id()?;
    proc::each_pid(&proc, |pid| {
        match look(proc.as_fd(), pid) {
            Ok(Some(stat)) if !stat.is_zombie() => {
                let boot = boot.to_owned();
                found.processes.push(ProcessIdentity { pid, start_ticks: stat.start_ticks, boot });
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

/// The device and inode of a file.
fn place(at: BorrowedFd<'_>, path: impl rustix::path::Arg) -> io::Result<(u32, u32, u64)> {
    // DONT_SYNC: any process may have a file of a dead network mount open, and asking that server for fresh numbers
    // would hang us. The numbers that we compare never change.
    let Statx { stx_dev_major, stx_dev_minor, stx_ino, .. } =
        statx(at, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
    Ok((stx_dev_major, stx_dev_minor, stx_ino))
}

/// True if a `fdinfo` shows a descriptor that is open for writing and has an flock.
fn shows_lock(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    writes && fdinfo.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK"))
}

#[cfg(test)]
mod tests {
    use super::{has_no_environment, lockers_in, shows_lock};

    #[test]
    fn an_empty_environment_is_told_from_one_that_is_not_there_yet() {
        let stat = |state: &str, flags: u64, start: u64, end: u64| {
            let (before, after) = ("0 ".repeat(40), "0");
            has_no_environment(
                format!("7 (a) b) {state} 1 2 3 0 -1 {flags} {before}{start} {end} {after}").as_bytes(),
            )
        };
        assert!(stat("S", 0x0020_8040, 0, 0), "a thread of the kernel");
        assert!(stat("Z", 0x0040_0000, 0, 0), "a zombie");
        assert!(stat("S", 0x0040_0000, 5000, 5000), "a program without variables");
        assert!(!stat("R", 0x0040_0000, 0, 0), "in the middle of an exec");
        assert!(!stat("R", 0x0040_0000, 5000, 6000), "just done with it");
    }

    #[test]
    fn the_kernels_list_names_the_taker_of_a_lock_and_no_waiting_process() {
        let list = "1: FLOCK  ADVISORY  WRITE 6971 fe:00:131 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 7000 fe:00:131 0 EOF\n\
                    2: POSIX  ADVISORY  WRITE 7001 fe:00:131 0 EOF\n\
                    3: FLOCK  ADVISORY  READ  7002 fe:00:132 0 EOF\n\
                    4: nonsense\n";
        assert_eq!(lockers_in(list, 131), [6971]);
        assert_eq!(lockers_in(list, 132), [7002]);
        assert_eq!(lockers_in(list, 1), []);
    }

    #[test]
    fn a_lock_counts_only_on_a_descriptor_that_can_write() {
        let lock = "lock:\t1: FLOCK  ADVISORY  WRITE 42 fe:00:131 0 EOF\n";
        assert!(shows_lock(&format!("pos:\t0\nflags:\t02100002\nino:\t131\n{lock}")));
        assert!(!shows_lock(&format!("pos:\t0\nflags:\t02100000\nino:\t131\n{lock}")));
        assert!(!shows_lock("pos:\t0\nflags:\t02100002\nino:\t131\n"));
    }
}
