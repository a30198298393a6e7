//! A window on a screen, for a terminal of another size.
//!
//! Promise: whatever the two sizes are, the terminal shows a part of the screen that has the cursor in it, cell for
//! cell, with one line of text below. Nothing the application set (mouse, keyboard, paste modes) reaches the terminal.
//! Only rows that changed are written.
//! Not here: the text of the line below; entering and leaving the alternate screen.
//! Start with [`ScreenWindow::draw`].

use alacritty_terminal::grid::{Dimensions, Row};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Cell;

use crate::paint::{CellPainter, starts_wide};
use crate::{Screen, ScreenSize};

/// State of the last drawing, so that the next one writes only changed rows.
pub struct ScreenWindow {
    /// Size of the terminal.
    size: ScreenSize,
    /// The row and the column of the screen in the top left corner.
    top: usize,
    left: usize,
    /// The bytes of each row as it was last written.
    drawn: Vec<Vec<u8>>,
}

impl ScreenWindow {
    /// A view for a terminal of this size, whatever it shows now.
    pub fn new(size: ScreenSize) -> Self {
        ScreenWindow { size: size.clamped(), top: 0, left: 0, drawn: Vec::new() }
    }

    /// The size of the terminal.
    pub fn size(&self) -> ScreenSize {
        self.size
    }

    /// Bytes that bring the terminal from the last drawing to this one. `status` is the line below, without control
    /// characters and no wider than the terminal.
    pub fn draw(&mut self, screen: &mut Screen, status: &str) -> Vec<u8> {
        let height = usize::from(self.size.rows).saturating_sub(1);
        let width = usize::from(self.size.cols);
        let (grid, mode) = screen.settled_grid();
        let cursor = grid.cursor.point;
        let (row, column) = (usize::try_from(cursor.line.0).unwrap_or(0), cursor.column.0);
        self.top = follow(self.top, row, height, grid.screen_lines());
        // The beginning of a line is worth more than its end, so the window goes back as soon as it can.
        self.left = follow(0, column, width, grid.columns());
        let mut rows: Vec<Vec<u8>> = (self.top..self.top + height)
            .map(|line| {
                let inside = line < grid.screen_lines();
                if inside { part(&grid[Line(line as i32)], self.left, width) } else { Vec::new() }
            })
            .collect();
        rows.push(format!("\x1b[7m{status}\x1b[0m").into_bytes());

        let mut painter = CellPainter::new(false);
        painter.raw(b"\x1b[?2026h\x1b[?25l");
        if self.drawn.is_empty() {
            painter.raw(b"\x1b[0m\x1b[?7l\x1b[H\x1b[J");
        }
        for (number, row) in rows.iter().enumerate() {
            let is_new = self.drawn.get(number).is_none_or(|drawn| drawn != row);
            if is_new && !(self.drawn.is_empty() && row.is_empty()) {
                painter.go_to(number, 0);
                // First, because behind a character in the last column it would erase that.
                painter.raw(b"\x1b[0m\x1b[K");
                painter.raw(row);
            }
        }
        self.drawn = rows;
        if mode.contains(TermMode::SHOW_CURSOR) && height > 0 {
            painter.go_to(row - self.top, column - self.left);
            painter.raw(b"\x1b[?25h");
        }
        painter.raw(b"\x1b[?2026l");
        painter.finish()
    }
}

/// The start of a window of `extent` out of `all` that has `at` in it: unchanged if possible.
fn follow(begin: usize, at: usize, extent: usize, all: usize) -> usize {
    let least = (at + 1).saturating_sub(extent);
    begin.clamp(least, at.max(least)).min(all.saturating_sub(extent).max(least))
}

