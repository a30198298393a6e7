//! Processes that listen on a port, and their sessions.

use berth_api::{Problem, ProblemCode};
use berth_host::identity;
use berth_host::ports::{self, PortOwners};
use berth_procs::attribution;
use schemars::JsonSchema;
use serde::Serialize;

use crate::context::VerbContext;
use crate::ps;

/// A process that listens on the port.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PortHolder")]
pub struct PortHolder {
    /// Process id; null if we may not examine the process.
    pub pid: Option<u32>,
    /// User id, if nothing else is known.
    pub uid: Option<u32>,
    /// Address on which the process listens.
    pub address: String,
    /// Id of the session that the process belongs to; null if it is not of berth.
    pub session: Option<String>,
    /// Name of that session.
    pub name: Option<String>,
    /// State directory of that session, if it is not this one.
    pub home: Option<String>,
    /// Command line of the process, with secrets redacted.
    pub command: Option<String>,
    /// The command line for a narrow column.
    #[serde(skip)]
    pub short_command: Option<String>,
}

/// The processes that listen on this port; an error if there are none.
pub fn holders(ctx: &VerbContext, port: u16) -> Result<Vec<PortHolder>, Problem> {
    let trouble =
        |error| Problem::refused(format!("cannot find the processes that listen on port {port}: {error}"));
    let found = ports::processes_on_port(port).map_err(trouble)?;
    let mut holders = Vec::new();
    for listening in &found.listening {
        holders.push(holder(ctx, listening.pid, listening.address.to_string())?);
    }
    holders.extend(found.unowned.iter().map(|unowned| PortHolder {
        pid: None,
        uid: Some(unowned.uid),
        address: unowned.address.to_string(),
        session: None,
        name: None,
        home: None,
        command: None,
        short_command: None,
    }));
    if holders.is_empty() { Err(unowned_port(port, &found)) } else { Ok(holders) }
}

fn holder(ctx: &VerbContext, pid: u32, address: String) -> Result<PortHolder, Problem> {
    let command = identity::process_stat(pid).ok().map(|process| ps::redacted_command(&process));
    let (command, short_command) = command.map(|command| (command.full, command.short)).unzip();
    let owner = match attribution::attribute_process(&ctx.home, pid) {
        Ok(owner) => Some(owner),
        // The process ended while it was examined.
        Err(problem) if problem.code == ProblemCode::NotFound => None,
        Err(problem) => return Err(problem),
    };
    let (session, name, home) =
        owner.map(|owner| (owner.session, owner.name, owner.home)).unwrap_or_default();
    let home = home.map(|home| home.display().to_string());
    Ok(PortHolder { pid: Some(pid), uid: None, address, session, name, home, command, short_command })
}

fn unowned_port(port: u16, found: &PortOwners) -> Problem {
    let what = format!("no process listens on port {port}");
    match found.unreadable {
        0 => Problem::not_found(what),
        // Sockets of other users' processes are in the tables as well, unless they are in a network namespace of their
        // own.
        count => Problem::not_found(format!(
            "{what}, as far as berth can see: {count} processes of other users could not be examined"
        ))
        .hint("only processes in other network namespaces (containers) can be missing; root sees all"),
    }
}
