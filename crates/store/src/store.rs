//! Lease and journal: the two things that give a session exactly one owner.
//!
//! Promise: only the holder of the lease appends to the journal.
//! A fleet plugs in here: `claim`, `create`/`open`, `read`; dropping the lease releases it. Nothing else in the
//! keeper knows that they are a kernel lock and local files.

mod lease;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use berth_api::Problem;
use berth_core::{Epoch, SessionId};
use berth_journal::{
    ChainHead, Checkpoint, Committed, Journal, JournalError, JournalLimits, RealDisk, Seq, UnsettledJournal,
};

/// The largest event. Prompts and answers are texts of up to a megabyte, of which JSON may make six.
const MAX_EVENT_BYTES: usize = 16 << 20;

use crate::claim::FileClaim;
use crate::derived_files::DerivedFiles;
use crate::session_view::{SessionView, StoredEvent};
use crate::snapshot::Snapshot;
use crate::turn_index::TurnLink;
pub(crate) use lease::holder;
pub use lease::{Lease, LeaseIntegrity, lease_signature, lease_signer};

/// Name of the journal's directory in a session's directory.
pub(crate) const JOURNAL_DIR: &str = "journal";
/// Pause between two tries on a disk that is full or in trouble.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// True if there is a session in `dir`, in whatever state: its journal has a file. A directory that we may not read
/// is an error, not an absent session.
pub(crate) fn exists(dir: &Path) -> Result<bool, Problem> {
    let path = dir.join(JOURNAL_DIR);
    match fs::read_dir(&path) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Problem::refused(format!("cannot look at {}: {error}", path.display()))),
    }
}

/// An open journal of a session, its summary, and the derived files beside it.
#[derive(Debug)]
pub struct OpenJournal {
    /// The right to append.
    pub claim: FileClaim,
    /// Summary of the events.
    pub history: SessionView,
    /// The derived files beside the journal.
    pub derived: DerivedFiles,
}

impl Lease {
    /// Makes the journal of a new session.
    pub fn create_journal(&self) -> Result<OpenJournal, Problem> {
        let (dir, id) = (self.files().dir(), self.files().id());
        let journal = Journal::create(RealDisk::new(dir.join(JOURNAL_DIR)), id.as_str(), limits())
            .map_err(|error| journal_problem(&error, id.as_str()))?;
        self.is_of_a_new_session();
        let claim = FileClaim::new(journal, Epoch(0));
        Ok(OpenJournal { claim, history: SessionView::default(), derived: DerivedFiles::new(dir, id) })
    }

    /// Opens the journal for writing. The lease is held, but that is not enough: a lease that was removed or
    /// restored while its keeper ran is free. So the keeper that the journal names is proven gone before the first
    /// byte is written, because settling the end of the journal would void the commits of a live keeper. Returns a
    /// note about the torn end, if there was one.
    pub fn open_journal(&self) -> Result<(OpenJournal, Option<String>), Problem> {
        let (dir, id) = (self.files().dir(), self.files().id());
        let trouble = |error: JournalError| unless_gone(dir, id, journal_problem(&error, id.as_str()));
        let opening = PreparedJournal::read(dir, id).map_err(trouble)?;
        self.prove_sole_keeper(opening.history.session.keeper.as_ref())?;
        opening.owned(dir, id, FileClaim::new).map_err(trouble)
    }

    /// Opens the journal of a run that goes on, and waits while the disk is full or in trouble.
    pub fn open_journal_patiently(&self) -> Result<(OpenJournal, Option<String>), Problem> {
        let (dir, id) = (self.files().dir(), self.files().id());
        loop {
            match PreparedJournal::read(dir, id)
                .and_then(|opening| opening.owned(dir, id, FileClaim::inherited))
            {
                Err(
                    JournalError::List { .. }
                    | JournalError::Read { .. }
                    | JournalError::Create { .. }
                    | JournalError::Write { .. }
                    | JournalError::Sync { .. }
                    | JournalError::Rename { .. }
                    | JournalError::Remove { .. },
                ) => std::thread::sleep(RETRY_PAUSE),
                opened => return opened.map_err(|error| journal_problem(&error, id.as_str())),
            }
        }
    }
}

/// A journal that was read, and to which nothing was written yet.
struct PreparedJournal {
    unsettled: UnsettledJournal<StoredEvent>,
    history: SessionView,
    /// Links from the events that were read to turns.
    links: Vec<TurnLink>,
    /// Number of the last event that was not read, because a snapshot has it.
    known_to: u64,
    /// True if that snapshot survives a power cut.
    is_snapshot_synced: bool,
}

impl PreparedJournal {
    /// Reads the events behind the snapshot, or all events if there is no valid one.
    fn read(dir: &Path, id: &SessionId) -> Result<Self, JournalError> {
        let disk = || RealDisk::new(dir.join(JOURNAL_DIR));
        if let Some(snapshot) = Snapshot::read(dir, id).and_then(|snapshot| snapshot.with_keys(dir)) {
            let checkpoint = snapshot.checkpoint;
            if let Some(unsettled) = Journal::inspect_from(disk(), id.as_str(), limits(), checkpoint)? {
                return Ok(Self::of(unsettled, snapshot.history, snapshot.is_synced));
            }
        }
        let unsettled = Journal::inspect(disk(), id.as_str(), limits())?;
        Ok(Self::of(unsettled, SessionView::default(), false))
    }

