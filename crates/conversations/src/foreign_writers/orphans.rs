//! Orphans: tools that go on after the agent that started them was killed.
//!
//! Some agents run each tool in a session of its own (the kernel's kind), and no process ends that session when the
//! agent is killed: the tool goes on changing files during the next run. Processes started by an agent carry the
//! conversation's id, and with some agents the agent's pid.
//! Promise: an orphan is reported only with proof that its agent is dead: the pid it names is free, or belongs to a
//! process that started later; without that pid, no process holds the conversation's lock and no agent is above it.
//! Only a tool is ended: the shell that the agent started for it, still at work, and the processes in that shell's
//! session. That shell is known by the words that only an agent wraps a command in: a process that a tool puts into a
//! session of its own (`setsid bash -c 'npm run dev' &`) looks equal in every other way, and is meant to stay. A tool
//! has no terminal and no ancestor that carries its conversation's id: a multiplexer that a tool started hands its
//! environment to every pane. An agent, and a session that has one in it, is never ended.
//! A process that a tool left running on purpose (a server, a multiplexer) is named and left alone. A process of
//! another pid namespace, a keeper and the processes below it are never orphans.
//! Not here: agents that live (see [`super::end_writer`]).
//! Start with [`orphaned_agents`], then [`OrphanProcesses::end`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use berth_api::redact;
use berth_driver::{AgentTraits, WriterSign};
use berth_host::identity::wait_for_exit;
use berth_host::identity::{self, Pidfd, ProcessIdentity, ProcessLiveness, ProcessStat};
use berth_host::lock::{self, LockState};
use berth_host::process::all_processes;
use berth_host::process_tree;
use berth_transcript::{TranscriptKind, config_dir};

use super::end_writer::{ask, is_kept, kill, line_of, protected_pids};
use super::writer_evidence;

/// The time that a tool may take to end after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);
/// The time that a killed process may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// The number of searches for processes that were started meanwhile.
const ROUNDS: usize = 3;
/// The programs that agents run tools with.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish"];
/// The position in a shell's words up to which the command is looked for.
const WORDS_BEFORE_COMMAND: usize = 5;

/// A process that an agent left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrphanProcess {
    /// The process: pid, start time and boot.
    pub identity: ProcessIdentity,
    /// The pid of the dead agent that started it, if the process names one.
    pub agent: Option<u32>,
    /// Its command line, without secrets.
    pub command: String,
}

impl OrphanProcess {
    /// For people: `pid 4711 (make), left by pid 4700`.
    pub fn line(&self) -> String {
        let command: String = self.command.chars().take(80).collect();
        let agent = self.agent.map_or_else(|| "one that is gone".to_owned(), |agent| format!("pid {agent}"));
        format!("pid {} ({command}), left by {agent}", self.identity.pid)
    }
}

/// The processes that dead agents of a conversation left behind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OrphanProcesses {
    /// The shells of tools that are still at work.
    pub tools: Vec<OrphanProcess>,
    /// Other processes that carry the conversation's id: they may be meant to stay.
    pub others: Vec<OrphanProcess>,
}

