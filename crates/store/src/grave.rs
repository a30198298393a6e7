//! The disk half of deleting a session: out of the list in one step, then its files.
//!
//! Promise: a crash leaves a session, or nothing that looks like one. Nothing outside of the session's own directory is
//! touched; symbolic links are deleted, never followed.
//! Not here: whether a session may be deleted, its names and its history (see the keeper's `purge`).
//! Start with [`SessionFiles::bury`].

use std::fs;
use std::io;
use std::path::PathBuf;

use berth_api::Problem;
use berth_core::SessionId;

use crate::home::{Home, private};
use crate::session_files::{LEASE_FILE, SessionFiles, gone};
use crate::store::{JOURNAL_DIR, Lease};
use crate::{killpoint, view};

/// What is left of a session that is in no list any more.
#[derive(Debug)]
pub struct Grave {
    id: SessionId,
    dir: PathBuf,
}

/// Why a session could not be buried. Nothing was deleted.
#[derive(Debug)]
pub enum NotBuried {
    /// There is no place for it.
    NoPlace(Problem),
    /// The remains of an earlier session of this id cannot be deleted.
    Occupied(io::Error),
    /// The session cannot be moved there.
    Unmoved(io::Error),
}

impl SessionFiles {
    /// Takes the session out of every list. The lease stays held: it moves along.
    pub fn bury(&self, _: &Lease) -> Result<Grave, NotBuried> {
        let home = self.home();
        let shelf = home.purging_place();
        private(&shelf).map_err(NotBuried::NoPlace)?;
        let grave = Grave { id: self.id().clone(), dir: shelf.join(self.id().as_str()) };
        // The remains of an earlier one with this id, which was brought back from a copy.
        grave.remove().map_err(NotBuried::Occupied)?;
        fs::rename(self.dir(), &grave.dir).map_err(NotBuried::Unmoved)?;
        // From here on it is no session any more, whatever happens to us.
        let _ = berth_host::disk::sync_dirs(&[&home.sessions_dir(), &shelf]);
        Ok(grave)
    }
}

impl Home {
    /// Sessions whose purge was broken off, and that no process is at.
    pub fn unfinished_graves(&self) -> io::Result<Vec<Grave>> {
        let entries = match fs::read_dir(self.purging_place()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Some(id) = entry.file_name().to_str().and_then(SessionId::parse) else { continue };
            if !view::is_kept(&entry.path()).unwrap_or(true) {
                found.push(Grave { id, dir: entry.path() });
            }
        }
        Ok(found)
    }
}

impl Grave {
    /// The id of the session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Deletes all that is in it but the lease, which says whether a process is at it.
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

    /// Deletes it.
    pub fn remove(&self) -> io::Result<()> {
        gone(fs::remove_dir_all(&self.dir))
    }
}
