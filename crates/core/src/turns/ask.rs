//! What an agent wants to know before it goes on, and how it is answered.

use super::time::may_be_released;
use super::{MAX_REPLY_BYTES, MOST_ASKS};
use crate::{Actor, Event, Refusal, Session};

/// A question an agent waits on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ask {
    /// What it is called. Unique within a run.
    pub request: String,
    /// What for: the tool.
    pub tool: String,
    /// In full: the command, the file and the change.
    pub detail: String,
    /// What can be answered.
    pub options: Vec<AskOption>,
    /// Several options can be chosen at once.
    pub several: bool,
    /// An answer in the answerer's own words is possible, instead of an option or, with `several`, beside options.
    pub takes_text: bool,
    /// A refusal can carry a reason that the agent reads.
    pub takes_reason: bool,
}

impl Ask {
    /// Whether it can be answered through berth. One without options is answered at the agent's terminal.
    pub fn is_answerable(&self) -> bool {
        !self.options.is_empty() || self.takes_text
    }
}

/// What was answered to a question.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// The options that were chosen, in the order of the question. None if the answer is only a text.
    pub chosen: Vec<AskOption>,
    /// The reason of a refusal, or an answer in the answerer's own words.
    pub text: Option<String>,
}

impl Reply {
    /// Whether it refuses what was asked.
    pub fn is_refusal(&self) -> bool {
        !self.chosen.is_empty() && self.chosen.iter().all(|option| option.kind.is_refusal())
    }

    /// The ids of the chosen options.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.chosen.iter().map(|option| option.id.as_str())
    }

    /// Whether it is exactly one option, this one.
    pub fn is_only(&self, id: &str) -> bool {
        matches!(self.chosen.as_slice(), [only] if only.id == id)
    }
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

impl AskKind {
    /// Whether it says no.
    pub fn is_refusal(self) -> bool {
        match self {
            Self::RejectOnce | Self::RejectAlways => true,
            Self::AllowOnce | Self::AllowAlways | Self::Other => false,
        }
    }
}

/// Answers what the agent asked. Without a request: the only one there is.
pub(crate) fn answer(
    session: &Session,
    request: Option<&str>,
    wanted: &Wish,
    by: Actor,
) -> Result<Vec<Event>, Refusal> {
    let asks = &session.turns.asks;
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
    if session.has_terminal() && !ask.is_answerable() {
        let what =
            if ask.tool.is_empty() { ask.detail.clone() } else { format!("{}: {}", ask.tool, ask.detail) };
        let agent = session.spec.as_ref().map(|spec| spec.conversation.clone()).unwrap_or_default();
        return Err(Refusal::OnScreen { what, agent });
    }
    let reply = reply(ask, wanted)?;
    Ok(vec![Event::Answered { request: ask.request.clone(), reply, by }])
}

/// The answer that a wish means for this question.
fn reply(ask: &Ask, wish: &Wish) -> Result<Reply, Refusal> {
    let no_such_option =
        || Refusal::NoSuchOption { options: ask.options.iter().map(|option| option.id.clone()).collect() };
    let one_of = |kinds: &[AskKind]| {
        let option = kinds.iter().find_map(|kind| ask.options.iter().find(|option| option.kind == *kind));
        option.map(|option| vec![option.clone()]).ok_or_else(no_such_option)
    };
    let (chosen, text) = match wish {
        Wish::Allow => (one_of(&[AskKind::AllowOnce, AskKind::AllowAlways])?, None),
        Wish::Deny { reason } => (one_of(&[AskKind::RejectOnce, AskKind::RejectAlways])?, reason.as_ref()),
        Wish::Options { ids, text } => {
            if ids.iter().any(|id| ask.options.iter().all(|option| option.id != *id)) {
                return Err(no_such_option());
            }
            let chosen = ask.options.iter().filter(|option| ids.contains(&option.id)).cloned();
            (chosen.collect(), text.as_ref())
        }
    };
    if let Some(text) = text {
        if text.trim().is_empty() {
            return Err(Refusal::BadAnswer(BadAnswer::Empty));
        }
        if text.len() > MAX_REPLY_BYTES {
            return Err(Refusal::BadAnswer(BadAnswer::TooLong { bytes: text.len(), limit: MAX_REPLY_BYTES }));
        }
    }
    let reply = Reply { chosen, text: text.cloned() };
    let answers = reply.chosen.len() + usize::from(reply.text.is_some());
    let has_refusal = reply.chosen.iter().any(|option| option.kind.is_refusal());
    match (reply.chosen.as_slice(), &reply.text) {
        ([], None) => Err(no_such_option()),
        ([], Some(_)) if !ask.takes_text => Err(Refusal::BadAnswer(BadAnswer::NoText)),
        ([only], Some(_)) if only.kind.is_refusal() && !ask.takes_reason => {
            Err(Refusal::BadAnswer(BadAnswer::NoReason))
        }
        ([only], _) if only.kind.is_refusal() => Ok(reply),
        ([_, ..], Some(_)) if !ask.takes_text || has_refusal => {
            Err(Refusal::BadAnswer(BadAnswer::TextBesideOption))
        }
        (_, _) if answers > 1 && (!ask.several || has_refusal) => Err(Refusal::BadAnswer(BadAnswer::OnlyOne)),
        (_, _) => Ok(reply),
    }
}

/// Why an answer does not fit its question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadAnswer {
    /// The text has no words.
    Empty,
    /// The text is too long.
    TooLong {
        /** Bytes of the text. */
        bytes: usize,
        /** Bytes that are possible. */
        limit: usize,
    },
    /// The question takes one of its options, and no text.
    NoText,
    /// The agent takes a refusal, and no reason with it.
    NoReason,
    /// A text goes with a refusal, or is an answer of its own; not with the chosen option.
    TextBesideOption,
    /// The question takes one answer.
    OnlyOne,
}

/// What somebody wants answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Yes, this time.
    Allow,
    /// No, this time.
    Deny {
        /** Why, or what to do instead: the agent reads it. */
        reason: Option<String>,
    },
    /// The options of these ids, an answer in own words, or both.
    Options {
        /** The ids. */
        ids: Vec<String>,
        /** With an option that refuses: the reason. Otherwise one more answer. */
        text: Option<String>,
    },
}

impl Wish {
    /// The option of this id, and nothing else.
    pub fn option(id: impl Into<String>) -> Self {
        Self::Options { ids: vec![id.into()], text: None }
    }
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
