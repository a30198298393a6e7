//! A client of one keeper. Blocking: clients have one thing to do at a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::frame::{self, Frame, Kind, MAX_FIRST_FRAME_BYTES};
use crate::message::{Answer, Asker, Call, Notice, PROTOCOL, Request};
use crate::problem::{Code, Problem};
use crate::{redact, trace};

/// The name of a keeper's socket in its session's directory.
pub const SOCKET_NAME: &str = "sock";
/// What the place of a caller without a terminal begins with.
pub const NO_TERMINAL: &str = "a script";
/// How a recorded place ends that a client claims itself to be at, without the gateway's word for it.
pub const CLAIMED: &str = " (claimed)";

/// How much is read at a time.
const READ_BYTES: usize = 32 * 1024;

/// A connection to a keeper.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    asker: Asker,
    /// What was read beyond the last whole frame.
    ahead: Vec<u8>,
    /// True if the keeper takes long requests of this client: it has been asked before, or this process started it.
    has_asked: bool,
}

/// What arrived.
#[derive(Debug)]
pub enum Arrival {
    /// An answer to a call.
    Answer(Answer),
    /// Terminal output.
    Output(Vec<u8>),
    /// A whole screen to paint.
    Screen(Vec<u8>),
    /// News.
    Notice(Notice),
}

impl Connection {
    /// Connects to the keeper of the session in `dir`.
    pub fn open(dir: &Path, place: String) -> io::Result<Self> {
        Self::open_for(dir, place.into())
    }

    /// Connects for a caller that may be an agent.
    pub fn open_for(dir: &Path, asker: Asker) -> io::Result<Self> {
        Self::open_within(dir, asker, berth_host::socket::QUEUE_PATIENCE)
    }

    /// Connects, and gives up after `patience` if the keeper does not accept.
    pub fn open_within(dir: &Path, asker: Asker, patience: Duration) -> io::Result<Self> {
        let stream = berth_host::socket::connect_within(dir, SOCKET_NAME, patience)
            .inspect_err(|error| tracing::debug!(?dir, %error, "no keeper answers there"))?;
        tracing::debug!(?dir, "connected to the keeper");
        Ok(Self { has_asked: false, ..Self::over_for(stream, asker) })
    }

    /// Connects, asks and waits for an answer, all of it within this time.
    pub fn ask_within(dir: &Path, place: String, request: Request, patience: Duration) -> io::Result<()> {
        // The text of the answer is ignored: the caller only needs to know that the keeper heard it.
        Self::asked_within(dir, place, request, patience, patience).map(drop)
    }

    /// Connects and asks within `patience`; waits for the answer as long as `answer_patience`.
    pub fn ask_and_wait(
        dir: &Path,
        place: String,
        request: Request,
        patience: Duration,
        answer_patience: Duration,
    ) -> io::Result<Answer> {
        let frame = Self::asked_within(dir, place, request, patience, answer_patience)?;
        let payload = frame.map(|frame| frame.payload).unwrap_or_default();
        serde_json::from_slice(&payload).map_err(io::Error::other)
    }

    fn asked_within(
        dir: &Path,
        place: String,
        request: Request,
        patience: Duration,
        answer_patience: Duration,
    ) -> io::Result<Option<Frame>> {
        let until = Instant::now() + patience;
        let mut keeper = Self::open_within(dir, place.into(), patience)?;
        // No time at all would mean all the time there is.
        let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        keeper.stream.set_write_timeout(Some(left()))?;
        keeper.set_patience(Some(left()))?;
        keeper.send(request)?;
        keeper.set_patience(Some(left().max(answer_patience)))?;
        keeper.frame()
    }

    /// Uses a stream to a keeper that this process has started. The first request on it may be as long as any other.
    pub fn over(stream: UnixStream, place: String) -> Self {
        Self::over_for(stream, place.into())
    }

    /// Uses such a stream for a caller that may be an agent.
    pub fn over_for(stream: UnixStream, asker: Asker) -> Self {
        Self { stream, asker, ahead: Vec::new(), has_asked: true }
    }

