//! Foreign writers of a conversation: finding the processes that write it outside of berth, and ending one.
//!
//! Agents leave signs of the conversations they write ([`berth_driver::WriterSign`]): a file for each process, or a
//! lock for each conversation. Where there is neither, command lines name conversations, and child processes of some
//! agents carry the conversation's id and the agent's pid.
//! Promise: every process that is named was alive, under this very [`ProcessIdentity`], when we looked; a sign whose process
//! is gone does not count. A process that may not be looked into makes no claim. A signal goes only through a
//! descriptor of the verified process.
//! Not here: the session of one of our own processes (see `berth_procs::attribution`), the lock that sessions of berth
//! take among themselves.
//! Start with [`find_foreign_writers`]; [`registered_writers`] is quick enough for every turn; [`live_writers`] is for lists, [`orphaned_agents`] for what a
//! killed agent left, `conversation_open_in_run` for the agent of a run that reports nothing itself.

mod end_writer;
mod hook_reported;
mod live_writers;
mod orphans;
mod run_conversation;
#[cfg(test)]
mod tests;
mod writer_evidence;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use berth_api::redact;
use berth_host::clock;
use berth_host::identity::{self, ProcessIdentity, ProcessStat};
use berth_transcript::TranscriptKind;

use crate::open_conversations::OpenConversation;
pub use run_conversation::{WrappedAgent, conversation_open_in_run};
pub use writer_evidence::RegistryActivity;

pub use end_writer::{EndedWriter, end_foreign_writer};
pub use live_writers::live_writers;
pub use orphans::{OrphanProcess, OrphanProcesses, orphaned_agents};

/// A process outside of berth that writes a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignWriter {
    /// The kind of the agent, by the name of its traits.
    pub kind: String,
    /// The conversation it writes, by the agent's own id.
    pub conversation_id: String,
    /// The process: pid, start time and boot.
    pub identity: ProcessIdentity,
    /// The start time of the process, in milliseconds since 1970.
    pub since_ms: u64,
    /// Its working directory; absent if the kernel hides it.
    pub cwd: Option<PathBuf>,
    /// Its controlling terminal; absent without one.
    pub terminal: Option<PathBuf>,
    /// Its command line, without secrets.
    pub command: String,
    /// The number of other conversations it holds: they end with it.
    pub others: usize,
    /// The sign by which it was found.
    pub evidence: WriterEvidence,
}

/// The kinds of proof that a process writes a conversation, the strongest first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WriterEvidence {
    /// The process holds the lock that only a writer has.
    Lock {
        /** On this file. */
        file: PathBuf,
    },
    /// The agent's own list of its processes names it.
    Registry {
        /** In this file. */
        file: PathBuf,
    },
    /// The process reported it through its hooks.
    Hook {
        /** As this record has it. */
        file: PathBuf,
    },
    /// A child process carries its pid and the conversation's id.
    Child {
        /** One of those. */
        pid: u32,
    },
    /// The command line of the process names the conversation.
    CommandLine,
}

impl fmt::Display for WriterEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock { file } => write!(f, "it holds the lock {}", file.display()),
            Self::Registry { file } => write!(f, "{} names it", file.display()),
            Self::Hook { file } => write!(f, "its hooks said so, as {} has it", file.display()),
            Self::Child { pid } => {
                write!(f, "process {pid}, which it started, carries its conversation's id")
            }
            Self::CommandLine => f.write_str("its command line names the conversation"),
        }
    }
}

/// Finds the writers of a conversation, by every kind of sign: one walk over all processes. `env` is the environment
/// our agent would run with; a conversation in another directory is a different one. Processes in `ours` are left
/// out. An error means that an unseen process may write the conversation.
pub fn find_foreign_writers(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
    ours: impl Fn(u32) -> bool,
) -> Result<Vec<ForeignWriter>, String> {
    let mut found = writer_evidence::registered(kind, conversation_id, &env)?;
    found.extend(hooked(kind, conversation_id, &env));
    // A lock is sufficient: a process that merely talks to the lock's holder does not write.
    if found.iter().all(|(_, evidence)| !matches!(evidence, WriterEvidence::Lock { .. })) {
        found.extend(writer_evidence::by_process(kind, conversation_id, &env)?);
    }
    Ok(writers(kind, conversation_id, found, ours))
}

/// Like [`find_foreign_writers`], by the agent's own signs alone. The cost does not grow with the number of processes.
pub fn registered_writers(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
    ours: impl Fn(u32) -> bool,
) -> Result<Vec<ForeignWriter>, String> {
    let mut found = writer_evidence::registered(kind, conversation_id, &env)?;
    found.extend(hooked(kind, conversation_id, &env));
    Ok(writers(kind, conversation_id, found, ours))
}

/// Like [`registered_writers`], by the agent's own list alone, for callers that know the reports of hooks already.
pub fn listed_writers(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
    ours: impl Fn(u32) -> bool,
) -> Result<Vec<ForeignWriter>, String> {
    Ok(writers(kind, conversation_id, writer_evidence::registered(kind, conversation_id, &env)?, ours))
}

