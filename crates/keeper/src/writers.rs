//! Writers of a conversation that are not ours: who they are, and how to end one.
//!
//! Agents leave signs of what they write ([`berth_driver::WriterSign`]): a file for each process, or a lock for each conversation. Where
//! neither is to be had, command lines name conversations, and what some agents start carries its id and their pid.
//! Promise: whoever is named was alive, under this very [`Identity`], when we looked; a sign whose process is gone
//! is no sign. A process that may not be looked into makes no claim. A signal goes only through a descriptor
//! of the verified process.
//! Not here: whose a process of ours is (see `whose`), the lock that sessions of ours take among themselves.
//! Start with [`find`]; [`registered`] is quick enough for every turn; [`live`] is for lists, [`orphans`] for what a
//! killed agent left, `open_in` for the agent of a run that tells nothing.

mod end;
mod hooked;
mod live;
mod open;
mod orphans;
mod signs;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use berth_api::redact;
use berth_host::clock;
use berth_host::identity::{self, Identity, ProcessStat};
use berth_transcript::Kind;

use crate::holders::Holder;
pub(crate) use open::{WrappedAgent, open_in};
pub(crate) use signs::Doing;

pub use end::{Ended, end};
pub use live::live;
pub use orphans::{Orphan, Orphans, orphans};

/// Somebody who writes a conversation and is not ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    /// What kind of agent it is.
    pub kind: String,
    /// The conversation it writes.
    pub conversation_id: String,
    /// Which process it is.
    pub identity: Identity,
    /// When that started, in milliseconds since 1970.
    pub since_ms: u64,
    /// Where it is, if we may see that.
    pub cwd: Option<PathBuf>,
    /// Its terminal, if it has one.
    pub terminal: Option<PathBuf>,
    /// What it runs, without secrets.
    pub command: String,
    /// How many other conversations it holds: they end with it.
    pub others: usize,
    /// Why that is said.
    pub evidence: Evidence,
}

/// What says that a process writes a conversation, the strongest first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Evidence {
    /// It holds the lock that only a writer has.
    Lock {
        /** On this file. */
        file: PathBuf,
    },
    /// The agent's own list of its processes says so.
    Registry {
        /** In this file. */
        file: PathBuf,
    },
    /// It said so itself, through its hooks.
    Hook {
        /** As this record has it. */
        file: PathBuf,
    },
    /// What it started carries its pid and the conversation's id.
    Child {
        /** One of those. */
        pid: u32,
    },
    /// Its command line names the conversation.
    CommandLine,
}

impl fmt::Display for Evidence {
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

/// Looks for writers of a conversation, in every way there is: one walk over all processes. `env` is the
/// environment our agent would run with; a conversation in another directory is another one. Those that are
/// `ours` are left out. An error means that somebody may write it and cannot be seen.
pub fn find(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
    ours: impl Fn(u32) -> bool,
) -> Result<Vec<Writer>, String> {
    let mut found = signs::registered(kind, conversation_id, &env)?;
    found.extend(hooked(kind, conversation_id, &env));
    // A lock says it all: whoever talks to the process that has it only sits before it.
    if found.iter().all(|(_, evidence)| !matches!(evidence, Evidence::Lock { .. })) {
        found.extend(signs::by_process(kind, conversation_id, &env)?);
    }
    Ok(writers(kind, conversation_id, found, ours))
}

/// The same by the agent's own signs alone. Its cost does not grow with the number of processes.
pub fn registered(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
    ours: impl Fn(u32) -> bool,
) -> Result<Vec<Writer>, String> {
    let mut found = signs::registered(kind, conversation_id, &env)?;
    found.extend(hooked(kind, conversation_id, &env));
    Ok(writers(kind, conversation_id, found, ours))
}

/// The same by the agent's own list alone, for who knows what hooks told.
pub fn listed(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
    ours: impl Fn(u32) -> bool,
) -> Result<Vec<Writer>, String> {
    Ok(writers(kind, conversation_id, signs::registered(kind, conversation_id, &env)?, ours))
}

/// False if an agent that locks its conversations tells of one that it keeps nothing of.
pub fn is_kept(kind: &str, conversation_id: &str, env: impl Fn(&str) -> Option<OsString>) -> bool {
    signs::is_kept(kind, conversation_id, env)
}

fn hooked(
    kind: &str,
    conversation_id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Vec<(Identity, Evidence)> {
    let account = Kind::of(kind).and_then(|kind| berth_transcript::config_dir(kind, env).ok());
    hooked::hooked(kind, conversation_id, account.as_deref())
}

/// A closer look at those that are not ours, each once, by its strongest sign.
fn writers(
    kind: &str,
    conversation_id: &str,
    mut found: Vec<(Identity, Evidence)>,
    ours: impl Fn(u32) -> bool,
) -> Vec<Writer> {
    let me = std::process::id();
    found.retain(|(identity, _)| identity.pid != me && !ours(identity.pid));
    found.sort_by(|one, other| (one.0.pid, &one.1).cmp(&(other.0.pid, &other.1)));
    found.dedup_by(|one, other| one.0 == other.0);
    found
        .into_iter()
        .filter_map(|(identity, evidence)| look(kind, conversation_id, identity, evidence))
        .collect()
}

fn look(kind: &str, conversation_id: &str, identity: Identity, evidence: Evidence) -> Option<Writer> {
    let stat = identity::stat(identity.pid).ok().filter(|stat| is_alive(stat, &identity))?;
    let opened = stat.open().ok()?;
    let argv = opened.argv().unwrap_or_default();
    let others = match &evidence {
        Evidence::Lock { file } => signs::other_locks(identity.pid, file),
        Evidence::Registry { .. }
        | Evidence::Hook { .. }
        | Evidence::Child { .. }
        | Evidence::CommandLine => 0,
    };
    Some(Writer {
        kind: kind.to_owned(),
        conversation_id: conversation_id.to_owned(),
        since_ms: clock::wall_ms().saturating_sub(stat.age_ms()),
        cwd: opened.cwd().ok(),
        terminal: stat.tty_name().map(|name| PathBuf::from("/dev").join(name)),
        command: if argv.is_empty() { stat.comm.clone() } else { redact::command_line(&argv) },
        identity,
        others,
        evidence,
    })
}

/// What an agent's process says that it does, if it says anything.
pub(crate) fn doing(kind: &str, pid: u32, env: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<Doing> {
    signs::entry_of(kind, pid, env)?.doing
}

/// Whether a process is an agent of this kind by its name.
pub(crate) fn is_agent(kind: &str, stat: &ProcessStat) -> bool {
    signs::is_agent(kind, stat)
}

fn is_alive(stat: &ProcessStat, identity: &Identity) -> bool {
    stat.start_ticks == identity.start_ticks && !stat.is_zombie()
}

impl Writer {
    /// A holder, for people.
    pub fn holding(holder: &Holder) -> Self {
        Self {
            kind: holder.kind.clone(),
            conversation_id: holder.conversation_id.clone(),
            identity: holder.identity.clone(),
            since_ms: holder.opened_ms,
            cwd: holder.cwd.clone(),
            terminal: holder.terminal.clone(),
            command: holder.kind.clone(),
            others: 0,
            evidence: Evidence::Hook { file: PathBuf::new() },
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

/// How long, in one unit.
fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m", seconds / 60),
        3600..86400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}
