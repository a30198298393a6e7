//! Names and keys: pointers to sessions, each created exclusively.
//!
//! Promise: of all sessions that want a name or key at most one gets it. A pointer is a file whose content is an id. It
//! counts only while the session it points to says the same of itself, so a crash between the two leaves a stale file,
//! never a wrong answer. A command that makes or renames a session keeps the pointer's own file locked until the session
//! says so ([`PointerClaim`]); claims of different names wait for nothing in common. A file that has a pointer's name is
//! replaced or removed only by the holder of its lock, who looked again with the lock that it still has the name.
//!
//! No process waits for a second pointer while it holds one, except `run`, which takes the key first and then the name.
//! Start with [`StateDir::claim_name`] and [`StateDir::claim_key`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::{Problem, ProblemCode};
use berth_core::{SafeName, Session, SessionId};
use berth_host::disk::PreparedFile;
use berth_host::lock::LockFile;

use crate::{StateDir, session_status};

/// Time to wait for a session that is just getting a name or key.
const CLAIM_PATIENCE: Duration = Duration::from_secs(30);
/// Time to wait for a command that only reads a pointer which is to be removed.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// Limit of the tries for a name that berth chooses, each lost to another session.
const MOST_TRIES: u64 = 10_000;

/// Origin of a session's name.
#[derive(Clone, Debug)]
pub enum RequestedName {
    /// A user chose it: refused if it is in use.
    Chosen(SafeName),
    /// berth chose it: gets a number if it is in use.
    Stem(SafeName),
}

/// A name or key that only one session can get. Its pointer is locked until this is dropped, which is when the session
/// says so itself.
#[derive(Debug)]
pub struct PointerClaim {
    path: PathBuf,
    file: LockFile,
    /// The session had it before.
    is_renewed: bool,
}

