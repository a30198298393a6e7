//! Tests that need to look inside: streams to feed, and what to compare.

mod answers;
mod fast_path;
mod recordings;
mod resize;
mod restore;
mod robust;
mod splitter;
mod streams;

use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, CursorStyle, StandardCharset};

use crate::Screen;
use crate::hidden::Hidden;
use crate::paint::{Pen, print};

/// Everything about a screen that a restored terminal must share.
#[derive(Clone, PartialEq, Debug)]
struct Shot {
    hidden: Hidden,
    mode: TermMode,
    cursor_style: CursorStyle,
    active: Picture,
    saved: Place,
    primary: Option<Picture>,
}

/// What one screen shows, and its cursor.
#[derive(Clone, PartialEq, Debug)]
struct Picture {
    cells: Vec<Vec<(String, Pen)>>,
    wraps: Vec<bool>,
    cursor: Place,
}

/// A cursor with all that belongs to it.
#[derive(Clone, PartialEq, Debug)]
struct Place {
    row: i32,
    column: usize,
    wrap_pending: bool,
    pen: Pen,
    charsets: [StandardCharset; 4],
}

fn shoot(screen: &mut Screen) -> Shot {
    let (emulator, hidden) = screen.settled();
    let mut hidden = hidden.clone();
    hidden.title_depth = 0;
    if !emulator.in_alternate() {
        // Only the application can see this, and only by going back there.
        hidden.kitty_other.clear();
    }
    let primary = emulator.in_alternate().then(|| emulator.with_primary(picture));
    let mut shot = Shot {
        hidden,
        mode: emulator.mode(),
        cursor_style: emulator.term().cursor_style(),
        active: picture(emulator.grid()),
        saved: place(emulator.grid(), &emulator.grid().saved_cursor),
        primary,
    };
    let region = i32::from(shot.hidden.region.start)..i32::from(shot.hidden.region.end);
    if shot.mode.contains(TermMode::ORIGIN) && !region.contains(&shot.active.cursor.row) {
        // No sequence goes there.
        shot.active.cursor.row = region.start;
        shot.active.cursor.column = 0;
        shot.active.cursor.wrap_pending = false;
    }
    shot
}

fn picture(grid: &Grid<Cell>) -> Picture {
    let rows = grid.screen_lines();
    let mut cells = Vec::new();
    let mut wraps = Vec::new();
    for number in 0..rows {
        let row = &grid[Line(number as i32)];
        let mut line = Vec::new();
        while line.len() < row.len() {
            let (mut text, pen) = (String::new(), Pen::of(&row[Column(line.len())]));
            let width = print(row, line.len(), |character| text.push(character));
            line.push((text, pen.clone()));
            if width == 2 {
                line.push((String::new(), pen));
            }
        }
        cells.push(line);
        // A cursor with a wrap pending is brought back by printing, and that unwraps the line.
        let pending = [&grid.cursor, &grid.saved_cursor]
            .iter()
            .any(|cursor| cursor.input_needs_wrap && cursor.point.line == number as i32);
        let flag = row[Column(row.len() - 1)].flags.contains(Flags::WRAPLINE);
        wraps.push(flag && !pending && number + 1 < rows);
    }
    Picture { cells, wraps, cursor: place(grid, &grid.cursor) }
}

fn place(grid: &Grid<Cell>, cursor: &Cursor<Cell>) -> Place {
    Place {
        row: cursor.point.line.0,
        column: cursor.point.column.0,
        wrap_pending: cursor.input_needs_wrap && cursor.point.column == grid.last_column(),
        pen: Pen::of(&cursor.template),
        charsets: [CharsetIndex::G0, CharsetIndex::G1, CharsetIndex::G2, CharsetIndex::G3]
            .map(|index| cursor.charsets[index]),
    }
}
