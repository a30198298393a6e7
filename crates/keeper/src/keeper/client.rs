//! One connection of a client: the frames it sent, the answers it waits for, and the frames that still have
//! to reach it.
//!
//! Promise: a client that does not read costs a bounded queue and nothing else. Terminal output is dropped in whole
//! frames, each cut where no escape sequence is torn, and replaced by one fresh screen; answers and events are never
//! dropped: a client that lets too many of them pile up is disconnected, and may ask again from the number it has.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use berth_api::client::SCRIPT_CLIENT;
use berth_api::frame::{self, FrameKind, MAX_FIRST_FRAME_BYTES, MAX_FRAME_BYTES, ReceivedFrame};
use berth_core::{Actor, Event, Fence, NotificationKind};
use berth_procs::callers::{CallerAttribution, PeerProcess};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::client_table::ClientWait;

/// The bytes of terminal output that may wait for a client before it gets a fresh screen instead.
pub(super) const OUTPUT_QUEUE_BYTES: usize = 256 * 1024;
/// The bytes that may wait for a client in all before it is disconnected.
pub(super) const TOTAL_QUEUE_BYTES: usize = 64 * 1024 * 1024;
/// The bytes of a screen in one frame. The largest screen has some tens of megabytes.
const SCREEN_PIECE_BYTES: usize = 1024 * 1024;
/// The bytes that are read from a client at a time.
const READ_BYTES: usize = 16 * 1024;
/// The most bytes of unfinished frames of all clients together: one longest frame, and as much again for the others.
pub(super) const UNFINISHED_BYTES: usize = 2 * MAX_FRAME_BYTES;

/// The connection of one client.
#[derive(Debug)]
pub(super) struct ConnectedClient {
    stream: UnixStream,
    pub(super) actor: Actor,
    /// The process at its other end.
    pub(super) peer: Option<PeerProcess>,
    /// The sessions that this process is inside of: looked up with the client's first order.
    pub(super) seen: Option<CallerAttribution>,
    /// True once a request of the client was accepted. Before that it may send short frames only.
    pub(super) is_known: bool,
    /// True for the gateway of this state directory: looked up with the first request.
    pub(super) is_gateway: Option<bool>,
    /// Set while the client sees the terminal.
    pub(super) attached: Option<AttachmentState>,
    /// True if the client subscribed to events and output.
    pub(super) watches: bool,
    awaits_end: bool,
    awaits_ready: bool,
    awaits_agent: bool,
    /// The question whose answer the client waits for: it is the hook that the agent asked with.
    pub(super) awaits_answer: Option<String>,
    /// The turn that the client follows.
    pub(super) follows: Option<u64>,
    /// The turn that the client sent and is about to follow.
    pub(super) sent_turn: Option<u64>,
    /// The end of the output that the client was last notified of.
    pub(super) told_end: u64,
    /// True if the kernel was asked to report room; kept here so that it is asked only on change.
    pub(super) wants_write: bool,
    /// True if the client sent more keys than the agent reads; it is not read until the agent does.
    pub(super) paused: bool,
    /// True if a request of the client is not answered yet; its later requests wait.
    pub(super) has_call: bool,
    incoming: Vec<u8>,
    outgoing: VecDeque<QueuedFrame>,
    /// The bytes of the first queued frame that are written.
    sent: usize,
    queued_bytes: usize,
    output_bytes: usize,
}

/// The state of a client that sees the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AttachmentState {
    /// The client's right to type.
    pub(super) fence: Option<Fence>,
    /// True if the client missed output and needs a fresh screen.
    pub(super) behind: bool,
    /// The time it attached, on the wall clock: for display.
    pub(super) since_ms: u64,
}

#[derive(Debug)]
struct QueuedFrame {
    bytes: Rc<[u8]>,
    is_output: bool,
}