/// False if an agent that locks its conversations reports one that it does not store.
pub fn is_kept(kind: &str, conversation_id: &str, env: impl Fn(&str) -> Option<OsString>) -> bool {
    writer_evidence::is_kept(kind, conversation_id, env)
}

fn hooked(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Vec<(ProcessIdentity, WriterEvidence)> {
    let account = TranscriptKind::of(kind).and_then(|kind| berth_transcript::config_dir(kind, env).ok());
    hook_reported::hooked(kind, conversation_id, account.as_deref())
}

/// Describes those that are not ours, each once, by its strongest sign.
fn writers(
    kind: &str,
    conversation_id: &str,
    mut found: Vec<(ProcessIdentity, WriterEvidence)>,
    ours: impl Fn(u32) -> bool,
) -> Vec<ForeignWriter> {
    let me = std::process::id();
    found.retain(|(identity, _)| identity.pid != me && !ours(identity.pid));
    found.sort_by(|one, other| (one.0.pid, &one.1).cmp(&(other.0.pid, &other.1)));
    found.dedup_by(|one, other| one.0 == other.0);
    found
        .into_iter()
        .filter_map(|(identity, evidence)| described_writer(kind, conversation_id, identity, evidence))
        .collect()
}

fn described_writer(
    kind: &str,
    conversation_id: &str,
    identity: ProcessIdentity,
    evidence: WriterEvidence,
) -> Option<ForeignWriter> {
    let stat = identity::process_stat(identity.pid).ok().filter(|stat| is_alive(stat, &identity))?;
    let opened = stat.open().ok()?;
    let argv = opened.argv().unwrap_or_default();
    let others = match &evidence {
        WriterEvidence::Lock { file } => writer_evidence::other_locks(identity.pid, file),
        WriterEvidence::Registry { .. }
        | WriterEvidence::Hook { .. }
        | WriterEvidence::Child { .. }
        | WriterEvidence::CommandLine => 0,
    };
    Some(ForeignWriter {
        kind: kind.to_owned(),
        conversation_id: conversation_id.to_owned(),
        since_ms: clock::wall_ms().saturating_sub(stat.age_ms()),
        cwd: opened.cwd().ok(),
        terminal: stat.tty_name().map(|name| PathBuf::from("/dev").join(name)),
        command: if argv.is_empty() { stat.comm.clone() } else { redact::redact_command_line(&argv) },
        identity,
        others,
        evidence,
    })
}

/// The activity that an agent's process reports in its own file, if it does.
pub fn registry_activity(
    kind: &str,
    pid: u32,
    env: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Option<RegistryActivity> {
    writer_evidence::entry_of(kind, pid, env)?.doing
}

/// True if a process is an agent of this kind by its name.
pub fn is_agent(kind: &str, stat: &ProcessStat) -> bool {
    writer_evidence::is_agent(kind, stat)
}

fn is_alive(stat: &ProcessStat, identity: &ProcessIdentity) -> bool {
    stat.start_ticks == identity.start_ticks && !stat.is_zombie()
}

impl ForeignWriter {
    /// A writer from a holder's record, for display.
    pub fn holding(holder: &OpenConversation) -> Self {
        Self {
            kind: holder.kind.clone(),
            conversation_id: holder.conversation_id.clone(),
            identity: holder.identity.clone(),
            since_ms: holder.opened_ms,
            cwd: holder.cwd.clone(),
            terminal: holder.terminal.clone(),
            command: holder.kind.clone(),
            others: 0,
            evidence: WriterEvidence::Hook { file: PathBuf::new() },
        }
    }

    /// One line for people: `agent, pid 4711, since 10:02 (3 m), in /dir, on /dev/pts/3`.
    pub fn line(&self) -> String {
        self.line_at(clock::wall_ms(), &jiff::tz::TimeZone::system())
    }

    fn line_at(&self, now_ms: u64, zone: &jiff::tz::TimeZone) -> String {
        let moment = |ms: u64| {
            let moment = jiff::Timestamp::from_millisecond(ms.cast_signed()).unwrap_or_default();
            moment.to_zoned(zone.clone())
        };
        let (then, now) = (moment(self.since_ms), moment(now_ms));
        let time = if then.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
        let age = age(now_ms.saturating_sub(self.since_ms));
        let mut line =
            format!("{}, pid {}, since {} ({age})", self.kind, self.identity.pid, then.strftime(time));
        if let Some(cwd) = &self.cwd {
            line.push_str(&format!(", in {}", cwd.display()));
        }
        if let Some(terminal) = &self.terminal {
            line.push_str(&format!(", on {}", terminal.display()));
        }
        match self.others {
            0 => {}
            1 => line.push_str(", with another conversation"),
            others => line.push_str(&format!(", with {others} other conversations")),
        }
        line
    }
}

/// A duration in one unit.
fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m", seconds / 60),
        3600..86400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}
