//! The user's terminal while the dashboard runs: taken, drawn on, and restored.
//!
//! Promise: the terminal's modes, screen and cursor are restored however the dashboard ends (a key, a signal, a panic).
//! A terminal that takes no bytes delays only the picture.
//! Not here: the contents of a picture (see `view`).
//! Start with [`DashboardTerminal::enter`].

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use berth_api::Problem;
use berth_host::signals::{self, SignalFd};
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use crate::tty;

/// The alternate screen, blank; no cursor; clicks and the wheel; pastes as such.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[0m\x1b[2J\x1b[H\x1b[?1000h\x1b[?1006h\x1b[?2004h";
/// Synchronized output: terminals that support it show a picture as a whole.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// Signals that end or suspend the dashboard, or report a resize.
const SIGNALS: [Signal; 7] =
    [Signal::WINCH, Signal::HUP, Signal::TERM, Signal::INT, Signal::QUIT, Signal::TSTP, Signal::CONT];

/// The terminal while it is ours.
pub(crate) struct DashboardTerminal {
    signals: SignalFd,
    raw: Option<tty::RawMode>,
    terminal: Terminal<CrosstermBackend<FrameBuffer>>,
    drawn: FrameBuffer,
    /// Bytes that the terminal has not taken yet.
    unwritten: Vec<u8>,
}

/// The reasons for which a wait ended.
#[derive(Default, Debug)]
pub(crate) struct TerminalWakeup {
    /// Bytes that the user typed.
    pub(crate) keys: Vec<u8>,
    /// True if the terminal is gone.
    pub(crate) is_gone: bool,
    pub(crate) signals: Vec<i32>,
}

impl DashboardTerminal {
    /// Takes the terminal. Call this before any thread is started: threads inherit the blocked signals.
    pub(crate) fn enter() -> Result<Self, Problem> {
        let trouble = |error: io::Error| {
            Problem::refused(format!("cannot prepare the terminal: {error}"))
                .hint("`berth ls` lists the sessions without it")
        };
        let signals = SignalFd::new(&SIGNALS.map(Signal::as_raw)).map_err(trouble)?;
        let drawn = FrameBuffer::default();
        let terminal = terminal(&drawn, area()).map_err(trouble)?;
        let mut screen = Self { signals, raw: None, terminal, drawn, unwritten: Vec::new() };
        screen.take().map_err(trouble)?;
        Ok(screen)
    }

    /// Takes the terminal again.
    pub(crate) fn take(&mut self) -> io::Result<()> {
        if self.raw.is_none() {
            self.raw = Some(tty::RawMode::enter()?);
            keep_other_threads_quiet();
        }
        tty::set_active_screen(berth_screen::ActiveScreen::Alternate);
        self.unwritten = ENTER.to_vec();
        self.renew()
    }

    /// Restores the terminal with its earlier contents, before anything else is printed.
    pub(crate) fn give_back(&mut self) {
        self.unwritten.clear();
        self.raw = None;
    }

    /// Paints the whole screen again, at the terminal's present size.
    pub(crate) fn repaint(&mut self) -> io::Result<()> {
        if !self.unwritten.is_empty() {
            // Half a picture may be on its way; its sequences must not be cut.
            self.unwritten.extend_from_slice(END);
        }
        self.unwritten.extend_from_slice(b"\x1b[0m\x1b[2J\x1b[H");
        self.renew()
    }

    fn renew(&mut self) -> io::Result<()> {
        self.terminal = terminal(&self.drawn, area())?;
        // Dropping the old `Terminal` writes bytes that show its cursor; those are discarded.
        self.drawn.0.borrow_mut().clear();
        Ok(())
    }

    /// Writes the rest of a picture. True if the terminal has taken all of it.
    pub(crate) fn drain(&mut self) -> bool {
        self.write();
        self.unwritten.is_empty()
    }

