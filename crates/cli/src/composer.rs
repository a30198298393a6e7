//! A text that a person writes, of one line or of a few, with the cursor in it: for the chat and for the dashboard.
//!
//! Promise: what belongs together (marks, joined emoji) is moved over and removed together; what was pasted is in it to
//! the byte; what is typed or inserted has no control characters but line ends and tabs.
//! Not here: reading keys (`keys`), what is done with the text.
//! Start with [`Composer::edit`].

use std::ops::Range;

use berth_core::MAX_PROMPT_BYTES;

use crate::cells::{self, Row};
use crate::keys::Key;
use crate::visible::Visible;

/// A paste of more lines than this is shown folded, and so is one of more bytes than that.
const FOLD_FROM_LINES: usize = 6;
const FOLD_FROM_BYTES: usize = 2000;
/// How much of a very long text is laid out, before and after the cursor.
const MOST_BYTES_SHOWN: usize = 16 << 10;
/// The longest cluster that is searched for.
const MOST_CLUSTER_BYTES: usize = 256;

/// What is being written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Composer {
    text: String,
    /// In bytes, between two clusters.
    cursor: usize,
    /// Parts that are shown as one word each, in order.
    folds: Vec<Range<usize>>,
}

/// It would be more than can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLong;

impl Composer {
    /// Something written before, to go on with.
    pub(crate) fn with(text: String) -> Self {
        Self { cursor: text.len(), text, folds: vec![] }
    }

    /// The same, folded if it is long.
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

    /// Puts text in at the cursor, or nothing of it if it is too much.
    pub(crate) fn insert(&mut self, text: &str) -> Result<(), TooLong> {
        let plain: String = text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
        if self.text.len() + plain.len() > MAX_PROMPT_BYTES {
            return Err(TooLong);
        }
        self.replace(self.cursor..self.cursor, &plain);
        Ok(())
    }

    /// Puts a text in at the cursor as it is, folded if it is long. One that is too long is refused when it is sent.
    pub(crate) fn paste(&mut self, text: &str) {
        let from = self.cursor;
        self.replace(from..from, text);
        if text.lines().nth(FOLD_FROM_LINES - 1).is_some() || text.len() > FOLD_FROM_BYTES {
            let at = self.folds.partition_point(|fold| fold.end <= from);
            self.folds.insert(at, from..self.cursor);
        }
    }

    /// What a key does to it; keys that mean nothing here do nothing. Whether there are lines is for the caller.
    pub(crate) fn edit(&mut self, key: Key) -> Result<(), TooLong> {
        let at = self.cursor;
        match key {
            Key::Char(c) => return self.insert(c.encode_utf8(&mut [0; 4])),
            Key::Backspace => self.cut(self.before(at)..at),
            Key::Delete | Key::Ctrl('d') => self.cut(at..self.after(at)),
            Key::Left | Key::Ctrl('b') => self.cursor = self.before(at),
            Key::Right | Key::Ctrl('f') => self.cursor = self.after(at),
            Key::WordLeft => self.cursor = self.word_left(),
            Key::WordRight => self.cursor = self.word_right(),
            Key::Home | Key::Ctrl('a') => self.cursor = self.line_start(at),
            Key::End | Key::Ctrl('e') => self.cursor = self.line_end(at),
            Key::Ctrl('w') | Key::ALT_BACKSPACE => self.cut(self.word_left()..at),
            Key::Ctrl('u') => self.cut(self.line_start(at)..at),
            Key::Ctrl('k') => self.cut(at..self.line_end(at)),
            Key::Up | Key::Ctrl('p') => {
                self.line_up();
            }
            Key::Down | Key::Ctrl('n') => {
                self.line_down();
            }
            Key::Ctrl(_)
            | Key::Alt(_)
            | Key::Enter
            | Key::NewLine
            | Key::Esc
            | Key::Tab
            | Key::BackTab
            | Key::PageUp
            | Key::PageDown => {}
        }
        Ok(())
    }

    /// To the line above, if there is one.
    pub(crate) fn line_up(&mut self) -> bool {
        let start = self.line_start(self.cursor);
        if start > 0 {
            self.cursor = self.at_column(self.line_start(start - 1));
        }
        start > 0
    }

    /// To the line below, if there is one.
    pub(crate) fn line_down(&mut self) -> bool {
        let end = self.line_end(self.cursor);
        let is_last = end == self.text.len();
        if !is_last {
            self.cursor = self.at_column(end + 1);
        }
        !is_last
    }

    /// Makes a line break of a backslash before the cursor, as a shell has it. Returns whether there was one.
    pub(crate) fn break_line_at_backslash(&mut self) -> bool {
        let before = self.before(self.cursor);
        let is_one = &self.text[before..self.cursor] == "\\";
        if is_one {
            self.replace(before..self.cursor, "\n");
        }
        is_one
    }

    /// Where the cursor is in the line that begins at `start`, in the same column as now.
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

    /// Replaces a part, and puts the cursor behind it. What was folded and changes is not folded any more.
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

    /// Where the cluster or fold before this place begins.
    fn before(&self, at: usize) -> usize {
        if let Some(fold) = self.fold_with(|fold| fold.end == at) {
            return fold.start;
        }
        let least = self.folds.iter().map(|fold| fold.end).take_while(|end| *end < at).last().unwrap_or(0);
        let from = self.text.ceil_char_boundary(at.saturating_sub(MOST_CLUSTER_BYTES).max(least));
        cells::clusters(&self.text[from..at]).last().map_or(at, |cluster| at - cluster.len())
    }

