//! Facts about a process, for display.
//!
//! Promise: [`all_processes`] costs one walk of `/proc`: one open and one read for each process. More expensive facts are
//! read for one process at a time, and always from the process that was listed, never from another one that has its
//! pid by now.
//! Not here: the session of a process and its ports (see [`crate::process_tree`], [`crate::ports`]).
//! Start with [`all_processes`], then [`ProcessStat::open`].

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};

use crate::identity::{ProcessIdentity, ProcessStat, boot_id, stat_at};
use crate::{clock, proc};

/// The part of a command line that is read, in bytes.
const ARGV_SIZE: usize = 4096;
/// Long enough for a few words and the longest path.
const LINE_SIZE: usize = 8192;

/// Every process that `/proc` shows us, ended processes that were not reaped included.
pub fn all_processes() -> io::Result<Vec<ProcessStat>> {
    let proc = proc::open()?;
    let mut all = Vec::with_capacity(256);
    proc::each_pid(&proc, |pid| {
        match stat_at(proc.as_fd(), &format!("{pid}/stat")) {
            Ok(stat) => all.push(stat),
            Err(error) if proc::is_gone(&error) || proc::is_hidden(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    Ok(all)
}

impl ProcessStat {
    /// The identity of this process: pid, start time and boot.
    pub fn identity(&self) -> io::Result<ProcessIdentity> {
        Ok(ProcessIdentity { pid: self.pid, start_ticks: self.start_ticks, boot: boot_id()?.to_owned() })
    }

    /// Milliseconds since the process started.
    pub fn age_ms(&self) -> u64 {
        clock::boot_ms().saturating_sub(ticks_to_ms(self.start_ticks))
    }

    /// The processor time this process used itself, in milliseconds; time of ended children is not in it.
    pub fn cpu_ms(&self) -> u64 {
        ticks_to_ms(self.cpu_ticks)
    }

    /// The resident memory of the process. Pages shared with others count in full, so a sum over several processes
    /// is too large.
    pub fn rss_bytes(&self) -> u64 {
        self.rss_pages.saturating_mul(page_size())
    }

    /// The controlling terminal, as `ps` names it.
    pub fn tty_name(&self) -> Option<String> {
        tty_name(self.tty)
    }

    /// Opens the directory of this process in `/proc`, for a closer look. Fails with "not found" if the process is
    /// gone, even if another process has its pid now.
    pub fn open(&self) -> io::Result<ProcessDir> {
        let proc = proc::open()?;
        let directory = proc::directory(proc.as_fd(), &self.pid.to_string())?;
        let now = stat_at(directory.as_fd(), "stat")?;
        if now.start_ticks != self.start_ticks {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(ProcessDir { directory })
    }
}

/// The beginning of the command line of a process, with a zero byte behind each word; in one read, and long enough
/// for any path in it. Empty for a kernel thread and for a zombie.
pub fn command_line(pid: u32) -> io::Result<Vec<u8>> {
    let path = format!("/proc/{pid}/cmdline");
    let file = openat(CWD, &path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut line = Vec::with_capacity(LINE_SIZE);
    proc::retry(|| rustix::io::read(&file, rustix::buffer::spare_capacity(&mut line)))?;
    Ok(line)
}

/// A process whose files can be read. It may end at any time; then reading fails.
#[derive(Debug)]
pub struct ProcessDir {
    directory: OwnedFd,
}

impl ProcessDir {
    /// Program and arguments as the process shows them, which it may change; cut when very long. Empty for a kernel
    /// thread and for a zombie.
    pub fn argv(&self) -> io::Result<Vec<String>> {
        let mut buffer = [0; ARGV_SIZE];
        let bytes = proc::read_once(self.directory.as_fd(), "cmdline", &mut buffer)?;
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        Ok(bytes.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    }

    /// The effective user of the process.
    pub fn uid(&self) -> io::Result<u32> {
        let mut buffer = Vec::new();
        proc::read_all(self.directory.as_fd(), "status", &mut buffer)?;
        let text = String::from_utf8_lossy(&buffer);
        // Real, effective, saved, file system.
        let uids = text.lines().find_map(|line| line.strip_prefix("Uid:"));
        let effective = uids.and_then(|uids| uids.split_ascii_whitespace().nth(1)?.parse().ok());
        effective.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no Uid in the process status"))
    }

    /// The working directory. The kernel hides it for processes of other users.
    pub fn cwd(&self) -> io::Result<PathBuf> {
        let path = readlinkat(&self.directory, "cwd", Vec::new())?;
        Ok(OsString::from_vec(path.into_bytes()).into())
    }

    /// The proportional share of resident memory: a page that n processes share counts 1/n. Sums are right, but the
    /// kernel walks all memory of the process to answer. The kernel hides it for processes of other users.
    pub fn pss_bytes(&self) -> io::Result<u64> {
        let mut buffer = [0; 4096];
        let bytes = proc::read_once(self.directory.as_fd(), "smaps_rollup", &mut buffer)?;
        pss_in(&String::from_utf8_lossy(bytes))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no Pss in the memory map"))
    }
}

fn pss_in(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The name of a terminal, from its device number.
fn tty_name(number: u32) -> Option<String> {
    let major = number >> 8 & 0xfff;
    let minor = number & 0xff | number >> 12 & 0xfff00;
    Some(match (major, minor) {
        (0, 0) => return None,
        (136..=143, _) => format!("pts/{}", (major - 136) * 256 + minor),
        (4, 0..64) => format!("tty{minor}"),
        (4, _) => format!("ttyS{}", minor - 64),
        _ => format!("{major}:{minor}"),
    })
}

fn ticks_to_ms(ticks: u64) -> u64 {
    static PER_SECOND: OnceLock<u64> = OnceLock::new();
    let per_second = *PER_SECOND.get_or_init(|| system_setting(libc::_SC_CLK_TCK, 100));
    ticks.saturating_mul(1000) / per_second
}

fn page_size() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    *SIZE.get_or_init(|| system_setting(libc::_SC_PAGESIZE, 4096))
}

fn system_setting(name: libc::c_int, usual: u64) -> u64 {
    // SAFETY: takes no memory.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value).ok().filter(|value| *value > 0).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_have_the_names_people_know() {
        assert_eq!(tty_name(0), None);
        assert_eq!(tty_name(34816).as_deref(), Some("pts/0"));
        assert_eq!(tty_name(34819).as_deref(), Some("pts/3"));
        // Minor 1000 of major 136 goes on in the upper bits.
        assert_eq!(tty_name(136 << 8 | 1000 & 0xff | (1000 & !0xff) << 12).as_deref(), Some("pts/1000"));
        assert_eq!(tty_name(4 << 8 | 1).as_deref(), Some("tty1"));
        assert_eq!(tty_name(4 << 8 | 64).as_deref(), Some("ttyS0"));
    }

    #[test]
    fn the_share_of_memory_is_read_from_the_sum_and_not_from_its_parts() {
        let rollup = "00400000-7fff rollup\nRss:    900 kB\nPss:    321 kB\nPss_Anon:    7 kB\n";
        assert_eq!(pss_in(rollup), Some(321 * 1024));
        assert_eq!(pss_in("Rss: 1 kB\n"), None);
    }
}
