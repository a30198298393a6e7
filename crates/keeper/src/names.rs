//! Names and keys: pointers to sessions, each created exclusively.
//!
//! A pointer is a file whose content is an id. It counts only while the session it points to says
//! the same of itself, so a crash between the two leaves a stale file, never a wrong answer. Who
//! changes pointers holds one lock from the check until the session says so itself. A name that berth chooses takes
//! no common lock, so that many sessions can start at once: its file is created exclusively and stays locked until the
//! session says so ([`Home::reserve_name`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::{Code, Problem};
use berth_core::{Name, Session, SessionId};
use berth_host::disk::PreparedFile;
use berth_host::lock::LockFile;

use crate::{Home, view};

/// How long to wait for whoever changes names before giving up.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// How often a name that berth chooses is tried again because another session got it first.
const MOST_TRIES: u64 = 10_000;

/// A name that only one session can get. Given back, or up, when the session says so itself.
#[derive(Debug)]
pub struct ReservedName {
    name: Name,
    path: PathBuf,
    /// Locked as long as this lives.
    _file: fs::File,
}

impl ReservedName {
    /// The name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Frees the name: its session was never made.
    pub fn give_up(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The right to change names and keys. Given back on drop.
#[derive(Debug)]
pub struct NamesLock {
    home: Home,
    _file: LockFile,
}

impl Home {
    /// Waits for the right to change names and keys.
    pub fn lock_names(&self) -> Result<NamesLock, Problem> {
        let path = self.root().join("names.lock");
        let locked = LockFile::open_or_create(&path)
            .and_then(|file| Ok((file.acquire(LOCK_PATIENCE)?, file)))
            .map_err(|error| {
                Problem::new(Code::Refused, format!("cannot lock {}: {error}", path.display()))
            })?;
        match locked {
            (true, file) => Ok(NamesLock { home: self.clone(), _file: file }),
            (false, _) => Err(Problem::new(Code::TimedOut, format!("{} stays locked", path.display()))
                .hint("another berth command holds it; look for one that hangs")),
        }
    }

    /// Reserves a name for a session that is about to be made: `stem`, or the stem with a number if that is in use. Looks
    /// at few of the names there are, however many begin alike.
    pub fn reserve_name(&self, stem: &Name, id: &SessionId) -> Result<ReservedName, Problem> {
        let trouble = |error: io::Error| {
            let path = self.name_path(stem);
            Problem::new(Code::Refused, format!("cannot write {}: {error}", path.display()))
        };
        let is_free = |number: u64| !self.name_path(&numbered(stem, number)).exists();
        let first = first_free(is_free);
        // One file for all tries: where many sessions start at once, each lost race would sync another one.
        let prepared = prepare(&self.name_path(stem), id).map_err(trouble)?;
        for number in first..first + MOST_TRIES {
            let name = numbered(stem, number);
            if prepared.link_as(name.as_str()).map_err(trouble)? {
                let path = self.name_path(&name);
                return Ok(ReservedName { name, path, _file: prepared.into_locked() });
            }
        }
        Err(Problem::new(Code::Refused, format!("too many sessions are called `{stem}`"))
            .hint("give it a name with --name"))
    }

    /// The session of this name, if there is one. A session that cannot be read may well be it, so
    /// that is an error and not a "no".
    pub fn session_named(&self, name: &str) -> Result<Option<SessionId>, Problem> {
        let Ok(name) = Name::parse(name) else { return Ok(None) };
        self.pointed_at(&self.name_path(&name), |session| session.name.as_ref() == Some(&name))
    }

    /// The names that point at a session, in no order.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.root().join("names"))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_there =
            |name: &String| self.pointed_at_by(name).is_some_and(|id| self.session_dir(&id).exists());
        Ok(names.filter(is_there).collect())
    }

    /// The session a name points at, without asking that session: only it can say whether the name counts.
    pub fn pointed_at_by(&self, name: &str) -> Option<SessionId> {
        read_pointer(&self.name_path(&Name::parse(name).ok()?)).ok().flatten()
    }

    /// The session a `run` with this key made, if it did. Errors as [`Home::session_named`] does: a
    /// "no" would make the same session a second time.
    pub fn session_keyed(&self, key: &str) -> Result<Option<SessionId>, Problem> {
        let says_so =
            |session: &Session| session.spec.as_ref().is_some_and(|spec| spec.key.as_deref() == Some(key));
        self.pointed_at(&self.key_path(key), says_so)
    }

    fn pointed_at(
        &self,
        path: &Path,
        says_so: impl Fn(&Session) -> bool,
    ) -> Result<Option<SessionId>, Problem> {
        let Some(id) = read_pointer(path)? else { return Ok(None) };
        match view::history(self, &id) {
            Ok(history) => Ok(says_so(&history.session).then_some(id)),
            // Given up before anything was said in it, or taken away by a person.
            Err(problem) if problem.code == Code::NotFound => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    fn name_path(&self, name: &Name) -> PathBuf {
        self.root().join("names").join(name.as_str())
    }

    /// Keys are the caller's and may hold anything; their file names may not.
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

impl NamesLock {
    /// Points a name at a session, unless another session has it.
    pub fn claim_name(&self, name: &Name, id: &SessionId) -> Result<(), Problem> {
        let path = self.home.name_path(name);
        let trouble = |error: io::Error| {
            Problem::new(Code::Refused, format!("cannot write {}: {error}", path.display()))
        };
        loop {
            // Locked while it is written: a session that is being made may have reserved it.
            let Some(file) = LockFile::open_existing(&path).map_err(trouble)? else {
                if prepare(&path, id).and_then(|prepared| prepared.link_as(name.as_str())).map_err(trouble)? {
                    return Ok(());
                }
                continue;
            };
            if !file.try_exclusive().map_err(trouble)? {
                return Err(Problem::new(
                    Code::Refused,
                    format!("the name `{name}` is in use by a session that is just starting"),
                )
                .hint("choose another name"));
            }
            if !file.is_at(&path).map_err(trouble)? {
                continue;
            }
            // Only now: a session that is being made says that it has the name before it gives up the lock.
            if let Some(other) = self.home.session_named(name.as_str())?.filter(|other| other != id) {
                return Err(Problem::new(
                    Code::Refused,
                    format!("the name `{name}` is in use by session {other}"),
                )
                .hint(format!("choose another name, or free it with `berth rename {other} NAME`")));
            }
            return self.write(path, id);
        }
    }

    /// Points a key at a session.
    pub fn claim_key(&self, key: &str, id: &SessionId) -> Result<(), Problem> {
        self.write(self.home.key_path(key), id)
    }

    /// Removes a name that no longer counts.
    pub fn drop_name(&self, name: &Name, id: &SessionId) {
        let path = self.home.name_path(name);
        if points_at(&path, id) {
            // A stale pointer is harmless: the session it names does not say so itself.
            let _ = fs::remove_file(path);
        }
    }

    /// Removes a key whose session was never made, or is no more.
    pub fn drop_key(&self, key: &str, id: &SessionId) {
        let path = self.home.key_path(key);
        if points_at(&path, id) {
            let _ = fs::remove_file(path);
        }
    }

    /// Removes every name and key of a session that is no more.
    pub(crate) fn drop_all(&self, id: &SessionId) -> io::Result<()> {
        for shelf in ["names", "keys"] {
            for entry in fs::read_dir(self.home.root().join(shelf))? {
                let path = entry?.path();
                if points_at(&path, id) {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }

    fn write(&self, path: PathBuf, id: &SessionId) -> Result<(), Problem> {
        let dir = path.parent().expect("pointers live in a directory");
        let name = path.file_name().and_then(|name| name.to_str()).expect("pointer names are plain text");
        berth_host::disk::write_atomically(dir, name, id.as_str().as_bytes(), true)
            .map_err(|error| Problem::new(Code::Refused, format!("cannot write {}: {error}", path.display())))
    }
}

/// A stem, with its number unless that is 1.
fn numbered(stem: &Name, number: u64) -> Name {
    if number < 2 {
        return stem.clone();
    }
    let suffix = format!("-{number}");
    let room = Name::MAX_BYTES.saturating_sub(suffix.len());
    let stem = &stem.as_str()[..stem.as_str().len().min(room)];
    Name::parse(&format!("{stem}{suffix}")).expect("the beginning of a name and a number are a name")
}

/// A number that is free, behind one that is not, in as many looks as the highest number has bits.
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
    let name = path.file_name().and_then(|name| name.to_str()).expect("pointer names are plain text");
    PreparedFile::new(dir, name, id.as_str().as_bytes())
}

fn points_at(path: &Path, id: &SessionId) -> bool {
    read_pointer(path).is_ok_and(|found| found.as_ref() == Some(id))
}

/// What a pointer says; nothing if there is none, or if it is no id: then nobody of ours wrote it.
fn read_pointer(path: &Path) -> Result<Option<SessionId>, Problem> {
    match fs::read(path) {
        Ok(bytes) => Ok(SessionId::parse(String::from_utf8_lossy(&bytes).trim())),
        // Too long a name for a file was never given to one.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => {
            Ok(None)
        }
        Err(error) => Err(Problem::new(Code::Refused, format!("cannot read {}: {error}", path.display()))),
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
        let stem = Name::parse(&"n".repeat(Name::MAX_BYTES)).expect("a name");
        assert_eq!(numbered(&stem, 1), stem);
        assert!(numbered(&stem, 12345).as_str().ends_with("n-12345"));
    }
}
