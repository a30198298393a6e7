//! What an agent that was killed left behind: tools that go on without it.
//!
//! Some agents run each tool in a session of its own (the kernel's kind), and nothing ends that when the agent is
//! killed: it goes on changing files under the next run's feet. What an agent starts carries the conversation's id,
//! and with some agents the agent's pid.
//! Promise: an orphan is told only with the proof that its agent is dead: the pid it names is free, or was given to
//! somebody who started later; without that pid, nobody holds the conversation's lock and no agent is above it.
//! Ended is only a tool: the shell that the agent started for it, still at work, and what is in that shell's
//! session. That shell is known by the words only an agent wraps a command in: what a tool puts into a session of its
//! own (`setsid bash -c 'npm run dev' &`) looks the same in every other way, and is meant to stay. A tool has no terminal and nobody above it that carries the same id: a multiplexer that a tool started
//! hands its environment to every pane. An agent, and a session that has one in it, is never ended.
//! What a tool left running on purpose (a server, a multiplexer) is named and left alone. A process of another pid
//! namespace, a keeper and what it keeps are nobody's orphans.
//! Not here: agents that live (see [`super::end`]).
//! Start with [`orphans`], then [`Orphans::end`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use berth_api::redact;
use berth_driver::{AgentTraits, WriterSign};
use berth_host::identity::wait_for_exit;
use berth_host::identity::{self, Identity, Pidfd, ProcessStat, Verdict};
use berth_host::lock::{self, Probe};
use berth_host::process::census;
use berth_host::tree;
use berth_transcript::{Kind, config_dir};

use super::end::{ask, is_kept, kill, line_of, spared};
use super::signs;

/// How long a tool may take to end when it is asked to.
const GRACE: Duration = Duration::from_millis(500);
/// How long what was killed may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// How often we look again for what was started meanwhile.
const ROUNDS: usize = 3;
/// The programs that agents run tools with.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish"];
/// How far into a shell's words the command stands.
const WORDS_BEFORE_COMMAND: usize = 5;

/// A process that an agent left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Which process it is.
    pub identity: Identity,
    /// The agent that started it, and is dead, if it says which.
    pub agent: Option<u32>,
    /// What it runs, without secrets.
    pub command: String,
}

impl Orphan {
    /// For people: `pid 4711 (make), left by pid 4700`.
    pub fn line(&self) -> String {
        let command: String = self.command.chars().take(80).collect();
        let agent = self.agent.map_or_else(|| "one that is gone".to_owned(), |agent| format!("pid {agent}"));
        format!("pid {} ({command}), left by {agent}", self.identity.pid)
    }
}

/// What dead agents of a conversation left behind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orphans {
    /// The shells of tools that are at work.
    pub tools: Vec<Orphan>,
    /// What else carries the conversation's id: it may be meant to stay.
    pub others: Vec<Orphan>,
}

