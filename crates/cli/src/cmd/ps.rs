//! `berth ps`: lists the processes of sessions.

use berth_api::{Problem, ProblemCode};
use berth_verbs::ps::{self, SessionProcess, SessionProcesses};

use crate::args::PsArgs;
use crate::cmd::port;
use crate::ctx::CommandContext;
use crate::print;

/// The widest column of ports; the rest is in `--json`.
const WIDEST_PORTS: usize = 24;

pub(crate) fn run(ctx: &CommandContext, args: &PsArgs) -> Result<u8, Problem> {
    if let Some(port) = args.port {
        return port::run(ctx, port, args.json);
    }
    let named = args.session.as_ref().or(ctx.session.as_ref());
    let (blocks, trouble) = match named {
        Some(named) => (vec![ps::of_session(ctx, &ctx.find(named)?)?], Vec::new()),
        None => ps::of_all(ctx)?,
    };
    if args.json {
        print::json(&blocks)?;
    } else {
        print::text(
            &blocks.iter().filter(|block| !block.is_empty()).map(table).collect::<Vec<_>>().join("\n"),
        )?;
        match blocks.as_slice() {
            [] => print::note("no session runs: `berth ls --all` lists all sessions"),
            [only] if only.is_empty() => {
                let handle = named.map_or(only.handle(), String::as_str);
                print::note(&format!("no process of `{handle}` runs"));
            }
            _ => {}
        }
    }
    for problem in &trouble {
        print::problem(problem);
    }
    Ok(if trouble.is_empty() { 0 } else { ProblemCode::Refused.exit_code() })
}

fn table(block: &SessionProcesses) -> String {
    let rows = &block.processes;
    let ports: Vec<String> =
        rows.iter().map(|row| print::truncate(&row.short_ports.join(","), WIDEST_PORTS)).collect();
    let ports_width = ports.iter().map(|ports| ports.chars().count()).max().unwrap_or(0).max("PORTS".len());
    let width = crate::tty::terminal_size().map_or(usize::MAX, |size| usize::from(size.cols));
    let fixed = 7 + 2 + 8 + 2 + 5 + 2 + 5 + 2 + ports_width + 2;
    let room = width.saturating_sub(fixed).max(10);
    let mut text = match &block.name {
        Some(name) => format!("{name} ({})\n", block.session),
        None => format!("{}\n", block.session),
    };
    let heading = format!(
        "{:>7}  {:>8}  {:>5}  {:>5}  {:ports_width$}  COMMAND",
        "PID", "MEMORY", "CPU", "AGE", "PORTS"
    );
    text.push_str(&format!("{heading}\n"));
    for ((row, ports), branch) in rows.iter().zip(&ports).zip(branches(rows)) {
        let mut remarks = String::new();
        if row.astray {
            remarks.push_str(" (not below the keeper)");
        }
        if row.state == "suspended" {
            remarks.push_str(" (suspended)");
        }
        let left = room.saturating_sub(branch.chars().count() + remarks.len()).max(8);
        text.push_str(&format!(
            "{:>7}  {:>8}  {:>5}  {:>5}  {ports:ports_width$}  {branch}{}{remarks}\n",
            row.pid,
            print::describe_size(row.memory_bytes),
            print::describe_age(row.cpu_ms),
            print::describe_age(row.age_ms),
            print::truncate(&row.short_command, left),
        ));
    }
    let processes = if rows.len() == 1 { "process" } else { "processes" };
    text.push_str(&format!("{} {processes}, {}\n", rows.len(), print::describe_size(block.memory_bytes)));
    text
}

/// The lines drawn before each command, which show the parent of each process.
fn branches(rows: &[SessionProcess]) -> Vec<String> {
    // For each row, the index of its parent's row.
    let parent =
        |row: &SessionProcess| rows.iter().position(|other| other.pid == row.ppid && other.pid != row.pid);
    let parents: Vec<Option<usize>> = rows.iter().map(parent).collect();
    let is_last = |at: usize| parents[at + 1..].iter().all(|parent| *parent != parents[at]);
    let mut branches: Vec<String> = Vec::with_capacity(rows.len());
    let mut trunks: Vec<String> = Vec::with_capacity(rows.len());
    for (at, parent) in parents.iter().enumerate() {
        // A parent comes before its children.
        let above = parent.and_then(|parent| trunks.get(parent)).cloned();
        let (branch, trunk) = match (above, is_last(at)) {
            (None, _) => (String::new(), String::new()),
            (Some(above), true) => (format!("{above}└─ "), format!("{above}   ")),
            (Some(above), false) => (format!("{above}├─ "), format!("{above}│  ")),
        };
        branches.push(branch);
        trunks.push(trunk);
    }
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, ppid: u32) -> SessionProcess {
        SessionProcess {
            pid,
            ppid,
            role: "process",
            astray: false,
            memory_bytes: 0,
            cpu_ms: 0,
            age_ms: 0,
            state: "sleeping",
            ports: Vec::new(),
            command: String::new(),
            short_ports: Vec::new(),
            short_command: String::new(),
        }
    }

    #[test]
    fn a_tree_is_drawn_with_every_branch_to_its_end() {
        let rows = [row(1, 0), row(2, 1), row(3, 2), row(4, 2), row(5, 1), row(6, 5), row(9, 7)];
        assert_eq!(branches(&rows), ["", "├─ ", "│  ├─ ", "│  └─ ", "└─ ", "   └─ ", ""]);
    }
}
