//! The agent's terminal: output to the file, then to clients, then to the screen; keys back.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use berth_api::frame::{self, Kind};
use berth_api::message::{Notice, Size};
use berth_core::{Event, Fence};
use berth_screen::{Screen, Splitter};
use berth_store::output::Remark;
use rustix::event::epoll;

use super::{Keeper, TERMINAL, now, screen_size};
use crate::clients::{Attached, Client};
use crate::driver::pty::Terminal;
use crate::owner::Input;

/// How much is read from the terminal before anything else gets its turn.
const READ_BYTES: usize = 64 * 1024;
/// A terminal hands out a page at a time. Less than this is all there was.
const SHORT_READ_BYTES: usize = 2048;
/// How many keys may wait for an agent that does not read. Who sends more waits too.
const KEYS_BYTES: usize = 256 * 1024;

/// How far to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Until {
    /// There is probably no more; if there is, the kernel says so again.
    Quiet,
    /// There is no more.
    Empty,
}

impl Keeper {
    pub(super) fn watch_terminal(&mut self, terminal: Terminal) -> io::Result<()> {
        let data = epoll::EventData::new_u64(TERMINAL);
        epoll::add(&self.epoll, terminal.pty.master.as_fd(), data, epoll::EventFlags::IN)?;
        self.terminal = Some(terminal);
        let Size { rows, cols } = self.terminal_size();
        self.output.set_size(rows, cols);
        Ok(())
    }

