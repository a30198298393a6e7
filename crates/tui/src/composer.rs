//! A text editor of one or a few lines, with a cursor: for the chat and for the dashboard.
//!
//! Promise: the cursor and deletions treat joined characters (marks, emoji) as one; a paste is kept to the byte; typed
//! or inserted text has no control characters but line ends and tabs.
//! Not here: reading keys (`keys`), sending the text.
//! Start with [`Composer::edit`].

use std::ops::Range;

use berth_core::MAX_PROMPT_BYTES;

use crate::cells::{self, CellRow};
use crate::keys::KeyPress;
use crate::safe_text::SafeText;

/// A paste of more lines than this is shown folded, and so is one of more bytes than that.
const FOLD_FROM_LINES: usize = 6;
const FOLD_FROM_BYTES: usize = 2000;
/// How much of a very long text is laid out, before and after the cursor.
const MOST_BYTES_SHOWN: usize = 16 << 10;
/// The longest cluster of joined characters that is searched for.
const MOST_CLUSTER_BYTES: usize = 256;

/// A text, with its cursor and folds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Composer {
    text: String,
    /// Offset of the cursor in bytes, always between two clusters.
    cursor: usize,
    /// Parts that are shown as one word each, in order.
    folds: Vec<Range<usize>>,
}

/// Error: the text would be longer than a turn can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TextTooLong;

impl Composer {
    /// Starts with an earlier text.
    pub(crate) fn with(text: String) -> Self {
        Self { cursor: text.len(), text, folds: vec![] }
    }

