//! Lines that scrolled off the primary screen, as bytes to print above a restored screen.
//!
//! Promise: after reading the end of a stream and the sizes of the terminal, the result has the last lines that left
//! the primary screen at its top, with colours and without control sequences; a wrapped line is one line. Text on the
//! alternate screen is left out. Memory is bounded by the number of lines asked for.
//! Not here: reading the stream; the screen below (see [`Screen::restore`]).
//! Start with [`Scrollback::feed`]; [`skip_partial_sequence`] says where to begin in the middle of a stream.

use std::collections::VecDeque;

use alacritty_terminal::grid::Row;
use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::{Cell, Flags};
use memchr::memchr;

use crate::active_screen::switched;
use crate::paint::{CellPainter, used_columns};
use crate::scan::SequenceScanner;
use crate::sequence::{SequenceKind, measure};
use crate::splitter::ESC;
use crate::{ActiveScreen, Screen, ScreenSize};

/// Sequences that make a terminal forget its scrollback.
const FORGET: [&[u8]; 2] = [b"\x1b[3J", b"\x1bc"];

/// Emulates the end of a stream and keeps what scrolls off.
pub struct Scrollback {
    screen: Screen,
    /// Largest number of rows that are kept.
    limit: usize,
    /// Rows, oldest first.
    rows: VecDeque<ScrolledRow>,
}

struct ScrolledRow {
    bytes: Vec<u8>,
    /// True if the line goes on in the next row.
    wraps: bool,
}

impl Scrollback {
    /// Keeps the last `limit` rows that scroll off a screen of this size.
    pub fn new(size: ScreenSize, limit: usize) -> Self {
        let mut screen = Screen::new(size);
        screen.keep_history(limit);
        Scrollback { screen, limit, rows: VecDeque::new() }
    }

    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        if FORGET.iter().any(|order| memchr::memmem::find(bytes, order).is_some()) {
            self.rows.clear();
        }
        self.screen.feed(bytes);
    }

    /// Changes the size of the terminal from here on.
    pub fn resize(&mut self, size: ScreenSize) {
        // Resizing would pull rows back from a history, and a keeper's screen has none to pull from.
        self.drain();
        self.screen.resize(size);
        self.screen.keep_history(self.limit);
    }

    /// The rows, to be printed where a line begins. Ends where the next line begins.
    pub fn finish(mut self) -> Vec<u8> {
        self.drain();
        let mut out = Vec::new();
        let mut ended = true;
        for row in &self.rows {
            out.extend_from_slice(&row.bytes);
            ended = !row.wraps;
            if ended {
                out.extend_from_slice(b"\r\n");
            }
        }
        if !ended {
            out.extend_from_slice(b"\r\n");
        }
        out
    }

    fn drain(&mut self) {
        let rows = &mut self.rows;
        self.screen.take_history(|row| rows.push_back(scrolled(row)));
        rows.drain(..rows.len().saturating_sub(self.limit));
    }
}

fn scrolled(row: &Row<Cell>) -> ScrolledRow {
    let last = row[Column(row.len() - 1)].flags;
    let wraps = last.contains(Flags::WRAPLINE);
    // The last cell of a row is empty if the wide character behind it did not fit.
    let end = if wraps && last.contains(Flags::LEADING_WIDE_CHAR_SPACER) {
        row.len() - 1
    } else {
        used_columns(row)
    };
    let mut painter = CellPainter::new(false);
    let mut column = 0;
    while column < end {
        column += painter.paint_cell(row, column);
    }
    painter.take_pen(&Cell::default());
    ScrolledRow { bytes: painter.finish(), wraps }
}

