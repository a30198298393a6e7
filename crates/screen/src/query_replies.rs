//! Answers to an application's queries, for the time without an attached terminal.
//!
//! Promise: one answer per question, in the order of the questions.
//! Not here: sending an answer (the keeper decides: an attached terminal answers itself).
//! Start with [`QueryReplies::reply`] and [`QueryReplies::report`].

use std::io::Write;
use std::mem;

use alacritty_terminal::event::{Event, WindowSize};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::vte::ansi::{NamedColor, Rgb};

use crate::emulator::Emulator;
use crate::hidden_state::HiddenState;
use crate::paint::{cursor_style, sgr};
use crate::scan::TerminalQuery;

/// Size limit of the answers that a keeper did not fetch. Further ones are dropped.
const ANSWERS_LIMIT_BYTES: usize = 16 * 1024;

/// The size of a cell we claim, for applications that count in pixels.
const CELL_WIDTH: u16 = 10;
const CELL_HEIGHT: u16 = 20;

#[derive(Debug, Default)]
pub(crate) struct QueryReplies {
    bytes: Vec<u8>,
}

impl QueryReplies {
    pub(crate) fn take(&mut self) -> Vec<u8> {
        mem::take(&mut self.bytes)
    }

    /// Answers a query that the emulator left open.
    pub(crate) fn reply(&mut self, query: &TerminalQuery, emulator: &Emulator, hidden: &HiddenState) {
        let mut answer = Vec::new();
        let out = &mut answer;
        let written = match query {
            TerminalQuery::Version => write!(out, "\x1bP>|berth({})\x1b\\", env!("CARGO_PKG_VERSION")),
            TerminalQuery::UnitId => write!(out, "\x1bP!|00000000\x1b\\"),
            TerminalQuery::CursorPosition => {
                let point = emulator.grid().cursor.point;
                write!(out, "\x1b[?{};{}R", point.line.0 + 1, point.column.0 + 1)
            }
            TerminalQuery::ColourScheme => write!(out, "\x1b[?997;1n"),
            TerminalQuery::ModifyOtherKeys => write!(out, "\x1b[>4;{}m", hidden.modify_other_keys),
            TerminalQuery::Capability(names) => {
                // Echoing anything but hexadecimal would let output type into the application.
                let names = names.split(|byte| !byte.is_ascii_hexdigit() && *byte != b';').next();
                out.extend_from_slice(b"\x1bP0+r");
                out.extend_from_slice(names.unwrap_or_default());
                write!(out, "\x1b\\")
            }
            TerminalQuery::Setting(name) => match name.as_slice() {
                b"m" => {
                    out.extend_from_slice(b"\x1bP1$r");
                    sgr(out, &emulator.grid().cursor.template);
                    write!(out, "m\x1b\\")
                }
                b"r" => write!(out, "\x1bP1$r{};{}r\x1b\\", hidden.region.start + 1, hidden.region.end),
                b" q" => write!(out, "\x1bP1$r{} q\x1b\\", cursor_style(emulator.term().cursor_style())),
                _ => write!(out, "\x1bP0$r\x1b\\"),
            },
        };
        written.expect("writing to memory cannot fail");
        self.push(&answer);
    }

    /// Takes an event of the emulator, and adds its answer for the application.
    pub(crate) fn report(&mut self, event: &Event, emulator: &Emulator) {
        match event {
            Event::PtyWrite(text) => self.push(text.as_bytes()),
            Event::ColorRequest(index, format) => {
                let colour = emulator.term().colors()[*index].unwrap_or_else(|| default_colour(*index));
                self.push(format(colour).as_bytes());
            }
            Event::TextAreaSizeRequest(format) => {
                let grid = emulator.grid();
                let size = WindowSize {
                    num_lines: grid.screen_lines() as u16,
                    num_cols: grid.columns() as u16,
                    cell_width: CELL_WIDTH,
                    cell_height: CELL_HEIGHT,
                };
                self.push(format(size).as_bytes());
            }
            _ => {}
        }
    }

    fn push(&mut self, answer: &[u8]) {
        if self.bytes.len() + answer.len() <= ANSWERS_LIMIT_BYTES {
            self.bytes.extend_from_slice(answer);
        }
    }
}

/// A dark theme: the colours of an xterm, light grey on almost black.
fn default_colour(index: usize) -> Rgb {
    const BASE: [u32; 16] = [
        0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5, //
        0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
    ];
    const BACKGROUND: usize = NamedColor::Background as usize;
    let step = |value: usize| if value == 0 { 0 } else { (55 + 40 * value) as u8 };
    match index {
        BACKGROUND => Rgb { r: 0x18, g: 0x18, b: 0x18 },
        0..16 => {
            let [_, r, g, b] = BASE[index].to_be_bytes();
            Rgb { r, g, b }
        }
        16..232 => {
            let cube = index - 16;
            Rgb { r: step(cube / 36), g: step(cube / 6 % 6), b: step(cube % 6) }
        }
        232..=255 => {
            let grey = (8 + 10 * (index - 232)) as u8;
            Rgb { r: grey, g: grey, b: grey }
        }
        _ => Rgb { r: 0xd8, g: 0xd8, b: 0xd8 },
    }
}
