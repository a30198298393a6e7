//! Search in one stream of bytes, line by line.
//!
//! Promise: the fast path finds the same matches as a check of every line, in the same order; memory is bounded by
//! [`MAX_LINE_BYTES`] whatever is in the files; a range of a stream has the lines that begin in it, so that ranges can
//! be searched in parallel.
//! Not here: the session that the stream belongs to (see `session`).
//! Start with [`search`].

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use memchr::{memchr, memrchr};

use super::pattern::SearchPattern;
use super::text;

/// Limit for one read.
const CHUNK_BYTES: usize = 256 * 1024;
/// Limit for a line in memory. A longer line is searched in pieces.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;
/// Limit for a shown line. A longer line is shown around its first match.
const MAX_SHOWN_BYTES: usize = 2000;
/// Part of that limit that stands before the match.
const SHOWN_BEFORE_BYTES: usize = 200;

/// Contents of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamKind {
    /// Output of a terminal.
    Terminal,
    /// JSON, a record to a line, mixed with any other output of the agent on the same pipe.
    Records,
    /// JSON, a record to a line: the transcript that this agent keeps itself.
    Transcript(berth_transcript::TranscriptKind),
}

/// A file that is part of a stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamFile {
    pub(crate) path: PathBuf,
    /// Offset in the stream at which the file begins.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// Length of the part of the file that belongs to the stream.
    pub(crate) until: u64,
}

/// Files that form one stream, in order. A gap between two of them ends a line.
#[derive(Clone, Debug)]
pub(crate) struct FileStream {
    pub(crate) kind: StreamKind,
    pub(crate) pieces: Vec<StreamFile>,
}

/// Lines of context around a match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ContextLines {
    /// Number of lines before it.
    pub before: usize,
    /// Number of lines after it.
    pub after: usize,
}

/// A line that matches, or a line of context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchedLine {
    /// Offset in the stream at which the line begins.
    pub offset: u64,
    /// Text of the line, without controls and escapes.
    pub text: Vec<u8>,
    /// Places of the matches in the text; empty for a line of context.
    pub spans: Vec<(usize, usize)>,
    /// True if the text is cut: at its beginning, at its end.
    pub cut: (bool, bool),
    /// True if lines were left out before this one.
    pub gap: bool,
}

impl MatchedLine {
    /// True if the line itself matches.
    pub fn is_match(&self) -> bool {
        !self.spans.is_empty()
    }
}

/// Takes text lines in order, and keeps matches and their context.
#[derive(Debug)]
pub(crate) struct MatchCollector<'a> {
    pattern: &'a SearchPattern,
    context: ContextLines,
    /// Limit for matches; the search ends there.
    most: u64,
    earlier: VecDeque<(u64, Vec<u8>)>,
    owed: usize,
    gap: bool,
    pub(crate) matches: u64,
    pub(crate) found: Vec<MatchedLine>,
}

impl<'a> MatchCollector<'a> {
    pub(crate) fn new(pattern: &'a SearchPattern, context: ContextLines, most: u64) -> Self {
        let (earlier, found) = (VecDeque::new(), Vec::new());
        Self { pattern, context, most, earlier, owed: 0, gap: false, matches: 0, found }
    }

    /// Marks a boundary: the next lines belong to another part and are no context of the previous ones.
    pub(crate) fn part(&mut self) {
        self.earlier.clear();
        (self.owed, self.gap) = (0, true);
    }