    pub(super) fn on_terminal(&mut self, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) {
            self.write_keys();
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            self.read_terminal(Until::Quiet);
        }
    }

    /// Reads until the terminal is empty or it is somebody else's turn. `true`: there may be more.
    pub(super) fn read_terminal(&mut self, until: Until) -> bool {
        if !self.unwritten.is_empty() {
            return false;
        }
        if self.open_terminal().is_none() {
            return false;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let Some(terminal) = &self.terminal else { return false };
        buffer.resize(READ_BYTES, 0);
        let mut filled = 0;
        let mut closed = false;
        let mut more = true;
        while filled < READ_BYTES {
            match rustix::io::read(&terminal.pty.master, &mut buffer[filled..]) {
                Ok(0) | Err(rustix::io::Errno::IO) => {
                    closed = true;
                    more = false;
                    break;
                }
                Ok(count) => {
                    filled += count;
                    if until == Until::Quiet && count < SHORT_READ_BYTES {
                        // The terminal was empty; asking again would only cost time.
                        more = false;
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    more = false;
                    break;
                }
            }
        }
        if filled > 0 {
            self.deliver(&buffer[..filled]);
        }
        self.buffer = buffer;
        if closed {
            // Nobody has the other side open any more; the exit is reported by the kernel.
            self.close_terminal();
        }
        more
    }

    fn close_terminal(&mut self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|_| !self.terminal_closed) {
            let _ = epoll::delete(&self.epoll, terminal.pty.master.as_fd());
        }
        self.terminal_closed = true;
        self.keys.clear();
    }

    /// The run is over, and the next one has a terminal of its own: whatever the last agent set it to, pastes among it,
    /// the next one has not.
    pub(super) fn forget_terminal(&mut self) {
        self.close_terminal();
        (self.terminal, self.terminal_closed, self.wants_room) = (None, false, false);
        (self.screen, self.splitter) = (Screen::new(self.screen.size()), Splitter::new());
        self.desk = super::edges::Desk::default();
        for attached in self.clients.values_mut().filter_map(|client| client.attached.as_mut()) {
            attached.behind = true;
        }
    }

    /// The terminal, while the agent's side of it is open.
    pub(super) fn open_terminal(&self) -> Option<&Terminal> {
        self.terminal.as_ref().filter(|_| !self.terminal_closed)
    }

    /// File first: what a client has seen must be there after a crash.
    fn deliver(&mut self, bytes: &[u8]) {
        let stored = self.store_output(bytes);
        self.show(&bytes[..stored]);
        if stored < bytes.len() {
            self.unwritten = bytes[stored..].to_vec();
            self.listen_to_terminal(false);
            self.retry_soon();
        }
    }

    /// Writes to the output file; returns how much the disk took.
    pub(super) fn store_output(&mut self, bytes: &[u8]) -> usize {
        let file_before = self.output.file_start();
        let stored = self.store_pieces(bytes);
        if self.output.file_start() != file_before {
            // Lists look at the file in use for signs of life.
            self.write_status();
        }
        stored
    }

    fn store_pieces(&mut self, bytes: &[u8]) -> usize {
        let mut stored = 0;
        while stored < bytes.len() {
            match self.output.append(&bytes[stored..], now()) {
                Ok((0, _)) => return stored,
                Ok((count, remark)) => {
                    stored += count;
                    if let Some(Remark::Dropped { before }) = remark {
                        // Not now: what is read while that is on its way to the disk would overtake the rest of this.
                        // A note that fails is said again by the next file that is dropped.
                        self.writing.heard.push(Input::Note(Event::OutputDropped { before }));
                    }
                }
                Err(_) => return stored,
            }
        }
        stored
    }

    /// The disk may have room again.
    pub(super) fn retry_output(&mut self) {
        let waiting = std::mem::take(&mut self.unwritten);
        let stored = self.store_output(&waiting);
        if self.talk.is_some() {
            self.understand(&waiting[..stored]);
        } else {
            self.show(&waiting[..stored]);
        }
        if stored < waiting.len() {
            self.unwritten = waiting[stored..].to_vec();
            self.retry_soon();
        } else if !waiting.is_empty() {
            self.listen_to_terminal(true);
            self.listen_to_agent(true);
        }
    }

    fn listen_to_terminal(&mut self, on: bool) {
        let Some(terminal) = self.open_terminal() else { return };
        let mut flags = if on { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        flags.set(epoll::EventFlags::OUT, self.wants_room);
        let data = epoll::EventData::new_u64(TERMINAL);
        let master = terminal.pty.master.as_fd();
        // A hang-up is reported to whoever is registered, wanted or not: who cannot read on must not
        // be, or the loop spins until the disk has room.
        let _ = match epoll::modify(&self.epoll, master, data, flags) {
            Ok(()) if flags.is_empty() => epoll::delete(&self.epoll, master),
            Err(rustix::io::Errno::NOENT) if !flags.is_empty() => {
                epoll::add(&self.epoll, master, data, flags)
            }
            done => done,
        };
    }

    /// Clients first, then our own screen: people wait for one of them.
    fn show(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // Who fell behind gets a screen once it has room, and not before the end of this turn: painted now, it would
        // lack these very bytes for good.
        let sees = |client: &Client| client.attached.is_some_and(|attached| !attached.behind);
        let seeing: Vec<u64> =
            self.clients.iter().filter(|(_, client)| sees(client)).map(|(key, _)| *key).collect();
        let safe = self.splitter.push(bytes);
        if !seeing.is_empty() && !safe.is_empty() {
            let frame: Rc<[u8]> = frame::encode(Kind::Output, &[&safe]).into();
            for key in seeing {
                if let Some(client) = self.clients.get_mut(&key) {
                    client.send_output(&frame);
                    self.write_out(key);
                }
            }
        }
        self.desk.shown();
        self.screen.feed(bytes);
        let answers = self.screen.take_answers();
        // What an observer's terminal answers goes nowhere, and one that fell behind never saw the
        // question. Then nobody answers, and agents ask at start and wait.
        let asks_a_person =
            |client: &Client| client.attached.is_some_and(|it| it.fence.is_some() && !it.behind);
        if self.keys_have_room_for(answers.len()) && !self.clients.values().any(asks_a_person) {
            self.queue_keys(&answers);
        }
    }

    /// Brings clients that fell behind, and watchers, up to date once they have room.
    pub(super) fn catch_up(&mut self, key: u64) {
        let end = self.output.end();
        // One whose queue was dropped is empty, too, and takes nothing all the same until the kernel says so.
        let has_room = |client: &&mut Client| client.is_drained() && !client.wants_write;
        let Some(client) = self.clients.get_mut(&key).filter(has_room) else { return };
        // Painting into the middle of a sequence that had to be let through in pieces would leave its
        // rest to be shown as text.
        if let Some(attached @ Attached { behind: true, .. }) = client.attached
            && !self.splitter.torn()
        {
            client.attached = Some(Attached { behind: false, ..attached });
            let paint = self.screen.restore();
            client.send_screen(&paint);
        }
        if client.watches && client.told_end < end {
            client.told_end = end;
            let notice = serde_json::to_vec(&Notice::Output { end }).expect("a notice is plain data");
            client.send(Kind::Notice, &notice);
        }
    }

    /// Keys of an attached person: checked, not journalled.
    pub(super) fn on_keys(&mut self, key: u64, payload: &[u8]) {
        let Some((fence, keys)) = payload.split_first_chunk::<8>() else { return };
        let fence = Fence(u64::from_le_bytes(*fence));
        let own = self.clients.get(&key).and_then(|client| client.attached?.fence);
        if own == Some(fence) && self.owner.history().session.may_type(fence).is_ok() {
            self.type_keys(keys);
        }
    }

    /// Keys that somebody typed. While a turn is typed for somebody else, they wait: they would be joined with it.
    pub(super) fn type_keys(&mut self, keys: &[u8]) {
        self.look_before(keys);
        if self.desk.is_typing() {
            self.desk.keep_behind(keys);
        } else {
            self.queue_keys(keys);
        }
        self.typed_by_hand(keys);
    }

    /// Queues keys for the agent.
    pub(super) fn queue_keys(&mut self, keys: &[u8]) {
        if self.open_terminal().is_some() {
            self.keys.extend(keys);
            self.write_keys();
        }
    }

    pub(super) fn keys_have_room_for(&self, bytes: usize) -> bool {
        self.keys.len() + self.desk.kept_behind() + bytes <= KEYS_BYTES
    }

    pub(super) fn keys_are_full(&self) -> bool {
        !self.keys_have_room_for(1)
    }

    fn write_keys(&mut self) {
        let Some(terminal) = self.terminal.as_ref().filter(|_| !self.terminal_closed) else { return };
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
            self.listen_to_terminal(self.unwritten.is_empty());
        }
        if !wants_room {
            self.unpause_all();
        }
    }

    /// The writer's terminal has this size; so has the agent's, from now on.
    pub(super) fn resize(&mut self, size: Size) {
        let wanted = screen_size(size);
        if self.screen.size() == wanted {
            return;
        }
        self.screen.resize(wanted);
        if let Some(terminal) = &self.terminal {
            let _ = terminal.pty.resize(wanted.rows, wanted.cols);
        }
        self.output.set_size(wanted.rows, wanted.cols);
        let resized = Notice::Resized { size: self.terminal_size() };
        let notice = serde_json::to_vec(&resized).expect("a notice is plain data");
        for client in self.clients.values_mut() {
            if let Some(attached) = client.attached.as_mut().filter(|attached| attached.fence.is_none()) {
                attached.behind = true;
                client.send(Kind::Notice, &notice);
            }
        }
    }

    /// The size of the agent's terminal.
    pub(super) fn terminal_size(&self) -> Size {
        let berth_screen::Size { rows, cols } = self.screen.size();
        Size { rows, cols }
    }
}
