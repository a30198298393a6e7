//! The person's terminal: taken, drawn on, and given back as it was.
//!
//! Promise: whatever ends the dashboard (a key, a signal, a panic), the terminal is given back as it was: its
//! modes, its screen, its cursor. A terminal that takes nothing holds up a picture, and nothing else.
//! Not here: what is drawn (see `view`).
//! Start with [`Screen::enter`].

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use berth_api::{Code, Problem};
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
/// A picture is shown as a whole, where the terminal knows how.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// Signals that end the dashboard, suspend it, or tell of another size.
const SIGNALS: [Signal; 7] =
    [Signal::WINCH, Signal::HUP, Signal::TERM, Signal::INT, Signal::QUIT, Signal::TSTP, Signal::CONT];

/// The terminal while it is ours.
pub(crate) struct Screen {
    signals: SignalFd,
    raw: Option<tty::Raw>,
    terminal: Terminal<CrosstermBackend<Sink>>,
    drawn: Sink,
    /// What the terminal has not taken yet.
    unwritten: Vec<u8>,
}

/// What there is to do.
#[derive(Default, Debug)]
pub(crate) struct Woken {
    /// What was typed.
    pub(crate) keys: Vec<u8>,
    /// The terminal is gone.
    pub(crate) is_gone: bool,
    pub(crate) signals: Vec<i32>,
}

impl Screen {
    /// Takes the terminal. Call it before any thread is started: they all leave signals to this.
    pub(crate) fn enter() -> Result<Self, Problem> {
        let trouble = |error: io::Error| {
            Problem::new(Code::Refused, format!("cannot prepare the terminal: {error}"))
                .hint("`berth ls` lists the sessions without it")
        };
        let signals = SignalFd::new(&SIGNALS.map(Signal::as_raw)).map_err(trouble)?;
        let drawn = Sink::default();
        let terminal = terminal(&drawn, area()).map_err(trouble)?;
        let mut screen = Self { signals, raw: None, terminal, drawn, unwritten: Vec::new() };
        screen.take().map_err(trouble)?;
        Ok(screen)
    }

    /// Takes the terminal, again.
    pub(crate) fn take(&mut self) -> io::Result<()> {
        if self.raw.is_none() {
            self.raw = Some(tty::Raw::enter()?);
            keep_other_threads_quiet();
        }
        tty::set_active_screen(berth_screen::ActiveScreen::Alternate);
        self.unwritten = ENTER.to_vec();
        self.renew()
    }

    /// Gives the terminal back: with what was on it, before anything else is printed.
    pub(crate) fn give_back(&mut self) {
        self.unwritten.clear();
        self.raw = None;
    }

    /// Paints everything anew, at the size the terminal has now.
    pub(crate) fn repaint(&mut self) -> io::Result<()> {
        if !self.unwritten.is_empty() {
            // Half a picture may be on its way; nothing of it may be cut.
            self.unwritten.extend_from_slice(END);
        }
        self.unwritten.extend_from_slice(b"\x1b[0m\x1b[2J\x1b[H");
        self.renew()
    }

    fn renew(&mut self) -> io::Result<()> {
        self.terminal = terminal(&self.drawn, area())?;
        // It says goodbye to a cursor of its own.
        self.drawn.0.borrow_mut().clear();
        Ok(())
    }

    /// Writes what is left, and says whether the terminal has taken all of it.
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

    /// Writes what the terminal takes now.
    fn write(&mut self) {
        while !self.unwritten.is_empty() {
            match rustix::io::write(tty::output(), &self.unwritten) {
                Ok(count) => drop(self.unwritten.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // It is gone; reading from it says so.
                Err(_) => return self.unwritten.clear(),
            }
        }
    }

    /// Waits until something is typed, a signal comes, `other` has something, or the time is up.
    pub(crate) fn wait(&mut self, other: BorrowedFd<'_>, timeout: Option<Duration>) -> Woken {
        self.write();
        let mut woken = Woken::default();
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
                fds.push(PollFd::from_borrowed_fd(tty::output(), PollFlags::OUT));
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

    /// Forgets what was pressed in another program: its Ctrl-C is not ours.
    pub(crate) fn forget_signals(&self) {
        while let Ok(Some(_)) = self.signals.read() {}
    }

    /// Stops as Ctrl-Z does, and takes the terminal again when the shell says `fg`.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.give_back();
        let others =
            SIGNALS.map(Signal::as_raw).into_iter().filter(|signal| *signal != Signal::TSTP.as_raw());
        signals::unblock_all_but(&others.collect::<Vec<_>>())?;
        // The whole job, as the terminal would do it. Where nobody could say `fg`, the kernel ignores it.
        let stopped = rustix::process::kill_current_process_group(Signal::TSTP);
        signals::unblock_all_but(&SIGNALS.map(Signal::as_raw))?;
        stopped?;
        self.take()
    }
}

/// The size of the terminal, as an area.
pub(crate) fn area() -> Rect {
    let size = tty::size().unwrap_or_default();
    // More cells than any real terminal has would only take memory.
    Rect::new(0, 0, size.cols.min(1000), size.rows.min(1000))
}

fn terminal(drawn: &Sink, area: Rect) -> io::Result<Terminal<CrosstermBackend<Sink>>> {
    let backend = CrosstermBackend::new(drawn.clone());
    Terminal::with_options(backend, TerminalOptions { viewport: Viewport::Fixed(area) })
}

/// A panic beside the drawing thread is told in the dashboard, and must not tear the terminal from it.
fn keep_other_threads_quiet() {
    let usual = std::panic::take_hook();
    let drawer = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == drawer {
            usual(info);
        }
    }));
}

/// Where pictures are collected before they are written.
#[derive(Clone, Default)]
struct Sink(Rc<RefCell<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
