//! A look at a session that is worth remembering, because the kernel tells when it is out of date.
//!
//! Promise: what was taken is what [`crate::view::status`] would tell, until a file changes in one of the directories
//! it [`Sight::follows_from`], or its keeper ends. Nothing else makes it old, and no timer is asked.
//! Not here: watching them (see the gateway); bringing a run without a keeper to its end: where one died nothing is
//! taken, and whoever asks looks properly.
//! Start with [`Sight::take`].

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use berth_api::status::Status;
use berth_core::SessionId;
use berth_host::clock;
use berth_host::identity::Pidfd;

use crate::home::Home;
use crate::view::{self, STATUS_FILE};

/// Where the output is.
const OUTPUT_DIR: &str = "output";

/// What was seen, and what it follows from.
#[derive(Debug)]
pub struct Sight {
    status: Status,
    /// When the short cut was written, which is what times from now count from.
    written_ms: u64,
    keeper: Option<Pidfd>,
}

impl Sight {
    /// The directories it follows from. Who wants to know when it is out of date begins to watch them, in this
    /// order, before it is taken: one that is not there yet appears in the first.
    pub fn follows_from(home: &Home, id: &SessionId) -> [PathBuf; 3] {
        let dir = home.session_dir(id);
        let (journal, output) = (dir.join(crate::store::JOURNAL_DIR), dir.join(OUTPUT_DIR));
        [dir, journal, output]
    }

    /// Looks. Nothing if the short cut alone does not tell.
    pub fn take(home: &Home, id: &SessionId) -> Option<Self> {
        let dir = home.session_dir(id);
        let mut file = fs::File::open(dir.join(STATUS_FILE)).ok()?;
        let written_ms = modified_ms(&file.metadata().ok()?);
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        let mut status = serde_json::from_slice::<Status>(&text).ok()?;
        if status.id != id.as_str() || status.state.is_empty() {
            return None;
        }
        let mut keeper = None;
        if !view::is_final(&status.state) {
            if let Some(pid) = status.keeper_pid {
                keeper = Some(Pidfd::open(pid).ok().filter(|keeper| !keeper.has_exited())?);
                if !view::is_kept(&dir).unwrap_or(false) || !view::is_up_to_date(&dir, &text) {
                    return None;
                }
            } else if !view::is_released(&dir, &mut status, &text) {
                // Whoever takes the lease up signs it before anything else, and that is a change.
                return None;
            }
        }
        view::add_output(&dir, &mut status);
        Some(Self { status, written_ms, keeper })
    }

    /// Its keeper, if there is one: its end is a change, too.
    pub fn keeper(&self) -> Option<&Pidfd> {
        self.keeper.as_ref()
    }

    /// What was seen. What is told as a time from now is told from now.
    pub fn status(&self) -> Status {
        let mut status = self.status.clone();
        let passed_ms = clock::wall_ms().saturating_sub(self.written_ms);
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

fn modified_ms(file: &fs::Metadata) -> u64 {
    let ms = file.mtime().saturating_mul(1000).saturating_add(file.mtime_nsec() / 1_000_000);
    u64::try_from(ms).unwrap_or(0)
}