/// The bytes of `width` cells of a row from `left` on. A wide character that is cut is a blank.
fn part(row: &Row<Cell>, left: usize, width: usize) -> Vec<u8> {
    let end = crate::paint::used_columns(row).min(left + width);
    let mut painter = CellPainter::new(false);
    let mut column = left;
    while column < end {
        let is_cut = (column == left && left > 0 && starts_wide(row, left - 1))
            || (column + 1 == left + width && starts_wide(row, column));
        if is_cut {
            painter.take_pen(&row[Column(column)]);
            painter.raw(b" ");
            column += 1;
            continue;
        }
        column += painter.paint_cell(row, column);
        let marked = row[Column(column - 1)].zerowidth().is_some_and(|marks| !marks.is_empty());
        if marked && column < end {
            // Terminals disagree on the width of characters with marks; say where we are.
            painter.format(format_args!("\x1b[{}G", column - left + 1));
        }
    }
    painter.take_pen(&Cell::default());
    painter.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: ScreenSize = ScreenSize { rows: 4, cols: 10 };

    fn shown(status: &str, view: &mut ScreenWindow, screen: &mut Screen, terminal: &mut Screen) -> String {
        terminal.feed(&view.draw(screen, status));
        terminal.text()
    }

    #[test]
    fn a_smaller_terminal_shows_the_part_with_the_cursor_and_the_status_line() {
        let mut screen = Screen::new(ScreenSize { rows: 10, cols: 30 });
        let (mut view, mut terminal) = (ScreenWindow::new(WINDOW), Screen::new(WINDOW));
        for number in 0..10 {
            screen.feed(format!("\x1b[{};1Hrow {number} is long enough", number + 1).as_bytes());
        }
        screen.feed(b"\x1b[10;3H");
        let text = shown("watching", &mut view, &mut screen, &mut terminal);
        assert_eq!(text, "row 7 is l\nrow 8 is l\nrow 9 is l\nwatching");
        assert_eq!(terminal.cursor(), (2, 2));
        screen.feed(b"\x1b[2;21H");
        let text = shown("watching", &mut view, &mut screen, &mut terminal);
        assert_eq!(text, "ng enough\nng enough\nng enough\nwatching");
        assert_eq!(terminal.cursor(), (0, 9));
        screen.feed(b"\x1b[H");
        let text = shown("watching", &mut view, &mut screen, &mut terminal);
        assert_eq!(text, "row 0 is l\nrow 1 is l\nrow 2 is l\nwatching");
    }

    #[test]
    fn a_larger_terminal_shows_all_of_it_and_a_second_drawing_writes_only_what_changed() {
        let mut screen = Screen::new(ScreenSize { rows: 2, cols: 8 });
        let size = ScreenSize { rows: 6, cols: 20 };
        let (mut view, mut terminal) = (ScreenWindow::new(size), Screen::new(size));
        terminal.feed(b"something else\r\nwas here");
        screen.feed(b"one\r\n\x1b[31mtwo");
        assert_eq!(shown("watching", &mut view, &mut screen, &mut terminal), "one\ntwo\n\n\n\nwatching");
        screen.feed(b" more");
        let again = view.draw(&mut screen, "watching");
        assert!(!again.windows(3).any(|window| window == b"one"), "{}", again.escape_ascii());
        terminal.feed(&again);
        assert_eq!(terminal.text(), "one\ntwo more\n\n\n\nwatching");
    }

    #[test]
    fn wide_characters_at_the_edges_become_blanks() {
        let mut screen = Screen::new(ScreenSize { rows: 1, cols: 30 });
        let size = ScreenSize { rows: 2, cols: 5 };
        let (mut view, mut terminal) = (ScreenWindow::new(size), Screen::new(size));
        screen.feed("ab漢字漢字".as_bytes());
        screen.feed(b"\x1b[1;8H");
        // Columns 3 to 7: the second half of the first character, two whole ones.
        assert_eq!(shown("see", &mut view, &mut screen, &mut terminal), " 字漢\nsee");
        screen.feed(b"\x1b[1;1H");
        assert_eq!(shown("see", &mut view, &mut screen, &mut terminal), "ab漢\nsee");
    }

    #[test]
    fn any_window_has_the_cursor_in_it() {
        for (rows, cols) in [(1, 2), (2, 2), (3, 40), (40, 3), (200, 200)] {
            let size = ScreenSize { rows, cols };
            let mut view = ScreenWindow::new(size);
            let mut screen = Screen::new(ScreenSize { rows: 12, cols: 33 });
            for (row, column) in [(1, 1), (12, 33), (5, 20), (12, 1), (1, 33)] {
                screen.feed(format!("\x1b[{row};{column}H*").as_bytes());
                view.draw(&mut screen, "");
                screen.resize(ScreenSize { rows: 12 - row / 2, cols: 33 });
                view.draw(&mut screen, "");
            }
        }
    }
}
