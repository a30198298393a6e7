//! Where a terminal stream may be cut.
//!
//! Promise: what [`Splitter::push`] lets through, put together, is the stream, byte for byte; and
//! unless [`Splitter::torn`] says otherwise it ends where no escape sequence and no UTF-8 character is
//! half done. Invalid bytes are never held back, and at most [`HELD_LIMIT_BYTES`] of anything are.
//! Not here: what a sequence means.
//! Start with [`Splitter::push`].

use std::borrow::Cow;
use std::mem;

use memchr::{memchr, memchr3};

/// How long a sequence may be before its pieces are let through as they come. Only pictures and
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
pub struct Splitter {
    state: State,
    /// The beginning of a sequence, or up to three bytes of a character when `state` is ground.
    held: Vec<u8>,
    limit_bytes: usize,
    excess: Excess,
    /// The sequence we are in grew past the limit, so its bytes are no longer held.
    overlong: bool,
}

/// What becomes of a sequence that is longer than the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Excess {
    /// Its bytes pass as they come, torn.
    Passes,
    /// It vanishes up to its end. The emulator wants this: it could only collect such bytes without
    /// limit and then ignore them.
    Vanishes,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new()
    }
}

impl Splitter {
    /// A splitter at the start of a stream.
    pub fn new() -> Self {
        Self::with(HELD_LIMIT_BYTES, Excess::Passes)
    }

    /// A splitter that leaves out sequences longer than `limit_bytes`, so it is never torn.
    pub(crate) fn dropping(limit_bytes: usize) -> Self {
        Self::with(limit_bytes, Excess::Vanishes)
    }

    fn with(limit_bytes: usize, excess: Excess) -> Self {
        Splitter { state: State::Ground, held: Vec::new(), limit_bytes, excess, overlong: false }
    }

    /// Takes the next bytes of the stream and returns what was held back plus the new bytes, up to the
    /// last place where the stream may be cut. The rest is held back for the next call.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.state == State::Ground {
            if self.held.is_empty() {
                return self.push_from_ground(bytes, 0);
            }
            // Half a character: at most three bytes, so joining first costs nothing worth saving.
            let mut joined = mem::take(&mut self.held);
            joined.extend_from_slice(bytes);
            return Cow::Owned(self.push_from_ground(&joined, 0).into_owned());
        }
        let Some(end) = self.state.past_sequence(bytes) else { return self.push_inside(bytes) };
        let overlong = mem::take(&mut self.overlong);
        match (overlong, self.excess) {
            (true, Excess::Passes) => self.push_from_ground(bytes, end),
            (true, Excess::Vanishes) => self.push_from_ground(&bytes[end..], 0),
            (false, _) => {
                let mut whole = mem::take(&mut self.held);
                whole.extend_from_slice(&self.push_from_ground(bytes, end));
                Cow::Owned(whole)
            }
        }
    }

    /// True if the last byte that was let through lies inside a sequence that is too long to hold.
    pub fn torn(&self) -> bool {
        self.overlong && self.excess == Excess::Passes
    }

    /// Ends the stream: returns what is held back, complete or not.
    pub fn flush(&mut self) -> Vec<u8> {
        self.state = State::Ground;
        self.overlong = false;
        mem::take(&mut self.held)
    }

    /// `bytes[from..]` starts in ground state; what comes before passes unseen.
    fn push_from_ground<'a>(&mut self, bytes: &'a [u8], from: usize) -> Cow<'a, [u8]> {
        let mut at = from;
        let safe_end = loop {
            let Some(found) = memchr(ESC, &bytes[at..]) else {
                break bytes.len() - half_character(&bytes[at..]);
            };
            let start = at + found;
            self.state = State::Escape;
            match self.state.past_sequence(&bytes[start + 1..]) {
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
            Excess::Passes => Cow::Borrowed(bytes),
            Excess::Vanishes => Cow::Borrowed(safe),
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
            Excess::Vanishes => Cow::Borrowed(&[]),
            Excess::Passes if first => {
                held.extend_from_slice(bytes);
                Cow::Owned(held)
            }
            Excess::Passes => Cow::Borrowed(bytes),
        }
    }
}

/// Where in the grammar of ECMA-48 a stream stands: as much as is needed to find the end of a
/// sequence. The transitions are those of the parser inside the emulator, except that a raw byte 0x9c
/// does not end a string: it may be part of a UTF-8 character, and terminals treat it so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Ground,
    Escape,
    /// After `ESC` and intermediate bytes, as in `ESC ( B`.
    Intermediate,
    Csi,
    Osc,
    /// DCS, SOS, PM or APC: everything up to the string terminator.
    Text,
}

impl State {
    fn next(self, byte: u8) -> State {
        match (self, byte) {
            (_, CAN | SUB) => State::Ground,
            (_, ESC) => State::Escape,
            (State::Escape, b'[') => State::Csi,
            (State::Escape, b']') => State::Osc,
            (State::Escape, b'P' | b'X' | b'^' | b'_') => State::Text,
            (State::Escape, 0x20..=0x2f) => State::Intermediate,
            (State::Escape | State::Intermediate, 0x30..=0x7e) => State::Ground,
            (State::Csi, 0x40..=0x7e) => State::Ground,
            (State::Osc, BEL) => State::Ground,
            (same, _) => same,
        }
    }

    /// Walks from inside a sequence to its end. Returns how many bytes belong to it, or `None` if it
    /// goes on after `bytes`. An ESC inside starts a new sequence at once, so both count as one.
    pub(crate) fn past_sequence(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            // Both jumps only save work: the bytes they pass over change nothing.
            match self {
                State::Text => at += memchr3(ESC, CAN, SUB, &bytes[at..])?,
                State::Csi => at += bytes[at..].iter().position(|byte| !matches!(byte, 0x20..0x40))?,
                State::Ground | State::Escape | State::Intermediate | State::Osc => {}
            }
            *self = self.next(bytes[at]);
            at += 1;
            if *self == State::Ground {
                return Some(at);
            }
        }
        None
    }
}

/// How many bytes at the end are the beginning of a character that may still become whole.
pub(crate) fn half_character(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let Some(lead) = tail.iter().rposition(|&byte| byte >= 0xc0) else { return 0 };
    match std::str::from_utf8(&tail[lead..]) {
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => tail.len() - lead,
        Ok(_) | Err(_) => 0,
    }
}
