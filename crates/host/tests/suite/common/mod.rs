//! Shared by the tests: children that are started, awaited and never left.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_host::identity::Pidfd;
use berth_host::process_tree::{become_subreaper, signal_descendants};
use berth_host::spawn::{ChildProcess, ChildStdio, SpawnError, SpawnOptions, spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus, waitid};

/// Tests that touch what belongs to the whole process take turns. `nextest` gives each its own process
/// anyway; `cargo test` does not.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shell that runs a script with a pipe each for input and output. Killed with all it
/// started, and reaped, when dropped.
pub(crate) struct ScriptShell {
    pub(crate) child: ChildProcess,
    pub(crate) stdin: Option<File>,
    pub(crate) stdout: File,
    reaped: bool,
}

impl ScriptShell {
    pub(crate) fn run(script: &str) -> ScriptShell {
        ScriptShell::run_with(script, &[], &[])
    }

    pub(crate) fn run_with(
        script: &str,
        env: &[(OsString, OsString)],
        keep: &[BorrowedFd<'_>],
    ) -> ScriptShell {
        let (theirs, ours) = pipe();
        let (output, their_output) = pipe();
        let args = ["sh".into(), "-c".into(), script.into()];
        let child = spawn(&SpawnOptions {
            program: Path::new("/bin/sh"),
            args: &args,
            env,
            cwd: Path::new("/"),
            stdio: ChildStdio::Files {
                stdin: theirs.as_fd(),
                stdout: their_output.as_fd(),
                stderr: their_output.as_fd(),
            },
            keep,
            cgroup: None,
            joins: &[],
        });
        ScriptShell { child: child.unwrap(), stdin: Some(ours), stdout: output, reaped: false }
    }

    /// The next line it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.stdout.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// All it prints until its output closes.
    pub(crate) fn rest(&mut self) -> String {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        text
    }

    /// Waits for its end and returns the exit code, or the negative signal.
    pub(crate) fn finish(mut self) -> i32 {
        self.stdin = None;
        self.reaped = true;
        finish(&self.child.pidfd)
    }

    /// Forgets a child that other code reaped.
    pub(crate) fn forget(mut self) {
        self.reaped = true;
    }
}

impl Drop for ScriptShell {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = signal_descendants(self.child.pid, |_| vec![libc::SIGKILL]);
            let _ = self.child.pidfd.signal(libc::SIGKILL);
            let _ = waitid(WaitId::PidFd(self.child.pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

/// Makes this process the subreaper, and kills the remaining descendants when dropped, so that a test that fails
/// leaves nothing either.
pub(crate) fn kill_orphans() -> impl Drop {
    struct OrphanKillGuard;
    impl Drop for OrphanKillGuard {
        fn drop(&mut self) {
            let _ = signal_descendants(std::process::id(), |_| vec![libc::SIGKILL]);
        }
    }
    become_subreaper().unwrap();
    OrphanKillGuard
}

/// Waits for the end of a child, reaps it, and returns its exit code, or the negative signal.
pub(crate) fn finish(pidfd: &Pidfd) -> i32 {
    await_exit(pidfd);
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).unwrap().unwrap();
    code(&status)
}

fn code(status: &WaitIdStatus) -> i32 {
    status.exit_status().or(status.terminating_signal().map(|signal| -signal)).unwrap()
}

/// Waits until a process has ended, without reaping it.
pub(crate) fn await_exit(pidfd: &Pidfd) {
    await_readable(pidfd.as_fd());
    assert!(pidfd.has_exited());
}

/// Waits until there is something to read. The limit is only there so that a bug does not hang the tests.
pub(crate) fn await_readable(fd: BorrowedFd<'_>) {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&limit)).unwrap(), 1, "nothing happened for 30 s");
}

/// Both ends of a pipe, reading end first.
pub(crate) fn pipe() -> (File, File) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    (reader.into(), writer.into())
}

/// Starts a program with `/dev/null` for its input and output.
pub(crate) fn spawn_quietly(program: &Path, cwd: &Path) -> Result<ChildProcess, SpawnError> {
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let args = [program.as_os_str().to_owned()];
    let stdio = ChildStdio::Files { stdin: null.as_fd(), stdout: null.as_fd(), stderr: null.as_fd() };
    spawn(&SpawnOptions { program, args: &args, env: &[], cwd, stdio, keep: &[], cgroup: None, joins: &[] })
}
