//! What all drivers need: text that stays within a limit, and remarks that do.
//!
//! Promise: nothing here holds more than its limit, whatever is put in; text is cut between characters.
//! Not here: anything of one agent's protocol.
//! Start with [`Gathered`].

use berth_core::Failure;

use crate::{MAX_ANSWER_BYTES, Out, Update};

/// How many remarks one run can give.
const MOST_REMARKS: usize = 20;
/// How much of what an agent said goes into a remark or a reason.
const MAX_QUOTE_BYTES: usize = 4096;

/// As much of a text as fits, cut between characters.
pub(crate) fn within(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// What an agent said, short enough for a remark or a reason.
pub(crate) fn quote(said: &str) -> String {
    let said = said.trim();
    let kept = within(said, MAX_QUOTE_BYTES);
    if kept.len() == said.len() { said.to_owned() } else { format!("{kept}…") }
}

/// What failed, by the status with which the model's server refused.
pub(crate) fn failure_of_status(status: u64) -> Failure {
    match status {
        429 => Failure::Limit,
        503 | 529 => Failure::Overloaded,
        401 | 403 => Failure::Login,
        _ => Failure::Other,
    }
}

/// What failed, by the words of an error. For agents whose protocol or record has nothing better. A number is a status only
/// right behind a word that says so: any other may be that of a line.
pub fn failure_in(said: &str) -> Failure {
    let said = said.to_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| said.contains(phrase));
    if has(&["rate limit", "rate_limit", "usage limit", "too many requests", "hit your limit"]) {
        return Failure::Limit;
    }
    if has(&["overloaded", "model is at capacity"]) {
        return Failure::Overloaded;
    }
    if has(&["unauthorized", "not logged in", "authentication_error", "invalid api key", "invalid x-api-key"])
    {
        return Failure::Login;
    }
    // Words of one character are left out: those are the version in `HTTP/1.1 503`.
    let words = said.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1);
    let behind = words.clone().skip(1);
    let statuses = words.zip(behind).filter_map(|(word, behind)| {
        let announces = ["status", "error", "http", "code", "statuscode", "errorcode"].contains(&word);
        behind.parse().ok().filter(|_| announces)
    });
    statuses.map(failure_of_status).find(|failure| failure.is_of_model()).unwrap_or_default()
}

/// An answer as it comes, up to [`MAX_ANSWER_BYTES`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gathered {
    text: String,
    cut: bool,
}

impl Gathered {
    /// A whole answer.
    pub(crate) fn whole(text: &str) -> Self {
        let mut all = Self::default();
        all.add(text);
        all
    }

    /// One more piece.
    pub(crate) fn add(&mut self, piece: &str) {
        if self.cut {
            return;
        }
        let kept = within(piece, MAX_ANSWER_BYTES - self.text.len());
        self.cut = kept.len() < piece.len();
        self.text.push_str(kept);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text, and whether it is only the beginning.
    pub(crate) fn into_parts(self) -> (String, bool) {
        (self.text, self.cut)
    }
}

/// Remarks, and how many there were.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Remarks(usize);

impl Remarks {
    /// Passes a remark on, unless there were too many.
    pub(crate) fn make(&mut self, what: impl Into<String>, out: &mut Out) {
        self.0 = self.0.saturating_add(1);
        if self.0 <= MOST_REMARKS {
            out.update(Update::Remark { what: what.into() });
        }
        if self.0 == MOST_REMARKS {
            out.update(Update::Remark { what: "no more remarks about this run".into() });
        }
    }
}

/// The answer that is one option.
#[cfg(test)]
pub(crate) fn chosen(id: &str) -> berth_core::Reply {
    let option =
        berth_core::AskOption { id: id.to_owned(), name: String::new(), kind: berth_core::AskKind::Other };
    berth_core::Reply { chosen: vec![option], text: None }
}

#[cfg(test)]
mod tests {
    use berth_core::Failure;

    use super::{Gathered, Remarks, failure_in, quote, within};
    use crate::{MAX_ANSWER_BYTES, Out};

    #[test]
    fn an_answer_is_cut_between_characters_and_says_so() {
        let mut gathered = Gathered::default();
        gathered.add(&"x".repeat(MAX_ANSWER_BYTES - 1));
        gathered.add("é");
        gathered.add("more");
        let (text, cut) = gathered.into_parts();
        assert_eq!((text.len(), cut), (MAX_ANSWER_BYTES - 1, true));
    }

    #[test]
    fn the_words_of_an_error_tell_whether_the_model_refused() {
        for (said, failure) in [
            ("API Error: 429 rate_limit_error", Failure::Limit),
            ("You've hit your limit · resets 3pm", Failure::Limit),
            ("exceeded retry limit, last status: 429 Too Many Requests", Failure::Limit),
            ("Internal error: API Error: 529 Overloaded", Failure::Overloaded),
            ("unexpected status 503 Service Unavailable", Failure::Overloaded),
            ("unexpected status 401 Unauthorized", Failure::Login),
            ("HTTP/1.1 503 Service Unavailable", Failure::Overloaded),
            ("Selected model is at capacity. Please try a different model.", Failure::Overloaded),
            (r#"{"statusCode":403}"#, Failure::Login),
            ("API Error: 500 internal", Failure::Other),
            ("patch failed at line 429", Failure::Other),
            ("error in main.rs: 401 tests, 503 warnings", Failure::Other),
            ("line 4290 of a file", Failure::Other),
            ("", Failure::Other),
        ] {
            assert_eq!(failure_in(said), failure, "{said}");
        }
    }

    #[test]
    fn remarks_come_to_an_end() {
        let (mut remarks, mut out) = (Remarks::default(), Out::default());
        for number in 0..1000 {
            remarks.make(format!("number {number}"), &mut out);
        }
        assert_eq!(out.updates.len(), 21);
    }

    #[test]
    fn quotes_are_short() {
        assert_eq!(within("aé", 2), "a");
        assert_eq!(quote(" said\n"), "said");
        assert!(quote(&"é".repeat(5000)).len() < 4200);
    }
}
