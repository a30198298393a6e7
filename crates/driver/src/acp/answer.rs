//! What an agent says in a turn, put together from pieces.
//!
//! Promise: the pieces passed on, one after the other, are the answer, as far as it is kept; messages of
//! their own have a blank line between them.
//! Not here: which pieces belong to a turn (the driver knows).
//! Start with [`Answer::piece`].

use super::tool::MAX_ID_BYTES;
use crate::MAX_ANSWER_BYTES;

/// How much of a notice is kept.
pub(super) const MAX_NOTICE_BYTES: usize = 1 << 10;

/// The text of a turn so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) cut: bool,
    /// Which message the last piece was of, if it said so.
    message: Option<String>,
    /// Something else came since the last piece.
    is_apart: bool,
    /// The last notice, or piece that was of no message: agents say in such what went wrong.
    pub(super) notice: String,
}

impl Answer {
    /// Takes in a piece; what to pass on.
    pub(super) fn piece(&mut self, message: Option<&str>, piece: &str) -> String {
        let message = message.map(|id| &id[..id.floor_char_boundary(MAX_ID_BYTES)]);
        let is_another = match message {
            Some(id) => self.message.as_deref() != Some(id),
            None => self.message.is_some() || self.is_apart,
        };
        let separator = match &self.text {
            text if !is_another || text.is_empty() || text.ends_with("\n\n") => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        if message.is_none() {
            self.notice = piece[..piece.floor_char_boundary(MAX_NOTICE_BYTES)].to_owned();
        }
        self.message = message.map(str::to_owned);
        self.is_apart = false;
        let said = [separator, piece].concat();
        self.keep(&said);
        said
    }

    /// A tool was called: what comes after it is something else, if it does not say otherwise.
    pub(super) fn apart(&mut self) {
        self.is_apart = true;
    }

    fn keep(&mut self, said: &str) {
        let room = if self.cut { 0 } else { MAX_ANSWER_BYTES - self.text.len() };
        let fits = said.floor_char_boundary(room);
        self.text.push_str(&said[..fits]);
        self.cut |= fits < said.len();
    }
}
