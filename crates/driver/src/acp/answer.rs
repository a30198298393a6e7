//! Answer of a turn, joined from its pieces.
//!
//! Promise: the returned pieces, joined, are the kept answer; separate messages have a blank line between them.
//! Not here: the turn that a piece belongs to (the driver knows it).
//! Start with [`AcpAnswer::piece`].

use super::tool_call::MAX_ID_BYTES;
use crate::MAX_ANSWER_BYTES;

/// Size limit of a kept notice.
pub(super) const MAX_NOTICE_BYTES: usize = 1 << 10;

/// Text of a turn so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct AcpAnswer {
    pub(super) text: String,
    pub(super) cut: bool,
    /// Id of the message of the last piece, if the agent gave one.
    message: Option<String>,
    /// True if something else came since the last piece.
    is_apart: bool,
    /// The last notice, or piece without a message id: agents report errors in these.
    pub(super) notice: String,
}

impl AcpAnswer {
    /// Takes a piece. Returns the text to pass on.
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

    /// Notes a tool call: the next piece belongs to another message, unless its id says otherwise.
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
