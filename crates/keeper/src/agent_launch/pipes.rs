//! An agent on three pipes: its input, its output, and its error output.
//!
//! Promise: no end of the keeper blocks.
//! Not here: the protocol on the pipes (see [`berth_driver`]).
//! Start with [`start`].

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use berth_core::ProcessRef;
use berth_host::spawn::ChildStdio;
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use super::AgentLaunch;

/// The keeper's ends. None of them ever blocks.
#[derive(Debug)]
pub(crate) struct AgentPipes {
    /// The agent's input; `None` once it is closed.
    pub(crate) stdin: Option<OwnedFd>,
    /// The agent's output.
    pub(crate) stdout: OwnedFd,
    /// The agent's error output.
    pub(crate) stderr: OwnedFd,
}

/// Makes the pipes and starts the agent on them. The error is for people.
pub(crate) fn start(launch: &AgentLaunch<'_>) -> Result<(AgentPipes, ProcessRef), String> {
    launch.check()?;
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
    let made = (|| Ok((pipe()?, pipe()?, pipe()?)))();
    let ((in_read, in_write), (out_read, out_write), (err_read, err_write)) =
        made.map_err(|error: io::Error| format!("cannot make a pipe: {error}"))?;
    let stdio =
        ChildStdio::Files { stdin: in_read.as_fd(), stdout: out_write.as_fd(), stderr: err_write.as_fd() };
    let agent = launch.launch(&[], stdio)?;
    for ours in [&in_write, &out_read, &err_read] {
        // Only the keeper's end: the flag belongs to the open file, and the agent has the others.
        rustix::fs::fcntl_setfl(ours, OFlags::NONBLOCK)
            .map_err(|error| format!("cannot set up a pipe: {error}"))?;
    }
    Ok((AgentPipes { stdin: Some(in_write), stdout: out_read, stderr: err_read }, agent))
}