    /// Takes the next line. Breaks when the limit is reached.
    pub(crate) fn take(&mut self, offset: u64, line: &[u8]) -> ControlFlow<()> {
        if self.matches >= self.most {
            return ControlFlow::Break(());
        }
        if let Some(first) = self.pattern.regex.find(line) {
            let gap = std::mem::take(&mut self.gap);
            for (at, (offset, text)) in self.earlier.drain(..).enumerate() {
                self.found.push(whole(offset, &text, gap && at == 0));
            }
            let is_first = self.found.last().is_none_or(MatchedLine::is_match);
            self.found.push(MatchedLine {
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

/// A line of context.
fn whole(offset: u64, text: &[u8], gap: bool) -> MatchedLine {
    let end = text.len().min(MAX_SHOWN_BYTES);
    MatchedLine { offset, text: text[..end].to_vec(), spans: vec![], cut: (false, end < text.len()), gap }
}

/// A line that matches; a long one is cut around its first match.
fn shown(offset: u64, line: &[u8], first: usize, regex: &regex::bytes::Regex) -> MatchedLine {
    let (begin, end) = if line.len() <= MAX_SHOWN_BYTES {
        (0, line.len())
    } else {
        let begin = boundary(line, first.saturating_sub(SHOWN_BEFORE_BYTES));
        (begin, boundary(line, (begin + MAX_SHOWN_BYTES).min(line.len())))
    };
    let inside = |found: regex::bytes::Match<'_>| {
        // An empty match counts as well; the first match is shown even if it is longer than the limit.
        (found.start().clamp(begin, end) - begin, found.end().clamp(begin, end) - begin)
    };
    let spans = regex.find_iter(line).take_while(|found| found.start() <= end).map(inside).collect();
    MatchedLine {
        offset,
        text: line[begin..end].to_vec(),
        spans,
        cut: (begin > 0, end < line.len()),
        gap: false,
    }
}

/// The beginning of the character at `at`.
fn boundary(text: &[u8], at: usize) -> usize {
    let back = (0..at.min(3)).find(|back| text.get(at - back).is_none_or(|byte| byte & 0xc0 != 0x80));
    at - back.unwrap_or(0)
}

/// Buffers that every chunk reuses.
#[derive(Debug, Default)]
pub(crate) struct SearchBuffers {
    window: ReadWindow,
    text: Vec<u8>,
}

/// Searches the lines that begin in these pieces. `read` gets the number of bytes after each read, and breaks to cancel
/// the search.
pub(crate) fn search(
    source: &FileStream,
    range: Range<usize>,
    gather: &mut MatchCollector<'_>,
    scratch: &mut SearchBuffers,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<()> {
    walk(source, range, &mut scratch.window, read, &mut |bytes, base| {
        chunk(bytes, base, source.kind, gather, &mut scratch.text)
    })
}

/// True if these bytes may contain a match: fast, with false positives. For bytes that are not lines.
pub(crate) fn may_match(
    source: &FileStream,
    pattern: &SearchPattern,
    scratch: &mut SearchBuffers,
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
    source: &FileStream,
    range: Range<usize>,
    window: &mut ReadWindow,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
    visit: &mut dyn FnMut(&[u8], u64) -> ControlFlow<()>,
) -> io::Result<()> {
    window.clear();
    let mut base = 0;
    // A line that begins before the range belongs to another range; one that begins in it is searched to its end.
    let mut line = if goes_on(source, range.start)? { LineStart::Elsewhere } else { LineStart::Nowhere };
    for (number, piece) in source.pieces.iter().enumerate().skip(range.start) {
        let is_past = number >= range.end;
        if number > range.start && source.is_gap_before(number) {
            if line == LineStart::Here && visit(window.filled(), base).is_break() {
                return Ok(());
            }
            window.clear();
            line = LineStart::Nowhere;
        }
        if is_past && line != LineStart::Here {
            break;
        }
        let file = match File::open(&piece.path) {
            Ok(file) => file,
            // Old output may be deleted while it is searched.
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
            if line == LineStart::Elsewhere {
                let over = memchr(b'\n', window.filled()).map(|end| end + 1);
                let passed = over.unwrap_or(window.filled().len());
                base += passed as u64;
                window.pass(passed);
                if over.is_none() {
                    continue;
                }
                line = LineStart::Nowhere;
            }
            let bytes = window.filled();
            let new = new.min(bytes.len());
            // After the range only the line that begins in it is searched.
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
            // A line that was cut continues even if no more bytes of it are left.
            let is_between = window.is_empty() && (end.is_some() || line == LineStart::Nowhere);
            line = if is_between { LineStart::Nowhere } else { LineStart::Here };
        }
    }
    if line == LineStart::Here && !window.is_empty() {
        let _ = visit(window.filled(), base);
    }
    Ok(())
}

/// The part of a stream that is in memory.
#[derive(Debug, Default)]
struct ReadWindow {
    /// Longer than the filled part: clearing it for every read would cost as much as searching it.
    bytes: Vec<u8>,
    filled: usize,
}

impl ReadWindow {
    fn clear(&mut self) {
        self.filled = 0;
        // One long line must not keep its memory for the rest of the search.
        self.bytes.truncate(4 * CHUNK_BYTES);
        self.bytes.shrink_to(4 * CHUNK_BYTES);
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The free room for the next read.
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

    /// Drops so many bytes from the beginning.
    fn pass(&mut self, count: usize) {
        self.bytes.copy_within(count..self.filled, 0);
        self.filled -= count;
    }
}

/// Beginning of the line that is being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LineStart {
    Nowhere,
    Here,
    Elsewhere,
}

impl FileStream {
    /// True if the stream has a gap before this piece, or it is the first.
    fn is_gap_before(&self, number: usize) -> bool {
        let before = number.checked_sub(1).and_then(|before| self.pieces.get(before));
        let here = self.pieces.get(number).map(|piece| piece.start);
        before.is_none_or(|before| Some(before.start + before.bytes) != here)
    }

    /// Total size of the stream, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

/// True if the line at the beginning of this piece began in the piece before.
fn goes_on(source: &FileStream, number: usize) -> io::Result<bool> {
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

/// The place to cut a line that is too long: after a space if there is one near, so that no word is cut.
fn cut(buffer: &[u8]) -> usize {
    let near = buffer.len().saturating_sub(4096);
    memrchr(b' ', &buffer[near..]).map_or(buffer.len(), |space| near + space + 1)
}

/// Searches whole lines.
fn chunk(
    bytes: &[u8],
    base: u64,
    kind: StreamKind,
    gather: &mut MatchCollector<'_>,
    scratch: &mut Vec<u8>,
) -> ControlFlow<()> {
    let mut take = |begin: usize, end: usize, gather: &mut MatchCollector<'_>| {
        let line = &bytes[begin..end];
        scratch.clear();
        let is_record = match kind {
            StreamKind::Terminal => false,
            StreamKind::Records => text::of_record(line, scratch),
            StreamKind::Transcript(agent) => {
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
    let is_plain = gather.context == ContextLines::default();
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
