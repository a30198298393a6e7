//! Helpers in the state directory: which id a name means, and who may start one.
//!
//! A helper's id follows from the identity of the state directory, its name, and the identity of the directory it is of, so
//! there is no pointer that could be stale, and two who ask for the same helper meet at the same lease, by whatever path
//! they came. The record says name and scope as well, and is not used if it says others.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use berth_api::{Code, Problem};
use berth_core::{Name, Scope, SessionId};
use berth_host::dir::DirId;
use berth_host::lock::LockFile;
use berth_store::Home;
use berth_store::fnv::Fnv;
use regex::bytes::{Regex, RegexBuilder};

/// How long to wait for whoever starts the same helper.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// The id of the helper of this name in the state directory `root`: of a directory, or of the account. Marks and control
/// groups are named after ids, and those of two state directories must never meet.
fn id(root: &[u8; 24], name: &Name, dir: Option<&[u8; 24]>) -> SessionId {
    let mut hash = Fnv::default();
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

/// How large a pattern may be, in memory: a keeper has to be small.
const PATTERN_BYTES: usize = 1024 * 1024;

/// The pattern that a line of a helper's output has to match.
pub fn pattern(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES).build()
}

/// One who starts a helper. Over on drop.
#[derive(Debug)]
pub struct Starting {
    _file: LockFile,
}

/// Waits until nobody else starts this helper, whose directory is there; but not for ever, because the lease
/// decides in the end who keeps it: the lock only spares the losers a process each. `None`: somebody takes
/// long over it.
pub fn starting(home: &Home, id: &SessionId) -> Result<Option<Starting>, Problem> {
    let locked = home.session(id).lock_start(LOCK_PATIENCE)?;
    Ok(locked.map(|file| Starting { _file: file }))
}

/// The id of the helper of this name and scope: equal by whatever path the state directory and the directory of the
/// scope are reached.
pub fn helper_id(home: &Home, name: &Name, scope: &Scope) -> Result<SessionId, Problem> {
    let identity = |dir: &Path| {
        DirId::of(dir).map(|id| id.bytes()).map_err(|error| {
            Problem::new(Code::Refused, format!("cannot look at {}: {error}", dir.display()))
        })
    };
    let dir = match scope {
        Scope::Dir(dir) => Some(identity(Path::new(dir))?),
        Scope::User => None,
    };
    Ok(id(&identity(home.root())?, name, dir.as_ref()))
}

/// The scope of a caller as the record of the helper has it: a directory may be asked for by another path than it was
/// recorded with.
pub(crate) fn as_recorded(recorded: &Scope, asked: Scope) -> Scope {
    match (recorded, &asked) {
        (Scope::Dir(known), Scope::Dir(given)) if may_be_one(Path::new(known), Path::new(given)) => {
            recorded.clone()
        }
        (Scope::Dir(_) | Scope::User, _) => asked,
    }
}

/// Whether two paths can mean the one directory that a helper's id stands for. They cannot if they are two directories with
/// the same identity: then one is on a copy of the other's file system. A recorded path that now leads to another
/// directory, or nowhere, is old and does not count.
fn may_be_one(recorded: &Path, asked: &Path) -> bool {
    is_same_dir(recorded, asked)
        || match (DirId::of(recorded), DirId::of(asked)) {
            (Ok(recorded), Ok(asked)) => recorded != asked,
            (Ok(_) | Err(_), _) => true,
        }
}

/// Whether two paths lead to one directory now.
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
        id(&made_up(root), &Name::parse(name).expect("a name"), dir.as_ref()).to_string()
    }

    #[test]
    fn the_same_helper_of_two_state_directories_has_two_ids() {
        assert_ne!(id_of(1, "web", None), id_of(2, "web", None));
    }

    /// Another id for the same name would orphan every helper there is at the next upgrade.
    #[test]
    fn ids_stay_what_they_are() {
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
