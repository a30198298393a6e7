//! A look at a session that can be taken again for the price of a few system calls.
//!
//! Promise: what [`Sight::is_current`] confirms is what [`crate::view::status`] would tell now. It is confirmed by the
//! stamps of the files it follows from, and by a handle on the keeper; never by a timer.
//! Not here: bringing a run without a keeper to its end: where one died, nothing is confirmed, and whoever asks looks
//! again properly.
//! Start with [`Sight::take`].

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use berth_api::status::Status;
use berth_core::SessionId;
use berth_host::clock;
use berth_host::identity::Pidfd;

use crate::home::Home;
use crate::view::{self, JournalEnd, STATUS_FILE};

/// A file may change twice within one tick of the clock that stamps it: one that was changed this short a time ago
/// is looked at again.
const SETTLED_AFTER_MS: u64 = 50;

/// The file whose lock is the lease.
const LEASE_FILE: &str = "lease";

/// What was seen, and what it follows from.
#[derive(Debug)]
pub struct Sight {
    status: Status,
    dir: PathBuf,
    short_cut: Stamp,
    basis: Basis,
    output: Option<Stamp>,
}

/// Why the short cut is believed.
#[derive(Debug)]
enum Basis {
    /// Somebody's last act.
    Final,
    /// Its keeper lives, and nothing happened since it was written.
    Kept { keeper: Pidfd, journal: Journal },
    /// Nobody keeps it, and nothing happened since it was written.
    Released { journal: Journal, lease: Stamp },
}

/// Which file this is, and when it was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// The newest file of a journal, and the directory that would have a newer one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Journal {
    path: PathBuf,
    bytes: u64,
    dir: Stamp,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let file = fs::metadata(path)?;
        Ok(Self { inode: file.ino(), bytes: file.len(), modified: (file.mtime(), file.mtime_nsec()) })
    }

    fn modified_ms(&self) -> u64 {
        let ms = self.modified.0.saturating_mul(1000).saturating_add(self.modified.1 / 1_000_000);
        u64::try_from(ms).unwrap_or(0)
    }

    fn is_settled(&self, now_ms: u64) -> bool {
        // A stamp of the future says nothing.
        now_ms.checked_sub(self.modified_ms()).is_some_and(|age| age > SETTLED_AFTER_MS)
    }
}

impl Journal {
    fn of(dir: &Path, end: &JournalEnd) -> io::Result<Self> {
        let journal = dir.join(crate::store::JOURNAL_DIR);
        // The directory first: a file that is made afterwards changes it.
        let stamp = Stamp::of(&journal)?;
        let path = journal.join(&end.journal_file);
        Ok(Self { bytes: fs::metadata(&path)?.len(), path, dir: stamp })
    }

    fn is_as_it_was(&self) -> bool {
        let is_same_dir = || self.path.parent().and_then(|dir| Stamp::of(dir).ok()) == Some(self.dir);
        fs::metadata(&self.path).is_ok_and(|file| file.len() == self.bytes) && is_same_dir()
    }
}

impl Sight {
    /// Looks. Nothing if the short cut alone does not tell, or may change within the tick of a clock.
    pub fn take(home: &Home, id: &SessionId) -> Option<Self> {
        let dir = home.session_dir(id);
        let now_ms = clock::wall_ms();
        let path = dir.join(STATUS_FILE);
        let stamp = Stamp::of(&path).ok().filter(|stamp| stamp.is_settled(now_ms))?;
        let text = fs::read(&path).ok()?;
        if Stamp::of(&path).ok()? != stamp {
            return None;
        }
        let mut status = serde_json::from_slice::<Status>(&text).ok()?;
        if status.id != id.as_str() || status.state.is_empty() {
            return None;
        }
        let basis = if view::is_final(&status.state) {
            Basis::Final
        } else {
            let end = serde_json::from_slice::<JournalEnd>(&text).ok()?;
            let journal = Journal::of(&dir, &end).ok().filter(|it| it.dir.is_settled(now_ms))?;
            // Looked at after the stamps, so that what happens from now on changes one of them.
            if let Some(pid) = status.keeper_pid {
                let keeper = Pidfd::open(pid).ok().filter(|keeper| !keeper.has_exited())?;
                let is_believed = view::is_kept(&dir).unwrap_or(false) && view::is_up_to_date(&dir, &text);
                is_believed.then_some(Basis::Kept { keeper, journal })?
            } else {
                let lease = Stamp::of(&dir.join(LEASE_FILE)).ok().filter(|lease| lease.is_settled(now_ms))?;
                view::is_released(&dir, &mut status, &text).then_some(Basis::Released { journal, lease })?
            }
        };
        let output = output_path(&dir, &status).and_then(|path| Stamp::of(&path).ok());
        view::add_output(&dir, &mut status);
        Some(Self { status, dir, short_cut: stamp, basis, output })
    }

    /// Whether everything is as it was.
    pub fn is_current(&self) -> bool {
        let is_as_it_was = match &self.basis {
            Basis::Final => true,
            Basis::Kept { keeper, journal } => !keeper.has_exited() && journal.is_as_it_was(),
            // Whoever takes the lease signs it before anything else. Trying the lock as often as somebody asks would
            // keep the next keeper from having it.
            Basis::Released { journal, lease } => {
                Stamp::of(&self.dir.join(LEASE_FILE)).is_ok_and(|stamp| stamp == *lease)
                    && journal.is_as_it_was()
            }
        };
        let output = || output_path(&self.dir, &self.status).and_then(|path| Stamp::of(&path).ok());
        is_as_it_was
            && Stamp::of(&self.dir.join(STATUS_FILE)).is_ok_and(|stamp| stamp == self.short_cut)
            && output() == self.output
    }

    /// What was seen. What is told as a time from now is told from now.
    pub fn status(&self) -> Status {
        let mut status = self.status.clone();
        let passed_ms = clock::wall_ms().saturating_sub(self.short_cut.modified_ms());
        let left = |ms: Option<u64>| ms.map(|ms| ms.saturating_sub(passed_ms));
        status.expires_in_ms = left(status.expires_in_ms);
        if let Some(turns) = &mut status.turns {
            turns.releases_in_ms = left(turns.releases_in_ms);
        }
        status
    }

    /// Whether something in it is told as a time from now.
    pub fn counts_down(&self) -> bool {
        let releases = self.status.turns.as_ref().and_then(|turns| turns.releases_in_ms);
        self.status.expires_in_ms.or(releases).is_some()
    }

    /// What people call it.
    pub fn name(&self) -> Option<&str> {
        self.status.name.as_deref()
    }
}

fn output_path(dir: &Path, status: &Status) -> Option<PathBuf> {
    Some(dir.join("output").join(status.output_file.as_ref()?))
}
