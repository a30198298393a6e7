//! Frames on a keeper's socket: a length, a kind, bytes.
//!
//! The layout of a frame:
//!
//! ```text
//! u32 little-endian: bytes that follow    u8: kind    payload
//! ```
//! Messages are JSON; keys and terminal output are plain bytes, so that terminal traffic is never escaped or copied
//! through a parser.
//!
//! Start with [`take_frame`] and [`encode_frame`].

use std::io::{self, Read, Write};

/// Size limit of a frame, kind included, in bytes. A longer one ends the connection.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;
/// Size limit of the first frame of a client, kind included, in bytes: it holds until the keeper has accepted a
/// request of that client. A client with a longer first request asks for the status first.
pub const MAX_FIRST_FRAME_BYTES: usize = 64 * 1024;
const HEADER_BYTES: usize = 5;

/// Kind of a frame's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// Client: a [`crate::KeeperCall`].
    Call,
    /// Client: 8 bytes of fence, then keys for the agent.
    Input,
    /// Keeper: the [`crate::KeeperAnswer`] or [`crate::Problem`] to a call.
    Answer,
    /// Keeper: terminal output, cut only between escape sequences.
    Output,
    /// Keeper: a whole screen to paint; the client forgets what it showed before.
    Screen,
    /// Keeper: a [`crate::KeeperNotice`].
    Notice,
}

impl FrameKind {
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

/// A frame that was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedFrame {
    /// Kind of the payload.
    pub kind: FrameKind,
    /// Payload of the frame.
    pub payload: Vec<u8>,
}

/// Encodes a frame; the payload may come in pieces.
pub fn encode_frame(kind: FrameKind, pieces: &[&[u8]]) -> Vec<u8> {
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
pub fn take_frame(buffer: &mut Vec<u8>) -> io::Result<Option<ReceivedFrame>> {
    take_frame_within(buffer, MAX_FRAME_BYTES)
}

/// Takes the first whole frame off the front of `buffer`, if it is there. A frame whose header announces more than
/// `limit` bytes is an error at once.
pub fn take_frame_within(buffer: &mut Vec<u8>, limit: usize) -> io::Result<Option<ReceivedFrame>> {
    let Some(header) = buffer.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let (length, kind) = parse_header(*header)?;
    if length > limit {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("cannot read a frame of {length} bytes: the limit is {limit}"),
        ));
    }
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    let payload = buffer[HEADER_BYTES..4 + length].to_vec();
    buffer.drain(..4 + length);
    Ok(Some(ReceivedFrame { kind, payload }))
}

/// True if [`take_frame`] would return a frame or an error.
pub fn has_whole_frame(buffer: &[u8]) -> bool {
    match buffer.first_chunk::<HEADER_BYTES>() {
        Some(header) => parse_header(*header).map_or(true, |(length, _)| buffer.len() >= 4 + length),
        None => false,
    }
}

/// Reads one frame; `None` at a clean end.
pub fn read_frame(stream: &mut impl Read) -> io::Result<Option<ReceivedFrame>> {
    let mut header = [0; HEADER_BYTES];
    match stream.read(&mut header)? {
        0 => return Ok(None),
        got => stream.read_exact(&mut header[got..])?,
    }
    let (length, kind) = parse_header(header)?;
    let mut payload = vec![0; length - 1];
    stream.read_exact(&mut payload)?;
    Ok(Some(ReceivedFrame { kind, payload }))
}

/// Writes one frame.
pub fn write_frame(stream: &mut impl Write, kind: FrameKind, pieces: &[&[u8]]) -> io::Result<()> {
    stream.write_all(&encode_frame(kind, pieces))
}

fn parse_header(header: [u8; HEADER_BYTES]) -> io::Result<(usize, FrameKind)> {
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if length == 0 || length > MAX_FRAME_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("cannot read a frame of {length} bytes: the limit is {MAX_FRAME_BYTES}"),
        ));
    }
    let kind = FrameKind::from_byte(header[4]).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("cannot read a frame of unknown kind {:#04x}", header[4]),
        )
    })?;
    Ok((length, kind))
}
