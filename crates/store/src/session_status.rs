//! Status of sessions from outside, without their keepers: lists, details, and the evidence behind them.
//!
//! Promise: reading changes nothing, and a status follows from the journal and the kernel. `status.json` is only a
//! cache, believed where it cannot be out of date.
//! Start with [`status`].

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use berth_api::status::{SessionStatus, Timestamp};
use berth_api::{Problem, SessionState};
use berth_core::{Session, SessionId};
use berth_host::clock;
use berth_host::identity::{Pidfd, ProcessLiveness};
use berth_host::lock::{LockState, lock_state};
use serde::{Deserialize, Serialize};

use crate::foreign_lease_holder::ForeignLeaseHolder;
use crate::session_files::{LEASE_FILE, output_of};
use crate::state_dir::StateDir;
use crate::store::JOURNAL_DIR;
use crate::stored_session::StoredSession;
use crate::{SessionView, killpoint, process_ref};

/// Name of the status cache.
pub(crate) const STATUS_FILE: &str = "status.json";
/// Name under which a cache that cannot be read is kept.
const ASIDE_FILE: &str = "status.json.aside";

/// True if the session in `dir` is held: by its keeper, or by a command that clears up after one. A lease file that
/// was removed or replaced proves nothing about its keeper; the lock on the directory does.
pub(crate) fn is_kept(dir: &Path) -> io::Result<bool> {
    let is_held = |path: &Path| lock_state(path).map(|found| found == Some(LockState::Held));
    Ok(is_held(&dir.join(LEASE_FILE))? || is_held(dir)?)
}

/// Reads the summary of a session's journal.
pub fn history(home: &StateDir, id: &SessionId) -> Result<SessionView, Problem> {
    Ok(StoredSession::read(&home.session_dir(id), id)?.history)
}

/// Status of a session, without asking its keeper.
pub fn status(home: &StateDir, id: &SessionId) -> Result<SessionStatus, Problem> {
    StatusCache::at(home, id).status(home)
}

/// The fields that decide whether a list shows a session.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusSummary<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    /// State of the session.
    pub state: SessionState,
    /// Working directory.
    #[serde(borrow)]
    pub cwd: Cow<'a, str>,
    /// Name of the session, if it has one.
    pub name: Option<Cow<'a, str>>,
    /// Name of the agent in the table of agents.
    pub agent: Option<Cow<'a, str>>,
    /// Program and its arguments.
    pub command: Cow<'a, [String]>,
    /// Tags of the session.
    pub tags: Cow<'a, [String]>,
    /// Time at which the last run ended.
    pub ended_at: Option<Timestamp>,
}

impl<'a> From<&'a SessionStatus> for StatusSummary<'a> {
    fn from(status: &'a SessionStatus) -> Self {
        Self {
            id: Cow::Borrowed(&status.id),
            state: status.state.clone(),
            cwd: Cow::Borrowed(&status.what.cwd),
            name: status.name.as_deref().map(Cow::Borrowed),
            agent: status.what.agent.as_deref().map(Cow::Borrowed),
            command: Cow::Borrowed(&status.what.command),
            tags: Cow::Borrowed(&status.tags),
            ended_at: status.ended_at,
        }
    }
}

/// One read of the status cache, for a list. The file may be replaced a moment later; this value stays consistent
/// in itself.
#[derive(Debug)]
pub struct StatusCache {
    id: SessionId,
    status_cache: Vec<u8>,
    /// Time at which the cache was written: relative times in it count from then.
    written_ms: u64,
}

impl StatusCache {
    /// Reads the status cache.
    pub fn at(home: &StateDir, id: &SessionId) -> Self {
        let (mut status_cache, mut written_ms) = (Vec::new(), 0);
        if let Ok(mut file) = fs::File::open(home.session_dir(id).join(STATUS_FILE)) {
            written_ms = file.metadata().ok().as_ref().and_then(modified_ms).unwrap_or(0);
            if file.read_to_end(&mut status_cache).is_err() {
                status_cache.clear();
            }
        }
        Self { id: id.clone(), status_cache, written_ms }
    }

