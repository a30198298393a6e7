//! Attached parties: what they sent, and what still has to reach them.
//!
//! Promise: a client that does not read costs a bounded queue and nothing else. Terminal output
//! is dropped in whole frames, each cut where no escape sequence is torn, and replaced by one
//! fresh screen; answers and events are never dropped: who lets too many of them pile up is
//! disconnected and may ask again from the number it has.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use berth_api::frame::{self, Frame, Kind, MAX_FIRST_FRAME_BYTES, MAX_FRAME_BYTES};
use berth_core::{Actor, Fence};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::callers::{Peer, Seen};

/// How much terminal output may wait for a client before it gets a fresh screen instead.
pub(crate) const OUTPUT_QUEUE_BYTES: usize = 256 * 1024;
/// How much may wait for a client in all before it is disconnected.
pub(crate) const TOTAL_QUEUE_BYTES: usize = 64 * 1024 * 1024;
/// How much of a screen goes into one frame. The largest screen has some tens of megabytes.
const SCREEN_PIECE_BYTES: usize = 1024 * 1024;
/// How much of a client is read at a time.
const READ_BYTES: usize = 16 * 1024;
/// The most bytes of unfinished frames of all clients together: one longest frame, and as much again for the others.
pub(crate) const UNFINISHED_BYTES: usize = 2 * MAX_FRAME_BYTES;

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    /// Who it is.
    pub(crate) actor: Actor,
    /// The process at its other end.
    pub(crate) peer: Option<Peer>,
    /// Whether that is inside of a session: looked up when it first wants more than to look.
    pub(crate) seen: Option<Seen>,
    /// Whether a request of the client was accepted. Before that it may send short frames only.
    pub(crate) is_known: bool,
    /// Whether the client is the gateway of this state directory: looked up with its first request.
    pub(crate) is_gateway: Option<bool>,
    /// Whether it sees the terminal.
    pub(crate) attached: Option<Attached>,
    /// Whether it is told of events and output.
    pub(crate) watches: bool,
    /// Whether it waits for the end of the run.
    pub(crate) awaits_end: bool,
    /// Whether it waits for a helper to be ready.
    pub(crate) awaits_ready: bool,
    /// Whether it waits for the agent to take turns.
    pub(crate) awaits_agent: bool,
    /// The question whose answer it waits for: it is the hook that the agent asked with.
    pub(crate) awaits_answer: Option<String>,
    /// The turn it is told of.
    pub(crate) follows: Option<u64>,
    /// The turn it sent and is about to follow.
    pub(crate) waits_for: Option<u64>,
    /// How far it knows the output to reach.
    pub(crate) told_end: u64,
    /// Which events the kernel was asked to report; kept here so that it is asked only on change.
    pub(crate) wants_write: bool,
    /// It sent more keys than the agent reads; it is not listened to until the agent does.
    pub(crate) paused: bool,
    /// A request of it is not answered yet; what it sent behind that waits.
    pub(crate) has_call: bool,
    incoming: Vec<u8>,
    outgoing: VecDeque<Queued>,
    /// How much of the first queued frame is written.
    sent: usize,
    queued_bytes: usize,
    output_bytes: usize,
}

/// A client that sees the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attached {
    /// Its right to type.
    pub(crate) fence: Option<Fence>,
    /// It missed output and needs a fresh screen.
    pub(crate) behind: bool,
    /// Since when, by the wall clock: for people.
    pub(crate) since_ms: u64,
}

#[derive(Debug)]
struct Queued {
    bytes: Rc<[u8]>,
    is_output: bool,
}

impl Client {
    pub(crate) fn new(stream: UnixStream, actor: Actor, peer: Option<Peer>) -> Self {
        Self {
            stream,
            actor,
            peer,
            seen: None,
            is_known: false,
            is_gateway: None,
            attached: None,
            watches: false,
            awaits_end: false,
            awaits_ready: false,
            awaits_agent: false,
            awaits_answer: None,
            follows: None,
            waits_for: None,
            told_end: 0,
            wants_write: false,
            paused: false,
            has_call: false,
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
            sent: 0,
            queued_bytes: 0,
            output_bytes: 0,
        }
    }

