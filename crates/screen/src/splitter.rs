//! Splitter of a terminal stream, at places where it may be cut.
//!
//! Promise: what [`StreamSplitter::push`] lets through, put together, is the stream, byte for byte; and
//! unless [`StreamSplitter::is_inside_sequence`] says otherwise it ends where no escape sequence and no UTF-8 character is
//! half done. Invalid bytes are never held back, and at most [`HELD_LIMIT_BYTES`] of anything are.
//! Not here: the meaning of a sequence.
//! Start with [`StreamSplitter::push`].

use std::borrow::Cow;
use std::mem;

use memchr::{memchr, memchr3};

/// Size limit of a sequence that is held back; the pieces of a longer one pass as they come. Only pictures and
/// clipboard contents are longer.
pub const HELD_LIMIT_BYTES: usize = 64 * 1024;

pub(crate) const BEL: u8 = 0x07;
pub(crate) const CAN: u8 = 0x18;
pub(crate) const SUB: u8 = 0x1a;
pub(crate) const ESC: u8 = 0x1b;

/// Cuts a stream so that no piece tears an escape sequence or a character.
///
/// The common piece (plain text, or whole sequences) is borrowed from the input and costs one search
/// for ESC.
#[derive(Debug)]
pub struct StreamSplitter {
    state: ParserState,
    /// The beginning of a sequence, or up to three bytes of a character when `state` is ground.
    held: Vec<u8>,
    limit_bytes: usize,
    excess: ExcessPolicy,
    /// The sequence we are in grew past the limit, so its bytes are no longer held.
    overlong: bool,
}

/// Treatment of a sequence that is longer than the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExcessPolicy {
    /// The bytes pass as they come, torn.
    Passes,
    /// The sequence is dropped up to its end. The emulator needs this: it would collect such bytes without limit and
    /// then ignore them.
    Vanishes,
}

impl Default for StreamSplitter {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamSplitter {
    /// A splitter at the start of a stream.
    pub fn new() -> Self {
        Self::with(HELD_LIMIT_BYTES, ExcessPolicy::Passes)
    }

    /// A splitter that leaves out sequences longer than `limit_bytes`, so it is never torn.
    pub(crate) fn dropping(limit_bytes: usize) -> Self {
        Self::with(limit_bytes, ExcessPolicy::Vanishes)
    }

    fn with(limit_bytes: usize, excess: ExcessPolicy) -> Self {
        StreamSplitter { state: ParserState::Ground, held: Vec::new(), limit_bytes, excess, overlong: false }
    }

