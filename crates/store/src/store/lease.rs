//! The lease: the right to be a session's keeper.
//!
//! Promise: of all processes that claim one directory at most one has its lease, also if the lease file is removed or
//! replaced meanwhile: the directory itself is locked as well. No process can write to a session whose recorded keeper
//! lives. A holder can tell whether file and directory are still those that it locked.
//! Not here: what a keeper does when they are not (see `keeper/lease_loss.rs`).
//! Start with [`Lease::claim`].

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_core::{ProcessRef, SessionId};
use berth_host::identity::{Pidfd, ProcessIdentity, ProcessLiveness, wait_for_exit};
use berth_host::lock::{FileId, LockFile};

use crate::process_ref;
use crate::session_files::{LEASE_FILE, SessionFiles};

/// Readers look at a lease by locking it for an instant; claiming must outwait them.
const CLAIM_PATIENCE: Duration = Duration::from_millis(200);
/// How long a keeper that has released its lease may take to be gone: the kernel frees the locks of a dying process a
/// moment before the process is gone.
const KEEPER_PATIENCE: Duration = Duration::from_secs(2);

/// The right to be a session's keeper. Held until dropped; the kernel drops it when we die.
#[derive(Debug)]
pub struct Lease {
    file: LockFile,
    /// The second lock, on the session's directory. `rm lease` or a rename over it leaves this one as it is.
    dir_lock: LockFile,
    files: SessionFiles,
    file_id: FileId,
    dir_id: FileId,
    /// True if the last holder signed the lease in this very directory. If not, the lease is new, or the directory is a
    /// copy, and its last keeper may be one that the journal here does not name.
    was_signed_here: bool,
    /// True if it is proven that this session has no other keeper. Only then does the signature name the directory: the
    /// next process that claims the lease relies on that.
    is_proven: Cell<bool>,
}

/// Integrity of a held lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseIntegrity {
    /// File and directory are those that were locked.
    Intact,
    /// The lease file was removed or replaced. The directory is the locked one, so no other process can have claimed it.
    FileReplaced,
    /// The whole directory was moved away, replaced or deleted: a directory at its path is not ours.
    DirectoryReplaced,
}

