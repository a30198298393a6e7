//! `berth ps`: the processes of sessions.

use berth_api::{Code, Problem, redact};
use berth_core::SessionId;
use berth_host::identity::ProcessStat;
use berth_host::ports::{self, Address, Listening};
use berth_keeper::members::{Evidence, Member, Members, Role};
use berth_keeper::{Home, view};
use serde::Serialize;

use crate::args::Ps;
use crate::cmd::port;
use crate::ctx::{Ctx, is_unrecorded_loss};
use crate::print;

/// The widest column of ports; the rest is in `--json`.
const WIDEST_PORTS: usize = 24;

pub(crate) fn run(ctx: &Ctx, args: &Ps) -> Result<u8, Problem> {
    if let Some(port) = args.port {
        return port::run(ctx, port, args.json);
    }
    let evidence = Evidence::gather()?;
    let mut found = Vec::new();
    let mut trouble = Vec::new();
    if let Some(named) = args.session.as_ref().or(ctx.session.as_ref()) {
        found.push(look(&ctx.home, &evidence, ctx.find(named)?)?);
    } else {
        for (shelf, id) in what_runs(ctx)? {
            match look(&shelf, &evidence, id) {
                Ok(session) => found.push(session),
                Err(problem) => trouble.push(problem),
            }
        }
    }
    // Once for all: the kernel's tables are the same for each.
    let members = found.iter().flat_map(|session| &session.members.processes);
    let pids: Vec<u32> = members.map(|member| member.process.pid).collect();
    let listening = ports::listening(&pids).map_err(|error| {
        Problem::new(Code::Refused, format!("cannot look for listening sockets: {error}"))
    })?;
    let blocks: Vec<Block> = found.iter().map(|session| block(session, &listening)).collect();
    if args.json {
        print::json(&blocks)?;
    } else {
        print::text(
            &blocks.iter().filter(|block| !block.is_empty()).map(table).collect::<Vec<_>>().join("\n"),
        )?;
        match blocks.as_slice() {
            [] => print::note("nothing runs: `berth ls --all` lists what there is"),
            [only] if only.is_empty() => print::note(&format!("nothing of `{}` runs", only.handle())),
            _ => {}
        }
    }
    for problem in &trouble {
        print::problem(problem);
    }
    Ok(if trouble.is_empty() { 0 } else { Code::Refused.exit_code() })
}

/// What is told about one session.
#[derive(Serialize)]
struct Block {
    session: String,
    name: Option<String>,
    keeper_pid: Option<u32>,
    processes: Vec<Row>,
    memory_bytes: u64,
}

/// What is told about one process.
#[derive(Serialize)]
struct Row {
    pid: u32,
    ppid: u32,
    role: &'static str,
    astray: bool,
    memory_bytes: u64,
    cpu_ms: u64,
    age_ms: u64,
    state: &'static str,
    ports: Vec<String>,
    command: String,
    #[serde(skip)]
    short_ports: Vec<String>,
    #[serde(skip)]
    short_command: String,
}

impl Block {
    fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    fn handle(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.session)
    }
}

/// The sessions and helpers of which something may run, by when they were made.
fn what_runs(ctx: &Ctx) -> Result<Vec<(Home, SessionId)>, Problem> {
    let mut live = Vec::new();
    for shelf in ctx.home.shelves() {
        let from = live.len();
        let ids = shelf.session_ids().map_err(|error| {
            Problem::new(Code::Refused, format!("cannot list {}: {error}", shelf.sessions_dir().display()))
        })?;
        for id in ids {
            match view::status(&shelf, &id) {
                Ok(status) if matches!(status.state.as_str(), "stopped" | "archived") => {}
                Ok(status) if status.state == "lost" && !is_unrecorded_loss(&status) => {}
                Ok(status) => live.push((status.created_at, shelf.clone(), id)),
                // Being made this very moment, or given up before anything was said in it.
                Err(problem) if problem.code == Code::NotFound => {}
                // The damage is told when its processes are looked for.
                Err(_) => live.push((berth_api::Timestamp::default(), shelf.clone(), id)),
            }
        }
        live[from..].sort_by_key(|(created_at, _, _)| *created_at);
    }
    Ok(live.into_iter().map(|(_, shelf, id)| (shelf, id)).collect())
}

/// A session and what of it runs.
struct Found {
    id: SessionId,
    name: Option<String>,
    members: Members,
}

fn look(shelf: &Home, evidence: &Evidence, id: SessionId) -> Result<Found, Problem> {
    let members = evidence.members(shelf, &id)?;
    let status = view::history(shelf, &id)?.status(&id, true);
    let helper = status.helper.map(|helper| format!("helper {}", helper.name));
    Ok(Found { id, name: status.name.or(helper), members })
}

fn block(session: &Found, listening: &[Listening]) -> Block {
    let Found { id, name, members } = session;
    let processes: Vec<Row> = in_tree_order(members).iter().map(|member| row(member, listening)).collect();
    Block {
        session: id.to_string(),
        name: name.clone(),
        keeper_pid: members.keeper().map(|keeper| keeper.pid),
        memory_bytes: processes.iter().map(|row| row.memory_bytes).sum(),
        processes,
    }
}

