//! Tests that need private state: streams to feed, and comparisons.
//!
//! A property that fails prints its smallest counterexample and its seed: `BERTH_SEED=N` repeats that run,
//! `BERTH_CASES=500000` tries as many cases. Name the one test when you use them.

mod fast_path;
mod query_replies;
mod recordings;
mod resize;
mod restore;
mod robust;
mod splitter;
mod streams;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::str::FromStr;

use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, CursorStyle, StandardCharset};
use proptest::test_runner::{Config, RngSeed};

use crate::Screen;
use crate::hidden_state::HiddenState;
use crate::paint::{CellStyle, write_cell_text};
use crate::restore::{all_rows, nearest};

/// Number of random cases of a property, unless the environment overrides it.
///
/// This prints the seed, which the test harness shows if the property fails.
fn cases(usual: u32) -> Config {
    let seed = number("BERTH_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    let cases = number("BERTH_CASES").unwrap_or(usual);
    println!("BERTH_SEED={seed} BERTH_CASES={cases} repeats this run");
    Config { failure_persistence: None, rng_seed: RngSeed::Fixed(seed), ..Config::with_cases(cases) }
}

fn number<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number that fits")))
}

/// Everything about a screen that a restored terminal must share.
#[derive(Clone, PartialEq, Debug)]
struct EmulatorSnapshot {
    hidden: HiddenState,
    mode: TermMode,
    cursor_style: CursorStyle,
    active: ScreenContents,
    saved: EmulatorCursor,
    primary: Option<ScreenContents>,
}

/// The contents of one screen, and its cursor.
#[derive(Clone, PartialEq, Debug)]
struct ScreenContents {
    cells: Vec<Vec<(String, CellStyle)>>,
    wraps: Vec<bool>,
    cursor: EmulatorCursor,
}

/// A cursor with all that belongs to it.
#[derive(Clone, PartialEq, Debug)]
struct EmulatorCursor {
    row: usize,
    column: usize,
    wrap_pending: bool,
    pen: CellStyle,
    charsets: [StandardCharset; 4],
}

fn shoot(screen: &mut Screen) -> EmulatorSnapshot {
    let (emulator, hidden) = screen.settled();
    let mut hidden = hidden.clone();
    hidden.title_depth = 0;
    if !emulator.in_alternate() {
        // Only the application can see this, and only by going back there.
        hidden.kitty_other.clear();
    }
    let primary =
        emulator.in_alternate().then(|| emulator.with_primary(|grid| picture(grid, &all_rows(grid))));
    let rows = if emulator.mode().contains(TermMode::ORIGIN) {
        usize::from(hidden.region.start)..usize::from(hidden.region.end)
    } else {
        all_rows(emulator.grid())
    };
    EmulatorSnapshot {
        hidden,
        mode: emulator.mode(),
        cursor_style: emulator.term().cursor_style(),
        active: picture(emulator.grid(), &rows),
        saved: place(emulator.grid(), &emulator.grid().saved_cursor, &all_rows(emulator.grid())),
        primary,
    }
}

/// `rows` are those a sequence can send the cursor to.
fn picture(grid: &Grid<Cell>, rows: &Range<usize>) -> ScreenContents {
    let cursor = place(grid, &grid.cursor, rows);
    let saved = place(grid, &grid.saved_cursor, &all_rows(grid));
    let mut cells = Vec::new();
    let mut wraps = Vec::new();
    for number in all_rows(grid) {
        let row = &grid[Line(number as i32)];
        let mut line = Vec::new();
        while line.len() < row.len() {
            let (mut text, pen) = (String::new(), CellStyle::of(&row[Column(line.len())]));
            let width = write_cell_text(row, line.len(), |character| text.push(character));
            line.push((text, pen.clone()));
            if width == 2 {
                line.push((String::new(), pen));
            }
        }
        cells.push(line);
        // A cursor with a wrap pending is brought back by printing, and that unwraps the line.
        let pending = [&cursor, &saved].iter().any(|place| place.wrap_pending && place.row == number);
        let flag = row[Column(row.len() - 1)].flags.contains(Flags::WRAPLINE);
        wraps.push(flag && !pending && number + 1 < grid.screen_lines());
    }
    ScreenContents { cells, wraps, cursor }
}

fn place(grid: &Grid<Cell>, cursor: &Cursor<Cell>, rows: &Range<usize>) -> EmulatorCursor {
    let line = cursor.point.line.0 as usize;
    let row = nearest(line, rows);
    // The emulator keeps a wrap pending when it tabs backwards, terminals do not.
    let wrap_pending = cursor.input_needs_wrap && cursor.point.column == grid.last_column() && row == line;
    EmulatorCursor {
        row,
        column: cursor.point.column.0,
        wrap_pending,
        pen: CellStyle::of(&cursor.template),
        charsets: [CharsetIndex::G0, CharsetIndex::G1, CharsetIndex::G2, CharsetIndex::G3]
            .map(|index| cursor.charsets[index]),
    }
}
