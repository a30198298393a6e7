//! What an agent wants to know before it goes on, and how it is answered.

use super::MOST_ASKS;
use super::time::may_be_released;
use crate::{Actor, Event, Refusal, Session};

/// A question an agent waits on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// What it is called. Unique within a run.
    pub request: String,
    /// What for: the tool.
    pub tool: String,
    /// In full: the command, the file and the change.
    pub detail: String,
    /// What can be answered.
    pub options: Vec<AskOption>,
}

/// One possible answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskOption {
    /// What it is called.
    pub id: String,
    /// What it says, for people.
    pub name: String,
    /// What it means.
    pub kind: AskKind,
}

/// What an answer means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskKind {
    /// Yes, this time.
    AllowOnce,
    /// Yes, and do not ask again.
    AllowAlways,
    /// No, this time.
    RejectOnce,
    /// No, and do not ask again.
    RejectAlways,
    /// Something else.
    Other,
}

/// Answers what the agent asked. Without a request: the only one there is.
pub(crate) fn answer(
    session: &Session,
    request: Option<&str>,
    wanted: &Wish,
    by: Actor,
) -> Result<Vec<Event>, Refusal> {
    let asks = &session.turns.asks;
    if let Some(ask) = asks.first().filter(|_| session.has_terminal()) {
        let what =
            if ask.tool.is_empty() { ask.detail.clone() } else { format!("{}: {}", ask.tool, ask.detail) };
        return Err(Refusal::OnScreen { what });
    }
    let ask = match request {
        Some(request) => asks.iter().find(|ask| ask.request == request),
        None if asks.len() > 1 => {
            return Err(Refusal::WhichRequest {
                requests: asks.iter().map(|ask| ask.request.clone()).collect(),
            });
        }
        None => asks.first(),
    };
    let ask = ask.ok_or(Refusal::NoSuchRequest { request: request.map(str::to_owned) })?;
    let option = match wanted {
        Wish::Allow => one_of(ask, &[AskKind::AllowOnce, AskKind::AllowAlways]),
        Wish::Deny => one_of(ask, &[AskKind::RejectOnce, AskKind::RejectAlways]),
        Wish::Option(id) => ask.options.iter().find(|option| option.id == *id),
    };
    let option = option.ok_or_else(|| Refusal::NoSuchOption {
        options: ask.options.iter().map(|option| option.id.clone()).collect(),
    })?;
    Ok(vec![Event::Answered { request: ask.request.clone(), choice: option.id.clone(), by }])
}

/// What somebody wants answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Yes, this time.
    Allow,
    /// No, this time.
    Deny,
    /// The option of this id.
    Option(String),
}

fn one_of<'a>(ask: &'a Ask, kinds: &[AskKind]) -> Option<&'a AskOption> {
    kinds.iter().find_map(|kind| ask.options.iter().find(|option| option.kind == *kind))
}

pub(crate) fn asks(session: &Session, ask: &Ask) -> Vec<Event> {
    let turns = &session.turns;
    let is_new = turns.asks.iter().all(|known| known.request != ask.request);
    if is_new && turns.asks.len() < MOST_ASKS && may_be_released(session) {
        vec![Event::Asked { ask: ask.clone() }]
    } else {
        vec![]
    }
}

pub(crate) fn unasked(session: &Session, request: &str) -> Vec<Event> {
    let is_known = session.turns.asks.iter().any(|ask| ask.request == request);
    if is_known { vec![Event::Unasked { request: request.to_owned() }] } else { vec![] }
}
