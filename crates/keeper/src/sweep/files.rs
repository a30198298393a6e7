//! Files and directories that nobody can be using: what was never finished, and is not touched any more.
//!
//! Promise: nothing with anything said in it counts, and what somebody may hold is kept.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How old something half made must be before it is taken for given up. A start has a minute.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);

/// True if nothing has touched this file for so long that nothing will.
pub(super) fn is_given_up(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|file| file.modified());
    modified.is_ok_and(is_long_ago)
}

/// True if what was touched last at this time is given up.
pub(super) fn is_long_ago(modified: SystemTime) -> bool {
    SystemTime::now().duration_since(modified).is_ok_and(|age| age > GIVEN_UP_AFTER)
}