    /// Where the cluster or fold behind this place ends.
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

    /// Whether the cluster that begins here is of a word. A fold is one.
    fn is_word(&self, at: usize) -> bool {
        self.fold_with(|fold| fold.start == at).is_some()
            || self.text[at..self.after(at)].chars().any(|c| c.is_alphanumeric() || c == '_')
    }

    /// The rows to paint after a prompt (its styled text, its width), and where the cursor is: row and column. Of a very
    /// long text only what is around the cursor.
    pub(crate) fn rows(&self, prompt: (&Visible, usize), columns: usize) -> (Vec<Row>, (usize, usize)) {
        let columns = columns.max(1);
        // What follows is indented like the first line, where there is room.
        let indent = if prompt.1 * 4 <= columns { prompt.1 } else { 0 };
        let begun = || Row { text: " ".repeat(indent).into(), width: indent };
        let mut rows = vec![Row::default()];
        if prompt.1 < columns {
            rows[0].push(prompt.0, prompt.1);
        }
        let mut cursor = (0, rows[0].width);
        let mut at = self.first_shown();
        let mut left = 2 * MOST_BYTES_SHOWN;
        while at < self.text.len() && left > 0 {
            let end = self.after(at);
            // A deletion before the cursor may have joined what is on both sides of it.
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
            let shown =
                if is_fold { fold_words(piece) } else { crate::print::visible(piece).replace('\t', "    ") };
            for cluster in cells::clusters(&shown) {
                let (cluster, wide) = cells::fitting(cluster, columns);
                if rows[rows.len() - 1].width + wide > columns {
                    rows.push(if indent + wide <= columns { begun() } else { Row::default() });
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
                rows.push(Row::default());
            }
            cursor = (rows.len() - 1, rows[rows.len() - 1].width);
        }
        (rows, (cursor.0, cursor.1.min(columns - 1)))
    }

    /// Where what is laid out begins. A fold is short, however long its text is.
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

/// What is shown for a long paste.
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
        for key in [Key::Left, Key::Backspace, Key::Char('x')] {
            line.edit(key).expect("short");
        }
        assert_eq!(line.text(), "naïve x本");
        for key in [Key::Home, Key::Delete, Key::End, Key::Ctrl('w')] {
            line.edit(key).expect("short");
        }
        assert_eq!((line.text(), line.cursor), ("aïve ", "aïve ".len()));
        for key in [Key::Ctrl('u'), Key::Backspace, Key::Delete, Key::Left, Key::WordLeft, Key::WordRight] {
            line.edit(key).expect("short");
        }
        assert_eq!(line, Composer::default());
    }

    #[test]
    fn what_a_terminal_would_obey_does_not_get_in_by_typing() {
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

    #[test]
    fn a_fold_moves_with_the_text_before_it_and_opens_when_it_is_changed() {
        let mut line = Composer::with("ab".to_owned());
        line.edit(Key::Left).expect("short");
        let paste = "x\n".repeat(20);
        line.paste(&paste);
        let shown = |line: &Composer| line.rows((&Visible::default(), 0), 60).0[0].text.as_str().to_owned();
        assert_eq!(shown(&line), "a[pasted 20 lines]b");
        line.edit(Key::Home).expect("short");
        line.paste(&"word ".repeat(2 * MOST_BYTES_SHOWN));
        line.insert("é").expect("short");
        assert_eq!(shown(&line), "[pasted 163840 characters]éa[pasted 20 lines]b");
        line.edit(Key::End).expect("short");
        line.edit(Key::Left).expect("short");
        line.edit(Key::Backspace).expect("short");
        assert!(line.text().ends_with("word éab") && line.folds.len() == 1, "{:?}", line.folds);
    }

    #[test]
    fn a_cursor_within_a_cluster_is_shown_where_the_cluster_begins() {
        let mut line = Composer::with("ab🇩x🇪".to_owned());
        line.edit(Key::Left).expect("short");
        line.edit(Key::Backspace).expect("short");
        assert_eq!((line.text(), line.cursor), ("ab🇩🇪", "ab🇩".len()));
        assert_eq!(line.rows((&Visible::from("> "), 2), 40).1, (0, 4));
    }

    #[test]
    fn a_line_break_behind_a_joiner_begins_a_row() {
        let (rows, cursor) = Composer::with("a\u{200d}\nb".to_owned()).rows((&Visible::default(), 0), 40);
        let shown: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        assert_eq!((shown.len(), shown[1], cursor), (2, "b", (1, 1)), "{shown:?}");
    }

    #[test]
    fn a_very_long_text_is_laid_out_around_the_cursor() {
        let mut line = Composer::with("word ".repeat(100_000));
        let (rows, cursor) = line.rows((&Visible::default(), 0), 80);
        assert!(rows.len() < 1000 && cursor.0 == rows.len() - 1, "{} rows, cursor {cursor:?}", rows.len());
        line.edit(Key::Home).expect("short");
        let (rows, cursor) = line.rows((&Visible::default(), 0), 80);
        assert!(rows.len() < 1000 && cursor == (0, 0), "{} rows, cursor {cursor:?}", rows.len());
    }
}
