//! The agent's terminal: its bytes in, its screen, and the keys that are on their way to it.
//!
//! Promise: reading and writing never block; keys that the agent does not read are bounded by what clients may send.
//! Not here: the output files (`output_recorder`), the clients that see the terminal (`client_table`), what is typed
//! and when (`tui_turns`).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use berth_api::message::WindowSize;
use berth_screen::{Screen, StreamSplitter};
use rustix::event::{PollFd, PollFlags, epoll};

use super::event_loop::{Epoll, TERMINAL};
use super::output_recorder::{OutputRead, READ_BYTES, ReadUntil};
use crate::agent_launch::pty::AgentPty;

/// A terminal hands out a page at a time. Less than this is all there was.
const SHORT_READ_BYTES: usize = 2048;
/// The bytes of keys that may wait for an agent that does not read. A client that sends more is not read meanwhile.
const MAX_WAITING_KEYS: usize = 256 * 1024;

/// A terminal, if the run has one, and the screen of the session.
pub(super) struct AgentTerminal {
    epoll: Epoll,
    pty: Option<AgentPty>,
    /// True once the agent's side is closed. The keeper's side stays open, so that its number means the same to
    /// a new image.
    is_closed: bool,
    /// False while output waits for room on the disk.
    is_read: bool,
    /// True while the terminal is watched for room to write.
    wants_room: bool,
    /// Keys on their way to the agent.
    keys: VecDeque<u8>,
    screen: Screen,
    splitter: StreamSplitter,
}

impl AgentTerminal {
    pub(super) fn new(epoll: Epoll, size: WindowSize) -> Self {
        Self {
            epoll,
            pty: None,
            is_closed: false,
            is_read: true,
            wants_room: false,
            keys: VecDeque::new(),
            screen: Screen::new(screen_size(size)),
            splitter: StreamSplitter::new(),
        }
    }

    /// Reads from this terminal from now on.
    pub(super) fn watch(&mut self, terminal: AgentPty) -> io::Result<()> {
        self.epoll.add_readable(&terminal.pty.master, TERMINAL)?;
        self.pty = Some(terminal);
        Ok(())
    }

    /// Drops the terminal and the screen of a run that is over: modes set by the last agent do not hold for
    /// the next one.
    pub(super) fn reset(&mut self) {
        self.close();
        (self.pty, self.is_closed, self.wants_room) = (None, false, false);
        (self.screen, self.splitter) = (Screen::new(self.screen.size()), StreamSplitter::new());
    }

    fn open_pty(&self) -> Option<&AgentPty> {
        self.pty.as_ref().filter(|_| !self.is_closed)
    }

    /// True while the agent's side is open.
    pub(super) fn is_open(&self) -> bool {
        self.open_pty().is_some()
    }

    /// The agent's side is closed; its exit is reported by the kernel.
    pub(super) fn close(&mut self) {
        if let Some(terminal) = self.open_pty() {
            self.epoll.remove(&terminal.pty.master);
        }
        self.is_closed = true;
        self.keys.clear();
    }

    /// The descriptor that a new image needs, by name.
    pub(super) fn named_fd(&self) -> Option<(&'static str, RawFd)> {
        self.pty.as_ref().map(|terminal| ("pty", terminal.pty.master.as_raw_fd()))
    }

