//! The message that the user writes in the chat, and the history of sent messages.
//!
//! Promise: a message is sent exactly as it was typed and pasted, to the byte; only Enter sends.
//! Not here: reading keys (`keys`), editing (`composer`), painting (`input`).
//! Start with [`MessageEditor::take`].

use crate::cells::CellRow;
use crate::composer::{Composer, TextTooLong};
use crate::keys::{InputEvent, KeyPress};
use crate::safe_text::SafeText;

/// Limit of messages in the history.
const MAX_HISTORY: usize = 1000;

/// The message that is being written, and the history.
#[derive(Debug, Default)]
pub(super) struct MessageEditor {
    message: Composer,
    history: Vec<String>,
    /// While the history is shown: the index of the shown message, and the draft from before.
    looking: Option<(usize, Composer)>,
}

impl MessageEditor {
    /// Adds a message to the end of the history, which the key Up brings back.
    pub(super) fn remember(&mut self, text: &str) {
        if self.history.last().is_none_or(|last| last != text) {
            self.history.push(text.to_owned());
        }
        if self.history.len() > MAX_HISTORY {
            self.history.remove(0);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.message.is_empty()
    }

    pub(super) fn clear(&mut self) {
        (self.message, self.looking) = (Composer::default(), None);
    }

    /// Puts a text that could not be sent before the text that was written meanwhile.
    pub(super) fn give_back(&mut self, text: &str) {
        let message = std::mem::replace(&mut self.message, Composer::folded(text.to_owned()));
        // An unchanged message of the history may be dropped here: the history has it. The draft is nowhere else.
        let after = match self.looking.take() {
            Some((shown, draft)) if self.history.get(shown).is_some_and(|sent| sent == message.text()) => {
                draft
            }
            Some(_) | None => message,
        };
        if !after.is_empty() {
            self.message.paste("\n");
            self.message.paste(after.text());
        }
    }

    /// Handles one input of the user. Returns a message that is to be sent. Rejects a paste of which a part is missing;
    /// any other message that is too long is refused when it is sent.
    pub(super) fn take(&mut self, input: &InputEvent) -> Result<Option<String>, TextTooLong> {
        match input {
            InputEvent::Paste { cut: true, .. } => return Err(TextTooLong),
            InputEvent::Paste { text, cut: false } => self.message.paste(text),
            InputEvent::Key(KeyPress::Char(c)) if c.is_control() => {}
            InputEvent::Key(KeyPress::Char(c)) => self.message.paste(c.encode_utf8(&mut [0; 4])),
            InputEvent::Key(KeyPress::Enter) => return Ok(self.enter()),
            InputEvent::Key(KeyPress::NewLine) => self.message.paste("\n"),
            InputEvent::Key(KeyPress::Up | KeyPress::Ctrl('p')) => self.up(),
            InputEvent::Key(KeyPress::Down | KeyPress::Ctrl('n')) => self.down(),
            InputEvent::Key(key) => self.message.edit(*key)?,
            InputEvent::Click { .. } | InputEvent::Wheel { .. } => {}
        }
        Ok(None)
    }

    fn enter(&mut self) -> Option<String> {
        // As in a shell, a line that ends with a backslash continues on the next line.
        if self.message.break_line_at_backslash() || self.message.text().trim().is_empty() {
            return None;
        }
        let text = self.message.text().to_owned();
        self.clear();
        self.remember(&text);
        Some(text)
    }

    fn up(&mut self) {
        if self.message.line_up() {
            return;
        }
        let shown = self.looking.as_ref().map_or(self.history.len(), |(shown, _)| *shown);
        let Some(earlier) = shown.checked_sub(1) else { return };
        let message = std::mem::replace(&mut self.message, Composer::folded(self.history[earlier].clone()));
        let draft = self.looking.take().map_or(message, |(_, draft)| draft);
        self.looking = Some((earlier, draft));
    }

    fn down(&mut self) {
        if self.message.line_down() {
            return;
        }
        let Some((shown, draft)) = self.looking.take() else { return };
        match self.history.get(shown + 1) {
            Some(later) => {
                self.message = Composer::folded(later.clone());
                self.looking = Some((shown + 1, draft));
            }
            None => self.message = draft,
        }
    }

    /// The rows of the message, and the cursor in them; see [`Composer::rows`].
    pub(super) fn rows(&self, prompt: (&SafeText, usize), columns: usize) -> (Vec<CellRow>, (usize, usize)) {
        self.message.rows(prompt, columns)
    }
}

#[cfg(test)]
mod tests {
    use berth_core::MAX_PROMPT_BYTES;

    use super::*;
    use crate::keys::KeyParser;

    fn typed(editor: &mut MessageEditor, keys: &str) -> Vec<String> {
        KeyParser::default()
            .push(keys.as_bytes())
            .iter()
            .filter_map(|input| editor.take(input).expect("short"))
            .collect()
    }

    fn sent(keys: &str) -> Vec<String> {
        typed(&mut MessageEditor::default(), keys)
    }

