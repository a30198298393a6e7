//! The emulator, behind limits.
//!
//! Promise: no history unless it is asked for (it allocates a thousand rows at once), no waiting for the end of
//! synchronized updates, no panic gets out, and no growth that the size does not explain.
//! Not here: the time to feed it (see `screen`), its hidden state (see `hidden_state`).
//! Start with [`Emulator::advance`].

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::{Dimensions, Grid, Row};
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::cell::Cell;
use alacritty_terminal::term::{Config, Osc52, Term, TermMode};
use alacritty_terminal::vte::ansi::{
    CursorShape, CursorStyle, Handler, KeyboardModes, KeyboardModesApplyBehavior, Processor, Timeout,
};

use crate::ScreenSize;

/// How many marks (accents, joiners) one character keeps. The emulator would keep any number.
pub(crate) const MARKS_LIMIT: usize = 32;

/// The emulator panicked; its state can no longer be trusted.
#[derive(Debug)]
pub(crate) struct EmulatorPanicked;

pub(crate) struct Emulator {
    term: Term<EmulatorEvents>,
    parser: Processor<NoSyncTimeout>,
    mailbox: EmulatorEvents,
}

impl Emulator {
    pub(crate) fn new(size: ScreenSize) -> Self {
        Self::with_history(size, 0)
    }

    /// An emulator that keeps lines that scrolled away, until they are taken.
    pub(crate) fn with_history(size: ScreenSize, lines: usize) -> Self {
        let mailbox = EmulatorEvents::default();
        let config = Config {
            scrolling_history: lines,
            // No sequence sets a hollow block, so it can stand for "the application set nothing".
            default_cursor_style: CursorStyle { shape: CursorShape::HollowBlock, blinking: false },
            kitty_keyboard: true,
            osc52: Osc52::Disabled,
            ..Config::default()
        };
        Emulator { term: Term::new(config, &size, mailbox.clone()), parser: Processor::new(), mailbox }
    }

    /// Feeds whole sequences and characters.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<(), EmulatorPanicked> {
        if bytes.is_empty() {
            return Ok(());
        }
        catch_unwind(AssertUnwindSafe(|| self.parser.advance(&mut self.term, bytes)))
            .map_err(|_| EmulatorPanicked)
    }

    pub(crate) fn resize(&mut self, size: ScreenSize) -> Result<(), EmulatorPanicked> {
        catch_unwind(AssertUnwindSafe(|| self.resize_both(size))).map_err(|_| EmulatorPanicked)
    }

    /// Takes the events that the emulator reported since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        mem::take(&mut *self.mailbox.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn term(&self) -> &Term<EmulatorEvents> {
        &self.term
    }

    pub(crate) fn grid(&self) -> &Grid<Cell> {
        self.term.grid()
    }

    /// Forgets the lines that scrolled away.
    pub(crate) fn clear_history(&mut self) {
        self.term.grid_mut().clear_history();
    }

    pub(crate) fn mode(&self) -> TermMode {
        *self.term.mode()
    }

    pub(crate) fn in_alternate(&self) -> bool {
        self.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Shows the other screen as `?47` and `?1047` do, which the emulator does not know: unlike `?1049` they
    /// neither save the cursor nor bring it back, it is the same on both screens.
    ///
    /// The primary screen's own cursor counts for nothing meanwhile, so it can stand where the saved one does: then
    /// everything is as after `?1049` at that place, and needs no memory of how the screen was entered.
    pub(crate) fn show_alternate(&mut self, alternate: bool) {
        if alternate == self.in_alternate() {
            return;
        }
        let grid = self.term.grid_mut();
        let cursor = grid.cursor.clone();
        if alternate {
            grid.cursor = grid.saved_cursor.clone();
        }
        self.term.swap_alt();
        self.term.grid_mut().cursor = cursor;
    }

    /// Puts the cursor at the start of the last line, without a trace of where it was.
    pub(crate) fn go_to_last_line(&mut self) {
        let grid = self.term.grid_mut();
        grid.cursor.point = Point::new(grid.bottommost_line(), Column(0));
        grid.cursor.input_needs_wrap = false;
    }

    /// Cuts off the marks of characters that have more than a few.
    pub(crate) fn cut_marks(&mut self) {
        let grid = self.term.grid_mut();
        for line in (0..grid.screen_lines()).map(Line::from) {
            for column in (0..grid.columns()).map(Column) {
                let cell = &grid[line][column];
                let Some(marks) = cell.zerowidth().filter(|marks| marks.len() > MARKS_LIMIT) else {
                    continue;
                };
                let mut cut = Cell { extra: None, ..cell.clone() };
                cut.set_underline_color(cell.underline_color());
                cut.set_hyperlink(cell.hyperlink());
                marks[..MARKS_LIMIT].iter().for_each(|&mark| cut.push_zerowidth(mark));
                grid[line][column] = cut;
            }
        }
    }

    /// Shows the primary screen to `look` while the alternate screen is active.
    ///
    /// The emulator can only look at the active screen, and swapping clears the alternate one; so that
    /// is kept aside meanwhile.
    pub(crate) fn with_primary<T>(&mut self, look: impl FnOnce(&mut Grid<Cell>) -> T) -> T {
        debug_assert!(self.in_alternate());
        let keyboard = self.keyboard();
        let alternate = mem::replace(self.term.grid_mut(), Grid::new(1, 1, 0));
        self.term.swap_alt();
        let seen = look(self.term.grid_mut());
        self.term.swap_alt();
        *self.term.grid_mut() = alternate;
        self.set_keyboard(keyboard);
        seen
    }

    /// Keeps the rows that scroll off the primary screen from here on, at most this many. Resizing forgets them.
    pub(crate) fn keep_history(&mut self, rows: usize) {
        self.on_primary(|primary| primary.update_history(rows));
    }

    /// Shows the rows that scrolled off the primary screen to `look`, oldest first, and forgets them.
    pub(crate) fn take_history(&mut self, mut look: impl FnMut(&Row<Cell>)) {
        self.on_primary(|primary| {
            for line in primary.topmost_line().0..0 {
                look(&primary[Line(line)]);
            }
            primary.clear_history();
        });
    }

    fn on_primary<T>(&mut self, act: impl FnOnce(&mut Grid<Cell>) -> T) -> T {
        if self.in_alternate() { self.with_primary(act) } else { act(self.term.grid_mut()) }
    }

    /// Resizes both screens without the emulator's own `resize`, which allocates a thousand spare
    /// rows per screen whenever a row is added, and keeps them.
    ///
    /// The screens are taken out and resized by themselves. The emulator then resizes stand-ins that
    /// already have the right number of rows; one column is in excess so that it does the rest of its
    /// work (tab stops, scroll region).
    fn resize_both(&mut self, size: ScreenSize) {
        let keyboard = self.keyboard();
        let in_alternate = self.in_alternate();
        let stand_in = || Grid::new(size.screen_lines(), size.columns() + 1, 0);

        let active = mem::replace(self.term.grid_mut(), stand_in());
        self.term.swap_alt();
        let other = mem::replace(self.term.grid_mut(), stand_in());
        self.term.swap_alt();
        self.term.resize(size);

        if in_alternate {
            self.term.swap_alt();
            *self.term.grid_mut() = resized(other, true, size);
            self.term.swap_alt();
        }
        *self.term.grid_mut() = resized(active, !in_alternate, size);
        self.set_keyboard(keyboard);
    }

    pub(crate) fn keyboard(&self) -> KeyboardModes {
        let mode = self.mode();
        KeyboardModes::all()
            .iter()
            .filter(|&flag| mode.contains(flag.into()))
            .fold(KeyboardModes::NO_MODE, KeyboardModes::union)
    }

    fn set_keyboard(&mut self, modes: KeyboardModes) {
        Handler::set_keyboard_mode(&mut self.term, modes, KeyboardModesApplyBehavior::Replace);
    }
}

