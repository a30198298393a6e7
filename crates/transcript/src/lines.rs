//! A file of records, one to a line, read once from the beginning to the end.
//!
//! Promise: at most [`MAX_LINE_BYTES`] of the file are in memory at a time; a longer line is skipped and reported as
//! [`TranscriptLine::TooLong`]. A record without a line end is passed on like any other: only its reader can tell whether it is
//! whole.
//! Not here: the meaning of a record. Start with [`each`].

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;

use memchr::memchr;

use crate::read_budget::BudgetedReader;

/// Limit for a record. A prompt of the largest size, with every character escaped, fits.
pub(crate) const MAX_LINE_BYTES: usize = 32 << 20;
/// Limit for one read.
const CHUNK_BYTES: usize = 64 << 10;

/// One line of a file of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TranscriptLine<'a> {
    /// The line, without its line end.
    Whole(&'a [u8]),
    /// A line beyond the limit; its bytes are dropped.
    TooLong,
}

/// Calls `visit` with each line that is not empty, until it breaks.
pub(crate) fn each(
    source: impl Read,
    mut visit: impl FnMut(TranscriptLine<'_>) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut source = BudgetedReader::partial(source);
    let mut chunk = vec![0; CHUNK_BYTES];
    // The beginning of a line whose end is in a later chunk.
    let mut begun: Vec<u8> = Vec::new();
    let mut is_too_long = false;
    loop {
        let count = match source.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if count == 0 {
            break;
        }
        let mut rest = &chunk[..count];
        while let Some(end) = memchr(b'\n', rest) {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            let flow = if is_too_long || begun.len() + line.len() > MAX_LINE_BYTES {
                visit(TranscriptLine::TooLong)
            } else if begun.is_empty() {
                give(line, &mut visit)
            } else {
                begun.extend_from_slice(line);
                give(&begun, &mut visit)
            };
            is_too_long = false;
            begun.clear();
            // One long line must not keep its memory for the rest of the file.
            begun.shrink_to(CHUNK_BYTES);
            if flow.is_break() {
                return Ok(());
            }
        }
        is_too_long |= begun.len() + rest.len() > MAX_LINE_BYTES;
        if is_too_long {
            begun.clear();
        } else {
            begun.extend_from_slice(rest);
        }
    }
    let _ = if is_too_long { visit(TranscriptLine::TooLong) } else { give(&begun, &mut visit) };
    Ok(())
}

/// Seeks behind the current line, if its end is within [`MAX_LINE_BYTES`]: the rest of a longer line is not a record
/// either, and its reader finds that out.
pub(crate) fn skip_rest(file: &mut (impl Read + Seek)) -> io::Result<()> {
    let begin = file.stream_position()?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut skipped = 0;
    while skipped < MAX_LINE_BYTES as u64 {
        let count = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if let Some(end) = memchr(b'\n', &chunk[..count]) {
            skipped += end as u64 + 1;
            break;
        }
        skipped += count as u64;
    }
    file.seek(SeekFrom::Start(begin + skipped))?;
    Ok(())
}

fn give(line: &[u8], visit: &mut impl FnMut(TranscriptLine<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() { ControlFlow::Continue(()) } else { visit(TranscriptLine::Whole(line)) }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Gives its pieces one at a time.
    struct ChunkedReader(VecDeque<Vec<u8>>);

    impl Read for ChunkedReader {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(mut piece) = self.0.pop_front() else { return Ok(0) };
            let count = piece.len().min(buffer.len());
            buffer[..count].copy_from_slice(&piece[..count]);
            if count < piece.len() {
                self.0.push_front(piece.split_off(count));
            }
            Ok(count)
        }
    }

    fn lines(pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        lines_of(ChunkedReader(pieces.iter().map(|piece| piece.to_vec()).collect()))
    }

    fn lines_of(source: impl Read) -> Vec<Option<Vec<u8>>> {
        let mut found = Vec::new();
        each(source, |line| {
            found.push(match line {
                TranscriptLine::Whole(line) => Some(line.to_vec()),
                TranscriptLine::TooLong => None,
            });
            ControlFlow::Continue(())
        })
        .unwrap();
        found
    }

    #[test]
    fn lines_come_whole_however_they_are_read() {
        let whole = [Some(b"one".to_vec()), Some(b"two".to_vec()), Some(b"three".to_vec())];
        assert_eq!(lines(&[b"one\ntwo\nthree"]), whole);
        assert_eq!(lines(&[b"o", b"ne\nt", b"wo", b"\n", b"\r\n", b"\n", b"three\n"]), whole);
        assert_eq!(lines(&[]), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_reported_and_the_next_one_is_read() {
        let x = |count: usize| io::repeat(b'x').take(count as u64);
        let short = Some(b"short".to_vec());
        assert_eq!(lines_of(x(MAX_LINE_BYTES + 1).chain(&b"\nshort"[..])), [None, short.clone()]);
        assert_eq!(lines_of(x(MAX_LINE_BYTES + 1)), [None]);
        let found = lines_of(x(MAX_LINE_BYTES).chain(&b"\nshort"[..]));
        assert_eq!(found[0].as_ref().map(Vec::len), Some(MAX_LINE_BYTES));
        assert_eq!(found[1..], [short]);
    }

    #[test]
    fn a_reader_that_has_enough_is_left_alone() {
        let mut count = 0;
        each(&b"1\n2\n3\n"[..], |_| {
            count += 1;
            if count == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        assert_eq!(count, 2);
    }
}
