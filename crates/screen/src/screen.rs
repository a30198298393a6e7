//! The screen of one application.
//!
//! Promise: any split of the stream gives the same screen, and so does any order of feeding and looking.
//! Text is only put off, never left out, unless it has certainly scrolled away.
//! Not here: the emulation itself (`emulator`), why skipping is exact (`pending`).
//! Start with [`Screen::feed`].

use alacritty_terminal::event::Event;
use alacritty_terminal::grid::{Grid, Row};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Cell;
use memchr::{memchr, memchr3};

use crate::emulator::{Emulator, EmulatorPanicked, MARKS_LIMIT};
use crate::hidden_state::{HiddenState, KITTY_STACK_LIMIT, TITLE_STACK_LIMIT};
use crate::pending_text::PendingText;
use crate::query_replies::QueryReplies;
use crate::restore::restore;
use crate::scan::{SequenceEffect, SequenceScanner};
use crate::sequence::{SI, SO, SequenceKind, measure};
use crate::splitter::{ESC, StreamSplitter};
use crate::{ScreenSize, text};

/// Longer sequences are left out: they are pictures or clipboard contents, which the emulator could only
/// collect and ignore.
pub(crate) const SEQUENCE_LIMIT_BYTES: usize = 8 * 1024;

/// Number of bytes processed in one go, so that a large read does not become large buffers.
const CHUNK_BYTES: usize = 64 * 1024;

/// Number of bytes after which characters with too many marks are cut.
const SWEEP_EVERY_BYTES: usize = 1024 * 1024;

/// The screen that a terminal would show after the stream.
pub struct Screen {
    size: ScreenSize,
    splitter: StreamSplitter,
    pending: PendingText,
    emulator: Emulator,
    hidden: HiddenState,
    scanner: SequenceScanner,
    answers: QueryReplies,
    title: Option<String>,
    unswept_bytes: usize,
    damaged: bool,
    /// True if rows that scroll off are kept, so none may be skipped.
    keeps_history: bool,
}

impl Screen {
    /// A blank screen. The size is clamped, see [`ScreenSize::clamped`].
    pub fn new(size: ScreenSize) -> Self {
        let size = size.clamped();
        Screen {
            size,
            splitter: StreamSplitter::dropping(SEQUENCE_LIMIT_BYTES),
            pending: PendingText::default(),
            emulator: Emulator::new(size),
            hidden: HiddenState::new(size),
            scanner: SequenceScanner::new(),
            answers: QueryReplies::default(),
            title: None,
            unswept_bytes: 0,
            damaged: false,
            keeps_history: false,
        }
    }

    /// Takes the next bytes of the application's output, however they are split.
    pub fn feed(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(CHUNK_BYTES) {
            let whole = self.splitter.push(chunk);
            self.take(&whole);
        }
    }

    /// Changes the size, as a terminal does: lines of the primary screen wrap anew, the alternate
    /// screen is cut or extended, the scroll region is freed.
    pub fn resize(&mut self, size: ScreenSize) {
        self.settle();
        let size = size.clamped();
        if size == self.size {
            return;
        }
        self.size = size;
        self.hidden.resize(size);
        if let Err(EmulatorPanicked) = self.emulator.resize(size) {
            self.start_over();
        }
    }

    /// The size in use.
    pub fn size(&self) -> ScreenSize {
        self.size
    }

    /// Answers of a terminal to the queries since the last call. They are for the application, if no client was
    /// attached whose terminal has answered already.
    ///
    /// Cheap enough to call after every read: text that was put off asks nothing, so it may stay put off.
    pub fn take_answers(&mut self) -> Vec<u8> {
        self.answers.take()
    }

    /// Bytes that bring a terminal of the same size, in whatever state, to exactly this screen.
    pub fn restore(&mut self) -> Vec<u8> {
        self.settle();
        restore(&mut self.emulator, &self.hidden, self.title.as_deref())
    }

    /// The visible screen as plain text, without blanks at the end of lines and without blank lines at
    /// the end.
    pub fn text(&mut self) -> String {
        self.settle();
        text::text(self.emulator.grid())
    }

