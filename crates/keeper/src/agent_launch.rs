//! Starting an agent: in a terminal, or on pipes to talk to it with one of [`berth_driver`]'s protocols.
//!
//! Promise: an agent that was started is identified, is in its group and inherits the run's lock; else the error
//! says why not.
//! Not here: reading and writing its bytes (see `keeper/agent_terminal`, `keeper/agent_link`).
//! Start with [`AgentLaunch`].

pub(crate) mod pipes;
pub(crate) mod pty;

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_core::{ProcessRef, SessionId, SessionSpec};
use berth_driver::{AgentTraits, Driver};
use berth_host::identity::HOST_IS_DOWN;
use berth_host::spawn::{ChildProcess, ChildStdio, SpawnOptions, find_program, spawn};
use berth_store::process_ref;

use berth_procs::run_cgroups::RunCgroups;

/// The driver of an agent of this kind in this session; `None` for a terminal, and for an unknown driver.
pub(crate) fn of(driver: &str, session: &SessionId) -> Option<Box<dyn Driver>> {
    berth_driver::driver_named(driver, session.as_str())
}

/// The spec of a new session, with the traits that its rules need.
pub(crate) fn with_traits(spec: SessionSpec) -> SessionSpec {
    SessionSpec { terminal: AgentTraits::of(&spec.conversation).terminal, ..spec }
}

/// The start of one agent.
#[derive(Clone, Copy)]
pub(crate) struct AgentLaunch<'a> {
    /// The directory and the user's variables.
    pub(crate) spec: &'a SessionSpec,
    /// Program and arguments.
    pub(crate) command: &'a [String],
    /// The variables that the keeper sets.
    pub(crate) variables: &'a [(&'a str, String)],
    /// The lock that the whole run inherits.
    pub(crate) run_lock: &'a OwnedFd,
    /// The group and limits of the run.
    pub(crate) contained: &'a RunCgroups,
}

impl AgentLaunch<'_> {
    /// Starts the agent. The error is for people.
    fn launch(&self, extra: &[(&str, &str)], stdio: ChildStdio<'_>) -> Result<ProcessRef, String> {
        let cwd = Path::new(&self.spec.cwd);
        let env = environment(self.spec, extra, self.variables);
        let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let name = self.command.first().ok_or("the command is empty")?;
        let program = find_program(name.as_ref(), path, cwd).map_err(|error| error.to_string())?;
        let args: Vec<OsString> = self.command.iter().map(Into::into).collect();
        let child: ChildProcess = spawn(&SpawnOptions {
            program: &program,
            args: &args,
            env: &env,
            cwd,
            stdio,
            keep: &[self.run_lock.as_fd()],
            cgroup: self.contained.birthplace(),
            joins: &self.contained.joins(),
        })
        .map_err(|error| error.to_string())?;
        let agent = berth_host::identity::ProcessIdentity::of(child.pid).map_err(|error| {
            let _ = child.pidfd.signal(rustix::process::Signal::KILL.as_raw());
            format!("cannot identify the agent's process {}: {error}", child.pid)
        })?;
        Ok(process_ref::to_process_ref(agent))
    }

    /// Checks the request before anything is made.
    fn check(&self) -> Result<(), String> {
        let cwd = Path::new(&self.spec.cwd);
        if cwd.is_dir() { Ok(()) } else { Err(format!("the directory {} does not exist", cwd.display())) }
    }
}

/// The variables of the caller, the driver, the user and the keeper; later ones win.
fn environment(
    spec: &SessionSpec,
    extra: &[(&str, &str)],
    variables: &[(&str, String)],
) -> Vec<(OsString, OsString)> {
    let ours = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let extra = extra.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let theirs = spec.env.iter().map(|(name, value)| (name.into(), value.into()));
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    // A user sets this variable for one command; an agent must not inherit it.
    env.retain(|(name, _)| name != HOST_IS_DOWN);
    for (name, value) in extra.chain(theirs).chain(ours) {
        env.retain(|(known, _)| *known != name);
        env.push((name, value));
    }
    env
}
