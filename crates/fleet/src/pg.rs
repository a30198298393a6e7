//! The record on PostgreSQL.
//!
//! Two connections whatever the number of sessions: one for calls that change sessions, in order, and one for heartbeats,
//! reads, and hearing of posts. Both go to the primary.
//! Promise: `Ok` from a call that changes something means committed, and replicated where the server replicates
//! synchronously. See docs/design/fleet-record.md for the rules that this takes.
//! Start with [`PgEngine::connect`]; the module `connection` has the rules.

mod admin;
mod connection;
mod url;
mod values;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use berth_core::{SafeName, SessionId};
use tokio::sync::{Mutex, watch};
use tokio_postgres::Row;

pub use admin::{FleetAdmin, MigrationReport};
pub use url::{BadFleetUrl, FleetUrl};

use crate::engine::{
    AppendAnswer, AppendRequest, ChangeCursor, ChangePage, ClaimAnswer, ClaimRequest, ConversationRef,
    CreateAnswer, CreateRequest, FleetEngine, HeartbeatAnswer, HeartbeatRequest, HostLossPolicy, HostRecord,
    ListPosition, ListRow, LostSession, OwnedSession, PostAnswer, PostRequest, PublishAnswer, RecordedEvent,
    ReleaseRequest, SessionIdentity, SessionRecord, SharedIdentity, WaitingPost, WithdrawAnswer,
};
use crate::{EngineError, EventNumber, HeartbeatCount, HostId, Incarnation, PostNumber, RecordText, Term};
use connection::{Lane, Statement};
use values::{AnswerRow, SqlValue, long, number, odd, small};

/// Limit of one call, unless another one is given.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The record, as the host of one login role reaches it.
#[derive(Clone)]
pub struct PgEngine {
    host: HostId,
    changes: Arc<Lane>,
    reads: Arc<Lane>,
}

impl PgEngine {
    /// Connects to the primary. Fails if the record's format does not fit, or if the login role is not a host's.
    pub async fn connect(url: FleetUrl, call_timeout: Duration) -> Result<Self, EngineError> {
        let timeline = Arc::new(AtomicU32::new(0));
        let posts = watch::Sender::new(0);
        let lane = |first: Option<String>| Lane {
            url: url.clone(),
            limit: call_timeout,
            timeline: Arc::clone(&timeline),
            first,
            posts: posts.clone(),
            slot: Arc::new(Mutex::new(None)),
        };
        let changes = Arc::new(lane(None));
        let (call, sql) = ("own_host", "SELECT berth.own_host()");
        let statement = Statement { call, sql, values: Vec::new(), is_change: false };
        let row = one(&changes.run(vec![statement]).await?.0, call)?;
        let not_a_host = || EngineError::NoFleet { cause: "no host of the fleet has this role".to_owned() };
        let host = HostId(row.0.get::<_, Option<i32>>(0).ok_or_else(not_a_host)?.unsigned_abs());
        let reads = Arc::new(lane(Some(format!("LISTEN berth_host_{host}"))));
        Ok(Self { host, changes, reads })
    }

    /// The host of the login role.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Changes whenever the inbox of this host may have a new post. Reads keep the connection that hears of them.
    pub fn posts(&self) -> watch::Receiver<u64> {
        self.reads.posts.subscribe()
    }

    /// Runs a call that changes the record and answers with one row.
    async fn change(
        &self,
        call: &'static str,
        host: HostId,
        sql: &'static str,
        values: Vec<SqlValue>,
    ) -> Result<AnswerRow, EngineError> {
        let rows = self.changes.run(vec![change(call, sql, values)]).await?.0;
        one(&rows, call)?.unless_rejected(call, host)
    }

    async fn read(
        &self,
        call: &'static str,
        sql: &'static str,
        values: Vec<SqlValue>,
    ) -> Result<(Vec<AnswerRow>, u32), EngineError> {
        let statement = Statement { call, sql, values, is_change: false };
        let (mut rows, timeline) = self.reads.run(vec![statement]).await?;
        Ok((rows.pop().unwrap_or_default().into_iter().map(AnswerRow).collect(), timeline))
    }
}

