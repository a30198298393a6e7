//! Holders: the agents' processes that have a conversation open, as their own hooks told.
//!
//! One record for each process, called by its pid and its start, so that an agent that another one starts has a
//! record of its own and takes nobody's over. Every event may make it or mend it: one that was missed is made up
//! for by the next, and `/clear`, `/resume` and a compaction change the conversation in the record of that process.
//! Promise: a record is believed only while that very process lives; it is read whole or not at all; what is damaged
//! is passed over, kept and reported. Nothing that was said to an agent is in it.
//! Not here: what agents call their events (`verbs::hook`), who may go on (`verbs::hook::guard`), other signs of
//! writers (see `writers`).
//! Start with [`Holders`], then [`Holder::after`].

mod agent;
mod record;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::hook::{Report, Told};
use berth_host::disk;
use berth_host::identity::{self, Identity, Pidfd, Verdict};
use berth_host::lock::LockFile;
use serde::{Deserialize, Serialize};

pub use agent::{Agent, agent};

/// Where in the state directory they are.
pub(crate) const HOLDERS: &str = "holders";
/// Who changes a record, or decides by them, holds this. Never unlinked.
const LOCK: &str = "lock";
/// How long somebody may take over that. An agent waits meanwhile, so it is short.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
/// How many records are looked at, those of the living first. More than that many agents do not run on a host.
const MAX_RECORDS: usize = 4096;
/// With more than this, room is made: everyone who prompts reads them all.
const MANY_RECORDS: usize = 256;
/// How many are left then, so that it is not done again at once.
const KEPT_RECORDS: usize = 128;
/// How long the record of a process that is gone is kept: it tells who wrote a conversation last.
pub const KEPT_MS: u64 = 7 * 24 * 3600 * 1000;
/// How many conversations that a process left are kept in its record.
const MAX_LEFT: usize = 16;
/// The most that is kept of what an agent waits for.
const MAX_WHAT_CHARS: usize = 200;

/// A process that has a conversation open. A record of it may be of an older version, and lack anything that is
/// read with a default.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// What kind of conversations it writes.
    pub kind: String,
    /// The one it has open.
    pub conversation_id: String,
    /// Where it writes that down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<PathBuf>,
    /// The directory it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Which process it is.
    #[serde(flatten, with = "record::Process")]
    pub identity: Identity,
    /// Its terminal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<PathBuf>,
    /// The session of ours that it runs in, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When it opened that conversation, in milliseconds since 1970.
    pub opened_ms: u64,
    /// The same by the boot clock, and later than that of all who were there: who came first is decided by it.
    #[serde(default)]
    pub opened_boot_ms: u64,
    /// When it last read it from disk, by the boot clock: what others wrote since then it does not know.
    #[serde(default)]
    pub loaded_boot_ms: u64,
    /// When it last told anything.
    pub seen_ms: u64,
    /// What it does.
    pub doing: Doing,
    /// When it last wrote there, or was last noticed to have been able to, by the boot clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrote_boot_ms: Option<u64>,
    /// Its last prompt did not go out: the end of that turn is the end of nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_held_up: bool,
    /// What it wrote before and left, the latest last: whoever has that open must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Left>,
    /// Who had it open already and has no hooks, by pid and start: of those that no hook tells of only they came first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub was_open_in: Vec<(u32, u64)>,
    /// It closed the conversation, for this reason in its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// A conversation that a process wrote, and has open no longer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Left {
    /// Which.
    pub conversation_id: String,
    /// When it last wrote there, by the boot clock.
    pub wrote_boot_ms: u64,
}

/// What an agent does, by its hooks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Doing {
    /// It waits for something to do.
    Idle,
    /// It works.
    Working,
    /// It waits for somebody's word.
    NeedsYou {
        /// About what.
        what: String,
    },
}

