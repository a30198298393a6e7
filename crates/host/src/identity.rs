//! Identity: tells which process a pid meant, and if that very process still lives.
//!
//! Promise: a pid that was given to another process is never taken for the first one. An
//! [`ProcessIdentity`] is a pid with its start time and the boot it belongs to, and [`ProcessLiveness::Alive`]
//! carries a descriptor that can only ever reach that process. A process of an earlier boot of this host is gone; for
//! a process of another host the answer is always [`ProcessLiveness::CannotTell`].
//! Not here: which processes belong together (see [`crate::process_tree`]).
//! Start with [`ProcessIdentity::check`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::proc;

/// One process, told apart from all others that had or will have its pid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessIdentity {
    /// The process number.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The boot that the process runs in, and its host, in the format of [`boot_id`].
    pub boot: String,
}

/// The answer to "does this process still live?".
#[derive(Debug)]
pub enum ProcessLiveness {
    /// The process lives, and this descriptor refers to it.
    Alive(Pidfd),
    /// The process ended. A zombie has ended as well.
    Gone,
    /// The system gave no answer, for this reason. Callers must treat the process neither as alive nor as gone.
    CannotTell(String),
}

impl ProcessIdentity {
    /// The process that has this pid now.
    pub fn of(pid: u32) -> io::Result<ProcessIdentity> {
        process_stat(pid)?.identity()
    }

    /// The calling process.
    pub fn me() -> io::Result<ProcessIdentity> {
        ProcessIdentity::of(std::process::id())
    }

    /// True if the process belongs to an earlier boot: then it is gone, and its pid means nothing now. An identity
    /// that was recorded without a boot may be of this one.
    pub fn is_of_another_boot(&self) -> io::Result<bool> {
        Ok(!self.boot.is_empty() && parts(boot_id()?).1 != parts(&self.boot).1)
    }

    /// The reason why this host cannot tell if the process lives, if it belongs to another host. Another boot proves
    /// an end only where both boots are of one host.
    pub fn on_another_host(&self) -> Option<String> {
        let (host, _) = parts(&self.boot);
        let is_of_this_host = boot_id().is_ok_and(|here| parts(here).0 == host);
        let is_down = || std::env::var(HOST_IS_DOWN).is_ok_and(|down| down == host);
        if is_of_this_host || !self.is_of_another_boot().unwrap_or(false) || is_down() {
            return None;
        }
        Some(format!(
            "pid {} is of another host ({host}), where it may still run: stop it there, or set {HOST_IS_DOWN}={host} if \
             that host is down for good",
            self.pid
        ))
    }

    /// Checks whether this very process still lives.
    pub fn check(&self) -> ProcessLiveness {
        match self.is_of_another_boot() {
            Ok(false) if !self.boot.is_empty() => {}
            Ok(_) => {
                return self.on_another_host().map_or(ProcessLiveness::Gone, ProcessLiveness::CannotTell);
            }
            Err(error) => return ProcessLiveness::CannotTell(format!("cannot read the boot id: {error}")),
        }
        // The order matters. The descriptor pins the process that has the pid now. If that process has not exited by
        // the end, the pid was its own all along, and the start time we read was its own as well.
        let pidfd = match Pidfd::open(self.pid) {
            Ok(pidfd) => pidfd,
            Err(error) => match error.raw_os_error() {
                // EINVAL and ENOENT: the number is not a process (but a thread of another one).
                Some(libc::ESRCH | libc::EINVAL | libc::ENOENT) => return ProcessLiveness::Gone,
                _ => {
                    return ProcessLiveness::CannotTell(format!("cannot open process {}: {error}", self.pid));
                }
            },
        };
        let found = process_stat(self.pid);
        if pidfd.has_exited() {
            return ProcessLiveness::Gone;
        }
        match found {
            Ok(found) if found.start_ticks == self.start_ticks => ProcessLiveness::Alive(pidfd),
            Ok(_) => ProcessLiveness::Gone,
            // The process lives but /proc does not show it: mounted with hidepid, or for another pid namespace.
            Err(error) => {
                ProcessLiveness::CannotTell(format!("cannot read /proc/{}/stat: {error}", self.pid))
            }
        }
    }
}

