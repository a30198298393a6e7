//! Values of statements, and rows of answers.
//!
//! Promise: a column that is missing, or of another type than expected, is an error and not a panic.

use berth_core::{Epoch, SafeName, SessionId};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSqlOwned, ToSql, Type};

use crate::engine::{AppendAnswer, HeartbeatAnswer, HostLossPolicy, ListRow, LostSession, SessionRecord};
use crate::{EngineError, EventNumber, HeartbeatCount, HostId, RecordText, Term};

/// A value of a statement.
#[derive(Debug)]
pub(super) enum SqlValue {
    Text(Option<String>),
    TextList(Vec<String>),
    Int(i32),
    OptionalInt(Option<i32>),
    Long(Option<i64>),
    LongList(Vec<i64>),
    Bool(bool),
}

impl SqlValue {
    pub(super) fn with_type(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(value) => (value, Type::TEXT),
            Self::TextList(value) => (value, Type::TEXT_ARRAY),
            Self::Int(value) => (value, Type::INT4),
            Self::OptionalInt(value) => (value, Type::INT4),
            Self::Long(value) => (value, Type::INT8),
            Self::LongList(value) => (value, Type::INT8_ARRAY),
            Self::Bool(value) => (value, Type::BOOL),
        }
    }
}

/// A row of an answer.
pub(super) struct AnswerRow(pub(super) Row);

impl AnswerRow {
    pub(super) fn get<T: FromSqlOwned>(&self, column: &'static str) -> Result<T, EngineError> {
        self.0.try_get(column).map_err(|_| odd(column))
    }

    /// The word in the column `answer`.
    pub(super) fn answer(&self) -> Result<String, EngineError> {
        self.get("answer")
    }

    pub(super) fn number(&self, column: &'static str) -> Result<u64, EngineError> {
        self.get::<i64>(column).map(i64::unsigned_abs)
    }

    pub(super) fn last(&self) -> Result<EventNumber, EngineError> {
        self.number("last").map(EventNumber)
    }

    pub(super) fn term(&self, column: &'static str) -> Result<Term, EngineError> {
        self.number(column).map(Term)
    }

    pub(super) fn small(&self, column: &'static str) -> Result<u32, EngineError> {
        self.get::<i32>(column).map(i32::unsigned_abs)
    }

    pub(super) fn host(&self, column: &'static str) -> Result<Option<HostId>, EngineError> {
        Ok(self.get::<Option<i32>>(column)?.map(|host| HostId(host.unsigned_abs())))
    }

    pub(super) fn text(&self, column: &'static str) -> Result<RecordText, EngineError> {
        RecordText::parse(self.get::<String>(column)?).map_err(|_| odd(column))
    }

    pub(super) fn texts(&self, column: &'static str) -> Result<Vec<RecordText>, EngineError> {
        let texts = self.get::<Option<Vec<String>>>(column)?.unwrap_or_default();
        texts.into_iter().map(|text| RecordText::parse(text).map_err(|_| odd(column))).collect()
    }

    pub(super) fn session(&self) -> Result<SessionId, EngineError> {
        SessionId::parse(&self.get::<String>("session")?).ok_or_else(|| odd("session"))
    }

    pub(super) fn unless_rejected(self, call: &'static str, host: HostId) -> Result<Self, EngineError> {
        if self.answer()? == "rejected" { Err(EngineError::Rejected { call, host }) } else { Ok(self) }
    }

    pub(super) fn append_answer(&self) -> Result<AppendAnswer, EngineError> {
        let last = || self.last();
        let not_taken = || self.texts("not_taken");
        Ok(match self.answer()?.as_str() {
            "ok" => AppendAnswer::Appended { last: last()?, not_taken: not_taken()? },
            "already" => AppendAnswer::AlreadyAppended { last: last()?, not_taken: not_taken()? },
            "fenced" => AppendAnswer::Fenced { term: self.term("current_term")?, last: last()? },
            "behind" => AppendAnswer::Behind { last: last()? },
            "diverged" => AppendAnswer::Diverged { last: last()? },
            "no_session" => AppendAnswer::NoSession,
            _ => return Err(odd("append")),
        })
    }

