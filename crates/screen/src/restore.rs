//! The screen as bytes, for a terminal that did not see the stream.
//!
//! Promise: a terminal of the same size, in whatever state, ends up with the same screens, cursor and modes, and with
//! the same look of the next character. The terminal is asked nothing.
//! Not in the bytes, because no sequence can express it:
//! - the wrap flag of the last line, and of a line at whose end a cursor waits to wrap,
//! - a pending wrap that the emulator keeps in the middle of a row when it tabs backwards,
//! - the cursor saved on an alternate screen that is not shown, and the text left on it: `?47` would show it again,
//!   but the emulator clears it as `?1049` does,
//! - the row of a cursor outside the scroll region in origin mode: it goes to the nearest row inside,
//!   and no longer waits to wrap.
//!
//! The palette is set where the application set it but not reset elsewhere, and a title is only set if there
//! is one: both belong to the user.
//! Start with [`restore`].

use std::ops::Range;

use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::Line;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Cell;
use alacritty_terminal::term::color::COUNT;
use alacritty_terminal::vte::ansi::{CharsetIndex, CursorShape, NamedColor, StandardCharset};

use crate::emulator::Emulator;
use crate::hidden_state::{CLIENT_MODES, HiddenState};
use crate::paint::{CellPainter, starts_wide};

/// Ends unfinished sequences, and puts everything that painting depends on into a known state.
const START: &[u8] = concat!(
    "\x1b\\\x1b[?2026l",                      // End half a sequence and a half update,
    "\x1b[?2026h",                            // and show nothing before all is painted.
    "\x1b[?1049l",                            // Primary screen.
    "\x1b[?6l\x1b[r",                         // No origin mode, no scroll region,
    "\x1b[4;20l\x1b[?7h",                     // no insert mode, no new line mode, wrapping.
    "\x1b[?9;1000;1001;1002;1003;1005;1006l", // No mouse,
    "\x1b[?1015;1016;2027;2031;2048;1004;2004;1l\x1b>", // no reports, normal keys,
    "\x1b[>4;0m",                             // whatever is held down.
    "\x1b[?5l",                               // Not inverted, as in the middle of a visual bell.
    "\x1b[?12l\x1b[0 q",                      // The user's cursor.
)
.as_bytes();

/// ASCII in all character sets, the first of them selected; no link, no colours.
const PLAIN: &[u8] = b"\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b]8;;\x1b\\\x1b[0m";

/// Clears the screen the cursor is on. Unlike `CSI 2 J` this puts no copy into the scrollback, where a
/// client that falls behind would find one for each fresh screen it gets.
const CLEAR: &[u8] = b"\x1b[H\x1b[J";

/// Drops the keyboard modes of the screen the cursor is on.
const PLAIN_KEYS: &[u8] = b"\x1b[<99u\x1b[=0;1u";

pub(crate) fn restore(emulator: &mut Emulator, hidden: &HiddenState, title: Option<&str>) -> Vec<u8> {
    let mut painter = CellPainter::new(true);
    painter.raw(START);
    painter.raw(PLAIN);
    painter.raw(PLAIN_KEYS);
    painter.raw(CLEAR);
    if emulator.in_alternate() {
        stack_keys(&mut painter, &hidden.kitty_other);
        emulator.with_primary(|primary| {
            painter.paint(primary);
            place(&mut painter, primary, &primary.cursor, &all_rows(primary));
        });
        painter.raw(b"\x1b[?1049h");
        reset(&mut painter);
        painter.raw(PLAIN_KEYS);
        painter.raw(CLEAR);
    }
    let grid = emulator.grid();
    painter.paint(grid);
    tabs(&mut painter, hidden);
    place(&mut painter, grid, &grid.saved_cursor, &all_rows(grid));
    painter.raw(b"\x1b7");
    reset(&mut painter);
    let rows = region(&mut painter, emulator, hidden);
    place(&mut painter, grid, &grid.cursor, &rows);
    if hidden.shifted {
        painter.raw(b"\x0e");
    }
    modes(&mut painter, emulator, hidden);
    palette(&mut painter, emulator);
    if let Some(title) = title {
        let title: String = title.chars().filter(|character| !character.is_control()).collect();
        painter.format(format_args!("\x1b]2;{title}\x1b\\"));
    }
    painter.raw(b"\x1b[?2026l");
    painter.finish()
}

/// Back to plain characters without colours, whatever is set.
fn reset(painter: &mut CellPainter) {
    painter.raw(PLAIN);
    painter.forget_style();
}

/// Moves the cursor, with all that belongs to it. It can only be sent to `rows`, and counts from the first
/// of them. Plain characters must be set.
fn place(painter: &mut CellPainter, grid: &Grid<Cell>, cursor: &Cursor<Cell>, rows: &Range<usize>) {
    let line = usize::try_from(cursor.point.line.0).unwrap_or(0);
    let nearest = nearest(line, rows);
    let (row, column) = (nearest.saturating_sub(rows.start), cursor.point.column.0);
    // In another row, printing would put a wrong character there.
    if cursor.input_needs_wrap && cursor.point.column == grid.last_column() && nearest == line {
        // Only printing in the last column leaves a wrap pending, so the same character is printed again. (The emulator
        // also keeps it when it tabs backwards; terminals do not.)
        let cells = &grid[Line(line as i32)];
        let start = if column > 0 && starts_wide(cells, column - 1) { column - 1 } else { column };
        painter.go_to(row, start);
        painter.paint_cell(cells, start);
    } else {
        painter.go_to(row, column);
    }
    painter.take_pen(&cursor.template);
    let sets =
        [(CharsetIndex::G0, '('), (CharsetIndex::G1, ')'), (CharsetIndex::G2, '*'), (CharsetIndex::G3, '+')];
    for (index, name) in sets {
        match cursor.charsets[index] {
            StandardCharset::Ascii => {}
            StandardCharset::SpecialCharacterAndLineDrawing => painter.format(format_args!("\x1b{name}0")),
        }
    }
}

