//! Connections to the primary, and the rules by which an answer counts.
//!
//! Promise: a statement that was sent runs to its end, also when its caller is gone: there is no cancel. After a time-out
//! the connection is dropped. An answer counts when the transaction is committed and no notice came with it.
//! Start with [`Lane::run`].

use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::{CONNECT_TIMEOUT, FleetUrl};
use super::values::SqlValue;
use super::{describe, failed, has_class};
use crate::{EngineError, FORMAT};

/// Oldest major version of PostgreSQL that has all that the record needs.
const OLDEST_SERVER: u32 = 14;
/// How long other servers may take to answer once a primary has: one of them may be a newer primary.
const OTHERS_GRACE: Duration = Duration::from_millis(500);
/// Notices that are kept for the message of an error.
const MAX_NOTICES: usize = 8;
/// Answers if the server is a primary, and its timeline. Every role may ask.
const SERVER_STATE: &str = "SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN 0 \
    ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END";

/// One call of the record.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) call: &'static str,
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<SqlValue>,
    /// True if it changes the record, so that a lost answer leaves its outcome unknown.
    pub(crate) is_change: bool,
}

/// Messages that the server sends on its own.
#[derive(Default)]
struct ServerMessages {
    notices: Vec<String>,
    end: Option<String>,
}

/// An open connection. Dropped, it is closed at once, also in the middle of a statement.
pub(crate) struct OpenConnection {
    pub(crate) client: Client,
    pub(crate) timeline: u32,
    messages: Arc<Mutex<ServerMessages>>,
    driver: AbortHandle,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl OpenConnection {
    /// Connects to the primary with the highest timeline of those that answer, if it is not below `known_timeline`.
    pub(crate) async fn open(
        url: &FleetUrl,
        known_timeline: u32,
        posts: &watch::Sender<u64>,
    ) -> Result<Self, EngineError> {
        let mut attempts = JoinSet::new();
        for server in &url.servers {
            attempts.spawn(attempt(server.clone(), url.tls.clone(), posts.clone()));
        }
        let (mut best, mut causes) = (None::<Self>, Vec::new());
        loop {
            // A server that does not answer holds up only a caller that has no other one.
            let limit = if best.is_some() { OTHERS_GRACE } else { CONNECT_TIMEOUT * 2 };
            let Ok(Some(attempt)) = tokio::time::timeout(limit, attempts.join_next()).await else { break };
            match attempt.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(open) if open.timeline < known_timeline => {
                    causes.push(format!("a server is on the old timeline {}", open.timeline));
                }
                Ok(open) if best.as_ref().is_none_or(|best| best.timeline < open.timeline) => {
                    best = Some(open)
                }
                Ok(_) => {}
                Err(cause) => causes.push(cause),
            }
        }
        if causes.is_empty() {
            causes.push("no answer in time".to_owned());
        }
        best.ok_or_else(|| EngineError::Unreachable { cause: causes.join("; ") })
    }

    /// Fails if this version cannot use the record.
    pub(crate) async fn check_format(&self) -> Result<(), EngineError> {
        let asked = self.client.query_one("SELECT format, oldest_reader FROM berth.about()", &[]);
        let row = match tokio::time::timeout(CONNECT_TIMEOUT, asked).await {
            Err(_) => return Err(EngineError::Unreachable { cause: "no answer in time".to_owned() }),
            // No such schema, function or right. A server that shuts down says other things.
            Ok(Err(error)) if has_class(&error, &["3F", "42"]) => {
                return Err(EngineError::NoFleet { cause: describe(&error) });
            }
            Ok(Err(error)) => return Err(EngineError::Unreachable { cause: describe(&error) }),
            Ok(Ok(row)) => row,
        };
        let [format, oldest_reader] = ["format", "oldest_reader"].map(|column| row.get::<_, i32>(column));
        check_format(format.unsigned_abs(), oldest_reader.unsigned_abs())
    }

