//! Context of every operation: the state directory, the identity of the caller, and connections to keepers.

use std::io;
use std::time::{Duration, Instant};

use berth_api::message::{KeeperAnswer, KeeperRequest, WindowSize};
use berth_api::{AccessScope, KeeperConnection, Problem, ProblemCode, SessionStatus};
use berth_core::{Actor, SessionId};
use berth_host::socket::CONNECT_TIMEOUT;
use berth_keeper::recover;
use berth_store::{StateDir, process_ref, session_status};

/// How long a keeper that holds its lease may take to be reachable: it is starting, leaving, or
/// replacing its own program.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// How long a keeper may take to answer a simple question.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a keeper may take to answer a read before the files answer it: connecting included.
const READ_PATIENCE: Duration = Duration::from_millis(800);

/// The answer to a read, see [`VerbContext::read`].
#[derive(Debug)]
pub enum ReadAnswer {
    /// The keeper's answer.
    Keeper(KeeperAnswer),
    /// The session has no keeper: the files have everything.
    NoKeeper,
    /// The keeper holds the session and does not answer: the files have what is recorded.
    Silent,
}

/// The state directory and the identity of the caller.
#[derive(Clone, Debug)]
pub struct VerbContext {
    /// The state directory.
    pub home: StateDir,
    /// Place of the caller, for people: a terminal, an SSH connection, a browser.
    pub place: String,
    /// Size of the caller's terminal, if there is one.
    pub size: Option<WindowSize>,
    /// Session that the caller is inside of: sessions that the caller starts become its children, and its grant limits
    /// the caller.
    pub parent: Option<SessionId>,
    /// Further sessions that the caller is inside of, by weaker evidence: the caller has only the rights that all of
    /// them allow.
    pub also: Vec<SessionId>,
    /// Reason why attribution of the caller failed, if it did: such a caller may read, and start sessions without a
    /// grant.
    pub unseen: Option<String>,
    /// The scope of the token that the caller showed; `admin` without one.
    pub scope: AccessScope,
}

impl VerbContext {
    /// Opens the state directory.
    pub fn open(place: String, size: Option<WindowSize>) -> Result<Self, Problem> {
        let home = StateDir::locate()?;
        tracing::info!(root = ?home.root(), "the state directory");
        Ok(Self { home, place, size, parent: None, also: vec![], unseen: None, scope: AccessScope::Admin })
    }

    /// The context for helpers, which have records like sessions: every operation on a session works on them.
    pub fn helpers(&self) -> Result<Self, Problem> {
        Ok(Self { home: self.home.helpers()?, ..self.clone() })
    }

    /// The caller as the author of a change that is made without a keeper.
    pub fn me(&self) -> Actor {
        let uid = Some(rustix::process::getuid().as_raw());
        Actor { pid: std::process::id(), uid, place: self.place.clone() }
    }

    /// A connection to the session's keeper; `None` when it has none.
    pub fn keeper_of(&self, id: &SessionId) -> Result<Option<KeeperConnection>, Problem> {
        self.connect_keeper(id, CONNECT_PATIENCE)
    }