    /// The visible screen as text with colours, to be printed in a terminal.
    pub fn ansi(&mut self) -> String {
        self.settle();
        text::ansi(self.emulator.grid())
    }

    /// The window title, if the application set one.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref().filter(|title| !title.is_empty())
    }

    /// Row and column of the cursor, from zero. Feeds the delayed text, hence `mut`.
    pub fn cursor(&mut self) -> (u16, u16) {
        self.settle();
        let point = self.emulator.grid().cursor.point;
        (point.line.0 as u16, point.column.0 as u16)
    }

    /// True if the application asked to be told where a paste begins and ends.
    pub fn takes_paste(&mut self) -> bool {
        self.settle();
        self.emulator.mode().contains(TermMode::BRACKETED_PASTE)
    }

    /// True if the alternate screen is shown.
    pub fn in_alternate(&self) -> bool {
        self.emulator.in_alternate()
    }

    /// True if the emulator once failed on this stream. The screen began again blank at that point, so
    /// it may lack things until the application paints anew.
    pub fn damaged(&self) -> bool {
        self.damaged
    }

    /// The screen that is shown, with nothing put off, and its modes.
    pub(crate) fn settled_grid(&mut self) -> (&Grid<Cell>, TermMode) {
        self.settle();
        (self.emulator.grid(), self.emulator.mode())
    }

    /// Keeps the rows that scroll off the primary screen from here on, at most this many. Resizing forgets them.
    pub(crate) fn keep_history(&mut self, rows: usize) {
        self.settle();
        self.keeps_history = true;
        self.emulator.keep_history(rows);
    }

    /// Shows the rows that scrolled off the primary screen to `look`, oldest first, and forgets them.
    pub(crate) fn take_history(&mut self, look: impl FnMut(&Row<Cell>)) {
        self.settle();
        self.emulator.take_history(look);
    }

    /// Takes whole sequences and characters: puts off what may be put off, feeds the rest.
    fn take(&mut self, bytes: &[u8]) {
        let mut fed = 0; // Everything before this is dealt with.
        let mut soft = 0; // Everything from here to `at` may be put off.
        let mut at = 0;
        while let Some(found) = memchr3(ESC, SO, SI, &bytes[at..]) {
            let start = at + found;
            let (length, kind) = measure(&bytes[start..]);
            at = start + length;
            match kind {
                SequenceKind::Soft => {}
                SequenceKind::Quiet => soft = at,
                SequenceKind::Notable => {
                    self.feed_now(&bytes[fed..soft]);
                    self.put_off(&bytes[soft..start]);
                    self.settle();
                    self.feed_notable(&bytes[start..at]);
                    (fed, soft) = (at, at);
                }
            }
        }
        self.feed_now(&bytes[fed..soft]);
        self.put_off(&bytes[soft..]);
    }

    fn feed_now(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.settle();
            self.advance(bytes);
        }
    }

    fn put_off(&mut self, text: &[u8]) {
        self.pending.push(text);
        if self.pending.is_over_limit() {
            self.skip();
            if self.pending.is_over_limit() {
                self.settle();
            }
        }
    }

    /// Feeds the delayed text.
    fn settle(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.skip();
        let text = self.pending.take();
        self.advance(&text);
        self.pending.reuse(text);
    }

    /// Drops the part of the pending text that has scrolled away.
    fn skip(&mut self) {
        if self.keeps_history || !self.hidden.scrolls_fully() {
            return;
        }
        let cursor_row = usize::try_from(self.emulator.grid().cursor.point.line.0).unwrap_or(0);
        if let Some(colours) = self.pending.skip(usize::from(self.size.rows), cursor_row) {
            self.advance(&colours);
            self.emulator.go_to_last_line();
        }
    }

    fn feed_notable(&mut self, sequence: &[u8]) {
        let notices = self.scanner.listen(sequence);
        for notice in &notices {
            match notice {
                SequenceEffect::KittyPush(_) if self.hidden.kitty.len() >= KITTY_STACK_LIMIT => {
                    // The newest mode is the one that counts, so it takes the place of the one before.
                    self.advance(b"\x1b[<u");
                    self.hidden.note(&SequenceEffect::KittyPop(1), 0);
                }
                SequenceEffect::TitlePush if self.hidden.title_depth >= TITLE_STACK_LIMIT => return,
                _ => {}
            }
        }
        let was_in_alternate = self.emulator.in_alternate();
        if sequence.windows(4).any(|window| window == b"1049") {
            // The screen that is left is not swept again before it is shown.
            self.emulator.cut_marks();
        }
        for notice in &notices {
            match *notice {
                SequenceEffect::Mode { number: 47 | 1047, on } => {
                    self.emulator.cut_marks();
                    self.emulator.show_alternate(on);
                }
                SequenceEffect::Mode { number: 1048, on } => {
                    self.advance(if on { b"\x1b7" } else { b"\x1b8" })
                }
                _ => {}
            }
        }
        match self.fewer_repeats(sequence) {
            Some(shorter) => self.advance(&shorter),
            None => self.advance(without_string(sequence)),
        }
        if self.emulator.in_alternate() != was_in_alternate {
            self.hidden.swap_screens();
        }
        let column = self.emulator.grid().cursor.point.column.0;
        for notice in &notices {
            self.hidden.note(notice, column);
            if let SequenceEffect::Query(query) = notice {
                self.answers.reply(query, &self.emulator, &self.hidden);
            }
        }
    }

    /// Shortens a request to repeat the last character more often than the screen has cells, to as few repeats as lead
    /// to the same screen: five bytes must not cost 65,535 characters.
    ///
    /// We do not know the character. If it takes one cell or two, the screen is full of it in the end, and
    /// only the column of the cursor depends on how often it was repeated, modulo what fits in a line. If it
    /// is a mark, it is put on one character again and again, and that has too many of them in the end.
    /// (There is one exception: wide characters in insert mode, on a last line below the scroll region. The
    /// emulator tears them apart, differently each time around; terminals do not.)
    fn fewer_repeats(&self, sequence: &[u8]) -> Option<Vec<u8>> {
        let digits = sequence.strip_prefix(b"\x1b[")?.strip_suffix(b"b")?;
        let count: usize = str::from_utf8(digits).ok()?.parse().ok()?;
        let (rows, cols) = (usize::from(self.size.rows), usize::from(self.size.cols));
        let enough = MARKS_LIMIT.max(2 * rows * cols);
        // A multiple of `cols` and of `cols / 2`: in a line of seven cells there is room for seven narrow
        // characters, but for three wide ones.
        let period = if cols % 2 == 0 { cols } else { cols * (cols / 2) };
        (count > enough).then(|| format!("\x1b[{}b", enough + (count - enough) % period).into_bytes())
    }

    fn advance(&mut self, bytes: &[u8]) {
        if let Err(EmulatorPanicked) = self.emulator.advance(bytes) {
            self.start_over();
        }
        self.unswept_bytes += bytes.len();
        if self.unswept_bytes > SWEEP_EVERY_BYTES {
            self.unswept_bytes = 0;
            self.emulator.cut_marks();
        }
        for event in self.emulator.take_events() {
            match event {
                Event::Title(title) => self.title = Some(title),
                Event::ResetTitle => self.title = None,
                event => self.answers.report(&event, &self.emulator),
            }
        }
    }

    fn start_over(&mut self) {
        self.emulator = Emulator::new(self.size);
        self.hidden = HiddenState::new(self.size);
        self.damaged = true;
    }

    #[cfg(test)]
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn settled(&mut self) -> (&mut Emulator, &HiddenState) {
        self.settle();
        (&mut self.emulator, &self.hidden)
    }
}

/// Leaves out the body of a device control or application string, which the emulator ignores: it would
/// take a raw byte 0x9c in there for the end and print the rest.
fn without_string(sequence: &[u8]) -> &[u8] {
    match sequence {
        [ESC, b'P' | b'X' | b'^' | b'_', body @ ..] => memchr(ESC, body).map_or(&[], |end| &body[end..]),
        _ => sequence,
    }
}
