//! A line, or a few, that a person writes: the message to a session, or the filter.
//!
//! Promise: what is in it is plain text within the limit: control characters never get in but line ends and
//! tabs. The cursor is always between two characters.
//! Start with [`Composer::insert`].

use berth_core::MAX_PROMPT_BYTES;

use super::keys::Key;

/// What is being written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Composer {
    text: String,
    /// In bytes, at the beginning of a character.
    cursor: usize,
}

/// It would be more than can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLong;

impl Composer {
    /// Something written before, to go on with.
    pub(crate) fn with(text: String) -> Self {
        Self { cursor: text.len(), text }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Where the cursor is, in bytes.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Puts text in at the cursor, or nothing of it if it is too much.
    pub(crate) fn insert(&mut self, text: &str) -> Result<(), TooLong> {
        let plain: String = text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
        if self.text.len() + plain.len() > MAX_PROMPT_BYTES {
            return Err(TooLong);
        }
        self.text.insert_str(self.cursor, &plain);
        self.cursor += plain.len();
        Ok(())
    }

    /// What a key does to it; keys that mean nothing here do nothing.
    pub(crate) fn edit(&mut self, key: Key) -> Result<(), TooLong> {
        match key {
            Key::Char(c) => return self.insert(c.encode_utf8(&mut [0; 4])),
            Key::Backspace => self.backspace(),
            Key::Delete | Key::Ctrl('d') => self.delete(),
            Key::Left | Key::Ctrl('b') => self.left(),
            Key::Right | Key::Ctrl('f') => self.right(),
            Key::Home | Key::Ctrl('a') => self.home(),
            Key::End | Key::Ctrl('e') => self.end(),
            Key::Ctrl('w') => self.drop_word(),
            Key::Ctrl('u') => self.drop_line(),
            Key::Ctrl(_)
            | Key::Alt(_)
            | Key::AltEnter
            | Key::Enter
            | Key::Esc
            | Key::Tab
            | Key::BackTab
            | Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown => {}
        }
        Ok(())
    }

    fn backspace(&mut self) {
        let from = self.before();
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }

    fn delete(&mut self) {
        let until = self.after();
        self.text.replace_range(self.cursor..until, "");
    }

    fn left(&mut self) {
        self.cursor = self.before();
    }

    fn right(&mut self) {
        self.cursor = self.after();
    }

    /// To the beginning of the line.
    fn home(&mut self) {
        self.cursor = self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1);
    }

    /// To the end of the line.
    fn end(&mut self) {
        self.cursor = self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at);
    }

    /// Takes away the word before the cursor.
    fn drop_word(&mut self) {
        let before = self.text[..self.cursor].trim_end();
        let from = before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }

    /// Takes away the line before the cursor.
    fn drop_line(&mut self) {
        let from = self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1);
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |c| self.cursor + c.len_utf8())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_and_taking_back_keeps_characters_whole() {
        let mut line = Composer::default();
        line.insert("naïve 日本").expect("short");
        line.left();
        line.backspace();
        line.insert("x").expect("short");
        assert_eq!(line.text(), "naïve x本");
        line.home();
        line.delete();
        line.end();
        line.drop_word();
        assert_eq!((line.text(), line.cursor()), ("aïve ", "aïve ".len()));
        line.drop_line();
        line.backspace();
        line.delete();
        line.left();
        assert_eq!(line, Composer::default());
    }

    #[test]
    fn what_a_terminal_would_obey_does_not_get_in() {
        let mut line = Composer::default();
        line.insert("a\x1b[31mb\tc\r\nd\x07\u{9b}").expect("short");
        assert_eq!(line.text(), "a[31mb\tc\nd");
    }

    #[test]
    fn more_than_can_be_sent_is_refused_as_a_whole() {
        let mut line = Composer::with("x".repeat(MAX_PROMPT_BYTES - 1));
        assert_eq!(line.insert("é"), Err(TooLong));
        assert_eq!(line.insert("y"), Ok(()));
        assert_eq!(line.insert("z"), Err(TooLong));
        assert_eq!(line.text().len(), MAX_PROMPT_BYTES);
    }
}