    /// The fields that decide whether a list shows the session, if the cache alone can be believed: most sessions
    /// are over and not shown, and parsing their whole status would be wasted.
    pub fn brief(&self) -> Option<StatusSummary<'_>> {
        let brief = serde_json::from_slice::<StatusSummary<'_>>(&self.status_cache).ok()?;
        (brief.id == self.id.as_str() && brief.state.is_final()).then_some(brief)
    }

    /// The whole status.
    pub fn status(&self, home: &StateDir) -> Result<SessionStatus, Problem> {
        if let Some(status) = self.believed(home) {
            return Ok(status);
        }
        let (history, lease) = history_and_lease(home, &self.id)?;
        Ok(describe(&home.session_dir(&self.id), &self.id, &history, lease.is_kept()))
    }

    /// Status from the cache, if the cache cannot be out of date.
    pub fn believed(&self, home: &StateDir) -> Option<SessionStatus> {
        let Self { id, status_cache, written_ms } = self;
        let dir = home.session_dir(id);
        let mut status = serde_json::from_slice::<SessionStatus>(status_cache).ok()?;
        let is_believed = status.id == id.as_str()
            && !matches!(status.state, SessionState::Other(_))
            // A cache with a final state was the last act of its writer: it is invalidated before any later event
            // (see [`invalidate_status_cache`]).
            && (status.state.is_final()
                // A keeper does not write the cache for every event: it counts if the journal has not grown since.
                || (is_keeper_alive(status.keeper_pid) && is_kept(&dir).unwrap_or(false) && is_up_to_date(&dir, status_cache))
                || is_released(&dir, &mut status, status_cache));
        if !is_believed {
            return None;
        }
        let passed_ms = clock::wall_ms().saturating_sub(*written_ms);
        let left = |ms: Option<u64>| ms.map(|ms| ms.saturating_sub(passed_ms));
        status.expires_in_ms = left(status.expires_in_ms);
        if let Some(turns) = &mut status.turns {
            turns.releases_in_ms = left(turns.releases_in_ms);
        }
        add_output(&dir, &mut status);
        Some(status)
    }
}

/// Limit of the retries while a journal grows between reading it and reading the lease.
const MOST_LOOKS: usize = 16;

/// Holder of a session's lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseHolder {
    /// The keeper of the session.
    Kept,
    /// A command that clears up after its keeper.
    Cleared,
    /// A program that is not berth.
    Strange(ForeignLeaseHolder),
    /// No process.
    Free,
}

impl LeaseHolder {
    /// True if the holder is the keeper.
    pub fn is_kept(&self) -> bool {
        *self == Self::Kept
    }

    /// Identifies the holder of a lease that is held.
    fn held(dir: &Path, session: &Session) -> Self {
        let keeper = session.keeper.as_ref().map(|keeper| process_ref::to_process_identity(keeper).check());
        match keeper {
            // A live keeper holds its lease, so no other holder has to be searched for.
            Some(ProcessLiveness::Alive(_) | ProcessLiveness::CannotTell(_)) => Self::Kept,
            Some(ProcessLiveness::Gone) | None => match ForeignLeaseHolder::of(dir) {
                Some(stranger) => Self::Strange(stranger),
                None if process_ref::lost_its_keeper(session) => Self::Cleared,
                None => Self::Kept,
            },
        }
    }
}

/// Reads journal and lease consistently. A keeper may write the end of its run and leave between the two reads; an
/// older journal with a newer lease would make a clean end look lost. So if no keeper holds a run without an end,
/// the journal must not have grown in between, or both are read again.
pub fn history_and_lease(home: &StateDir, id: &SessionId) -> Result<(SessionView, LeaseHolder), Problem> {
    let dir = home.session_dir(id);
    let mut looks = 0;
    loop {
        looks += 1;
        let before = JournalEnd::of(&dir).ok();
        let history = history(home, id)?;
        killpoint::reached("view-between-journal-and-lease");
        let held = is_kept(&dir).map_err(|error| {
            Problem::refused(format!("cannot look at the lease of session {id}: {error}"))
        })?;
        let lease = match held {
            true => LeaseHolder::held(&dir, &history.session),
            false => LeaseHolder::Free,
        };
        let claims_a_loss = history.session.is_live() && !lease.is_kept();
        if !claims_a_loss || before == JournalEnd::of(&dir).ok() || looks == MOST_LOOKS {
            return Ok((history, lease));
        }
    }
}

/// Updates the fields that come from the output files: the time of the last sign of life.
pub fn refresh_output(home: &StateDir, id: &SessionId, status: &mut SessionStatus) {
    add_output(&home.session_dir(id), status);
}

/// True if the cache shows an agent that was released for being idle, and no keeper has taken the session since.
/// Fields that only a live keeper knows are removed from the status.
fn is_released(dir: &Path, status: &mut SessionStatus, status_cache: &[u8]) -> bool {
    let is_over =
        status.state == SessionState::Idle && status.keeper_pid.is_none() && status.ended_at.is_some();
    // The lease first: a process that takes it after this check is later in everything.
    if !is_over || is_kept(dir).unwrap_or(true) || !is_up_to_date(dir, status_cache) {
        return false;
    }
    (status.clients, status.writer, status.expires_in_ms) = (0, None, None);
    status.attached.clear();
    if let Some(turns) = &mut status.turns {
        (turns.activity, turns.releases_in_ms) = (None, None);
    }
    true
}

/// Status from the journal and the output files.
pub(crate) fn describe(dir: &Path, id: &SessionId, history: &SessionView, kept: bool) -> SessionStatus {
    let mut status = history.status(id, kept);
    status.output_file = output_of(dir).newest();
    if let Some(old) = read_status_cache(dir) {
        (status.rows, status.cols) = (old.rows, old.cols);
        (status.model, status.context, status.branch) = (old.model, old.context, old.branch);
        // The journal does not have text that was typed into a terminal.
        if status.what.has_terminal() && old.last_prompt.is_some() {
            (status.last_prompt, status.last_answer) = (old.last_prompt, old.last_answer);
        }
        if kept {
            (status.clients, status.attached) = (old.clients, old.attached);
        }
    }
    add_output(dir, &mut status);
    status
}

