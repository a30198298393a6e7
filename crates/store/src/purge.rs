//! The disk half of deleting a session: first out of the list in one step, then its files.
//!
//! Promise: a crash leaves either a session, or remains that no list shows. Nothing outside of the session's own
//! directory is touched; symbolic links are deleted, never followed.
//! Not here: whether a session may be deleted, its names and its history (see `berth_verbs::purge`).
//! Start with [`SessionFiles::bury`].

use std::fs;
use std::io;
use std::path::PathBuf;

use berth_api::Problem;
use berth_core::SessionId;

use crate::session_files::{LEASE_FILE, SessionFiles, gone};
use crate::state_dir::{StateDir, private};
use crate::store::{JOURNAL_DIR, Lease};
use crate::{killpoint, session_status};

/// Remains of a session that is in no list any more.
#[derive(Debug)]
pub struct PendingPurge {
    id: SessionId,
    dir: PathBuf,
}

/// Reason why a session could not be buried. Nothing was deleted.
#[derive(Debug)]
pub enum PurgeError {
    /// The place for the remains cannot be made.
    NoPlace(Problem),
    /// The remains of an earlier session of this id cannot be deleted.
    Occupied(io::Error),
    /// The session cannot be moved to that place.
    Unmoved(io::Error),
}

impl SessionFiles {
    /// Takes the session out of every list. The lease stays held: it moves along.
    pub fn bury(&self, _: &Lease) -> Result<PendingPurge, PurgeError> {
        let home = self.home();
        let purging = home.purging_place();
        private(&purging).map_err(PurgeError::NoPlace)?;
        let grave = PendingPurge { id: self.id().clone(), dir: purging.join(self.id().as_str()) };
        // Remains of an earlier session with this id, which was restored from a copy.
        grave.remove().map_err(PurgeError::Occupied)?;
        fs::rename(self.dir(), &grave.dir).map_err(PurgeError::Unmoved)?;
        // From here on the session is gone from every list, even if this process dies.
        let _ = berth_host::disk::sync_dirs(&[&home.sessions_dir(), &purging]);
        Ok(grave)
    }
}

impl StateDir {
    /// Sessions whose purge was interrupted, and that no process works on.
    pub fn unfinished_graves(&self) -> io::Result<Vec<PendingPurge>> {
        let entries = match fs::read_dir(self.purging_place()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Some(id) = entry.file_name().to_str().and_then(SessionId::parse) else { continue };
            if !session_status::is_kept(&entry.path()).unwrap_or(true) {
                found.push(PendingPurge { id, dir: entry.path() });
            }
        }
        Ok(found)
    }
}

impl PendingPurge {
    /// Id of the session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Deletes everything but the lease, whose lock shows whether a process works on the remains.
    pub fn empty(&self) -> io::Result<()> {
        gone(fs::remove_dir_all(self.dir.join(JOURNAL_DIR)))?;
        killpoint::reached("purged-journal");
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) => return gone(Err(error)),
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name() == LEASE_FILE {
                continue;
            }
            let is_dir = entry.file_type()?.is_dir();
            let path = entry.path();
            gone(if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) })?;
        }
        Ok(())
    }

    /// Deletes the remains.
    pub fn remove(&self) -> io::Result<()> {
        gone(fs::remove_dir_all(&self.dir))
    }
}
