//! Searching one stream of bytes, line by line.
//!
//! Promise: what the short way finds is what looking at every line finds, in the same order; memory is bounded by
//! [`MAX_LINE_BYTES`] whatever is in the files; a range of a stream has the lines that begin in it, so that ranges can
//! be searched at the same time.
//! Not here: what the stream is part of (see `session`).
//! Start with [`search`].

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use memchr::{memchr, memrchr};

use super::pattern::Pattern;
use super::text;

/// How much is read at a time.
const CHUNK_BYTES: usize = 256 * 1024;
/// A line that is longer is searched in pieces.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;
/// A longer line is shown around its first match.
const MAX_SHOWN_BYTES: usize = 2000;
/// How much of it comes before the match.
const SHOWN_BEFORE_BYTES: usize = 200;

/// What the bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// What a terminal got.
    Terminal,
    /// JSON, a record to a line; and whatever else an agent wrote on the same pipe.
    Records,
    /// JSON, a record to a line: the transcript that this agent keeps itself.
    Transcript(berth_transcript::Kind),
}

/// A file that is part of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) path: PathBuf,
    /// Where in the stream it begins.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// How much of it belongs to the stream.
    pub(crate) until: u64,
}

/// Files that make one stream, in order. What is missing between two of them ends a line.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) kind: Kind,
    pub(crate) pieces: Vec<Piece>,
}

/// How much around a match is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// Lines before it.
    pub before: usize,
    /// Lines behind it.
    pub after: usize,
}

/// A line that matches, or stands around one that does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Where in the stream its line begins.
    pub offset: u64,
    /// Without controls and escapes.
    pub text: Vec<u8>,
    /// Where in the text it matches; nowhere: it only stands around.
    pub spans: Vec<(usize, usize)>,
    /// Whether the text is a part of a longer line: of its beginning, of its end.
    pub cut: (bool, bool),
    /// Lines were left out before it.
    pub gap: bool,
}

impl Found {
    /// Whether it matches itself.
    pub fn is_match(&self) -> bool {
        !self.spans.is_empty()
    }
}

/// Takes text lines in order, and keeps those that match and those around them.
#[derive(Debug)]
pub(crate) struct Gather<'a> {
    pattern: &'a Pattern,
    context: Context,
    /// How many matches are enough.
    most: u64,
    earlier: VecDeque<(u64, Vec<u8>)>,
    owed: usize,
    gap: bool,
    pub(crate) matches: u64,
    pub(crate) found: Vec<Found>,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(pattern: &'a Pattern, context: Context, most: u64) -> Self {
        let (earlier, found) = (VecDeque::new(), Vec::new());
        Self { pattern, context, most, earlier, owed: 0, gap: false, matches: 0, found }
    }

    /// The next lines belong to something else.
    pub(crate) fn part(&mut self) {
        self.earlier.clear();
        (self.owed, self.gap) = (0, true);
    }

    /// Takes the next line. Breaks when there are enough.
    pub(crate) fn take(&mut self, offset: u64, line: &[u8]) -> ControlFlow<()> {
        if self.matches >= self.most {
            return ControlFlow::Break(());
        }
        if let Some(first) = self.pattern.regex.find(line) {
            let gap = std::mem::take(&mut self.gap);
            for (at, (offset, text)) in self.earlier.drain(..).enumerate() {
                self.found.push(whole(offset, &text, gap && at == 0));
            }
            let is_first = self.found.last().is_none_or(Found::is_match);
            self.found.push(Found {
                gap: gap && is_first,
                ..shown(offset, line, first.start(), &self.pattern.regex)
            });
            self.owed = self.context.after;
            self.matches += 1;
            return if self.matches >= self.most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            };
        }
        if self.owed > 0 {
            self.owed -= 1;
            self.found.push(whole(offset, line, false));
        } else if self.context.before > 0 {
            self.earlier.push_back((offset, line[..line.len().min(MAX_SHOWN_BYTES)].to_vec()));
            if self.earlier.len() > self.context.before {
                self.earlier.pop_front();
                self.gap = true;
            }
        } else {
            self.gap = true;
        }
        ControlFlow::Continue(())
    }
}

/// A line around a match.
fn whole(offset: u64, text: &[u8], gap: bool) -> Found {
    let end = text.len().min(MAX_SHOWN_BYTES);
    Found { offset, text: text[..end].to_vec(), spans: vec![], cut: (false, end < text.len()), gap }
}

