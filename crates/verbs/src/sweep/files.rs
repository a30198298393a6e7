//! Files and directories that no process can be using: never finished, and not touched any more.
//!
//! Promise: a file with content that was ever acknowledged does not count, and a file that a process may hold is kept.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The age at which a half-made thing is taken for abandoned. A start has a minute.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);

/// True if this file was not touched for so long that no process will finish it.
pub(super) fn is_given_up(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|file| file.modified());
    modified.is_ok_and(is_long_ago)
}

/// True if something last touched at this time is abandoned.
pub(super) fn is_long_ago(modified: SystemTime) -> bool {
    SystemTime::now().duration_since(modified).is_ok_and(|age| age > GIVEN_UP_AFTER)
}
