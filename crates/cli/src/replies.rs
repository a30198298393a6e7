//! Answers to a question that are more than one of its options: own words, and several options.
//!
//! The chat and the dashboard use this. Start with [`OwnWords::of`].

use berth_api::turn::{Ask, AskKind, Wish};

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