/// Looks for what dead agents of a conversation left behind: one walk over all processes. `env` is the environment
/// our agent would run with; a conversation in another directory is another one.
pub fn orphans(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Orphans, String> {
    let mut found = Orphans::default();
    let traits = AgentTraits::of(kind);
    let (Some(marks), Some(known)) = (traits.child_marks, Kind::of(kind)) else { return Ok(found) };
    let dir = config_dir(known, env)?;
    if let WriterSign::ConversationLock { folder, .. } = traits.writer_sign {
        // The holder of the lock lives, and so may have its tools.
        let lock = signs::conversation_lock(&dir.join(folder), conversation_id);
        if !matches!(lock::probe(&lock), Ok(Some(Probe::Free))) {
            return Ok(found);
        }
    }
    let marked = tree::with_mark(marks.conversation, conversation_id)
        .map_err(|error| format!("cannot look for what agents left behind: {error}"))?;
    let carriers: BTreeSet<u32> = marked.processes.iter().map(|identity| identity.pid).collect();
    let ours = fs::read_link("/proc/self/ns/pid").ok();
    let spared = spared(None);
    let mut left: BTreeMap<u32, (ProcessStat, Orphan)> = BTreeMap::new();
    for identity in marked.processes {
        let pid = identity.pid;
        let is_here = fs::read_link(format!("/proc/{pid}/ns/pid")).ok() == ours && ours.is_some();
        let is_of_this = signs::place_of(known, pid).is_some_and(|place| signs::is_same(&place, &dir));
        if !is_here || !is_of_this || spared.contains(&pid) || is_kept(pid) {
            continue;
        }
        let agent = match marks.agent_pid {
            Some(pid_mark) => {
                let agent = tree::variables(pid, [pid_mark]).ok().and_then(|[agent]| agent?.parse().ok());
                let Some(agent) = agent.filter(|agent| *agent != pid && is_dead(*agent, &identity)) else {
                    continue;
                };
                Some(agent)
            }
            None if is_an_agents(pid) => continue,
            None => None,
        };
        let Some(stat) = identity::stat(pid).ok().filter(|stat| stat.start_ticks == identity.start_ticks)
        else {
            continue;
        };
        let argv = stat.open().and_then(|opened| opened.argv()).unwrap_or_default();
        let command = if argv.is_empty() { stat.comm.clone() } else { redact::command_line(&argv) };
        left.insert(pid, (stat, Orphan { identity, agent, command }));
    }
    let is_tool = |stat: &ProcessStat| {
        let argv = stat.open().and_then(|opened| opened.argv()).unwrap_or_default();
        // Tools of agents read and write pipes. Who has a terminal is in somebody's window.
        stat.pid == stat.session
            && stat.tty == 0
            && runs_a_tool(&argv, traits.tool_wrappings)
            && !carriers.contains(&stat.ppid)
            && !identity::stat(stat.ppid).is_ok_and(|parent| is_an_agent(&parent))
    };
    // What names no agent may be of one that lives and went on to another conversation.
    let has_proof = |orphan: &Orphan| orphan.agent.is_some();
    let at_work = left.values().filter(|(stat, orphan)| has_proof(orphan) && is_tool(stat));
    let mut tools: Vec<u32> = at_work.map(|(stat, _)| stat.pid).collect();
    if !tools.is_empty() {
        let all = census().map_err(|error| format!("cannot look through the processes: {error}"))?;
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

/// Whether the process that once had this pid, and started this child, is gone.
fn is_dead(agent: u32, child: &Identity) -> bool {
    match identity::stat(agent) {
        // Whoever started after the child only has the pid of the one who did it.
        Ok(stat) => stat.is_zombie() || stat.start_ticks > child.start_ticks,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether an agent is above it, or it is one: then that one looks after it.
fn is_an_agents(pid: u32) -> bool {
    line_of(pid).into_iter().any(|pid| identity::stat(pid).is_ok_and(|stat| is_an_agent(&stat)))
}

/// Whether it is an agent of any kind.
fn is_an_agent(stat: &ProcessStat) -> bool {
    Kind::ALL.into_iter().any(|kind| signs::is_agent(kind.word(), stat))
}

/// Those of these sessions in which there is an agent.
fn with_agents(all: &[ProcessStat], sessions: &[u32]) -> BTreeSet<u32> {
    let within = all.iter().filter(|stat| sessions.contains(&stat.session) && !stat.is_zombie());
    within.filter(|stat| is_an_agent(stat)).map(|stat| stat.session).collect()
}

/// Whether these words have a shell run a tool's command, wrapped as only its agent does that: nobody writes that by hand.
fn runs_a_tool(argv: &[String], wrappings: &[&str]) -> bool {
    let program = argv.first().map(|word| Path::new(word.trim_start_matches('-')));
    let name = program.and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
    let is_option = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let mut words = argv.iter().skip(1).take(WORDS_BEFORE_COMMAND);
    SHELLS.contains(&name)
        && words.any(is_option)
        && argv.iter().skip(2).any(|word| wrappings.iter().any(|wrapping| word.contains(wrapping)))
}

impl Orphans {
    /// Ends the tools; asks first, then kills. Returned is who is proven gone, for people; an error names who stays.
    pub fn end(&self) -> Result<Vec<String>, String> {
        let mut ended: Vec<String> = Vec::new();
        let mut held: Vec<(Identity, Pidfd)> = Vec::new();
        let line = |identity: &Identity| {
            let tool = self.tools.iter().find(|tool| tool.identity == *identity);
            tool.map_or_else(|| format!("pid {}", identity.pid), Orphan::line)
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
            // Errors show below: whoever could not be signalled stays.
            held.iter().for_each(|(_, pidfd)| drop(ask(pidfd)));
            wait_for_exit(held.iter().map(|(_, pidfd)| pidfd), GRACE);
            // What was started meanwhile is known to be of a tool only by that tool's session.
            held.extend(self.members());
            held.iter().for_each(|(_, pidfd)| drop(kill(pidfd)));
            wait_for_exit(held.iter().map(|(_, pidfd)| pidfd), KILL_PATIENCE);
        }
        held.extend(self.members());
        held.retain(|(_, pidfd)| !pidfd.has_exited());
        let stay: Vec<String> = held.iter().map(|(identity, _)| format!("pid {}", identity.pid)).collect();
        if stay.is_empty() { Ok(ended) } else { Err(format!("{} cannot be ended", stay.join(", "))) }
    }

    /// The tools that live, and everything in their sessions. Only descendants of a tool's shell can be in its session,
    /// and its number is not given anew while one of them lives; one that was given anew is another's session.
    fn members(&self) -> Vec<(Identity, Pidfd)> {
        let spared = spared(None);
        let all = census().unwrap_or_default();
        let is_still_its = |tool: &&Orphan| {
            let now = all.iter().find(|stat| stat.pid == tool.identity.pid);
            now.is_none_or(|stat| stat.start_ticks == tool.identity.start_ticks)
        };
        let tools: Vec<&Identity> =
            self.tools.iter().filter(is_still_its).map(|tool| &tool.identity).collect();
        // Somebody may have started one since.
        let busy = with_agents(&all, &tools.iter().map(|tool| tool.pid).collect::<Vec<_>>());
        let is_in_tool = |stat: &&ProcessStat| {
            !busy.contains(&stat.session)
                && tools.iter().any(|tool| stat.session == tool.pid && stat.start_ticks >= tool.start_ticks)
        };
        let within = all.iter().filter(is_in_tool).filter(|stat| !stat.is_zombie());
        let within = within.filter_map(|stat| stat.identity().ok());
        let mut wanted: Vec<Identity> =
            within.filter(|identity| !spared.contains(&identity.pid) && !is_kept(identity.pid)).collect();
        wanted.sort_by_key(|identity| identity.pid);
        wanted.dedup();
        wanted
            .into_iter()
            .filter_map(|identity| match identity.check() {
                Verdict::Alive(pidfd) => Some((identity, pidfd)),
                Verdict::Gone | Verdict::CannotTell(_) => None,
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
    fn whoever_has_a_pid_since_later_than_the_child_is_not_its_parent() {
        let me = Identity::me().expect("this process");
        let later = Identity { start_ticks: me.start_ticks + 1, ..me.clone() };
        let earlier = Identity { start_ticks: me.start_ticks - 1, ..me.clone() };
        assert!(!is_dead(me.pid, &later));
        assert!(is_dead(me.pid, &earlier));
        assert!(is_dead(u32::MAX / 2, &later));
    }
}