impl PointerClaim {
    /// Frees the name or key: the session did not get it. A session that had it before keeps it.
    pub fn give_up(self) {
        if !self.is_renewed && matches!(self.file.is_at(&self.path), Ok(true)) {
            // A stale pointer is harmless: the session it names does not say so itself.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The outcome of a claim.
enum PointerClaimResult {
    Ours(PointerClaim),
    /// The session that has it says so itself.
    Taken(SessionId),
}

impl StateDir {
    /// Points a name at a session, unless another session has it. Returns the name as well, because berth may
    /// choose it.
    pub fn claim_name(
        &self,
        naming: &RequestedName,
        id: &SessionId,
    ) -> Result<(SafeName, PointerClaim), Problem> {
        let name = match naming {
            RequestedName::Chosen(name) => name,
            RequestedName::Stem(stem) => return self.claim_numbered(stem, id),
        };
        let says_so = |session: &Session| session.name.as_ref() == Some(name);
        let what = format!("the name `{name}`");
        match self.claim(&self.name_path(name), &what, id, says_so)? {
            PointerClaimResult::Ours(claim) => Ok((name.clone(), claim)),
            PointerClaimResult::Taken(other) => {
                Err(Problem::refused(format!("{what} is in use by session {other}"))
                    .hint(format!("choose another name, or free it with `berth rename {other} NAME`")))
            }
        }
    }

    /// Points a key at a session; `None` if it already means another one.
    pub fn claim_key(&self, key: &str, id: &SessionId) -> Result<Option<PointerClaim>, Problem> {
        match self.claim(&self.key_path(key), &format!("the key `{key}`"), id, has_key(key))? {
            PointerClaimResult::Ours(claim) => Ok(Some(claim)),
            PointerClaimResult::Taken(_) => Ok(None),
        }
    }

    /// Claims `stem`, or the stem with a number if that is in use. Checks few of the existing names, however many
    /// begin alike; a stale pointer counts as in use.
    fn claim_numbered(&self, stem: &SafeName, id: &SessionId) -> Result<(SafeName, PointerClaim), Problem> {
        let path = self.name_path(stem);
        let trouble = cannot_write(&path);
        let is_free = |number: u64| !self.name_path(&numbered(stem, number)).exists();
        let first = first_free(is_free);
        // One file for all tries: where many sessions start at once, each lost race would sync another one.
        let prepared = prepare(&path, id).map_err(trouble)?;
        for number in first..first + MOST_TRIES {
            let name = numbered(stem, number);
            if prepared.link_as(name.as_str()).map_err(trouble)? {
                let path = self.name_path(&name);
                return Ok((name, PointerClaim { path, file: prepared.into_locked(), is_renewed: false }));
            }
        }
        Err(Problem::refused(format!("too many sessions are called `{stem}`"))
            .hint("give it a name with --name"))
    }

    fn claim(
        &self,
        path: &Path,
        what: &str,
        id: &SessionId,
        says_so: impl Fn(&Session) -> bool,
    ) -> Result<PointerClaimResult, Problem> {
        let trouble = cannot_write(path);
        let prepared = prepare(path, id).map_err(trouble)?;
        let ours = |prepared: PreparedFile, is_renewed| {
            let (path, file) = (path.to_owned(), prepared.into_locked());
            Ok(PointerClaimResult::Ours(PointerClaim { path, file, is_renewed }))
        };
        loop {
            if prepared.link_as(file_name(path)).map_err(trouble)? {
                return ours(prepared, false);
            }
            let Some(there) = LockFile::open_existing(path).map_err(trouble)? else { continue };
            if !there.acquire(CLAIM_PATIENCE).map_err(trouble)? {
                return Err(Problem::timed_out(format!(
                    "{what} is in use by a session that is still starting"
                ))
                .hint("try again, or choose another one"));
            }
            // The command that had the lock may have removed or replaced the file.
            if !there.is_at(path).map_err(trouble)? {
                continue;
            }
            // Read only with the lock: a session that is being made says that it has the name before the lock is free.
            let has_it = self.pointed_at(path, &says_so)?;
            if let Some(other) = has_it.as_ref().filter(|other| *other != id) {
                return Ok(PointerClaimResult::Taken(other.clone()));
            }
            prepared.replace(file_name(path)).map_err(trouble)?;
            return ours(prepared, has_it.is_some());
        }
    }

    /// Removes a name that a session no longer has.
    pub fn drop_name(&self, name: &SafeName, id: &SessionId) {
        // A stale pointer is harmless: the session it names does not say so itself.
        let _ = self.drop_pointer(&self.name_path(name), id, |session| session.name.as_ref() == Some(name));
    }

    /// Removes a key whose session is gone.
    pub fn drop_key(&self, key: &str, id: &SessionId) {
        let _ = self.drop_pointer(&self.key_path(key), id, has_key(key));
    }

    /// Removes every name and key of a session that is gone.
    pub fn drop_pointers(&self, id: &SessionId) -> io::Result<()> {
        for folder in ["names", "keys"] {
            for entry in fs::read_dir(self.root().join(folder))? {
                self.drop_pointer(&entry?.path(), id, |_| true)?;
            }
        }
        Ok(())
    }

    fn drop_pointer(
        &self,
        path: &Path,
        id: &SessionId,
        says_so: impl Fn(&Session) -> bool,
    ) -> io::Result<()> {
        if !points_at(path, id) {
            return Ok(());
        }
        let Some(there) = LockFile::open_existing(path)? else { return Ok(()) };
        if there.acquire(DROP_PATIENCE)?
            && there.is_at(path)?
            && points_at(path, id)
            && matches!(self.pointed_at(path, says_so), Ok(None))
        {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// The session of this name, if there is one. A session that cannot be read may have the name, so that is an
    /// error and not a "no".
    pub fn session_named(&self, name: &str) -> Result<Option<SessionId>, Problem> {
        let Ok(name) = SafeName::parse(name) else { return Ok(None) };
        let path = self.name_path(&name);
        // The status cache confirms nearly every name, if nothing has happened since. A "no" needs the journal.
        if let Some(id) = read_pointer(&path)?
            && let Some(status) = session_status::valid_status_cache(self, &id)
            && status.name.as_deref() == Some(name.as_str())
        {
            return Ok(Some(id));
        }
        self.pointed_at(&path, |session| session.name.as_ref() == Some(&name))
    }

    /// All names that point at a session, in no order.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.root().join("names"))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_there =
            |name: &String| self.pointed_at_by(name).is_some_and(|id| self.session_dir(&id).exists());
        Ok(names.filter(is_there).collect())
    }

    /// The session that a name points at, without checking that session: only its journal shows whether the name
    /// counts.
    pub fn pointed_at_by(&self, name: &str) -> Option<SessionId> {
        read_pointer(&self.name_path(&SafeName::parse(name).ok()?)).ok().flatten()
    }

    /// The session that a `run` with this key made, if there is one. Errors like [`StateDir::session_named`]: a "no"
    /// would make the session a second time.
    pub fn session_keyed(&self, key: &str) -> Result<Option<SessionId>, Problem> {
        self.pointed_at(&self.key_path(key), has_key(key))
    }

    fn pointed_at(
        &self,
        path: &Path,
        says_so: impl Fn(&Session) -> bool,
    ) -> Result<Option<SessionId>, Problem> {
        let Some(id) = read_pointer(path)? else { return Ok(None) };
        match session_status::history(self, &id) {
            Ok(history) => Ok(says_so(&history.session).then_some(id)),
            // Given up before anything was said in it, or removed by a user.
            Err(problem) if problem.code == ProblemCode::NotFound => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    fn name_path(&self, name: &SafeName) -> PathBuf {
        self.root().join("names").join(name.as_str())
    }

    /// Keys are chosen by callers and may contain any character; file names may not.
    fn key_path(&self, key: &str) -> PathBuf {
        let mut file_name = String::new();
        for byte in key.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => file_name.push(byte as char),
                _ => file_name.push_str(&format!("%{byte:02x}")),
            }
        }
        self.root().join("keys").join(file_name)
    }
}

/// True if the session's journal says that a `run` with this key made it.
fn has_key(key: &str) -> impl Fn(&Session) -> bool {
    move |session| session.spec.as_ref().is_some_and(|spec| spec.key.as_deref() == Some(key))
}

/// A stem, with its number unless that is 1.
fn numbered(stem: &SafeName, number: u64) -> SafeName {
    if number < 2 {
        return stem.clone();
    }
    let suffix = format!("-{number}");
    let room = SafeName::MAX_BYTES.saturating_sub(suffix.len());
    let stem = &stem.as_str()[..stem.as_str().len().min(room)];
    SafeName::parse(&format!("{stem}{suffix}")).expect("the beginning of a name and a number are a name")
}

/// Finds a free number behind a taken one, in as many checks as the highest number has bits.
fn first_free(is_free: impl Fn(u64) -> bool) -> u64 {
    if is_free(1) {
        return 1;
    }
    let (mut taken, mut free) = (1, 2);
    while !is_free(free) {
        (taken, free) = (free, free.saturating_mul(2));
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if is_free(middle) { free = middle } else { taken = middle }
    }
    free
}

/// Makes a locked pointer that has no name yet.
fn prepare(path: &Path, id: &SessionId) -> io::Result<PreparedFile> {
    let dir = path.parent().expect("pointers live in a directory");
    PreparedFile::new(dir, file_name(path), id.as_str().as_bytes())
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("pointer names are plain text")
}

fn cannot_write(path: &Path) -> impl Fn(io::Error) -> Problem + Copy {
    move |error| Problem::refused(format!("cannot write {}: {error}", path.display()))
}

fn points_at(path: &Path, id: &SessionId) -> bool {
    read_pointer(path).is_ok_and(|found| found.as_ref() == Some(id))
}

/// Reads a pointer; `None` if there is none, or if its content is not a valid id: then berth did not write it.
fn read_pointer(path: &Path) -> Result<Option<SessionId>, Problem> {
    match fs::read(path) {
        Ok(bytes) => Ok(SessionId::parse(String::from_utf8_lossy(&bytes).trim())),
        // A name that is too long for a file was never given to a session.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => {
            Ok(None)
        }
        Err(error) => Err(Problem::refused(format!("cannot read {}: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_free_number_is_found_in_few_looks_however_many_are_taken() {
        for taken in [0_u64, 1, 2, 3, 7, 1000, 1_000_000] {
            let looks = Cell::new(0);
            let found = first_free(|number| {
                looks.set(looks.get() + 1);
                number > taken
            });
            assert_eq!(found, taken + 1);
            assert!(looks.get() <= 45, "{} looks behind {taken}", looks.get());
        }
    }

    #[test]
    fn a_number_never_makes_a_name_too_long() {
        let stem = SafeName::parse(&"n".repeat(SafeName::MAX_BYTES)).expect("a name");
        assert_eq!(numbered(&stem, 1), stem);
        assert!(numbered(&stem, 12345).as_str().ends_with("n-12345"));
    }
}
