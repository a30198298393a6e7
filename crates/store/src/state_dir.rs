//! The state directory, where sessions live.
//!
//! Promise: nothing is read from or written to a directory that another user could have prepared.
//! Not here: the files of one session (see `session_files`).
//! Start with [`StateDir::locate`].

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use berth_api::Problem;
use berth_core::SessionId;

use crate::store::JOURNAL_DIR;

/// Shortest beginning of an id that names a session. A shorter name that is mistyped, or that does not exist yet,
/// must not hit another session whose random id happens to begin with it.
const SHORTEST_PREFIX: usize = 3;

/// File in the state directory that a gateway locks for as long as it runs.
pub const GATEWAY_LOCK: &str = "gateway.lock";

/// Directory of sessions in the state directory.
const SESSIONS: &str = "sessions";
/// Directory of helpers: sessions that are shared, and that lists of sessions never show.
const HELPERS: &str = "helpers";
/// Directory of sessions that are being deleted.
const PURGING: &str = "purging";
/// Directories of a state directory that contain sessions or helpers.
pub const FOLDERS: [&str; 2] = [SESSIONS, HELPERS];

/// The state directory, checked, and one folder of it: sessions, or helpers, which have the same shape.
#[derive(Clone, Debug)]
pub struct StateDir {
    root: PathBuf,
    folder: &'static str,
}

impl StateDir {
    /// Finds the state directory: `BERTH_HOME`, else `$XDG_STATE_HOME/berth`, else `~/.local/state/berth`. Made if
    /// missing; refused if not private.
    pub fn locate() -> Result<Self, Problem> {
        Self::open(Self::place()?)
    }

