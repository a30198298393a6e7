//! Helpers in the state directory: which id a name means, and who may start one.
//!
//! A helper's id follows from the state directory, its name and its scope, so there is no pointer that
//! could be stale, and two who ask for the same helper meet at the same lease. The record says name and
//! scope as well, and is not used if it says others.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use berth_api::{Code, Problem};
use berth_core::{Name, Scope, SessionId};
use berth_host::lock::LockFile;
use regex::bytes::{Regex, RegexBuilder};

use crate::Home;
use crate::fnv::Fnv;

/// How long to wait for whoever starts the same helper.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// The id of the helper of this name and scope in the state directory at `root`, which is its path without
/// links: marks and control groups are named after ids, and those of two state directories must never meet.
fn id(root: &Path, name: &Name, scope: &Scope) -> SessionId {
    let (kind, dir) = match scope {
        Scope::Dir(dir) => (b'd', dir.as_str()),
        Scope::User => (b'u', ""),
    };
    let mut hash = Fnv::new();
    // Neither paths nor names have a zero byte in them, so no two triples read the same.
    hash.eat(root.as_os_str().as_bytes());
    hash.eat(&[0]);
    hash.eat(name.as_str().as_bytes());
    hash.eat(&[0, kind]);
    hash.eat(dir.as_bytes());
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
    let path = home.session_dir(id).join("start");
    let locked =
        LockFile::open_or_create(&path).and_then(|file| Ok(file.acquire(LOCK_PATIENCE)?.then_some(file)));
    let locked = locked
        .map_err(|error| Problem::new(Code::Refused, format!("cannot lock {}: {error}", path.display())))?;
    Ok(locked.map(|file| Starting { _file: file }))
}

impl Home {
    /// The id of the helper of this name and scope. The same through whatever link the state directory is
    /// reached. By its path, because the numbers of a disk may be others after the next boot.
    pub fn helper_id(&self, name: &Name, scope: &Scope) -> Result<SessionId, Problem> {
        let root = self.root().canonicalize().map_err(|error| {
            Problem::new(Code::Refused, format!("cannot look at {}: {error}", self.root().display()))
        })?;
        Ok(id(&root, name, scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_in(root: &str, name: &str, scope: Scope) -> String {
        id(Path::new(root), &Name::parse(name).expect("a name"), &scope).to_string()
    }

    fn id_of(name: &str, scope: Scope) -> String {
        id_in("/state", name, scope)
    }

    #[test]
    fn the_same_helper_of_two_state_directories_has_two_ids() {
        assert_ne!(id_in("/one", "web", Scope::User), id_in("/two", "web", Scope::User));
        assert_ne!(id_in("/on", "eweb", Scope::User), id_in("/one", "web", Scope::User));
    }

    /// Another id for the same name would orphan every helper there is at the next upgrade.
    #[test]
    fn ids_stay_what_they_are() {
        assert_eq!(id_of("web", Scope::User), "6r6m7vrfbr87");
        assert_eq!(id_of("web", Scope::Dir("/work".into())), "2cwm5838w5rd");
    }

    #[test]
    fn names_scopes_and_directories_that_differ_have_different_ids() {
        let mut ids: Vec<_> = (0..20_000).map(|n| id_of("web", Scope::Dir(format!("/w/{n}")))).collect();
        ids.extend((0..20_000).map(|n| id_of(&format!("web{n}"), Scope::User)));
        ids.extend([id_of("a", Scope::Dir("b".into())), id_of("ab", Scope::Dir(String::new()))]);
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