fn resized(mut grid: Grid<Cell>, reflow: bool, size: ScreenSize) -> Grid<Cell> {
    let rows = size.screen_lines();
    if rows > grid.screen_lines() {
        let mut taller = Grid::new(rows, grid.columns(), 0);
        for line in (0..grid.screen_lines()).map(Line::from) {
            mem::swap(&mut taller[line], &mut grid[line]);
        }
        taller.cursor = mem::take(&mut grid.cursor);
        taller.saved_cursor = mem::take(&mut grid.saved_cursor);
        grid = taller;
    }
    grid.resize(reflow, rows, size.columns());
    grid.truncate();
    for line in (0..rows).map(Line::from) {
        // A row remembers how much of it was written and clears no more than that. Growing forgets
        // that cells beyond may be coloured, so say that everything was written.
        grid[line].last_mut();
    }
    // The emulator leaves a wrap pending in the middle of a row that grew.
    let last_column = grid.last_column();
    let Grid { cursor, saved_cursor, .. } = &mut grid;
    for cursor in [cursor, saved_cursor] {
        cursor.input_needs_wrap &= cursor.point.column == last_column;
    }
    grid
}

/// Collects the events of the emulator, in order.
#[derive(Clone, Default)]
pub(crate) struct EmulatorEvents(Arc<Mutex<Vec<Event>>>);

impl EventListener for EmulatorEvents {
    fn send_event(&self, event: Event) {
        match event {
            Event::Title(_)
            | Event::ResetTitle
            | Event::ColorRequest(..)
            | Event::PtyWrite(_)
            | Event::TextAreaSizeRequest(_) => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
            }
            Event::MouseCursorDirty
            | Event::ClipboardStore(..)
            | Event::ClipboardLoad(..)
            | Event::CursorBlinkingChange
            | Event::Wakeup
            | Event::Bell
            | Event::Exit
            | Event::ChildExit(_) => {}
        }
    }
}

/// Applies synchronized updates at once: no user watches this screen, so there is no flicker to avoid, and a frame that
/// never ends holds nothing back.
#[derive(Default)]
struct NoSyncTimeout;

impl Timeout for NoSyncTimeout {
    fn set_timeout(&mut self, _duration: Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}
