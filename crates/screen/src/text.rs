//! The visible screen for people and programs that are not terminals.
//!
//! Promise: lines end where their text ends, and the text where its last line does.
//! Start with [`text`] and [`ansi`].

use alacritty_terminal::grid::{Dimensions, Grid, Row};
use alacritty_terminal::index::Line;
use alacritty_terminal::term::cell::Cell;

use crate::paint::{CellPainter, used_columns, write_cell_text};

/// The characters only.
pub(crate) fn text(grid: &Grid<Cell>) -> String {
    lines(grid, |row| {
        let mut line = row_text(row);
        line.truncate(line.trim_end().len());
        line
    })
}

/// The characters of one row, up to the last cell that was written.
pub(crate) fn row_text(row: &Row<Cell>) -> String {
    let mut line = String::new();
    let mut column = 0;
    while column < used_columns(row) {
        column += usize::from(write_cell_text(row, column, |character| line.push(character)));
    }
    line
}

/// The characters with their colours. Colours end with the line, so that nothing spills over into what
/// a terminal shows to the right of it or below.
pub(crate) fn ansi(grid: &Grid<Cell>) -> String {
    lines(grid, |row| {
        let mut painter = CellPainter::new(false);
        let mut column = 0;
        while column < used_columns(row) {
            column += painter.paint_cell(row, column);
        }
        painter.take_pen(&Cell::default());
        String::from_utf8(painter.finish()).expect("a painter writes characters and ASCII")
    })
}

fn lines(grid: &Grid<Cell>, line: impl FnMut(&Row<Cell>) -> String) -> String {
    let rows = (0..grid.screen_lines()).map(|number| &grid[Line(number as i32)]);
    let mut lines: Vec<String> = rows.map(line).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n")
}
