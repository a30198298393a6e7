//! Shared parts of drivers: text and remarks that stay within a limit.
//!
//! Promise: nothing here exceeds its limit, for any input; text is cut between characters.
//! Not here: anything of one agent's protocol.
//! Start with [`AnswerBuffer`].

use berth_core::TurnFailure;

use crate::{AgentUpdate, DriverOutput, MAX_ANSWER_BYTES};

/// Number of remarks that one run can make.
const MOST_REMARKS: usize = 20;
/// Size limit of an agent's text in a remark or a reason.
const MAX_QUOTE_BYTES: usize = 4096;

/// The beginning of a text, up to a limit, cut between characters.
pub(crate) fn truncated(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The text of an agent, short enough for a remark or a reason.
pub(crate) fn excerpt(said: &str) -> String {
    let said = said.trim();
    let kept = truncated(said, MAX_QUOTE_BYTES);
    if kept.len() == said.len() { said.to_owned() } else { format!("{kept}…") }
}

/// The cause of a failure, by the status with which the model's server refused.
pub(crate) fn failure_of_status(status: u64) -> TurnFailure {
    match status {
        429 => TurnFailure::Limit,
        503 | 529 => TurnFailure::Overloaded,
        401 | 403 => TurnFailure::Login,
        _ => TurnFailure::Other,
    }
}

/// The cause of a failure, by the words of an error. For agents whose protocol or record has nothing better. A number
/// counts as a status only right behind a word that says so: other numbers may be those of a line.
pub fn failure_in_error_text(said: &str) -> TurnFailure {
    let said = said.to_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| said.contains(phrase));
    if has(&["rate limit", "rate_limit", "usage limit", "too many requests", "hit your limit"]) {
        return TurnFailure::Limit;
    }
    if has(&["overloaded", "model is at capacity"]) {
        return TurnFailure::Overloaded;
    }
    if has(&["unauthorized", "not logged in", "authentication_error", "invalid api key", "invalid x-api-key"])
    {
        return TurnFailure::Login;
    }
    // Words of one character are left out: those are the version in `HTTP/1.1 503`.
    let words = said.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1);
    let behind = words.clone().skip(1);
    let statuses = words.zip(behind).filter_map(|(word, behind)| {
        let announces = ["status", "error", "http", "code", "statuscode", "errorcode"].contains(&word);
        behind.parse().ok().filter(|_| announces)
    });
    statuses.map(failure_of_status).find(|failure| failure.is_model_failure()).unwrap_or_default()
}

/// An answer as it arrives, up to [`MAX_ANSWER_BYTES`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct AnswerBuffer {
    text: String,
    cut: bool,
}

impl AnswerBuffer {
    /// A whole answer.
    pub(crate) fn whole(text: &str) -> Self {
        let mut all = Self::default();
        all.add(text);
        all
    }

    /// Adds a piece.
    pub(crate) fn add(&mut self, piece: &str) {
        if self.cut {
            return;
        }
        let kept = truncated(piece, MAX_ANSWER_BYTES - self.text.len());
        self.cut = kept.len() < piece.len();
        self.text.push_str(kept);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text, and true if it is only the beginning.
    pub(crate) fn into_parts(self) -> (String, bool) {
        (self.text, self.cut)
    }
}

/// Counter of remarks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RemarkLimiter(usize);

impl RemarkLimiter {
    /// Passes a remark on, unless there were too many.
    pub(crate) fn make(&mut self, what: impl Into<String>, out: &mut DriverOutput) {
        self.0 = self.0.saturating_add(1);
        if self.0 <= MOST_REMARKS {
            out.update(AgentUpdate::Remark { what: what.into() });
        }
        if self.0 == MOST_REMARKS {
            out.update(AgentUpdate::Remark { what: "no more remarks about this run".into() });
        }
    }
}

/// The answer that chooses one option.
#[cfg(test)]
pub(crate) fn chosen(id: &str) -> berth_core::ChosenReply {
    let option = berth_core::QuestionOption {
        id: id.to_owned(),
        name: String::new(),
        kind: berth_core::QuestionOptionKind::Other,
    };
    berth_core::ChosenReply { chosen: vec![option], text: None }
}

#[cfg(test)]
mod tests {
    use berth_core::TurnFailure;

    use super::{AnswerBuffer, RemarkLimiter, excerpt, failure_in_error_text, truncated};
    use crate::{DriverOutput, MAX_ANSWER_BYTES};

    #[test]
    fn an_answer_is_cut_between_characters_and_says_so() {
        let mut gathered = AnswerBuffer::default();
        gathered.add(&"x".repeat(MAX_ANSWER_BYTES - 1));
        gathered.add("é");
        gathered.add("more");
        let (text, cut) = gathered.into_parts();
        assert_eq!((text.len(), cut), (MAX_ANSWER_BYTES - 1, true));
    }

    #[test]
    fn the_words_of_an_error_tell_whether_the_model_refused() {
        for (said, failure) in [
            ("API Error: 429 rate_limit_error", TurnFailure::Limit),
            ("You've hit your limit · resets 3pm", TurnFailure::Limit),
            ("exceeded retry limit, last status: 429 Too Many Requests", TurnFailure::Limit),
            ("Internal error: API Error: 529 Overloaded", TurnFailure::Overloaded),
            ("unexpected status 503 Service Unavailable", TurnFailure::Overloaded),
            ("unexpected status 401 Unauthorized", TurnFailure::Login),
            ("HTTP/1.1 503 Service Unavailable", TurnFailure::Overloaded),
            ("Selected model is at capacity. Please try a different model.", TurnFailure::Overloaded),
            (r#"{"statusCode":403}"#, TurnFailure::Login),
            ("API Error: 500 internal", TurnFailure::Other),
            ("patch failed at line 429", TurnFailure::Other),
            ("error in main.rs: 401 tests, 503 warnings", TurnFailure::Other),
            ("line 4290 of a file", TurnFailure::Other),
            ("", TurnFailure::Other),
        ] {
            assert_eq!(failure_in_error_text(said), failure, "{said}");
        }
    }

    #[test]
    fn remarks_come_to_an_end() {
        let (mut remarks, mut out) = (RemarkLimiter::default(), DriverOutput::default());
        for number in 0..1000 {
            remarks.make(format!("number {number}"), &mut out);
        }
        assert_eq!(out.updates.len(), 21);
    }

    #[test]
    fn quotes_are_short() {
        assert_eq!(truncated("aé", 2), "a");
        assert_eq!(excerpt(" said\n"), "said");
        assert!(excerpt(&"é".repeat(5000)).len() < 4200);
    }
}
