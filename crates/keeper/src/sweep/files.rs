//! Files and directories that nobody can be using: what was never finished, and is not touched any more.
//!
//! Promise: nothing with anything said in it counts, and what somebody may hold is kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use berth_api::client::SOCKET_NAME;
use berth_host::lock::{Probe, probe};
use berth_store::store::{self, Lease};

use crate::start;

/// How old something half made must be before it is taken for given up. A start has a minute.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);

/// Temporary files of an atomic write that never finished.
pub(super) fn stray_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut stray = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_temporary = name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(".tmp"));
        if is_temporary && is_given_up(&entry.path()) {
            stray.push(entry.path());
        }
    }
    Ok(stray)
}

/// Whether nobody has touched something for so long that nobody will.
pub(super) fn is_given_up(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|file| file.modified());
    let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_some_and(|age| age > GIVEN_UP_AFTER)
}

/// What there can be in the directory of a session whose maker died before its first event.
const HALF_MADE: [&str; 6] =
    [store::JOURNAL_DIR, "lease", "run", SOCKET_NAME, start::LOG_FILE, start::OLD_LOG_FILE];

/// Whether a directory holds nothing but what a maker makes before the first event. A session whose journal
/// somebody moved away has more.
pub(super) fn is_half_made(dir: &Path) -> bool {
    let is_known = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(|name| HALF_MADE.contains(&name)))
    };
    fs::read_dir(dir).is_ok_and(|mut entries| entries.all(is_known))
        && matches!(probe(&dir.join("run")), Ok(None | Some(Probe::Free)))
}

/// Removes the directory of a session that nothing was ever said in. Its id is random and was never told
/// to anyone but its maker, who is gone.
pub(super) fn remove_half_made(dir: &Path) -> Result<(), String> {
    let lease = Lease::claim(dir).map_err(|error| format!("cannot claim it: {error}"))?;
    let Some(_lease) = lease else { return Err("another process holds it".to_owned()) };
    if !is_half_made(dir) {
        return Err("there is something in it".to_owned());
    }
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
        Ok(()) | Err(_) => Ok(()),
    };
    // None of these goes away with something in it.
    gone(fs::remove_dir(dir.join(store::JOURNAL_DIR)))?;
    for file in &HALF_MADE[1..] {
        gone(fs::remove_file(dir.join(file)))?;
    }
    gone(fs::remove_dir(dir))
}
