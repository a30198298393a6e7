//! Who listens on a port, and whose they are.

use berth_api::{Code, Problem};
use berth_host::identity;
use berth_host::ports::{self, Holders};
use berth_keeper::whose;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ctx::Ctx;
use crate::ps;

/// A process that has the port.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PortHolder")]
pub struct Holder {
    /// Nothing for one that we may not look into.
    pub pid: Option<u32>,
    /// The user, where that is all that is known.
    pub uid: Option<u32>,
    /// What it listens on.
    pub address: String,
    /// The session it belongs to; nothing if it is not of berth.
    pub session: Option<String>,
    /// What people call that session.
    pub name: Option<String>,
    /// Where that session lives, if not in this state directory.
    pub home: Option<String>,
    /// Its command line, without secrets.
    pub command: Option<String>,
    /// The same for a narrow column.
    #[serde(skip)]
    pub short_command: Option<String>,
}

/// Everybody who has this port; nobody is a problem.
pub fn holders(ctx: &Ctx, port: u16) -> Result<Vec<Holder>, Problem> {
    let trouble = |error| Problem::new(Code::Refused, format!("cannot look who has port {port}: {error}"));
    let found = ports::holders(port).map_err(trouble)?;
    let mut holders = Vec::new();
    for listening in &found.listening {
        holders.push(holder(ctx, listening.pid, listening.address.to_string())?);
    }
    holders.extend(found.unowned.iter().map(|unowned| Holder {
        pid: None,
        uid: Some(unowned.uid),
        address: unowned.address.to_string(),
        session: None,
        name: None,
        home: None,
        command: None,
        short_command: None,
    }));
    if holders.is_empty() { Err(nobody(port, &found)) } else { Ok(holders) }
}

fn holder(ctx: &Ctx, pid: u32, address: String) -> Result<Holder, Problem> {
    let command = identity::stat(pid).ok().map(|process| ps::command(&process));
    let (command, short_command) = command.map(|command| (command.full, command.short)).unzip();
    let owner = match whose::whose(&ctx.home, pid) {
        Ok(owner) => Some(owner),
        // It ended while we looked.
        Err(problem) if problem.code == Code::NotFound => None,
        Err(problem) => return Err(problem),
    };
    let (session, name, home) =
        owner.map(|owner| (owner.session, owner.name, owner.home)).unwrap_or_default();
    let home = home.map(|home| home.display().to_string());
    Ok(Holder { pid: Some(pid), uid: None, address, session, name, home, command, short_command })
}

fn nobody(port: u16, found: &Holders) -> Problem {
    let what = format!("no process listens on port {port}");
    match found.unreadable {
        0 => Problem::new(Code::NotFound, what),
        // Their sockets are in the tables all the same, unless they are in a network of their own.
        count => Problem::new(
            Code::NotFound,
            format!("{what}, as far as can be seen: {count} processes of others could not be looked into"),
        )
        .hint("they count only if they have a network of their own, as containers do; root sees all"),
    }
}
