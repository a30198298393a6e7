//! The `pty` driver: any command in a terminal of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_api::message::Size;
use berth_core::{Process, Spec};
use berth_host::pty::Pty;
use berth_host::spawn::{Child, Spawn, Stdio, find_program, spawn};

use crate::boundary::Contained;
use crate::recover;

/// What the agent is told about its terminal. The keeper's emulator and every client's restore
/// speak this, whatever terminal the first client happened to have.
const TERM: &str = "xterm-256color";

/// A terminal with an agent in it.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// Our end.
    pub(crate) pty: Pty,
}

/// Makes a terminal and starts the agent in it. The error is for people.
pub(crate) fn start(
    spec: &Spec,
    variables: &[(&str, String)],
    size: Size,
    run_lock: &OwnedFd,
    contained: &Contained,
) -> Result<(Terminal, Process), String> {
    let cwd = Path::new(&spec.cwd);
    if !cwd.is_dir() {
        return Err(format!("the directory {} is not there", cwd.display()));
    }
    let env = environment(spec, variables);
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let name = spec.command.first().ok_or("the command is empty")?;
    let program = find_program(name.as_ref(), path, cwd).map_err(|error| error.to_string())?;
    let args: Vec<OsString> = spec.command.iter().map(Into::into).collect();
    let (pty, slave) = Pty::open(size.rows, size.cols).map_err(|error| no_terminal(&error))?;
    let child: Child = spawn(&Spawn {
        program: &program,
        args: &args,
        env: &env,
        cwd,
        stdio: Stdio::Terminal(slave.as_fd()),
        keep: &[run_lock.as_fd()],
        cgroup: contained.birthplace(),
        joins: &contained.joins(),
    })
    .map_err(|error| error.to_string())?;
    let agent = berth_host::identity::Identity::of(child.pid).map_err(|error| {
        let _ = child.pidfd.signal(rustix::process::Signal::KILL.as_raw());
        format!("cannot identify the agent's process {}: {error}", child.pid)
    })?;
    Ok((Terminal { pty }, recover::process(agent)))
}

fn no_terminal(error: &io::Error) -> String {
    format!("cannot make a terminal: {error} (is the limit in /proc/sys/kernel/pty/max reached?)")
}

/// The caller's environment, then what we say, then what the person said.
fn environment(spec: &Spec, variables: &[(&str, String)]) -> Vec<(OsString, OsString)> {
    let ours = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let terminal =
        [("TERM", TERM), ("COLORTERM", "truecolor")].map(|(name, value)| (name.into(), value.into()));
    let theirs = spec.env.iter().map(|(name, value)| (name.into(), value.into()));
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in terminal.into_iter().chain(theirs).chain(ours) {
        env.retain(|(known, _)| *known != name);
        env.push((name, value));
    }
    env
}
