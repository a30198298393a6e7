//! Names and keys: pointers to sessions, each created exclusively.
//!
//! A pointer is a file whose content is an id. It counts only while the session it points to says
//! the same of itself, so a crash between the two leaves a stale file, never a wrong answer. Who
//! changes pointers holds one lock from the check until the session says so itself.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::{Code, Problem};
use berth_core::{Name, SessionId};
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
            .map_err(|error| Problem::new(Code::Refused, format!("cannot lock {}: {error}", path.display())))?;
        match locked {
            (true, file) => Ok(NamesLock { home: self.clone(), _file: file }),
            (false, _) => Err(Problem::new(Code::TimedOut, format!("{} stays locked", path.display()))
                .hint("another berth command holds it; look for one that hangs")),
        }
    }

    /// The session of this name, if there is one.
    pub fn session_named(&self, name: &str) -> Option<SessionId> {
        let name = Name::parse(name).ok()?;
        let id = read_pointer(&self.name_path(&name))?;
        let history = view::history(self, &id).ok()?;
        (history.session.name.as_ref() == Some(&name)).then_some(id)
    }

    /// The session a `run` with this key made, if it did.
    pub fn session_keyed(&self, key: &str) -> Option<SessionId> {
        let id = read_pointer(&self.key_path(key))?;
        let history = view::history(self, &id).ok()?;
        (history.session.spec.as_ref()?.key.as_deref() == Some(key)).then_some(id)
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
        if let Some(other) = self.home.session_named(name.as_str()).filter(|other| other != id) {
            return Err(Problem::new(Code::Refused, format!("the name `{name}` is in use by session {other}"))
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
        if read_pointer(&path).as_ref() == Some(id) {
            // A stale pointer is harmless: the session it names does not say so itself.
            let _ = fs::remove_file(path);
        }
    }

    /// Removes a key whose session was never made.
    pub fn drop_key(&self, key: &str, id: &SessionId) {
        let path = self.home.key_path(key);
        if read_pointer(&path).as_ref() == Some(id) {
            let _ = fs::remove_file(path);
        }
    }

    fn write(&self, path: PathBuf, id: &SessionId) -> Result<(), Problem> {
        let dir = path.parent().expect("pointers live in a directory");
        let name = path.file_name().and_then(|name| name.to_str()).expect("pointer names are plain text");
        berth_host::disk::write_atomically(dir, name, id.as_str().as_bytes(), true)
            .map_err(|error| Problem::new(Code::Refused, format!("cannot write {}: {error}", path.display())))
    }
}

fn read_pointer(path: &PathBuf) -> Option<SessionId> {
    let text: io::Result<String> = fs::read_to_string(path);
    SessionId::parse(text.ok()?.trim())
}
