//! A transcript, record by record, and what is wrong with its lines.
//!
//! Promise: every byte is looked at; no more than [`MAX_HELD_BYTES`] of the file are in memory, however long a line is.
//! Whatever is not a whole record is said to be what it is and passed over; what can be read behind it is read.
//! A file that grows meanwhile is read up to the end of the line that was its last when this began.
//! Not here: what the records mean (see `survey`). Start with [`walk`].

use std::io::{self, Read};
use std::ops::Range;

use memchr::{memchr, memmem};

use crate::head::{Head, Type};
use crate::json::{self, Bytes, Slice, Wrong};

/// The longest line that is held as a whole. A longer one is walked through in pieces.
pub(crate) const MAX_HELD_BYTES: usize = 4 << 20;
/// How much is read at a time, as long as no line is longer: about what stays close to a processor.
const CHUNK_BYTES: usize = 256 << 10;
/// How many places in a torn line are tried for the beginning of a whole record.
const MAX_TRIES: usize = 1000;
/// How many bytes are read again for that, for each byte of the line: else an odd line would take forever.
const MAX_AGAIN: usize = 8;

/// What is wrong with a piece of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// Not a whole record.
    Torn,
    /// Zeroes, as a power cut leaves them.
    Zeroes,
    /// A record, with bytes that are not UTF-8.
    NotUtf8,
    /// A record behind another on the same line.
    Fused,
    /// Nested deeper than is looked at. An agent may be able to read it.
    Deep,
}

/// Something on the way.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    Record(&'a Head),
    Flaw(Flaw),
}

/// Where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// From 1.
    pub(crate) line: u64,
    /// In the file, without the end of the line.
    pub(crate) bytes: Range<u64>,
    /// Whether the file ends behind it, without the end of a line.
    pub(crate) is_last: bool,
}

/// What was walked through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Walked {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    /// Somebody was writing meanwhile.
    pub(crate) grew: bool,
}

/// Goes through a file of `size` bytes. `begun` hears where each line begins.
pub(crate) fn walk(
    source: impl Read,
    size: u64,
    mut begun: impl FnMut(u64, u64),
    mut visit: impl FnMut(&Place, Seen<'_>),
) -> io::Result<Walked> {
    let mut walk = Walk {
        source,
        buffer: vec![0; CHUNK_BYTES],
        start: 0,
        end: 0,
        base: 0,
        is_over: false,
        error: None,
        line_end: None,
        utf8: Utf8::default(),
    };
    let mut head = Head::default();
    let mut line = 0;
    let mut searched = 0;
    while walk.base + (walk.start as u64) < size {
        match memchr(b'\n', &walk.buffer[searched.max(walk.start)..walk.end]) {
            Some(at) => {
                let end = searched.max(walk.start) + at;
                line += 1;
                let from = walk.base + walk.start as u64;
                begun(line, from);
                held(&walk.buffer[walk.start..end], line, from, false, &mut head, &mut visit);
                walk.start = end + 1;
                searched = walk.start;
            }
            None if walk.is_over => {
                if walk.start < walk.end {
                    line += 1;
                    let from = walk.base + walk.start as u64;
                    begun(line, from);
                    held(&walk.buffer[walk.start..walk.end], line, from, true, &mut head, &mut visit);
                    walk.start = walk.end;
                }
                break;
            }
            None => {
                walk.make_room();
                searched = walk.end;
                if walk.end == MAX_HELD_BYTES {
                    line += 1;
                    begun(line, walk.base);
                    long(&mut walk, line, &mut head, &mut visit);
                    searched = walk.start;
                } else {
                    walk.read_more();
                }
            }
        }
        if let Some(error) = walk.error.take() {
            return Err(error);
        }
    }
    let bytes = walk.base + walk.start as u64;
    let grew = bytes > size || !walk.is_over && walk.has_more()?;
    Ok(Walked { bytes, lines: line, grew })
}

struct Walk<R> {
    source: R,
    /// What is held is `start..end` of it; its first byte is at `base` in the file.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    base: u64,
    is_over: bool,
    error: Option<io::Error>,
    /// In a long line: where it ends, once that is known.
    line_end: Option<usize>,
    utf8: Utf8,
}

impl<R: Read> Walk<R> {
    /// Puts what is held at the beginning of the buffer, and makes that larger if it is full.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.base += self.start as u64;
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() && self.end < MAX_HELD_BYTES {
            self.buffer.resize((self.end * 2).min(MAX_HELD_BYTES), 0);
        }
    }

    fn read_more(&mut self) {
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_over = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.is_over = true;
                    self.error = Some(error);
                }
            }
            return;
        }
    }

    /// Begins to look for UTF-8 from here on.
    fn utf8_anew(&mut self) {
        self.utf8 = Utf8::default();
        self.utf8.take(&self.buffer[self.start..self.line_end.unwrap_or(self.end)]);
    }

    /// Whether there is anything behind what was read.
    fn has_more(&mut self) -> io::Result<bool> {
        if self.start < self.end {
            return Ok(true);
        }
        (self.start, self.end) = (0, 0);
        self.read_more();
        self.error.take().map_or(Ok(self.end > 0), Err)
    }
}

