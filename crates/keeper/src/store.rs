//! Lease and journal: the two things that make a session have one owner.
//!
//! The seam for a fleet is here: `claim`, `create`/`open`, `read`; release is dropping the lease.
//! Nothing else in the keeper knows that they are a kernel lock and local files.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_host::identity::Identity;
use berth_host::lock::LockFile;
use berth_journal::{Committed, Journal, JournalError, Limits, RealDisk, Recovered, Seq};

/// The largest event. Prompts and answers are texts of up to a megabyte, of which JSON may make six.
const MAX_EVENT_BYTES: usize = 16 << 20;

use crate::history::Stored;
use crate::owner::Owner;

pub(crate) const JOURNAL_DIR: &str = "journal";
/// Readers look at a lease by locking it for an instant; claiming must outwait them.
const CLAIM_PATIENCE: Duration = Duration::from_millis(200);

/// How often a disk in trouble is asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The right to be a session's keeper. Held until dropped; the kernel drops it when we die.
#[derive(Debug)]
pub struct Lease {
    file: LockFile,
}

impl Lease {
    /// Claims the session in `dir`. `None` if somebody else has it; not found if it is no more.
    pub fn claim(dir: &Path) -> io::Result<Option<Self>> {
        let file = LockFile::open_or_create(&dir.join("lease"))?;
        if !file.acquire(CLAIM_PATIENCE)? {
            return Ok(None);
        }
        // Who waited for somebody who purged the session has a file that is nowhere any more.
        if !file.is_at(&dir.join("lease"))? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the session was purged"));
        }
        Ok(Some(Self { file }))
    }

    /// A lease that came along through an exec.
    pub fn inherited(file: LockFile) -> Self {
        Self { file }
    }

    /// Writes into the file who holds it, for people and for `berth why`.
    pub fn sign(&self, holder: &Identity, epoch: u64) -> io::Result<()> {
        self.file.write_text(&format!("{}epoch={epoch}\n", signature(holder)))
    }

    /// The lock itself.
    pub fn file(&self) -> &LockFile {
        &self.file
    }
}

/// What a lease held by this process begins with.
pub(crate) fn signature(holder: &Identity) -> String {
    format!("pid={} start={} boot={} ", holder.pid, holder.start_ticks, holder.boot_id)
}

/// Who signed a lease with this text.
pub(crate) fn signed_by(text: &str) -> Option<Identity> {
    let mut words = text.split_ascii_whitespace();
    let mut word = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let pid = word("pid")?.parse().ok()?;
    let start_ticks = word("start")?.parse().ok()?;
    let boot_id = word("boot")?.to_owned();
    Some(Identity { pid, start_ticks, boot_id })
}

/// What the lease in `dir` says about who holds, or last held it.
pub fn holder(dir: &Path) -> String {
    let text = LockFile::open_or_create(&dir.join("lease")).and_then(|file| file.read_text());
    text.map_or_else(|error| format!("unreadable: {error}"), |text| text.trim().to_owned())
}

/// Whether there is a session in `dir`, in whatever state: something is in its journal. One that we
/// may not look at is not one that is not there.
pub fn exists(dir: &Path) -> Result<bool, Problem> {
    let path = dir.join(JOURNAL_DIR);
    match fs::read_dir(&path) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Problem::new(Code::Refused, format!("cannot look at {}: {error}", path.display()))),
    }
}

/// Makes the journal of a new session.
pub fn create(dir: &Path, id: &SessionId, _lease: &Lease) -> Result<Owner, Problem> {
    let path = dir.join(JOURNAL_DIR);
    let journal = Journal::create(RealDisk::new(path), id.as_str(), limits());
    Ok(Owner::new(journal.map_err(|error| journal_problem(&error, id.as_str()))?, &[]))
}

/// Opens the journal of a session. The lease must be held. Says what was found torn, if anything.
pub fn open(dir: &Path, id: &SessionId, _lease: &Lease) -> Result<(Owner, Option<String>), Problem> {
    owned(Journal::open(RealDisk::new(dir.join(JOURNAL_DIR)), id.as_str(), limits()), id)
        .map_err(|problem| unless_gone(dir, id, problem))
}

