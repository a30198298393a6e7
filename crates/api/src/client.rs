//! Blocking client of one keeper.
//!
//! Promise: an answer belongs to the request that was sent last; news that arrives in between is dropped or handed out.
//! Not here: starting a keeper, and retries (see `verbs`).
//! Start with [`KeeperConnection::open`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::frame::{self, FrameKind, MAX_FIRST_FRAME_BYTES, ReceivedFrame};
use crate::message::{ClaimedCaller, KeeperAnswer, KeeperCall, KeeperNotice, KeeperRequest, PROTOCOL};
use crate::problem::Problem;
use crate::{redact, trace};

/// Name of a keeper's socket in its session's directory.
pub const SOCKET_NAME: &str = "sock";
/// Beginning of the place of a caller without a terminal.
pub const SCRIPT_CLIENT: &str = "a script";
/// End of a recorded place that a client claimed for itself, and that no gateway confirmed.
pub const CLAIMED_SUFFIX: &str = " (claimed)";

/// Bytes to read at a time.
const READ_BYTES: usize = 32 * 1024;

/// A connection to a keeper.
#[derive(Debug)]
pub struct KeeperConnection {
    stream: UnixStream,
    asker: ClaimedCaller,
    /// Bytes that were read beyond the last whole frame.
    ahead: Vec<u8>,
    /// True if the keeper takes long requests of this client: it has answered one before, or this process started it.
    has_asked: bool,
}

/// A message from a keeper.
#[derive(Debug)]
pub enum KeeperMessage {
    /// An answer to a call.
    Answer(KeeperAnswer),
    /// Terminal output.
    Output(Vec<u8>),
    /// A whole screen to paint.
    Screen(Vec<u8>),
    /// News for a subscriber.
    Notice(KeeperNotice),
}

impl KeeperConnection {
    /// Connects to the keeper of the session in `dir`.
    pub fn open(dir: &Path, place: String) -> io::Result<Self> {
        Self::open_for(dir, place.into())
    }

    /// Connects for a caller that may be an agent.
    pub fn open_for(dir: &Path, asker: ClaimedCaller) -> io::Result<Self> {
        Self::open_within(dir, asker, berth_host::socket::CONNECT_TIMEOUT)
    }

    /// Connects, with a timeout of `patience` if the keeper does not accept.
    pub fn open_within(dir: &Path, asker: ClaimedCaller, patience: Duration) -> io::Result<Self> {
        let stream = berth_host::socket::connect_within(dir, SOCKET_NAME, patience)
            .inspect_err(|error| tracing::debug!(?dir, %error, "no keeper answers there"))?;
        tracing::debug!(?dir, "connected to the keeper");
        Ok(Self { has_asked: false, ..Self::over_for(stream, asker) })
    }

    /// Connects, sends a request and waits for the answer, with one timeout for all of it.
    pub fn ask_within(
        dir: &Path,
        place: String,
        request: KeeperRequest,
        patience: Duration,
    ) -> io::Result<()> {
        // The text of the answer is ignored: the caller only needs to know that the keeper heard it.
        Self::asked_within(dir, place, request, patience, patience).map(drop)
    }

    /// Connects and sends within `patience`, then waits for the answer for at most `answer_patience`.
    pub fn ask_and_wait(
        dir: &Path,
        place: String,
        request: KeeperRequest,
        patience: Duration,
        answer_patience: Duration,
    ) -> io::Result<KeeperAnswer> {
        let frame = Self::asked_within(dir, place, request, patience, answer_patience)?;
        let payload = frame.map(|frame| frame.payload).unwrap_or_default();
        serde_json::from_slice(&payload).map_err(io::Error::other)
    }

    fn asked_within(
        dir: &Path,
        place: String,
        request: KeeperRequest,
        patience: Duration,
        answer_patience: Duration,
    ) -> io::Result<Option<ReceivedFrame>> {
        let until = Instant::now() + patience;
        let mut keeper = Self::open_within(dir, place.into(), patience)?;
        // A timeout of zero would mean no timeout.
        let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        keeper.stream.set_write_timeout(Some(left()))?;
        keeper.set_timeout(Some(left()))?;
        keeper.send(request)?;
        keeper.set_timeout(Some(left().max(answer_patience)))?;
        keeper.frame()
    }

    /// Uses a stream to a keeper that this process has started. The first request may be as long as any other.
    pub fn over(stream: UnixStream, place: String) -> Self {
        Self::over_for(stream, place.into())
    }

    /// Like [`KeeperConnection::over`], for a caller that may be an agent.
    pub fn over_for(stream: UnixStream, asker: ClaimedCaller) -> Self {
        Self { stream, asker, ahead: Vec::new(), has_asked: true }
    }

