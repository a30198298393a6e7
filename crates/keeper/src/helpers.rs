//! Helpers in the state directory: the id of a helper, and the lock for starting one.
//!
//! A helper's id follows from the identity of the state directory, its name, and the identity of its directory. So
//! there is no pointer that could be stale, and two callers that ask for the same helper meet at the same lease, by
//! any path. The record has name and scope as well, and is rejected if they differ.
//! Promise: one name and scope means one id, on every path and after every reboot.
//! Not here: starting a helper (see [`crate::spawn_keeper`]), its owners (see `berth_core`).
//! Start with [`helper_id`].

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use berth_api::Problem;
use berth_core::{HelperScope, SafeName, SessionId};
use berth_host::dir::DirId;
use berth_host::lock::LockFile;
use berth_store::StateDir;
use berth_store::fnv::FnvHasher;
use regex::bytes::{Regex, RegexBuilder};

/// The time to wait for another process that starts this helper.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// The id of the helper of this name in the state directory `root`: of a directory, or of the account. Marks and control
/// groups are named after ids, and those of two state directories must never meet.
fn id(root: &[u8; 24], name: &SafeName, dir: Option<&[u8; 24]>) -> SessionId {
    let mut hash = FnvHasher::default();
    // Identities have one length and names have no zero byte, so different triples give different bytes.
    hash.eat(root);
    hash.eat(name.as_str().as_bytes());
    hash.eat(&[0]);
    hash.eat(dir.map_or(&[], |dir| dir.as_slice()));
    // 60 of its bits become the id.
    let mut bytes = [0; SessionId::LENGTH];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (hash.mixed() >> (5 * at)) as u8;
    }
    SessionId::from_random(bytes)
}

/// The largest size of a compiled pattern in memory: a keeper has to be small.
const PATTERN_BYTES: usize = 1024 * 1024;

/// Compiles the pattern that a line of a helper's output has to match.
pub fn readiness_pattern(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES).build()
}

/// The right to start a helper. Given back on drop.
#[derive(Debug)]
pub struct HelperStartLock {
    _file: LockFile,
}

/// Waits until no other process starts this helper, whose directory must exist. The wait has a limit, because the
/// lease decides in the end which keeper wins: the lock only saves the losers a process each. `None` if another
/// process takes too long.
pub fn acquire_start_lock(home: &StateDir, id: &SessionId) -> Result<Option<HelperStartLock>, Problem> {
    let locked = home.session(id).lock_start(LOCK_PATIENCE)?;
    Ok(locked.map(|file| HelperStartLock { _file: file }))
}

/// The id of the helper of this name and scope: equal for every path to the state directory and to the directory
/// of the scope.
pub fn helper_id(home: &StateDir, name: &SafeName, scope: &HelperScope) -> Result<SessionId, Problem> {
    let identity = |dir: &Path| {
        DirId::of(dir)
            .map(|id| id.bytes())
            .map_err(|error| Problem::refused(format!("cannot look at {}: {error}", dir.display())))
    };
    let dir = match scope {
        HelperScope::Dir(dir) => Some(identity(Path::new(dir))?),
        HelperScope::User => None,
    };
    Ok(id(&identity(home.root())?, name, dir.as_ref()))
}

/// Replaces the scope of a caller by the recorded one if both mean the same: a caller may use another path
/// to the directory.
pub(crate) fn canonical_scope(recorded: &HelperScope, asked: HelperScope) -> HelperScope {
    match (recorded, &asked) {
        (HelperScope::Dir(known), HelperScope::Dir(given))
            if may_be_one(Path::new(known), Path::new(given)) =>
        {
            recorded.clone()
        }
        (HelperScope::Dir(_) | HelperScope::User, _) => asked,
    }
}

/// True if two paths can mean the one directory that a helper's id stands for. They cannot if they are two
/// directories with equal identities: then one is on a copy of the other's file system. A recorded path that now
/// leads to another directory, or nowhere, is old and does not count.
fn may_be_one(recorded: &Path, asked: &Path) -> bool {
    is_same_dir(recorded, asked)
        || match (DirId::of(recorded), DirId::of(asked)) {
            (Ok(recorded), Ok(asked)) => recorded != asked,
            (Ok(_) | Err(_), _) => true,
        }
}

/// True if two paths lead to one directory now.
pub(crate) fn is_same_dir(one: &Path, other: &Path) -> bool {
    let place = |dir: &Path| fs::metadata(dir).map(|found| (found.dev(), found.ino())).ok();
    one == other || place(one).is_some_and(|found| place(other) == Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The identity of a directory that does not exist.
    fn made_up(n: u64) -> [u8; 24] {
        let mut bytes = [7; 24];
        bytes[8..16].copy_from_slice(&n.to_le_bytes());
        bytes
    }

    fn id_of(root: u64, name: &str, dir: Option<u64>) -> String {
        let dir = dir.map(made_up);
        id(&made_up(root), &SafeName::parse(name).expect("a name"), dir.as_ref()).to_string()
    }

    #[test]
    fn the_same_helper_of_two_state_directories_has_two_ids() {
        assert_ne!(id_of(1, "web", None), id_of(2, "web", None));
    }

    /// A different id for an existing name would orphan every helper at the next upgrade.
    #[test]
    fn ids_do_not_change_between_versions() {
        assert_eq!(id_of(1, "web", None), "38c22yc47v9n");
        assert_eq!(id_of(1, "web", Some(2)), "fdtwqj3p84zt");
    }

    #[test]
    fn names_scopes_and_directories_that_differ_have_different_ids() {
        let mut ids: Vec<_> = (0..20_000).map(|n| id_of(1, "web", Some(n))).collect();
        ids.extend((0..20_000).map(|n| id_of(1, &format!("web{n}"), None)));
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
