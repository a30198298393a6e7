//! A minimal D-Bus client: enough to call a method, to read the answer, and to receive a signal.
//!
//! Promise: nothing here waits past the deadline it was given, and no message is larger than a limit.
//! Received bytes are checked: a broken message is an error, never a panic.
//! Not here: the services and methods to call (see [`crate::systemd`]); big-endian hosts; passing descriptors.
//! Start with [`DbusConnection::open`] and [`DbusConnection::call`].

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The largest message that is read. What systemd says about a unit takes 1 to 2 KiB.
const MESSAGE_LIMIT: usize = 1 << 20;
/// The longest line of the greeting.
const LINE_LIMIT: u64 = 1024;

const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;
const SIGNAL: u8 = 4;

/// A connection on which one side calls and the other one answers.
pub(crate) struct DbusConnection {
    stream: BufReader<DeadlineStream>,
    last_serial: u32,
}

/// A method call: its target and its arguments.
pub(crate) struct DbusMethod<'a> {
    /// The bus name of the service that answers.
    pub(crate) destination: &'a str,
    /// The path of the object.
    pub(crate) path: &'a str,
    pub(crate) interface: &'a str,
    pub(crate) member: &'a str,
    /// The type signature of `arguments`.
    pub(crate) signature: &'a str,
    pub(crate) arguments: DbusWriter,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DbusCallError {
    /// The other side answered with an error.
    #[error("{0}")]
    Refused(String),
    /// The call could not be sent, or no valid answer was read.
    #[error("{}", crate::reason(.0))]
    Io(#[from] io::Error),
}

impl DbusConnection {
    /// Authenticates as our own user, and waits until the other side agrees.
    pub(crate) fn open(stream: UnixStream, until: Instant) -> io::Result<Self> {
        let mut stream = BufReader::new(DeadlineStream { stream, until });
        // No name is given: the kernel tells the other side who we are.
        stream.get_mut().write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")?;
        loop {
            let mut line = String::new();
            (&mut stream).take(LINE_LIMIT).read_line(&mut line)?;
            match line.split_whitespace().next() {
                Some("DATA") => {}
                Some("OK") => return Ok(Self { stream, last_serial: 0 }),
                _ => {
                    return Err(io::Error::other(format!(
                        "the bus rejected the connection: {:?}",
                        line.trim()
                    )));
                }
            }
        }
    }

    /// Calls a method and waits for its answer. Signals that arrive before it are dropped.
    pub(crate) fn call(&mut self, method: &DbusMethod<'_>) -> Result<DbusMessage, DbusCallError> {
        self.last_serial += 1;
        self.stream.get_mut().write_all(&method.encode(self.last_serial))?;
        loop {
            let message = self.next()?;
            match message.kind {
                METHOD_RETURN if message.answers == Some(self.last_serial) => return Ok(message),
                ERROR if message.answers == Some(self.last_serial) => {
                    let text = message.arguments().text().unwrap_or("the bus gave no reason").to_owned();
                    return Err(DbusCallError::Refused(text));
                }
                _ => {}
            }
        }
    }

    /// Waits for a signal called `member`.
    pub(crate) fn signal(&mut self, member: &str) -> io::Result<DbusMessage> {
        loop {
            let message = self.next()?;
            if message.kind == SIGNAL && message.member.as_deref() == Some(member) {
                return Ok(message);
            }
        }
    }

    fn next(&mut self) -> io::Result<DbusMessage> {
        let mut start = [0; 16];
        self.stream.read_exact(&mut start)?;
        let number = |at: usize| DbusReader { bytes: &start, at }.number().unwrap_or_default() as usize;
        let (body, fields) = (number(4), number(12));
        if start[0] != b'l' || start[3] != 1 || body.max(fields) > MESSAGE_LIMIT {
            return Err(io::Error::other("the bus sent an unreadable message"));
        }
        let mut rest = vec![0; fields.next_multiple_of(8) + body];
        self.stream.read_exact(&mut rest)?;
        DbusMessage::decode(start[1], rest, fields)
            .ok_or_else(|| io::Error::other("the bus sent a broken message"))
    }
}

/// A message that arrived.
#[derive(Debug)]
pub(crate) struct DbusMessage {
    kind: u8,
    answers: Option<u32>,
    member: Option<String>,
    body: Vec<u8>,
}

impl DbusMessage {
    /// `rest` is what follows the first 16 bytes: `fields` bytes of fields, and after a gap the arguments.
    fn decode(kind: u8, mut rest: Vec<u8>, fields: usize) -> Option<Self> {
        let mut message = Self { kind, answers: None, member: None, body: Vec::new() };
        let mut reader = DbusReader { bytes: rest.get(..fields)?, at: 0 };
        loop {
            reader.align(8);
            let Some(field) = reader.byte() else { break };
            match (field, reader.signature()?) {
                (5, "u") => message.answers = Some(reader.number()?),
                (3, "s") => message.member = Some(reader.text()?.to_owned()),
                (_, "u") => drop(reader.number()?),
                (_, "s" | "o") => drop(reader.text()?),
                (_, "g") => drop(reader.signature()?),
                _ => return None,
            }
        }
        message.body = rest.split_off(fields.next_multiple_of(8));
        Some(message)
    }

    /// The arguments of the message, from the first one on.
    pub(crate) fn arguments(&self) -> DbusReader<'_> {
        DbusReader { bytes: &self.body, at: 0 }
    }
}