    fn messages<A>(&self, read: impl FnOnce(&mut ServerMessages) -> A) -> A {
        read(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs one statement. An error means that the connection must not be used again, if it says so.
    async fn run(&self, statement: &Statement, limit: Duration) -> Result<Vec<Row>, StatementFailure> {
        let call = statement.call;
        let lost = |cause: String| StatementFailure {
            error: if statement.is_change {
                EngineError::OutcomeUnknown { call, cause }
            } else {
                EngineError::Unreachable { cause }
            },
            is_usable: false,
        };
        self.messages(|messages| messages.notices.clear());
        let values: Vec<_> = statement.values.iter().map(SqlValue::with_type).collect();
        let answer = tokio::time::timeout(limit, self.client.query_typed(statement.sql, &values)).await;
        let notices = self.messages(|messages| std::mem::take(&mut messages.notices));
        match answer {
            Err(_) => Err(lost(format!("no answer within {} ms", limit.as_millis()))),
            // A cancelled wait for the standby looks like a success with a warning: only a clean answer counts.
            Ok(Ok(_)) if statement.is_change && !notices.is_empty() => Err(lost(notices.join("; "))),
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) if notices.is_empty() && is_refusal(&error) => {
                Err(StatementFailure { error: failed(call, &error), is_usable: true })
            }
            Ok(Err(error)) => {
                let end = self.messages(|messages| messages.end.take());
                let causes = [vec![describe(&error)], end.into_iter().collect(), notices].concat();
                Err(lost(causes.join("; ")))
            }
        }
    }
}

struct StatementFailure {
    error: EngineError,
    is_usable: bool,
}

/// True for an error by which the server says that it changed nothing. Other errors say nothing about a commit: the
/// connection ended, or an operator ended it.
fn is_refusal(error: &Error) -> bool {
    let refusals = ["22", "23", "25", "40", "42", "53", "54", "P0"];
    let is_error = |error: &DbError| {
        error.parsed_severity() == Some(Severity::Error)
            && *error.code() != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
    };
    error.as_db_error().is_some_and(is_error) && has_class(error, &refusals)
}

fn check_format(format: u32, oldest_reader: u32) -> Result<(), EngineError> {
    if oldest_reader > FORMAT {
        return Err(EngineError::TooNew { format, oldest_reader, known: FORMAT });
    }
    if format < FORMAT { Err(EngineError::TooOld { format, known: FORMAT }) } else { Ok(()) }
}

/// Connects to one server, and asks if it is a primary.
async fn attempt(
    server: Config,
    tls: Option<MakeRustlsConnect>,
    posts: watch::Sender<u64>,
) -> Result<OpenConnection, String> {
    let opened = async {
        let mut open = match tls {
            Some(tls) => {
                let (client, connection) = server.connect(tls).await.map_err(|error| describe(&error))?;
                driven(client, connection, posts)?
            }
            None => {
                let (client, connection) = server.connect(NoTls).await.map_err(|error| describe(&error))?;
                driven(client, connection, posts)?
            }
        };
        let row = open.client.query_one(SERVER_STATE, &[]).await.map_err(|error| describe(&error))?;
        if row.get(0) {
            return Err("a server is a standby".to_owned());
        }
        open.timeline = row.get::<_, i32>(1).unsigned_abs();
        Ok(open)
    };
    let attempt = tokio::time::timeout(CONNECT_TIMEOUT, opened).await;
    attempt.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

/// Keeps reading from a connection, so that notices are there before the answer that they belong to.
fn driven<S, T>(
    client: Client,
    mut connection: Connection<S, T>,
    posts: watch::Sender<u64>,
) -> Result<OpenConnection, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let version = connection.parameter("server_version").unwrap_or_default().to_owned();
    let major =
        version.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|text| text.parse().ok());
    if major.is_none_or(|major: u32| major < OLDEST_SERVER) {
        return Err(format!("PostgreSQL {version} is too old: {OLDEST_SERVER} or newer is needed"));
    }
    let messages = Arc::new(Mutex::new(ServerMessages::default()));
    let heard = Arc::clone(&messages);
    let driver = tokio::spawn(async move {
        loop {
            let message = poll_fn(|context| connection.poll_message(context)).await;
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            match message {
                Some(Ok(AsyncMessage::Notice(notice))) if heard.notices.len() < MAX_NOTICES => {
                    heard.notices.push(notice.to_string());
                }
                Some(Ok(AsyncMessage::Notification(_))) => posts.send_modify(|count| *count += 1),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    heard.end = Some(describe(&error));
                    break;
                }
                None => break,
            }
        }
        // Posts may have been missed: a reader looks again.
        posts.send_modify(|count| *count += 1);
    });
    Ok(OpenConnection { client, timeline: 0, messages, driver: driver.abort_handle() })
}

