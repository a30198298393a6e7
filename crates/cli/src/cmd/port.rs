//! `berth ps --port`: whose port is it?

use berth_api::{Code, Problem};
use berth_verbs::port::{self, Holder};

use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx, port: u16, json: bool) -> Result<u8, Problem> {
    let found = port::holders(ctx, port);
    // Nobody is a problem, and to a program an empty list, too.
    let holders = match &found {
        Ok(holders) => holders.as_slice(),
        Err(problem) if problem.code == Code::NotFound => &[],
        Err(_) => return found.map(|_| 0),
    };
    if json {
        print::json(&holders)?;
    } else {
        print::text(&table(holders))?;
    }
    found.map(|_| 0)
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
