//! Holders: the agents' processes that have a conversation open, as their own hooks reported.
//!
//! There is one record for each process, named by its pid and its start, so that an agent started by another agent
//! has a record of its own. Every event may make or repair the record: a missed event is made up for by the next, and
//! `/clear`, `/resume` and a compaction change the conversation in the record of that process.
//! Promise: a record counts only while that very process lives; it is read whole or not at all; damaged records are
//! skipped, kept and reported. No text of a prompt or an answer is in it.
//! Not here: the names of events (`verbs::hook`), permission to go on with a conversation (`verbs::hook::guard`),
//! other signs of writers (see `writers`).
//! Start with [`OpenConversations`], then [`OpenConversation::after`].

mod agent;
mod record;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::hook::{HookEvent, HookReport};
use berth_host::disk;
use berth_host::identity::{self, Pidfd, ProcessIdentity, ProcessLiveness};
use berth_host::lock::LockFile;
use serde::{Deserialize, Serialize};

pub use agent::{CallingAgent, calling_agent};

/// The directory of the records, in the state directory.
pub const HOLDERS: &str = "holders";
/// The lock of every process that changes a record, or decides by records. Never unlinked.
const LOCK: &str = "lock";
/// The time to wait for that lock. An agent waits meanwhile, so it is short.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
/// The number of records that are read, living processes first. No host runs that many agents.
const MAX_RECORDS: usize = 4096;
/// The number of records beyond which room is made: every prompt reads them all.
const MANY_RECORDS: usize = 256;
/// The number of records left then, so that room is not made again at once.
const KEPT_RECORDS: usize = 128;
/// The time for which the record of a gone process is kept, in milliseconds: it names the last writer
/// of a conversation.
pub const KEPT_MS: u64 = 7 * 24 * 3600 * 1000;
/// The number of conversations that a process left and that are kept in its record.
const MAX_LEFT: usize = 16;
/// The recorded length of the reason why an agent waits, in characters.
const MAX_WHAT_CHARS: usize = 200;

/// A process that has a conversation open. A record may be of an older version, and lack any field with a default.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenConversation {
    /// The kind of the agent, by the name of its traits.
    pub kind: String,
    /// The conversation it has open, by the agent's own id.
    pub conversation_id: String,
    /// The agent's transcript of that conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<PathBuf>,
    /// The directory it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The process: pid, start time and boot.
    #[serde(flatten, with = "record::RecordedProcess")]
    pub identity: ProcessIdentity,
    /// Its controlling terminal; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<PathBuf>,
    /// The session of berth that it runs in; absent outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The time it opened that conversation, in milliseconds since 1970.
    pub opened_ms: u64,
    /// The time it opened that conversation by the boot clock, made later than the openings of all present processes:
    /// the order of openings is decided by it.
    #[serde(default)]
    pub opened_boot_ms: u64,
    /// The time it last read the conversation from disk, by the boot clock: it lacks later text of others.
    #[serde(default)]
    pub loaded_boot_ms: u64,
    /// The time of its last report, in milliseconds since 1970.
    pub seen_ms: u64,
    /// Its activity, by its latest hook.
    pub doing: HookActivity,
    /// The time it last wrote there, or was last seen able to, by the boot clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrote_boot_ms: Option<u64>,
    /// True if its last prompt was held back: the end of that turn then means nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_held_up: bool,
    /// Conversations that it wrote before and left, the latest last: a process that has one of them open must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<ClosedConversation>,
    /// Processes without hooks that had the conversation open already, by pid and start. Among processes that no hook
    /// reports only these came first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub was_open_in: Vec<(u32, u64)>,
    /// The reason for which it closed the conversation, in the agent's own word; absent while open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// A conversation that a process wrote, and no longer has open.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClosedConversation {
    /// The conversation, by the agent's own id.
    pub conversation_id: String,
    /// The time the process last wrote there, by the boot clock.
    pub wrote_boot_ms: u64,
}

/// The activity of an agent, by its hooks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum HookActivity {
    /// Idle: the agent waits for a prompt.
    Idle,
    /// At work on a turn.
    Working,
    /// Waiting for the answer of a user.
    NeedsYou {
        /// The question, shortened and without secrets.
        what: String,
    },
}

