//! A look at sessions from outside: lists, details, and the evidence behind them.
//!
//! Promise: looking changes nothing, and what is shown follows from the journal and the kernel,
//! not from what somebody once wrote down. `status.json` is only a short cut, believed where it
//! cannot be out of date.
//! Start with [`status`].

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use berth_api::status::{Status, Timestamp};
use berth_api::{Code, Problem, SessionState};
use berth_core::{Session, SessionId};
use berth_host::clock;
use berth_host::identity::{Pidfd, Verdict};
use berth_host::lock::{Probe, probe};
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::past::SessionPast;
use crate::session_files::{LEASE_FILE, output_of};
use crate::store::JOURNAL_DIR;
use crate::stranger::StrangeHolder;
use crate::{History, killpoint, process};

/// The name of the short cut.
pub(crate) const STATUS_FILE: &str = "status.json";
/// Where one that cannot be read is kept.
const ASIDE_FILE: &str = "status.json.aside";

/// Whether the session in `dir` is held: by its keeper, or by a command that clears up after one. A lease file that was
/// removed or replaced says nothing about its keeper; the lock on the directory does.
pub(crate) fn is_kept(dir: &Path) -> io::Result<bool> {
    let is_held = |path: &Path| probe(path).map(|found| found == Some(Probe::Held));
    Ok(is_held(&dir.join(LEASE_FILE))? || is_held(dir)?)
}

/// What the journal tells.
pub fn history(home: &Home, id: &SessionId) -> Result<History, Problem> {
    Ok(SessionPast::read(&home.session_dir(id), id)?.history)
}

/// What is known about a session, without asking its keeper.
pub fn status(home: &Home, id: &SessionId) -> Result<Status, Problem> {
    Look::at(home, id).status(home)
}

/// What decides whether a list shows a session.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Brief<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    /// Its state.
    pub state: SessionState,
    /// Where it runs.
    #[serde(borrow)]
    pub cwd: Cow<'a, str>,
    /// What people call it.
    pub name: Option<Cow<'a, str>>,
    /// What the agent is called in the table of agents.
    pub agent: Option<Cow<'a, str>>,
    /// Program and arguments.
    pub command: Cow<'a, [String]>,
    /// What people sort it by.
    pub tags: Cow<'a, [String]>,
    /// When its last run ended.
    pub ended_at: Option<Timestamp>,
}