/// Finds the processes that dead agents of a conversation left behind: one walk over all processes. `env` is the
/// environment our agent would run with; a conversation in another directory is a different one.
pub fn orphaned_agents(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<OrphanProcesses, String> {
    let mut found = OrphanProcesses::default();
    let traits = AgentTraits::of(kind);
    let (Some(marks), Some(known)) = (traits.child_marks, TranscriptKind::of(kind)) else { return Ok(found) };
    let dir = config_dir(known, env)?;
    if let WriterSign::ConversationLock { folder, .. } = traits.writer_sign {
        // The holder of the lock lives, and so may its tools.
        let lock = writer_evidence::conversation_lock(&dir.join(folder), conversation_id);
        if !matches!(lock::lock_state(&lock), Ok(Some(LockState::Free))) {
            return Ok(found);
        }
    }
    let marked = process_tree::processes_with_variable(marks.conversation, conversation_id)
        .map_err(|error| format!("cannot look for processes that agents left behind: {error}"))?;
    let carriers: BTreeSet<u32> = marked.processes.iter().map(|identity| identity.pid).collect();
    let ours = fs::read_link("/proc/self/ns/pid").ok();
    let spared = protected_pids(None);
    let mut left: BTreeMap<u32, (ProcessStat, OrphanProcess)> = BTreeMap::new();
    for identity in marked.processes {
        let pid = identity.pid;
        let is_here = fs::read_link(format!("/proc/{pid}/ns/pid")).ok() == ours && ours.is_some();
        let is_of_this =
            writer_evidence::place_of(known, pid).is_some_and(|place| writer_evidence::is_same(&place, &dir));
        if !is_here || !is_of_this || spared.contains(&pid) || is_kept(pid) {
            continue;
        }
        let agent = match marks.agent_pid {
            Some(pid_mark) => {
                let agent = process_tree::process_variables(pid, [pid_mark])
                    .ok()
                    .and_then(|[agent]| agent?.parse().ok());
                let Some(agent) = agent.filter(|agent| *agent != pid && is_dead(*agent, &identity)) else {
                    continue;
                };
                Some(agent)
            }
            None if is_an_agents(pid) => continue,
            None => None,
        };
        let Some(stat) =
            identity::process_stat(pid).ok().filter(|stat| stat.start_ticks == identity.start_ticks)
        else {
            continue;
        };
        let argv = stat.open().and_then(|opened| opened.argv()).unwrap_or_default();
        let command = if argv.is_empty() { stat.comm.clone() } else { redact::redact_command_line(&argv) };
        left.insert(pid, (stat, OrphanProcess { identity, agent, command }));
    }
    let is_tool = |stat: &ProcessStat| {
        let argv = stat.open().and_then(|opened| opened.argv()).unwrap_or_default();
        // Tools of agents read and write pipes. A process with a terminal is in a user's window.
        stat.pid == stat.session
            && stat.tty == 0
            && runs_a_tool(&argv, traits.tool_wrappings)
            && !carriers.contains(&stat.ppid)
            && !identity::process_stat(stat.ppid).is_ok_and(|parent| is_an_agent(&parent))
    };
    // A process that names no agent may be of a living agent that went on to another conversation.
    let has_proof = |orphan: &OrphanProcess| orphan.agent.is_some();
    let at_work = left.values().filter(|(stat, orphan)| has_proof(orphan) && is_tool(stat));
    let mut tools: Vec<u32> = at_work.map(|(stat, _)| stat.pid).collect();
    if !tools.is_empty() {
        let all = all_processes().map_err(|error| format!("cannot look through the processes: {error}"))?;
        let busy = with_agents(&all, &tools);
        tools.retain(|tool| !busy.contains(tool));
    }
    for (stat, orphan) in left.into_values() {
        if tools.contains(&stat.pid) {
            found.tools.push(orphan);
        } else if !tools.contains(&stat.session) {
            found.others.push(orphan);
        }
    }
    Ok(found)
}

/// True if the process that once had this pid, and started this child, is gone.
fn is_dead(agent: u32, child: &ProcessIdentity) -> bool {
    match identity::process_stat(agent) {
        // A process that started after the child only has the pid of the child's parent.
        Ok(stat) => stat.is_zombie() || stat.start_ticks > child.start_ticks,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// True if the process is an agent or below one: then that agent looks after it.
fn is_an_agents(pid: u32) -> bool {
    line_of(pid).into_iter().any(|pid| identity::process_stat(pid).is_ok_and(|stat| is_an_agent(&stat)))
}

/// True if it is an agent of any kind.
fn is_an_agent(stat: &ProcessStat) -> bool {
    TranscriptKind::ALL.into_iter().any(|kind| writer_evidence::is_agent(kind.word(), stat))
}

/// The sessions among these that have an agent in them.
fn with_agents(all: &[ProcessStat], sessions: &[u32]) -> BTreeSet<u32> {
    let within = all.iter().filter(|stat| sessions.contains(&stat.session) && !stat.is_zombie());
    within.filter(|stat| is_an_agent(stat)).map(|stat| stat.session).collect()
}

/// True if these words make a shell run a tool's command, wrapped as only its agent does that: no user types that.
fn runs_a_tool(argv: &[String], wrappings: &[&str]) -> bool {
    let program = argv.first().map(|word| Path::new(word.trim_start_matches('-')));
    let name = program.and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
    let is_option = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let mut words = argv.iter().skip(1).take(WORDS_BEFORE_COMMAND);
    SHELLS.contains(&name)
        && words.any(is_option)
        && argv.iter().skip(2).any(|word| wrappings.iter().any(|wrapping| word.contains(wrapping)))
}

impl OrphanProcesses {
    /// Ends the tools: SIGTERM first, then SIGKILL. Returns the processes that are proven gone, for display; an error
    /// names those that stay.
    pub fn end(&self) -> Result<Vec<String>, String> {
        let mut ended: Vec<String> = Vec::new();
        let mut held: Vec<(ProcessIdentity, Pidfd)> = Vec::new();
        let line = |identity: &ProcessIdentity| {
            let tool = self.tools.iter().find(|tool| tool.identity == *identity);
            tool.map_or_else(|| format!("pid {}", identity.pid), OrphanProcess::line)
        };
        for _ in 0..ROUNDS {
            held.retain(|(_, pidfd)| !pidfd.has_exited());
            let more = self.members();
            ended.extend(more.iter().map(|(identity, _)| line(identity)));
            held.extend(more);
            if held.is_empty() {
                ended.sort();
                ended.dedup();
                return Ok(ended);
            }
            // Errors show below: a process that could not be signalled stays.
            held.iter().for_each(|(_, pidfd)| drop(ask(pidfd)));
            wait_for_exit(held.iter().map(|(_, pidfd)| pidfd), GRACE);
            // A process that was started meanwhile is attributed to a tool only by that tool's session.
            held.extend(self.members());
            held.iter().for_each(|(_, pidfd)| drop(kill(pidfd)));
            wait_for_exit(held.iter().map(|(_, pidfd)| pidfd), KILL_PATIENCE);
        }
        held.extend(self.members());
        held.retain(|(_, pidfd)| !pidfd.has_exited());
        let stay: Vec<String> = held.iter().map(|(identity, _)| format!("pid {}", identity.pid)).collect();
        if stay.is_empty() { Ok(ended) } else { Err(format!("{} cannot be ended", stay.join(", "))) }
    }

    /// The living tools, and all processes in their sessions. Only descendants of a tool's shell can be in its
    /// session, and its number is not reused while one of them lives; a reused number is another session.
    fn members(&self) -> Vec<(ProcessIdentity, Pidfd)> {
        let spared = protected_pids(None);
        let all = all_processes().unwrap_or_default();
        let is_still_its = |tool: &&OrphanProcess| {
            let now = all.iter().find(|stat| stat.pid == tool.identity.pid);
            now.is_none_or(|stat| stat.start_ticks == tool.identity.start_ticks)
        };
        let tools: Vec<&ProcessIdentity> =
            self.tools.iter().filter(is_still_its).map(|tool| &tool.identity).collect();
        // An agent may have been started there since.
        let busy = with_agents(&all, &tools.iter().map(|tool| tool.pid).collect::<Vec<_>>());
        let is_in_tool = |stat: &&ProcessStat| {
            !busy.contains(&stat.session)
                && tools.iter().any(|tool| stat.session == tool.pid && stat.start_ticks >= tool.start_ticks)
        };
        let within = all.iter().filter(is_in_tool).filter(|stat| !stat.is_zombie());
        let within = within.filter_map(|stat| stat.identity().ok());
        let mut wanted: Vec<ProcessIdentity> =
            within.filter(|identity| !spared.contains(&identity.pid) && !is_kept(identity.pid)).collect();
        wanted.sort_by_key(|identity| identity.pid);
        wanted.dedup();
        wanted
            .into_iter()
            .filter_map(|identity| match identity.check() {
                ProcessLiveness::Alive(pidfd) => Some((identity, pidfd)),
                ProcessLiveness::Gone | ProcessLiveness::CannotTell(_) => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shell_that_an_agent_gave_a_command_is_a_tool() {
        let wrappings = AgentTraits::of("claude").tool_wrappings;
        let is = |words: &[&str], command: &str| {
            let words = words.iter().chain(std::iter::once(&command));
            runs_a_tool(&words.map(ToString::to_string).collect::<Vec<_>>(), wrappings)
        };
        // As Claude Code 2.1.325 writes it, with and without the shell's settings.
        let full = "source /h/.claude/shell-snapshots/snapshot-bash-1.sh 2>/dev/null || true && eval make";
        let bare =
            "shopt -u extglob 2>/dev/null || true && eval make < /dev/null && pwd -P >| /tmp/claude-b7-cwd";
        for command in [full, bare] {
            assert!(is(&["/bin/bash", "-c"], command));
            assert!(is(&["bash", "-lc"], command));
            assert!(is(&["zsh", "-o", "x", "-c"], command));
            assert!(!is(&["tmux", "-c", "/dir"], command));
            assert!(!is(&["bash"], command));
            assert!(!is(&["bash", "--rc"], command));
            assert!(!is(&["node", "server.js", "-c"], command));
        }
        assert!(!is(&["/bin/bash", "-c"], "npm run dev"), "what a tool left running on purpose");
        assert!(!runs_a_tool(&[], wrappings));
    }

    #[test]
    fn a_process_that_started_after_the_child_is_not_its_parent() {
        let me = ProcessIdentity::me().expect("this process");
        let later = ProcessIdentity { start_ticks: me.start_ticks + 1, ..me.clone() };
        let earlier = ProcessIdentity { start_ticks: me.start_ticks - 1, ..me.clone() };
        assert!(!is_dead(me.pid, &later));
        assert!(is_dead(me.pid, &earlier));
        assert!(is_dead(u32::MAX / 2, &later));
    }
}
