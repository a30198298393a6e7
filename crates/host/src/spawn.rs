//! Starting a program in a new session (in the sense of terminals).
//!
//! Promise: the program starts with default signals, nothing blocked, only the descriptors it was
//! given, and [`spawn`] returns once it really runs, or with what went wrong. The returned
//! [`Pidfd`] was made together with the process, so it cannot be another one.
//! Not here: waiting for the end of the process (see [`crate::process_tree::reap_children`]), choosing its
//! cgroup (see [`crate::cgroup`]).
//! Start with [`spawn`].

mod child;
mod clone;
mod program;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::identity::Pidfd;
use crate::{proc, reason};
use child::{ExecPlan, SpawnStep};
pub use program::{ProgramError, THIS_PROGRAM, find_program, set_process_name};

/// The program to start, and its surroundings.
#[derive(Debug)]
pub struct SpawnOptions<'a> {
    /// The file to run; see [`find_program`].
    pub program: &'a Path,
    /// All arguments, the program's name for itself (`argv[0]`) first.
    pub args: &'a [OsString],
    /// The whole environment. No variable of ours is added.
    pub env: &'a [(OsString, OsString)],
    /// The working directory. A relative `program` is looked up from here.
    pub cwd: &'a Path,
    /// Its standard input, output and error.
    pub stdio: ChildStdio<'a>,
    /// Further descriptors that the program inherits, under the same numbers.
    pub keep: &'a [BorrowedFd<'a>],
    /// The cgroup to be born in, or to move into before the program runs.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Files named `cgroup.procs` of other hierarchies, to move into before the program runs.
    pub joins: &'a [BorrowedFd<'a>],
}

/// Standard input, output and error of a new process.
#[derive(Debug)]
pub enum ChildStdio<'a> {
    /// All three are this terminal, which becomes the controlling one.
    Terminal(BorrowedFd<'a>),
    /// Three descriptors, and no controlling terminal.
    Files {
        /// Becomes descriptor 0, standard input.
        stdin: BorrowedFd<'a>,
        /// Becomes descriptor 1, standard output.
        stdout: BorrowedFd<'a>,
        /// Becomes descriptor 2, standard error.
        stderr: BorrowedFd<'a>,
    },
}

/// A process that was started.
#[derive(Debug)]
pub struct ChildProcess {
    /// The pid of the process.
    pub pid: u32,
    /// A descriptor of the process, valid even if the pid is reused.
    pub pidfd: Pidfd,
}

/// Why a program did not start. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A path, argument or variable contains a zero byte.
    #[error("cannot run {}: {what} contains a zero byte", program.display())]
    ZeroByte {
        /// The program that was to run.
        program: PathBuf,
        /// The part of the request that contains it, with its article.
        what: &'static str,
    },
    /// A descriptor to keep has a number that standard input, output or error takes.
    #[error("cannot hand descriptor {0} to the program: 0, 1 and 2 are its input, output and error")]
    KeepIsStdio(i32),
    /// No process could be made.
    #[error("cannot make a process: {}", reason(.0))]
    Process(io::Error),
    /// The new process could not be set up.
    #[error("cannot set up {what} for {}: {}", program.display(), reason(cause))]
    Setup {
        /// The part of the setup that failed, with its article.
        what: &'static str,
        /// The program that was to run.
        program: PathBuf,
        /// The error of the kernel.
        cause: io::Error,
    },
    /// The working directory could not be entered.
    #[error("cannot enter the directory {}: {}", directory.display(), reason(cause))]
    Directory {
        /// The working directory that was requested.
        directory: PathBuf,
        /// The error of the kernel.
        cause: io::Error,
    },
    /// The file exists, but not the interpreter or loader that it needs.
    #[error("cannot run {}: the interpreter or loader it asks for does not exist", program.display())]
    Interpreter {
        /// The program that was to run.
        program: PathBuf,
    },
    /// The program could not be run.
    #[error("cannot run {}: {}", program.display(), reason(cause))]
    Run {
        /// The program that was to run.
        program: PathBuf,
        /// The error of the kernel.
        cause: io::Error,
    },
}