/// A line that matches, or, if it is long, what stands around its first match.
fn shown(offset: u64, line: &[u8], first: usize, regex: &regex::bytes::Regex) -> Found {
    let (begin, end) = if line.len() <= MAX_SHOWN_BYTES {
        (0, line.len())
    } else {
        let begin = boundary(line, first.saturating_sub(SHOWN_BEFORE_BYTES));
        (begin, boundary(line, (begin + MAX_SHOWN_BYTES).min(line.len())))
    };
    let inside = |found: regex::bytes::Match<'_>| {
        // An empty match is one, too; and the first is shown even if it is longer than all that is.
        (found.start().clamp(begin, end) - begin, found.end().clamp(begin, end) - begin)
    };
    let spans = regex.find_iter(line).take_while(|found| found.start() <= end).map(inside).collect();
    Found { offset, text: line[begin..end].to_vec(), spans, cut: (begin > 0, end < line.len()), gap: false }
}

/// The beginning of the character at `at`.
fn boundary(text: &[u8], at: usize) -> usize {
    let back = (0..at.min(3)).find(|back| text.get(at - back).is_none_or(|byte| byte & 0xc0 != 0x80));
    at - back.unwrap_or(0)
}

/// What is used again for every chunk.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    window: Window,
    text: Vec<u8>,
}

