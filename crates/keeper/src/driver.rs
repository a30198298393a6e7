//! Starting an agent: in a terminal, or on pipes to talk to it with one of [`berth_driver`]'s protocols.

pub(crate) mod pipes;
pub(crate) mod pty;

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_core::{Process, SessionId, Spec};
use berth_driver::{AgentTraits, Driver};
use berth_host::identity::HOST_IS_DOWN;
use berth_host::spawn::{Child, Spawn, Stdio, find_program, spawn};
use berth_store::process;

use crate::boundary::Contained;

/// The driver of an agent of this kind in this session; `None` for a terminal, and for an unknown driver.
pub(crate) fn of(driver: &str, session: &SessionId) -> Option<Box<dyn Driver>> {
    berth_driver::of(driver, session.as_str())
}

/// The spec of a new session, with the traits that its rules need.
pub(crate) fn with_traits(spec: Spec) -> Spec {
    Spec { terminal: AgentTraits::of(&spec.conversation).terminal, ..spec }
}

/// The start of one agent.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// The directory and the user's variables.
    pub(crate) spec: &'a Spec,
    /// Program and arguments.
    pub(crate) command: &'a [String],
    /// The variables that the keeper sets.
    pub(crate) variables: &'a [(&'a str, String)],
    /// The lock that the whole run inherits.
    pub(crate) run_lock: &'a OwnedFd,
    /// The group and limits of the run.
    pub(crate) contained: &'a Contained,
}

impl Launch<'_> {
    /// Starts the agent. The error is for people.
    fn launch(&self, extra: &[(&str, &str)], stdio: Stdio<'_>) -> Result<Process, String> {
        let cwd = Path::new(&self.spec.cwd);
        let env = environment(self.spec, extra, self.variables);
        let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let name = self.command.first().ok_or("the command is empty")?;
        let program = find_program(name.as_ref(), path, cwd).map_err(|error| error.to_string())?;
        let args: Vec<OsString> = self.command.iter().map(Into::into).collect();
        let child: Child = spawn(&Spawn {
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
        let agent = berth_host::identity::Identity::of(child.pid).map_err(|error| {
            let _ = child.pidfd.signal(rustix::process::Signal::KILL.as_raw());
            format!("cannot identify the agent's process {}: {error}", child.pid)
        })?;
        Ok(process::process(agent))
    }

    /// Refuses before anything is made.
    fn check(&self) -> Result<(), String> {
        let cwd = Path::new(&self.spec.cwd);
        if cwd.is_dir() { Ok(()) } else { Err(format!("the directory {} is not there", cwd.display())) }
    }
}

/// The variables of the caller, the driver, the user and the keeper; later ones win.
fn environment(
    spec: &Spec,
    extra: &[(&str, &str)],
    variables: &[(&str, String)],
) -> Vec<(OsString, OsString)> {
    let ours = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let extra = extra.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let theirs = spec.env.iter().map(|(name, value)| (name.into(), value.into()));
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    // A user's word for one command, which an agent must not inherit.
    env.retain(|(name, _)| name != HOST_IS_DOWN);
    for (name, value) in extra.chain(theirs).chain(ours) {
        env.retain(|(known, _)| *known != name);
        env.push((name, value));
    }
    env
}

/// A variable as the agent of this session sees it.
pub(crate) fn variable(spec: &Spec, name: &str) -> Option<OsString> {
    let given = spec.env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.into());
    given.or_else(|| std::env::var_os(name))
}
