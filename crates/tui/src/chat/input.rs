//! The footer of the chat: the last rows of the terminal, which are painted again and again below the printed text.
//!
//! Promise: printed text above is never painted over, and no part of an old footer is left, also after the terminal
//! changed its size (if the terminal wraps its lines anew, as most do).
//! Not here: the content of the footer (see `live`).
//! Start with [`ChatFooter::paint`].

use berth_api::message::WindowSize;

use crate::cells::CellRow;

/// The footer that is on the screen, if any.
#[derive(Debug, Default)]
pub(super) struct ChatFooter {
    painted: Option<PaintedFooter>,
}

#[derive(Debug)]
struct PaintedFooter {
    rows: Vec<CellRow>,
    cursor: (usize, usize),
    size: WindowSize,
    /// Index of the first row that was painted; rows before it did not fit.
    start: usize,
}

impl ChatFooter {
    /// True if the screen shows exactly these rows.
    pub(super) fn shows(&self, rows: &[CellRow], cursor: (usize, usize), size: WindowSize) -> bool {
        self.painted.as_ref().is_some_and(|it| it.rows == rows && it.cursor == cursor && it.size == size)
    }

    /// Erases the footer. The cursor is then at the place where the footer began.
    pub(super) fn erase(&mut self, out: &mut Vec<u8>, size: WindowSize) {
        let Some(painted) = self.painted.take() else { return };
        let columns = usize::from(size.cols).max(1);
        // A terminal that became narrower has wrapped one row into several.
        let above = painted.rows[painted.start..painted.cursor.0].iter();
        let above = above.map(|row| row.width.saturating_sub(1) / columns + 1).sum::<usize>();
        let up = (above + painted.cursor.1 / columns).min(usize::from(size.rows).saturating_sub(1));
        out.push(b'\r');
        if up > 0 {
            out.extend_from_slice(format!("\x1b[{up}A").as_bytes());
        }
        out.extend_from_slice(b"\x1b[J");
    }

    /// Forgets the painted footer, because the screen was cleared.
    pub(super) fn forget(&mut self) {
        self.painted = None;
    }

    /// Paints these rows from the cursor on, which is at the start of a line, as far as the terminal has room, and puts
    /// the cursor at its place in the message.
    pub(super) fn paint(
        &mut self,
        out: &mut Vec<u8>,
        rows: Vec<CellRow>,
        cursor: (usize, usize),
        size: WindowSize,
    ) {
        let most = usize::from(size.rows).max(1);
        // The last rows have the message; the row with the cursor must be visible.
        let start = rows.len().saturating_sub(most).min(cursor.0);
        let end = (start + most).min(rows.len());
        let (shown, cursor_row) = (&rows[start..end], cursor.0 - start);
        // Wrapping is off: a terminal that takes a character for wider than we do must not wrap the row.
        out.extend_from_slice(b"\x1b[?7l");
        for (at, row) in shown.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(row.text.as_str().as_bytes());
        }
        out.extend_from_slice(b"\x1b[?7h\r");
        let up = shown.len() - 1 - cursor_row;
        if up > 0 {
            out.extend_from_slice(format!("\x1b[{up}A").as_bytes());
        }
        if cursor.1 > 0 {
            out.extend_from_slice(format!("\x1b[{}C", cursor.1).as_bytes());
        }
        self.painted = Some(PaintedFooter { rows, cursor, size, start });
    }
}

#[cfg(test)]
mod tests {
    use berth_screen::{Screen, ScreenSize};

    use super::*;
    use crate::cells::wrap;

    fn play(size: WindowSize, steps: impl FnOnce(&mut ChatFooter, &mut Screen)) -> Screen {
        let mut screen = Screen::new(ScreenSize { rows: size.rows, cols: size.cols });
        steps(&mut ChatFooter::default(), &mut screen);
        screen
    }

    fn painted(footer: &mut ChatFooter, screen: &mut Screen, line: &str, size: WindowSize, above: &str) {
        let mut out = Vec::new();
        footer.erase(&mut out, size);
        out.extend_from_slice(above.as_bytes());
        let rows = wrap(line, usize::from(size.cols));
        let last = rows.len() - 1;
        let column = rows[last].width.min(usize::from(size.cols) - 1);
        footer.paint(&mut out, rows, (last, column), size);
        screen.feed(&out);
    }

    #[test]
    fn a_foot_is_painted_over_and_the_text_above_stays() {
        let size = WindowSize { rows: 10, cols: 12 };
        let mut screen = play(size, |footer, screen| {
            painted(footer, screen, "a foot of more than one row", size, "one\r\n");
            painted(footer, screen, "short", size, "two\r\n");
            painted(footer, screen, "漢字漢字漢字漢字", size, "");
        });
        assert_eq!(screen.text(), "one\ntwo\n漢字漢字漢字\n漢字");
        assert_eq!(screen.cursor(), (3, 4));
    }

    #[test]
    fn a_foot_longer_than_the_terminal_leaves_nothing_behind_however_small_that_is() {
        for rows in 1..4 {
            for cols in 1..6 {
                // The emulator has two columns at least; painting for one must work as well.
                let size = WindowSize { rows, cols };
                let mut screen = play(size, |footer, screen| {
                    painted(footer, screen, "many words here", size, "");
                    painted(footer, screen, "x", size, "");
                });
                assert_eq!(screen.text().trim(), "x", "{rows}×{cols}");
            }
        }
    }

    #[test]
    fn a_foot_is_erased_whole_after_the_terminal_became_narrower_or_wider() {
        for (from, to) in [(20, 9), (9, 20), (20, 5)] {
            let (before, after) = (WindowSize { rows: 12, cols: from }, WindowSize { rows: 12, cols: to });
            // A full screen: with blank rows below, the emulator moves lines out that other terminals keep.
            let above: String = (1..=11).map(|n| format!("l{n}\r\n")).collect();
            let mut screen = play(before, |footer, screen| {
                painted(footer, screen, "first row of it, then the second row", before, &above);
                screen.resize(ScreenSize { rows: 12, cols: to });
                painted(footer, screen, "x", after, "");
            });
            let text = screen.text();
            assert!(text.ends_with("l10\nl11\nx"), "from {from} to {to}: {text}");
        }
    }
}
