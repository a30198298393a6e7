//! Answer of a turn, from its messages: in pieces, whole, or in pieces and then whole.
//!
//! Promise: at most [`MAX_ANSWER_BYTES`] are kept, cut between characters; text that came in pieces is not passed on
//! again when its message comes whole; a message that is begun anew after a lost connection counts once.
//! Not here: the turn that a message belongs to (see the parent).
//! Start with [`CodexAnswer::piece`] and [`CodexAnswer::whole`].

use std::collections::VecDeque;

use crate::MAX_ANSWER_BYTES;

/// Separator of two messages.
const BETWEEN: &str = "\n\n";
/// Number of remembered messages of a turn, to recognise repeated ones. Codex writes one after the other.
const MOST_KNOWN: usize = 32;
/// Longest id of a message. Real ones are a tenth of it.
const MAX_ID_BYTES: usize = 512;

#[derive(Debug, Default)]
pub(super) struct CodexAnswer {
    text: String,
    cut: bool,
    /// True once text was passed on, so that the next message needs a separator.
    said: bool,
    open: Option<OpenMessage>,
    /// Messages that are over, or were left for another one.
    known: VecDeque<String>,
}

/// The message that is arriving.
#[derive(Debug)]
struct OpenMessage {
    id: String,
    /// Length of the answer before this message.
    before: usize,
    /// Offset at which its own text begins.
    from: usize,
    /// Number of its bytes that arrived, kept or not.
    bytes: usize,
}

impl CodexAnswer {
    /// Takes a piece of a message. Returns the text to pass on.
    pub(super) fn piece(&mut self, id: &str, piece: &str) -> Option<String> {
        if piece.is_empty() || id.len() > MAX_ID_BYTES {
            return None;
        }
        let goes_on = self.open.as_ref().is_some_and(|open| open.id == id);
        let mut said = String::new();
        if !goes_on {
            self.close();
            let before = self.text.len();
            if before > 0 {
                self.keep(BETWEEN);
            }
            if self.said {
                said.push_str(BETWEEN);
            }
            self.open = Some(OpenMessage { id: id.to_owned(), before, from: self.text.len(), bytes: 0 });
        }
        self.keep(piece);
        if let Some(open) = &mut self.open {
            open.bytes += piece.len();
        }
        self.said = true;
        said.push_str(piece);
        Some(said)
    }

    /// Takes a whole message. Returns the part that was not passed on yet.
    pub(super) fn whole(&mut self, id: &str, text: &str) -> Option<String> {
        let Some(open) = self.open.as_ref().filter(|open| open.id == id) else {
            if self.known.iter().any(|known| known == id) {
                return None;
            }
            let said = self.piece(id, text);
            self.close();
            return said;
        };
        let came = self.text.get(open.from..).unwrap_or_default();
        let rest = text.get(open.bytes..).filter(|_| text.starts_with(came));
        let said = match rest {
            Some(rest) => self.piece(id, rest),
            None => {
                // The whole message counts, but text that was passed on cannot be taken back.
                self.text.truncate(open.from);
                self.cut = false;
                self.keep(text);
                None
            }
        };
        self.close();
        said
    }

    /// Drops the arriving message: it will be written anew.
    pub(super) fn discard_open(&mut self) {
        if let Some(open) = self.open.take()
            && self.text.len() > open.before
        {
            self.text.truncate(open.before);
            self.cut = false;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The text, and true if it is only the beginning.
    pub(super) fn take(&mut self) -> (String, bool) {
        let Self { text, cut, .. } = std::mem::take(self);
        (text, cut)
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            if self.known.len() == MOST_KNOWN {
                self.known.pop_front();
            }
            self.known.push_back(open.id);
        }
    }

    fn keep(&mut self, piece: &str) {
        if self.cut {
            return;
        }
        let fits = piece.floor_char_boundary(MAX_ANSWER_BYTES - self.text.len());
        self.cut = fits < piece.len();
        self.text.push_str(&piece[..fits]);
    }
}

#[cfg(test)]
mod tests {
    use super::{CodexAnswer, MAX_ANSWER_BYTES};

    #[test]
    fn text_that_came_in_pieces_is_not_passed_on_again() {
        let mut answer = CodexAnswer::default();
        let mut said = String::new();
        said.extend(answer.piece("a", "one "));
        said.extend(answer.piece("a", "two"));
        said.extend(answer.whole("a", "one two three"));
        said.extend(answer.whole("a", "one two three"));
        said.extend(answer.whole("b", "four"));
        assert_eq!(said, "one two three\n\nfour");
        assert_eq!(answer.take(), (said, false));
    }

    #[test]
    fn a_message_that_is_written_anew_counts_once() {
        let mut answer = CodexAnswer::default();
        answer.whole("a", "first");
        answer.piece("b", "half of");
        answer.discard_open();
        assert_eq!(answer.piece("c", "half of it").as_deref(), Some("\n\nhalf of it"));
        assert_eq!(answer.take(), ("first\n\nhalf of it".into(), false));
    }

    #[test]
    fn the_last_word_on_a_message_is_the_whole_of_it() {
        let mut answer = CodexAnswer::default();
        answer.piece("a", "one to");
        assert_eq!(answer.whole("a", "one, two"), None);
        assert_eq!(answer.take(), ("one, two".into(), false));
    }

    #[test]
    fn too_much_is_cut_between_characters_and_still_said() {
        let mut answer = CodexAnswer::default();
        let long = "x".repeat(MAX_ANSWER_BYTES - 1);
        answer.piece("a", &long);
        assert_eq!(answer.piece("a", "é").as_deref(), Some("é"));
        assert_eq!(answer.whole("a", &format!("{long}é!")).as_deref(), Some("!"));
        answer.whole("b", "more");
        let (text, cut) = answer.take();
        assert_eq!((text.len(), cut), (MAX_ANSWER_BYTES - 1, true));
    }

    #[test]
    fn a_cut_message_that_is_dropped_leaves_room_again() {
        let mut answer = CodexAnswer::default();
        answer.piece("a", &"x".repeat(MAX_ANSWER_BYTES + 1));
        answer.discard_open();
        answer.whole("b", "short");
        assert_eq!(answer.take(), ("short".into(), false));
    }
}
