//! Buffer of text that waits, because most of a flood scrolls away before a client looks.
//!
//! Promise: feeding what [`PendingText::skip`] leaves, after its colours and with the cursor at the start of
//! the last line, gives the very screen that feeding everything gives.
//! Not here: deciding when text may wait (see `screen`).
//! Start with [`PendingText::skip`].

use memchr::{memchr, memchr_iter, memrchr};

use crate::sequence::measure;
use crate::splitter::ESC;

/// How much text may wait before the part that scrolled away is dropped, or all of it is fed.
pub(crate) const PENDING_LIMIT_BYTES: usize = 32 * 1024;

/// How much memory stays with an idle screen for the next text.
const SPARE_BYTES: usize = 8 * 1024;

/// Text (anything but ESC, SO and SI) and soft sequences, not yet fed to the emulator.
#[derive(Debug, Default)]
pub(crate) struct PendingText {
    text: Vec<u8>,
}

impl PendingText {
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn is_over_limit(&self) -> bool {
        self.text.len() > PENDING_LIMIT_BYTES
    }

    /// All the text, for feeding. Give the memory back with [`PendingText::reuse`].
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    pub(crate) fn reuse(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        buffer.shrink_to(SPARE_BYTES);
        self.text = buffer;
    }

    /// Drops the text that has scrolled away and returns its colours, to be fed at once; the cursor must
    /// then go to the start of the last line. `None` if nothing can go.
    ///
    /// Why this is exact, if the whole screen of `rows` lines scrolls and there is no history. Take a
    /// cut right after CR LF, with enough line feeds before it to bring the cursor from `cursor_row` to
    /// the last line: text never moves it up again. So at the cut it is on the last line, in the first
    /// column, with no wrap pending, wherever it was before. After the cut come at least `rows` line
    /// feeds, and each moves every line up by one, so no line that exists at the cut is still there at
    /// the end. Where the cursor goes does not depend on what is on the screen, and what is on a line
    /// never changes a line below it; so of everything before the cut only the colours can still be
    /// seen, and the last printed character, which REP repeats: hence something printable must follow.
    /// Tab stops, character sets and modes do not change, for that takes a sequence that is not soft.
    pub(crate) fn skip(&mut self, rows: usize, cursor_row: usize) -> Option<Vec<u8>> {
        let cut = self.cut(rows)?;
        let (gone, kept) = self.text.split_at(cut);
        let missing = rows - 1 - cursor_row;
        let reaches_last_line = missing == 0 || memchr_iter(b'\n', gone).nth(missing - 1).is_some();
        if !reaches_last_line || !prints(kept) {
            return None;
        }
        let colours = colours(gone);
        self.text.drain(..cut);
        Some(colours)
    }

    /// The last place after CR LF that has `rows` line feeds behind it.
    fn cut(&self, rows: usize) -> Option<usize> {
        let mut end = self.text.len();
        for _ in 0..rows {
            end = memrchr(b'\n', &self.text[..end])?;
        }
        loop {
            end = memrchr(b'\n', &self.text[..end])?;
            if self.text[..end].last() == Some(&b'\r') {
                return Some(end + 1);
            }
        }
    }
}

/// The sequences of `text` that decide how it ends up coloured: those since the last reset.
fn colours(text: &[u8]) -> Vec<u8> {
    let mut start = text.len();
    while let Some(found) = memrchr(ESC, &text[..start]) {
        start = found;
        if text[start..].starts_with(b"\x1b[m") || text[start..].starts_with(b"\x1b[0m") {
            break;
        }
    }
    let mut colours = Vec::new();
    while let Some(found) = memchr(ESC, &text[start..]) {
        let sequence = &text[start + found..];
        let (length, _) = measure(sequence);
        if sequence[length - 1] == b'm' {
            colours.extend_from_slice(&sequence[..length]);
        }
        start += found + length;
    }
    colours
}

/// True if `text` certainly prints something.
fn prints(mut text: &[u8]) -> bool {
    loop {
        let plain = &text[..memchr(ESC, text).unwrap_or(text.len())];
        if plain.iter().any(|byte| matches!(byte, b' '..=b'~')) {
            return true;
        }
        text = &text[plain.len()..];
        if text.is_empty() {
            return false;
        }
        text = &text[measure(text).0..];
    }
}

#[cfg(test)]
mod tests {
    use super::PendingText;

    fn pending(text: &[u8]) -> PendingText {
        PendingText { text: text.to_vec() }
    }

    #[test]
    fn lines_that_cannot_be_seen_any_more_are_dropped() {
        let mut text = pending(b"1\r\n2\r\n3\r\n4\r\n5\r\n6");
        assert_eq!(text.skip(2, 0), Some(vec![]));
        assert_eq!(text.take(), b"4\r\n5\r\n6");
    }

    #[test]
    fn the_colours_of_dropped_lines_since_the_last_reset_are_kept() {
        let mut text = pending(b"\x1b[31m1\r\n\x1b[0m\x1b[1m2\x1b[K\x1b[4:3m\r\n4\r\n5");
        assert_eq!(text.skip(1, 0), Some(b"\x1b[0m\x1b[1m\x1b[4:3m".to_vec()));
        assert_eq!(text.take(), b"4\r\n5");
    }

    #[test]
    fn nothing_is_dropped_without_a_carriage_return_to_count_columns_from() {
        assert_eq!(pending(b"1\n2\n3\n4\n5\n6").skip(2, 0), None);
    }

    #[test]
    fn nothing_is_dropped_before_the_cursor_has_reached_the_last_line() {
        assert_eq!(pending(b"1\r\n2\r\n3\r\n4\r\n5").skip(3, 0), None);
        assert!(pending(b"1\r\n2\r\n3\r\n4\r\n5").skip(3, 1).is_some());
    }

    #[test]
    fn nothing_is_dropped_if_the_last_printed_character_would_be_lost() {
        assert_eq!(pending(b"1\r\n2\r\n\x1b[32m\r\n\r\n").skip(2, 1), None);
    }
}