    /// Path that [`StateDir::locate`] uses. Nothing is made or checked.
    pub fn place() -> Result<PathBuf, Problem> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        root_from(set("BERTH_HOME"), set("XDG_STATE_HOME"), set("HOME"))
    }

    /// Uses this directory.
    pub fn open(root: PathBuf) -> Result<Self, Problem> {
        for dir in [root.clone(), root.join(SESSIONS), root.join("names"), root.join("keys")] {
            private(&dir)?;
        }
        Ok(Self { root, folder: SESSIONS })
    }

    /// The state directory at this place, with its sessions. Nothing is made or checked.
    pub fn at(root: PathBuf) -> Self {
        Self { root, folder: SESSIONS }
    }

    /// This state directory, with helpers in the place of sessions.
    pub fn helpers(&self) -> Result<Self, Problem> {
        private(&self.root.join(HELPERS))?;
        Ok(Self { root: self.root.clone(), folder: HELPERS })
    }

    /// This state directory, with sessions in their place.
    pub fn sessions(&self) -> Self {
        Self { root: self.root.clone(), folder: SESSIONS }
    }

    /// True for helpers. Their ids are not random: a purged id can be used again by another helper.
    pub fn is_helpers(&self) -> bool {
        self.folder == HELPERS
    }

    /// Finds the state directory, folder and id for the directory of a session or helper.
    pub(crate) fn of(dir: &Path) -> Result<(Self, SessionId), Problem> {
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let folder = dir.parent();
        let parts = (
            folder.and_then(Path::parent),
            folder.and_then(name),
            name(dir).as_deref().and_then(SessionId::parse),
        );
        match parts {
            (Some(root), Some(folder), Some(id)) if folder == SESSIONS => Ok((Self::open(root.into())?, id)),
            (Some(root), Some(folder), Some(id)) if folder == HELPERS => {
                Ok((Self::open(root.into())?.helpers()?, id))
            }
            _ => {
                let what = format!("{} is not the directory of a session", dir.display());
                Err(Problem::usage(what).hint("keepers are started by `berth run` and `berth resume`"))
            }
        }
    }

    /// Like [`Self::of`], but without reading the disk, for a process that keeps the session.
    pub(crate) fn around(dir: &Path) -> Option<Self> {
        let folder = dir.parent()?;
        let named =
            FOLDERS.into_iter().find(|known| folder.file_name().is_some_and(|name| name == *known))?;
        Some(Self { root: folder.parent()?.to_owned(), folder: named })
    }

    /// Both folders: sessions, and helpers if there ever was one.
    pub fn folders(&self) -> Vec<StateDir> {
        let on = |folder| Self { root: self.root.clone(), folder };
        FOLDERS.into_iter().filter(|folder| self.root.join(folder).is_dir()).map(on).collect()
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Directory of a session.
    pub(crate) fn session_dir(&self, id: &SessionId) -> PathBuf {
        self.sessions_dir().join(id.as_str())
    }

    /// Directory of all sessions.
    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.root.join(self.folder)
    }

    /// Directory of sessions that are being deleted. No list reads it.
    pub(crate) fn purging_place(&self) -> PathBuf {
        self.root.join(PURGING)
    }

    /// Mints an id and makes its directories, exclusively: two sessions can never share one.
    pub fn mint(&self) -> io::Result<SessionId> {
        loop {
            let mut bytes = [0; SessionId::LENGTH];
            berth_host::random_bytes(&mut bytes)?;
            let id = SessionId::from_random(bytes);
            let dir = self.session_dir(&id);
            let make = |dir: &Path| fs::DirBuilder::new().mode(0o700).create(dir);
            match make(&dir) {
                Ok(()) => {
                    make(&dir.join(JOURNAL_DIR)).inspect_err(|_| drop(fs::remove_dir(&dir)))?;
                    return Ok(id);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes the directories that [`StateDir::mint`] made, if nothing came of it.
    pub fn unmint(&self, id: &SessionId) {
        let dir = self.session_dir(id);
        // Neither directory is removed while a file is in it.
        let _ = fs::remove_dir(dir.join(JOURNAL_DIR));
        let _ = fs::remove_dir(dir);
    }

    /// All session ids, sorted; the error says which directory cannot be read.
    pub fn list(&self) -> Result<Vec<SessionId>, Problem> {
        self.session_ids().map_err(|error| {
            Problem::refused(format!("cannot list {}: {error}", self.sessions_dir().display()))
                .hint("`berth doctor` shows what is wrong with the state directory")
        })
    }

    /// Fails if the sessions cannot be read.
    pub fn check_readable(&self) -> io::Result<()> {
        fs::read_dir(self.sessions_dir()).map(drop)
    }

    /// True if a session is gone. A session whose directory cannot be read may still be there.
    pub fn is_purged(&self, id: &SessionId) -> bool {
        let is_missing = self.session(id).try_exists().is_ok_and(|exists| !exists);
        is_missing && self.check_readable().is_ok()
    }

    /// Directory that sessions are made in and leave, for inotify.
    pub fn watched_place(&self) -> OsString {
        self.sessions_dir().into()
    }

    /// Path of all sessions, for messages.
    pub fn display(&self) -> String {
        self.sessions_dir().display().to_string()
    }

    /// All session ids, sorted.
    pub fn session_ids(&self) -> io::Result<Vec<SessionId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(self.sessions_dir())? {
            ids.extend(entry?.file_name().to_str().and_then(SessionId::parse));
        }
        ids.sort();
        Ok(ids)
    }

    /// Finds the session that a user means by a name, an id, or a unique beginning of an id.
    pub fn find(&self, text: &str) -> Result<SessionId, Problem> {
        // A whole id first: a name that looks like one must not redirect it.
        if let Some(id) = SessionId::parse(text).filter(|id| self.session_dir(id).exists()) {
            return Ok(id);
        }
        match self.session_named(text) {
            Ok(Some(id)) => return Ok(id),
            Ok(None) => {}
            // The journal cannot be read, so nothing contradicts the pointer. Commands that need no journal (`stop`,
            // `output`) use the pointer; the others find the damage themselves and report it.
            Err(problem) => return self.pointed_at_by(text).ok_or(problem),
        }
        let mut meant: Vec<_> = self
            .list()?
            .into_iter()
            .filter(|id| text.len() >= SHORTEST_PREFIX && id.as_str().starts_with(text))
            .collect();
        match meant.len() {
            1 => Ok(meant.remove(0)),
            0 => Err(Problem::not_found(format!("there is no session `{text}`"))
                .hint("`berth ls --all` lists the sessions there are")),
            count => {
                let shown: Vec<_> = meant.iter().take(8).map(SessionId::as_str).collect();
                let more = if count > shown.len() { ", …" } else { "" };
                Err(Problem::not_found(format!(
                    "`{text}` could mean {count} sessions: {}{more}",
                    shown.join(", ")
                ))
                .hint("type more of the id"))
            }
        }
    }
}

pub(crate) fn private(dir: &Path) -> Result<(), Problem> {
    berth_host::dir::private_dir(dir).map_err(|error| {
        Problem::refused(format!("cannot use the state directory: {error}"))
            .hint("name another one with BERTH_HOME=DIR")
    })
}

fn root_from(
    berth: Option<OsString>,
    xdg: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf, Problem> {
    if let Some(dir) = berth {
        let dir = PathBuf::from(dir);
        return std::path::absolute(&dir)
            .map_err(|error| Problem::refused(format!("cannot use BERTH_HOME={}: {error}", dir.display())));
    }
    // The XDG specification says that a relative path there is to be ignored.
    if let Some(dir) = xdg.map(PathBuf::from).filter(|dir| dir.is_absolute()) {
        return Ok(dir.join("berth"));
    }
    let home = home.map(PathBuf::from).filter(|dir| dir.is_absolute()).ok_or_else(|| {
        Problem::refused("cannot find the state directory: HOME is not set")
            .hint("set HOME, or name the directory with BERTH_HOME=DIR")
    })?;
    Ok(home.join(".local/state/berth"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<OsString> {
        Some(text.into())
    }

    #[test]
    fn the_state_directory_is_found_in_the_order_people_expect() {
        let root = |berth, xdg, home| root_from(berth, xdg, home).map(|path| path.display().to_string());
        assert_eq!(root(some("/b"), some("/x"), some("/h")), Ok("/b".into()));
        assert_eq!(root(None, some("/x"), some("/h")), Ok("/x/berth".into()));
        assert_eq!(root(None, some("relative"), some("/h")), Ok("/h/.local/state/berth".into()));
        assert!(root(None, None, None).is_err());
    }
}
