//! Frames to clients: answers, screens, output and notices, written as fast as each client takes them.
//!
//! Promise: no write blocks; a client whose socket buffer is full is skipped until epoll says it is writable.
//! Not here: the queue of one client (see [`ConnectedClient`]).

use std::os::fd::AsFd;
use std::rc::Rc;

use berth_api::frame::{self, FrameKind};
use berth_api::message::{KeeperAnswer, KeeperNotice};
use berth_journal::Committed;
use berth_store::session_view::StoredEvent;
use rustix::event::epoll;

use super::{ClientTable, notice_of, plain};
use crate::keeper::agent_terminal::AgentTerminal;
use crate::keeper::client::{AttachmentState, ConnectedClient};

impl ClientTable {
    pub(in crate::keeper) fn answer(&mut self, key: u64, answer: &KeeperAnswer) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.send(FrameKind::Answer, &serde_json::to_vec(answer).expect("an answer is plain data"));
        }
    }

    /// Brings a client up to date, writes what it takes now, and has the kernel say when it takes more.
    pub(in crate::keeper) fn flush(&mut self, key: u64, terminal: &mut AgentTerminal, output_end: u64) {
        // Room first: a client that takes the last of its queue only now would otherwise be called
        // drained by the kernel's silence and never be brought up to date.
        self.write_out(key);
        self.catch_up(key, terminal, output_end);
        self.write_out(key);
    }

    pub(in crate::keeper) fn flush_all(&mut self, terminal: &mut AgentTerminal, output_end: u64) {
        for key in self.keys() {
            self.flush(key, terminal, output_end);
        }
    }

    /// Writes without bringing the client up to date: for the moment when the keeper's own screen is not. A client
    /// whose socket buffer was full is skipped until epoll says it is writable.
    fn write_out(&mut self, key: u64) {
        let waits = |client: &ConnectedClient| client.wants_write && !client.has_too_much();
        if !self.clients.get(&key).is_some_and(waits) {
            self.write_now(key);
        }
    }

    /// Writes, even to a client whose socket buffer was full.
    pub(in crate::keeper) fn write_now(&mut self, key: u64) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        if client.flush().is_err() {
            return self.depart(key);
        }
        let wants_write = !client.is_drained();
        if wants_write != client.wants_write {
            client.wants_write = wants_write;
            self.update_interest(key);
        }
    }

    /// Writes to all clients, even to those whose socket buffers were full.
    pub(in crate::keeper) fn write_all_now(&mut self) {
        self.keys().into_iter().for_each(|key| self.write_now(key));
    }

    /// True if everything queued has been written, to the clients that are still there.
    pub(in crate::keeper) fn is_drained(&self) -> bool {
        self.clients.iter().all(|(key, client)| client.is_drained() || self.departing.contains(key))
    }

    pub(super) fn update_interest(&self, key: u64) {
        let Some(client) = self.clients.get(&key) else { return };
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, !client.paused);
        flags.set(epoll::EventFlags::OUT, client.wants_write);
        self.epoll.modify(client.as_fd(), key, flags);
    }

    /// Brings a client that fell behind, or a watcher, up to date once it has room.
    fn catch_up(&mut self, key: u64, terminal: &mut AgentTerminal, output_end: u64) {
        // A client whose queue was dropped is drained as well, and is skipped until epoll says it is writable.
        let has_room = |client: &&mut ConnectedClient| client.is_drained() && !client.wants_write;
        let Some(client) = self.clients.get_mut(&key).filter(has_room) else { return };
        if let Some(attached @ AttachmentState { behind: true, .. }) = client.attached
            && let Some(paint) = terminal.paint()
        {
            client.attached = Some(AttachmentState { behind: false, ..attached });
            client.send_screen(&paint);
        }
        if client.watches && client.told_end < output_end {
            client.told_end = output_end;
            client.send(FrameKind::Notice, &plain(&KeeperNotice::Output { end: output_end }));
        }
    }

    /// Sends output to the clients that see the terminal, and writes at once: users wait for it.
    pub(in crate::keeper) fn show(&mut self, output: &[u8]) {
        // A client that fell behind gets a screen once it has room, and not before the end of this pass: painted now, it
        // would lack these very bytes for good.
        let seeing: Vec<u64> =
            self.clients.iter().filter(|(_, client)| client.sees()).map(|(key, _)| *key).collect();
        if seeing.is_empty() || output.is_empty() {
            return;
        }
        let frame: Rc<[u8]> = frame::encode_frame(FrameKind::Output, &[output]).into();
        for key in seeing {
            if let Some(client) = self.clients.get_mut(&key) {
                client.send_output(&frame);
                self.write_out(key);
            }
        }
    }

    /// Sends an event to the watchers, followers and attached clients that it concerns.
    pub(in crate::keeper) fn tell(&mut self, event: &Committed<StoredEvent>) {
        let mut json = None;
        for client in self.clients.values_mut().filter(|client| client.is_subscribed_to(&event.get().event)) {
            let json = json.get_or_insert_with(|| plain(&notice_of(event)));
            client.send(FrameKind::Notice, json);
        }
    }
}
