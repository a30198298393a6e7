//! Passes on the output of a command that runs on another host.
//!
//! Promise: standard error is escaped, and so is standard output unless it is raw by design; each piece is passed on
//! when it arrives. A process that ssh leaves behind with our pipes (`ControlPersist`) does not delay the end.
//! Start with [`run`].

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitStatus, Stdio};

use berth_api::Problem;
use berth_verbs::hosts::ssh;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::print;
use crate::safe_text::{SafeText, StreamEscaper};

/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Runs ssh to its end. With `is_exact`, ssh inherits our standard output.
pub(super) fn run(mut command: Command, is_exact: bool) -> Result<ExitStatus, Problem> {
    command.stderr(Stdio::piped());
    if !is_exact {
        command.stdout(Stdio::piped());
    }
    let mut child = command.spawn().map_err(|error| ssh::no_ssh(&error))?;
    let pid = Pid::from_child(&child);
    let end = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| trouble(&error.into()))?;
    let out = child.stdout.take().map(|out| RelayStream::new(out.into(), |text| print::text(&text)));
    let err = child.stderr.take().map(|err| {
        RelayStream::new(err.into(), |text| {
            print::prompt(&text);
            Ok(())
        })
    });
    let mut streams: Vec<RelayStream> = out.into_iter().chain(err).collect();
    let passed = pass_on(&mut streams, &end);
    // With these closed, ssh learns at its next write that we cannot write any more.
    drop(streams);
    let status = child.wait().map_err(|error| trouble(&error));
    passed.and(status)
}

/// Passes on bytes until the process has ended, and then those that it left in the pipes.
fn pass_on(streams: &mut Vec<RelayStream>, end: &OwnedFd) -> Result<(), Problem> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut is_over = false;
    while !streams.is_empty() {
        let ready: Vec<bool> = {
            let fds = streams.iter().map(|stream| &stream.from).chain((!is_over).then_some(end));
            let mut fds: Vec<PollFd<'_>> =
                fds.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
            match poll(&mut fds, is_over.then_some(&at_once)) {
                Ok(_) => fds.iter().map(|fd| !fd.revents().is_empty()).collect(),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(trouble(&error.into())),
            }
        };
        let mut is_idle = true;
        for at in (0..streams.len()).filter(|at| ready[*at]).rev() {
            is_idle = false;
            if !streams[at].read()? {
                streams.remove(at).end()?;
            }
        }
        if is_over && is_idle {
            break;
        }
        is_over |= ready.get(streams.len()).copied().unwrap_or(false) && is_idle;
    }
    streams.drain(..).try_for_each(RelayStream::end)
}

/// One of the two streams of ssh.
struct RelayStream {
    from: OwnedFd,
    incoming: StreamEscaper,
    print: fn(SafeText) -> Result<(), Problem>,
}

impl RelayStream {
    fn new(from: OwnedFd, print: fn(SafeText) -> Result<(), Problem>) -> Self {
        Self { from, incoming: StreamEscaper::default(), print }
    }

    /// Passes on the bytes that have arrived. False at the end of the stream.
    fn read(&mut self) -> Result<bool, Problem> {
        let mut bytes = vec![0; READ_BYTES];
        match rustix::io::read(&self.from, &mut bytes) {
            Ok(0) => Ok(false),
            Ok(count) => (self.print)(self.incoming.push(&bytes[..count])).map(|()| true),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(trouble(&error.into())),
        }
    }

    fn end(self) -> Result<(), Problem> {
        (self.print)(self.incoming.end())
    }
}

fn trouble(error: &io::Error) -> Problem {
    Problem::refused(format!("cannot pass on the output of ssh: {error}"))
}
