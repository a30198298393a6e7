//! Answers to a question: which question is meant, and answers that are more than one of its options.
//!
//! The chat, the dashboard and `berth answer` use this. Start with [`OwnWords::of`] and [`QuestionId`].

use berth_api::turn::{Ask, AskKind, Wish};

/// The id of a question, as people type and read it: `RUN:REQUEST`. Agents number their questions anew in each run, so
/// a request alone may name another question by the time its answer arrives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QuestionId {
    /// The run. An answer that approves something needs it.
    pub(crate) epoch: Option<u64>,
    pub(crate) request: String,
}

impl QuestionId {
    pub(crate) fn new(epoch: impl Into<Option<u64>>, request: &str) -> Self {
        Self { epoch: epoch.into(), request: request.to_owned() }
    }
}

impl std::str::FromStr for QuestionId {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once(':').and_then(|(epoch, request)| Some((epoch.parse().ok()?, request)));
        Ok(match parts {
            Some((epoch, request)) => Self::new(Some(epoch), request),
            None => Self::new(None, text),
        })
    }
}

impl std::fmt::Display for QuestionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.epoch {
            Some(epoch) => write!(f, "{epoch}:{}", self.request),
            None => f.write_str(&self.request),
        }
    }
}

/// What own words are for a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OwnWords {
    /// The reason of a no: what to do instead.
    Reason,
    /// An answer that no option has.
    Text,
}

impl OwnWords {
    /// What own words would be, if the question takes any.
    pub(crate) fn of(ask: &Ask) -> Option<Self> {
        let is_no = |kind: AskKind| matches!(kind, AskKind::RejectOnce | AskKind::RejectAlways);
        if ask.takes_reason && ask.options.iter().any(|option| is_no(option.kind)) {
            return Some(Self::Reason);
        }
        ask.takes_text.then_some(Self::Text)
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Reason => "tell it what to do instead",
            Self::Text => "answer in your own words",
        }
    }

    /// The answer that these words are, beside the options that were chosen, by their places.
    pub(crate) fn wish(self, ask: &Ask, chosen: &[usize], text: String) -> Wish {
        match self {
            Self::Reason => Wish::Deny { reason: Some(text) },
            Self::Text => Wish::Options { ids: ids(ask, chosen), text: Some(text) },
        }
    }
}

/// The line over a question: what the agent wants to be allowed, or who asks.
pub(crate) fn headline(ask: &Ask) -> String {
    let tool = crate::print::excerpt(&ask.tool, 60);
    let may_allow = |kind: AskKind| matches!(kind, AskKind::AllowOnce | AskKind::AllowAlways);
    if ask.options.iter().any(|option| may_allow(option.kind)) {
        format!("Allow {tool}?")
    } else {
        format!("{tool} asks:")
    }
}

/// The answer that is these options, by their places; none if nothing is chosen.
pub(crate) fn options(ask: &Ask, chosen: &[usize]) -> Option<Wish> {
    let ids = ids(ask, chosen);
    (!ids.is_empty()).then_some(Wish::Options { ids, text: None })
}

/// Chooses an option of several, or takes it back.
pub(crate) fn toggle(chosen: &mut Vec<usize>, at: usize) {
    match chosen.iter().position(|it| *it == at) {
        Some(place) => drop(chosen.remove(place)),
        None => chosen.push(at),
    }
}

fn ids(ask: &Ask, chosen: &[usize]) -> Vec<String> {
    chosen.iter().filter_map(|at| ask.options.get(*at)).map(|option| option.id.clone()).collect()
}
