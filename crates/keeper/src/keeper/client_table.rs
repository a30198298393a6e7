//! The clients of one keeper: their connections, the requests each waits for, and the frames that still have
//! to reach them.
//!
//! Promise: the number of clients and the bytes that wait for or from them are bounded; a client whose connection fails
//! is only marked, so that no caller loses one in the middle of its work.
//! Not here: the meaning of a request (`requests`), one connection ([`ConnectedClient`]).

mod sending;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use berth_api::Timestamp;
use berth_api::frame::FrameKind;
use berth_api::message::{KeeperCall, KeeperNotice, WindowSize};
use berth_api::status::AttachedStatus;
use berth_core::{Actor, Fence};
use berth_host::clock;
use berth_journal::Committed;
use berth_procs::callers::{CallerAttribution, PeerProcess};
use berth_store::session_view::StoredEvent;
use berth_store::state_dir::StateDir;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::actor_of;
use super::client::{AttachmentState, ConnectedClient, UNFINISHED_BYTES};
use super::event_loop::{Epoll, FIRST_CLIENT};
use crate::client_place;

/// The number of clients that may be attached, watch or wait at once.
pub(super) const MAX_LASTING: usize = 64;
/// The number of clients that may be connected at once: some room is left for short requests.
pub(super) const MAX_CLIENTS: usize = 96;
/// The number of hooks that may wait at once. Each tool of the agent can call its hooks, and other clients need
/// room as well.
const MAX_WAITING_HOOKS: usize = 16;

/// All clients of a keeper.
#[derive(Debug)]
pub(super) struct ClientTable {
    epoll: Epoll,
    clients: BTreeMap<u64, ConnectedClient>,
    next_key: u64,
    /// Requests that wait for the next batch, oldest first.
    calls: VecDeque<(u64, QueuedCall)>,
    /// Clients to remove at the end of the pass.
    departing: BTreeSet<u64>,
    /// True while no key of a user may come between a record and the text that is typed because of it.
    holds_keys: bool,
}

/// The kind of an unanswered request that a client waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClientWait {
    EndOfRun,
    HelperReady,
    AgentReady,
}

/// The next input of a client.
#[derive(Debug)]
pub(super) enum ClientInput {
    /// Keys for the terminal.
    Keys(Vec<u8>),
    Call(Vec<u8>),
    /// No whole frame, or a request of the client is not answered yet.
    Nothing,
    /// Bytes that no client may send.
    Invalid,
}

/// A request that waits for the next batch.
#[derive(Debug)]
pub(super) struct QueuedCall {
    pub(super) call: KeeperCall,
    /// The size of its frame, against the limit for all that wait.
    pub(super) bytes: usize,
}

/// A client that was removed.
#[derive(Debug)]
pub(super) struct DepartedClient {
    pub(super) attached: Option<AttachmentState>,
    /// The question whose answer the client waited for.
    pub(super) hook_request: Option<String>,
}

