//! What every verb needs: the state directory, who asks, and a way to the keeper of a session.

use std::io;
use std::time::{Duration, Instant};

use berth_api::message::{Answer, Request, Size};
use berth_api::{Code, Connection, Problem, Scope, Status};
use berth_core::{Actor, SessionId};
use berth_host::socket::QUEUE_PATIENCE;
use berth_keeper::recover;
use berth_store::{Home, process, view};

/// How long a keeper that holds its lease may take to be reachable: it is starting, leaving, or
/// replacing its own program.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// How long a keeper may take to answer a simple question.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a keeper may take to answer a read before the files answer it: connecting included.
const READ_PATIENCE: Duration = Duration::from_millis(800);

/// The answer to a read, see [`Ctx::read`].
#[derive(Debug)]
pub enum ReadAnswer {
    /// The keeper's answer.
    Keeper(Answer),
    /// The session has no keeper: the files have everything.
    NoKeeper,
    /// The keeper holds the session and does not answer: the files have what is recorded.
    Silent,
}

/// Where the sessions are, and who asks.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// The state directory.
    pub home: Home,
    /// Where whoever asks is, for people: a terminal, an SSH connection, a browser.
    pub place: String,
    /// The size of their terminal, if they have one.
    pub size: Option<Size>,
    /// The session they are inside of: what they start is its child, and what they may do is its grant.
    pub parent: Option<SessionId>,
    /// Others that they are inside of as well, by weaker evidence: they may do what all of them allow.
    pub also: Vec<SessionId>,
    /// Why nobody can tell who they are, if so: then they may look, and start what has no grant.
    pub unseen: Option<String>,
    /// The scope of the token that the caller showed; `admin` without one.
    pub scope: Scope,
}

impl Ctx {
    /// Opens the state directory.
    pub fn open(place: String, size: Option<Size>) -> Result<Self, Problem> {
        let home = Home::locate()?;
        tracing::info!(root = ?home.root(), "the state directory");
        Ok(Self { home, place, size, parent: None, also: vec![], unseen: None, scope: Scope::Admin })
    }

    /// The same for helpers: everything that can be asked of a session can be asked of them.
    pub fn helpers(&self) -> Result<Self, Problem> {
        Ok(Self { home: self.home.helpers()?, ..self.clone() })
    }

    /// Who changes something without a keeper to be known to.
    pub fn me(&self) -> Actor {
        let uid = Some(rustix::process::getuid().as_raw());
        Actor { pid: std::process::id(), uid, place: self.place.clone() }
    }

    /// A connection to the session's keeper; `None` when it has none.
    pub fn keeper_of(&self, id: &SessionId) -> Result<Option<Connection>, Problem> {
        self.keeper_within(id, CONNECT_PATIENCE)
    }

    fn keeper_within(&self, id: &SessionId, patience: Duration) -> Result<Option<Connection>, Problem> {
        let session = self.home.session(id);
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let error = match session.connect(self.asker(), patience.min(QUEUE_PATIENCE)) {
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
        Problem::new(Code::Unreachable, format!("the keeper of {kind} {id} cannot be reached: {error}"))
            .hint(format!("`berth {show} {id}` shows what is known about it"))
    }

    /// Asks the keeper one thing; `None` when there is no keeper to ask.
    pub fn ask(&self, id: &SessionId, request: Request) -> Result<Option<Answer>, Problem> {
        let Some(mut keeper) = self.keeper_of(id)? else { return Ok(None) };
        self.answer_of(&mut keeper, id, request, ANSWER_PATIENCE)
    }

    /// Asks the keeper for something that the files contain as well. A keeper that is suspended or stuck delays the caller
    /// for less than a second: every read goes through here.
    pub fn read(&self, id: &SessionId, request: Request) -> Result<ReadAnswer, Problem> {
        self.read_on(id, request).map(|(answer, _)| answer)
    }

    /// Asks the keeper for something that the files contain as well. A connection that the keeper answered on comes along,
    /// for more questions.
    pub(crate) fn read_on(
        &self,
        id: &SessionId,
        request: Request,
    ) -> Result<(ReadAnswer, Option<Connection>), Problem> {
        let until = Instant::now() + READ_PATIENCE;
        let answer = self.keeper_within(id, READ_PATIENCE).and_then(|keeper| {
            let Some(mut keeper) = keeper else { return Ok(None) };
            // A timeout of zero would mean no timeout.
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let answer = self.answer_of(&mut keeper, id, request, left)?;
            Ok(answer.map(|answer| (answer, keeper)))
        });
        match answer {
            Ok(Some((answer, keeper))) => Ok((ReadAnswer::Keeper(answer), Some(keeper))),
            Ok(None) => Ok((ReadAnswer::NoKeeper, None)),
            Err(problem) if problem.code == Code::Unreachable => Ok((ReadAnswer::Silent, None)),
            Err(problem) => Err(problem),
        }
    }

    fn answer_of(
        &self,
        keeper: &mut Connection,
        id: &SessionId,
        request: Request,
        patience: Duration,
    ) -> Result<Option<Answer>, Problem> {
        let until = Instant::now() + patience;
        let _ = keeper.set_patience(Some(patience));
        let answer = keeper.ask(request);
        let _ = keeper.set_patience(None);
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(problem) if problem.code == Code::Unreachable => {
                // A keeper that breaks off may take a moment to be gone. One that let the time pass is either
                // gone by now, or silent.
                let broke_off = Instant::now() < until;
                let is_gone = if broke_off { self.is_gone(id) } else { !self.has_keeper(id) };
                if is_gone { Ok(None) } else { Err(problem) }
            }
            Err(problem) => Err(problem),
        }
    }

