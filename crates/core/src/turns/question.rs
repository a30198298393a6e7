//! Questions of an agent, and their answers.

use super::timeouts::may_be_released;
use super::{MAX_REPLY_BYTES, MOST_ASKS};
use crate::{Actor, Event, Refusal, Session};

/// A question that an agent waits on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentQuestion {
    /// Name of the question, unique within a run.
    pub request: String,
    /// Tool that the agent wants to use.
    pub tool: String,
    /// Full text: the command, the file and the change.
    pub detail: String,
    /// Options of the question.
    pub options: Vec<QuestionOption>,
    /// True if several options can be chosen at once.
    pub several: bool,
    /// True if a free text can answer the question, instead of an option or, with `several`, beside options.
    pub takes_text: bool,
    /// True if a refusal can carry a reason that the agent reads.
    pub takes_reason: bool,
}

impl AgentQuestion {
    /// True if berth can answer the question. A question without options is answered at the agent's terminal.
    pub fn is_answerable(&self) -> bool {
        !self.options.is_empty() || self.takes_text
    }
}

/// Answer to a question.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChosenReply {
    /// Chosen options, in the order of the question. Empty if the answer is only a text.
    pub chosen: Vec<QuestionOption>,
    /// Reason of a refusal, or an answer in free text.
    pub text: Option<String>,
}

impl ChosenReply {
    /// True if the answer refuses the agent's request.
    pub fn is_refusal(&self) -> bool {
        !self.chosen.is_empty() && self.chosen.iter().all(|option| option.kind.is_refusal())
    }

    /// Ids of the chosen options.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.chosen.iter().map(|option| option.id.as_str())
    }

    /// True if the answer is exactly this one option.
    pub fn is_only(&self, id: &str) -> bool {
        matches!(self.chosen.as_slice(), [only] if only.id == id)
    }
}

/// An option of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuestionOption {
    /// Id of the option.
    pub id: String,
    /// Text of the option, for people.
    pub name: String,
    /// Meaning of the option.
    pub kind: QuestionOptionKind,
}

/// Meaning of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuestionOptionKind {
    /// Allow this time.
    AllowOnce,
    /// Allow, and do not ask again.
    AllowAlways,
    /// Refuse this time.
    RejectOnce,
    /// Refuse, and do not ask again.
    RejectAlways,
    /// Any other meaning.
    Other,
}

impl QuestionOptionKind {
    /// True if the option refuses.
    pub fn is_refusal(self) -> bool {
        match self {
            Self::RejectOnce | Self::RejectAlways => true,
            Self::AllowOnce | Self::AllowAlways | Self::Other => false,
        }
    }
}

/// Answers a question of the agent. Without a request: the only open one.
pub(crate) fn answer(
    session: &Session,
    request: Option<&str>,
    wanted: &QuestionReply,
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

/// Finds the answer to a question that the reply of a client means.
fn reply(ask: &AgentQuestion, wanted: &QuestionReply) -> Result<ChosenReply, Refusal> {
    let no_such_option =
        || Refusal::NoSuchOption { options: ask.options.iter().map(|option| option.id.clone()).collect() };
    let one_of = |kinds: &[QuestionOptionKind]| {
        let option = kinds.iter().find_map(|kind| ask.options.iter().find(|option| option.kind == *kind));
        option.map(|option| vec![option.clone()]).ok_or_else(no_such_option)
    };
    let (chosen, text) = match wanted {
        QuestionReply::Allow => {
            (one_of(&[QuestionOptionKind::AllowOnce, QuestionOptionKind::AllowAlways])?, None)
        }
        QuestionReply::Deny { reason } => {
            (one_of(&[QuestionOptionKind::RejectOnce, QuestionOptionKind::RejectAlways])?, reason.as_ref())
        }
        QuestionReply::Options { ids, text } => {
            if ids.iter().any(|id| ask.options.iter().all(|option| option.id != *id)) {
                return Err(no_such_option());
            }
            let chosen = ask.options.iter().filter(|option| ids.contains(&option.id)).cloned();
            (chosen.collect(), text.as_ref())
        }
    };
    if let Some(text) = text {
        if text.trim().is_empty() {
            return Err(Refusal::BadAnswer(BadReply::Empty));
        }
        if text.len() > MAX_REPLY_BYTES {
            return Err(Refusal::BadAnswer(BadReply::TooLong { bytes: text.len(), limit: MAX_REPLY_BYTES }));
        }
    }
    let reply = ChosenReply { chosen, text: text.cloned() };
    let answers = reply.chosen.len() + usize::from(reply.text.is_some());
    let has_refusal = reply.chosen.iter().any(|option| option.kind.is_refusal());
    match (reply.chosen.as_slice(), &reply.text) {
        ([], None) => Err(no_such_option()),
        ([], Some(_)) if !ask.takes_text => Err(Refusal::BadAnswer(BadReply::NoText)),
        ([only], Some(_)) if only.kind.is_refusal() && !ask.takes_reason => {
            Err(Refusal::BadAnswer(BadReply::NoReason))
        }
        ([only], _) if only.kind.is_refusal() => Ok(reply),
        ([_, ..], Some(_)) if !ask.takes_text || has_refusal => {
            Err(Refusal::BadAnswer(BadReply::TextBesideOption))
        }
        (_, _) if answers > 1 && (!ask.several || has_refusal) => Err(Refusal::BadAnswer(BadReply::OnlyOne)),
        (_, _) => Ok(reply),
    }
}

/// Reason why an answer does not fit its question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadReply {
    /// The text is empty.
    Empty,
    /// The text is too long.
    TooLong {
        /** Size of the text in bytes. */
        bytes: usize,
        /** Limit in bytes. */
        limit: usize,
    },
    /// The question takes one of its options, and no text.
    NoText,
    /// The agent takes a refusal, but no reason with it.
    NoReason,
    /// A text goes with a refusal, or is an answer of its own; not with the chosen option.
    TextBesideOption,
    /// The question takes one answer.
    OnlyOne,
}

/// An answer as a client gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QuestionReply {
    /// Allow this time.
    Allow,
    /// Refuse this time.
    Deny {
        /** Reason, or what to do instead; the agent reads it. */
        reason: Option<String>,
    },
    /// Choose the options of these ids, answer with a free text, or both.
    Options {
        /** Ids of the chosen options. */
        ids: Vec<String>,
        /** Reason, if the option refuses; otherwise one more answer. */
        text: Option<String>,
    },
}

impl QuestionReply {
    /// The choice of exactly this option.
    pub fn option(id: impl Into<String>) -> Self {
        Self::Options { ids: vec![id.into()], text: None }
    }
}

pub(crate) fn question_asked(session: &Session, ask: &AgentQuestion) -> Vec<Event> {
    let turns = &session.turns;
    let is_new = turns.asks.iter().all(|known| known.request != ask.request);
    if is_new && turns.asks.len() < MOST_ASKS && may_be_released(session) {
        vec![Event::QuestionAsked { ask: ask.clone() }]
    } else {
        vec![]
    }
}

pub(crate) fn question_withdrawn(session: &Session, request: &str) -> Vec<Event> {
    let is_known = session.turns.asks.iter().any(|ask| ask.request == request);
    if is_known { vec![Event::QuestionWithdrawn { request: request.to_owned() }] } else { vec![] }
}
