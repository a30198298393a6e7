//! Scrollback from before the client attached, read from the output files.
//!
//! Promise: the lines printed are followed by the session's screen without a gap and without a line twice. The cost
//! depends on how many lines are asked for, not on how much was printed in all.
//! Start with [`before`].

use std::io;

use berth_api::message::WindowSize;
use berth_screen::{Scrollback, skip_partial_sequence};
use berth_store::output::{OutputFiles, TerminalSize};

/// How much of the output is read for one line. Colours and redrawn lines take bytes too.
const BYTES_PER_LINE: u64 = 512;
/// The least and the most that is read.
const LEAST_BYTES: u64 = 64 * 1024;
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// The output to read, and up to where.
pub(super) struct ScrollbackRequest<'a> {
    /// The session's output files.
    pub(super) output: &'a OutputFiles,
    /// The offset at which the run began.
    pub(super) from: u64,
    /// The offset up to which the screen has the output.
    pub(super) end: u64,
    /// The size of that screen.
    pub(super) size: WindowSize,
    pub(super) lines: usize,
}

/// The last lines that scrolled off the top of the session's primary screen, to be printed at the start of a line.
pub(super) fn before(wanted: &ScrollbackRequest<'_>) -> io::Result<Vec<u8>> {
    let limit = (wanted.lines as u64 * BYTES_PER_LINE).clamp(LEAST_BYTES, MOST_BYTES);
    let begin = wanted.end.saturating_sub(limit).max(wanted.from);
    let bytes = wanted.output.range(begin, wanted.end)?;
    // The offset where the kept bytes begin.
    let begin = wanted.end.saturating_sub(bytes.len() as u64);
    let rest = if begin > wanted.from { skip_partial_sequence(&bytes) } else { &bytes };
    let mut at = wanted.end - rest.len() as u64;
    let last = berth_screen::ScreenSize { rows: wanted.size.rows, cols: wanted.size.cols };
    let mut sizes = wanted.output.sizes(at)?.into_iter().peekable();
    let first = sizes.next_if(|(from, _)| *from <= at).map_or(last, |(_, size)| screen_size(size));
    let mut scrollback = Scrollback::new(first, wanted.lines);
    let mut rest = rest;
    for (from, size) in sizes.take_while(|(from, _)| *from < wanted.end) {
        let (before, behind) =
            rest.split_at(usize::try_from(from - at).unwrap_or(rest.len()).min(rest.len()));
        scrollback.feed(before);
        scrollback.resize(screen_size(size));
        (rest, at) = (behind, from);
    }
    scrollback.feed(rest);
    scrollback.resize(last);
    Ok(scrollback.finish())
}

fn screen_size(size: TerminalSize) -> berth_screen::ScreenSize {
    berth_screen::ScreenSize { rows: size.rows, cols: size.cols }
}
