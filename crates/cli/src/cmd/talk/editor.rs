//! The message a person writes: an editor of a few lines.
//!
//! Promise: what is sent is what was typed and pasted, to the byte; nothing is sent but by Enter; what belongs
//! together (marks, joined emoji) is moved over and removed together.
//! Not here: reading keys (`keys`), painting (`foot`).
//! Start with [`Editor::take`].

use super::cells::{self, Row};
use super::keys::Key;
use crate::visible::Visible;

/// A paste of more lines than this is shown folded, and so is one of more bytes than that.
const FOLD_FROM_LINES: usize = 6;
const FOLD_FROM_BYTES: usize = 2000;
/// How many messages are remembered.
const MAX_HISTORY: usize = 1000;

/// What a key did.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Did {
    /// It is not for the editor.
    Nothing,
    Changed,
    /// This is to be sent.
    Send(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    /// What belongs together; a line break as well.
    Cluster(String),
    /// A long paste, shown as one word.
    Folded(String),
}

impl Piece {
    fn text(&self) -> &str {
        match self {
            Self::Cluster(text) | Self::Folded(text) => text,
        }
    }

    fn is(&self, text: &str) -> bool {
        matches!(self, Self::Cluster(it) if it == text)
    }

    fn is_word(&self) -> bool {
        match self {
            Self::Cluster(text) => text.chars().any(|c| c.is_alphanumeric() || c == '_'),
            Self::Folded(_) => true,
        }
    }
}

/// What is written so far, and what was sent before.
#[derive(Debug, Default)]
pub(super) struct Editor {
    pieces: Vec<Piece>,
    /// How many pieces are before the cursor.
    at: usize,
    history: Vec<String>,
    /// Which of the history is shown, and what was written before that.
    looking: Option<(usize, Vec<Piece>)>,
}

