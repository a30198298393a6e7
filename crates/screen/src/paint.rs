//! Cells to bytes.
//!
//! Promise: the bytes, printed on a cleared screen of the same size, look like the cells it was painted
//! from: characters, colours, styles, links, and which lines wrapped into the next.
//! Halves of wide characters without their other half are painted as blanks, as terminals show them.
//! Not here: modes and cursor state (see `restore`).
//! Start with [`CellPainter::paint`].

use std::io::Write;

use alacritty_terminal::grid::{Dimensions, Grid, Row};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags, Hyperlink};
use alacritty_terminal::vte::ansi::{Color, CursorShape, CursorStyle, NamedColor};

const STYLES: Flags = Flags::INVERSE
    .union(Flags::BOLD)
    .union(Flags::DIM)
    .union(Flags::ITALIC)
    .union(Flags::HIDDEN)
    .union(Flags::STRIKEOUT)
    .union(Flags::ALL_UNDERLINES);

/// A gap of this many blanks is cheaper to jump over than to print.
const JUMP_FROM: usize = 5;

/// Writes cells, and remembers how the last one looked.
pub(crate) struct CellPainter {
    out: Vec<u8>,
    pen: CellStyle,
    links: bool,
}

/// How a cell looks, apart from its character.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CellStyle {
    foreground: Color,
    background: Color,
    styles: Flags,
    underline: Option<Color>,
    link: Option<Hyperlink>,
}

impl CellStyle {
    pub(crate) fn of(cell: &Cell) -> Self {
        CellStyle {
            foreground: cell.fg,
            background: cell.bg,
            styles: cell.flags & STYLES,
            underline: cell.underline_color(),
            link: cell.hyperlink(),
        }
    }
}

impl CellPainter {
    /// A painter for a terminal whose colours were just reset.
    pub(crate) fn new(links: bool) -> Self {
        CellPainter { out: Vec::new(), pen: CellStyle::of(&Cell::default()), links }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn format(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.out.write_fmt(arguments).expect("writing to memory cannot fail");
    }

    pub(crate) fn go_to(&mut self, row: usize, column: usize) {
        self.format(format_args!("\x1b[{};{}H", row + 1, column + 1));
    }

    /// Forgets how the last cell looked, after colours and links were reset.
    pub(crate) fn forget_style(&mut self) {
        self.pen = CellStyle::of(&Cell::default());
    }

    /// Makes the next printed characters look like `cell`.
    pub(crate) fn take_pen(&mut self, cell: &Cell) {
        let pen = CellStyle::of(cell);
        if self.links && pen.link != self.pen.link {
            match &pen.link {
                Some(link) => self.format(format_args!("\x1b]8;id={};{}\x1b\\", link.id(), link.uri())),
                None => self.raw(b"\x1b]8;;\x1b\\"),
            }
        }
        if (CellStyle { link: None, ..pen.clone() }) != (CellStyle { link: None, ..self.pen.clone() }) {
            self.raw(b"\x1b[");
            sgr(&mut self.out, cell);
            self.raw(b"m");
        }
        self.pen = pen;
    }

    /// Paints a screen that is blank so far. The cursor ends up anywhere.
    pub(crate) fn paint(&mut self, grid: &Grid<Cell>) {
        let rows = grid.screen_lines();
        let mut wrapped = false;
        for number in 0..rows {
            let row = &grid[Line(number as i32)];
            let below = (number + 1 < rows).then(|| &grid[Line(number as i32 + 1)]);
            wrapped = self.paint_row(number, row, below, wrapped);
        }
    }

    /// Paints one row. `wrapped` says that the row above flows into this one and the cursor is still up
    /// there; the answer says the same for the row below.
    fn paint_row(
        &mut self,
        number: usize,
        row: &Row<Cell>,
        below: Option<&Row<Cell>>,
        wrapped: bool,
    ) -> bool {
        let columns = row.len();
        let wraps = below.is_some() && row[Column(columns - 1)].flags.contains(Flags::WRAPLINE);
        let mut end = used_columns(row);
        if wrapped {
            // The wrap happens when the next character is printed, so there must be one.
            end = end.max(1);
        } else if end > 0 {
            self.go_to(number, 0);
        }
        if wraps && below.is_some_and(|below| wide_did_not_fit(row, below)) {
            // Printing the wide character below leaves this gap by itself.
            end = columns - 1;
        }
        let mut column = 0;
        while column < end {
            let gap = (column..end).take_while(|&column| is_blank(&row[Column(column)])).count();
            if gap >= JUMP_FROM && !(wrapped && column == 0) {
                self.format(format_args!("\x1b[{gap}C"));
                column += gap;
                continue;
            }
            column += self.paint_cell(row, column);
            let marked = row[Column(column - 1)].zerowidth().is_some_and(|marks| !marks.is_empty());
            if marked && column < columns {
                // Terminals disagree on the width of characters with marks; say where we are.
                self.format(format_args!("\x1b[{}G", column + 1));
            }
        }
        wraps
    }

    /// Prints the character in this cell and returns how many cells it takes.
    pub(crate) fn paint_cell(&mut self, row: &Row<Cell>, column: usize) -> usize {
        let cell = &row[Column(column)];
        self.take_pen(cell);
        let width = write_cell_text(row, column, |character| {
            self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        });
        usize::from(width)
    }
}

/// Gives out the characters of a cell as they should be printed, and its width.
pub(crate) fn write_cell_text(row: &Row<Cell>, column: usize, mut put: impl FnMut(char)) -> u8 {
    let cell = &row[Column(column)];
    let wide = starts_wide(row, column);
    let half = cell.flags.intersects(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER) && !wide;
    if half || cell.c == '\t' {
        put(' ');
        return 1;
    }
    put(cell.c);
    cell.zerowidth().into_iter().flatten().copied().for_each(put);
    if wide { 2 } else { 1 }
}

/// True if a wide character starts here and has both its halves.
pub(crate) fn starts_wide(row: &Row<Cell>, column: usize) -> bool {
    row[Column(column)].flags.contains(Flags::WIDE_CHAR)
        && column + 1 < row.len()
        && row[Column(column + 1)].flags.contains(Flags::WIDE_CHAR_SPACER)
}

/// True if the last cell of `row` is only empty because the wide character below did not fit. Without
/// wrapping, a later character that does not fit either leaves its marks on that cell.
fn wide_did_not_fit(row: &Row<Cell>, below: &Row<Cell>) -> bool {
    let last = &row[Column(row.len() - 1)];
    last.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER)
        && last.zerowidth().is_none_or(<[char]>::is_empty)
        && starts_wide(below, 0)
        && CellStyle::of(last) == CellStyle::of(&below[Column(0)])
}

