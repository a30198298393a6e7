//! The steps of the new process between its birth and `execve`.
//!
//! Promise: after the clone nothing is allocated, locked, unwound or changed in memory. [`ExecPlan`] holds
//! every string and list the new process needs, and its code makes system calls only. The memory may
//! still be our parent's, and another thread of it may hold the allocator's lock.
//! Not here: the clone itself (see `clone`), error texts (see [`super::SpawnError`]).
//! Start with [`ExecPlan`].

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use super::clone::ChildCode;
use super::{ChildStdio, SpawnError, SpawnOptions};

/// A step and an error number, four bytes each.
pub(super) const REPORT_SIZE: usize = 8;

/// The highest signal number of Linux.
const LAST_SIGNAL: libc::c_int = 64;

/// The step of the new process that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SpawnStep {
    Cgroup,
    Signals,
    Session,
    Terminal,
    Stdio,
    Descriptors,
    Directory,
    Exec,
}

const STEPS: [SpawnStep; 8] = [
    SpawnStep::Cgroup,
    SpawnStep::Signals,
    SpawnStep::Session,
    SpawnStep::Terminal,
    SpawnStep::Stdio,
    SpawnStep::Descriptors,
    SpawnStep::Directory,
    SpawnStep::Exec,
];

struct SpawnFailure {
    step: SpawnStep,
    errno: i32,
}

/// Strings for C, with the list of pointers to them that `execve` wants.
struct CStringList {
    // The pointers point into these, which do not move when the list does.
    _owned: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl CStringList {
    fn new(owned: Vec<CString>) -> CStringList {
        let pointers = owned.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        CStringList { _owned: owned, pointers }
    }
}

/// Everything the new process needs, ready before it exists.
pub(super) struct ExecPlan {
    program: CString,
    args: CStringList,
    /// The arguments for a script without a `#!` line, which `/bin/sh` runs.
    shell_args: CStringList,
    env: CStringList,
    cwd: CString,
    stdio: [RawFd; 3],
    terminal: bool,
    keep: Vec<RawFd>,
    /// Files of control groups that the new process writes itself into.
    joins: Vec<RawFd>,
    /// The pipe to report a failure through. Its number is never 0 to 2.
    report: RawFd,
}

impl ChildCode for ExecPlan {
    /// Becomes the program, or reports why not and exits.
    fn run(&self) -> ! {
        let failure = match self.become_program() {
            Ok(never) => match never {},
            Err(failure) => failure,
        };
        let mut message = [0; REPORT_SIZE];
        message[..4].copy_from_slice(&(failure.step as u32).to_ne_bytes());
        message[4..].copy_from_slice(&failure.errno.to_ne_bytes());
        // SAFETY: `message` is readable memory of that length. `_exit` runs no handlers and no
        // destructors, which belong to the process we were copied from.
        unsafe {
            libc::write(self.report, message.as_ptr().cast(), REPORT_SIZE);
            libc::_exit(127)
        }
    }
}

impl ExecPlan {
    pub(super) fn new(spec: &SpawnOptions<'_>, report: RawFd) -> Result<ExecPlan, SpawnError> {
        let text = |text: &OsStr, what| {
            CString::new(text.as_bytes())
                .map_err(|_| SpawnError::ZeroByte { program: spec.program.to_owned(), what })
        };
        let program = text(spec.program.as_os_str(), "its path")?;
        let args =
            spec.args.iter().map(|arg| text(arg, "an argument")).collect::<Result<Vec<_>, SpawnError>>()?;
        let shell = [c"/bin/sh".to_owned(), program.clone()];
        let shell_args = shell.into_iter().chain(args.iter().skip(1).cloned()).collect();
        let mut env = Vec::with_capacity(spec.env.len());
        let mut pair = Vec::new();
        for (key, value) in spec.env {
            pair.clear();
            pair.extend_from_slice(key.as_bytes());
            pair.push(b'=');
            pair.extend_from_slice(value.as_bytes());
            env.push(text(OsStr::from_bytes(&pair), "an environment variable")?);
        }
        let (stdio, terminal) = match spec.stdio {
            ChildStdio::Terminal(slave) => ([slave.as_raw_fd(); 3], true),
            ChildStdio::Files { stdin, stdout, stderr } => {
                ([stdin.as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd()], false)
            }
        };
        let keep: Vec<RawFd> = spec.keep.iter().map(AsRawFd::as_raw_fd).collect();
        if let Some(&fd) = keep.iter().find(|&&fd| fd < 3) {
            return Err(SpawnError::KeepIsStdio(fd));
        }
        Ok(ExecPlan {
            program,
            args: CStringList::new(args),
            shell_args: CStringList::new(shell_args),
            env: CStringList::new(env),
            cwd: text(spec.cwd.as_os_str(), "its working directory")?,
            stdio,
            terminal,
            keep,
            joins: spec.joins.iter().map(AsRawFd::as_raw_fd).collect(),
            report,
        })
    }

    /// Has the new process move into one more control group.
    pub(super) fn join(&mut self, procs: RawFd) {
        self.joins.push(procs);
    }