impl ConnectedClient {
    pub(super) fn new(stream: UnixStream, actor: Actor, peer: Option<PeerProcess>) -> Self {
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
            sent_turn: None,
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

    /// Reads the available bytes. `false` when the client has closed its side.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
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
    pub(super) fn next_frame(&mut self) -> io::Result<Option<ReceivedFrame>> {
        let limit = if self.is_known { MAX_FRAME_BYTES } else { MAX_FIRST_FRAME_BYTES };
        let frame = frame::take_frame_within(&mut self.incoming, limit)?;
        if self.incoming.is_empty() && self.incoming.capacity() > READ_BYTES {
            self.incoming = Vec::new();
        }
        Ok(frame)
    }

    /// The bytes of an unfinished frame that have arrived.
    pub(super) fn unfinished_bytes(&self) -> usize {
        self.incoming.len()
    }

    /// True if the client has closed its connection. Frames that it sent before may still be unread.
    pub(super) fn has_hung_up(&self) -> bool {
        let mut look = [PollFd::new(&self.stream, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut look, Some(&now)).is_ok() && look[0].revents().contains(PollFlags::HUP)
    }

    /// Queues a frame that must arrive.
    pub(super) fn send(&mut self, kind: FrameKind, payload: &[u8]) {
        self.push(frame::encode_frame(kind, &[payload]).into(), false);
    }

    /// Queues a whole screen, in frames of bounded size: they are painted one after the other.
    pub(super) fn send_screen(&mut self, paint: &[u8]) {
        for (at, piece) in paint.chunks(SCREEN_PIECE_BYTES).enumerate() {
            self.send(if at == 0 { FrameKind::Screen } else { FrameKind::Output }, piece);
        }
    }

    /// Queues terminal output, or notes that the client has missed some.
    pub(super) fn send_output(&mut self, frame: &Rc<[u8]>) {
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
    pub(super) fn flush(&mut self) -> io::Result<()> {
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

    /// True if more bytes wait for the client than allowed.
    pub(super) fn has_too_much(&self) -> bool {
        self.queued_bytes > TOTAL_QUEUE_BYTES
    }

    /// True if everything queued has been written.
    pub(super) fn is_drained(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// True if the client may type.
    pub(super) fn writes(&self) -> bool {
        self.attached.is_some_and(|attached| attached.fence.is_some())
    }

    /// True if the client sees the terminal as it is.
    pub(super) fn sees(&self) -> bool {
        self.attached.is_some_and(|attached| !attached.behind)
    }

    /// True for a client that stays: it is attached, watches, follows or waits.
    pub(super) fn is_lasting(&self) -> bool {
        let waits = self.awaits_end || self.awaits_ready || self.awaits_agent || self.awaits_answer.is_some();
        self.attached.is_some() || self.watches || self.follows.is_some() || waits
    }

    pub(super) fn waits_for(&self, wait: ClientWait) -> bool {
        match wait {
            ClientWait::EndOfRun => self.awaits_end,
            ClientWait::HelperReady => self.awaits_ready,
            ClientWait::AgentReady => self.awaits_agent,
        }
    }

    pub(super) fn wait(&mut self, wait: ClientWait) -> &mut bool {
        match wait {
            ClientWait::EndOfRun => &mut self.awaits_end,
            ClientWait::HelperReady => &mut self.awaits_ready,
            ClientWait::AgentReady => &mut self.awaits_agent,
        }
    }

    /// True if the client is subscribed to this event.
    pub(super) fn is_subscribed_to(&self, event: &Event) -> bool {
        let is_end = matches!(event, Event::RunEnded { .. } | Event::EndUnproven { .. });
        let follows = self.follows.is_some_and(|turn| concerns(event, turn));
        self.watches || follows || (is_end && self.attached.is_some())
    }

    /// True if a user or program behind the client notices this event by itself. A client whose screen is behind has
    /// not read anything for a while (a laptop that was closed keeps its connection for hours), and a script that
    /// waits cannot answer a question.
    pub(super) fn shows_to_user(&self, event: &Event, occasion: NotificationKind) -> bool {
        let may_act = match occasion {
            NotificationKind::NeedsYou => !self.actor.place.starts_with(SCRIPT_CLIENT),
            NotificationKind::Failed | NotificationKind::Finished => true,
        };
        // A turn may be over before its sender has come to follow it.
        let mut of_interest = self.follows.into_iter().chain(self.sent_turn);
        let follows = of_interest.any(|turn| concerns(event, turn));
        let awaits = self.awaits_end || self.awaits_agent || self.awaits_ready;
        may_act && (self.sees() || follows || self.watches || awaits)
    }

    fn push(&mut self, bytes: Rc<[u8]>, is_output: bool) {
        self.queued_bytes += bytes.len();
        self.output_bytes += if is_output { bytes.len() } else { 0 };
        self.outgoing.push_back(QueuedFrame { bytes, is_output });
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

    fn forget(&mut self, queued: &QueuedFrame) {
        self.queued_bytes -= queued.bytes.len();
        self.output_bytes -= if queued.is_output { queued.bytes.len() } else { 0 };
    }
}

/// True if a follower of the turn is notified of this event.
fn concerns(event: &Event, turn: u64) -> bool {
    match event {
        Event::TurnDelivered { turn: it, .. }
        | Event::TurnBegan { turn: it }
        | Event::CancelRequested { turn: it, .. }
        | Event::TurnEdited { turn: it, .. }
        | Event::TurnEnded { turn: it, .. } => *it == turn,
        Event::QuestionAsked { .. }
        | Event::Answered { .. }
        | Event::QuestionWithdrawn { .. }
        | Event::QueueHeld { .. }
        | Event::QueueResumed { .. }
        | Event::RunEnded { .. } => true,
        _ => false,
    }
}

impl AsFd for ConnectedClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (ConnectedClient, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("nonblocking");
        let mut client = ConnectedClient::new(ours, Actor::default(), None);
        client.attached = Some(AttachmentState { fence: None, behind: false, since_ms: 0 });
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
        frame::encode_frame(FrameKind::Output, &[text.as_bytes()]).into()
    }

    #[test]
    fn a_client_that_does_not_read_loses_output_but_no_answer_and_no_half_frame() {
        let (mut client, mut theirs) = pair();
        let line = output(&"x".repeat(4000));
        while !client.attached.expect("attached").behind {
            client.send_output(&line);
            client.flush().expect("a full socket is no error");
        }
        client.send(FrameKind::Answer, b"kept");
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
        while let Some(frame) = frame::take_frame(&mut bytes).expect("every frame is whole") {
            match frame.kind {
                FrameKind::Output => assert_eq!(frame.payload.len(), 4000),
                kind => {
                    assert_eq!(kind, FrameKind::Answer);
                    answers += 1;
                }
            }
        }
        assert_eq!((answers, bytes.len()), (1, 0));
    }
}