/// How many cells of a row have to be painted.
pub(crate) fn used_columns(row: &Row<Cell>) -> usize {
    (0..row.len()).rev().find(|&column| !is_blank(&row[Column(column)])).map_or(0, |last| last + 1)
}

/// True for a cell as it is after clearing with default colours.
fn is_blank(cell: &Cell) -> bool {
    matches!(cell.c, ' ' | '\t')
        && cell.fg == Color::Named(NamedColor::Foreground)
        && cell.bg == Color::Named(NamedColor::Background)
        && cell.flags.is_empty()
        && cell.extra.is_none()
}

/// The parameters of the SGR sequence that makes things look like `cell`, whatever was set before.
pub(crate) fn sgr(out: &mut Vec<u8>, cell: &Cell) {
    const PARAMETERS: [(Flags, &[u8]); 11] = [
        (Flags::BOLD, b";1"),
        (Flags::DIM, b";2"),
        (Flags::ITALIC, b";3"),
        (Flags::UNDERLINE, b";4"),
        (Flags::DOUBLE_UNDERLINE, b";4:2"),
        (Flags::UNDERCURL, b";4:3"),
        (Flags::DOTTED_UNDERLINE, b";4:4"),
        (Flags::DASHED_UNDERLINE, b";4:5"),
        (Flags::INVERSE, b";7"),
        (Flags::HIDDEN, b";8"),
        (Flags::STRIKEOUT, b";9"),
    ];
    out.push(b'0');
    for (flag, parameter) in PARAMETERS {
        if cell.flags.contains(flag) {
            out.extend_from_slice(parameter);
        }
    }
    colour(out, cell.fg, 30);
    colour(out, cell.bg, 40);
    let written = match cell.underline_color() {
        Some(Color::Indexed(index)) => write!(out, ";58:5:{index}"),
        Some(Color::Spec(rgb)) => write!(out, ";58:2::{}:{}:{}", rgb.r, rgb.g, rgb.b),
        Some(Color::Named(_)) | None => Ok(()),
    };
    written.expect("writing to memory cannot fail");
}

fn colour(out: &mut Vec<u8>, colour: Color, base: usize) {
    let written = match colour {
        Color::Named(name) => match name as usize {
            index @ 0..8 => write!(out, ";{}", base + index),
            index @ 8..16 => write!(out, ";{}", base + 60 + index - 8),
            _ => Ok(()),
        },
        Color::Indexed(index) => write!(out, ";{};5;{index}", base + 8),
        Color::Spec(rgb) => write!(out, ";{};2;{};{};{}", base + 8, rgb.r, rgb.g, rgb.b),
    };
    written.expect("writing to memory cannot fail");
}

/// The parameter of DECSCUSR for a cursor style; 0 is the style that the user chose.
pub(crate) fn cursor_style(style: CursorStyle) -> u8 {
    let steady = match style.shape {
        CursorShape::Block => 2,
        CursorShape::Underline => 4,
        CursorShape::Beam => 6,
        CursorShape::HollowBlock | CursorShape::Hidden => return 0,
    };
    steady - u8::from(style.blinking)
}