impl ClientTable {
    pub(super) fn new(epoll: Epoll) -> Self {
        Self {
            epoll,
            clients: BTreeMap::new(),
            next_key: FIRST_CLIENT,
            calls: VecDeque::new(),
            departing: BTreeSet::new(),
            holds_keys: false,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.clients.len() < MAX_CLIENTS
    }

    /// True if one more client may be attached, watch or wait.
    pub(super) fn has_room_for_lasting(&self) -> bool {
        self.clients.values().filter(|client| client.is_lasting()).count() < MAX_LASTING
    }

    /// True if one more hook may wait for an answer.
    pub(super) fn has_room_for_hook(&self) -> bool {
        let waiting = self.clients.values().filter(|client| client.awaits_answer.is_some()).count();
        waiting < MAX_WAITING_HOOKS && self.has_room_for_lasting()
    }

    /// True as long as the requests that wait are not too long.
    fn has_room_for_calls(&self) -> bool {
        self.calls.iter().map(|(_, queued)| queued.bytes).sum::<usize>() < UNFINISHED_BYTES
    }

    pub(super) fn add(&mut self, stream: UnixStream, home: &StateDir) -> io::Result<u64> {
        stream.set_nonblocking(true)?;
        let key = self.next_key;
        let actor = actor_of(&stream)?;
        // Attributed now: the process may have ended by the time its first request is read.
        let peer = PeerProcess::of(home, &stream)?;
        let client = ConnectedClient::new(stream, actor, Some(peer));
        self.epoll.add_readable(client.as_fd(), key)?;
        self.next_key += 1;
        self.clients.insert(key, client);
        Ok(key)
    }

    pub(super) fn contains(&self, key: u64) -> bool {
        self.clients.contains_key(&key)
    }

    fn keys(&self) -> Vec<u64> {
        self.clients.keys().copied().collect()
    }

    /// The clients that have closed their side. Frames that they sent before may still be unread.
    pub(super) fn hung_up(&self) -> Vec<u64> {
        let mut polled: Vec<PollFd<'_>> =
            self.clients.values().map(|client| PollFd::new(client, PollFlags::RDHUP)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If poll fails, no client is known to be gone.
        let _ = poll(&mut polled, Some(&now));
        let is_gone = |polled: &PollFd<'_>| polled.revents().intersects(PollFlags::RDHUP | PollFlags::HUP);
        let gone = self.clients.keys().zip(&polled).filter(|(_, polled)| is_gone(polled));
        gone.map(|(key, _)| *key).collect()
    }

    pub(super) fn has_hung_up(&self, key: u64) -> bool {
        self.clients.get(&key).is_some_and(ConnectedClient::has_hung_up)
    }

    // Frames from clients.

    /// Reads a client. `None` if it may not be read now; `false` if it has closed its side.
    pub(super) fn receive(&mut self, key: u64) -> Option<bool> {
        Some(self.clients.get_mut(&key)?.receive().unwrap_or(false))
    }

    /// True unless a request of the client is not answered yet.
    pub(super) fn accepts_requests(&self, key: u64) -> bool {
        self.clients.get(&key).is_some_and(|client| !client.has_call)
    }

    /// The next whole frame of a client.
    pub(super) fn next_received(&mut self, key: u64) -> ClientInput {
        let Some(client) = self.clients.get_mut(&key).filter(|client| !client.has_call) else {
            return ClientInput::Nothing;
        };
        match client.next_frame() {
            Ok(Some(frame)) => match frame.kind {
                FrameKind::Input => ClientInput::Keys(frame.payload),
                FrameKind::Call => ClientInput::Call(frame.payload),
                FrameKind::Answer | FrameKind::Output | FrameKind::Screen | FrameKind::Notice => {
                    ClientInput::Invalid
                }
            },
            Ok(None) => ClientInput::Nothing,
            Err(_) => ClientInput::Invalid,
        }
    }

    /// Keeps a request for the next batch. Nothing more is read of its client until then.
    pub(super) fn queue_call(&mut self, key: u64, queued: QueuedCall) {
        self.begin_call(key);
        self.calls.push_back((key, queued));
    }

    /// True if requests wait for the next batch.
    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn take_calls(&mut self) -> VecDeque<(u64, QueuedCall)> {
        std::mem::take(&mut self.calls)
    }

    /// Stops reading frames of the client until [`Self::end_call`].
    pub(super) fn begin_call(&mut self, key: u64) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.has_call = true;
        }
    }