impl OpenConversation {
    /// The record of a process after a report. `None` if the report says nothing about its open conversation. `now`
    /// is the boot clock, read under the lock: people set the wall clock, and events wait for the lock.
    pub fn after(before: Option<&Self>, agent: &CallingAgent, report: &HookReport, now: u64) -> Option<Self> {
        let is_same =
            |before: &&Self| before.kind == report.kind && before.conversation_id == report.conversation_id;
        let opens = match &report.told {
            HookEvent::Started { .. } | HookEvent::Prompt { .. } => true,
            // A late event is of the conversation it had before.
            HookEvent::Tool { .. }
            | HookEvent::NeedsYou { .. }
            | HookEvent::Stopped { .. }
            | HookEvent::Interrupted
            | HookEvent::Ended { .. } => false,
        };
        let at = report.at_ms;
        let mut holder = match before.filter(is_same) {
            Some(before) if before.ended.is_none() => before.clone(),
            // The process opened its current conversation again.
            Some(before) if opens => {
                let (opened_boot_ms, loaded_boot_ms) = (now, now);
                let again = Self { opened_ms: at, opened_boot_ms, loaded_boot_ms, ..before.clone() };
                Self { is_held_up: false, ended: None, ..again }
            }
            Some(_) => return None,
            None if opens || (before.is_none() && !matches!(report.told, HookEvent::Ended { .. })) => Self {
                kind: report.kind.clone(),
                conversation_id: report.conversation_id.clone(),
                transcript: None,
                cwd: None,
                identity: agent.identity.clone(),
                terminal: None,
                session: None,
                opened_ms: at,
                opened_boot_ms: now,
                loaded_boot_ms: now,
                seen_ms: at,
                doing: HookActivity::Idle,
                wrote_boot_ms: None,
                is_held_up: false,
                left: Vec::new(),
                was_open_in: Vec::new(),
                ended: None,
            }
            .leaving(before, now),
            None => return None,
        };
        holder.transcript = report.transcript.clone().or(holder.transcript);
        holder.cwd = report.cwd.clone().or(holder.cwd);
        (holder.terminal, holder.session) = (agent.terminal.clone(), agent.session.clone());
        holder.seen_ms = holder.seen_ms.max(at);
        match &report.told {
            // A compaction is of the text that the agent has in memory already.
            HookEvent::Started { how } if how == "compact" => {}
            HookEvent::Started { .. } => {
                holder.settle(now);
                (holder.loaded_boot_ms, holder.is_held_up) = (now, false);
            }
            HookEvent::Prompt { .. } | HookEvent::Tool { .. } => {
                (holder.wrote_boot_ms, holder.is_held_up) = (Some(now), false);
                holder.doing = HookActivity::Working;
            }
            HookEvent::NeedsYou { what, .. } => {
                let what = berth_api::redact::redact_text(what).chars().take(MAX_WHAT_CHARS).collect();
                holder.doing = HookActivity::NeedsYou { what };
            }
            // A process that opened the conversation meanwhile lacks this last answer.
            HookEvent::Stopped { .. } => {
                if !holder.is_held_up {
                    holder.wrote_boot_ms = Some(now);
                }
                holder.doing = HookActivity::Idle;
            }
            // Some agents send this also for an agent that was idle for a minute.
            HookEvent::Interrupted => {
                holder.settle(now);
            }
            HookEvent::Ended { why } => {
                holder.settle(now);
                holder.ended = Some(why.chars().take(MAX_WHAT_CHARS).collect());
            }
        }
        Some(holder)
    }

    /// Marks the process as not at work. Where it worked until now, it may have written until now. Returns true
    /// if it did.
    pub fn settle(&mut self, now: u64) -> bool {
        let worked = match self.doing {
            HookActivity::Idle => false,
            HookActivity::Working | HookActivity::NeedsYou { .. } => true,
        };
        if worked {
            (self.wrote_boot_ms, self.doing) = (Some(now), HookActivity::Idle);
        }
        worked
    }

    /// The record, with the conversation that the process had open before added to those it left.
    fn leaving(mut self, before: Option<&Self>, now: u64) -> Self {
        let Some(mut before) = before.filter(|before| before.kind == self.kind).cloned() else { return self };
        before.settle(now);
        self.wrote_boot_ms = before.wrote_in(&self.conversation_id);
        let known = before.conversation_id.clone();
        self.left = before.left;
        self.left
            .retain(|left| left.conversation_id != known && left.conversation_id != self.conversation_id);
        let wrote = before.wrote_boot_ms;
        self.left
            .extend(wrote.map(|wrote_boot_ms| ClosedConversation { conversation_id: known, wrote_boot_ms }));
        self.left.drain(..self.left.len().saturating_sub(MAX_LEFT));
        self
    }

    /// The time it last wrote that conversation, by the boot clock.
    fn wrote_in(&self, conversation_id: &str) -> Option<u64> {
        if self.conversation_id == conversation_id {
            return self.wrote_boot_ms;
        }
        self.left.iter().find(|left| left.conversation_id == conversation_id).map(|left| left.wrote_boot_ms)
    }

    /// The time it wrote the conversation of `other`, if `other` has not read it since. An equal time counts: reading
    /// once more costs little. Text from before this boot was read by every process.
    pub fn wrote_unread_by(&self, other: &Self) -> Option<u64> {
        let is_one = self.identity.boot == other.identity.boot && self.is_of_one_account_with(other);
        let wrote = self.wrote_in(&other.conversation_id).filter(|_| is_one);
        wrote.filter(|at| *at >= other.loaded_boot_ms)
    }

