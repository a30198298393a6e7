//! Reads a transcript record by record, and finds flaws of its lines.
//!
//! Promise: every byte is examined; at most [`MAX_HELD_BYTES`] of the file are in memory, however long a line is. Bytes
//! that are not a whole record are reported with the kind of the flaw and skipped; readable records after them are
//! read. A file that grows meanwhile is read up to the end of the line that was its last one at the beginning.
//! Not here: the meaning of the records (see `survey`). Start with [`scan_records`].

use std::io::{self, Read};
use std::ops::Range;

use memchr::{memchr, memmem};

use crate::json::{self, ByteSource, JsonError, SliceSource};
use crate::record_summary::{RecordSummary, RecordType};

/// Limit for a line in memory. A longer one is read in pieces.
pub(crate) const MAX_HELD_BYTES: usize = 4 << 20;
/// Size of one read, if no line is longer: about what fits into a processor's cache.
const CHUNK_BYTES: usize = 256 << 10;
/// Limit for places in a torn line that are tried as the beginning of a whole record.
const MAX_TRIES: usize = 1000;
/// Limit for bytes that are read again for that, for each byte of the line: else an odd line would take forever.
const MAX_AGAIN: usize = 8;

/// Flaw of a piece of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TranscriptFlaw {
    /// The bytes are not a whole record.
    Torn,
    /// Zeroes, as a power cut leaves them.
    Zeroes,
    /// A record, with bytes that are not UTF-8.
    NotUtf8,
    /// A record behind another on the same line.
    Fused,
    /// A record that is nested too deep to be examined. An agent may be able to read it.
    Deep,
}

/// One report of [`scan_records`].
#[derive(Debug)]
pub(crate) enum ScannedItem<'a> {
    Record(&'a RecordSummary),
    Flaw(TranscriptFlaw),
}

/// Place of a record or a flaw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LinePosition {
    /// Line number, from 1.
    pub(crate) line: u64,
    /// Offsets in the file, without the line end.
    pub(crate) bytes: Range<u64>,
    /// True if the file ends after it, without a line end.
    pub(crate) is_last: bool,
}

/// Result of [`scan_records`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ScanTotals {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    /// True if a process wrote the file meanwhile.
    pub(crate) grew: bool,
}