/// A descriptor that refers to one process for good, even after its pid is reused.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens the process that has this pid now.
    pub fn open(pid: u32) -> io::Result<Pidfd> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
        Ok(Pidfd(pidfd_open(pid, PidfdFlags::empty())?))
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Pidfd {
        Pidfd(fd)
    }

    /// Sends a signal. Succeeds if the process is gone already.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open for as long as `self` lives, and the kernel accepts a null
        // `siginfo_t`. The call reads no other memory.
        let answer =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal, no_info, 0) };
        if answer == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
    }

    /// Reaps this process if it is a child of ours that has ended, so that it is listed no longer. True if there is
    /// nothing left to reap: it was reaped before, or is not our child.
    pub fn collect(&self) -> bool {
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOHANG;
        let waited =
            proc::retry(|| rustix::process::waitid(rustix::process::WaitId::PidFd(self.as_fd()), options));
        !matches!(waited, Ok(None))
    }

    /// True if all threads of the process have ended, reaped or not.
    pub fn has_exited(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // POLLIN comes with the end of the last thread, and POLLHUP (newer kernels) with the reaping.
        proc::retry(|| poll(&mut fds, Some(&now))).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until these have ended, or for this long.
pub fn wait_for_exit<'a>(pidfds: impl Iterator<Item = &'a Pidfd>, limit: Duration) {
    let until = Instant::now() + limit;
    for pidfd in pidfds {
        let left = until.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        // An error here only means less waiting; the caller looks again.
        let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout));
    }
}

/// The useful part of `/proc/PID/stat`.
#[derive(Clone, Debug)]
pub struct ProcessStat {
    /// The process number.
    pub pid: u32,
    /// The pid of the parent process.
    pub ppid: u32,
    /// The process group.
    pub pgrp: u32,
    /// The session (in the sense of terminals, not of berth).
    pub session: u32,
    /// `R`, `S`, `D`, `T`, `Z` and so on: the state of its first thread.
    pub state: char,
    /// The number of threads, including ended ones that were not reaped.
    pub threads: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The processor time the process used itself, in clock ticks.
    pub cpu_ticks: u64,
    /// Resident pages, shared ones counted in full.
    pub rss_pages: u64,
    /// The device number of the controlling terminal; 0 for none.
    pub tty: u32,
    /// True for a kernel thread.
    pub is_kernel: bool,
    /// The name of the program, at most 15 bytes, as the process wishes.
    pub comm: String,
}

impl ProcessStat {
    /// True if the process ended and waits to be reaped. A process whose first thread ended while others work on
    /// shows `Z` as well, but lives.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }

    pub(crate) fn parse(line: &[u8]) -> Option<ProcessStat> {
        /// The flag of a kernel thread.
        const KERNEL_THREAD: u64 = 0x0020_0000;
        // The name may hold parentheses and spaces, but nothing after it does.
        let open = line.iter().position(|&byte| byte == b'(')?;
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let pid = std::str::from_utf8(&line[..open]).ok()?.trim().parse().ok()?;
        let comm = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let mut fields = std::str::from_utf8(&line[close + 1..]).ok()?.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let ppid = fields.next()?.parse().ok()?;
        // The kernel writes -1 or 0 for a process that is going away.
        let pgrp = fields.next()?.parse().unwrap_or(0);
        let session = fields.next()?.parse().unwrap_or(0);
        let tty = fields.next()?.parse().unwrap_or(0);
        let flags: u64 = fields.nth(1)?.parse().ok()?;
        let mut cpu_ticks = 0_u64;
        for ticks in [fields.nth(4)?, fields.next()?] {
            cpu_ticks = cpu_ticks.saturating_add(ticks.parse().ok()?);
        }
        let threads = fields.nth(4)?.parse().ok()?;
        let start_ticks = fields.nth(1)?.parse().ok()?;
        let rss_pages = fields.nth(1)?.parse().unwrap_or(0);
        let is_kernel = flags & KERNEL_THREAD != 0;
        Some(ProcessStat {
            pid,
            ppid,
            pgrp,
            session,
            state,
            threads,
            start_ticks,
            cpu_ticks,
            rss_pages,
            tty,
            is_kernel,
            comm,
        })
    }
}