impl<'a> From<&'a Status> for Brief<'a> {
    fn from(status: &'a Status) -> Self {
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

/// One look at a session for a list: the short cut, read once. Another one may be there a moment later, and
/// what it says of itself does not go for this.
#[derive(Debug)]
pub struct Look {
    id: SessionId,
    short_cut: Vec<u8>,
    /// When the short cut was written: times from now in it count from then.
    written_ms: u64,
}

impl Look {
    /// Reads the short cut.
    pub fn at(home: &Home, id: &SessionId) -> Self {
        let (mut short_cut, mut written_ms) = (Vec::new(), 0);
        if let Ok(mut file) = fs::File::open(home.session_dir(id).join(STATUS_FILE)) {
            written_ms = file.metadata().ok().as_ref().and_then(modified_ms).unwrap_or(0);
            if file.read_to_end(&mut short_cut).is_err() {
                short_cut.clear();
            }
        }
        Self { id: id.clone(), short_cut, written_ms }
    }

    /// The little that decides about being listed, if the short cut alone is to be believed: nearly all of
    /// many sessions are over and not shown, and most of what is known of them need not be understood.
    pub fn brief(&self) -> Option<Brief<'_>> {
        let brief = serde_json::from_slice::<Brief<'_>>(&self.short_cut).ok()?;
        (brief.id == self.id.as_str() && brief.state.is_final()).then_some(brief)
    }

    /// Everything that is known.
    pub fn status(&self, home: &Home) -> Result<Status, Problem> {
        if let Some(status) = self.believed(home) {
            return Ok(status);
        }
        let (history, lease) = history_and_lease(home, &self.id)?;
        Ok(describe(&home.session_dir(&self.id), &self.id, &history, lease.is_kept()))
    }

    /// What the short cut tells, if it cannot be out of date.
    pub fn believed(&self, home: &Home) -> Option<Status> {
        let Self { id, short_cut, written_ms } = self;
        let dir = home.session_dir(id);
        let mut status = serde_json::from_slice::<Status>(short_cut).ok()?;
        let is_believed = status.id == id.as_str()
            && !matches!(status.state, SessionState::Other(_))
            // A short cut with a final state was the last act of its writer: what happens to the session later takes
            // its word away first (see [`doubt_short_cut`]).
            && (status.state.is_final()
                // A keeper does not write it for every event: it counts if nothing has happened since.
                || (is_there(status.keeper_pid) && is_kept(&dir).unwrap_or(false) && is_up_to_date(&dir, short_cut))
                || is_released(&dir, &mut status, short_cut));
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

/// How often is looked again where a journal grows while it is compared with the lease.
const MOST_LOOKS: usize = 16;

/// Who holds a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Holding {
    /// Its keeper.
    Kept,
    /// Who clears up after its keeper.
    Cleared,
    /// A program that is not berth.
    Strange(StrangeHolder),
    /// No process holds it.
    Free,
}

impl Holding {
    /// True if its keeper holds it.
    pub fn is_kept(&self) -> bool {
        *self == Self::Kept
    }

    /// Tells who holds a lease that is held.
    fn held(dir: &Path, session: &Session) -> Self {
        let keeper = session.keeper.as_ref().map(|keeper| process::identity(keeper).check());
        match keeper {
            // A live keeper holds its lease, so no other holder has to be searched for.
            Some(Verdict::Alive(_) | Verdict::CannotTell(_)) => Self::Kept,
            Some(Verdict::Gone) | None => match StrangeHolder::of(dir) {
                Some(stranger) => Self::Strange(stranger),
                None if process::lost_its_keeper(session) => Self::Cleared,
                None => Self::Kept,
            },
        }
    }
}

/// What the journal tells, and who holds the session: both of one moment. A keeper may write the end of its run and go
/// between two looks; who takes the older journal and the newer lease would call a run lost that ended well. So where
/// nobody keeps a run that has no end, the journal must be after that what it was before.
pub fn history_and_lease(home: &Home, id: &SessionId) -> Result<(History, Holding), Problem> {
    let dir = home.session_dir(id);
    let mut looks = 0;
    loop {
        looks += 1;
        let before = JournalEnd::of(&dir).ok();
        let history = history(home, id)?;
        killpoint::reached("view-between-journal-and-lease");
        let held = is_kept(&dir).map_err(|error| {
            Problem::new(Code::Refused, format!("cannot look at the lease of session {id}: {error}"))
        })?;
        let lease = match held {
            true => Holding::held(&dir, &history.session),
            false => Holding::Free,
        };
        let claims_a_loss = history.session.is_live() && !lease.is_kept();
        if !claims_a_loss || before == JournalEnd::of(&dir).ok() || looks == MOST_LOOKS {
            return Ok((history, lease));
        }
    }
}

/// Brings up to date what only the output's files tell: when there was a last sign of life.
pub fn refresh_output(home: &Home, id: &SessionId, status: &mut Status) {
    add_output(&home.session_dir(id), status);
}

/// Whether a short cut tells of an agent that was released for having nothing to do, and nobody has taken the
/// session up since. What only a keeper knows is taken out of it.
fn is_released(dir: &Path, status: &mut Status, short_cut: &[u8]) -> bool {
    let is_over =
        status.state == SessionState::Idle && status.keeper_pid.is_none() && status.ended_at.is_some();
    // The lease first: whoever takes it after this look comes after it in all.
    if !is_over || is_kept(dir).unwrap_or(true) || !is_up_to_date(dir, short_cut) {
        return false;
    }
    (status.clients, status.writer, status.expires_in_ms) = (0, None, None);
    status.attached.clear();
    if let Some(turns) = &mut status.turns {
        (turns.activity, turns.releases_in_ms) = (None, None);
    }
    true
}

/// Everything a list shows, from the journal and the output files.
pub(crate) fn describe(dir: &Path, id: &SessionId, history: &History, kept: bool) -> Status {
    let mut status = history.status(id, kept);
    status.output_file = output_of(dir).newest();
    if let Some(old) = read_short_cut(dir) {
        (status.rows, status.cols) = (old.rows, old.cols);
        (status.model, status.context, status.branch) = (old.model, old.context, old.branch);
        // What was typed into a terminal is in no journal.
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

/// Whether the keeper a short cut names is there. If it is not, and somebody holds the lease, then to
/// clear up.
pub fn is_there(keeper_pid: Option<u32>) -> bool {
    let alive = |pid| Pidfd::open(pid).is_ok_and(|pidfd| !pidfd.has_exited());
    keeper_pid.is_some_and(alive)
}

/// The short cut, if its journal has not grown since it was written.
pub(crate) fn believed_short_cut(home: &Home, id: &SessionId) -> Option<Status> {
    let dir = home.session_dir(id);
    let short_cut = fs::read(dir.join(STATUS_FILE)).ok()?;
    let status = serde_json::from_slice::<Status>(&short_cut).ok()?;
    (status.id == id.as_str() && is_up_to_date(&dir, &short_cut)).then_some(status)
}

/// The short cut, whether or not it is up to date.
pub(crate) fn read_short_cut(dir: &Path) -> Option<Status> {
    serde_json::from_slice(&fs::read(dir.join(STATUS_FILE)).ok()?).ok()
}

/// How far a journal reaches: its newest file, and how long that is. It grows with every event, so who
/// finds it as it was knows of all of them.
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

/// A sign of how far a journal reaches: another one means that something happened since.
pub fn journal_mark(home: &Home, id: &SessionId) -> io::Result<(String, u64)> {
    let end = JournalEnd::of(&home.session_dir(id))?;
    Ok((end.journal_file, end.journal_bytes))
}

/// Whether the journal has not grown since this short cut was written.
fn is_up_to_date(dir: &Path, short_cut: &[u8]) -> bool {
    let written = serde_json::from_slice::<JournalEnd>(short_cut).ok();
    JournalEnd::of(dir).is_ok_and(|end| written == Some(end))
}

/// The short cut as it is written.
#[derive(Serialize)]
struct ShortCut<'a> {
    #[serde(flatten)]
    status: &'a Status,
    #[serde(flatten)]
    reaches: JournalEnd,
}

/// Writes the short cut for lists; only who holds the lease may. It is derived, so a failure costs
/// only time.
pub(crate) fn write_short_cut(dir: &Path, status: &Status) {
    let short_cut = ShortCut { status, reaches: JournalEnd::of(dir).unwrap_or_default() };
    if let Ok(json) = serde_json::to_vec(&short_cut) {
        let _ = berth_host::disk::write_atomically(dir, STATUS_FILE, &json, false);
    }
}

/// Takes the short cut's word away before something happens that it does not know of: one that says
/// "stopped" or "archived" is believed without a look at the journal. What is only there stays: the terminal's size.
pub(crate) fn doubt_short_cut(dir: &Path) -> io::Result<()> {
    let doubted = read_short_cut(dir).map(|status| Status { state: SessionState::default(), ..status });
    let json = doubted.and_then(|status| serde_json::to_vec(&status).ok());
    // Synced: what happens next is, and a power cut must not bring the old word back.
    if json.is_some_and(|json| berth_host::disk::write_atomically(dir, STATUS_FILE, &json, true).is_ok()) {
        return Ok(());
    }
    // Unreadable, or no room for another: kept aside, in case somebody wants to know what happened to it.
    match fs::rename(dir.join(STATUS_FILE), dir.join(ASIDE_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => berth_host::disk::sync_dirs(&[dir]),
    }
}

/// Adds what the output's file tells: it is touched with every byte, so activity and length survive
/// a crash of whoever would have written them down.
pub(crate) fn add_output(dir: &Path, status: &mut Status) {
    let Some(name) = &status.output_file else { return };
    let Ok(file) = output_of(dir).metadata(name) else { return };
    if let Some(written) = modified_ms(&file).filter(|written| *written > status.last_activity_at.0) {
        status.last_activity_at = Timestamp(written);
    }
    // A file is named after the offset of its first byte. There may be a newer one by now.
    let start = name.strip_suffix(".out").and_then(|start| start.parse::<u64>().ok());
    status.output_bytes = status.output_bytes.max(start.unwrap_or(0).saturating_add(file.len()));
}

/// When a file was last written, in milliseconds since 1970.
pub fn modified_ms(file: &fs::Metadata) -> Option<u64> {
    let modified = file.modified().ok()?;
    u64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