    /// The descriptor to wait for while a batch is in flight.
    pub(super) fn polled(&self) -> Option<PollFd<'_>> {
        let terminal = self.open_pty().filter(|_| self.is_read)?;
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.wants_room);
        Some(PollFd::from_borrowed_fd(terminal.pty.master.as_fd(), flags))
    }

    // Output of the agent.

    /// Reads into the buffer until the terminal is empty or the buffer is full.
    pub(super) fn read(&self, buffer: &mut Vec<u8>, until: ReadUntil) -> OutputRead {
        let mut read = OutputRead::default();
        let Some(terminal) = self.open_pty().filter(|_| self.is_read) else { return read };
        buffer.resize(READ_BYTES, 0);
        read.has_more = true;
        while read.bytes < READ_BYTES {
            match rustix::io::read(&terminal.pty.master, &mut buffer[read.bytes..]) {
                // No process has the other side open any more.
                Ok(0) | Err(rustix::io::Errno::IO) => {
                    (read.is_closed, read.has_more) = (true, false);
                    break;
                }
                Ok(count) => {
                    read.bytes += count;
                    if until == ReadUntil::Quiet && count < SHORT_READ_BYTES {
                        // The terminal was empty; another read would only cost time.
                        read.has_more = false;
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    read.has_more = false;
                    break;
                }
            }
        }
        read
    }

    /// Stops reading while output waits for room on the disk, or goes on.
    pub(super) fn set_read(&mut self, on: bool) {
        self.is_read = on;
        self.update_interest();
    }

    fn update_interest(&self) {
        let Some(terminal) = self.open_pty() else { return };
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, self.is_read);
        flags.set(epoll::EventFlags::OUT, self.wants_room);
        self.epoll.change(&terminal.pty.master, TERMINAL, flags);
    }

    /// As much of the output as clients can be sent without tearing a sequence.
    pub(super) fn split<'a>(&mut self, output: &'a [u8]) -> Cow<'a, [u8]> {
        self.splitter.push(output)
    }

    /// Shows output on the screen. Returns the terminal's own answers to it.
    pub(super) fn feed(&mut self, output: &[u8]) -> Vec<u8> {
        self.screen.feed(output);
        self.screen.take_answers()
    }

    /// Shows output of the previous image: some of its beginning, and its end.
    pub(super) fn replay(&mut self, beginning: &[u8], end: &[u8]) {
        self.screen.feed(beginning);
        self.screen.feed(end);
        let _ = self.screen.take_answers();
        // Half a sequence at the end belongs to the output that follows.
        let _ = self.splitter.push(end);
    }

    // Keys for the agent.

    /// Queues keys for the agent, and writes what it takes now.
    pub(super) fn queue_keys(&mut self, keys: &[u8]) {
        if self.is_open() {
            self.keys.extend(keys);
            self.write_keys();
        }
    }

    pub(super) fn write_keys(&mut self) {
        let Some(terminal) = self.pty.as_ref().filter(|_| !self.is_closed) else { return };
        while !self.keys.is_empty() {
            let (front, _) = self.keys.as_slices();
            match rustix::io::write(&terminal.pty.master, front) {
                Ok(count) => drop(self.keys.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // The agent is gone; its end is reported by the kernel.
                Err(_) => self.keys.clear(),
            }
        }
        let wants_room = !self.keys.is_empty();
        if wants_room != self.wants_room {
            self.wants_room = wants_room;
            self.update_interest();
        }
    }

    pub(super) fn has_waiting_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    pub(super) fn has_room_for_keys(&self, count: usize) -> bool {
        self.keys.len() + count <= MAX_WAITING_KEYS
    }

    // The screen of the agent.

    pub(super) fn size(&self) -> WindowSize {
        let berth_screen::ScreenSize { rows, cols } = self.screen.size();
        WindowSize { rows, cols }
    }

    /// Resizes screen and terminal. False if they have this size already.
    pub(super) fn resize(&mut self, size: WindowSize) -> bool {
        let wanted = screen_size(size);
        if self.screen.size() == wanted {
            return false;
        }
        self.screen.resize(wanted);
        if let Some(terminal) = &self.pty {
            let _ = terminal.pty.resize(wanted.rows, wanted.cols);
        }
        true
    }

    /// The bytes that paint the screen, unless output is torn: painting into the middle of a sequence that had to be let
    /// through in pieces would leave its rest to be shown as text.
    pub(super) fn paint(&mut self) -> Option<Vec<u8>> {
        (!self.splitter.is_inside_sequence()).then(|| self.screen.restore())
    }

    /// The bytes that paint the screen as the run left it.
    pub(super) fn last_paint(&mut self) -> Vec<u8> {
        self.screen.restore()
    }

    pub(super) fn text(&mut self) -> String {
        self.screen.text()
    }

    /// The screen as text with colours.
    pub(super) fn ansi(&mut self) -> String {
        self.screen.ansi()
    }

    pub(super) fn cursor_row(&mut self) -> u16 {
        self.screen.cursor().0
    }

    pub(super) fn in_alternate(&self) -> bool {
        self.screen.in_alternate()
    }

    /// True if the program in the terminal asked for pastes to be marked.
    pub(super) fn takes_paste(&mut self) -> bool {
        self.screen.takes_paste()
    }
}

fn screen_size(size: WindowSize) -> berth_screen::ScreenSize {
    berth_screen::ScreenSize { rows: size.rows, cols: size.cols }.clamped()
}
