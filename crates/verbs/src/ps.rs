//! The processes of sessions: tree, memory, ports.
//!
//! Promise: reading changes nothing; secrets of command lines are redacted.
//! Not here: the attribution of processes to sessions (see `berth_procs::session_processes`), tables (see the CLI).
//! Start with [`of_session`].

use berth_api::{Problem, ProblemCode, SessionState, redact};
use berth_core::SessionId;
use berth_host::identity::ProcessStat;
use berth_host::ports::{self, ListeningSocket, SocketAddress};
use berth_procs::session_processes::{MemberProcess, MemberProcesses, ProcessRole, ProcessSnapshot};
use berth_store::{StateDir, session_status};
use schemars::JsonSchema;
use serde::Serialize;

use crate::context::VerbContext;

/// The processes of one session.
pub fn of_session(ctx: &VerbContext, id: &SessionId) -> Result<SessionProcesses, Problem> {
    let found = running_session(&ctx.home, &ProcessSnapshot::gather()?, id.clone())?;
    let listening = listening(std::slice::from_ref(&found))?;
    Ok(block(&found, &listening))
}

/// The processes of every running session and helper, and the errors of those that could not be read.
pub fn of_all(ctx: &VerbContext) -> Result<(Vec<SessionProcesses>, Vec<Problem>), Problem> {
    let evidence = ProcessSnapshot::gather()?;
    let (mut found, mut trouble) = (Vec::new(), Vec::new());
    for (dir, id) in what_runs(ctx)? {
        match running_session(&dir, &evidence, id) {
            Ok(session) => found.push(session),
            Err(problem) => trouble.push(problem),
        }
    }
    let listening = listening(&found)?;
    Ok((found.iter().map(|session| block(session, &listening)).collect(), trouble))
}

/// All listening sockets, read once: the kernel's tables are the same for each process.
fn listening(found: &[RunningSession]) -> Result<Vec<ListeningSocket>, Problem> {
    let members = found.iter().flat_map(|session| &session.members.processes);
    let pids: Vec<u32> = members.map(|member| member.process.pid).collect();
    ports::listening_sockets(&pids)
        .map_err(|error| Problem::refused(format!("cannot look for listening sockets: {error}")))
}

/// Processes of one session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionProcesses")]
pub struct SessionProcesses {
    /// Id of the session or helper.
    pub session: String,
    /// Name of the session; of a helper with `helper` in front.
    pub name: Option<String>,
    /// Process id of the keeper, if there is one.
    pub keeper_pid: Option<u32>,
    /// Running processes, each after its parent.
    pub processes: Vec<SessionProcess>,
    /// Memory of all processes; shared memory is divided among its users.
    pub memory_bytes: u64,
}

/// One process of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionProcess")]
pub struct SessionProcess {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub ppid: u32,
    /// Role of the process: `keeper`, `agent` or `process`.
    pub role: &'static str,
    /// True if the process belongs to the run, but is not a descendant of the keeper.
    pub astray: bool,
    /// Memory; shared memory is divided among its users.
    pub memory_bytes: u64,
    /// Processor time used, in milliseconds.
    pub cpu_ms: u64,
    /// Time since the start of the process, in milliseconds.
    pub age_ms: u64,
    /// State of the process: `running`, `sleeping`, `blocked`, `suspended`, `traced` or `ended`.
    pub state: &'static str,
    /// Addresses on which the process listens.
    pub ports: Vec<String>,
    /// Command line, with secrets redacted.
    pub command: String,
    /// The ports for a narrow column.
    #[serde(skip)]
    pub short_ports: Vec<String>,
    /// The command line for a narrow column.
    #[serde(skip)]
    pub short_command: String,
}

impl SessionProcesses {
    /// True if the session has no processes.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The session's name, else its id.
    pub fn handle(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.session)
    }
}

/// The sessions and helpers that may have processes, by time of creation.
fn what_runs(ctx: &VerbContext) -> Result<Vec<(StateDir, SessionId)>, Problem> {
    let mut live = Vec::new();
    for dir in ctx.home.folders() {
        let from = live.len();
        let ids = dir.list()?;
        for id in ids {
            match session_status::status(&dir, &id) {
                Ok(status) if matches!(status.state, SessionState::Stopped | SessionState::Archived) => {}
                Ok(status) if status.state == SessionState::Lost && !status.is_unrecorded_loss() => {}
                Ok(status) => live.push((status.created_at, dir.clone(), id)),
                // A session that is just being created, or that was given up before its first event.
                Err(problem) if problem.code == ProblemCode::NotFound => {}
                // The damage is reported when the session's processes are read.
                Err(_) => live.push((berth_api::Timestamp::default(), dir.clone(), id)),
            }
        }
        live[from..].sort_by_key(|(created_at, _, _)| *created_at);
    }
    Ok(live.into_iter().map(|(_, dir, id)| (dir, id)).collect())
}

/// A session and its processes.
struct RunningSession {
    id: SessionId,
    name: Option<String>,
    members: MemberProcesses,
}

