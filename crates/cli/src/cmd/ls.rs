//! `berth ls`: the sessions there are.

use berth_api::{Code, Problem, Status};
use berth_keeper::view;

use crate::args::Ls;
use crate::ctx::{Ctx, is_unrecorded_loss};
use crate::print;

/// What stopped longer ago than this is not listed without `--all`.
const RECENT_MS: u64 = 24 * 3600 * 1000;

pub(crate) fn run(ctx: &Ctx, args: &Ls) -> Result<u8, Problem> {
    let ids = ctx.home.session_ids().map_err(|error| {
        Problem::new(Code::Refused, format!("cannot list {}: {error}", ctx.home.sessions_dir().display()))
    })?;
    let now = berth_host::clock::wall_ms();
    let mut listed = Vec::new();
    let mut older = 0;
    let mut damaged = Vec::new();
    for id in ids {
        let known = view::status(&ctx.home, &id).and_then(|status| {
            // A loss nobody has recorded yet: what the run left behind is ended now.
            if is_unrecorded_loss(&status) { ctx.healed(&id) } else { Ok((status, None)) }
        });
        match known {
            Ok((status, trouble)) => {
                damaged.extend(trouble);
                let over_since = status.ended_at.filter(|_| status.state == "stopped");
                if args.all || over_since.is_none_or(|ended| now.saturating_sub(ended.0) < RECENT_MS) {
                    listed.push(status);
                } else {
                    older += 1;
                }
            }
            // Being made this very moment, or given up before anything was said in it.
            Err(problem) if problem.code == Code::NotFound => {}
            Err(problem) => damaged.push(problem),
        }
    }
    listed.sort_by_key(|status| (rank(&status.state), std::cmp::Reverse(status.last_activity_at)));
    if args.json {
        print::json(&listed)?;
    } else {
        print::text(&table(&listed))?;
        if older > 0 {
            print::note(&format!("{older} more stopped over a day ago: `berth ls --all`"));
        } else if listed.is_empty() {
            print::note(
                "no sessions yet: `berth run -- COMMAND` starts one, `berth demo` shows how it works",
            );
        }
    }
    for problem in &damaged {
        print::problem(problem);
    }
    Ok(if damaged.is_empty() { 0 } else { Code::Refused.exit_code() })
}

pub(crate) fn rank(state: &str) -> u8 {
    match state {
        "needs-you" => 0,
        "lost" => 1,
        "starting" | "running" | "working" | "stopping" => 2,
        "idle" => 3,
        _ => 4,
    }
}

fn table(listed: &[Status]) -> String {
    if listed.is_empty() {
        return String::new();
    }
    let cell = |status: &Status| status.name.clone().unwrap_or_else(|| "-".to_owned());
    let names: Vec<String> = listed.iter().map(cell).collect();
    let name_width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    let width = crate::tty::size().map_or(usize::MAX, |size| usize::from(size.cols));
    let fixed = 12 + 2 + name_width + 2 + 9 + 2 + 6 + 2 + 6 + 2;
    let room = width.saturating_sub(fixed).max(10);
    let mut text =
        format!("{:12}  {:name_width$}  {:9}  {:6}  {:6}  COMMAND\n", "ID", "NAME", "STATE", "AGE", "ACTIVE");
    for (status, name) in listed.iter().zip(names) {
        let ending = print::ending(status).filter(|_| status.state == "stopped" && status.exit != Some(0));
        let mut command = print::command_line(&status.what.command, room);
        if let Some(ending) = ending {
            let short = ending.split(',').next().unwrap_or_default();
            command = print::command_line(&status.what.command, room.saturating_sub(short.len() + 3));
            command.push_str(&format!(" ({short})"));
        }
        text.push_str(&format!(
            "{:12}  {name:name_width$}  {}  {:6}  {:6}  {command}\n",
            status.id,
            print::painted(&status.state, 9),
            print::ago(status.created_at),
            print::ago(status.last_activity_at),
        ));
    }
    text
}