fn change(call: &'static str, sql: &'static str, values: Vec<SqlValue>) -> Statement {
    Statement { call, sql, values, is_change: true }
}

fn one(rows: &[Vec<Row>], call: &'static str) -> Result<AnswerRow, EngineError> {
    let row = rows.first().and_then(|rows| rows.first()).cloned();
    row.map(AnswerRow).ok_or_else(|| odd(call))
}

/// Message of a failure, with the server's code where there is one.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        let detail = error.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
        return format!("{}: {}{detail} [{}]", error.severity(), error.message(), error.code().code());
    }
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

/// A failure by which the server says that it changed nothing.
fn failed(call: &'static str, error: &tokio_postgres::Error) -> EngineError {
    // Conflicts of transactions, no room or connections, an object in use, an operator's order.
    let is_temporary = has_class(error, &["40", "53", "55", "57"]);
    EngineError::Failed { call, cause: describe(error), is_temporary }
}

/// True for an error of the server whose code is of one of these classes.
fn has_class(error: &tokio_postgres::Error, classes: &[&str]) -> bool {
    let code = error.as_db_error().map(|error| error.code().code());
    code.is_some_and(|code| classes.iter().any(|class| code.starts_with(class)))
}

fn barrier(host: HostId) -> Statement {
    change("barrier", "SELECT * FROM berth.barrier($1)", vec![host.into()])
}

fn heartbeat(request: HeartbeatRequest) -> Statement {
    let HeartbeatRequest { host, incarnation, used_slots } = request;
    let values = vec![host.into(), number(incarnation.0), SqlValue::Int(small(used_slots))];
    change("heartbeat", "SELECT * FROM berth.heartbeat($1, $2, $3)", values)
}

const SESSION: &str = "SELECT * FROM berth.session_of($1)";

impl FleetEngine for PgEngine {
    async fn create(&self, request: CreateRequest) -> Result<CreateAnswer, EngineError> {
        let policy = match request.on_host_loss {
            HostLossPolicy::Wait => "wait",
            HostLossPolicy::TakeOver => "take_over",
        };
        let conversation = request.conversation.as_ref();
        let values = vec![
            (&request.session).into(),
            request.host.into(),
            SqlValue::Bool(request.owned),
            SqlValue::Text(request.name.map(|name| name.as_str().to_owned())),
            request.key.as_ref().into(),
            conversation.map(|conversation| &conversation.kind).into(),
            conversation.map(|conversation| &conversation.native_id).into(),
            SqlValue::TextList(request.wants.iter().map(|label| label.as_str().to_owned()).collect()),
            SqlValue::Text(Some(policy.to_owned())),
            SqlValue::Int(small(request.event_format)),
            request.events.as_slice().into(),
            request.live.into(),
        ];
        let sql = "SELECT * FROM berth.create_session($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let row = self.change("create", request.host, sql, values).await?;
        match row.answer()?.as_str() {
            "created" => Ok(CreateAnswer::Created { term: row.term("current_term")?, last: row.last()? }),
            "exists" => {
                let same = match row.get::<String>("same")?.as_str() {
                    "id" => SharedIdentity::Id,
                    "key" => SharedIdentity::Key,
                    "name" => SharedIdentity::Name,
                    "conversation" => SharedIdentity::Conversation,
                    _ => return Err(odd("create")),
                };
                Ok(CreateAnswer::Exists { session: row.session()?, same })
            }
            _ => Err(odd("create")),
        }
    }