    /// Reads what is there. `false` when the client has closed its side.
    pub(crate) fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.incoming.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// The next whole frame, if it has arrived.
    pub(crate) fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        let limit = if self.is_known { MAX_FRAME_BYTES } else { MAX_FIRST_FRAME_BYTES };
        let frame = frame::take_within(&mut self.incoming, limit)?;
        if self.incoming.is_empty() && self.incoming.capacity() > READ_BYTES {
            self.incoming = Vec::new();
        }
        Ok(frame)
    }

    /// How much of an unfinished frame has arrived.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.incoming.len()
    }

    /// Whether the client has closed its connection. What it sent before that may still be unread.
    pub(crate) fn has_hung_up(&self) -> bool {
        let mut look = [PollFd::new(&self.stream, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut look, Some(&now)).is_ok() && look[0].revents().contains(PollFlags::HUP)
    }

    /// Queues something that must arrive.
    pub(crate) fn send(&mut self, kind: Kind, payload: &[u8]) {
        self.push(frame::encode(kind, &[payload]).into(), false);
    }

    /// Queues a whole screen, in frames of bounded size: they are painted one after the other.
    pub(crate) fn send_screen(&mut self, paint: &[u8]) {
        for (at, piece) in paint.chunks(SCREEN_PIECE_BYTES).enumerate() {
            self.send(if at == 0 { Kind::Screen } else { Kind::Output }, piece);
        }
    }

    /// Queues terminal output, or notes that the client has missed some.
    pub(crate) fn send_output(&mut self, frame: &Rc<[u8]>) {
        let Some(attached) = &mut self.attached else { return };
        if attached.behind {
            return;
        }
        if self.output_bytes + frame.len() > OUTPUT_QUEUE_BYTES {
            attached.behind = true;
            self.drop_output();
            return;
        }
        self.push(Rc::clone(frame), true);
    }

    /// Writes as much as the client takes now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(first) = self.outgoing.front() {
            match self.stream.write(&first.bytes[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return if self.has_too_much() { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(()) };
                }
                Err(error) => return Err(error),
            }
            if self.sent == first.bytes.len() {
                self.sent = 0;
                let done = self.outgoing.pop_front().expect("there was a first frame");
                self.forget(&done);
            }
        }
        if self.outgoing.capacity() > 64 {
            self.outgoing = VecDeque::new();
        }
        Ok(())
    }

    /// Whether more waits for it than may.
    pub(crate) fn has_too_much(&self) -> bool {
        self.queued_bytes > TOTAL_QUEUE_BYTES
    }

    /// Whether everything queued has been written.
    pub(crate) fn is_drained(&self) -> bool {
        self.outgoing.is_empty()
    }

    fn push(&mut self, bytes: Rc<[u8]>, is_output: bool) {
        self.queued_bytes += bytes.len();
        self.output_bytes += if is_output { bytes.len() } else { 0 };
        self.outgoing.push_back(Queued { bytes, is_output });
    }

    /// Drops queued output, except a frame that is half written: the rest of it must follow.
    fn drop_output(&mut self) {
        let half_written = usize::from(self.sent > 0);
        let mut kept: VecDeque<_> = self.outgoing.drain(..half_written).collect();
        for queued in std::mem::take(&mut self.outgoing) {
            if queued.is_output {
                self.forget(&queued);
            } else {
                kept.push_back(queued);
            }
        }
        self.outgoing = kept;
    }

    fn forget(&mut self, queued: &Queued) {
        self.queued_bytes -= queued.bytes.len();
        self.output_bytes -= if queued.is_output { queued.bytes.len() } else { 0 };
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Client, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("nonblocking");
        let mut client = Client::new(ours, Actor::default(), None);
        client.attached = Some(Attached { fence: None, behind: false, since_ms: 0 });
        (client, theirs)
    }

    #[test]
    fn a_client_has_hung_up_only_once_it_closed_both_directions() {
        let (client, mut theirs) = pair();
        theirs.write_all(b"unread").expect("room in the socket");
        assert!(!client.has_hung_up());
        theirs.shutdown(std::net::Shutdown::Write).expect("connected");
        assert!(!client.has_hung_up(), "it can still hear an answer");
        drop(theirs);
        assert!(client.has_hung_up());
    }

    fn output(text: &str) -> Rc<[u8]> {
        frame::encode(Kind::Output, &[text.as_bytes()]).into()
    }

    #[test]
    fn a_client_that_does_not_read_loses_output_but_no_answer_and_no_half_frame() {
        let (mut client, mut theirs) = pair();
        let line = output(&"x".repeat(4000));
        while !client.attached.expect("attached").behind {
            client.send_output(&line);
            client.flush().expect("a full socket is no error");
        }
        client.send(Kind::Answer, b"kept");
        assert!(client.queued_bytes <= line.len() + 100, "{} bytes still wait", client.queued_bytes);
        drop(client.flush());
        let mut answers = 0;
        theirs.set_nonblocking(true).expect("nonblocking");
        let mut bytes = Vec::new();
        loop {
            let mut buffer = vec![0; 65536];
            match theirs.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(_) if client.is_drained() => break,
                Err(_) => client.flush().expect("room again"),
            }
        }
        while let Some(frame) = frame::take(&mut bytes).expect("every frame is whole") {
            match frame.kind {
                Kind::Output => assert_eq!(frame.payload.len(), 4000),
                kind => {
                    assert_eq!(kind, Kind::Answer);
                    answers += 1;
                }
            }
        }
        assert_eq!((answers, bytes.len()), (1, 0));
    }
}
