//! The processes of sessions: tree, memory, ports.
//!
//! Promise: looking changes nothing; no secret of a command line is told.
//! Not here: which processes are of a session (see `berth_keeper::members`), tables (see the CLI).
//! Start with [`of_session`].

use berth_api::{Code, Problem, SessionState, redact};
use berth_core::SessionId;
use berth_host::identity::ProcessStat;
use berth_host::ports::{self, Address, Listening};
use berth_keeper::members::{Evidence, Member, Members, Role};
use berth_store::{Home, view};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ctx::Ctx;

/// The processes of one session.
pub fn of_session(ctx: &Ctx, id: &SessionId) -> Result<Block, Problem> {
    let found = look(&ctx.home, &Evidence::gather()?, id.clone())?;
    let listening = listening(std::slice::from_ref(&found))?;
    Ok(block(&found, &listening))
}

/// The processes of every session and helper of which something runs, and what could not be looked at.
pub fn of_all(ctx: &Ctx) -> Result<(Vec<Block>, Vec<Problem>), Problem> {
    let evidence = Evidence::gather()?;
    let (mut found, mut trouble) = (Vec::new(), Vec::new());
    for (shelf, id) in what_runs(ctx)? {
        match look(&shelf, &evidence, id) {
            Ok(session) => found.push(session),
            Err(problem) => trouble.push(problem),
        }
    }
    let listening = listening(&found)?;
    Ok((found.iter().map(|session| block(session, &listening)).collect(), trouble))
}

/// What they listen on. Once for all: the kernel's tables are the same for each.
fn listening(found: &[Found]) -> Result<Vec<Listening>, Problem> {
    let members = found.iter().flat_map(|session| &session.members.processes);
    let pids: Vec<u32> = members.map(|member| member.process.pid).collect();
    ports::listening(&pids)
        .map_err(|error| Problem::new(Code::Refused, format!("cannot look for listening sockets: {error}")))
}

/// What is told about one session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionProcesses")]
pub struct Block {
    /// The session's id, or the helper's.
    pub session: String,
    /// What people call it; of a helper with `helper` in front.
    pub name: Option<String>,
    /// The keeper's process, if there is one.
    pub keeper_pid: Option<u32>,
    /// What of it runs, each behind its parent.
    pub processes: Vec<Row>,
    /// Memory: its share of what is shared.
    pub memory_bytes: u64,
}

/// What is told about one process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionProcess")]
pub struct Row {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub ppid: u32,
    /// `keeper`, `agent` or `process`.
    pub role: &'static str,
    /// It is of the run, but not below the keeper.
    pub astray: bool,
    /// Memory: its share of what is shared.
    pub memory_bytes: u64,
    /// Processor time used.
    pub cpu_ms: u64,
    /// Its age.
    pub age_ms: u64,
    /// `running`, `sleeping`, `blocked`, `suspended`, `traced` or `ended`.
    pub state: &'static str,
    /// What it listens on.
    pub ports: Vec<String>,
    /// Its command line, without secrets.
    pub command: String,
    /// The same for a narrow column.
    #[serde(skip)]
    pub short_ports: Vec<String>,
    /// The same for a narrow column.
    #[serde(skip)]
    pub short_command: String,
}

impl Block {
    /// Whether nothing of it runs.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// How people address it.
    pub fn handle(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.session)
    }
}

/// The sessions and helpers of which something may run, by when they were made.
fn what_runs(ctx: &Ctx) -> Result<Vec<(Home, SessionId)>, Problem> {
    let mut live = Vec::new();
    for shelf in ctx.home.shelves() {
        let from = live.len();
        let ids = shelf.list()?;
        for id in ids {
            match view::status(&shelf, &id) {
                Ok(status) if matches!(status.state, SessionState::Stopped | SessionState::Archived) => {}
                Ok(status) if status.state == SessionState::Lost && !status.is_unrecorded_loss() => {}
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
pub struct Command {
    /// All of it.
    pub full: String,
    /// Without the directories that the program is in: for a narrow column.
    pub short: String,
}

/// The command line of any process.
pub fn command(process: &ProcessStat) -> Command {
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
pub fn short(address: &Address) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