    async fn append(&self, request: AppendRequest) -> Result<AppendAnswer, EngineError> {
        let keys = request.took.iter().map(|taken| taken.key.as_str().to_owned()).collect();
        let turns = request.took.iter().map(|taken| long(taken.accepted_by.0)).collect();
        let values = vec![
            (&request.session).into(),
            request.host.into(),
            request.term.into(),
            number(request.after.0),
            request.events.as_slice().into(),
            request.live.into(),
            SqlValue::TextList(keys),
            SqlValue::LongList(turns),
        ];
        let sql = "SELECT * FROM berth.append($1, $2, $3, $4, $5, $6, $7, $8)";
        self.change("append", request.host, sql, values).await?.append_answer()
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, EngineError> {
        let watched = request.watched;
        let values = vec![
            (&request.session).into(),
            request.host.into(),
            request.expected_term.into(),
            (&request.event).into(),
            SqlValue::OptionalInt(watched.map(|watched| small(watched.host.0))),
            SqlValue::Long(watched.map(|watched| long(watched.incarnation.0))),
            SqlValue::Long(watched.map(|watched| long(watched.heartbeat.0))),
        ];
        let sql = "SELECT * FROM berth.claim($1, $2, $3, $4, $5, $6, $7)";
        let row = self.change("claim", request.host, sql, values).await?;
        match row.answer()?.as_str() {
            "ours" => Ok(ClaimAnswer::Ours { term: row.term("current_term")?, last: row.last()? }),
            "lost" => Ok(ClaimAnswer::Lost { term: row.term("current_term")?, owner: row.host("owner")? }),
            "held" => Ok(ClaimAnswer::Held { owner: row.host("owner")?.ok_or_else(|| odd("claim"))? }),
            "no_session" => Ok(ClaimAnswer::NoSession),
            _ => Err(odd("claim")),
        }
    }

    async fn release(&self, request: ReleaseRequest) -> Result<AppendAnswer, EngineError> {
        let values = vec![
            (&request.session).into(),
            request.host.into(),
            request.term.into(),
            number(request.after.0),
            (&request.event).into(),
        ];
        let sql = "SELECT *, '{}'::text[] AS not_taken FROM berth.release($1, $2, $3, $4, $5)";
        self.change("release", request.host, sql, values).await?.append_answer()
    }

    async fn begin_incarnation(&self, host: HostId) -> Result<Incarnation, EngineError> {
        let sql = "SELECT * FROM berth.begin_incarnation($1)";
        let row = self.change("begin_incarnation", host, sql, vec![host.into()]).await?;
        row.number("began").map(Incarnation)
    }

    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<HeartbeatAnswer, EngineError> {
        // Not behind appends: a long one must not make this host look away.
        let rows = self.reads.run(vec![heartbeat(request)]).await?.0;
        one(&rows, "heartbeat")?.unless_rejected("heartbeat", request.host)?.heartbeat_answer()
    }

    async fn acknowledge_loss(&self, host: HostId, lost: LostSession) -> Result<(), EngineError> {
        let values = vec![(&lost.session).into(), host.into(), lost.term.into()];
        let sql = "SELECT * FROM berth.acknowledge_loss($1, $2, $3)";
        self.change("acknowledge_loss", host, sql, values).await.map(drop)
    }

    async fn post(&self, request: PostRequest) -> Result<PostAnswer, EngineError> {
        let values = vec![
            (&request.session).into(),
            request.host.into(),
            (&request.key).into(),
            (&request.kind).into(),
            (&request.body).into(),
        ];
        let sql = "SELECT * FROM berth.post($1, $2, $3, $4, $5)";
        let row = self.change("post", request.host, sql, values).await?;
        match row.answer()?.as_str() {
            "posted" => Ok(PostAnswer::Posted(PostNumber(row.number("n")?))),
            "again" => Ok(PostAnswer::PostedBefore(PostNumber(row.number("n")?))),
            "other_text" => Ok(PostAnswer::OtherText),
            "full" => Ok(PostAnswer::InboxFull),
            "no_session" => Ok(PostAnswer::NoSession),
            _ => Err(odd("post")),
        }
    }

    async fn withdraw(
        &self,
        host: HostId,
        session: SessionId,
        key: RecordText,
    ) -> Result<WithdrawAnswer, EngineError> {
        let values = vec![(&session).into(), host.into(), (&key).into()];
        let row = self.change("withdraw", host, "SELECT * FROM berth.withdraw($1, $2, $3)", values).await?;
        match row.answer()?.as_str() {
            "withdrawn" => Ok(WithdrawAnswer::Withdrawn),
            "taken" => Ok(WithdrawAnswer::Taken { accepted_by: EventNumber(row.number("turn")?) }),
            "refused" => Ok(WithdrawAnswer::Refused),
            "no_post" => Ok(WithdrawAnswer::NoPost),
            _ => Err(odd("withdraw")),
        }
    }

    async fn publish(&self, term: Term, row: ListRow) -> Result<PublishAnswer, EngineError> {
        let values = vec![
            (&row.session).into(),
            row.host.into(),
            term.into(),
            SqlValue::Int(small(row.rank)),
            number(row.active_at_ms),
            (&row.status).into(),
        ];
        let sql = "SELECT * FROM berth.publish($1, $2, $3, $4, $5, $6)";
        match self.change("publish", row.host, sql, values).await?.answer()?.as_str() {
            "ok" => Ok(PublishAnswer::Published),
            "fenced" => Ok(PublishAnswer::Fenced),
            _ => Err(odd("publish")),
        }
    }

    async fn barrier(&self, host: HostId) -> Result<(), EngineError> {
        let rows = self.reads.run(vec![barrier(host)]).await?.0;
        one(&rows, "barrier")?.unless_rejected("barrier", host).map(drop)
    }

    async fn settle(&self, host: HostId, session: SessionId) -> Result<Option<SessionRecord>, EngineError> {
        let read =
            Statement { call: "settle", sql: SESSION, values: vec![(&session).into()], is_change: false };
        let (mut rows, _) = self.reads.run(vec![read, barrier(host)]).await?;
        let committed = rows.pop().unwrap_or_default();
        one(&[committed], "barrier")?.unless_rejected("barrier", host)?;
        let seen = rows.pop().unwrap_or_default().into_iter().next().map(AnswerRow);
        seen.map(|row| row.session_record()).transpose()
    }

    async fn find(&self, identity: SessionIdentity) -> Result<Option<SessionId>, EngineError> {
        let none = || SqlValue::Text(None);
        let values = match &identity {
            SessionIdentity::Name(name) => {
                vec![SqlValue::Text(Some(name.as_str().to_owned())), none(), none(), none()]
            }
            SessionIdentity::Key(key) => vec![none(), key.into(), none(), none()],
            SessionIdentity::Conversation(ConversationRef { kind, native_id }) => {
                vec![none(), none(), kind.into(), native_id.into()]
            }
        };
        let rows = self.read("find", "SELECT * FROM berth.find_session($1, $2, $3, $4)", values).await?.0;
        rows.first().map(AnswerRow::session).transpose()
    }

    async fn owned_sessions(
        &self,
        host: HostId,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<OwnedSession>, EngineError> {
        let after = SqlValue::Text(Some(after.map_or_else(String::new, |id| id.as_str().to_owned())));
        let values = vec![host.into(), after, number(limit.into())];
        let sql = "SELECT * FROM berth.owned_sessions($1, $2, $3)";
        let read = Statement { call: "owned_sessions", sql, values, is_change: false };
        // On one connection: a barrier on another server says nothing about this read.
        let (mut answers, _) = self.reads.run(vec![read, barrier(host)]).await?;
        let committed = answers.pop().unwrap_or_default();
        one(&[committed], "barrier")?.unless_rejected("barrier", host)?;
        let rows: Vec<AnswerRow> = answers.pop().unwrap_or_default().into_iter().map(AnswerRow).collect();
        let owned = |row: &AnswerRow| {
            let (term, last) = (row.term("term")?, row.number("seq").map(EventNumber)?);
            Ok(OwnedSession { session: row.session()?, term, last, live: row.live()? })
        };
        rows.iter().map(owned).collect()
    }

    async fn session(&self, session: SessionId) -> Result<Option<SessionRecord>, EngineError> {
        let rows = self.read("session", SESSION, vec![(&session).into()]).await?.0;
        rows.first().map(AnswerRow::session_record).transpose()
    }

    async fn events(
        &self,
        session: SessionId,
        from: EventNumber,
        limit: u32,
    ) -> Result<Vec<RecordedEvent>, EngineError> {
        let values = vec![(&session).into(), number(from.0), number(limit.into())];
        let rows = self.read("events", "SELECT * FROM berth.events($1, $2, $3)", values).await?.0;
        let event = |row: &AnswerRow| {
            let (number, term) = (row.number("seq").map(EventNumber)?, row.term("term")?);
            Ok(RecordedEvent { number, term, body: row.text("body")? })
        };
        rows.iter().map(event).collect()
    }

    async fn inbox(
        &self,
        host: HostId,
        after: PostNumber,
        limit: u32,
    ) -> Result<Vec<WaitingPost>, EngineError> {
        let values = vec![host.into(), number(after.0), number(limit.into())];
        let rows = self.read("inbox", "SELECT * FROM berth.waiting($1, $2, $3)", values).await?.0;
        let post = |row: AnswerRow| {
            let row = row.unless_rejected("inbox", host)?;
            let (number, session) = (PostNumber(row.number("n")?), row.session()?);
            let (key, kind, body) = (row.text("key")?, row.text("kind")?, row.text("body")?);
            Ok(WaitingPost { number, session, key, kind, body })
        };
        rows.into_iter().map(post).collect()
    }

    async fn hosts(&self) -> Result<Vec<HostRecord>, EngineError> {
        let rows = self.read("hosts", "SELECT * FROM berth.hosts()", Vec::new()).await?.0;
        let host = |row: &AnswerRow| {
            Ok(HostRecord {
                host: row.host("id")?.ok_or_else(|| odd("hosts"))?,
                name: SafeName::parse(&row.get::<String>("name")?).map_err(|_| odd("hosts"))?,
                incarnation: Incarnation(row.number("incarnation")?),
                heartbeat: HeartbeatCount(row.number("heartbeat")?),
                used_slots: row.small("used")?,
            })
        };
        rows.iter().map(host).collect()
    }

    async fn list_page(&self, after: Option<ListPosition>, limit: u32) -> Result<Vec<ListRow>, EngineError> {
        let values = match &after {
            Some(at) => vec![SqlValue::Int(small(at.rank)), number(at.active_at_ms), (&at.session).into()],
            None => vec![SqlValue::Int(-1), number(0), SqlValue::Text(Some(String::new()))],
        };
        let values = values.into_iter().chain([number(limit.into())]).collect();
        let sql = "SELECT * FROM berth.list_page($1, $2, $3, $4)";
        self.read("list_page", sql, values).await?.0.iter().map(AnswerRow::list_row).collect()
    }

    async fn changes(&self, since: ChangeCursor, limit: u32) -> Result<ChangePage, EngineError> {
        let session = since.session.as_ref().map(|session| session.as_str().to_owned());
        let values = vec![
            number(since.transaction),
            SqlValue::Text(Some(session.unwrap_or_default())),
            // One more than asked for tells if there are more.
            number(u64::from(limit) + 1),
        ];
        let sql = "SELECT * FROM berth.changes($1, $2, $3)";
        let (rows, timeline) = self.read("changes", sql, values).await?;
        let feed_end = rows.first().ok_or_else(|| odd("changes"))?.number("feed_end")?;
        let is_begin = since == ChangeCursor::default();
        if !is_begin && (since.timeline != timeline || since.transaction > feed_end) {
            return Ok(ChangePage::StartOver);
        }
        let is_row =
            |row: &&AnswerRow| row.get::<Option<i64>>("changed").is_ok_and(|changed| changed.is_some());
        let found: Vec<&AnswerRow> = rows.iter().filter(is_row).collect();
        let given = &found[..found.len().min(limit as usize)];
        let more = found.len() > given.len();
        let next = match given.last().filter(|_| more) {
            Some(row) => {
                let (transaction, session) = (row.number("changed")?, Some(row.session()?));
                ChangeCursor { timeline, transaction, session }
            }
            None => ChangeCursor { timeline, transaction: feed_end, session: None },
        };
        let rows = given.iter().map(|row| row.list_row()).collect::<Result<_, EngineError>>()?;
        Ok(ChangePage::Rows { rows, next, more })
    }
}