    /// Whether a keeper that broke off is gone for good. The kernel closes what a dead process had
    /// open one after the other, so for an instant its lease is held and its socket even accepts.
    pub fn is_gone(&self, id: &SessionId) -> bool {
        let started = Instant::now();
        while let Ok(Some(mut keeper)) = self.keeper_of(id) {
            let left = CONNECT_PATIENCE.saturating_sub(started.elapsed());
            let _ = keeper.set_patience(Some(left.max(Duration::from_millis(1))));
            if left.is_zero() || keeper.ask(Request::Status).is_ok() {
                return false;
            }
        }
        !self.has_keeper(id)
    }

    /// Whether somebody holds its lease.
    pub fn is_kept(&self, id: &SessionId) -> bool {
        self.home.session(id).is_kept().unwrap_or(false)
    }

    /// Whether the process that holds the session is its keeper, and neither a command that clears up after one nor
    /// another program: neither of those will ever listen.
    pub(crate) fn has_keeper(&self, id: &SessionId) -> bool {
        let lost = || view::history(&self.home, id).is_ok_and(|past| process::lost_its_keeper(&past.session));
        let is_strange = || self.home.session(id).stranger().is_some();
        self.is_kept(id) && !lost() && !is_strange()
    }

    /// What is known: from the keeper if there is one, else from the files. A run whose keeper
    /// died is brought to its end first.
    pub fn status(&self, id: &SessionId) -> Result<Status, Problem> {
        match self.known(id)? {
            (status, None) => Ok(status),
            (_, Some(trouble)) => Err(trouble),
        }
    }

    /// The same for who wants to see a session as well that could not be brought to its end: then
    /// what is in the way comes along.
    pub fn known(&self, id: &SessionId) -> Result<(Status, Option<Problem>), Problem> {
        match self.read(id, Request::Status)? {
            ReadAnswer::Keeper(Answer::Done { status }) => Ok((*status, None)),
            ReadAnswer::Keeper(_) | ReadAnswer::NoKeeper => self.healed(id),
            ReadAnswer::Silent => Ok((self.of_silent(id)?, None)),
        }
    }

    /// What the files tell of a session whose keeper does not answer.
    pub(crate) fn of_silent(&self, id: &SessionId) -> Result<Status, Problem> {
        let status = view::status(&self.home, id)?;
        // The run may have ended meanwhile, and its keeper with it.
        let keeper_silent = status.keeper_pid.is_some();
        Ok(Status { keeper_silent, ..status })
    }

    /// What the files tell once a run without a keeper is brought to its end. If that fails, the loss
    /// as it is, and what is in the way.
    pub fn healed(&self, id: &SessionId) -> Result<(Status, Option<Problem>), Problem> {
        let Err(trouble) = recover::heal(&self.home, id) else {
            return Ok((view::status(&self.home, id)?, None));
        };
        match view::status(&self.home, id) {
            Ok(status) if status.is_unrecorded_loss() => Ok((status, Some(trouble))),
            // A short cut may know more than a damaged journal, and is not to be trusted then.
            Ok(_) | Err(_) => Err(trouble),
        }
    }
}
