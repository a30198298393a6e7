//! Files of one session in the state directory, by the session's id.
//!
//! Promise: only this crate knows the names of the files. Other crates get events, bytes, locks and answers.
//! Not here: the meaning of the files (see `history`), the right to write them (see `store`).
//! Start with [`StateDir::session`].

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::client::SOCKET_NAME;
use berth_api::message::{ClaimedCaller, KeeperAnswer, KeeperRequest};
use berth_api::{KeeperConnection, Problem, SessionStatus};
use berth_core::SessionId;
use berth_host::identity::{Pidfd, ProcessIdentity};
use berth_host::lock::{FileId, LockFile, LockState, lock_state};
use berth_host::{disk, process_tree, socket};
use berth_journal::{ChainHead, Committed};

use crate::foreign_lease_holder::ForeignLeaseHolder;
use crate::keepers::{self, NoKeeper};
use crate::output::OutputFiles;
use crate::session_status;
use crate::session_view::{SessionView, StoredEvent};
use crate::state_dir::StateDir;
use crate::store::{self, JOURNAL_DIR, Lease};
use crate::stored_session::StoredSession;

/// Lease file in a session's directory.
pub(crate) const LEASE_FILE: &str = "lease";
/// Lock file that every process of a run holds open and locked.
const RUN_LOCK: &str = "run";
/// Directory of the agent's output.
const OUTPUT_DIR: &str = "output";
/// Directory of an agent's standard error, if the agent has no terminal.
const COMPLAINTS_DIR: &str = "stderr";
/// Cache of the terminal's screen.
const SCREEN_FILE: &str = "screen.ansi";
/// Log of the keeper about itself, if BERTH_LOG asks for one.
const LOG_FILE: &str = "keeper.log";
/// The earlier part of that log, when it grew too long.
const OLD_LOG_FILE: &str = "keeper.log.old";
/// Lock file of the command that starts a helper.
const START_LOCK: &str = "start";

/// Number of events on a page of [`SessionFiles::pages_back`].
const BACK_PAGE_EVENTS: u64 = 64;

/// Files that can be in the directory of a session whose creator died before its first event.
const HALF_MADE: [&str; 6] = [JOURNAL_DIR, LEASE_FILE, RUN_LOCK, SOCKET_NAME, LOG_FILE, OLD_LOG_FILE];

/// The files of one session, or helper, in the state directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionFiles {
    dir: PathBuf,
    id: SessionId,
}

impl StateDir {
    /// The files of a session, which need not exist.
    pub fn session(&self, id: &SessionId) -> SessionFiles {
        SessionFiles { dir: self.session_dir(id), id: id.clone() }
    }
}

impl SessionFiles {
    /// Parses the text that [`SessionFiles::argument`] made, and opens the state directory.
    pub fn open(argument: &OsStr) -> Result<(StateDir, Self), Problem> {
        let dir = Path::new(argument);
        let (home, id) = StateDir::of(dir)?;
        Ok((home, Self { dir: dir.to_owned(), id }))
    }

    /// Parses such a text without reading the disk; `None` if it is not the path of a session.
    pub fn understand(argument: &OsStr) -> Option<Self> {
        let dir = Path::new(argument);
        let id = SessionId::parse(dir.file_name()?.to_str()?)?;
        StateDir::around(dir)?;
        Some(Self { dir: dir.to_owned(), id })
    }

    /// Path of the session, for the command line of a process.
    pub fn argument(&self) -> OsString {
        self.dir.clone().into()
    }