    pub(super) fn end_call(&mut self, key: u64) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.has_call = false;
        }
    }

    /// The client with the longest unfinished frame, if all of them together are too long. A client that sends the longest
    /// prompt is not the longest while another client hoards.
    pub(super) fn longest_unfinished_sender(&self) -> Option<u64> {
        let here = || self.clients.iter().filter(|(key, _)| !self.departing.contains(key));
        let total: usize = here().map(|(_, client)| client.unfinished_bytes()).sum();
        if total <= UNFINISHED_BYTES {
            return None;
        }
        let (longest, client) = here().max_by_key(|(_, client)| client.unfinished_bytes())?;
        let pid = client.actor.pid;
        tracing::warn!(client = *longest, pid, "disconnected: its frame is not finished");
        Some(*longest)
    }

    /// Has a client wait until the agent has read the keys that are waiting.
    pub(super) fn pause(&mut self, key: u64) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.paused = true;
            self.update_interest(key);
        }
    }

    pub(super) fn unpause_all(&mut self) {
        let paused = self.clients.iter_mut().filter(|(_, client)| client.paused);
        let paused: Vec<u64> = paused
            .map(|(key, client)| {
                client.paused = false;
                *key
            })
            .collect();
        paused.into_iter().for_each(|key| self.update_interest(key));
    }

    pub(super) fn has_paused(&self) -> bool {
        self.clients.values().any(|client| client.paused)
    }

    /// Stops reading keys, or starts it again.
    pub(super) fn hold_keys(&mut self, on: bool) {
        self.holds_keys = on;
    }

    // While a batch is in flight.

    /// The events to wait for from a client while a batch is in flight; `None` for none.
    fn interest(&self, key: u64) -> Option<PollFlags> {
        let client = self.clients.get(&key).filter(|_| !self.departing.contains(&key))?;
        let mut flags = PollFlags::empty();
        let is_read = !client.paused && !client.has_call && !self.holds_keys;
        flags.set(PollFlags::IN, is_read && self.has_room_for_calls());
        flags.set(PollFlags::OUT, client.wants_write);
        (!flags.is_empty()).then_some(flags)
    }

    /// The clients to wait for while a batch is in flight.
    pub(super) fn polled(&self) -> Vec<(u64, PollFd<'_>)> {
        let polled = |(key, client): (&u64, _)| {
            Some((*key, PollFd::from_borrowed_fd(ConnectedClient::as_fd(client), self.interest(*key)?)))
        };
        self.clients.iter().filter_map(polled).collect()
    }

    /// True if a client may be read while a batch is in flight.
    pub(super) fn is_read_meanwhile(&self, key: u64) -> bool {
        self.interest(key).is_some_and(|flags| flags.contains(PollFlags::IN))
    }

    /// True if forgetting the client now would have to be recorded, or it waits for an answer.
    pub(super) fn removal_needs_commit(&self, key: u64) -> bool {
        self.clients
            .get(&key)
            .is_some_and(|client| client.writes() || client.has_call || client.awaits_answer.is_some())
    }

    // Removal of clients.

    /// Marks a client for removal.
    pub(super) fn depart(&mut self, key: u64) {
        self.departing.insert(key);
    }

    pub(super) fn take_departing(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.departing)
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<DepartedClient> {
        let client = self.clients.remove(&key)?;
        self.epoll.remove(&client);
        Some(DepartedClient { attached: client.attached, hook_request: client.awaits_answer })
    }

    /// True if something arrived while a batch was in flight.
    pub(super) fn has_news(&self) -> bool {
        !self.calls.is_empty() || !self.departing.is_empty()
    }

    // The process at the other end.

    pub(super) fn actor(&self, key: u64) -> Option<Actor> {
        self.clients.get(&key).map(|client| client.actor.clone())
    }

    /// True once the process that connected has ended.
    pub(super) fn is_gone(&self, key: u64) -> bool {
        self.clients.get(&key).and_then(|client| client.peer.as_ref()).is_some_and(PeerProcess::is_gone)
    }

    /// Records the place that a client claims, after checks: see [`place`].
    pub(super) fn set_place(&mut self, key: u64, claim: &str, root: &Path) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        let pid = client.actor.pid;
        let is_gateway = *client.is_gateway.get_or_insert_with(|| client_place::is_gateway(root, pid));
        client.actor.place = client_place::recorded_place(claim, is_gateway);
    }

    /// The sessions that the client is inside of; looked up once.
    pub(super) fn seen(&mut self, key: u64, home: &StateDir) -> Option<&CallerAttribution> {
        let client = self.clients.get_mut(&key)?;
        let peer = &client.peer;
        let look = || match peer {
            Some(peer) => peer.attribute(home),
            None => CallerAttribution::Unseen("nothing is known of the other end".to_owned()),
        };
        Some(client.seen.get_or_insert_with(look))
    }

    /// Notes that a request of the client was accepted: from now on it may send long frames.
    pub(super) fn admit(&mut self, key: u64) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.is_known = true;
        }
    }

    // Attached clients and the right to type.

    /// The client's right to type.
    pub(super) fn fence(&self, key: u64) -> Option<Fence> {
        self.clients.get(&key)?.attached?.fence
    }

    pub(super) fn writes(&self, key: u64) -> bool {
        self.clients.get(&key).is_some_and(ConnectedClient::writes)
    }

    pub(super) fn has_writer(&self, fence: Fence) -> bool {
        let fence = Some(fence);
        self.clients.values().any(|client| client.attached.is_some_and(|attached| attached.fence == fence))
    }

    /// True if a client that may type also sees the questions of the agent to its terminal. An observer's answers go
    /// nowhere, and a client that fell behind never saw the question.
    pub(super) fn has_writer_that_sees(&self) -> bool {
        self.connected().any(|client| client.writes() && client.sees())
    }

    /// The clients whose connection is not known to be gone.
    fn connected(&self) -> impl Iterator<Item = &ConnectedClient> {
        let connected = self.clients.iter().filter(|(key, _)| !self.departing.contains(key));
        connected.map(|(_, client)| client)
    }

    /// Attaches a client, or changes its right to type. The screen follows as soon as it can be painted, which is at
    /// once except for a torn sequence. False if the client is gone.
    pub(super) fn attach(&mut self, key: u64, fence: Option<Fence>) -> bool {
        let Some(client) = self.clients.get_mut(&key) else { return false };
        let since_ms = client.attached.map_or_else(clock::wall_ms, |attached| attached.since_ms);
        client.attached = Some(AttachmentState { fence, behind: true, since_ms });
        true
    }

    /// Makes observers of the other clients that could type.
    pub(super) fn demote_others(&mut self, key: u64, taker: &str, size: WindowSize) {
        let notice = plain(&KeeperNotice::Replaced { by: taker.to_owned(), size });
        for (other, client) in &mut self.clients {
            if let Some(attached) = client.attached.as_mut().filter(|attached| attached.fence.is_some())
                && *other != key
            {
                // An observer draws from a whole screen.
                (attached.fence, attached.behind) = (None, true);
                client.send(FrameKind::Notice, &notice);
            }
        }
    }

    /// Sends observers another size and a fresh screen.
    pub(super) fn tell_resized(&mut self, size: WindowSize) {
        let notice = plain(&KeeperNotice::Resized { size });
        for client in self.clients.values_mut() {
            if let Some(attached) = client.attached.as_mut().filter(|attached| attached.fence.is_none()) {
                attached.behind = true;
                client.send(FrameKind::Notice, &notice);
            }
        }
    }

    /// Has each attached client get a fresh screen.
    pub(super) fn repaint_all(&mut self) {
        for attached in self.clients.values_mut().filter_map(|client| client.attached.as_mut()) {
            attached.behind = true;
        }
    }

    /// The attached clients, the longest attached first.
    pub(super) fn attached_status(&self) -> Vec<AttachedStatus> {
        let attached = self.connected().filter_map(|client| Some((client, client.attached?)));
        let mut status: Vec<AttachedStatus> = attached
            .map(|(client, attached)| AttachedStatus {
                place: client.actor.place.clone(),
                since: Timestamp(attached.since_ms),
                writes: attached.fence.is_some(),
            })
            .collect();
        status.sort_by_key(|attached| attached.since.0);
        status
    }
}

fn notice_of(event: &Committed<StoredEvent>) -> KeeperNotice {
    KeeperNotice::Event { seq: event.seq().0, entry: Box::new(event.get().entry()) }
}

fn plain(notice: &KeeperNotice) -> Vec<u8> {
    serde_json::to_vec(notice).expect("a notice is plain data")
}