/// Where a cursor that should go to `line` ends up if it can only be sent to `rows`. If there are none, they
/// are below the screen, and it ends up on the last line.
pub(crate) fn nearest(line: usize, rows: &Range<usize>) -> usize {
    line.max(rows.start).min(rows.end.saturating_sub(1))
}

pub(crate) fn all_rows(grid: &Grid<Cell>) -> Range<usize> {
    0..grid.screen_lines()
}

fn tabs(painter: &mut CellPainter, hidden: &HiddenState) {
    painter.raw(b"\x1b[3g");
    for (column, _) in hidden.tabs.iter().enumerate().filter(|(_, stop)| **stop) {
        painter.format(format_args!("\x1b[{}G\x1bH", column + 1));
    }
}

/// Sets scroll region and origin mode, both of which move the cursor. Returns the rows it can then be sent
/// to.
fn region(painter: &mut CellPainter, emulator: &Emulator, hidden: &HiddenState) -> Range<usize> {
    let (top, bottom) = (hidden.region.start + 1, hidden.region.end);
    if !hidden.scrolls_fully() {
        // An empty region below the screen comes from asking for one that begins there.
        painter.format(format_args!("\x1b[{top};{}r", bottom.max(top + 1)));
    }
    if !emulator.mode().contains(TermMode::ORIGIN) {
        return all_rows(emulator.grid());
    }
    painter.raw(b"\x1b[?6h");
    usize::from(hidden.region.start)..usize::from(hidden.region.end)
}

fn modes(painter: &mut CellPainter, emulator: &Emulator, hidden: &HiddenState) {
    const ON: [(TermMode, &[u8]); 13] = [
        (TermMode::INSERT, b"\x1b[4h"),
        (TermMode::LINE_FEED_NEW_LINE, b"\x1b[20h"),
        (TermMode::APP_CURSOR, b"\x1b[?1h"),
        (TermMode::APP_KEYPAD, b"\x1b="),
        (TermMode::MOUSE_REPORT_CLICK, b"\x1b[?1000h"),
        (TermMode::MOUSE_DRAG, b"\x1b[?1002h"),
        (TermMode::MOUSE_MOTION, b"\x1b[?1003h"),
        (TermMode::UTF8_MOUSE, b"\x1b[?1005h"),
        (TermMode::SGR_MOUSE, b"\x1b[?1006h"),
        (TermMode::FOCUS_IN_OUT, b"\x1b[?1004h"),
        (TermMode::BRACKETED_PASTE, b"\x1b[?2004h"),
        (TermMode::ALTERNATE_SCROLL, b"\x1b[?1007h"),
        (TermMode::URGENCY_HINTS, b"\x1b[?1042h"),
    ];
    const OFF: [(TermMode, &[u8]); 3] = [
        (TermMode::LINE_WRAP, b"\x1b[?7l"),
        (TermMode::ALTERNATE_SCROLL, b"\x1b[?1007l"),
        (TermMode::URGENCY_HINTS, b"\x1b[?1042l"),
    ];
    let mode = emulator.mode();
    for (_, sequence) in ON.iter().filter(|(flag, _)| mode.contains(*flag)) {
        painter.raw(sequence);
    }
    for (_, sequence) in OFF.iter().filter(|(flag, _)| !mode.contains(*flag)) {
        painter.raw(sequence);
    }
    for (number, _) in CLIENT_MODES.iter().zip(hidden.client_modes).filter(|(_, on)| *on) {
        painter.format(format_args!("\x1b[?{number}h"));
    }
    if hidden.modify_other_keys > 0 {
        painter.format(format_args!("\x1b[>4;{}m", hidden.modify_other_keys));
    }
    stack_keys(painter, &hidden.kitty);
    let keys = emulator.keyboard().bits();
    if keys != hidden.kitty.last().copied().unwrap_or(0) {
        painter.format(format_args!("\x1b[={keys};1u"));
    }
    let style = emulator.term().cursor_style();
    if style.shape == CursorShape::HollowBlock && style.blinking {
        painter.raw(b"\x1b[?12h");
    } else if style.shape != CursorShape::HollowBlock {
        painter.format(format_args!("\x1b[{} q", crate::paint::cursor_style(style)));
    }
    painter.raw(if mode.contains(TermMode::SHOW_CURSOR) { b"\x1b[?25h" } else { b"\x1b[?25l" });
}

fn stack_keys(painter: &mut CellPainter, stack: &[u8]) {
    for flags in stack {
        painter.format(format_args!("\x1b[>{flags}u"));
    }
}

fn palette(painter: &mut CellPainter, emulator: &Emulator) {
    const FOREGROUND: usize = NamedColor::Foreground as usize;
    const CURSOR: usize = NamedColor::Cursor as usize;
    for index in 0..COUNT {
        let Some(rgb) = emulator.term().colors()[index] else { continue };
        let name = match index {
            0..256 => format!("4;{index}"),
            FOREGROUND..=CURSOR => format!("{}", index - FOREGROUND + 10),
            _ => continue,
        };
        painter.format(format_args!("\x1b]{name};rgb:{:02x}/{:02x}/{:02x}\x1b\\", rgb.r, rgb.g, rgb.b));
    }
}