/// One connection that is opened again when it is lost, and runs one call at a time.
pub(crate) struct Lane {
    pub(crate) url: FleetUrl,
    /// Limit of one statement.
    pub(crate) limit: Duration,
    /// Highest timeline of a server that any lane has seen.
    pub(crate) timeline: Arc<AtomicU32>,
    /// Statement that a new connection begins with.
    pub(crate) first: Option<String>,
    pub(crate) posts: watch::Sender<u64>,
    pub(crate) slot: Arc<tokio::sync::Mutex<Option<OpenConnection>>>,
}

impl Lane {
    /// Runs statements one after the other on one connection. Returns their rows and the timeline of the server.
    ///
    /// They run in a task of their own: a caller that is dropped cancels nothing that was sent. One that is dropped before
    /// its turn has sent nothing.
    pub(crate) async fn run(
        self: &Arc<Self>,
        statements: Vec<Statement>,
    ) -> Result<(Vec<Vec<Row>>, u32), EngineError> {
        let call = statements.first().map_or("", |statement| statement.call);
        let slot = Arc::clone(&self.slot).lock_owned().await;
        let lane = Arc::clone(self);
        let ran = tokio::spawn(async move { lane.run_here(slot, statements).await }).await;
        ran.unwrap_or_else(|error| Err(EngineError::OutcomeUnknown { call, cause: error.to_string() }))
    }

    async fn run_here(
        &self,
        mut slot: OwnedMutexGuard<Option<OpenConnection>>,
        statements: Vec<Statement>,
    ) -> Result<(Vec<Vec<Row>>, u32), EngineError> {
        let known = self.timeline.load(Ordering::SeqCst);
        let open = match slot.take() {
            Some(open) if !open.client.is_closed() && open.timeline >= known => open,
            Some(_) | None => self.open(known).await?,
        };
        let mut answers = Vec::new();
        for statement in statements {
            match open.run(&statement, self.limit).await {
                Ok(rows) => answers.push(rows),
                Err(failure) => {
                    *slot = failure.is_usable.then_some(open);
                    if self.first.is_some() && slot.is_none() {
                        // Until the next call no connection hears of posts: a reader looks again.
                        self.posts.send_modify(|count| *count += 1);
                    }
                    return Err(failure.error);
                }
            }
        }
        let timeline = open.timeline;
        *slot = Some(open);
        Ok((answers, timeline))
    }

    async fn open(&self, known: u32) -> Result<OpenConnection, EngineError> {
        let open = OpenConnection::open(&self.url, known, &self.posts).await?;
        open.check_format().await?;
        if let Some(first) = &self.first {
            let cause = |error| EngineError::Unreachable { cause: describe(&error) };
            open.client.batch_execute(first).await.map_err(cause)?;
            // A post of the time without a connection told nobody.
            self.posts.send_modify(|count| *count += 1);
        }
        self.timeline.fetch_max(open.timeline, Ordering::SeqCst);
        Ok(open)
    }
}