    /// Path of the session, for messages.
    pub fn display(&self) -> impl std::fmt::Display + '_ {
        self.dir.display()
    }

    /// True for the names of files that change when a state is written, a keeper begins to listen, or its lease ends.
    pub fn is_news(name: &str) -> bool {
        matches!(name, session_status::STATUS_FILE | SOCKET_NAME | LEASE_FILE)
    }

    /// Id of the session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// State directory and folder of the session.
    pub fn home(&self) -> StateDir {
        StateDir::around(&self.dir).expect("the files of a session are in a folder of a state directory")
    }

    /// Root of the state directory, for files that belong to no session.
    pub fn root(&self) -> &Path {
        let root = self.dir.parent().and_then(Path::parent);
        root.expect("the files of a session are in a folder of a state directory")
    }

    /// True if it is in the folder of helpers.
    pub fn is_helper(&self) -> bool {
        self.home().is_helpers()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// True if a session with this id was made, also if its journal is empty.
    pub fn exists(&self) -> bool {
        self.dir.exists()
    }

    /// True if the session has a directory; an error if the disk cannot be read.
    pub fn try_exists(&self) -> io::Result<bool> {
        self.dir.try_exists()
    }

    /// True if the journal has events, in whatever state. A session that may not be read is an error.
    pub fn has_events(&self) -> Result<bool, Problem> {
        store::exists(&self.dir)
    }

    /// Makes the directories of a helper, which stay for all its runs.
    pub fn make(&self) -> Result<(), Problem> {
        for dir in [self.dir.clone(), self.dir.join(JOURNAL_DIR)] {
            match fs::DirBuilder::new().mode(0o700).create(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    let what = format!("cannot make {}: {error}", dir.display());
                    return Err(Problem::refused(what));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Removes a session that could not be made: its journal is empty, and only its creator knows its id.
    pub fn remove_unmade(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    /// Makes the file names of a new session survive a power cut.
    pub fn sync_new(&self) -> io::Result<()> {
        let folder = self.dir.parent().expect("a session is in a folder");
        disk::sync_dirs(&[&self.dir, folder])
    }

    /// Size of the session's files in bytes. A file that cannot be read counts nothing.
    pub fn size(&self) -> u64 {
        size_of(&self.dir)
    }

    /// Reads the events from number `from` on, without a right to the journal.
    pub fn read(&self, from: u64) -> Result<Vec<Committed<StoredEvent>>, Problem> {
        self.read_range(from, u64::MAX, usize::MAX)
    }

    /// Reads the events up to and with `to`, and no more once there are `most_bytes`; later files are not read.
    pub fn read_range(
        &self,
        from: u64,
        to: u64,
        most_bytes: usize,
    ) -> Result<Vec<Committed<StoredEvent>>, Problem> {
        store::read_range(&self.dir, &self.id, from, to, most_bytes)
    }

    /// The events from number `from` on, in pages of about `page_bytes`, for readers that may stop early.
    pub fn pages(
        &self,
        from: u64,
        page_bytes: usize,
    ) -> impl Iterator<Item = Result<Vec<Committed<StoredEvent>>, Problem>> {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let page = self.read_range(next?, u64::MAX, page_bytes);
            next = page.as_ref().ok().and_then(|events| events.last()).map(|last| last.seq().0 + 1);
            page.map(|events| Some(events).filter(|events| !events.is_empty())).transpose()
        })
    }

    /// The events up to and with `to`, in pages of `BACK_PAGE_EVENTS`, the latest page first. Within a page the events
    /// are in order.
    pub fn pages_back(&self, to: u64) -> impl Iterator<Item = Result<Vec<Committed<StoredEvent>>, Problem>> {
        let mut end = to;
        std::iter::from_fn(move || {
            let last = end;
            end = end.saturating_sub(BACK_PAGE_EVENTS);
            (last > 0).then(|| self.read_range(end + 1, last, usize::MAX))
        })
    }

    /// Reads the journal as far as possible, and returns the damage behind that. For people only.
    pub fn salvage(&self) -> (Vec<Committed<StoredEvent>>, Option<Problem>) {
        store::salvage(&self.dir, &self.id)
    }

    /// The heads of the journal at these events, as far as they exist, and at the last event that was read.
    pub fn heads(&self, at: &[u64]) -> Result<(Vec<ChainHead>, ChainHead), Problem> {
        store::heads(&self.dir, &self.id, at)
    }

    /// Names of the journal files that have the events from `from` to `to`.
    pub fn segments_of(&self, from: u64, to: u64) -> Result<Vec<String>, Problem> {
        store::segments_of(&self.dir, &self.id, from, to)
    }

    /// Paths of the journal files, for a search in their bytes.
    pub fn journal_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.join(JOURNAL_DIR)).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "log"));
        paths.sort();
        paths
    }

    /// The session's past, from the snapshot and the events behind it.
    pub fn past(&self) -> Result<StoredSession, Problem> {
        StoredSession::read(&self.dir, &self.id)
    }

    /// The session's past, with the keys of all turns.
    pub fn past_with_keys(&self) -> Result<StoredSession, Problem> {
        StoredSession::read_with_keys(&self.dir, &self.id)
    }

    /// The agent's output.
    pub fn output(&self) -> OutputFiles {
        output_of(&self.dir)
    }

    /// Standard error of an agent without a terminal.
    pub fn complaints(&self) -> OutputFiles {
        OutputFiles::at(self.dir.join(COMPLAINTS_DIR))
    }

    /// True if the session is held: by its keeper, or by a command that clears up after one. A lease file that was
    /// removed or replaced says nothing about its keeper; the lock on the directory does.
    pub fn is_kept(&self) -> io::Result<bool> {
        session_status::is_kept(&self.dir)
    }

    /// True if the lease file itself is locked: it is not if it was removed or replaced while its keeper runs.
    pub fn has_locked_lease(&self) -> bool {
        matches!(lock_state(&self.dir.join(LEASE_FILE)), Ok(Some(LockState::Held)))
    }

    /// The text of the lease: the process that holds, or last held it.
    pub fn lease_holder(&self) -> String {
        store::holder(&self.dir)
    }

    /// The program that holds the lease and is not berth, if there is one.
    pub fn stranger(&self) -> Option<ForeignLeaseHolder> {
        ForeignLeaseHolder::of(&self.dir)
    }

    /// Fails if such a program holds the lease: waiting or retrying does not help. `handle` is the name or id that
    /// people use for the session.
    pub fn refuse_stranger(&self, handle: &str) -> Result<(), Problem> {
        self.stranger().map_or(Ok(()), |stranger| Err(stranger.problem(handle)))
    }

    /// The keeper of the session, as an open pidfd (see [`keepers`]).
    pub fn keeper(&self) -> Result<(ProcessIdentity, Pidfd), NoKeeper> {
        keepers::keeper_of(&self.dir)
    }

    /// A live process that was started as the keeper of this session, whatever its lease says.
    pub fn keeper_started_here(&self) -> io::Result<Option<(u32, Pidfd)>> {
        keepers::keeper_started_for(&self.dir)
    }

    /// True if both have one id but different directories on disk: one of them is a copy.
    pub fn is_copy_of(&self, other: &Self) -> bool {
        let place = |files: &Self| FileId::at(&files.dir).ok().flatten();
        self.id == other.id && place(self) != place(other)
    }

    /// A connection to the keeper, if one accepts within `patience`.
    pub fn connect(
        &self,
        asker: impl Into<ClaimedCaller>,
        patience: Duration,
    ) -> io::Result<KeeperConnection> {
        KeeperConnection::open_within(&self.dir, asker.into(), patience)
    }

    /// Connects and sends a request, and waits only for its receipt, all within `patience`.
    pub fn tell_keeper(&self, place: String, request: KeeperRequest, patience: Duration) -> io::Result<()> {
        KeeperConnection::ask_within(&self.dir, place, request, patience)
    }

    /// Connects and sends within `patience`, then waits for the answer for at most `answer_patience`.
    pub fn ask_keeper(
        &self,
        place: String,
        request: KeeperRequest,
        patience: Duration,
        answer_patience: Duration,
    ) -> io::Result<KeeperAnswer> {
        KeeperConnection::ask_and_wait(&self.dir, place, request, patience, answer_patience)
    }

    /// A bare stream to the keeper.
    pub fn stream(&self) -> io::Result<UnixStream> {
        socket::connect(&self.dir, SOCKET_NAME)
    }

    /// Opens the keeper's socket. Only the holder of the lease may listen.
    pub fn listen(&self) -> io::Result<UnixListener> {
        socket::listen_at(&self.dir, SOCKET_NAME)
    }

    /// True if there is a socket, also if no keeper listens on it.
    pub fn has_socket(&self) -> bool {
        self.dir.join(SOCKET_NAME).exists()
    }

    /// Removes the socket of a keeper that leaves.
    pub fn remove_socket(&self) {
        let _ = fs::remove_file(self.dir.join(SOCKET_NAME));
    }

    /// State of the lock that every process of the last run inherited.
    pub fn probe_run_lock(&self) -> io::Result<Option<LockState>> {
        lock_state(&self.dir.join(RUN_LOCK))
    }

    /// Opens that lock, and makes it if it is missing.
    pub fn run_lock(&self) -> io::Result<LockFile> {
        LockFile::open_or_create(&self.dir.join(RUN_LOCK))
    }

    /// Processes that have the run's lock open.
    pub fn run_lock_carriers(&self) -> io::Result<process_tree::ProcessMatches> {
        process_tree::processes_with_open_lock(&self.dir.join(RUN_LOCK))
    }

    /// Sessions whose run's lock a process holds, in any state directory. The directory of a session that was moved
    /// out of its state directory reveals only the id.
    pub fn with_run_lock_of(pid: u32) -> io::Result<Vec<(SessionId, Option<Self>)>> {
        let files = process_tree::held_files(pid, RUN_LOCK)?;
        let session = |file: &PathBuf| {
            let dir = file.parent()?;
            let id = SessionId::parse(dir.file_name()?.to_str()?)?;
            Some((id, Self::understand(dir.as_os_str())))
        };
        Ok(files.iter().filter_map(session).collect())
    }

    /// Takes the lock of the command that starts a helper; `None` if it stays taken for `patience`.
    pub fn lock_start(&self, patience: Duration) -> Result<Option<LockFile>, Problem> {
        let path = self.dir.join(START_LOCK);
        let locked =
            LockFile::open_or_create(&path).and_then(|file| Ok(file.acquire(patience)?.then_some(file)));
        locked.map_err(|error| Problem::refused(format!("cannot lock {}: {error}", path.display())))
    }

    /// Claims the session. `None` if another process has it; an error of the kind `NotFound` if it was purged.
    pub fn claim(&self) -> io::Result<Option<Lease>> {
        Lease::claim(self)
    }

    /// Status of the session, from this history and the output files.
    pub fn describe(&self, history: &SessionView, kept: bool) -> SessionStatus {
        session_status::describe(&self.dir, &self.id, history, kept)
    }

    /// Reads the status cache, which may be out of date.
    pub fn read_status_cache(&self) -> Option<SessionStatus> {
        session_status::read_status_cache(&self.dir)
    }

    /// Writes the status cache; only the holder of the lease may. The cache is derived, so a failure costs only time.
    pub fn write_status_cache(&self, status: &SessionStatus) {
        session_status::write_status_cache(&self.dir, status);
    }

    /// Invalidates the status cache before an event that it does not know of.
    pub fn invalidate_status_cache(&self) -> io::Result<()> {
        session_status::invalidate_status_cache(&self.dir)
    }

    /// Adds the facts that only the output files have to a status.
    pub fn add_output(&self, status: &mut SessionStatus) {
        session_status::add_output(&self.dir, status);
    }

    /// Reads the cached screen of the terminal.
    pub fn read_screen(&self) -> io::Result<Vec<u8>> {
        fs::read(self.dir.join(SCREEN_FILE))
    }

    /// Caches the screen of the terminal. It follows from the output, so a failure costs only time.
    pub fn write_screen(&self, screen: &[u8]) {
        let _ = disk::write_atomically(&self.dir, SCREEN_FILE, screen, false);
    }

    /// The keeper's log about itself, and the earlier part of it.
    pub fn logs(&self) -> [PathBuf; 2] {
        [self.dir.join(LOG_FILE), self.dir.join(OLD_LOG_FILE)]
    }

    /// True if the directory has only files that its creator makes before the first event. A session whose journal
    /// was moved away has more.
    pub fn is_half_made(&self) -> bool {
        let is_known = |entry: io::Result<fs::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(|name| HALF_MADE.contains(&name)))
        };
        fs::read_dir(&self.dir).is_ok_and(|mut entries| entries.all(is_known))
            && matches!(self.probe_run_lock(), Ok(None | Some(LockState::Free)))
    }

    /// Time at which a file was last made or removed in the directory.
    pub fn changed_at(&self) -> Option<std::time::SystemTime> {
        fs::symlink_metadata(&self.dir).and_then(|dir| dir.modified()).ok()
    }

    /// The unfinished temporary files of atomic writes.
    pub fn temporary_files(&self) -> io::Result<Vec<PathBuf>> {
        disk::temporary_files(&self.dir)
    }

    /// Removes a session whose journal is empty. Its id is random, and its creator, the only process that knew it,
    /// is gone.
    pub fn remove_half_made(&self) -> Result<(), String> {
        let lease = self.claim().map_err(|error| format!("cannot claim it: {error}"))?;
        let Some(_lease) = lease else { return Err("another process holds it".to_owned()) };
        if !self.is_half_made() {
            return Err("there is something in it".to_owned());
        }
        // None of these is removed while a file is in it.
        gone(fs::remove_dir(self.dir.join(JOURNAL_DIR))).map_err(|error| error.to_string())?;
        for file in &HALF_MADE[1..] {
            gone(fs::remove_file(self.dir.join(file))).map_err(|error| error.to_string())?;
        }
        gone(fs::remove_dir(&self.dir)).map_err(|error| error.to_string())
    }
}

/// The output of the session in `dir`.
pub(crate) fn output_of(dir: &Path) -> OutputFiles {
    OutputFiles::at(dir.join(OUTPUT_DIR))
}

fn size_of(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(file) if file.is_dir() => size_of(&entry.path()),
        Ok(file) => file.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Another process that finishes the same removal is welcome.
pub(crate) fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
