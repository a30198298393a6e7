//! An agent on pipes: one it reads from, one it answers on, one for its complaints.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use berth_core::Process;
use berth_host::spawn::Stdio;
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use super::Launch;

/// Our ends. None of them ever blocks.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// Where the agent reads; `None` once we have said everything.
    pub(crate) stdin: Option<OwnedFd>,
    /// Where it answers.
    pub(crate) stdout: OwnedFd,
    /// Where it complains.
    pub(crate) stderr: OwnedFd,
}

/// Makes the pipes and starts the agent on them. The error is for people.
pub(crate) fn start(launch: &Launch<'_>) -> Result<(Pipes, Process), String> {
    launch.check()?;
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
    let made = (|| Ok((pipe()?, pipe()?, pipe()?)))();
    let ((in_read, in_write), (out_read, out_write), (err_read, err_write)) =
        made.map_err(|error: io::Error| format!("cannot make a pipe: {error}"))?;
    let stdio = Stdio::Files { stdin: in_read.as_fd(), stdout: out_write.as_fd(), stderr: err_write.as_fd() };
    let agent = launch.launch(&[], stdio)?;
    for ours in [&in_write, &out_read, &err_read] {
        // Only our end: the flag belongs to the open file, and the agent has the others.
        rustix::fs::fcntl_setfl(ours, OFlags::NONBLOCK)
            .map_err(|error| format!("cannot set up a pipe: {error}"))?;
    }
    Ok((Pipes { stdin: Some(in_write), stdout: out_read, stderr: err_read }, agent))
}
