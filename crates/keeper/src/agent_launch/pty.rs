//! The `pty` driver: any command in a terminal of its own.
//!
//! Not here: reading the terminal and painting its screen (see `keeper/agent_terminal`).
//! Start with [`start`].

use std::io;
use std::os::fd::AsFd;

use berth_api::message::WindowSize;
use berth_core::ProcessRef;
use berth_host::pty::Pty;
use berth_host::spawn::ChildStdio;

use super::AgentLaunch;

/// The terminal type that the agent sees. The keeper's emulator and every client's restore speak this, independent of
/// the terminal of the first client.
const TERM: &str = "xterm-256color";

/// A terminal with an agent in it.
#[derive(Debug)]
pub(crate) struct AgentPty {
    /// The keeper's end.
    pub(crate) pty: Pty,
}

/// Makes a terminal and starts the agent in it. The error is for people.
pub(crate) fn start(launch: &AgentLaunch<'_>, size: WindowSize) -> Result<(AgentPty, ProcessRef), String> {
    launch.check()?;
    let (pty, slave) = Pty::open(size.rows, size.cols).map_err(|error| no_terminal(&error))?;
    let extra = [("TERM", TERM), ("COLORTERM", "truecolor")];
    let agent = launch.launch(&extra, ChildStdio::Terminal(slave.as_fd()))?;
    Ok((AgentPty { pty }, agent))
}

fn no_terminal(error: &io::Error) -> String {
    format!("cannot make a terminal: {error} (is the limit in /proc/sys/kernel/pty/max reached?)")
}