/// The part of a stream that was cut anywhere which can be emulated by itself: from the first line end on, so that
/// no sequence is torn; and if an application leaves the alternate screen that it entered before the cut, from there on.
pub fn skip_partial_sequence(bytes: &[u8]) -> &[u8] {
    let Some(line_end) = memchr(b'\n', bytes) else { return &[] };
    let bytes = &bytes[line_end + 1..];
    let mut scanner = SequenceScanner::new();
    let mut at = 0;
    while let Some(found) = memchr(ESC, &bytes[at..]) {
        let start = at + found;
        let (length, kind) = measure(&bytes[start..]);
        at = start + length;
        if kind != SequenceKind::Notable {
            continue;
        }
        match scanner.listen(&bytes[start..at]).iter().find_map(switched) {
            Some(ActiveScreen::Primary) => return &bytes[at..],
            Some(ActiveScreen::Alternate) => return bytes,
            None => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: ScreenSize = ScreenSize { rows: 4, cols: 10 };

    fn text(scrollback: Scrollback) -> String {
        String::from_utf8(scrollback.finish()).expect("text")
    }

    fn lines(range: std::ops::RangeInclusive<u32>) -> String {
        range.map(|number| format!("{number}\r\n")).collect()
    }

    #[test]
    fn lines_that_left_the_screen_come_out_up_to_the_limit_and_lines_on_it_do_not() {
        let mut scrollback = Scrollback::new(SIZE, 5);
        scrollback.feed(lines(1..=20).as_bytes());
        // 18 to 20 and the empty line of the cursor are on the screen.
        assert_eq!(text(scrollback), lines(13..=17));
    }

    #[test]
    fn colours_stay_wrapped_lines_are_joined_and_redrawn_lines_come_once() {
        let mut scrollback = Scrollback::new(SIZE, 100);
        scrollback.feed(b"\x1b[31mred\x1b[0m\r\nabcdefghijklmno\r\n");
        for progress in 0..100 {
            scrollback.feed(format!("\r\x1b[K{progress} %").as_bytes());
        }
        scrollback.feed(b"\r\n\n\n\n\n");
        assert_eq!(text(scrollback), "\x1b[0;31mred\x1b[0m\r\nabcdefghijklmno\r\n99 %\r\n\r\n");
    }

    #[test]
    fn the_alternate_screen_leaves_nothing_and_clearing_the_scrollback_forgets_it() {
        let mut scrollback = Scrollback::new(SIZE, 100);
        scrollback.feed(lines(1..=9).as_bytes());
        scrollback.feed(b"\x1b[?1049h");
        scrollback.feed(lines(100..=200).as_bytes());
        scrollback.resize(ScreenSize { rows: 6, cols: 10 });
        scrollback.feed(b"\x1b[?1049l");
        scrollback.feed(lines(10..=20).as_bytes());
        assert_eq!(text(scrollback), lines(1..=15));
        let mut cleared = Scrollback::new(SIZE, 100);
        cleared.feed(lines(1..=9).as_bytes());
        cleared.resize(ScreenSize { rows: 6, cols: 10 });
        cleared.feed(b"\x1b[H\x1b[2J\x1b[3J");
        cleared.feed(lines(30..=40).as_bytes());
        assert_eq!(text(cleared), lines(30..=35));
    }

    #[test]
    fn scrollback_and_screen_have_each_line_once_after_resizes() {
        for (rows, cols) in [(2, 10), (9, 10), (4, 5), (4, 30), (12, 4), (1, 80)] {
            let size = ScreenSize { rows, cols };
            let mut scrollback = Scrollback::new(SIZE, 1000);
            let mut screen = Screen::new(SIZE);
            for (from, to) in [(1, 20), (21, 21), (22, 30)] {
                scrollback.feed(lines(from..=to).as_bytes());
                screen.feed(lines(from..=to).as_bytes());
                let size = if from == 21 { SIZE } else { size };
                scrollback.resize(size);
                screen.resize(size);
            }
            let all = text(scrollback) + &screen.text();
            let numbers: Vec<u32> = all.lines().filter_map(|line| line.parse().ok()).collect();
            assert_eq!(numbers, (1..=30).collect::<Vec<_>>(), "{rows}x{cols}: {all:?}");
        }
    }

    #[test]
    fn a_stream_that_was_cut_begins_at_a_line_and_behind_an_alternate_screen() {
        assert_eq!(skip_partial_sequence(b"1mhalf\r\nwhole\r\n"), b"whole\r\n");
        assert_eq!(skip_partial_sequence(b"no line end"), b"");
        assert_eq!(skip_partial_sequence(b"x\n~\r\n~\r\n\x1b[1mvim\x1b[?1049l\x1b[?25h$ "), b"\x1b[?25h$ ");
        let whole = b"$ vim\x1b[?1049h~\x1b[?1049l$ ";
        assert_eq!(skip_partial_sequence(&[b"x\n", &whole[..]].concat()), whole);
    }
}