/// Reads a file of `size` bytes. `begun` gets the offset of each line.
pub(crate) fn scan_records(
    source: impl Read,
    size: u64,
    mut begun: impl FnMut(u64, u64),
    mut visit: impl FnMut(&LinePosition, ScannedItem<'_>),
) -> io::Result<ScanTotals> {
    let mut walk = RecordScanner {
        source,
        buffer: vec![0; CHUNK_BYTES],
        start: 0,
        end: 0,
        base: 0,
        is_over: false,
        error: None,
        line_end: None,
        utf8: Utf8Checker::default(),
    };
    let mut head = RecordSummary::default();
    let mut line = 0;
    let mut searched = 0;
    while walk.base + (walk.start as u64) < size {
        match memchr(b'\n', &walk.buffer[searched.max(walk.start)..walk.end]) {
            Some(at) => {
                let end = searched.max(walk.start) + at;
                line += 1;
                let from = walk.base + walk.start as u64;
                begun(line, from);
                scan_line(&walk.buffer[walk.start..end], line, from, false, &mut head, &mut visit);
                walk.start = end + 1;
                searched = walk.start;
            }
            None if walk.is_over => {
                if walk.start < walk.end {
                    line += 1;
                    let from = walk.base + walk.start as u64;
                    begun(line, from);
                    scan_line(&walk.buffer[walk.start..walk.end], line, from, true, &mut head, &mut visit);
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
                    scan_long_line(&mut walk, line, &mut head, &mut visit);
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
    Ok(ScanTotals { bytes, lines: line, grew })
}

struct RecordScanner<R> {
    source: R,
    /// The filled part of it is `start..end`; its first byte is at offset `base` of the file.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    base: u64,
    is_over: bool,
    error: Option<io::Error>,
    /// In a long line: the place of its end, once that is known.
    line_end: Option<usize>,
    utf8: Utf8Checker,
}

impl<R: Read> RecordScanner<R> {
    /// Moves the filled part to the beginning of the buffer, and enlarges a full buffer.
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

    /// Restarts the UTF-8 check at this place.
    fn utf8_anew(&mut self) {
        self.utf8 = Utf8Checker::default();
        self.utf8.take(&self.buffer[self.start..self.line_end.unwrap_or(self.end)]);
    }

    /// True if the file has more bytes.
    fn has_more(&mut self) -> io::Result<bool> {
        if self.start < self.end {
            return Ok(true);
        }
        (self.start, self.end) = (0, 0);
        self.read_more();
        self.error.take().map_or(Ok(self.end > 0), Err)
    }
}

/// A line that is read in pieces.
struct LongLineSource<'a, R>(&'a mut RecordScanner<R>);

impl<R: Read> ByteSource for LongLineSource<'_, R> {
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

/// Reads a line of which the buffer has only the beginning.
fn scan_long_line<R: Read>(
    walk: &mut RecordScanner<R>,
    line: u64,
    head: &mut RecordSummary,
    visit: &mut impl FnMut(&LinePosition, ScannedItem<'_>),
) {
    walk.line_end = None;
    walk.utf8_anew();
    let mut bytes = LongLineSource(walk);
    let mut records = 0;
    let mut is_damaged = false;
    let mut last = None;
    loop {
        let from = bytes.offset();
        let place = |to: u64, is_last| LinePosition { line, bytes: from..to, is_last };
        match bytes.window().first() {
            None => break,
            Some(b' ' | b'\t' | b'\r') => bytes.pass(1),
            Some(0) => {
                while let Some(count) = zeroes(bytes.window()) {
                    bytes.pass(count);
                }
                visit(&place(bytes.offset(), bytes.0.is_over), ScannedItem::Flaw(TranscriptFlaw::Zeroes));
            }
            Some(first) => {
                let is_object = *first == b'{';
                head.clear();
                let mut read = if is_object { json::value(&mut bytes, head) } else { Err(JsonError::Odd) };
                if read.is_ok() {
                    head.finish();
                    // After damage, a part of a record may look like one.
                    if is_damaged && !is_of_an_agent(head) {
                        read = Err(JsonError::Odd);
                    }
                }
                if read.is_err() {
                    // A power cut leaves zeroes at the end of a torn record; a whole record may follow them.
                    while let Some(count) = before_zero(bytes.window()) {
                        bytes.pass(count);
                    }
                }
                // The end of the file is known only after another read.
                let is_end = bytes.window().is_empty();
                let place = place(bytes.offset(), is_end && bytes.0.is_over);
                match read {
                    Ok(()) => {
                        records += 1;
                        if records > 1 || is_damaged {
                            visit(&place, ScannedItem::Flaw(TranscriptFlaw::Fused));
                        }
                        visit(&place, ScannedItem::Record(head));
                        last = Some(place);
                    }
                    Err(wrong) => {
                        visit(&place, ScannedItem::Flaw(flaw(wrong)));
                        (last, is_damaged) = (None, true);
                        // A character that is cut off in a torn record must not count against the record after it.
                        bytes.0.utf8_anew();
                    }
                }
            }
        }
    }
    // Known only now, after any spaces at the end.
    if let Some(last) = last.filter(|_| !walk.utf8.is_whole()) {
        visit(&last, ScannedItem::Flaw(TranscriptFlaw::NotUtf8));
    }
    // Moves past the line end, unless the file ended.
    if walk.start < walk.end {
        walk.start += 1;
    }
}

/// Number of zeroes at the beginning; `None` for none.
fn zeroes(bytes: &[u8]) -> Option<usize> {
    let count = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    (count > 0).then_some(count)
}

/// Number of bytes before the first zero; `None` if the first byte is one, or there are no bytes.
fn before_zero(bytes: &[u8]) -> Option<usize> {
    let count = memchr(0, bytes).unwrap_or(bytes.len());
    (count > 0).then_some(count)
}

fn flaw(wrong: JsonError) -> TranscriptFlaw {
    match wrong {
        JsonError::Ended | JsonError::Odd => TranscriptFlaw::Torn,
        JsonError::Deep => TranscriptFlaw::Deep,
    }
}

/// Reads a line that is in memory as a whole.
fn scan_line(
    bytes: &[u8],
    line: u64,
    from: u64,
    is_last: bool,
    head: &mut RecordSummary,
    visit: &mut impl FnMut(&LinePosition, ScannedItem<'_>),
) {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if let Ok(length) = record(bytes, from, head).0
        && bytes[length..].iter().all(u8::is_ascii_whitespace)
    {
        let place = LinePosition { line, bytes: from..from + length as u64, is_last };
        if std::str::from_utf8(bytes).is_err() {
            visit(&place, ScannedItem::Flaw(TranscriptFlaw::NotUtf8));
        }
        visit(&place, ScannedItem::Record(head));
    } else if !bytes.iter().all(u8::is_ascii_whitespace) {
        scan_damaged_line(bytes, line, from, is_last, head, visit);
    }
}

/// Reads one record; returns its length, and the number of bytes that were read for that.
fn record(bytes: &[u8], from: u64, head: &mut RecordSummary) -> (Result<usize, JsonError>, usize) {
    if bytes.first() != Some(&b'{') {
        return (Err(JsonError::Odd), 0);
    }
    head.clear();
    let mut slice = SliceSource::new(bytes, from);
    let value = json::value(&mut slice, head);
    let length = (slice.offset() - from) as usize;
    if value.is_ok() {
        head.finish();
    }
    (value.map(|()| length), length)
}

/// Splits a line that is not exactly one record.
#[cold]
fn scan_damaged_line(
    bytes: &[u8],
    line: u64,
    from: u64,
    is_last: bool,
    head: &mut RecordSummary,
    visit: &mut impl FnMut(&LinePosition, ScannedItem<'_>),
) {
    let mut again = bytes.len() * MAX_AGAIN;
    let mut at = 0;
    let mut records = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let place = |length: usize| {
            let begin = from + at as u64;
            let is_last = is_last && at + length == bytes.len();
            LinePosition { line, bytes: begin..begin + length as u64, is_last }
        };
        if rest[0].is_ascii_whitespace() {
            at += 1;
        } else if let Some(count) = zeroes(rest) {
            visit(&place(count), ScannedItem::Flaw(TranscriptFlaw::Zeroes));
            at += count;
        } else {
            match record(rest, from + at as u64, head).0 {
                Ok(length) => {
                    records += 1;
                    if records > 1 {
                        visit(&place(length), ScannedItem::Flaw(TranscriptFlaw::Fused));
                    }
                    if std::str::from_utf8(&rest[..length]).is_err() {
                        visit(&place(length), ScannedItem::Flaw(TranscriptFlaw::NotUtf8));
                    }
                    visit(&place(length), ScannedItem::Record(head));
                    at += length;
                }
                Err(wrong) => {
                    let next = next_record(rest, &mut again, head);
                    let mut end = next.unwrap_or(rest.len());
                    // Zeroes at its end are a flaw of their own.
                    while end > 1 && rest[end - 1] == 0 {
                        end -= 1;
                    }
                    visit(&place(end), ScannedItem::Flaw(flaw(wrong)));
                    records += usize::from(next.is_some());
                    at += end;
                }
            }
        }
    }
}

/// The place of a whole record in a torn line: it must look like a record of an agent, not like a part of one. `again`
/// is the rest of the limit for repeated reads.
fn next_record(bytes: &[u8], again: &mut usize, head: &mut RecordSummary) -> Option<usize> {
    for at in memmem::find_iter(&bytes[1..], b"{\"").take(MAX_TRIES).map(|at| at + 1) {
        let (found, read) = record(&bytes[at..], 0, head);
        if found.is_ok() && is_of_an_agent(head) {
            return Some(at);
        }
        *again = again.checked_sub(read + 1)?;
    }
    None
}

fn is_of_an_agent(head: &RecordSummary) -> bool {
    let is_claude = head.kind != RecordType::None && head.session.is_some();
    is_claude || head.has_payload && head.has_timestamp && head.kind != RecordType::None
}

/// Checks whether bytes in pieces are valid UTF-8.
#[derive(Clone, Debug, Default)]
struct Utf8Checker {
    is_bad: bool,
    /// The beginning of a character whose end is in the next piece.
    begun: Vec<u8>,
}

impl Utf8Checker {
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
