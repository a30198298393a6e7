//! Names and keys: pointers to sessions, each created exclusively.
//!
//! A pointer is a file whose content is an id. It counts only while the session it points to says
//! the same of itself, so a crash between the two leaves a stale file, never a wrong answer. Who
//! changes pointers holds one lock from the check until the session says so itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::{Code, Problem};
use berth_core::{Name, Session, SessionId};
use berth_host::lock::LockFile;

use crate::{Home, view};

/// How long to wait for whoever changes names before giving up.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

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

    /// The session of this name, if there is one. A session that cannot be read may well be it, so
    /// that is an error and not a "no".
    pub fn session_named(&self, name: &str) -> Result<Option<SessionId>, Problem> {
        let Ok(name) = Name::parse(name) else { return Ok(None) };
        self.pointed_at(&self.name_path(&name), |session| session.name.as_ref() == Some(&name))
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
        if let Some(other) = self.home.session_named(name.as_str())?.filter(|other| other != id) {
            return Err(Problem::new(
                Code::Refused,
                format!("the name `{name}` is in use by session {other}"),
            )
            .hint(format!("choose another name, or free it with `berth rename {other} NAME`")));
        }
        self.write(self.home.name_path(name), id)
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