    pub(super) fn live(&self) -> Result<Option<Epoch>, EngineError> {
        Ok(self.get::<Option<i64>>("live")?.map(|epoch| Epoch(epoch.unsigned_abs())))
    }

    pub(super) fn session_record(&self) -> Result<SessionRecord, EngineError> {
        let name = self.get::<Option<String>>("name")?.map(|name| SafeName::parse(&name));
        Ok(SessionRecord {
            host: self.host("host")?,
            term: self.term("term")?,
            last: self.number("seq").map(EventNumber)?,
            live: self.live()?,
            name: name.transpose().map_err(|_| odd("name"))?,
            on_host_loss: match self.get::<String>("on_host_loss")?.as_str() {
                "wait" => HostLossPolicy::Wait,
                "take_over" => HostLossPolicy::TakeOver,
                _ => return Err(odd("on_host_loss")),
            },
            event_format: self.small("format")?,
        })
    }

    pub(super) fn list_row(&self) -> Result<ListRow, EngineError> {
        Ok(ListRow {
            session: self.session()?,
            host: self.host("host")?.ok_or_else(|| odd("host"))?,
            rank: self.small("rank")?,
            active_at_ms: self.number("active_at_ms")?,
            status: self.text("status")?,
        })
    }

    pub(super) fn heartbeat_answer(&self) -> Result<HeartbeatAnswer, EngineError> {
        if self.answer()? == "replaced" {
            return Ok(HeartbeatAnswer::Replaced);
        }
        let sessions = self.get::<Vec<String>>("lost_sessions")?;
        let terms = self.get::<Vec<i64>>("lost_terms")?;
        let lost = sessions.iter().zip(terms).map(|(session, term)| {
            let session = SessionId::parse(session).ok_or_else(|| odd("lost_sessions"))?;
            Ok(LostSession { session, term: Term(term.unsigned_abs()) })
        });
        let heartbeat = HeartbeatCount(self.number("beat")?);
        Ok(HeartbeatAnswer::Counted { heartbeat, lost: lost.collect::<Result<_, EngineError>>()? })
    }
}

impl From<HostId> for SqlValue {
    fn from(host: HostId) -> Self {
        Self::Int(small(host.0))
    }
}

impl From<&SessionId> for SqlValue {
    fn from(session: &SessionId) -> Self {
        Self::Text(Some(session.as_str().to_owned()))
    }
}

impl From<&RecordText> for SqlValue {
    fn from(text: &RecordText) -> Self {
        Self::Text(Some(text.as_str().to_owned()))
    }
}

impl From<Option<&RecordText>> for SqlValue {
    fn from(text: Option<&RecordText>) -> Self {
        Self::Text(text.map(|text| text.as_str().to_owned()))
    }
}

impl From<&[RecordText]> for SqlValue {
    fn from(texts: &[RecordText]) -> Self {
        Self::TextList(texts.iter().map(|text| text.as_str().to_owned()).collect())
    }
}

impl From<Term> for SqlValue {
    fn from(term: Term) -> Self {
        number(term.0)
    }
}

impl From<Option<Epoch>> for SqlValue {
    fn from(live: Option<Epoch>) -> Self {
        Self::Long(live.map(|epoch| long(epoch.0)))
    }
}

pub(super) fn number(number: u64) -> SqlValue {
    SqlValue::Long(Some(long(number)))
}

/// A number that no counter reaches becomes one that no row has.
pub(super) fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The server speaks another language than this version: its functions were changed by hand.
pub(super) fn odd(call: &str) -> EngineError {
    EngineError::Unsupported { cause: format!("the function behind `{call}` gave an unexpected answer") }
}