    /// Takes the next bytes of the stream and returns the bytes held back before plus the new ones, up to the
    /// last place where the stream may be cut. The rest is held back for the next call.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.state == ParserState::Ground {
            if self.held.is_empty() {
                return self.push_from_ground(bytes, 0);
            }
            // Half a character: at most three bytes, so joining first costs nothing worth saving.
            let mut joined = mem::take(&mut self.held);
            joined.extend_from_slice(bytes);
            return Cow::Owned(self.push_from_ground(&joined, 0).into_owned());
        }
        let Some(end) = self.state.sequence_end(bytes) else { return self.push_inside(bytes) };
        let overlong = mem::take(&mut self.overlong);
        match (overlong, self.excess) {
            (true, ExcessPolicy::Passes) => self.push_from_ground(bytes, end),
            (true, ExcessPolicy::Vanishes) => self.push_from_ground(&bytes[end..], 0),
            (false, _) => {
                let mut whole = mem::take(&mut self.held);
                whole.extend_from_slice(&self.push_from_ground(bytes, end));
                Cow::Owned(whole)
            }
        }
    }

    /// True if the last byte that was let through lies inside a sequence that is too long to hold.
    pub fn is_inside_sequence(&self) -> bool {
        self.overlong && self.excess == ExcessPolicy::Passes
    }

    /// Ends the stream: returns the bytes held back, complete or not.
    pub fn flush(&mut self) -> Vec<u8> {
        self.state = ParserState::Ground;
        self.overlong = false;
        mem::take(&mut self.held)
    }

    /// `bytes[from..]` starts in ground state; earlier bytes pass without being parsed.
    fn push_from_ground<'a>(&mut self, bytes: &'a [u8], from: usize) -> Cow<'a, [u8]> {
        let mut at = from;
        let safe_end = loop {
            let Some(found) = memchr(ESC, &bytes[at..]) else {
                break bytes.len() - incomplete_utf8_bytes(&bytes[at..]);
            };
            let start = at + found;
            self.state = ParserState::Escape;
            match self.state.sequence_end(&bytes[start + 1..]) {
                Some(length) => at = start + 1 + length,
                None => break start,
            }
        };
        let (safe, rest) = bytes.split_at(safe_end);
        if rest.len() <= self.limit_bytes {
            self.held.extend_from_slice(rest);
            return Cow::Borrowed(safe);
        }
        self.overlong = true;
        match self.excess {
            ExcessPolicy::Passes => Cow::Borrowed(bytes),
            ExcessPolicy::Vanishes => Cow::Borrowed(safe),
        }
    }

    /// All of `bytes` belongs to the sequence we are in, which goes on.
    fn push_inside<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.overlong && self.held.len() + bytes.len() <= self.limit_bytes {
            self.held.extend_from_slice(bytes);
            return Cow::Borrowed(&[]);
        }
        let first = !mem::replace(&mut self.overlong, true);
        let mut held = mem::take(&mut self.held);
        match self.excess {
            ExcessPolicy::Vanishes => Cow::Borrowed(&[]),
            ExcessPolicy::Passes if first => {
                held.extend_from_slice(bytes);
                Cow::Owned(held)
            }
            ExcessPolicy::Passes => Cow::Borrowed(bytes),
        }
    }
}

/// Position in the grammar of ECMA-48: as much as is needed to find the end of a sequence. The transitions are those of
/// the parser inside the emulator, except that a raw byte 0x9c does not end a string: it may be part of a UTF-8
/// character, and terminals treat it so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParserState {
    Ground,
    Escape,
    /// After `ESC` and intermediate bytes, as in `ESC ( B`.
    Intermediate,
    Csi,
    Osc,
    /// DCS, SOS, PM or APC: everything up to the string terminator.
    Text,
}

impl ParserState {
    fn next(self, byte: u8) -> ParserState {
        match (self, byte) {
            (_, CAN | SUB) => ParserState::Ground,
            (_, ESC) => ParserState::Escape,
            (ParserState::Escape, b'[') => ParserState::Csi,
            (ParserState::Escape, b']') => ParserState::Osc,
            (ParserState::Escape, b'P' | b'X' | b'^' | b'_') => ParserState::Text,
            (ParserState::Escape, 0x20..=0x2f) => ParserState::Intermediate,
            (ParserState::Escape | ParserState::Intermediate, 0x30..=0x7e) => ParserState::Ground,
            (ParserState::Csi, 0x40..=0x7e) => ParserState::Ground,
            (ParserState::Osc, BEL) => ParserState::Ground,
            (same, _) => same,
        }
    }

    /// Walks from inside a sequence to its end. Returns how many bytes belong to it, or `None` if it
    /// goes on after `bytes`. An ESC inside starts a new sequence at once, so both count as one.
    pub(crate) fn sequence_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            // Both jumps only save work: the bytes they pass over change nothing.
            match self {
                ParserState::Text => at += memchr3(ESC, CAN, SUB, &bytes[at..])?,
                ParserState::Csi => at += bytes[at..].iter().position(|byte| !matches!(byte, 0x20..0x40))?,
                ParserState::Ground | ParserState::Escape | ParserState::Intermediate | ParserState::Osc => {}
            }
            *self = self.next(bytes[at]);
            at += 1;
            if *self == ParserState::Ground {
                return Some(at);
            }
        }
        None
    }
}

/// Number of bytes at the end that are the beginning of a character.
pub(crate) fn incomplete_utf8_bytes(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let Some(lead) = tail.iter().rposition(|&byte| byte >= 0xc0) else { return 0 };
    match std::str::from_utf8(&tail[lead..]) {
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => tail.len() - lead,
        Ok(_) | Err(_) => 0,
    }
}