    /// True if that very process still lives.
    pub fn is_alive(&self) -> bool {
        match self.identity.check() {
            ProcessLiveness::Alive(_) => true,
            ProcessLiveness::Gone => false,
            // A process that may live counts as alive: the other answer would let a second writer in. But a process
            // that may not even be signalled belongs to another user, who has the pid now.
            ProcessLiveness::CannotTell(_) => !self.is_gone() && !is_of_another_user(self.identity.pid),
        }
    }

    /// True if the process is proven not to write here any more. A process of another host writes there, and this
    /// record came with a copy.
    fn is_gone(&self) -> bool {
        matches!(self.identity.check(), ProcessLiveness::Gone) || self.identity.on_another_host().is_some()
    }

    /// True if it has its conversation open now.
    pub fn is_open(&self) -> bool {
        self.ended.is_none() && self.is_alive()
    }

    /// True if both mean one conversation. An equal id in another account is another conversation.
    pub fn is_of_one_with(&self, other: &Self) -> bool {
        self.conversation_id == other.conversation_id && self.is_of_one_account_with(other)
    }

    fn is_of_one_account_with(&self, other: &Self) -> bool {
        let is_same_place = match (self.account(), other.account()) {
            (Some(one), Some(other)) => one == other,
            (None, _) | (_, None) => true,
        };
        self.kind == other.kind && is_same_place
    }

    /// The directory in which the agent keeps its conversations, derived from the place of this one.
    pub fn account(&self) -> Option<&Path> {
        let mut above = self.transcript.as_deref()?.ancestors();
        let is_shelf = |dir: &&Path| dir.ends_with("projects") || dir.ends_with("sessions");
        above.find(is_shelf)?.parent()
    }

    /// The order of holders: the one that has the conversation open for longest comes first.
    pub fn rank(&self) -> (u64, u32) {
        (self.opened_boot_ms, self.identity.pid)
    }
}

fn is_of_another_user(pid: u32) -> bool {
    let asked = Pidfd::open(pid).and_then(|pidfd| pidfd.signal(0));
    asked.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// The opening time of a process that opens its conversation now: after all present processes, to the last
/// of its millisecond.
pub fn next_opening(others: &[OpenConversation], mine: &OpenConversation) -> u64 {
    let of_boot = others.iter().filter(|other| other.identity.boot == mine.identity.boot);
    let latest = of_boot.map(|other| other.opened_boot_ms).max();
    latest.map_or(0, |latest| latest.saturating_add(1)).max(mine.opened_boot_ms)
}

/// The records of a state directory.
#[derive(Clone, Debug)]
pub struct OpenConversations {
    dir: PathBuf,
}

/// A record that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadableRecord {
    /// The path of the record.
    pub file: PathBuf,
    /// The reason, for people.
    pub why: String,
}

/// The records of a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenConversationRecords {
    /// The records that can be read, of living and gone processes.
    pub holders: Vec<OpenConversation>,
    /// The records that cannot be read.
    pub damaged: Vec<UnreadableRecord>,
    /// The number of further records that were not read.
    pub left_out: usize,
}

impl OpenConversations {
    /// The records of this state directory. Makes nothing.
    pub fn of(root: &Path) -> Self {
        Self { dir: root.join(HOLDERS) }
    }

    /// Makes the directory of the records. A missing state directory is not made.
    pub fn make(&self) -> io::Result<()> {
        let private = |dir: &Path| {
            berth_host::dir::private_dir(dir).map_err(|error| io::Error::other(error.to_string()))
        };
        let root = self.dir.parent().filter(|root| root.is_dir()).ok_or(io::ErrorKind::NotFound)?;
        private(root)?;
        private(&self.dir)
    }

    /// Takes the lock for changing records, and for deciding by them. `None` if another process holds it for too long.
    pub fn lock(&self) -> io::Result<Option<LockFile>> {
        let file = LockFile::open_or_create(&self.dir.join(LOCK))?;
        Ok(file.acquire(LOCK_PATIENCE)?.then_some(file))
    }

    /// The record of a process. A record with its name from an earlier boot belongs to another process.
    pub fn of_process(&self, kind: &str, identity: &ProcessIdentity) -> Option<OpenConversation> {
        record::read(&self.file(kind, identity)).ok()?.filter(|holder| holder.identity == *identity)
    }

    /// Writes the record of a process. No process survives a power cut.
    pub fn write(&self, holder: &OpenConversation) -> io::Result<()> {
        let path = self.file(&holder.kind, &holder.identity);
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        disk::write_briefly(&self.dir, name, &record::to_json(holder)?)
    }

