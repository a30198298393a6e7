//! The `pty` driver: any command in a terminal of its own.

use std::io;
use std::os::fd::AsFd;

use berth_api::message::Size;
use berth_core::Process;
use berth_host::pty::Pty;
use berth_host::spawn::Stdio;

use super::Launch;

/// The kind of terminal that the agent is told of. The keeper's emulator and every client's restore
/// speak this, whatever terminal the first client happened to have.
const TERM: &str = "xterm-256color";

/// A terminal with an agent in it.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// The keeper's end.
    pub(crate) pty: Pty,
}

/// Makes a terminal and starts the agent in it. The error is for people.
pub(crate) fn start(launch: &Launch<'_>, size: Size) -> Result<(Terminal, Process), String> {
    launch.check()?;
    let (pty, slave) = Pty::open(size.rows, size.cols).map_err(|error| no_terminal(&error))?;
    let extra = [("TERM", TERM), ("COLORTERM", "truecolor")];
    let agent = launch.launch(&extra, Stdio::Terminal(slave.as_fd()))?;
    Ok((Terminal { pty }, agent))
}

fn no_terminal(error: &io::Error) -> String {
    format!("cannot make a terminal: {error} (is the limit in /proc/sys/kernel/pty/max reached?)")
}