    /// Sends a request and waits for the answer. News that arrives in between is dropped: use a connection of its own
    /// to watch.
    pub fn ask(&mut self, request: KeeperRequest) -> Result<KeeperAnswer, Problem> {
        let request_kind = tracing::enabled!(tracing::Level::INFO).then(|| redact::variant_name(&request));
        let asked = Instant::now();
        let answer = self.answered(request);
        if let Some(request) = request_kind {
            let ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
            let answer = answer.as_ref().map_or_else(|problem| problem.what.clone(), redact::variant_name);
            tracing::info!(request, answer, ms, "asked the keeper");
        }
        answer
    }

    fn answered(&mut self, request: KeeperRequest) -> Result<KeeperAnswer, Problem> {
        self.send(request).map_err(|error| gone(&error))?;
        loop {
            match self.next().map_err(|error| gone(&error))? {
                Some(KeeperMessage::Answer(KeeperAnswer::Problem { problem })) => return Err(problem),
                Some(KeeperMessage::Answer(answer)) => return Ok(answer),
                Some(KeeperMessage::Output(_) | KeeperMessage::Screen(_) | KeeperMessage::Notice(_)) => {}
                None => return Err(gone(&io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }

    /// Sends a request without waiting for its answer. A keeper that does not know this client yet refuses a long
    /// request: before such a request, this method asks for the status and waits for that answer.
    pub fn send(&mut self, request: KeeperRequest) -> io::Result<()> {
        let ClaimedCaller { place, agent, also } = self.asker.clone();
        let call =
            KeeperCall { protocol: PROTOCOL, place, agent, also, trace: trace::current_trace(), request };
        let json = serde_json::to_vec(&call)?;
        if !self.has_asked && json.len() >= MAX_FIRST_FRAME_BYTES {
            self.introduce(call)?;
        }
        self.has_asked = true;
        frame::write_frame(&mut self.stream, FrameKind::Call, &[&json])
    }

    /// Asks for the status, so that the keeper has accepted a request of this client.
    fn introduce(&mut self, call: KeeperCall) -> io::Result<()> {
        let json = serde_json::to_vec(&KeeperCall { request: KeeperRequest::Status, ..call })?;
        frame::write_frame(&mut self.stream, FrameKind::Call, &[&json])?;
        while let Some(arrival) = self.next()? {
            if matches!(arrival, KeeperMessage::Answer(_)) {
                return Ok(());
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Types keys as the writer with this fence.
    pub fn type_keys(&mut self, fence: u64, keys: &[u8]) -> io::Result<()> {
        frame::write_frame(&mut self.stream, FrameKind::Input, &[&fence.to_le_bytes(), keys])
    }

    /// Waits for the next message; `None` when the keeper closed the connection.
    #[expect(clippy::should_implement_trait, reason = "an iterator of results would hide the end")]
    pub fn next(&mut self) -> io::Result<Option<KeeperMessage>> {
        self.frame()?.map(KeeperMessage::understand).transpose()
    }

    fn frame(&mut self) -> io::Result<Option<ReceivedFrame>> {
        loop {
            if let Some(frame) = frame::take_frame(&mut self.ahead)? {
                return Ok(Some(frame));
            }
            self.ahead.reserve(READ_BYTES);
            match rustix::io::read(&self.stream, rustix::buffer::spare_capacity(&mut self.ahead)) {
                Ok(0) => return Ok(None),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// True if more has arrived than [`KeeperConnection::next`] gave out. Then do not poll the socket: it may stay silent.
    pub fn has_more(&self) -> bool {
        frame::has_whole_frame(&self.ahead)
    }

    /// Sets the timeout of every wait; `None` waits for ever.
    pub fn set_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)
    }

    /// Makes the connection non-blocking: [`KeeperConnection::next`] fails with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        self.stream.set_nonblocking(true)
    }
}

impl AsFd for KeeperConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl KeeperMessage {
    /// Decodes a frame of a keeper.
    pub fn understand(frame: ReceivedFrame) -> io::Result<Self> {
        Ok(match frame.kind {
            FrameKind::Answer => Self::Answer(serde_json::from_slice(&frame.payload)?),
            FrameKind::Notice => Self::Notice(serde_json::from_slice(&frame.payload)?),
            FrameKind::Output => Self::Output(frame.payload),
            FrameKind::Screen => Self::Screen(frame.payload),
            FrameKind::Call | FrameKind::Input => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a keeper never sends calls or input",
                ));
            }
        })
    }
}

fn gone(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Problem::unreachable("the keeper did not answer in time")
        }
        _ => Problem::unreachable(format!("the keeper went away before it answered: {error}")),
    }
    .hint("`berth why` shows the evidence for the state")
}