    #[test]
    fn a_paste_of_many_lines_is_one_message_with_the_text_typed_around_it() {
        let paste: String = (1..=312).map(|n| format!("line {n}\r")).collect();
        let mut editor = MessageEditor::default();
        assert_eq!(typed(&mut editor, &format!("look: \x1b[200~{paste}\x1b[201~ ok?")), [""; 0]);
        let (rows, cursor) = editor.rows((&SafeText::from("> "), 2), 80);
        assert_eq!(rows[0].text.as_str(), "> look: [pasted 312 lines] ok?");
        assert_eq!(cursor, (0, rows[0].width));
        let all: String = (1..=312).map(|n| format!("line {n}\n")).collect();
        assert_eq!(typed(&mut editor, "\r"), [format!("look: {all} ok?")]);
        assert!(editor.is_empty());
    }

    #[test]
    fn alt_enter_and_a_backslash_before_enter_make_a_line_and_send_nothing() {
        assert_eq!(sent("one\x1b\rtwo\\\rthree\r"), ["one\ntwo\nthree"]);
        assert_eq!(sent("\r  \r\x1b\r\r"), [""; 0], "a blank message is none");
    }

    #[test]
    fn a_folded_paste_is_removed_as_one_and_wide_characters_and_marks_one_by_one() {
        let paste = "x\r".repeat(20);
        assert_eq!(sent(&format!("a\x1b[200~{paste}\x1b[201~\x7fb\r")), ["ab"]);
        assert_eq!(sent("漢字e\u{301}👍🏽\x7f\x7f\x7f!\r"), ["漢!"]);
        assert_eq!(sent("漢字\x1b[D\x1b[Dx\x1b[3~\r"), ["x字"]);
    }

    #[test]
    fn keys_of_shells_move_and_cut() {
        assert_eq!(sent("two words\x17new\x01first \x05!\r"), ["first two new!"]);
        assert_eq!(sent("abc\x15def\x02\x02\x0b\r"), ["d"]);
        assert_eq!(sent("one two\x1bb\x1bbx\x1bfy\r"), ["xoney two"]);
    }

    #[test]
    fn up_brings_back_sent_messages_and_down_the_draft() {
        let mut editor = MessageEditor::default();
        editor.remember("before");
        assert_eq!(typed(&mut editor, "one\r"), ["one"]);
        assert_eq!(typed(&mut editor, "draft\x1b[A\x1b[A\x1b[A\x1b[B\x1b[B+\r"), ["draft+"]);
        assert_eq!(typed(&mut editor, "\x1b[A\x1b[A\x1b[A\r"), ["before"]);
    }

    #[test]
    fn up_and_down_move_within_a_message_of_lines_first() {
        assert_eq!(sent("abc\x1b\rde\x1b[AX\x1b[BY\r"), ["abXc\ndeY"]);
    }

    #[test]
    fn rows_fit_and_the_cursor_is_in_one_of_them_in_any_width() {
        for columns in 1..30 {
            let mut editor = MessageEditor::default();
            for input in KeyParser::default()
                .push("some words 漢字 and\x1b\rmore e\u{301}👍🏽 \x1b[200~a\rb\rc\x1b[201~".as_bytes())
            {
                editor.take(&input).expect("short");
                for _ in 0..4 {
                    let (rows, cursor) = editor.rows((&SafeText::from("> "), 2), columns);
                    assert!(rows.iter().all(|row| row.width <= columns), "{columns}: {rows:?}");
                    assert!(cursor.0 < rows.len() && cursor.1 < columns, "{columns}: {cursor:?} {rows:?}");
                    editor.take(&InputEvent::Key(KeyPress::Left)).expect("short");
                }
                for _ in 0..4 {
                    editor.take(&InputEvent::Key(KeyPress::Right)).expect("short");
                }
            }
        }
    }

    #[test]
    fn a_text_that_could_not_be_sent_comes_back_before_the_text_written_meanwhile() {
        let mut editor = MessageEditor::default();
        typed(&mut editor, "later");
        editor.give_back("first");
        assert_eq!(typed(&mut editor, "\r"), ["first\nlater"]);
    }

    #[test]
    fn a_text_that_could_not_be_sent_comes_back_before_the_draft_while_the_history_is_shown() {
        let mut editor = MessageEditor::default();
        editor.remember("sent");
        typed(&mut editor, "draft\x1b[A");
        editor.give_back("first");
        assert_eq!(typed(&mut editor, "\x1b[B!\r"), ["first\ndraft!"]);
    }

    #[test]
    fn a_character_typed_into_a_message_of_the_greatest_length_is_part_of_what_is_sent() {
        let mut editor = MessageEditor::default();
        let long = "x".repeat(MAX_PROMPT_BYTES);
        assert_eq!(typed(&mut editor, &format!("\x1b[200~{long}\x1b[201~é\u{9b}\r")), [format!("{long}é")]);
    }

    #[test]
    fn a_paste_of_which_a_part_is_missing_is_refused_and_not_inserted() {
        let mut editor = MessageEditor::default();
        typed(&mut editor, "before ");
        let paste = format!("\x1b[200~{}\x1b[201~", "x".repeat(2 * MAX_PROMPT_BYTES));
        let taken: Vec<_> =
            KeyParser::default().push(paste.as_bytes()).iter().map(|input| editor.take(input)).collect();
        assert_eq!(taken, [Err(TextTooLong)]);
        assert_eq!(typed(&mut editor, "after\r"), ["before after"]);
    }
}
