//! What every command needs: the state directory, and a way to the keeper of a session.

use std::io;
use std::time::{Duration, Instant};

use berth_api::message::{Answer, Request};
use berth_api::{Code, Connection, Problem, Status};
use berth_core::SessionId;
use berth_keeper::{Home, recover, view};

use crate::tty;

/// How long a keeper that holds its lease may take to be reachable: it is starting, leaving, or
/// replacing its own program.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// How long a keeper may take to answer a simple question.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Ctx {
    pub(crate) home: Home,
}

impl Ctx {
    pub(crate) fn open() -> Result<Self, Problem> {
        Ok(Self { home: Home::locate()? })
    }

    /// The session a person means.
    pub(crate) fn find(&self, text: &str) -> Result<SessionId, Problem> {
        self.home.find(text)
    }

    /// A connection to the session's keeper; `None` when it has none.
    pub(crate) fn keeper_of(&self, id: &SessionId) -> Result<Option<Connection>, Problem> {
        let dir = self.home.session_dir(id);
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let error = match Connection::open(&dir, tty::place()) {
                Ok(connection) => return Ok(Some(connection)),
                Err(error) => error,
            };
            let absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
            if absent && !view::is_kept(&dir).unwrap_or(false) {
                return Ok(None);
            }
            if !absent || started.elapsed() > CONNECT_PATIENCE {
                return Err(Problem::new(
                    Code::Unreachable,
                    format!("the keeper of session {id} cannot be reached: {error}"),
                )
                .hint(format!("`berth why {id}` shows what is known about it")));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Asks the keeper one thing; `None` when there is no keeper to ask.
    pub(crate) fn ask(&self, id: &SessionId, request: Request) -> Result<Option<Answer>, Problem> {
        let Some(mut keeper) = self.keeper_of(id)? else { return Ok(None) };
        let _ = keeper.set_patience(Some(ANSWER_PATIENCE));
        match keeper.ask(request) {
            Ok(answer) => Ok(Some(answer)),
            // It ended while we asked: then there is no keeper, and the files tell the rest.
            Err(problem) if problem.code == Code::Unreachable && !self.is_kept(id) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    pub(crate) fn is_kept(&self, id: &SessionId) -> bool {
        view::is_kept(&self.home.session_dir(id)).unwrap_or(false)
    }

    /// What is known: from the keeper if there is one, else from the files. A run whose keeper
    /// died is brought to its end first.
    pub(crate) fn status(&self, id: &SessionId) -> Result<Status, Problem> {
        match self.ask(id, Request::Status) {
            Ok(Some(Answer::Done { status })) => return Ok(*status),
            Ok(_) => {}
            // A keeper that is stopped or stuck does not make its session unknown.
            Err(problem) if problem.code == Code::Unreachable => return view::status(&self.home, id),
            Err(problem) => return Err(problem),
        }
        recover::heal(&self.home, id)?;
        view::status(&self.home, id)
    }
}
