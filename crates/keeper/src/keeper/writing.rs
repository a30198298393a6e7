//! The thread that writes the journal, and what the loop does meanwhile.
//!
//! Promise: one batch is on its way to the disk at a time. Until it is there, nothing of it is applied, answered, published or
//! acted upon, and no other batch is decided; requests and reports that arrive are the next batch. Keys, output,
//! screens and looks need no journal and go on.
//! Not here: what a batch is (`owner`), who is answered afterwards (`requests`).
//! Start with [`Keeper::write`].

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use berth_journal::RealDisk;
use berth_store::killpoint;
use rustix::event::{EventfdFlags, PollFd, PollFlags, epoll, eventfd, poll};

use super::Keeper;
use super::terminal::Until;
use crate::clients::UNFINISHED_BYTES;
use crate::owner::{Batch, Input, Written};

/// A batch is encoded and written, and nothing else.
const STACK_BYTES: usize = 256 * 1024;

/// The thread that writes. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    batches: SyncSender<Batch<RealDisk>>,
    written: Receiver<Written<RealDisk>>,
    /// Readable when a batch was written.
    done: OwnedFd,
}

/// What is going on while a batch is on its way.
#[derive(Debug, Default)]
pub(super) struct Writing {
    writer: Option<Writer>,
    /// True while a batch is on its way.
    pub(super) is_busy: bool,
    /// True while something is recorded that must be typed right behind: no key may come between.
    pub(super) holds_keys: bool,
    /// True while the keeper must not be replaced.
    pub(super) is_undisturbed: bool,
    /// Reports and notes that arrived meanwhile.
    pub(super) heard: Vec<Input>,
    /// Clients that are to be forgotten afterwards.
    pub(super) gone: BTreeSet<u64>,
}

/// Wakes the loop. Also if the thread panics: then the loop finds that there is nobody to wait for.
struct Wakes(OwnedFd);

impl Wakes {
    fn wake(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.wake();
    }
}

impl Writer {
    fn start() -> io::Result<Self> {
        let done = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let wakes = Wakes(done.try_clone()?);
        let (batches, incoming) = sync_channel::<Batch<RealDisk>>(1);
        let (outgoing, written) = sync_channel(1);
        let write = move || {
            for batch in incoming {
                killpoint::held("sync");
                if outgoing.send(batch.write()).is_err() {
                    return;
                }
                wakes.wake();
            }
        };
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(write)?;
        Ok(Self { batches, written, done })
    }
}

impl Keeper {
    /// Starts the thread. Without it the loop waits for the disk itself.
    pub(super) fn start_writer(&mut self) {
        match Writer::start() {
            Ok(writer) => self.writing.writer = Some(writer),
            Err(error) => tracing::warn!(%error, "no thread for the journal: the loop waits for the disk"),
        }
    }

    /// Brings a batch to the disk, and attends to what needs no journal until it is there.
    pub(super) fn write(&mut self, batch: Batch<RealDisk>) -> Written<RealDisk> {
        let Some(writer) = self.writing.writer.take() else { return batch.write() };
        self.writing.is_busy = true;
        writer.batches.send(batch).expect("the thread lives as long as the writer");
        let written = loop {
            match writer.written.try_recv() {
                Ok(written) => break written,
                Err(TryRecvError::Empty) => self.attend(&writer.done),
                Err(TryRecvError::Disconnected) => panic!("the thread that writes the journal is gone"),
            }
        };
        let _ = rustix::io::read(&writer.done, &mut [0; 8]);
        self.writing.is_busy = false;
        self.writing.writer = Some(writer);
        written
    }