/// Searches the lines that begin in these pieces. `read` hears how many bytes were read, and breaks when nobody wants more.
pub(crate) fn search(
    source: &Source,
    range: Range<usize>,
    gather: &mut Gather<'_>,
    scratch: &mut Scratch,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<()> {
    walk(source, range, &mut scratch.window, read, &mut |bytes, base| {
        chunk(bytes, base, source.kind, gather, &mut scratch.text)
    })
}

/// Whether anything in these bytes could be a match: not exact, and quick. For bytes that are not lines.
pub(crate) fn may_match(
    source: &Source,
    pattern: &Pattern,
    scratch: &mut Scratch,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<bool> {
    let Some(literals) = &pattern.literals else { return Ok(true) };
    let mut may = false;
    walk(source, 0..source.pieces.len(), &mut scratch.window, read, &mut |bytes, _| {
        may = literals.next(bytes, 0).is_some();
        if may { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(may)
}

/// Gives whole lines to `visit`, many at a time, with the offset of the first.
fn walk(
    source: &Source,
    range: Range<usize>,
    window: &mut Window,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
    visit: &mut dyn FnMut(&[u8], u64) -> ControlFlow<()>,
) -> io::Result<()> {
    window.clear();
    let mut base = 0;
    // A line that was begun before the range is not ours, and one that is begun in it is ours to its end.
    let mut line = if goes_on(source, range.start)? { Begun::Elsewhere } else { Begun::Nowhere };
    for (number, piece) in source.pieces.iter().enumerate().skip(range.start) {
        let is_past = number >= range.end;
        if number > range.start && source.is_gap_before(number) {
            if line == Begun::Here && visit(window.filled(), base).is_break() {
                return Ok(());
            }
            window.clear();
            line = Begun::Nowhere;
        }
        if is_past && line != Begun::Here {
            break;
        }
        let file = match File::open(&piece.path) {
            Ok(file) => file,
            // Output that is no longer kept may go while we look.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut at = 0;
        if window.is_empty() {
            base = piece.start;
        }
        loop {
            let new = window.filled().len();
            let count = file.read_at(window.room(), at)?;
            let count = count.min(usize::try_from(piece.until.saturating_sub(at)).unwrap_or(usize::MAX));
            window.add(count);
            if count == 0 {
                break;
            }
            at += count as u64;
            if read(count as u64).is_break() {
                return Ok(());
            }
            if line == Begun::Elsewhere {
                let over = memchr(b'\n', window.filled()).map(|end| end + 1);
                let passed = over.unwrap_or(window.filled().len());
                base += passed as u64;
                window.pass(passed);
                if over.is_none() {
                    continue;
                }
                line = Begun::Nowhere;
            }
            let bytes = window.filled();
            let new = new.min(bytes.len());
            // Behind the range only the line that was begun in it is ours.
            let end = if is_past { memchr(b'\n', &bytes[new..]) } else { memrchr(b'\n', &bytes[new..]) };
            let whole = match end {
                Some(end) => new + end + 1,
                None if bytes.len() > MAX_LINE_BYTES => cut(bytes),
                None => 0,
            };
            if whole > 0 && visit(&bytes[..whole], base).is_break() || (is_past && end.is_some()) {
                return Ok(());
            }
            base += whole as u64;
            window.pass(whole);
            // A line that was cut goes on even if nothing of it is left.
            let is_between = window.is_empty() && (end.is_some() || line == Begun::Nowhere);
            line = if is_between { Begun::Nowhere } else { Begun::Here };
        }
    }
    if line == Begun::Here && !window.is_empty() {
        let _ = visit(window.filled(), base);
    }
    Ok(())
}

/// The part of a stream that is in memory.
#[derive(Debug, Default)]
struct Window {
    /// Longer than what is filled: clearing it for every read would cost as much as searching it.
    bytes: Vec<u8>,
    filled: usize,
}

impl Window {
    fn clear(&mut self) {
        self.filled = 0;
        // One long line must not keep its memory for all that follow.
        self.bytes.truncate(4 * CHUNK_BYTES);
        self.bytes.shrink_to(4 * CHUNK_BYTES);
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Where the next bytes go.
    fn room(&mut self) -> &mut [u8] {
        let end = self.filled + CHUNK_BYTES;
        if self.bytes.len() < end {
            self.bytes.resize(end.max(2 * self.filled), 0);
        }
        &mut self.bytes[self.filled..end]
    }

    fn add(&mut self, count: usize) {
        self.filled += count;
    }

    /// So many from the beginning are no longer needed.
    fn pass(&mut self, count: usize) {
        self.bytes.copy_within(count..self.filled, 0);
        self.filled -= count;
    }
}

/// Where the line began that is being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begun {
    Nowhere,
    Here,
    Elsewhere,
}

impl Source {
    /// Whether something is missing before this piece, or it is the first.
    fn is_gap_before(&self, number: usize) -> bool {
        let before = number.checked_sub(1).and_then(|before| self.pieces.get(before));
        let here = self.pieces.get(number).map(|piece| piece.start);
        before.is_none_or(|before| Some(before.start + before.bytes) != here)
    }

    /// How much there is to read.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

/// Whether the line at the beginning of this piece was begun in the one before.
fn goes_on(source: &Source, number: usize) -> io::Result<bool> {
    if source.is_gap_before(number) {
        return Ok(false);
    }
    let before = &source.pieces[number - 1];
    let Some(last) = before.bytes.checked_sub(1) else { return goes_on(source, number - 1) };
    let mut byte = [0];
    match File::open(&before.path).and_then(|file| file.read_at(&mut byte, last)) {
        Ok(count) => Ok(count == 1 && byte[0] != b'\n'),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where a line that is too long is cut: behind a space if there is one near, so that no word is.
fn cut(buffer: &[u8]) -> usize {
    let near = buffer.len().saturating_sub(4096);
    memrchr(b' ', &buffer[near..]).map_or(buffer.len(), |space| near + space + 1)
}

/// Searches whole lines.
fn chunk(
    bytes: &[u8],
    base: u64,
    kind: Kind,
    gather: &mut Gather<'_>,
    scratch: &mut Vec<u8>,
) -> ControlFlow<()> {
    let mut take = |begin: usize, end: usize, gather: &mut Gather<'_>| {
        let line = &bytes[begin..end];
        scratch.clear();
        let is_record = match kind {
            Kind::Terminal => false,
            Kind::Records => text::of_record(line, scratch),
            Kind::Transcript(agent) => {
                text::of_transcript(agent, line, scratch);
                true
            }
        };
        if !is_record {
            text::of_terminal(line, scratch);
        } else if scratch.is_empty() {
            return ControlFlow::Continue(());
        }
        text::lines(scratch).try_for_each(|line| gather.take(base + begin as u64, line))
    };
    let line_end = |at: usize| memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end);
    let is_plain = gather.context == Context::default();
    let Some(literals) = gather.pattern.literals.as_ref().filter(|_| is_plain) else {
        let mut begin = 0;
        while begin < bytes.len() {
            let end = line_end(begin);
            take(begin, end, gather)?;
            begin = end + 1;
        }
        return ControlFlow::Continue(());
    };
    let mut from = 0;
    while let Some(at) = literals.next(bytes, from) {
        let begin = memrchr(b'\n', &bytes[..at]).map_or(0, |before| before + 1);
        let end = line_end(at);
        take(begin, end, gather)?;
        from = end + 1;
        if from >= bytes.len() {
            break;
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests;
