//! `berth ps --port`: whose port is it?

use berth_api::{Code, Problem};
use berth_host::identity;
use berth_host::ports::{self, Holders};
use berth_keeper::whose;
use berth_verbs::ps;
use serde::Serialize;

use crate::ctx::Ctx;
use crate::print;

/// A process that has the port.
#[derive(Serialize)]
struct Holder {
    /// Nothing for one that we may not look into.
    pid: Option<u32>,
    /// The user, where that is all that is known.
    uid: Option<u32>,
    address: String,
    /// The session it belongs to; nothing if it is not of berth.
    session: Option<String>,
    name: Option<String>,
    /// Where that session lives, if not in this state directory.
    home: Option<String>,
    command: Option<String>,
    #[serde(skip)]
    short_command: Option<String>,
}

pub(crate) fn run(ctx: &Ctx, port: u16, json: bool) -> Result<u8, Problem> {
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
    if json {
        print::json(&holders)?;
    } else {
        print::text(&table(&holders))?;
    }
    if holders.is_empty() { Err(nobody(port, &found)) } else { Ok(0) }
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
    let what = format!("nobody listens on port {port}");
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

fn table(holders: &[Holder]) -> String {
    let rows: Vec<[String; 4]> = holders
        .iter()
        .map(|holder| {
            let session = match (&holder.session, &holder.name, &holder.home) {
                (Some(_), Some(name), _) => name.clone(),
                (Some(id), None, Some(home)) => format!("{id} in {home}"),
                (Some(id), None, None) => id.clone(),
                (None, _, _) if holder.pid.is_none() => "cannot tell".to_owned(),
                (None, _, _) => "not of berth".to_owned(),
            };
            let command = match (&holder.short_command, holder.uid) {
                (Some(command), _) => command.clone(),
                (None, Some(uid)) => format!("(of user {uid}; only they and root may look into it)"),
                (None, None) => "(ended meanwhile)".to_owned(),
            };
            let pid = holder.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
            [pid, holder.address.clone(), session, command]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let widest = |column: usize, heading: &str| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(heading.len())
    };
    let (pid, address, session) = (widest(0, "PID"), widest(1, "ADDRESS"), widest(2, "SESSION"));
    let width = crate::tty::size().map_or(usize::MAX, |size| usize::from(size.cols));
    let room = width.saturating_sub(pid + address + session + 6).max(10);
    let mut text = format!("{:>pid$}  {:address$}  {:session$}  COMMAND\n", "PID", "ADDRESS", "SESSION");
    for [number, place, owner, command] in &rows {
        let command = print::cut(command, room);
        text.push_str(&format!("{number:>pid$}  {place:address$}  {owner:session$}  {command}\n"));
    }
    text
}