    /// Waits until the batch is written or something else is to do, and does that.
    fn attend(&mut self, done: &OwnedFd) {
        let (with_terminal, with_listener) = (self.reads_terminal(), self.has_room_for_clients());
        let keys: Vec<u64> =
            self.clients.keys().copied().filter(|key| self.interest(*key).is_some()).collect();
        let mut looks = vec![PollFd::new(done, PollFlags::IN)];
        if let Some(terminal) = self.open_terminal().filter(|_| with_terminal) {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, self.wants_room);
            looks.push(PollFd::from_borrowed_fd(terminal.pty.master.as_fd(), flags));
        }
        if with_listener {
            looks.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        for key in &keys {
            let flags = self.interest(*key).unwrap_or(PollFlags::empty());
            looks.push(PollFd::from_borrowed_fd(self.clients[key].as_fd(), flags));
        }
        // Waiting is not standing still, however long the disk takes.
        if let Some(watchdog) = &self.watchdog {
            watchdog.disarm();
        }
        match poll(&mut looks, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Nothing can be attended to, so wait for the disk alone.
            Err(_) => std::thread::yield_now(),
        }
        let mut found: Vec<PollFlags> = looks.iter().map(PollFd::revents).collect();
        drop(looks);
        if !self.writing.is_undisturbed {
            self.arm_watchdog();
        }
        if found[0].contains(PollFlags::IN) {
            // The batch is back, or it was before this wait began.
            let _ = rustix::io::read(done, &mut [0; 8]);
        }
        let mut found = found.drain(1..);
        if with_terminal {
            let found = found.next().unwrap_or(PollFlags::empty());
            if found.contains(PollFlags::OUT) {
                self.on_terminal(epoll::EventFlags::OUT);
            }
            if found.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.read_terminal(Until::Quiet);
            }
        }
        if with_listener && found.next().is_some_and(|found| !found.is_empty()) {
            self.accept();
        }
        for (key, found) in keys.into_iter().zip(found) {
            if !found.is_empty() {
                self.attend_to(key, found);
            }
        }
        self.flush_all();
    }

    fn reads_terminal(&self) -> bool {
        self.open_terminal().is_some() && self.unwritten.is_empty()
    }

    /// What to wait for from a client; `None` for nothing.
    fn interest(&self, key: u64) -> Option<PollFlags> {
        let client = self.clients.get(&key).filter(|_| !self.writing.gone.contains(&key))?;
        let mut flags = PollFlags::empty();
        let is_read = !client.paused && !client.has_call && !self.writing.holds_keys;
        flags.set(PollFlags::IN, is_read && self.has_room_for_calls());
        flags.set(PollFlags::OUT, client.wants_write);
        (!flags.is_empty()).then_some(flags)
    }

    fn attend_to(&mut self, key: u64, found: PollFlags) {
        let reads = self.interest(key).is_some_and(|flags| flags.contains(PollFlags::IN));
        if reads && found.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.receive(key);
        }
        if found.contains(PollFlags::OUT) {
            self.write_now(key);
        } else if !reads && found.intersects(PollFlags::HUP | PollFlags::ERR) {
            // It hung up. What it sent before that is read afterwards. One that only has something to say, and is not
            // heard because another client sent a long request just now, stays.
            self.writing.gone.insert(key);
        }
    }

    /// True as long as the requests that wait are not too long.
    fn has_room_for_calls(&self) -> bool {
        self.calls.iter().map(|(_, payload)| payload.len()).sum::<usize>() < UNFINISHED_BYTES
    }

    /// True if something waits that arrived while a batch was on its way.
    pub(super) fn has_heard(&self) -> bool {
        !self.calls.is_empty() || !self.writing.heard.is_empty() || !self.writing.gone.is_empty()
    }

    /// Takes what was heard while a batch was on its way, and forgets clients that left.
    pub(super) fn take_heard(&mut self) {
        for key in std::mem::take(&mut self.writing.gone) {
            self.drop_client(key);
        }
        let mut reports = Vec::new();
        for input in std::mem::take(&mut self.writing.heard) {
            match input {
                Input::Report(report) => reports.push(report),
                // A note that the disk refuses is lost; such a note is about the disk or comes again.
                Input::Note(_) | Input::Command(_) => drop(self.take(vec![input])),
            }
        }
        if !reports.is_empty() {
            self.report(reports);
        }
    }
}
