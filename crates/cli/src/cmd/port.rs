//! `berth ps --port`: finds the processes that listen on a port, and their sessions.

use berth_api::{Problem, ProblemCode};
use berth_verbs::port::{self, PortHolder};

use crate::ctx::CommandContext;
use crate::print;

pub(crate) fn run(ctx: &CommandContext, port: u16, json: bool) -> Result<u8, Problem> {
    let found = port::holders(ctx, port);
    // Without a holder there is a problem on standard error, and for programs also an empty list.
    let holders = match &found {
        Ok(holders) => holders.as_slice(),
        Err(problem) if problem.code == ProblemCode::NotFound => &[],
        Err(_) => return found.map(|_| 0),
    };
    if json {
        print::json(&holders)?;
    } else {
        print::text(&table(holders))?;
    }
    found.map(|_| 0)
}

fn table(holders: &[PortHolder]) -> String {
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
                (None, Some(uid)) => format!("(of user {uid}; only that user and root may read its command)"),
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
    let width = crate::tty::terminal_size().map_or(usize::MAX, |size| usize::from(size.cols));
    let room = width.saturating_sub(pid + address + session + 6).max(10);
    let mut text = format!("{:>pid$}  {:address$}  {:session$}  COMMAND\n", "PID", "ADDRESS", "SESSION");
    for [number, place, owner, command] in &rows {
        let command = print::truncate(command, room);
        text.push_str(&format!("{number:>pid$}  {place:address$}  {owner:session$}  {command}\n"));
    }
    text
}