fn owned(
    opened: Result<(Journal<Stored>, Recovered<Stored>), JournalError>,
    id: &SessionId,
) -> Result<(Owner, Option<String>), Problem> {
    let (journal, recovered) = opened.map_err(|error| journal_problem(&error, id.as_str()))?;
    let torn = recovered.torn.map(|torn| {
        format!(
            "{} bytes at the end of the journal were never acknowledged; kept as {}",
            torn.bytes, torn.kept_as
        )
    });
    Ok((Owner::new(journal, &recovered.events), torn))
}

/// The same for a keeper whose run goes on: a disk that is full or in trouble is waited for.
pub(crate) fn open_patiently(
    dir: &Path,
    id: &SessionId,
    _lease: &Lease,
) -> Result<(Owner, Option<String>), Problem> {
    loop {
        let opened = Journal::open(RealDisk::new(dir.join(JOURNAL_DIR)), id.as_str(), limits());
        match opened {
            Err(
                JournalError::List { .. }
                | JournalError::Read { .. }
                | JournalError::Create { .. }
                | JournalError::Write { .. }
                | JournalError::Sync { .. }
                | JournalError::Rename { .. }
                | JournalError::Remove { .. },
            ) => std::thread::sleep(RETRY_PAUSE),
            other => return owned(other, id),
        }
    }
}

/// Reads a journal without a right to it.
pub fn read(dir: &Path, id: &SessionId, from: u64) -> Result<Vec<Committed<Stored>>, Problem> {
    read_range(dir, id, from, u64::MAX, usize::MAX)
}

/// The same up to and with the event `to`, and no more once there are `most_bytes`; later files are not read.
pub fn read_range(
    dir: &Path,
    id: &SessionId,
    from: u64,
    to: u64,
    most_bytes: usize,
) -> Result<Vec<Committed<Stored>>, Problem> {
    read_there(dir, id, from, to, most_bytes).map_err(|problem| unless_gone(dir, id, problem))
}

fn read_there(
    dir: &Path,
    id: &SessionId,
    from: u64,
    to: u64,
    most_bytes: usize,
) -> Result<Vec<Committed<Stored>>, Problem> {
    let path = dir.join(JOURNAL_DIR);
    // A journal without a first event is one that was being made when its maker died.
    if !exists(dir)? {
        return Err(Problem::new(Code::NotFound, format!("session {id} was never finished being made"))
            .hint(format!("nothing was ever said in it; its directory is {}", dir.display())));
    }
    berth_journal::read_range(&RealDisk::new(path), id.as_str(), Seq(from), Seq(to), most_bytes)
        .map_err(|error| journal_problem(&error, id.as_str()))
}

/// What went wrong with a session's journal, unless there is no such session: somebody may have purged it under our
/// hands, and that is no damage.
fn unless_gone(dir: &Path, id: &SessionId, problem: Problem) -> Problem {
    match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => no_session(id),
        Ok(_) | Err(_) => problem,
    }
}

/// A session that was there a moment ago, or that only a pointer still knows of.
pub(crate) fn no_session(id: &SessionId) -> Problem {
    Problem::new(Code::NotFound, format!("there is no session {id} any more: it was purged"))
        .hint("`berth ls --all` lists the sessions there are")
}

/// Reads a journal as far as it can be read, and says what is wrong with the rest. For people only.
pub fn salvage(dir: &Path, id: &SessionId) -> (Vec<Committed<Stored>>, Option<Problem>) {
    let (events, damage) = berth_journal::salvage(&RealDisk::new(dir.join(JOURNAL_DIR)), id.as_str());
    (events, damage.map(|damage| journal_problem(&damage, id.as_str())))
}

/// Makes new names in these directories survive a power cut.
pub fn sync_dirs(dirs: &[&Path]) -> io::Result<()> {
    dirs.iter().try_for_each(|dir| fs::File::open(dir)?.sync_all())
}

/// A journal's trouble, for people.
pub(crate) fn journal_problem(error: &JournalError, session: &str) -> Problem {
    let mut what = format!("the journal of session `{session}` is in trouble: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        what.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    Problem::new(Code::Unavailable, what)
        .hint("nothing was changed; docs/recovery.md says what to do with damaged or full journals")
}

fn limits() -> Limits {
    Limits { record_bytes: MAX_EVENT_BYTES, ..Limits::default() }
}