    fn of(
        unsettled: UnsettledJournal<StoredEvent>,
        mut history: SessionView,
        is_snapshot_synced: bool,
    ) -> Self {
        let known_to = history.seq;
        let links = unsettled.events().iter().flat_map(|event| history.apply(event)).collect();
        Self { unsettled, history, links, known_to, is_snapshot_synced }
    }

    fn owned(
        self,
        dir: &Path,
        id: &SessionId,
        claim: impl FnOnce(Journal<StoredEvent>, Epoch) -> FileClaim,
    ) -> Result<(OpenJournal, Option<String>), JournalError> {
        let Self { unsettled, history, links, known_to, is_snapshot_synced } = self;
        let (journal, recovered) = unsettled.settle()?;
        let torn = recovered.torn.map(|torn| {
            format!(
                "{} bytes at the end of the journal were never acknowledged; kept as {}",
                torn.bytes, torn.kept_as
            )
        });
        let derived = DerivedFiles::resume(dir, id, &history, known_to, is_snapshot_synced, &links);
        let claim = claim(journal, history.session.epoch);
        Ok((OpenJournal { claim, history, derived }, torn))
    }
}

/// Reads the events behind a checkpoint without a right to the journal; `None` if the checkpoint is not of this journal.
pub(crate) fn read_after(
    dir: &Path,
    id: &SessionId,
    checkpoint: Checkpoint,
) -> Result<Option<Vec<Committed<StoredEvent>>>, Problem> {
    berth_journal::read_journal_after(&RealDisk::new(dir.join(JOURNAL_DIR)), id.as_str(), checkpoint)
        .map_err(|error| journal_problem(&error, id.as_str()))
}

/// Reads a journal without a right to it.
pub(crate) fn read(dir: &Path, id: &SessionId, from: u64) -> Result<Vec<Committed<StoredEvent>>, Problem> {
    read_range(dir, id, from, u64::MAX, usize::MAX)
}

/// Like [`read`], up to and with the event `to`, and no more once there are `most_bytes`; later files are not read.
pub(crate) fn read_range(
    dir: &Path,
    id: &SessionId,
    from: u64,
    to: u64,
    most_bytes: usize,
) -> Result<Vec<Committed<StoredEvent>>, Problem> {
    read_there(dir, id, from, to, most_bytes).map_err(|problem| unless_gone(dir, id, problem))
}

fn read_there(
    dir: &Path,
    id: &SessionId,
    from: u64,
    to: u64,
    most_bytes: usize,
) -> Result<Vec<Committed<StoredEvent>>, Problem> {
    let path = dir.join(JOURNAL_DIR);
    // A journal without a first event was being made when its creator died.
    if !exists(dir)? {
        return Err(Problem::not_found(format!("session {id} was never completely created"))
            .hint(format!("its journal is empty; its directory is {}", dir.display())));
    }
    berth_journal::read_journal_range(&RealDisk::new(path), id.as_str(), Seq(from), Seq(to), most_bytes)
        .map_err(|error| journal_problem(&error, id.as_str()))
}

/// Returns the problem of a session's journal, unless the session is gone: another process may have purged it
/// meanwhile, and that is not damage.
fn unless_gone(dir: &Path, id: &SessionId, problem: Problem) -> Problem {
    match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => no_session(id),
        Ok(_) | Err(_) => problem,
    }
}

/// Error for a session that was there a moment ago, or that only a pointer still names.
pub fn no_session(id: &SessionId) -> Problem {
    Problem::not_found(format!("there is no session {id} any more: it was purged"))
        .hint("`berth ls --all` lists the sessions there are")
}

/// Reads a journal as far as possible, and returns the damage behind that. For people only.
pub(crate) fn salvage(dir: &Path, id: &SessionId) -> (Vec<Committed<StoredEvent>>, Option<Problem>) {
    let (events, damage) = berth_journal::salvage_journal(&RealDisk::new(dir.join(JOURNAL_DIR)), id.as_str());
    (events, damage.map(|damage| journal_problem(&damage, id.as_str())))
}

/// The heads of a journal at these events, as far as they exist, and at the last event that was read.
pub(crate) fn heads(dir: &Path, id: &SessionId, at: &[u64]) -> Result<(Vec<ChainHead>, ChainHead), Problem> {
    let at: Vec<Seq> = at.iter().copied().map(Seq).collect();
    berth_journal::chain_heads(&RealDisk::new(dir.join(JOURNAL_DIR)), id.as_str(), &at)
        .map_err(|error| unless_gone(dir, id, journal_problem(&error, id.as_str())))
}

/// Names of the journal files that have the events from `from` to `to`.
pub(crate) fn segments_of(dir: &Path, id: &SessionId, from: u64, to: u64) -> Result<Vec<String>, Problem> {
    berth_journal::segments_between(&RealDisk::new(dir.join(JOURNAL_DIR)), Seq(from), Seq(to))
        .map_err(|error| journal_problem(&error, id.as_str()))
}

/// Describes an error of a journal for people.
pub fn journal_problem(error: &dyn std::error::Error, session: &str) -> Problem {
    let mut what = format!("cannot use the journal of session `{session}`: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        what.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    Problem::unavailable(what)
        .hint("nothing was changed; docs/recovery.md says what to do with damaged or full journals")
}

fn limits() -> JournalLimits {
    JournalLimits { record_bytes: MAX_EVENT_BYTES, ..JournalLimits::default() }
}