    /// Asks, and waits for the answer. News that arrives in between is dropped: watch on a
    /// connection of its own.
    pub fn ask(&mut self, request: Request) -> Result<Answer, Problem> {
        let request_kind = tracing::enabled!(tracing::Level::INFO).then(|| redact::kind(&request));
        let asked = Instant::now();
        let answer = self.answered(request);
        if let Some(request) = request_kind {
            let ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
            let answer = answer.as_ref().map_or_else(|problem| problem.what.clone(), redact::kind);
            tracing::info!(request, answer, ms, "asked the keeper");
        }
        answer
    }

    fn answered(&mut self, request: Request) -> Result<Answer, Problem> {
        self.send(request).map_err(|error| gone(&error))?;
        loop {
            match self.next().map_err(|error| gone(&error))? {
                Some(Arrival::Answer(Answer::Problem { problem })) => return Err(problem),
                Some(Arrival::Answer(answer)) => return Ok(answer),
                Some(Arrival::Output(_) | Arrival::Screen(_) | Arrival::Notice(_)) => {}
                None => return Err(gone(&io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }

    /// Sends a request without waiting for its answer. A keeper that does not know this client yet refuses a long request:
    /// before such a request this asks for the status, and waits for that answer.
    pub fn send(&mut self, request: Request) -> io::Result<()> {
        let Asker { place, agent, also } = self.asker.clone();
        let call = Call { protocol: PROTOCOL, place, agent, also, trace: trace::current(), request };
        let json = serde_json::to_vec(&call)?;
        if !self.has_asked && json.len() >= MAX_FIRST_FRAME_BYTES {
            self.introduce(call)?;
        }
        self.has_asked = true;
        frame::write(&mut self.stream, Kind::Call, &[&json])
    }

    /// Asks for the status, so that the keeper has accepted a request of this client.
    fn introduce(&mut self, call: Call) -> io::Result<()> {
        let json = serde_json::to_vec(&Call { request: Request::Status, ..call })?;
        frame::write(&mut self.stream, Kind::Call, &[&json])?;
        while let Some(arrival) = self.next()? {
            if matches!(arrival, Arrival::Answer(_)) {
                return Ok(());
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Types, as the writer with this number.
    pub fn type_keys(&mut self, fence: u64, keys: &[u8]) -> io::Result<()> {
        frame::write(&mut self.stream, Kind::Input, &[&fence.to_le_bytes(), keys])
    }

    /// Waits for the next thing; `None` when the keeper closed the connection.
    #[expect(clippy::should_implement_trait, reason = "an iterator of results would hide the end")]
    pub fn next(&mut self) -> io::Result<Option<Arrival>> {
        self.frame()?.map(Arrival::understand).transpose()
    }

    fn frame(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = frame::take(&mut self.ahead)? {
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

    /// Whether more has arrived than [`Connection::next`] gave out: then polling may wait for ever.
    pub fn has_more(&self) -> bool {
        frame::is_whole(&self.ahead)
    }

    /// Gives up waiting after this long; `None` waits for ever.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)
    }

    /// Never waits from now on: [`Connection::next`] fails with `WouldBlock` where it would.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        self.stream.set_nonblocking(true)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Arrival {
    /// What a keeper's frame says.
    pub fn understand(frame: Frame) -> io::Result<Self> {
        Ok(match frame.kind {
            Kind::Answer => Self::Answer(serde_json::from_slice(&frame.payload)?),
            Kind::Notice => Self::Notice(serde_json::from_slice(&frame.payload)?),
            Kind::Output => Self::Output(frame.payload),
            Kind::Screen => Self::Screen(frame.payload),
            Kind::Call | Kind::Input => {
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
            Problem::new(Code::Unreachable, "the keeper did not answer in time")
        }
        _ => Problem::new(Code::Unreachable, format!("the keeper went away before it answered: {error}")),
    }
    .hint("see what is known with `berth why`")
}