impl Holder {
    /// What is known of a process after it told something. `None`: that says nothing about what it has open.
    /// `now` is the boot clock, read under the lock: people set the other one, and events wait for the lock.
    pub fn after(before: Option<&Self>, agent: &Agent, report: &Report, now: u64) -> Option<Self> {
        let is_same =
            |before: &&Self| before.kind == report.kind && before.conversation_id == report.conversation_id;
        let opens = match &report.told {
            Told::Started { .. } | Told::Prompt { .. } => true,
            // What comes late is of the conversation it had before.
            Told::Tool { .. }
            | Told::NeedsYou { .. }
            | Told::Stopped { .. }
            | Told::Interrupted
            | Told::Ended { .. } => false,
        };
        let at = report.at_ms;
        let mut holder = match before.filter(is_same) {
            Some(before) if before.ended.is_none() => before.clone(),
            // It opened the same one again.
            Some(before) if opens => {
                let (opened_boot_ms, loaded_boot_ms) = (now, now);
                let again = Self { opened_ms: at, opened_boot_ms, loaded_boot_ms, ..before.clone() };
                Self { is_held_up: false, ended: None, ..again }
            }
            Some(_) => return None,
            None if opens || (before.is_none() && !matches!(report.told, Told::Ended { .. })) => Self {
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
                doing: Doing::Idle,
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
            // A compaction is of what it has in mind already.
            Told::Started { how } if how == "compact" => {}
            Told::Started { .. } => {
                holder.settle(now);
                (holder.loaded_boot_ms, holder.is_held_up) = (now, false);
            }
            Told::Prompt { .. } | Told::Tool { .. } => {
                (holder.wrote_boot_ms, holder.is_held_up) = (Some(now), false);
                holder.doing = Doing::Working;
            }
            Told::NeedsYou { what, .. } => {
                let what = berth_api::redact::text(what).chars().take(MAX_WHAT_CHARS).collect();
                holder.doing = Doing::NeedsYou { what };
            }
            // Whoever opened the conversation while it worked lacks what it said last.
            Told::Stopped { .. } => {
                if !holder.is_held_up {
                    holder.wrote_boot_ms = Some(now);
                }
                holder.doing = Doing::Idle;
            }
            // Some agents tell this also of one that has had nothing to do for a minute.
            Told::Interrupted => {
                holder.settle(now);
            }
            Told::Ended { why } => {
                holder.settle(now);
                holder.ended = Some(why.chars().take(MAX_WHAT_CHARS).collect());
            }
        }
        Some(holder)
    }

    /// It works no longer. Where it did until now, it may have written until now. Whether it did.
    pub fn settle(&mut self, now: u64) -> bool {
        let worked = match self.doing {
            Doing::Idle => false,
            Doing::Working | Doing::NeedsYou { .. } => true,
        };
        if worked {
            (self.wrote_boot_ms, self.doing) = (Some(now), Doing::Idle);
        }
        worked
    }

    /// The same process, which had another conversation open before.
    fn leaving(mut self, before: Option<&Self>, now: u64) -> Self {
        let Some(mut before) = before.filter(|before| before.kind == self.kind).cloned() else { return self };
        before.settle(now);
        self.wrote_boot_ms = before.wrote_in(&self.conversation_id);
        let known = before.conversation_id.clone();
        self.left = before.left;
        self.left
            .retain(|left| left.conversation_id != known && left.conversation_id != self.conversation_id);
        let wrote = before.wrote_boot_ms;
        self.left.extend(wrote.map(|wrote_boot_ms| Left { conversation_id: known, wrote_boot_ms }));
        self.left.drain(..self.left.len().saturating_sub(MAX_LEFT));
        self
    }

    /// When it last wrote that conversation, by the boot clock.
    fn wrote_in(&self, conversation_id: &str) -> Option<u64> {
        if self.conversation_id == conversation_id {
            return self.wrote_boot_ms;
        }
        self.left.iter().find(|left| left.conversation_id == conversation_id).map(|left| left.wrote_boot_ms)
    }

    /// When it wrote the conversation of that other one, if that one has not read it since. At the same instant
    /// counts: to read it once more costs little. What was written before this boot everyone has read.
    pub fn wrote_unread_by(&self, other: &Self) -> Option<u64> {
        let is_one = self.identity.boot == other.identity.boot && self.is_of_one_account_with(other);
        let wrote = self.wrote_in(&other.conversation_id).filter(|_| is_one);
        wrote.filter(|at| *at >= other.loaded_boot_ms)
    }

    /// Whether that very process still lives.
    pub fn is_alive(&self) -> bool {
        match self.identity.check() {
            Verdict::Alive(_) => true,
            Verdict::Gone => false,
            // Whoever may be there, is: the other answer would let a second writer in. But what may not even be
            // signalled is another user's, who has the pid now.
            Verdict::CannotTell(_) => !self.is_gone() && !is_of_another_user(self.identity.pid),
        }
    }

    /// Whether that process is proven not to write here any more. One of another host writes there, and this record came
    /// with a copy.
    fn is_gone(&self) -> bool {
        matches!(self.identity.check(), Verdict::Gone) || self.identity.elsewhere().is_some()
    }

    /// Whether it has its conversation open now.
    pub fn is_open(&self) -> bool {
        self.ended.is_none() && self.is_alive()
    }

    /// Whether both mean one conversation. The same id in another account is another one.
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

    /// Where the agent keeps its conversations, by where this one is.
    pub(crate) fn account(&self) -> Option<&Path> {
        let mut above = self.transcript.as_deref()?.ancestors();
        let is_shelf = |dir: &&Path| dir.ends_with("projects") || dir.ends_with("sessions");
        above.find(is_shelf)?.parent()
    }

    /// Who comes first: the one that has it open for longest.
    pub fn rank(&self) -> (u64, u32) {
        (self.opened_boot_ms, self.identity.pid)
    }
}

fn is_of_another_user(pid: u32) -> bool {
    let asked = Pidfd::open(pid).and_then(|pidfd| pidfd.signal(0));
    asked.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// When one that comes now opens its conversation: after everyone who is there, to the last of the same millisecond.
pub fn next_opening(others: &[Holder], mine: &Holder) -> u64 {
    let of_boot = others.iter().filter(|other| other.identity.boot == mine.identity.boot);
    let latest = of_boot.map(|other| other.opened_boot_ms).max();
    latest.map_or(0, |latest| latest.saturating_add(1)).max(mine.opened_boot_ms)
}

/// The records of a state directory.
#[derive(Clone, Debug)]
pub struct Holders {
    dir: PathBuf,
}

/// A record that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damaged {
    /// Which.
    pub file: PathBuf,
    /// Why.
    pub why: String,
}

/// What is in there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Those that can be read, alive or not.
    pub holders: Vec<Holder>,
    /// Those that cannot.
    pub damaged: Vec<Damaged>,
    /// How many more there are, which nobody looked at.
    pub left_out: usize,
}

