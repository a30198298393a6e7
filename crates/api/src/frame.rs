//! Frames on a keeper's socket: a length, a kind, bytes.
//!
//! ```text
//! u32 little-endian: bytes that follow    u8: kind    payload
//! ```
//! JSON for everything that is said, plain bytes for everything that is typed or shown, so that
//! terminal traffic is never escaped or copied through a parser.

use std::io::{self, Read, Write};

/// The largest frame, kind included. A longer one ends the connection.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;
/// The largest frame, kind included, that a keeper takes from a client before it has accepted a request of that client.
/// A client with a longer first request asks for the status first.
pub const MAX_FIRST_FRAME_BYTES: usize = 64 * 1024;
const HEADER_BYTES: usize = 5;

/// What a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Client: a [`crate::Call`].
    Call,
    /// Client: 8 bytes of fence, then keys for the agent.
    Input,
    /// Keeper: the [`crate::Answer`] or [`crate::Problem`] to a call.
    Answer,
    /// Keeper: terminal output, cut where no sequence is torn.
    Output,
    /// Keeper: paint everything anew, forget what was shown.
    Screen,
    /// Keeper: a [`crate::Notice`].
    Notice,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Call => b'c',
            Self::Input => b'i',
            Self::Answer => b'a',
            Self::Output => b'o',
            Self::Screen => b's',
            Self::Notice => b'n',
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'c' => Self::Call,
            b'i' => Self::Input,
            b'a' => Self::Answer,
            b'o' => Self::Output,
            b's' => Self::Screen,
            b'n' => Self::Notice,
            _ => return None,
        })
    }
}

/// One frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What it carries.
    pub kind: Kind,
    /// The bytes.
    pub payload: Vec<u8>,
}

/// Lays a frame out; the payload may come in pieces.
pub fn encode(kind: Kind, pieces: &[&[u8]]) -> Vec<u8> {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + length);
    let announced = u32::try_from(length + 1).expect("frames are made from bounded buffers");
    bytes.extend_from_slice(&announced.to_le_bytes());
    bytes.push(kind.byte());
    for piece in pieces {
        bytes.extend_from_slice(piece);
    }
    bytes
}

/// Takes the first whole frame off the front of `buffer`, if it is there.
pub fn take(buffer: &mut Vec<u8>) -> io::Result<Option<Frame>> {
    take_within(buffer, MAX_FRAME_BYTES)
}

/// Takes the first whole frame off the front of `buffer`, if it is there. A frame that announces more than `limit` bytes is
/// an error, before it has arrived.
pub fn take_within(buffer: &mut Vec<u8>, limit: usize) -> io::Result<Option<Frame>> {
    let Some(header) = buffer.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let (length, kind) = parse_header(*header)?;
    if length > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    let payload = buffer[HEADER_BYTES..4 + length].to_vec();
    buffer.drain(..4 + length);
    Ok(Some(Frame { kind, payload }))
}

/// Whether [`take`] would find something: a frame, or a reason to complain.
pub fn is_whole(buffer: &[u8]) -> bool {
    match buffer.first_chunk::<HEADER_BYTES>() {
        Some(header) => parse_header(*header).map_or(true, |(length, _)| buffer.len() >= 4 + length),
        None => false,
    }
}

/// Reads one frame; `None` at a clean end.
pub fn read(stream: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut header = [0; HEADER_BYTES];
    match stream.read(&mut header)? {
        0 => return Ok(None),
        got => stream.read_exact(&mut header[got..])?,
    }
    let (length, kind) = parse_header(header)?;
    let mut payload = vec![0; length - 1];
    stream.read_exact(&mut payload)?;
    Ok(Some(Frame { kind, payload }))
}

/// Writes one frame.
pub fn write(stream: &mut impl Write, kind: Kind, pieces: &[&[u8]]) -> io::Result<()> {
    stream.write_all(&encode(kind, pieces))
}

fn parse_header(header: [u8; HEADER_BYTES]) -> io::Result<(usize, Kind)> {
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if length == 0 || length > MAX_FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    let kind = Kind::from_byte(header[4]).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("a frame of unknown kind {:#04x}", header[4]))
    })?;
    Ok((length, kind))
}