/// Starts a program, and returns when it runs. It sleeps until then: a working directory or program on a
/// mount that hangs, hangs us too.
///
/// For an instant longer the new process may have a few of our close-on-exec descriptors open. A lock
/// that is dropped right after a start needs that instant to be free.
pub fn spawn(spec: &SpawnOptions<'_>) -> Result<ChildProcess, SpawnError> {
    let (results, report) = report_pipe().map_err(SpawnError::Process)?;
    let mut plan = ExecPlan::new(spec, report.as_raw_fd())?;
    let (pid, pidfd) = match spec.cgroup {
        None => clone::start(&plan).map_err(SpawnError::Process)?,
        Some(cgroup) => match clone::start_in(cgroup.as_raw_fd(), &plan) {
            Ok(born) => born,
            // This kernel cannot: the new process moves there itself, or reports why it may not.
            Err(_) => {
                let procs = openat(cgroup, "cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|error| explain(spec, SpawnStep::Cgroup, error.into()))?;
                plan.join(procs.as_raw_fd());
                clone::start(&plan).map_err(SpawnError::Process)?
            }
        },
    };
    drop(report);
    started(spec, &results, pid, pidfd)
}

/// Like [`spawn`], but the new process becomes a child of our own parent. We are not told of its end. It is in
/// our control group.
pub fn spawn_beside(spec: &SpawnOptions<'_>) -> Result<ChildProcess, SpawnError> {
    let (results, report) = report_pipe().map_err(SpawnError::Process)?;
    let plan = ExecPlan::new(spec, report.as_raw_fd())?;
    let (pid, pidfd) = clone::start_beside(&plan).map_err(SpawnError::Process)?;
    drop(report);
    started(spec, &results, pid, pidfd)
}

fn started(
    spec: &SpawnOptions<'_>,
    results: &OwnedFd,
    pid: u32,
    pidfd: OwnedFd,
) -> Result<ChildProcess, SpawnError> {
    // The other end closes when the program runs, so the end of the pipe means success.
    let mut failure = [0; child::REPORT_SIZE];
    let count = proc::retry(|| rustix::io::read(results, &mut failure)).map_err(SpawnError::Process)?;
    if count == 0 {
        return Ok(ChildProcess { pid, pidfd: Pidfd::from_fd(pidfd) });
    }
    // The new process is about to exit. Reap it here: the caller never hears of its pid.
    let _ = proc::retry(|| waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED));
    let (step, cause) = child::read_report(&failure);
    Err(explain(spec, step, cause))
}

fn explain(spec: &SpawnOptions<'_>, step: SpawnStep, cause: io::Error) -> SpawnError {
    let program = spec.program.to_owned();
    let setup = |what| SpawnError::Setup { what, program: spec.program.to_owned(), cause: copy(&cause) };
    match step {
        SpawnStep::Cgroup => setup("the control group"),
        SpawnStep::Signals => setup("the signals"),
        SpawnStep::Session => setup("a session"),
        SpawnStep::Terminal => setup("the terminal"),
        SpawnStep::Stdio => setup("input and output"),
        SpawnStep::Descriptors => setup("the descriptors"),
        SpawnStep::Directory => SpawnError::Directory { directory: spec.cwd.to_owned(), cause },
        // The kernel also says `no such file` for a script whose interpreter is missing.
        SpawnStep::Exec
            if cause.raw_os_error() == Some(libc::ENOENT) && spec.cwd.join(spec.program).exists() =>
        {
            SpawnError::Interpreter { program }
        }
        SpawnStep::Exec => SpawnError::Run { program, cause },
    }
}

fn copy(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or_default())
}

/// The pipe through which the new process reports a failed step.
fn report_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (results, report) = pipe_with(PipeFlags::CLOEXEC)?;
    // If we run with a standard descriptor closed, the pipe may have got its number, and the new
    // process would overwrite it with its own input or output.
    let report = if report.as_raw_fd() < 3 { rustix::io::fcntl_dupfd_cloexec(&report, 3)? } else { report };
    Ok((results, report))
}