    /// Draws a picture; only what changed is written.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Buffer) -> Option<Position>) -> io::Result<()> {
        self.terminal.draw(|frame| {
            if let Some(cursor) = draw(frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        })?;
        let picture = std::mem::take(&mut *self.drawn.0.borrow_mut());
        if !picture.is_empty() {
            self.unwritten.extend_from_slice(BEGIN);
            self.unwritten.extend_from_slice(&picture);
            self.unwritten.extend_from_slice(END);
        }
        self.write();
        Ok(())
    }

    pub(crate) fn bell(&mut self) {
        self.unwritten.push(0x07);
    }

    /// Writes as much as the terminal takes now.
    fn write(&mut self) {
        while !self.unwritten.is_empty() {
            match rustix::io::write(tty::terminal_output(), &self.unwritten) {
                Ok(count) => drop(self.unwritten.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // The terminal is gone; the next read reports it.
                Err(_) => return self.unwritten.clear(),
            }
        }
    }

    /// Waits until a key, a signal, `other` or the timeout.
    pub(crate) fn wait(&mut self, other: BorrowedFd<'_>, timeout: Option<Duration>) -> TerminalWakeup {
        self.write();
        let mut woken = TerminalWakeup::default();
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let is_typed = {
            let mut fds = vec![
                PollFd::from_borrowed_fd(stdin(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(other, PollFlags::IN),
            ];
            if !self.unwritten.is_empty() {
                fds.push(PollFd::from_borrowed_fd(tty::terminal_output(), PollFlags::OUT));
            }
            let _ = poll(&mut fds, timeout.as_ref());
            !fds[0].revents().is_empty()
        };
        while let Ok(Some(signal)) = self.signals.read() {
            woken.signals.push(signal);
        }
        if is_typed {
            let mut buffer = [0; 4096];
            match rustix::io::read(stdin(), &mut buffer) {
                Ok(0) | Err(rustix::io::Errno::IO) => woken.is_gone = true,
                Ok(count) => woken.keys.extend_from_slice(&buffer[..count]),
                Err(_) => {}
            }
        }
        self.write();
        woken
    }

    /// Drops signals from another program's time on the terminal: its Ctrl-C is not for the dashboard.
    pub(crate) fn forget_signals(&self) {
        while let Ok(Some(_)) = self.signals.read() {}
    }

    /// Suspends the dashboard as Ctrl-Z does, and takes the terminal again after `fg`.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.give_back();
        let others =
            SIGNALS.map(Signal::as_raw).into_iter().filter(|signal| *signal != Signal::TSTP.as_raw());
        signals::unblock_all_signals_but(&others.collect::<Vec<_>>())?;
        // Stops the whole process group, as the terminal would. The kernel ignores that for an orphaned group, where no
        // shell could resume it.
        let stopped = rustix::process::kill_current_process_group(Signal::TSTP);
        signals::unblock_all_signals_but(&SIGNALS.map(Signal::as_raw))?;
        stopped?;
        self.take()
    }
}

/// The size of the terminal, as an area.
pub(crate) fn area() -> Rect {
    let size = tty::terminal_size().unwrap_or_default();
    // No real terminal is larger, and more cells would only take memory.
    Rect::new(0, 0, size.cols.min(1000), size.rows.min(1000))
}

fn terminal(drawn: &FrameBuffer, area: Rect) -> io::Result<Terminal<CrosstermBackend<FrameBuffer>>> {
    let backend = CrosstermBackend::new(drawn.clone());
    Terminal::with_options(backend, TerminalOptions { viewport: Viewport::Fixed(area) })
}

/// A panic beside the drawing thread is shown in the dashboard, and must not restore the terminal.
fn keep_other_threads_quiet() {
    let usual = std::panic::take_hook();
    let drawer = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == drawer {
            usual(info);
        }
    }));
}

/// A buffer for a picture before it is written.
#[derive(Clone, Default)]
struct FrameBuffer(Rc<RefCell<Vec<u8>>>);

impl Write for FrameBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