    /// Starts with an earlier text, folded if it is long.
    pub(crate) fn folded(text: String) -> Self {
        let mut composer = Self::default();
        composer.paste(&text);
        composer
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Inserts text at the cursor: all of it, or nothing if it does not fit.
    pub(crate) fn insert(&mut self, text: &str) -> Result<(), TextTooLong> {
        let plain: String = text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
        if self.text.len() + plain.len() > MAX_PROMPT_BYTES {
            return Err(TextTooLong);
        }
        self.replace(self.cursor..self.cursor, &plain);
        Ok(())
    }

    /// Inserts a text at the cursor as it is, folded if it is long. A text that is too long is refused when it is sent.
    pub(crate) fn paste(&mut self, text: &str) {
        let from = self.cursor;
        self.replace(from..from, text);
        if text.lines().nth(FOLD_FROM_LINES - 1).is_some() || text.len() > FOLD_FROM_BYTES {
            let at = self.folds.partition_point(|fold| fold.end <= from);
            self.folds.insert(at, from..self.cursor);
        }
    }

    /// Applies a key. Keys without a meaning here do nothing, Enter among them: the caller decides what ends a line.
    pub(crate) fn edit(&mut self, key: KeyPress) -> Result<(), TextTooLong> {
        let at = self.cursor;
        match key {
            KeyPress::Char(c) => return self.insert(c.encode_utf8(&mut [0; 4])),
            KeyPress::Backspace => self.cut(self.before(at)..at),
            KeyPress::Delete | KeyPress::Ctrl('d') => self.cut(at..self.after(at)),
            KeyPress::Left | KeyPress::Ctrl('b') => self.cursor = self.before(at),
            KeyPress::Right | KeyPress::Ctrl('f') => self.cursor = self.after(at),
            KeyPress::WordLeft => self.cursor = self.word_left(),
            KeyPress::WordRight => self.cursor = self.word_right(),
            KeyPress::Home | KeyPress::Ctrl('a') => self.cursor = self.line_start(at),
            KeyPress::End | KeyPress::Ctrl('e') => self.cursor = self.line_end(at),
            KeyPress::Ctrl('w') | KeyPress::ALT_BACKSPACE => self.cut(self.word_left()..at),
            KeyPress::Ctrl('u') => self.cut(self.line_start(at)..at),
            KeyPress::Ctrl('k') => self.cut(at..self.line_end(at)),
            KeyPress::Up | KeyPress::Ctrl('p') => {
                self.line_up();
            }
            KeyPress::Down | KeyPress::Ctrl('n') => {
                self.line_down();
            }
            KeyPress::Ctrl(_)
            | KeyPress::Alt(_)
            | KeyPress::Enter
            | KeyPress::NewLine
            | KeyPress::Esc
            | KeyPress::Tab
            | KeyPress::BackTab
            | KeyPress::PageUp
            | KeyPress::PageDown => {}
        }
        Ok(())
    }

    /// Moves the cursor to the line above. False if there is none.
    pub(crate) fn line_up(&mut self) -> bool {
        let start = self.line_start(self.cursor);
        if start > 0 {
            self.cursor = self.at_column(self.line_start(start - 1));
        }
        start > 0
    }

    /// Moves the cursor to the line below. False if there is none.
    pub(crate) fn line_down(&mut self) -> bool {
        let end = self.line_end(self.cursor);
        let is_last = end == self.text.len();
        if !is_last {
            self.cursor = self.at_column(end + 1);
        }
        !is_last
    }

    /// Turns a backslash before the cursor into a line break, as a shell does. Returns whether there was one.
    pub(crate) fn break_line_at_backslash(&mut self) -> bool {
        let before = self.before(self.cursor);
        let is_one = &self.text[before..self.cursor] == "\\";
        if is_one {
            self.replace(before..self.cursor, "\n");
        }
        is_one
    }

    /// The offset in the line that begins at `start` that is in the cursor's present column.
    fn at_column(&self, start: usize) -> usize {
        let (mut from, mut to, end) = (self.line_start(self.cursor), start, self.line_end(start));
        while from < self.cursor && to < end {
            (from, to) = (self.after(from), self.after(to));
        }
        to
    }

    fn cut(&mut self, range: Range<usize>) {
        self.replace(range, "");
    }

    /// Replaces a range and puts the cursor behind the new text. A changed fold opens.
    fn replace(&mut self, range: Range<usize>, text: &str) {
        self.text.replace_range(range.clone(), text);
        self.folds.retain(|fold| fold.end <= range.start || fold.start >= range.end);
        for fold in self.folds.iter_mut().filter(|fold| fold.start >= range.end) {
            let moved = |at: usize| at - range.len() + text.len();
            *fold = moved(fold.start)..moved(fold.end);
        }
        self.cursor = range.start + text.len();
    }

    fn fold_with(&self, at: impl Fn(&Range<usize>) -> bool) -> Option<&Range<usize>> {
        self.folds.iter().find(|fold| at(fold))
    }

    /// The offset where the cluster or fold before `at` begins.
    fn before(&self, at: usize) -> usize {
        if let Some(fold) = self.fold_with(|fold| fold.end == at) {
            return fold.start;
        }
        let least = self.folds.iter().map(|fold| fold.end).take_while(|end| *end < at).last().unwrap_or(0);
        let from = self.text.ceil_char_boundary(at.saturating_sub(MOST_CLUSTER_BYTES).max(least));
        cells::clusters(&self.text[from..at]).last().map_or(at, |cluster| at - cluster.len())
    }

    /// The offset where the cluster or fold behind `at` ends.
    fn after(&self, at: usize) -> usize {
        if let Some(fold) = self.fold_with(|fold| fold.start == at) {
            return fold.end;
        }
        let most = self.fold_with(|fold| fold.start > at).map_or(self.text.len(), |fold| fold.start);
        let until = self.text.floor_char_boundary((at + MOST_CLUSTER_BYTES).min(most));
        at + cells::first_cluster(&self.text[at..until]).len()
    }

    fn line_start(&self, at: usize) -> usize {
        let breaks = self.text[..at].rmatch_indices('\n').map(|(at, _)| at);
        breaks
            .filter(|at| self.fold_with(|fold| fold.contains(at)).is_none())
            .map(|at| at + 1)
            .next()
            .unwrap_or(0)
    }

    fn line_end(&self, at: usize) -> usize {
        let mut breaks = self.text[at..].match_indices('\n').map(|(found, _)| at + found);
        breaks.find(|at| self.fold_with(|fold| fold.contains(at)).is_none()).unwrap_or(self.text.len())
    }

    fn word_left(&self) -> usize {
        let step = |at: &usize| Some(self.before(*at)).filter(|before| before < at);
        let mut places = std::iter::successors(step(&self.cursor), step).peekable();
        let mut found = self.cursor;
        while let Some(at) = places.next_if(|at| !self.is_word(*at)) {
            found = at;
        }
        while let Some(at) = places.next_if(|at| self.is_word(*at)) {
            found = at;
        }
        found
    }

    fn word_right(&self) -> usize {
        let mut at = self.cursor;
        for wanted in [false, true] {
            while at < self.text.len() && self.is_word(at) == wanted {
                at = self.after(at);
            }
        }
        at
    }

    /// True if the cluster or fold that begins at `at` is part of a word.
    fn is_word(&self, at: usize) -> bool {
        self.fold_with(|fold| fold.start == at).is_some()
            || self.text[at..self.after(at)].chars().any(|c| c.is_alphanumeric() || c == '_')
    }

    /// The rows to paint after a prompt (its styled text, its width), and the cursor as row and column. A very long
    /// text is laid out around the cursor only.
    pub(crate) fn rows(&self, prompt: (&SafeText, usize), columns: usize) -> (Vec<CellRow>, (usize, usize)) {
        let columns = columns.max(1);
        // Further rows are indented like the first one, where there is room.
        let indent = if prompt.1 * 4 <= columns { prompt.1 } else { 0 };
        let begun = || CellRow { text: " ".repeat(indent).into(), width: indent };
        let mut rows = vec![CellRow::default()];
        if prompt.1 < columns {
            rows[0].push(prompt.0, prompt.1);
        }
        let mut cursor = (0, rows[0].width);
        let mut at = self.first_shown();
        let mut left = 2 * MOST_BYTES_SHOWN;
        while at < self.text.len() && left > 0 {
            let end = self.after(at);
            // After a deletion the cursor may be within a cluster, whose halves were on both sides of it.
            let is_here = (at..end).contains(&self.cursor);
            if is_here {
                cursor = (rows.len() - 1, rows[rows.len() - 1].width);
            }
            let (piece, is_fold) = (&self.text[at..end], self.fold_with(|fold| fold.start == at).is_some());
            at = end;
            left = left.saturating_sub(if is_fold { 1 } else { piece.len() });
            if piece == "\n" {
                rows.push(begun());
                continue;
            }
            let shown = if is_fold {
                fold_words(piece)
            } else {
                crate::print::escape_control_characters(piece).replace('\t', "    ")
            };
            for cluster in cells::clusters(&shown) {
                let (cluster, wide) = cells::fitting(cluster, columns);
                if rows[rows.len() - 1].width + wide > columns {
                    rows.push(if indent + wide <= columns { begun() } else { CellRow::default() });
                    if is_here && cursor.1 >= columns {
                        cursor = (rows.len() - 1, rows[rows.len() - 1].width);
                    }
                }
                let last = rows.len() - 1;
                rows[last].push(cluster, wide);
            }
        }
        if self.cursor == self.text.len() {
            // The cursor needs a cell of its own.
            if rows[rows.len() - 1].width >= columns {
                rows.push(CellRow::default());
            }
            cursor = (rows.len() - 1, rows[rows.len() - 1].width);
        }
        (rows, (cursor.0, cursor.1.min(columns - 1)))
    }

    /// The offset where the layout begins. A fold is short on the screen, however long its text is.
    fn first_shown(&self) -> usize {
        let (mut from, mut left) = (self.cursor, MOST_BYTES_SHOWN);
        for fold in self.folds.iter().rev().filter(|fold| fold.end <= self.cursor) {
            match left.checked_sub(from - fold.end) {
                Some(rest) => (from, left) = (fold.start, rest),
                None => break,
            }
        }
        self.text.floor_char_boundary(from.saturating_sub(left))
    }
}

/// The placeholder of a folded paste.
fn fold_words(text: &str) -> String {
    match text.lines().count() {
        0 | 1 => format!("[pasted {} characters]", text.chars().count()),
        lines => format!("[pasted {lines} lines]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_and_taking_back_keeps_characters_whole() {
        let mut line = Composer::default();
        line.insert("naïve 日本").expect("short");
        for key in [KeyPress::Left, KeyPress::Backspace, KeyPress::Char('x')] {
            line.edit(key).expect("short");
        }
        assert_eq!(line.text(), "naïve x本");
        for key in [KeyPress::Home, KeyPress::Delete, KeyPress::End, KeyPress::Ctrl('w')] {
            line.edit(key).expect("short");
        }
        assert_eq!((line.text(), line.cursor), ("aïve ", "aïve ".len()));
        for key in [
            KeyPress::Ctrl('u'),
            KeyPress::Backspace,
            KeyPress::Delete,
            KeyPress::Left,
            KeyPress::WordLeft,
            KeyPress::WordRight,
        ] {
            line.edit(key).expect("short");
        }
        assert_eq!(line, Composer::default());
    }

    #[test]
    fn control_sequences_cannot_be_typed_in() {
        let mut line = Composer::default();
        line.insert("a\x1b[31mb\tc\r\nd\x07\u{9b}").expect("short");
        assert_eq!(line.text(), "a[31mb\tc\nd");
    }

    #[test]
    fn a_text_longer_than_a_turn_is_refused_as_a_whole() {
        let mut line = Composer::with("x".repeat(MAX_PROMPT_BYTES - 1));
        assert_eq!(line.insert("é"), Err(TextTooLong));
        assert_eq!(line.insert("y"), Ok(()));
        assert_eq!(line.insert("z"), Err(TextTooLong));
        assert_eq!(line.text().len(), MAX_PROMPT_BYTES);
    }

    #[test]
    fn a_fold_moves_with_the_text_before_it_and_opens_when_it_is_changed() {
        let mut line = Composer::with("ab".to_owned());
        line.edit(KeyPress::Left).expect("short");
        let paste = "x\n".repeat(20);
        line.paste(&paste);
        let shown = |line: &Composer| line.rows((&SafeText::default(), 0), 60).0[0].text.as_str().to_owned();
        assert_eq!(shown(&line), "a[pasted 20 lines]b");
        line.edit(KeyPress::Home).expect("short");
        line.paste(&"word ".repeat(2 * MOST_BYTES_SHOWN));
        line.insert("é").expect("short");
        assert_eq!(shown(&line), "[pasted 163840 characters]éa[pasted 20 lines]b");
        line.edit(KeyPress::End).expect("short");
        line.edit(KeyPress::Left).expect("short");
        line.edit(KeyPress::Backspace).expect("short");
        assert!(line.text().ends_with("word éab") && line.folds.len() == 1, "{:?}", line.folds);
    }

    #[test]
    fn a_cursor_within_a_cluster_is_shown_where_the_cluster_begins() {
        let mut line = Composer::with("ab🇩x🇪".to_owned());
        line.edit(KeyPress::Left).expect("short");
        line.edit(KeyPress::Backspace).expect("short");
        assert_eq!((line.text(), line.cursor), ("ab🇩🇪", "ab🇩".len()));
        assert_eq!(line.rows((&SafeText::from("> "), 2), 40).1, (0, 4));
    }

    #[test]
    fn a_line_break_behind_a_joiner_begins_a_row() {
        let (rows, cursor) = Composer::with("a\u{200d}\nb".to_owned()).rows((&SafeText::default(), 0), 40);
        let shown: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        assert_eq!((shown.len(), shown[1], cursor), (2, "b", (1, 1)), "{shown:?}");
    }

    #[test]
    fn a_very_long_text_is_laid_out_around_the_cursor() {
        let mut line = Composer::with("word ".repeat(100_000));
        let (rows, cursor) = line.rows((&SafeText::default(), 0), 80);
        assert!(rows.len() < 1000 && cursor.0 == rows.len() - 1, "{} rows, cursor {cursor:?}", rows.len());
        line.edit(KeyPress::Home).expect("short");
        let (rows, cursor) = line.rows((&SafeText::default(), 0), 80);
        assert!(rows.len() < 1000 && cursor == (0, 0), "{} rows, cursor {cursor:?}", rows.len());
    }
}