    fn become_program(&self) -> Result<std::convert::Infallible, SpawnFailure> {
        // This comes first, so that no code of the program ever runs outside. 0 means the writer itself.
        for &procs in &self.joins {
            // SAFETY: one byte of readable memory.
            check(SpawnStep::Cgroup, unsafe { libc::write(procs, c"0".as_ptr().cast(), 1) } as libc::c_int)?;
        }
        // Every signal is blocked since before the clone, so no handler of our parent can run here.
        reset_dispositions()?;
        crate::open_file_limit::restore_limit();
        // SAFETY: takes no memory.
        check(SpawnStep::Session, unsafe { libc::setsid() })?;
        self.place_stdio()?;
        self.close_others()?;
        // SAFETY: `cwd` is a C string that lives as long as `self`.
        check(SpawnStep::Directory, unsafe { libc::chdir(self.cwd.as_ptr()) })?;
        unblock_signals()?;
        // SAFETY: the program and both lists are C strings and null-terminated lists of C strings that
        // live as long as `self`. `execve` returns only when it fails.
        unsafe {
            libc::execve(self.program.as_ptr(), self.args.pointers.as_ptr(), self.env.pointers.as_ptr());
            if errno() == libc::ENOEXEC {
                let shell = self.shell_args.pointers.as_ptr();
                libc::execve(c"/bin/sh".as_ptr(), shell, self.env.pointers.as_ptr());
            }
        }
        Err(SpawnFailure { step: SpawnStep::Exec, errno: errno() })
    }

    fn place_stdio(&self) -> Result<(), SpawnFailure> {
        if self.terminal {
            // SAFETY: takes no memory. 0: do not steal the terminal from another session.
            check(SpawnStep::Terminal, unsafe { libc::ioctl(self.stdio[0], libc::TIOCSCTTY, 0) })?;
        }
        let mut sources = self.stdio;
        for source in &mut sources {
            // A source among 0 to 2 could be overwritten before it is copied. This also clears the way
            // for a descriptor that is in its place already but closes on exec.
            if *source < 3 {
                // SAFETY: takes no memory.
                *source = check(SpawnStep::Stdio, unsafe { libc::fcntl(*source, libc::F_DUPFD_CLOEXEC, 3) })?;
            }
        }
        for (source, target) in sources.into_iter().zip(0..) {
            // SAFETY: takes no memory.
            check(SpawnStep::Stdio, unsafe { libc::dup2(source, target) })?;
        }
        Ok(())
    }

    /// Marks every descriptor except 0, 1, 2 and the kept ones as close-on-exec. They are not closed at once: the
    /// report pipe is needed until the exec.
    fn close_others(&self) -> Result<(), SpawnFailure> {
        let flags = libc::CLOSE_RANGE_CLOEXEC;
        // SAFETY: takes no memory.
        if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, flags) } != 0 {
            close_others_one_by_one();
        }
        for &fd in &self.keep {
            // SAFETY: takes no memory.
            check(SpawnStep::Descriptors, unsafe { libc::fcntl(fd, libc::F_SETFD, 0) })?;
        }
        Ok(())
    }
}

/// For kernels before 5.11 and sandboxes that do not know `close_range`.
fn close_others_one_by_one() {
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: `limit` is writable. If the call fails, it keeps the usual number.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let highest = libc::c_int::try_from(limit.rlim_cur).unwrap_or(65_536).min(65_536);
    for fd in 3..highest {
        // SAFETY: takes no memory. A number that is not open is refused, and that is fine.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Sets every signal to its default. Raw calls: glibc hides two signals that exec would still hand on.
fn reset_dispositions() -> Result<(), SpawnFailure> {
    // The kernel's own layout: handler, flags, restorer, mask. All zeroes is the default action.
    let default = [0_u64; 4];
    for signal in 1..=LAST_SIGNAL {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            continue;
        }
        let none = ptr::null_mut::<u64>();
        // SAFETY: `default` is as large as the kernel's structure, and the old action is not asked for.
        let answer = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, 8) };
        if answer != 0 {
            return Err(SpawnFailure { step: SpawnStep::Signals, errno: errno() });
        }
    }
    Ok(())
}

fn unblock_signals() -> Result<(), SpawnFailure> {
    let (none, nothing) = (ptr::null_mut::<u64>(), 0_u64);
    // SAFETY: `nothing` is a mask of 8 bytes, and the old mask is not asked for.
    let answer = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &nothing, none, 8) };
    if answer == 0 { Ok(()) } else { Err(SpawnFailure { step: SpawnStep::Signals, errno: errno() }) }
}

fn check(step: SpawnStep, answer: libc::c_int) -> Result<libc::c_int, SpawnFailure> {
    if answer < 0 { Err(SpawnFailure { step, errno: errno() }) } else { Ok(answer) }
}

fn errno() -> i32 {
    // SAFETY: always points to this thread's error number.
    unsafe { *libc::__errno_location() }
}

/// Decodes the report of a failed process.
pub(super) fn read_report(message: &[u8; REPORT_SIZE]) -> (SpawnStep, io::Error) {
    let number = |at: usize| i32::from_ne_bytes([0, 1, 2, 3].map(|byte| message[at + byte]));
    let step = usize::try_from(number(0)).ok().and_then(|index| STEPS.get(index)).copied();
    (step.unwrap_or(SpawnStep::Exec), io::Error::from_raw_os_error(number(4)))
}