/// True if the keeper that a cache names is alive. If it is not, and the lease is held, then the holder is clearing up.
pub fn is_keeper_alive(keeper_pid: Option<u32>) -> bool {
    let alive = |pid| Pidfd::open(pid).is_ok_and(|pidfd| !pidfd.has_exited());
    keeper_pid.is_some_and(alive)
}

/// Reads the status cache, if the journal has not grown since it was written.
pub(crate) fn valid_status_cache(home: &StateDir, id: &SessionId) -> Option<SessionStatus> {
    let dir = home.session_dir(id);
    let status_cache = fs::read(dir.join(STATUS_FILE)).ok()?;
    let status = serde_json::from_slice::<SessionStatus>(&status_cache).ok()?;
    (status.id == id.as_str() && is_up_to_date(&dir, &status_cache)).then_some(status)
}

/// Reads the status cache, which may be out of date.
pub(crate) fn read_status_cache(dir: &Path) -> Option<SessionStatus> {
    serde_json::from_slice(&fs::read(dir.join(STATUS_FILE)).ok()?).ok()
}

/// Length of a journal: its newest file, and the length of that. It grows with every event, so if it is unchanged,
/// there is no new event.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JournalEnd {
    pub(crate) journal_file: String,
    journal_bytes: u64,
}

impl JournalEnd {
    fn of(dir: &Path) -> io::Result<Self> {
        let dir = dir.join(JOURNAL_DIR);
        let mut newest = String::new();
        for entry in fs::read_dir(&dir)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            if name.ends_with(".log") && name > newest {
                newest = name;
            }
        }
        let journal_bytes = fs::metadata(dir.join(&newest))?.len();
        Ok(Self { journal_file: newest, journal_bytes })
    }
}

/// A mark of a journal's length: it changes with every event.
pub fn journal_mark(home: &StateDir, id: &SessionId) -> io::Result<(String, u64)> {
    let end = JournalEnd::of(&home.session_dir(id))?;
    Ok((end.journal_file, end.journal_bytes))
}

/// True if the journal has not grown since this cache was written.
fn is_up_to_date(dir: &Path, status_cache: &[u8]) -> bool {
    let written = serde_json::from_slice::<JournalEnd>(status_cache).ok();
    JournalEnd::of(dir).is_ok_and(|end| written == Some(end))
}

/// The stored form of the cache.
#[derive(Serialize)]
struct StatusCacheRecord<'a> {
    #[serde(flatten)]
    status: &'a SessionStatus,
    #[serde(flatten)]
    reaches: JournalEnd,
}

/// Writes the status cache; only the holder of the lease may. The cache is derived, so a failure costs only time.
pub(crate) fn write_status_cache(dir: &Path, status: &SessionStatus) {
    let status_cache = StatusCacheRecord { status, reaches: JournalEnd::of(dir).unwrap_or_default() };
    if let Ok(json) = serde_json::to_vec(&status_cache) {
        let _ = berth_host::disk::write_atomically(dir, STATUS_FILE, &json, false);
    }
}

/// Invalidates the status cache before an event that it does not know of: a cache with "stopped" or "archived" is
/// believed without reading the journal. Fields without another source stay: the terminal's size.
pub(crate) fn invalidate_status_cache(dir: &Path) -> io::Result<()> {
    let doubted =
        read_status_cache(dir).map(|status| SessionStatus { state: SessionState::default(), ..status });
    let json = doubted.and_then(|status| serde_json::to_vec(&status).ok());
    // Synced, because the next event is synced as well, and a power cut must not bring the old cache back.
    if json.is_some_and(|json| berth_host::disk::write_atomically(dir, STATUS_FILE, &json, true).is_ok()) {
        return Ok(());
    }
    // The cache is unreadable, or there is no room for another file: keep it aside for an investigation.
    match fs::rename(dir.join(STATUS_FILE), dir.join(ASIDE_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => berth_host::disk::sync_dirs(&[dir]),
    }
}

/// Adds the facts that the output file has: it is touched with every byte, so activity and length survive a crash
/// of the keeper.
pub(crate) fn add_output(dir: &Path, status: &mut SessionStatus) {
    let Some(name) = &status.output_file else { return };
    let Ok(file) = output_of(dir).metadata(name) else { return };
    if let Some(written) = modified_ms(&file).filter(|written| *written > status.last_activity_at.0) {
        status.last_activity_at = Timestamp(written);
    }
    // A file is named after the offset of its first byte. There may be a newer one by now.
    let start = name.strip_suffix(".out").and_then(|start| start.parse::<u64>().ok());
    status.output_bytes = status.output_bytes.max(start.unwrap_or(0).saturating_add(file.len()));
}

/// Time of the last write to a file, in milliseconds since 1970.
pub fn modified_ms(file: &fs::Metadata) -> Option<u64> {
    let modified = file.modified().ok()?;
    u64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
