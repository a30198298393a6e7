//! One session in the state directory, by its id: all that is kept of it.
//!
//! Promise: only this crate knows the names of the files. What others get is events, bytes, locks and answers.
//! Not here: what the files mean (see `history`), the right to write them (see `store`).
//! Start with [`Home::session`].

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::client::SOCKET_NAME;
use berth_api::message::{Answer, Asker, Request};
use berth_api::{Code, Connection, Problem, Status};
use berth_core::SessionId;
use berth_host::identity::{Identity, Pidfd};
use berth_host::lock::{FileId, LockFile, Probe, probe};
use berth_host::{disk, socket, tree};
use berth_journal::{Committed, Head};

use crate::history::{History, Stored};
use crate::home::Home;
use crate::keepers::{self, NoKeeper};
use crate::output::OutputFiles;
use crate::past::SessionPast;
use crate::store::{self, JOURNAL_DIR, Lease};
use crate::stranger::StrangeHolder;
use crate::view;

/// The lease file in a session's directory.
pub(crate) const LEASE_FILE: &str = "lease";
/// The file that every process of a run holds open and locked.
const RUN_LOCK: &str = "run";
/// The directory of the agent's output.
const OUTPUT_DIR: &str = "output";
/// The directory of what an agent without a terminal writes to its standard error.
const COMPLAINTS_DIR: &str = "stderr";
/// The cache of the terminal's screen.
const SCREEN_FILE: &str = "screen.ansi";
/// What a keeper that was told to (BERTH_LOG) writes about itself.
const LOG_FILE: &str = "keeper.log";
/// The part before that, when it grew too long.
const OLD_LOG_FILE: &str = "keeper.log.old";
/// The lock of the command that starts a helper.
const START_LOCK: &str = "start";

/// What there can be in the directory of a session whose maker died before its first event.
const HALF_MADE: [&str; 6] = [JOURNAL_DIR, LEASE_FILE, RUN_LOCK, SOCKET_NAME, LOG_FILE, OLD_LOG_FILE];

/// One session, or helper, in the state directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionFiles {
    dir: PathBuf,
    id: SessionId,
}

impl Home {
    /// One session here, whether or not it exists.
    pub fn session(&self, id: &SessionId) -> SessionFiles {
        SessionFiles { dir: self.session_dir(id), id: id.clone() }
    }
}

impl SessionFiles {
    /// Understands what [`SessionFiles::argument`] gave to another process, and opens the state directory.
    pub fn open(argument: &OsStr) -> Result<(Home, Self), Problem> {
        let dir = Path::new(argument);
        let (home, id) = Home::of(dir)?;
        Ok((home, Self { dir: dir.to_owned(), id }))
    }

    /// Understands such an argument without a look at the disk; `None` if it is not the place of a session.
    pub fn understand(argument: &OsStr) -> Option<Self> {
        let dir = Path::new(argument);
        let id = SessionId::parse(dir.file_name()?.to_str()?)?;
        Home::around(dir)?;
        Some(Self { dir: dir.to_owned(), id })
    }

    /// The place of the session, for the command line of a process.
    pub fn argument(&self) -> OsString {
        self.dir.clone().into()
    }