    /// Reads all records.
    pub fn all(&self) -> OpenConversationRecords {
        let (files, left_out) = self.files();
        let mut found = OpenConversationRecords { left_out, ..OpenConversationRecords::default() };
        for file in files {
            match record::read(&file) {
                Ok(Some(holder)) if self.file(&holder.kind, &holder.identity) == file => {
                    found.holders.push(holder);
                }
                Ok(Some(_)) => {
                    let why = "the process in the record is not the one in the name of the file".to_owned();
                    found.damaged.push(UnreadableRecord { file, why });
                }
                // The record was removed meanwhile.
                Ok(None) => {}
                Err(why) => found.damaged.push(UnreadableRecord { file, why }),
            }
        }
        found
    }

    /// Like [`OpenConversations::all`]. Beyond a number of records, those of processes that are proven gone are removed, the
    /// oldest first; not one that names text that a living process has not read. The caller holds the lock.
    pub fn all_with_room(&self) -> OpenConversationRecords {
        let mut found = self.all();
        if found.holders.len() <= MANY_RECORDS {
            return found;
        }
        let (mut gone, living): (Vec<_>, Vec<_>) =
            found.holders.into_iter().partition(OpenConversation::is_gone);
        gone.sort_by_key(|holder| holder.seen_ms);
        let is_needed = |holder: &OpenConversation| {
            let died_at_work = holder.doing != HookActivity::Idle;
            living.iter().any(|other| {
                holder.wrote_unread_by(other).is_some() || died_at_work && holder.is_of_one_with(other)
            })
        };
        let mut surplus = (gone.len() + living.len()).saturating_sub(KEPT_RECORDS);
        gone.retain(|holder| {
            let goes = surplus > 0
                && !is_needed(holder)
                && fs::remove_file(self.file(&holder.kind, &holder.identity)).is_ok();
            surplus -= usize::from(goes);
            !goes
        });
        found.holders = living;
        found.holders.append(&mut gone);
        found
    }

    /// The processes that have their conversation open now.
    pub fn open(&self) -> Vec<OpenConversation> {
        self.all().holders.into_iter().filter(OpenConversation::is_open).collect()
    }

    /// True if one of these processes has a record.
    pub fn any_of(&self, pids: &[u32]) -> bool {
        let is_one = |file: &PathBuf| {
            of_name(file).is_some_and(|(pid, _)| pids.contains(&pid)) && living(file).is_some()
        };
        !pids.is_empty() && self.files().0.iter().any(is_one)
    }

    /// Removes the records of processes that are proven gone for long, and empty files that a power cut left. Returns
    /// the number removed.
    pub fn sweep(&self, now_ms: u64) -> usize {
        let Ok(Some(_lock)) = self.lock() else { return 0 };
        let is_over =
            |holder: &OpenConversation| now_ms.saturating_sub(holder.seen_ms) > KEPT_MS && holder.is_gone();
        let gone = self.all().holders.into_iter().filter(is_over);
        let gone = gone.map(|holder| self.file(&holder.kind, &holder.identity));
        let is_empty = |file: &PathBuf| fs::metadata(file).is_ok_and(|file| file.len() == 0);
        let empty = self.files().0.into_iter().filter(|file| is_empty(file) && living(file).is_none());
        gone.chain(empty).filter(|file| fs::remove_file(file).is_ok()).count()
    }

    /// True if there ever was a record.
    pub fn are_there(&self) -> bool {
        self.dir.is_dir()
    }

    pub(crate) fn file(&self, kind: &str, identity: &ProcessIdentity) -> PathBuf {
        self.dir.join(format!("{kind}.{}.{}.json", identity.pid, identity.start_ticks))
    }

    /// The records that are read, and the number of those that are not.
    fn files(&self) -> (Vec<PathBuf>, usize) {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let is_record = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.ends_with(".json") && !name.starts_with('.')
        };
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_record).collect();
        let left_out = files.len().saturating_sub(MAX_RECORDS);
        if left_out > 0 {
            files.sort_by_cached_key(|file| living(file).is_none());
            files.truncate(MAX_RECORDS);
        }
        (files, left_out)
    }
}

/// The pid of the living process that a record of this name belongs to.
fn living(file: &Path) -> Option<u32> {
    let (pid, ticks) = of_name(file)?;
    identity::process_stat(pid).ok().filter(|stat| stat.start_ticks == ticks).map(|_| pid)
}

/// The pid and the start of the process in a record's name.
fn of_name(file: &Path) -> Option<(u32, u64)> {
    let mut parts = file.file_name()?.to_str()?.strip_suffix(".json")?.rsplit('.');
    let (ticks, pid) = (parts.next()?, parts.next()?);
    Some((pid.parse().ok()?, ticks.parse().ok()?))
}

#[cfg(test)]
mod tests;