impl Holders {
    /// Those of this state directory. Nothing is made.
    pub fn of(root: &Path) -> Self {
        Self { dir: root.join(HOLDERS) }
    }

    /// Makes the directory. A state directory that is not there is not made.
    pub fn make(&self) -> io::Result<()> {
        let private = |dir: &Path| {
            berth_host::dir::private_dir(dir).map_err(|error| io::Error::other(error.to_string()))
        };
        let root = self.dir.parent().filter(|root| root.is_dir()).ok_or(io::ErrorKind::NotFound)?;
        private(root)?;
        private(&self.dir)
    }

    /// Takes the right to change records, and to decide by them. `None` if somebody has it for too long.
    pub fn lock(&self) -> io::Result<Option<LockFile>> {
        let file = LockFile::open_or_create(&self.dir.join(LOCK))?;
        Ok(file.acquire(LOCK_PATIENCE)?.then_some(file))
    }

    /// The record of a process. What has its name from an earlier boot is of another one.
    pub fn of_process(&self, kind: &str, identity: &Identity) -> Option<Holder> {
        record::read(&self.file(kind, identity)).ok()?.filter(|holder| holder.identity == *identity)
    }

    /// Writes the record of a process. No process survives a power cut.
    pub fn write(&self, holder: &Holder) -> io::Result<()> {
        let path = self.file(&holder.kind, &holder.identity);
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        disk::write_briefly(&self.dir, name, &record::to_json(holder)?)
    }