/// Reads and parses `/proc/PID/stat`.
pub fn process_stat(pid: u32) -> io::Result<ProcessStat> {
    proc::shows_our_numbers()?;
    stat_at(CWD, &format!("/proc/{pid}/stat"))
}

pub(crate) fn stat_at(at: BorrowedFd<'_>, path: &str) -> io::Result<ProcessStat> {
    let mut buffer = [0; proc::STAT_SIZE];
    let line = proc::read_once(at, path, &mut buffer)?;
    ProcessStat::parse(line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unknown stat format"))
}

/// True if a process ignores a signal, by its `/proc/PID/status`.
pub fn ignores_signal(pid: u32, signal: i32) -> io::Result<bool> {
    let mut buffer = Vec::new();
    proc::read_all(CWD, &format!("/proc/{pid}/status"), &mut buffer)?;
    let text = String::from_utf8_lossy(&buffer);
    let ignored = text
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no SigIgn in the process status"))?;
    Ok((1..=64).contains(&signal) && ignored >> (signal - 1) & 1 == 1)
}

/// The environment variable in which a user confirms that a host is down: its value names the host, on which nothing
/// runs any more.
pub const HOST_IS_DOWN: &str = "BERTH_HOST_IS_DOWN";

/// This boot of this host, `HOST/BOOT`. `BOOT` is the kernel's id of the boot. `HOST` follows from the machine id, which is
/// not shown itself, and is `-` on a host that has none. Neither changes while we run, so they are read once.
pub fn boot_id() -> io::Result<&'static str> {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(boot);
    }
    let mut buffer = [0; 64];
    let text = proc::read_once(CWD, "/proc/sys/kernel/random/boot_id", &mut buffer)?;
    let boot = format!("{}/{}", host(), String::from_utf8_lossy(text).trim());
    Ok(BOOT.get_or_init(|| boot))
}

/// A name of this host that survives a reboot. It is not stored in a file of berth: that would go along with a copy
/// of the state directory.
fn host() -> String {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let is_id = machine.trim().len() == 32 && machine.trim().bytes().all(|byte| byte.is_ascii_hexdigit());
    // FNV-1a: the recorded and exported name must not reveal the machine id.
    let eat = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let sum = b"berth host ".iter().copied().chain(machine.trim().bytes()).fold(0xcbf2_9ce4_8422_2325, eat);
    if is_id { format!("{sum:016x}") } else { "-".to_owned() }
}

/// Splits a boot name into host and boot.
fn parts(boot: &str) -> (&str, &str) {
    boot.split_once('/').unwrap_or(("", boot))
}

#[cfg(test)]
mod tests {
    use super::ProcessStat;

    #[test]
    fn a_process_lives_until_its_last_thread_ends() {
        let stat = |state: &str, threads: u32| {
            let line = format!(
                "7 (a) Z (b) {state} 1 2 3 34816 -1 4194304 0 0 0 0 5 6 0 0 20 0 {threads} 0 1234 8 9"
            );
            ProcessStat::parse(line.as_bytes()).unwrap()
        };
        let found = stat("S", 1);
        assert_eq!((found.pid, found.ppid, found.pgrp, found.session), (7, 1, 2, 3));
        assert_eq!((found.comm.as_str(), found.start_ticks, found.threads), ("a) Z (b", 1234, 1));
        assert_eq!((found.tty, found.cpu_ticks, found.rss_pages, found.is_kernel), (34816, 11, 9, false));
        assert!(!found.is_zombie());
        assert!(stat("Z", 1).is_zombie());
        assert!(!stat("Z", 3).is_zombie());
    }

    #[test]
    fn a_broken_line_is_refused() {
        for line in ["", "7 (a", "7 (a) S 1", ") 7 ("] {
            assert!(ProcessStat::parse(line.as_bytes()).is_none(), "{line}");
        }
    }
}