impl Lease {
    /// Claims a session. `None` if another process has it; an error of the kind `NotFound` if it was purged.
    pub fn claim(files: &SessionFiles) -> io::Result<Option<Self>> {
        let dir = files.dir();
        let dir_lock = LockFile::open_dir(dir)?;
        let file = LockFile::open_or_create(&dir.join(LEASE_FILE))?;
        if !dir_lock.acquire(CLAIM_PATIENCE)? || !file.acquire(CLAIM_PATIENCE)? {
            return Ok(None);
        }
        // A process that waited while another one purged the session has opened a directory that has no path any more.
        if !dir_lock.is_at(dir)? || !file.is_at(&dir.join(LEASE_FILE))? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the session was purged"));
        }
        Self::held(file, dir_lock, files).map(Some)
    }

    /// A lease whose two locks came along through an exec.
    pub fn inherited(file: LockFile, dir_lock: LockFile, files: &SessionFiles) -> io::Result<Self> {
        Self::held(file, dir_lock, files)
    }

    fn held(file: LockFile, dir_lock: LockFile, files: &SessionFiles) -> io::Result<Self> {
        let (file_id, dir_id) = (file.id()?, dir_lock.id()?);
        let was_signed_here = file.read_text().is_ok_and(|text| text.contains(&place(dir_id)));
        Ok(Self {
            file,
            dir_lock,
            files: files.clone(),
            file_id,
            dir_id,
            was_signed_here,
            is_proven: Cell::new(was_signed_here),
        })
    }

    /// Writes the holder into the file, for people and for `berth why`.
    pub fn sign(&self, holder: &ProcessIdentity, epoch: u64) -> io::Result<()> {
        let place = if self.is_proven.get() { place(self.dir_id) } else { String::new() };
        self.file.write_text(&format!("{}{place}epoch={epoch}\n", lease_signature(holder)))
    }

    /// The lock on the lease file.
    pub fn file(&self) -> &LockFile {
        &self.file
    }

    /// The lock on the session's directory.
    pub fn dir_lock(&self) -> &LockFile {
        &self.dir_lock
    }

    /// True if file and directory are still those that were locked. Costs one `stat` while they are.
    pub fn standing(&self) -> io::Result<LeaseIntegrity> {
        if FileId::at(&self.files.dir().join(LEASE_FILE))? == Some(self.file_id) {
            return Ok(LeaseIntegrity::Intact);
        }
        Ok(match FileId::at(self.files.dir())? {
            Some(there) if there == self.dir_id => LeaseIntegrity::FileReplaced,
            Some(_) | None => LeaseIntegrity::DirectoryReplaced,
        })
    }

    /// Refuses a commit if file or directory are no longer those that were locked.
    pub fn confirm(&self) -> Result<(), Problem> {
        match self.standing() {
            Ok(LeaseIntegrity::Intact) => Ok(()),
            Ok(lost) => Err(self.lost_problem(lost, self.files.id().as_str())),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    /// The claimed session.
    pub fn files(&self) -> &SessionFiles {
        &self.files
    }

    /// Problem for a request that cannot be committed because the lease was replaced.
    pub fn lost_problem(&self, lost: LeaseIntegrity, session: &str) -> Problem {
        let (what, hint) = match lost {
            LeaseIntegrity::Intact | LeaseIntegrity::FileReplaced => (
                "the lease file of session `{}` was removed or replaced while its keeper ran",
                format!(
                    "nothing that was accepted before is lost. Keep cleaners and restores away from {}; when the run is \
                     over, `berth resume {session}` or the next `berth send` goes on",
                    self.files.display()
                ),
            ),
            LeaseIntegrity::DirectoryReplaced => (
                "the directory of session `{}` was moved away or replaced while its keeper ran",
                format!(
                    "what was accepted before is in the original directory; put it back at {} once the keeper is gone",
                    self.files.display()
                ),
            ),
        };
        let what =
            format!("{}: this was not accepted, and the keeper ends its run", what.replace("{}", session));
        Problem::unavailable(what).hint(hint)
    }

    /// Problem for a request that cannot be committed because the lease cannot be read.
    pub fn unreadable(&self, error: &io::Error) -> Problem {
        let path = self.files.dir().join(LEASE_FILE);
        Problem::unavailable(format!("cannot look at the lease {}: {error}", path.display()))
            .hint("nothing was accepted; try again")
    }

    /// Marks the session as new: it cannot have had another keeper.
    pub(super) fn is_of_a_new_session(&self) {
        self.is_proven.set(true);
    }

    /// Proves that no other process may still be the keeper of this session: `recorded` is the one that its journal
    /// names last.
    pub fn prove_sole_keeper(&self, recorded: Option<&ProcessRef>) -> Result<(), Problem> {
        let id = self.files.id();
        let until = Instant::now() + KEEPER_PATIENCE;
        while let Some((pid, pidfd)) = self.other_keeper(id, recorded)? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(kept_elsewhere(id, pid));
            }
            wait_for_exit([&pidfd].into_iter(), left);
        }
        self.is_proven.set(true);
        Ok(())
    }

    fn other_keeper(
        &self,
        id: &SessionId,
        recorded: Option<&ProcessRef>,
    ) -> Result<Option<(u32, Pidfd)>, Problem> {
        if let Some(keeper) = recorded.filter(|keeper| keeper.pid != std::process::id()) {
            let keeper_identity = process_ref::to_process_identity(keeper);
            match keeper_identity.check() {
                ProcessLiveness::Alive(pidfd) => return Ok(Some((keeper.pid, pidfd))),
                ProcessLiveness::Gone => {}
                // In the directory that its keeper locked, the free lock is the proof, but only on the host where the keeper
                // locked it.
                ProcessLiveness::CannotTell(_)
                    if self.was_signed_here && keeper_identity.on_another_host().is_none() => {}
                ProcessLiveness::CannotTell(why) => {
                    let what = format!("cannot tell whether the keeper of session {id} is gone: {why}");
                    return Err(Problem::refused(what).hint("nothing was changed"));
                }
            }
        }
        if self.was_signed_here {
            return Ok(None);
        }
        // The journal of an older copy does not name the keeper that lives. Searching all processes is expensive, and is
        // needed only for a lease that is new or came with a copy.
        let live = self.files.keeper_started_here().map_err(|error| {
            let what = format!("cannot tell whether session {id} has another keeper: {error}");
            Problem::refused(what).hint("nothing was changed")
        })?;
        Ok(live)
    }
}

/// Text for the directory that a lease was signed in.
fn place(dir: FileId) -> String {
    format!("dir={}:{} ", dir.device, dir.inode)
}

fn kept_elsewhere(id: &SessionId, pid: u32) -> Problem {
    let what = format!(
        "session {id} still has a keeper, pid {pid}, which holds neither this lease nor this directory: they were \
         removed or replaced while it ran, or this directory is a copy; nothing was changed"
    );
    Problem::refused(what).hint(format!(
        "use the original directory; or end that keeper with `kill {pid}` and try again. What it accepted since then \
         is only in the original"
    ))
}

/// Beginning of the text in a lease that this process holds.
pub fn lease_signature(holder: &ProcessIdentity) -> String {
    format!("pid={} start={} boot={} ", holder.pid, holder.start_ticks, holder.boot)
}

/// Identity of the process that signed a lease with this text.
pub fn lease_signer(text: &str) -> Option<ProcessIdentity> {
    let mut words = text.split_ascii_whitespace();
    let mut word = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let pid = word("pid")?.parse().ok()?;
    let start_ticks = word("start")?.parse().ok()?;
    let boot = word("boot")?.to_owned();
    Some(ProcessIdentity { pid, start_ticks, boot })
}

/// Text of the lease in `dir`: its holder, or its last one. A missing lease is not made: a new file would hide that
/// the old one was removed.
pub(crate) fn holder(dir: &Path) -> String {
    let text = LockFile::open_existing(&dir.join(LEASE_FILE))
        .and_then(|file| file.map_or_else(|| Ok("missing".to_owned()), |file| file.read_text()));
    text.map_or_else(|error| format!("unreadable: {error}"), |text| text.trim().to_owned())
}