impl Editor {
    /// What can be brought back with the key Up, the latest last.
    pub(super) fn remember(&mut self, text: &str) {
        if self.history.last().is_none_or(|last| last != text) {
            self.history.push(text.to_owned());
        }
        if self.history.len() > MAX_HISTORY {
            self.history.remove(0);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn clear(&mut self) {
        (self.pieces, self.at, self.looking) = (Vec::new(), 0, None);
    }

    /// Puts a text here that could not be sent, before what was written meanwhile.
    pub(super) fn give_back(&mut self, text: &str) {
        let after = std::mem::take(&mut self.pieces);
        self.pieces = pieces(text);
        if !after.is_empty() {
            self.pieces.push(Piece::Cluster("\n".to_owned()));
            self.pieces.extend(after);
        }
        self.at = self.pieces.len();
    }

    fn text(&self) -> String {
        self.pieces.iter().map(Piece::text).collect()
    }

    pub(super) fn take(&mut self, key: &Key) -> Did {
        match key {
            Key::Char(c) => self.insert_char(*c),
            Key::Paste(text) => self.insert_paste(text),
            Key::NewLine => self.insert(Piece::Cluster("\n".to_owned())),
            Key::Enter => return self.enter(),
            Key::Backspace => {
                if self.at > 0 {
                    self.at -= 1;
                    self.pieces.remove(self.at);
                }
            }
            Key::Delete => {
                if self.at < self.pieces.len() {
                    self.pieces.remove(self.at);
                }
            }
            Key::Left => self.at = self.at.saturating_sub(1),
            Key::Right => self.at = (self.at + 1).min(self.pieces.len()),
            Key::WordLeft => self.at = self.word_left(),
            Key::WordRight => self.at = self.word_right(),
            Key::Home => self.at = self.line_start(self.at),
            Key::End => self.at = self.line_end(self.at),
            Key::CutBefore => self.cut(self.line_start(self.at)),
            Key::CutWord => self.cut(self.word_left()),
            Key::CutAfter => {
                self.pieces.drain(self.at..self.line_end(self.at));
            }
            Key::Up => self.up(),
            Key::Down => self.down(),
            Key::Redraw | Key::Interrupt | Key::EndOfInput | Key::Leave | Key::Suspend => {
                return Did::Nothing;
            }
        }
        Did::Changed
    }

    fn enter(&mut self) -> Did {
        // As a shell has it: a line that ends with a backslash goes on in the next one.
        if self.at > 0 && self.pieces[self.at - 1].is("\\") {
            self.pieces[self.at - 1] = Piece::Cluster("\n".to_owned());
            return Did::Changed;
        }
        let text = self.text();
        if text.trim().is_empty() {
            return Did::Changed;
        }
        self.clear();
        self.remember(&text);
        Did::Send(text)
    }

    fn insert(&mut self, piece: Piece) {
        self.pieces.insert(self.at, piece);
        self.at += 1;
    }

    fn insert_char(&mut self, c: char) {
        if self.at > 0
            && let Piece::Cluster(before) = &mut self.pieces[self.at - 1]
            && cells::joins(before, c)
        {
            before.push(c);
            return;
        }
        self.insert(Piece::Cluster(c.to_string()));
    }

    fn insert_paste(&mut self, text: &str) {
        let added = pieces(text);
        let count = added.len();
        self.pieces.splice(self.at..self.at, added);
        self.at += count;
    }

    fn cut(&mut self, from: usize) {
        self.pieces.drain(from..self.at);
        self.at = from;
    }

    fn line_start(&self, at: usize) -> usize {
        self.pieces[..at].iter().rposition(|piece| piece.is("\n")).map_or(0, |found| found + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        self.pieces[at..]
            .iter()
            .position(|piece| piece.is("\n"))
            .map_or(self.pieces.len(), |found| at + found)
    }

    fn word_left(&self) -> usize {
        let before = &self.pieces[..self.at];
        let word = before.iter().rposition(Piece::is_word).map_or(0, |last| last + 1);
        before[..word].iter().rposition(|piece| !piece.is_word()).map_or(0, |found| found + 1)
    }

    fn word_right(&self) -> usize {
        let start = self.pieces[self.at..].iter().position(Piece::is_word);
        let start = start.map_or(self.pieces.len(), |found| self.at + found);
        let end = self.pieces[start..].iter().position(|piece| !piece.is_word());
        end.map_or(self.pieces.len(), |found| start + found)
    }

    fn up(&mut self) {
        let start = self.line_start(self.at);
        if start > 0 {
            let above = self.line_start(start - 1);
            self.at = (above + self.at - start).min(start - 1);
            return;
        }
        let shown = self.looking.as_ref().map_or(self.history.len(), |(shown, _)| *shown);
        let Some(earlier) = shown.checked_sub(1) else { return };
        let draft = match self.looking.take() {
            Some((_, draft)) => draft,
            None => std::mem::take(&mut self.pieces),
        };
        self.show(pieces(&self.history[earlier]), Some((earlier, draft)));
    }

    fn down(&mut self) {
        let end = self.line_end(self.at);
        if end < self.pieces.len() {
            let column = self.at - self.line_start(self.at);
            self.at = (end + 1 + column).min(self.line_end(end + 1));
            return;
        }
        let Some((shown, draft)) = self.looking.take() else { return };
        match self.history.get(shown + 1) {
            Some(later) => self.show(pieces(later), Some((shown + 1, draft))),
            None => self.show(draft, None),
        }
    }

    fn show(&mut self, pieces: Vec<Piece>, looking: Option<(usize, Vec<Piece>)>) {
        (self.at, self.pieces, self.looking) = (pieces.len(), pieces, looking);
    }

    /// The rows to paint after a prompt (its styled text, its width), and where the cursor is: row and column.
    pub(super) fn rows(&self, prompt: (&Visible, usize), columns: usize) -> (Vec<Row>, (usize, usize)) {
        let columns = columns.max(1);
        // What follows is indented like the first line, where there is room.
        let indent = if prompt.1 * 4 <= columns { prompt.1 } else { 0 };
        let begun = || Row { text: " ".repeat(indent).into(), width: indent };
        let mut rows = vec![Row::default()];
        if prompt.1 < columns {
            rows[0].push(prompt.0, prompt.1);
        }
        let mut cursor = (0, rows[0].width);
        for (number, piece) in self.pieces.iter().enumerate() {
            if number == self.at {
                cursor = (rows.len() - 1, rows[rows.len() - 1].width);
            }
            if piece.is("\n") {
                rows.push(begun());
                continue;
            }
            let shown = match piece {
                Piece::Cluster(text) => crate::print::visible(text).replace('\t', "    "),
                Piece::Folded(text) => folded(text),
            };
            for cluster in cells::clusters(&shown) {
                let (cluster, wide) = cells::fitting(cluster, columns);
                if rows[rows.len() - 1].width + wide > columns {
                    rows.push(if indent + wide <= columns { begun() } else { Row::default() });
                    if number == self.at && cursor.1 >= columns {
                        cursor = (rows.len() - 1, rows[rows.len() - 1].width);
                    }
                }
                let last = rows.len() - 1;
                rows[last].push(cluster, wide);
            }
        }
        if self.at == self.pieces.len() {
            // The cursor needs a cell of its own.
            if rows[rows.len() - 1].width >= columns {
                rows.push(Row::default());
            }
            cursor = (rows.len() - 1, rows[rows.len() - 1].width);
        }
        (rows, (cursor.0, cursor.1.min(columns - 1)))
    }
}

/// A text taken apart; a long one is one piece.
fn pieces(text: &str) -> Vec<Piece> {
    if text.lines().nth(FOLD_FROM_LINES - 1).is_some() || text.len() > FOLD_FROM_BYTES {
        return vec![Piece::Folded(text.to_owned())];
    }
    cells::clusters(text).into_iter().map(|cluster| Piece::Cluster(cluster.to_owned())).collect()
}

fn folded(text: &str) -> String {
    match text.lines().count() {
        0 | 1 => format!("[pasted {} characters]", text.chars().count()),
        lines => format!("[pasted {lines} lines]"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keys;
    use super::*;

    fn typed(editor: &mut Editor, keys: &str) -> Vec<String> {
        let sent =
            Keys::default().push(keys.as_bytes()).into_iter().filter_map(|key| match editor.take(&key) {
                Did::Send(text) => Some(text),
                Did::Nothing | Did::Changed => None,
            });
        sent.collect()
    }

    fn sent(keys: &str) -> Vec<String> {
        typed(&mut Editor::default(), keys)
    }

    #[test]
    fn a_paste_of_many_lines_is_one_message_with_what_was_typed_around_it() {
        let paste: String = (1..=312).map(|n| format!("line {n}\r")).collect();
        let mut editor = Editor::default();
        assert_eq!(typed(&mut editor, &format!("look: \x1b[200~{paste}\x1b[201~ ok?")), [""; 0]);
        let (rows, cursor) = editor.rows((&Visible::from("> "), 2), 80);
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
    fn up_brings_back_what_was_sent_and_down_what_was_being_written() {
        let mut editor = Editor::default();
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
            let mut editor = Editor::default();
            for key in Keys::default()
                .push("some words 漢字 and\x1b\rmore e\u{301}👍🏽 \x1b[200~a\rb\rc\x1b[201~".as_bytes())
            {
                editor.take(&key);
                for _ in 0..4 {
                    let (rows, cursor) = editor.rows((&Visible::from("> "), 2), columns);
                    assert!(rows.iter().all(|row| row.width <= columns), "{columns}: {rows:?}");
                    assert!(cursor.0 < rows.len() && cursor.1 < columns, "{columns}: {cursor:?} {rows:?}");
                    editor.take(&Key::Left);
                }
                editor.take(&Key::End);
                editor.at = editor.pieces.len();
            }
        }
    }

    #[test]
    fn what_could_not_be_sent_comes_back_before_what_was_written_meanwhile() {
        let mut editor = Editor::default();
        typed(&mut editor, "later");
        editor.give_back("first");
        assert_eq!(typed(&mut editor, "\r"), ["first\nlater"]);
    }
}