fn row(member: &Member, listening: &[Listening]) -> Row {
    let process = &member.process;
    let command = command(process);
    let opened = process.open().ok();
    // The share of memory adds up; where it may not be seen, the size is the best there is.
    let pss = opened.as_ref().and_then(|opened| opened.pss_bytes().ok());
    let listening = listening.iter().filter(|listening| listening.pid == process.pid);
    let addresses: Vec<&Address> = listening.map(|listening| &listening.address).collect();
    let mut short_ports: Vec<String> = match member.role {
        // Every keeper has its socket; that is no news.
        Role::Keeper => Vec::new(),
        Role::Agent | Role::Process => addresses.iter().map(|address| short(address)).collect(),
    };
    short_ports.dedup();
    Row {
        pid: process.pid,
        ppid: process.ppid,
        role: match member.role {
            Role::Keeper => "keeper",
            Role::Agent => "agent",
            Role::Process => "process",
        },
        astray: member.astray,
        memory_bytes: pss.unwrap_or_else(|| process.rss_bytes()),
        cpu_ms: process.cpu_ms(),
        age_ms: process.age_ms(),
        state: state(process.state),
        ports: addresses.iter().map(ToString::to_string).collect(),
        command: command.full,
        short_ports,
        // The heading says which session it keeps.
        short_command: if member.role == Role::Keeper { "berth keeper".to_owned() } else { command.short },
    }
}

/// The command line of a process, without its secrets.
pub(crate) struct Command {
    pub(crate) full: String,
    /// Without the directories that the program is in: for a narrow column.
    pub(crate) short: String,
}

/// The command line of any process.
pub(crate) fn command(process: &ProcessStat) -> Command {
    let argv = process.open().and_then(|opened| opened.argv()).unwrap_or_default();
    let same = |text: String| Command { full: text.clone(), short: text };
    match argv.as_slice() {
        // It has none, or we may not see it.
        [] => same(redact::text(&format!("[{}]", process.comm))),
        // A title it gave itself, not a program with spaces in its name.
        [title] if title.contains(' ') => same(redact::text(title.trim_end())),
        [program, arguments @ ..] => {
            let name = program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(program);
            let short: Vec<String> = [name.to_owned()].into_iter().chain(arguments.iter().cloned()).collect();
            Command { full: redact::command_line(&argv), short: redact::command_line(&short) }
        }
    }
}

fn state(letter: char) -> &'static str {
    match letter {
        'R' => "running",
        'S' | 'I' => "sleeping",
        'D' => "blocked",
        'T' => "suspended",
        't' => "traced",
        _ => "ended",
    }
}

/// An address for a narrow column: what is open to this machine alone needs no address.
pub(crate) fn short(address: &Address) -> String {
    let (kind, ip, port) = match address {
        Address::Tcp { ip, port } => ("tcp", ip, port),
        Address::Udp { ip, port } => ("udp", ip, port),
        Address::Unix { path } => {
            let name = path
                .file_name()
                .map_or_else(|| path.display().to_string(), |name| name.display().to_string());
            return format!("unix:{name}");
        }
    };
    if ip.is_loopback() {
        format!("{kind}:{port}")
    } else if ip.is_unspecified() {
        format!("{kind}:*:{port}")
    } else {
        address.to_string()
    }
}

/// Every process after its parent; what has no parent among them comes last, but for the keeper.
fn in_tree_order(members: &Members) -> Vec<&Member> {
    let all = &members.processes;
    let has_parent = |member: &Member| all.iter().any(|other| other.process.pid == member.process.ppid);
    let mut ordered: Vec<&Member> = Vec::with_capacity(all.len());
    let mut next: Vec<&Member> = all.iter().rev().filter(|member| !has_parent(member)).collect();
    while let Some(member) = next.pop() {
        ordered.push(member);
        next.extend(all.iter().rev().filter(|child| child.process.ppid == member.process.pid));
    }
    ordered
}

fn table(block: &Block) -> String {
    let rows = &block.processes;
    let ports: Vec<String> =
        rows.iter().map(|row| print::cut(&row.short_ports.join(","), WIDEST_PORTS)).collect();
    let ports_width = ports.iter().map(|ports| ports.chars().count()).max().unwrap_or(0).max("PORTS".len());
    let width = crate::tty::size().map_or(usize::MAX, |size| usize::from(size.cols));
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
            print::size(row.memory_bytes),
            print::age(row.cpu_ms),
            print::age(row.age_ms),
            print::cut(&row.short_command, left),
        ));
    }
    let processes = if rows.len() == 1 { "process" } else { "processes" };
    text.push_str(&format!("{} {processes}, {}\n", rows.len(), print::size(block.memory_bytes)));
    text
}

/// What is drawn before each command to show whose child it is.
fn branches(rows: &[Row]) -> Vec<String> {
    // For each row: its parent's place in the list.
    let parent = |row: &Row| rows.iter().position(|other| other.pid == row.ppid && other.pid != row.pid);
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

    fn row(pid: u32, ppid: u32) -> Row {
        Row {
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

    #[test]
    fn what_only_this_machine_reaches_is_shown_by_its_port_alone() {
        let tcp = |ip: &str| short(&Address::Tcp { ip: ip.parse().expect("an address"), port: 80 });
        assert_eq!((tcp("127.0.0.1"), tcp("::1")), ("tcp:80".to_owned(), "tcp:80".to_owned()));
        assert_eq!((tcp("0.0.0.0"), tcp("::")), ("tcp:*:80".to_owned(), "tcp:*:80".to_owned()));
        assert_eq!(tcp("10.0.0.7"), "tcp:10.0.0.7:80");
        assert_eq!(short(&Address::Unix { path: "/run/x/a.sock".into() }), "unix:a.sock");
        assert_eq!(short(&Address::Unix { path: "@a".into() }), "unix:@a");
    }
}