    fn connect_keeper(
        &self,
        id: &SessionId,
        patience: Duration,
    ) -> Result<Option<KeeperConnection>, Problem> {
        let session = self.home.session(id);
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let error = match session.connect(self.asker(), patience.min(CONNECT_TIMEOUT)) {
                Ok(connection) => return Ok(Some(connection)),
                Err(error) => error,
            };
            let absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
            if absent && !self.has_keeper(id) {
                return Ok(None);
            }
            if !absent || started.elapsed() > patience {
                return Err(self.unreachable(id, &error));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    pub(crate) fn unreachable(&self, id: &SessionId, error: &io::Error) -> Problem {
        let is_helper = self.home.is_helpers();
        let (kind, show) = if is_helper { ("helper", "helper show") } else { ("session", "why") };
        Problem::unreachable(format!("the keeper of {kind} {id} cannot be reached: {error}"))
            .hint(format!("`berth {show} {id}` shows what is known about it"))
    }

    /// Sends the keeper one request; `None` if the session has no keeper.
    pub fn ask(&self, id: &SessionId, request: KeeperRequest) -> Result<Option<KeeperAnswer>, Problem> {
        let Some(mut keeper) = self.keeper_of(id)? else { return Ok(None) };
        self.answer_of(&mut keeper, id, request, ANSWER_PATIENCE)
    }

    /// Asks the keeper for something that the files contain as well. A keeper that is suspended or stuck delays the caller
    /// for less than a second: every read goes through here.
    pub fn read(&self, id: &SessionId, request: KeeperRequest) -> Result<ReadAnswer, Problem> {
        self.read_on(id, request).map(|(answer, _)| answer)
    }

    /// Asks the keeper for something that the files contain as well. A connection that the keeper answered on comes along,
    /// for more questions.
    pub(crate) fn read_on(
        &self,
        id: &SessionId,
        request: KeeperRequest,
    ) -> Result<(ReadAnswer, Option<KeeperConnection>), Problem> {
        let until = Instant::now() + READ_PATIENCE;
        let answer = self.connect_keeper(id, READ_PATIENCE).and_then(|keeper| {
            let Some(mut keeper) = keeper else { return Ok(None) };
            // A timeout of zero would mean "no timeout".
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let answer = self.answer_of(&mut keeper, id, request, left)?;
            Ok(answer.map(|answer| (answer, keeper)))
        });
        match answer {
            Ok(Some((answer, keeper))) => Ok((ReadAnswer::Keeper(answer), Some(keeper))),
            Ok(None) => Ok((ReadAnswer::NoKeeper, None)),
            Err(problem) if problem.code == ProblemCode::Unreachable => Ok((ReadAnswer::Silent, None)),
            Err(problem) => Err(problem),
        }
    }

    fn answer_of(
        &self,
        keeper: &mut KeeperConnection,
        id: &SessionId,
        request: KeeperRequest,
        patience: Duration,
    ) -> Result<Option<KeeperAnswer>, Problem> {
        let until = Instant::now() + patience;
        let _ = keeper.set_timeout(Some(patience));
        let answer = keeper.ask(request);
        let _ = keeper.set_timeout(None);
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(problem) if problem.code == ProblemCode::Unreachable => {
                // A keeper that disconnects may take a moment to exit. After a timeout the keeper is either gone or
                // silent.
                let broke_off = Instant::now() < until;
                let is_gone = if broke_off { self.is_gone(id) } else { !self.has_keeper(id) };
                if is_gone { Ok(None) } else { Err(problem) }
            }
            Err(problem) => Err(problem),
        }
    }

    /// True if a keeper that disconnected is gone for good. The kernel closes the files of a dead process one after the
    /// other, so for an instant its lease is held and its socket even accepts.
    pub fn is_gone(&self, id: &SessionId) -> bool {
        let started = Instant::now();
        while let Ok(Some(mut keeper)) = self.keeper_of(id) {
            let left = CONNECT_PATIENCE.saturating_sub(started.elapsed());
            let _ = keeper.set_timeout(Some(left.max(Duration::from_millis(1))));
            if left.is_zero() || keeper.ask(KeeperRequest::Status).is_ok() {
                return false;
            }
        }
        !self.has_keeper(id)
    }

    /// True if a process holds the session's lease.
    pub fn is_kept(&self, id: &SessionId) -> bool {
        self.home.session(id).is_kept().unwrap_or(false)
    }

    /// True if the process that holds the session is its keeper, and neither a command that clears up after a keeper
    /// nor another program: neither of those will ever listen.
    pub(crate) fn has_keeper(&self, id: &SessionId) -> bool {
        let lost = || {
            session_status::history(&self.home, id)
                .is_ok_and(|past| process_ref::lost_its_keeper(&past.session))
        };
        let is_strange = || self.home.session(id).stranger().is_some();
        self.is_kept(id) && !lost() && !is_strange()
    }

    /// The session's status: from its keeper if there is one, else from the files. A run whose keeper died is brought
    /// to its end first.
    pub fn status(&self, id: &SessionId) -> Result<SessionStatus, Problem> {
        match self.known(id)? {
            (status, None) => Ok(status),
            (_, Some(trouble)) => Err(trouble),
        }
    }

    /// The session's status, also if its lost run could not be brought to its end: then the reason is returned with it.
    pub fn known(&self, id: &SessionId) -> Result<(SessionStatus, Option<Problem>), Problem> {
        match self.read(id, KeeperRequest::Status)? {
            ReadAnswer::Keeper(KeeperAnswer::Done { status }) => Ok((*status, None)),
            ReadAnswer::Keeper(_) | ReadAnswer::NoKeeper => self.healed(id),
            ReadAnswer::Silent => Ok((self.status_of_silent(id)?, None)),
        }
    }

    /// The status from the files, for a session whose keeper does not answer.
    pub(crate) fn status_of_silent(&self, id: &SessionId) -> Result<SessionStatus, Problem> {
        let status = session_status::status(&self.home, id)?;
        // The run may have ended meanwhile, and its keeper with it.
        let keeper_silent = status.keeper_pid.is_some();
        Ok(SessionStatus { keeper_silent, ..status })
    }

    /// The status from the files, after a run without a keeper is brought to its end. If that fails, the status before
    /// it and the reason.
    pub fn healed(&self, id: &SessionId) -> Result<(SessionStatus, Option<Problem>), Problem> {
        let Err(trouble) = recover::recover_session(&self.home, id) else {
            return Ok((session_status::status(&self.home, id)?, None));
        };
        match session_status::status(&self.home, id) {
            Ok(status) if status.is_unrecorded_loss() => Ok((status, Some(trouble))),
            // The state file may be newer than a damaged journal, and is not to be trusted then.
            Ok(_) | Err(_) => Err(trouble),
        }
    }
}