    /// The place of the session, for messages.
    pub fn display(&self) -> impl std::fmt::Display + '_ {
        self.dir.display()
    }

    /// True for the names of files that change when a state is written, a keeper begins to listen, or its lease ends.
    pub fn is_news(name: &str) -> bool {
        matches!(name, view::STATUS_FILE | SOCKET_NAME | LEASE_FILE)
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The state directory and shelf that it is on.
    pub fn home(&self) -> Home {
        Home::around(&self.dir).expect("the files of a session are on a shelf of a state directory")
    }

    /// The state directory, where others keep what is not of one session.
    pub fn root(&self) -> &Path {
        let root = self.dir.parent().and_then(Path::parent);
        root.expect("the files of a session are on a shelf of a state directory")
    }

    /// True if it is on the shelf of helpers.
    pub fn is_helper(&self) -> bool {
        self.home().is_helpers()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// True if there is something of this id, also if nothing was ever said in it.
    pub fn exists(&self) -> bool {
        self.dir.exists()
    }

    /// True if the session has a directory; an error if the disk does not tell.
    pub fn try_exists(&self) -> io::Result<bool> {
        self.dir.try_exists()
    }

    /// Whether something is in its journal, in whatever state. A session that may not be looked at is an error.
    pub fn has_events(&self) -> Result<bool, Problem> {
        store::exists(&self.dir)
    }

    /// Makes the directories of a helper, which stay for all its runs.
    pub fn make(&self) -> Result<(), Problem> {
        for dir in [self.dir.clone(), self.dir.join(JOURNAL_DIR)] {
            match fs::DirBuilder::new().mode(0o700).create(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    let what = format!("cannot make {}: {error}", dir.display());
                    return Err(Problem::new(Code::Refused, what));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Removes a session that could not be made: nothing was ever said in it, and only its maker knows its id.
    pub fn remove_unmade(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    /// Makes the names of a new session survive a power cut.
    pub fn sync_new(&self) -> io::Result<()> {
        let shelf = self.dir.parent().expect("a session is on a shelf");
        disk::sync_dirs(&[&self.dir, shelf])
    }

    /// How many bytes the session holds. What cannot be read counts nothing.
    pub fn size(&self) -> u64 {
        size_of(&self.dir)
    }

    /// The events from number `from` on, without a right to the journal.
    pub fn read(&self, from: u64) -> Result<Vec<Committed<Stored>>, Problem> {
        self.read_range(from, u64::MAX, usize::MAX)
    }

    /// The events up to and with `to`, and no more once there are `most_bytes`; later files are not read.
    pub fn read_range(
        &self,
        from: u64,
        to: u64,
        most_bytes: usize,
    ) -> Result<Vec<Committed<Stored>>, Problem> {
        store::read_range(&self.dir, &self.id, from, to, most_bytes)
    }

    /// The journal as far as it can be read, and what is wrong with the rest. For people only.
    pub fn salvage(&self) -> (Vec<Committed<Stored>>, Option<Problem>) {
        store::salvage(&self.dir, &self.id)
    }

    /// The heads of the journal at these events, as far as they are there, and at the last one that was read.
    pub fn heads(&self, at: &[u64]) -> Result<(Vec<Head>, Head), Problem> {
        store::heads(&self.dir, &self.id, at)
    }

    /// The journal files that have the events from `from` to `to`.
    pub fn segments_of(&self, from: u64, to: u64) -> Result<Vec<String>, Problem> {
        store::segments_of(&self.dir, &self.id, from, to)
    }

    /// The files of the journal, for a search in their bytes.
    pub fn journal_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.join(JOURNAL_DIR)).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "log"));
        paths.sort();
        paths
    }

    /// The session's past, from the snapshot and the events behind it.
    pub fn past(&self) -> Result<SessionPast, Problem> {
        SessionPast::read(&self.dir, &self.id)
    }

    /// The session's past, with the keys of all turns.
    pub fn past_with_keys(&self) -> Result<SessionPast, Problem> {
        SessionPast::read_with_keys(&self.dir, &self.id)
    }

    /// The agent's output.
    pub fn output(&self) -> OutputFiles {
        output_of(&self.dir)
    }

    /// What an agent without a terminal wrote to its standard error.
    pub fn complaints(&self) -> OutputFiles {
        OutputFiles::at(self.dir.join(COMPLAINTS_DIR))
    }

    /// True if the session is held: by its keeper, or by a command that clears up after one. A lease file that was
    /// removed or replaced says nothing about its keeper; the lock on the directory does.
    pub fn is_kept(&self) -> io::Result<bool> {
        view::is_kept(&self.dir)
    }

    /// True if the lease file itself is locked: it is not if it was removed or replaced while its keeper runs.
    pub fn has_locked_lease(&self) -> bool {
        matches!(probe(&self.dir.join(LEASE_FILE)), Ok(Some(Probe::Held)))
    }

    /// The text of the lease: the process that holds, or last held it.
    pub fn lease_holder(&self) -> String {
        store::holder(&self.dir)
    }

    /// A program that is not berth and holds the lease.
    pub fn stranger(&self) -> Option<StrangeHolder> {
        StrangeHolder::of(&self.dir)
    }

    /// Fails if such a program holds the lease: waiting or asking again does not help. `handle` is how people call
    /// the session.
    pub fn refuse_stranger(&self, handle: &str) -> Result<(), Problem> {
        self.stranger().map_or(Ok(()), |stranger| Err(stranger.problem(handle)))
    }

    /// The keeper of the session, held open (see [`keepers`]).
    pub fn keeper(&self) -> Result<(Identity, Pidfd), NoKeeper> {
        keepers::keeper_of(&self.dir)
    }

    /// A live process that was started as the keeper of this session, whether or not its lease says so.
    pub fn keeper_started_here(&self) -> io::Result<Option<(u32, Pidfd)>> {
        keepers::keeper_started_for(&self.dir)
    }

    /// True if both are of one id and not the same directory on disk: one of them is a copy.
    pub fn is_copy_of(&self, other: &Self) -> bool {
        let place = |files: &Self| FileId::at(&files.dir).ok().flatten();
        self.id == other.id && place(self) != place(other)
    }

    /// A connection to the keeper, if one accepts within `patience`.
    pub fn connect(&self, asker: impl Into<Asker>, patience: Duration) -> io::Result<Connection> {
        Connection::open_within(&self.dir, asker.into(), patience)
    }

    /// Connects, asks, and does not wait for more than that the keeper heard it, all within `patience`.
    pub fn tell_keeper(&self, place: String, request: Request, patience: Duration) -> io::Result<()> {
        Connection::ask_within(&self.dir, place, request, patience)
    }

    /// Connects and asks within `patience`; waits for the answer as long as `answer_patience`.
    pub fn ask_keeper(
        &self,
        place: String,
        request: Request,
        patience: Duration,
        answer_patience: Duration,
    ) -> io::Result<Answer> {
        Connection::ask_and_wait(&self.dir, place, request, patience, answer_patience)
    }

    /// A bare stream to the keeper.
    pub fn stream(&self) -> io::Result<UnixStream> {
        socket::connect(&self.dir, SOCKET_NAME)
    }

    /// The socket on which the keeper is asked. Only the holder of the lease may listen.
    pub fn listen(&self) -> io::Result<UnixListener> {
        socket::listen(&self.dir, SOCKET_NAME)
    }

    /// True if there is a socket, whether or not a keeper listens on it.
    pub fn has_socket(&self) -> bool {
        self.dir.join(SOCKET_NAME).exists()
    }

    /// Removes the socket of a keeper that leaves.
    pub fn remove_socket(&self) {
        let _ = fs::remove_file(self.dir.join(SOCKET_NAME));
    }

    /// The state of the lock that every process of the last run inherited.
    pub fn probe_run_lock(&self) -> io::Result<Option<Probe>> {
        probe(&self.dir.join(RUN_LOCK))
    }

    /// Opens that lock, and makes it if it is missing.
    pub fn run_lock(&self) -> io::Result<LockFile> {
        LockFile::open_or_create(&self.dir.join(RUN_LOCK))
    }

    /// The processes that have the run's lock open.
    pub fn run_lock_carriers(&self) -> io::Result<tree::Found> {
        tree::with_open_lock(&self.dir.join(RUN_LOCK))
    }

    /// The sessions whose run's lock a process holds, in any state directory. A session's directory that was moved out of
    /// its state directory tells only the id.
    pub fn with_run_lock_of(pid: u32) -> io::Result<Vec<(SessionId, Option<Self>)>> {
        let files = tree::held_files(pid, RUN_LOCK)?;
        let session = |file: &PathBuf| {
            let dir = file.parent()?;
            let id = SessionId::parse(dir.file_name()?.to_str()?)?;
            Some((id, Self::understand(dir.as_os_str())))
        };
        Ok(files.iter().filter_map(session).collect())
    }

    /// The lock of the command that starts a helper, once it is ours; `None` if it stays taken for `patience`.
    pub fn lock_start(&self, patience: Duration) -> Result<Option<LockFile>, Problem> {
        let path = self.dir.join(START_LOCK);
        let locked =
            LockFile::open_or_create(&path).and_then(|file| Ok(file.acquire(patience)?.then_some(file)));
        locked
            .map_err(|error| Problem::new(Code::Refused, format!("cannot lock {}: {error}", path.display())))
    }

    /// Claims the session. `None` if another process has it; an error of the kind `NotFound` if it was purged.
    pub fn claim(&self) -> io::Result<Option<Lease>> {
        Lease::claim(self)
    }

    /// Everything a list shows, from this history and the output files.
    pub fn describe(&self, history: &History, kept: bool) -> Status {
        view::describe(&self.dir, &self.id, history, kept)
    }

    /// The short cut for lists, whether or not it is up to date.
    pub fn read_short_cut(&self) -> Option<Status> {
        view::read_short_cut(&self.dir)
    }

    /// Writes the short cut for lists; only the holder of the lease may. It is derived, so a failure costs only time.
    pub fn write_short_cut(&self, status: &Status) {
        view::write_short_cut(&self.dir, status);
    }

    /// Takes the short cut's word away before something happens that it does not know of.
    pub fn doubt_short_cut(&self) -> io::Result<()> {
        view::doubt_short_cut(&self.dir)
    }

    /// Adds to a status what only the files of the output tell.
    pub fn add_output(&self, status: &mut Status) {
        view::add_output(&self.dir, status);
    }

    /// The cached screen of the terminal.
    pub fn read_screen(&self) -> io::Result<Vec<u8>> {
        fs::read(self.dir.join(SCREEN_FILE))
    }

    /// Caches the screen of the terminal. It follows from the output, so a failure costs only time.
    pub fn write_screen(&self, screen: &[u8]) {
        let _ = disk::write_atomically(&self.dir, SCREEN_FILE, screen, false);
    }

    /// The keeper's log about itself, and the part before that.
    pub fn logs(&self) -> [PathBuf; 2] {
        [self.dir.join(LOG_FILE), self.dir.join(OLD_LOG_FILE)]
    }

    /// True if the directory holds nothing but what a maker makes before the first event. A session whose journal was
    /// moved away has more.
    pub fn is_half_made(&self) -> bool {
        let is_known = |entry: io::Result<fs::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(|name| HALF_MADE.contains(&name)))
        };
        fs::read_dir(&self.dir).is_ok_and(|mut entries| entries.all(is_known))
            && matches!(self.probe_run_lock(), Ok(None | Some(Probe::Free)))
    }

    /// When a file was last made or removed in its directory.
    pub fn changed_at(&self) -> Option<std::time::SystemTime> {
        fs::symlink_metadata(&self.dir).and_then(|dir| dir.modified()).ok()
    }

    /// The unfinished temporary files of atomic writes.
    pub fn temporary_files(&self) -> io::Result<Vec<PathBuf>> {
        disk::temporary_files(&self.dir)
    }

    /// Removes a session that nothing was ever said in. Its id is random, and only its maker knew it, which is gone.
    pub fn remove_half_made(&self) -> Result<(), String> {
        let lease = self.claim().map_err(|error| format!("cannot claim it: {error}"))?;
        let Some(_lease) = lease else { return Err("another process holds it".to_owned()) };
        if !self.is_half_made() {
            return Err("there is something in it".to_owned());
        }
        // None of these goes away with something in it.
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