    /// Everything that is there.
    pub fn all(&self) -> Found {
        let (files, left_out) = self.files();
        let mut found = Found { left_out, ..Found::default() };
        for file in files {
            match record::read(&file) {
                Ok(Some(holder)) if self.file(&holder.kind, &holder.identity) == file => {
                    found.holders.push(holder);
                }
                Ok(Some(_)) => {
                    let why = "it is of another process than its name says".to_owned();
                    found.damaged.push(Damaged { file, why });
                }
                // It went meanwhile.
                Ok(None) => {}
                Err(why) => found.damaged.push(Damaged { file, why }),
            }
        }
        found
    }

    /// The same. Where there are many, those of processes that are proven gone are removed, the oldest first; not
    /// one that says what a living process has not read. Who asks holds the lock.
    pub fn all_with_room(&self) -> Found {
        let mut found = self.all();
        if found.holders.len() <= MANY_RECORDS {
            return found;
        }
        let (mut gone, living): (Vec<_>, Vec<_>) = found.holders.into_iter().partition(Holder::is_gone);
        gone.sort_by_key(|holder| holder.seen_ms);
        let is_needed = |holder: &Holder| {
            let died_at_work = holder.doing != Doing::Idle;
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

    /// Those that have their conversation open now.
    pub fn open(&self) -> Vec<Holder> {
        self.all().holders.into_iter().filter(Holder::is_open).collect()
    }

    /// Whether one of these processes has a record.
    pub fn any_of(&self, pids: &[u32]) -> bool {
        let is_one = |file: &PathBuf| {
            of_name(file).is_some_and(|(pid, _)| pids.contains(&pid)) && living(file).is_some()
        };
        !pids.is_empty() && self.files().0.iter().any(is_one)
    }

    /// Removes the records of processes that are proven gone for long, and what a power cut left of some. How many.
    pub fn sweep(&self, now_ms: u64) -> usize {
        let Ok(Some(_lock)) = self.lock() else { return 0 };
        let is_over = |holder: &Holder| now_ms.saturating_sub(holder.seen_ms) > KEPT_MS && holder.is_gone();
        let gone = self.all().holders.into_iter().filter(is_over);
        let gone = gone.map(|holder| self.file(&holder.kind, &holder.identity));
        let is_empty = |file: &PathBuf| fs::metadata(file).is_ok_and(|file| file.len() == 0);
        let empty = self.files().0.into_iter().filter(|file| is_empty(file) && living(file).is_none());
        gone.chain(empty).filter(|file| fs::remove_file(file).is_ok()).count()
    }

    /// Whether there ever was one.
    pub fn are_there(&self) -> bool {
        self.dir.is_dir()
    }

    pub(crate) fn file(&self, kind: &str, identity: &Identity) -> PathBuf {
        self.dir.join(format!("{kind}.{}.{}.json", identity.pid, identity.start_ticks))
    }

    /// Those that are looked at, and how many are not.
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

/// The process that lives and that a record of this name is of.
fn living(file: &Path) -> Option<u32> {
    let (pid, ticks) = of_name(file)?;
    identity::stat(pid).ok().filter(|stat| stat.start_ticks == ticks).map(|_| pid)
}

/// The process and its start that a record's name says.
fn of_name(file: &Path) -> Option<(u32, u64)> {
    let mut parts = file.file_name()?.to_str()?.strip_suffix(".json")?.rsplit('.');
    let (ticks, pid) = (parts.next()?, parts.next()?);
    Some((pid.parse().ok()?, ticks.parse().ok()?))
}

#[cfg(test)]
mod tests;