impl DbusMethod<'_> {
    fn encode(&self, serial: u32) -> Vec<u8> {
        let mut message = DbusWriter::default();
        message.0.extend([b'l', METHOD_CALL, 0, 1]);
        message.number(self.arguments.0.len() as u32).number(serial);
        message.array(8, |mut fields| {
            let named = [(1, "o", self.path), (3, "s", self.member), (2, "s", self.interface)];
            for (field, kind, text) in named.into_iter().chain([(6, "s", self.destination)]) {
                fields = fields.align(8).byte(field).signature(kind).text(text);
            }
            match self.signature {
                "" => fields,
                signature => fields.align(8).byte(8).signature("g").signature(signature),
            }
        });
        message.align(8).0.extend(&self.arguments.0);
        message.0
    }
}

/// Serialises values one after the other, each aligned for its type.
#[derive(Default)]
pub(crate) struct DbusWriter(Vec<u8>);

impl DbusWriter {
    fn align(&mut self, to: usize) -> &mut Self {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
        self
    }

    fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn number(&mut self, value: u32) -> &mut Self {
        self.align(4).0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.number(value.len() as u32).0.extend(value.bytes().chain([0]));
        self
    }

    fn signature(&mut self, value: &str) -> &mut Self {
        self.byte(value.len() as u8).0.extend(value.bytes().chain([0]));
        self
    }

    /// An array of items that are aligned to `to` bytes.
    pub(crate) fn array(&mut self, to: usize, items: impl FnOnce(&mut Self) -> &mut Self) -> &mut Self {
        let at = self.number(0).0.len();
        let start = self.align(to).0.len();
        items(self);
        let size = (self.0.len() - start) as u32;
        self.0[at - 4..at].copy_from_slice(&size.to_le_bytes());
        self
    }

    /// One `(sv)`: a name, and a value that says its own type.
    pub(crate) fn property(
        &mut self,
        name: &str,
        signature: &str,
        value: impl FnOnce(&mut Self) -> &mut Self,
    ) -> &mut Self {
        value(self.align(8).text(name).signature(signature))
    }
}

/// Parses values one after the other; `None` at the end, or where the bytes are not valid.
pub(crate) struct DbusReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> DbusReader<'a> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn number(&mut self) -> Option<u32> {
        self.align(4);
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let size = self.number()? as usize;
        let text = str::from_utf8(self.take(size)?).ok()?;
        self.byte().filter(|end| *end == 0).map(|_| text)
    }

    pub(crate) fn signature(&mut self) -> Option<&'a str> {
        let size = self.byte()?.into();
        let text = str::from_utf8(self.take(size)?).ok()?;
        self.byte().filter(|end| *end == 0).map(|_| text)
    }
}

/// A stream whose reads and writes time out at a fixed point in time.
struct DeadlineStream {
    stream: UnixStream,
    until: Instant,
}

impl DeadlineStream {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(too_late()) } else { Ok(Some(left)) }
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer).map_err(in_words)
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes).map_err(in_words)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Maps the kernel's `resource temporarily unavailable`, which means a timeout here.
fn in_words(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { too_late() } else { error }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}