/// A line that is walked through in pieces.
struct Long<'a, R>(&'a mut Walk<R>);

impl<R: Read> Bytes for Long<'_, R> {
    fn window(&mut self) -> &[u8] {
        let walk = &mut *self.0;
        if walk.start == walk.end && walk.line_end.is_none() {
            walk.base += walk.end as u64;
            (walk.start, walk.end) = (0, 0);
            if !walk.is_over {
                walk.read_more();
            }
            walk.line_end = memchr(b'\n', &walk.buffer[..walk.end]);
            if walk.is_over {
                walk.line_end = Some(walk.end);
            }
            walk.utf8.take(&walk.buffer[..walk.line_end.unwrap_or(walk.end)]);
        }
        &walk.buffer[walk.start..walk.line_end.unwrap_or(walk.end)]
    }

    fn pass(&mut self, count: usize) {
        self.0.start += count;
    }

    fn offset(&self) -> u64 {
        self.0.base + self.0.start as u64
    }
}

/// A line of which the buffer has only the beginning.
fn long<R: Read>(walk: &mut Walk<R>, line: u64, head: &mut Head, visit: &mut impl FnMut(&Place, Seen<'_>)) {
    walk.line_end = None;
    walk.utf8_anew();
    let mut bytes = Long(walk);
    let mut records = 0;
    let mut is_damaged = false;
    let mut last = None;
    loop {
        let from = bytes.offset();
        let place = |to: u64, is_last| Place { line, bytes: from..to, is_last };
        match bytes.window().first() {
            None => break,
            Some(b' ' | b'\t' | b'\r') => bytes.pass(1),
            Some(0) => {
                while let Some(count) = zeroes(bytes.window()) {
                    bytes.pass(count);
                }
                visit(&place(bytes.offset(), bytes.0.is_over), Seen::Flaw(Flaw::Zeroes));
            }
            Some(first) => {
                let is_object = *first == b'{';
                head.clear();
                let mut read = if is_object { json::value(&mut bytes, head) } else { Err(Wrong::Odd) };
                if read.is_ok() {
                    head.finish();
                    // Behind damage a part of a record may look like one.
                    if is_damaged && !is_of_an_agent(head) {
                        read = Err(Wrong::Odd);
                    }
                }
                if read.is_err() {
                    // What a power cut left in the middle ends with zeroes; behind them may be a whole record.
                    while let Some(count) = before_zero(bytes.window()) {
                        bytes.pass(count);
                    }
                }
                // Whether the file ends here is known only after a look.
                let is_end = bytes.window().is_empty();
                let place = place(bytes.offset(), is_end && bytes.0.is_over);
                match read {
                    Ok(()) => {
                        records += 1;
                        if records > 1 || is_damaged {
                            visit(&place, Seen::Flaw(Flaw::Fused));
                        }
                        visit(&place, Seen::Record(head));
                        last = Some(place);
                    }
                    Err(wrong) => {
                        visit(&place, Seen::Flaw(flaw(wrong)));
                        (last, is_damaged) = (None, true);
                        // Half of a character in what is torn is nobody's fault behind it.
                        bytes.0.utf8_anew();
                    }
                }
            }
        }
    }
    // Known only now, behind any spaces at the end.
    if let Some(last) = last.filter(|_| !walk.utf8.is_whole()) {
        visit(&last, Seen::Flaw(Flaw::NotUtf8));
    }
    // Past the end of the line, unless the file ended.
    if walk.start < walk.end {
        walk.start += 1;
    }
}

/// How many zeroes are at the beginning; `None` if none are.
fn zeroes(bytes: &[u8]) -> Option<usize> {
    let count = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    (count > 0).then_some(count)
}

/// How many bytes are before the first zero; `None` if that is the first, or nothing is there.
fn before_zero(bytes: &[u8]) -> Option<usize> {
    let count = memchr(0, bytes).unwrap_or(bytes.len());
    (count > 0).then_some(count)
}

fn flaw(wrong: Wrong) -> Flaw {
    match wrong {
        Wrong::Ended | Wrong::Odd => Flaw::Torn,
        Wrong::Deep => Flaw::Deep,
    }
}

/// A line that is all there.
fn held(
    bytes: &[u8],
    line: u64,
    from: u64,
    is_last: bool,
    head: &mut Head,
    visit: &mut impl FnMut(&Place, Seen<'_>),
) {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if let Ok(length) = record(bytes, from, head).0
        && bytes[length..].iter().all(u8::is_ascii_whitespace)
    {
        let place = Place { line, bytes: from..from + length as u64, is_last };
        if std::str::from_utf8(bytes).is_err() {
            visit(&place, Seen::Flaw(Flaw::NotUtf8));
        }
        visit(&place, Seen::Record(head));
    } else if !bytes.iter().all(u8::is_ascii_whitespace) {
        pieces(bytes, line, from, is_last, head, visit);
    }
}

/// Reads one record; how long it is, and how much was read to find that out.
fn record(bytes: &[u8], from: u64, head: &mut Head) -> (Result<usize, Wrong>, usize) {
    if bytes.first() != Some(&b'{') {
        return (Err(Wrong::Odd), 0);
    }
    head.clear();
    let mut slice = Slice::new(bytes, from);
    let value = json::value(&mut slice, head);
    let length = (slice.offset() - from) as usize;
    if value.is_ok() {
        head.finish();
    }
    (value.map(|()| length), length)
}

/// A line that is not one record: what is in it.
#[cold]
fn pieces(
    bytes: &[u8],
    line: u64,
    from: u64,
    is_last: bool,
    head: &mut Head,
    visit: &mut impl FnMut(&Place, Seen<'_>),
) {
    let mut again = bytes.len() * MAX_AGAIN;
    let mut at = 0;
    let mut records = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let place = |length: usize| {
            let begin = from + at as u64;
            let is_last = is_last && at + length == bytes.len();
            Place { line, bytes: begin..begin + length as u64, is_last }
        };
        if rest[0].is_ascii_whitespace() {
            at += 1;
        } else if let Some(count) = zeroes(rest) {
            visit(&place(count), Seen::Flaw(Flaw::Zeroes));
            at += count;
        } else {
            match record(rest, from + at as u64, head).0 {
                Ok(length) => {
                    records += 1;
                    if records > 1 {
                        visit(&place(length), Seen::Flaw(Flaw::Fused));
                    }
                    if std::str::from_utf8(&rest[..length]).is_err() {
                        visit(&place(length), Seen::Flaw(Flaw::NotUtf8));
                    }
                    visit(&place(length), Seen::Record(head));
                    at += length;
                }
                Err(wrong) => {
                    let next = next_record(rest, &mut again, head);
                    let mut end = next.unwrap_or(rest.len());
                    // Zeroes at its end are a matter of their own.
                    while end > 1 && rest[end - 1] == 0 {
                        end -= 1;
                    }
                    visit(&place(end), Seen::Flaw(flaw(wrong)));
                    records += usize::from(next.is_some());
                    at += end;
                }
            }
        }
    }
}

/// Where in a torn line a whole record begins: it must look like one of an agent's, not like a part of one. `again` is
/// how much may still be read to find it.
fn next_record(bytes: &[u8], again: &mut usize, head: &mut Head) -> Option<usize> {
    for at in memmem::find_iter(&bytes[1..], b"{\"").take(MAX_TRIES).map(|at| at + 1) {
        let (found, read) = record(&bytes[at..], 0, head);
        if found.is_ok() && is_of_an_agent(head) {
            return Some(at);
        }
        *again = again.checked_sub(read + 1)?;
    }
    None
}

fn is_of_an_agent(head: &Head) -> bool {
    let is_claude = head.kind != Type::None && head.session.is_some();
    is_claude || head.has_payload && head.has_timestamp && head.kind != Type::None
}

/// Whether bytes that come in pieces are UTF-8.
#[derive(Clone, Debug, Default)]
struct Utf8 {
    is_bad: bool,
    /// The beginning of a character whose end is in the next piece.
    begun: Vec<u8>,
}

impl Utf8 {
    fn take(&mut self, piece: &[u8]) {
        if self.is_bad {
            return;
        }
        let mut piece = piece;
        while !self.begun.is_empty() && !piece.is_empty() {
            self.begun.push(piece[0]);
            piece = &piece[1..];
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => {
                    self.is_bad = true;
                    return;
                }
            }
        }
        match std::str::from_utf8(piece) {
            Ok(_) => {}
            Err(error) if error.error_len().is_none() => {
                self.begun.extend_from_slice(&piece[error.valid_up_to()..]);
            }
            Err(_) => self.is_bad = true,
        }
    }

    fn is_whole(&self) -> bool {
        !self.is_bad && self.begun.is_empty()
    }
}

#[cfg(test)]
mod tests;