fn running_session(
    dir: &StateDir,
    evidence: &ProcessSnapshot,
    id: SessionId,
) -> Result<RunningSession, Problem> {
    let members = evidence.members(dir, &id)?;
    let status = session_status::history(dir, &id)?.status(&id, true);
    let helper = status.helper.map(|helper| format!("helper {}", helper.name));
    Ok(RunningSession { id, name: status.name.or(helper), members })
}

fn block(session: &RunningSession, listening: &[ListeningSocket]) -> SessionProcesses {
    let RunningSession { id, name, members } = session;
    let processes: Vec<SessionProcess> =
        in_tree_order(members).iter().map(|member| row(member, listening)).collect();
    SessionProcesses {
        session: id.to_string(),
        name: name.clone(),
        keeper_pid: members.keeper().map(|keeper| keeper.pid),
        memory_bytes: processes.iter().map(|row| row.memory_bytes).sum(),
        processes,
    }
}

fn row(member: &MemberProcess, listening: &[ListeningSocket]) -> SessionProcess {
    let process = &member.process;
    let command = redacted_command(process);
    let opened = process.open().ok();
    // The proportional share of memory adds up; where it may not be read, the resident size is the best value.
    let pss = opened.as_ref().and_then(|opened| opened.pss_bytes().ok());
    let listening = listening.iter().filter(|listening| listening.pid == process.pid);
    let addresses: Vec<&SocketAddress> = listening.map(|listening| &listening.address).collect();
    let mut short_ports: Vec<String> = match member.role {
        // Every keeper has its socket, so it is not listed.
        ProcessRole::Keeper => Vec::new(),
        ProcessRole::Agent | ProcessRole::Process => {
            addresses.iter().map(|address| short_address(address)).collect()
        }
    };
    short_ports.dedup();
    SessionProcess {
        pid: process.pid,
        ppid: process.ppid,
        role: match member.role {
            ProcessRole::Keeper => "keeper",
            ProcessRole::Agent => "agent",
            ProcessRole::Process => "process",
        },
        astray: member.astray,
        memory_bytes: pss.unwrap_or_else(|| process.rss_bytes()),
        cpu_ms: process.cpu_ms(),
        age_ms: process.age_ms(),
        state: state(process.state),
        ports: addresses.iter().map(ToString::to_string).collect(),
        command: command.full,
        short_ports,
        // The heading names the session already.
        short_command: if member.role == ProcessRole::Keeper {
            "berth keeper".to_owned()
        } else {
            command.short
        },
    }
}

/// The command line of a process, with secrets redacted.
pub struct RedactedCommand {
    /// The whole command line.
    pub full: String,
    /// The command line without the directories of the program, for a narrow column.
    pub short: String,
}

/// The command line of any process, with secrets redacted.
pub fn redacted_command(process: &ProcessStat) -> RedactedCommand {
    let argv = process.open().and_then(|opened| opened.argv()).unwrap_or_default();
    let same = |text: String| RedactedCommand { full: text.clone(), short: text };
    match argv.as_slice() {
        // The process has no command line, or we may not read it.
        [] => same(redact::redact_text(&format!("[{}]", process.comm))),
        // A title that the process gave itself, not a program with spaces in its name.
        [title] if title.contains(' ') => same(redact::redact_text(title.trim_end())),
        [program, arguments @ ..] => {
            let name = program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(program);
            let short: Vec<String> = [name.to_owned()].into_iter().chain(arguments.iter().cloned()).collect();
            RedactedCommand {
                full: redact::redact_command_line(&argv),
                short: redact::redact_command_line(&short),
            }
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

/// An address for a narrow column: for a port that only this machine reaches, the address is left out.
pub fn short_address(address: &SocketAddress) -> String {
    let (kind, ip, port) = match address {
        SocketAddress::Tcp { ip, port } => ("tcp", ip, port),
        SocketAddress::Udp { ip, port } => ("udp", ip, port),
        SocketAddress::Unix { path } => {
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

/// Every process after its parent; processes without a parent among them come last, except the keeper.
fn in_tree_order(members: &MemberProcesses) -> Vec<&MemberProcess> {
    let all = &members.processes;
    let has_parent =
        |member: &MemberProcess| all.iter().any(|other| other.process.pid == member.process.ppid);
    let mut ordered: Vec<&MemberProcess> = Vec::with_capacity(all.len());
    let mut next: Vec<&MemberProcess> = all.iter().rev().filter(|member| !has_parent(member)).collect();
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
    fn a_port_that_only_this_machine_reaches_is_shown_without_address() {
        let tcp =
            |ip: &str| short_address(&SocketAddress::Tcp { ip: ip.parse().expect("an address"), port: 80 });
        assert_eq!((tcp("127.0.0.1"), tcp("::1")), ("tcp:80".to_owned(), "tcp:80".to_owned()));
        assert_eq!((tcp("0.0.0.0"), tcp("::")), ("tcp:*:80".to_owned(), "tcp:*:80".to_owned()));
        assert_eq!(tcp("10.0.0.7"), "tcp:10.0.0.7:80");
        assert_eq!(short_address(&SocketAddress::Unix { path: "/run/x/a.sock".into() }), "unix:a.sock");
        assert_eq!(short_address(&SocketAddress::Unix { path: "@a".into() }), "unix:@a");
    }
}
