//! Answers to a question: the question that is meant, and answers that are more than one of its options.
//!
//! The chat, the dashboard and `berth answer` use this. Not here: the id of a question (see `berth_verbs::answer`).
//! Start with [`FreeTextKind::of`].

use berth_api::turn::{AgentQuestion, QuestionOptionKind, QuestionReply};

/// The meaning of free text as an answer to a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeTextKind {
    /// A reason for a no: what to do instead.
    Reason,
    /// An answer that no option offers.
    Text,
}

impl FreeTextKind {
    /// The meaning of free text for this question; none if it takes only options.
    pub fn of(ask: &AgentQuestion) -> Option<Self> {
        let is_no = |kind: QuestionOptionKind| {
            matches!(kind, QuestionOptionKind::RejectOnce | QuestionOptionKind::RejectAlways)
        };
        if ask.takes_reason && ask.options.iter().any(|option| is_no(option.kind)) {
            return Some(Self::Reason);
        }
        ask.takes_text.then_some(Self::Text)
    }

    /// The words that invite such an answer.
    pub fn label(self) -> &'static str {
        match self {
            Self::Reason => "tell it what to do instead",
            Self::Text => "answer in your own words",
        }
    }

    /// The answer made of this text and the chosen options, by their positions.
    pub fn reply(self, ask: &AgentQuestion, chosen: &[usize], text: String) -> QuestionReply {
        match self {
            Self::Reason => QuestionReply::Deny { reason: Some(text) },
            Self::Text => QuestionReply::Options { ids: ids(ask, chosen), text: Some(text) },
        }
    }
}

/// The line over a question: what the agent asks permission for, or which agent asks.
pub fn question_headline(ask: &AgentQuestion) -> String {
    let tool = crate::print::first_words(&ask.tool, 60);
    let may_allow = |kind: QuestionOptionKind| {
        matches!(kind, QuestionOptionKind::AllowOnce | QuestionOptionKind::AllowAlways)
    };
    if ask.options.iter().any(|option| may_allow(option.kind)) {
        format!("Allow {tool}?")
    } else {
        format!("{tool} asks:")
    }
}

/// The answer made of these options, by their positions; none if nothing is chosen.
pub fn reply_with_options(ask: &AgentQuestion, chosen: &[usize]) -> Option<QuestionReply> {
    let ids = ids(ask, chosen);
    (!ids.is_empty()).then_some(QuestionReply::Options { ids, text: None })
}

/// Selects one of several options, or deselects it.
pub fn toggle_option(chosen: &mut Vec<usize>, at: usize) {
    match chosen.iter().position(|it| *it == at) {
        Some(place) => drop(chosen.remove(place)),
        None => chosen.push(at),
    }
}

fn ids(ask: &AgentQuestion, chosen: &[usize]) -> Vec<String> {
    chosen.iter().filter_map(|at| ask.options.get(*at)).map(|option| option.id.clone()).collect()
}
