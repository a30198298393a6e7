//! All lines that a terminal showed, as text from top to bottom, for people who read a session's output later.
//!
//! Promise: words stand where they stood on the screen, so a move of the cursor becomes the space that it skipped; a
//! line that wrapped is one line; overwritten text counts once, in its last form. Memory is bounded.
//! Not here: earlier screens of a full-screen program than its last one.
//! Start with [`ScrolledText::feed`], then [`ScrolledText::end`].

use alacritty_terminal::grid::{Dimensions, Row};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use memchr::memmem;

use crate::emulator::{Emulator, EmulatorPanicked};
use crate::text::row_text;
use crate::{HELD_LIMIT_BYTES, ScreenSize, StreamSplitter};

/// Number of lines that may scroll away before they are taken, and number of bytes fed until then. Only a program that
/// clears a large screen dozens of times in that many bytes loses some of these screens.
const HISTORY_LINES: usize = 2000;
const FEED_BYTES: usize = 1024;
/// Size limit of a wrapped line. A longer one, of a program that never ends its lines, is cut.
const LINE_BYTES: usize = 1024 * 1024;
/// Sequence with which programs leave the alternate screen.
const LEAVES_ALTERNATE: &[u8] = b"\x1b[?1049l";

/// A terminal whose lines are taken when they scroll away.
pub struct ScrolledText {
    size: ScreenSize,
    splitter: StreamSplitter,
    emulator: Emulator,
    /// The beginning of a line that wrapped.
    begun: String,
}

impl std::fmt::Debug for ScrolledText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scroll").field("size", &self.size).finish_non_exhaustive()
    }
}

impl ScrolledText {
    /// A blank terminal. The size is clamped, see [`ScreenSize::clamped`].
    pub fn new(size: ScreenSize) -> Self {
        let size = size.clamped();
        let emulator = Emulator::with_history(size, HISTORY_LINES);
        Self { size, splitter: StreamSplitter::dropping(HELD_LIMIT_BYTES), emulator, begun: String::new() }
    }

    /// Takes the next bytes, however they are split. Appends the lines that scrolled away and the last picture of each
    /// full-screen program that ended, each with a line end.
    pub fn feed(&mut self, bytes: &[u8], text: &mut String) {
        let whole = self.splitter.push(bytes).into_owned();
        let mut rest = &whole[..];
        while !rest.is_empty() {
            // A sequence that is cut is whole again for the emulator, which remembers the first part.
            let near = &rest[..rest.len().min(FEED_BYTES + LEAVES_ALTERNATE.len())];
            let end = match memmem::find(near, LEAVES_ALTERNATE) {
                Some(0) => {
                    if self.emulator.in_alternate() {
                        self.screen(text);
                    }
                    LEAVES_ALTERNATE.len()
                }
                Some(at) => at.min(FEED_BYTES),
                None => rest.len().min(FEED_BYTES),
            };
            self.advance(&rest[..end]);
            rest = &rest[end..];
            self.scrolled(text);
        }
    }

    /// The lines on the screen now, each with a line end.
    pub fn end(mut self) -> String {
        let mut text = String::new();
        self.screen(&mut text);
        text
    }

    fn advance(&mut self, bytes: &[u8]) {
        if let Err(EmulatorPanicked) = self.emulator.advance(bytes) {
            self.emulator = Emulator::with_history(self.size, HISTORY_LINES);
        }
        // A program that is over needs no answers to its queries.
        self.emulator.take_events();
    }

    /// Takes the lines that scrolled away.
    fn scrolled(&mut self, text: &mut String) {
        let lines = self.emulator.grid().history_size();
        for line in (1..=lines).rev() {
            let number = i32::try_from(line).expect("history is limited");
            take(&self.emulator.grid()[Line(-number)], &mut self.begun, text);
        }
        if lines > 0 {
            self.emulator.clear_history();
        }
    }

    fn screen(&mut self, text: &mut String) {
        let from = text.len();
        let grid = self.emulator.grid();
        for line in (0..grid.screen_lines()).map(Line::from) {
            take(&grid[line], &mut self.begun, text);
        }
        if !self.begun.is_empty() {
            text.push_str(std::mem::take(&mut self.begun).trim_end());
            text.push('\n');
        }
        let used = text[from..].trim_end().len();
        text.truncate(from + used);
        if used > 0 {
            text.push('\n');
        }
    }
}

/// Takes a row: the end of a line, or a part of one that goes on in the next row.
fn take(row: &Row<Cell>, begun: &mut String, text: &mut String) {
    begun.push_str(&row_text(row));
    let last = Column(row.len().saturating_sub(1));
    if !row[last].flags.contains(Flags::WRAPLINE) || begun.len() >= LINE_BYTES {
        text.push_str(std::mem::take(begun).trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(size: (u16, u16), stream: &str) -> String {
        let whole = {
            let mut scroll = ScrolledText::new(ScreenSize { rows: size.0, cols: size.1 });
            let mut text = String::new();
            scroll.feed(stream.as_bytes(), &mut text);
            text + &scroll.end()
        };
        let mut scroll = ScrolledText::new(ScreenSize { rows: size.0, cols: size.1 });
        let mut text = String::new();
        stream.as_bytes().iter().for_each(|byte| scroll.feed(&[*byte], &mut text));
        assert_eq!(text + &scroll.end(), whole, "bytes one by one");
        whole
    }

    #[test]
    fn moves_of_the_cursor_become_the_space_they_left() {
        assert_eq!(
            shown((5, 40), "fix\x1b[1Cthe\x1b[1Clogin\x1b[3;10Hhere"),
            "fix the login\n\n         here\n"
        );
        assert_eq!(shown((5, 40), "10%\r20%\r\x1b[Kdone\r\n"), "done\n");
    }

    #[test]
    fn lines_that_scroll_away_come_once_and_in_order_and_wrapped_lines_are_one() {
        let stream: String = (1..=3000).map(|number| format!("line {number}\r\n")).collect();
        let expected: String = (1..=3000).map(|number| format!("line {number}\n")).collect();
        assert_eq!(shown((10, 40), &stream), expected);
        assert_eq!(shown((3, 5), "abcdefghijklm\r\nx\r\ny\r\nz"), "abcdefghijklm\nx\ny\nz\n");
    }

    #[test]
    fn a_line_that_never_ends_is_cut_and_loses_nothing() {
        let mut scroll = ScrolledText::new(ScreenSize { rows: 10, cols: 200 });
        let (mut text, piece) = (String::new(), "x".repeat(64 * 1024));
        let pieces = 3 * LINE_BYTES / piece.len();
        for _ in 0..pieces {
            scroll.feed(piece.as_bytes(), &mut text);
            assert!(scroll.begun.len() < LINE_BYTES);
        }
        text += &scroll.end();
        assert_eq!(text.lines().map(str::len).sum::<usize>(), pieces * piece.len());
        assert!(text.lines().all(|line| line.len() < LINE_BYTES + 200), "cut where the row ends");
    }

    #[test]
    fn a_full_screen_program_leaves_its_last_picture() {
        let stream = "before\r\n\x1b[?1049h\x1b[2J\x1b[1;1Hfirst\x1b[2J\x1b[1;1Hlast\x1b[?1049lafter\r\n";
        assert_eq!(shown((5, 40), stream), "last\nbefore\nafter\n");
    }
}
