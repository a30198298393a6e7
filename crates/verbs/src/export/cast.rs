//! Recording of a session's terminal: asciicast v2, which every version of asciinema plays.
//!
//! The times are those of the time index, a tenth of a second apart at most; pauses are kept. Each change of the
//! terminal's size is an event, right before the first output at that size.
//! Promise: a playback has the bytes of the output, if they are valid UTF-8; other bytes become U+FFFD, because the
//! format knows only text. Time never goes back, even if the clock did.
//! Start with [`write()`].

use std::time::Duration;

use berth_api::{Problem, redact};
use serde::Serialize;

use super::{ExportWriter, SessionExport};
use crate::format;
use crate::progress::ProgressSink;

/// Limit for one read, and for one event of the recording.
const READ_BYTES: usize = 64 * 1024;
/// Size of a terminal if it is not known.
const USUAL: (u16, u16) = (80, 24);

#[derive(Serialize)]
struct CastHeader {
    version: u8,
    width: u16,
    height: u16,
    timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_time_limit: Option<f64>,
    command: String,
    title: String,
}

/// Writes the recording.
pub fn write(
    session: &SessionExport,
    idle_limit: Option<Duration>,
    progress: &dyn ProgressSink,
    target: &mut ExportWriter<'_>,
) -> Result<(), Problem> {
    let wrong = |error: std::io::Error| crate::transcript::unreadable(session.output.display(), &error);
    let index = session.output.time_index().map_err(wrong)?;
    let end = session.output.end().map_err(wrong)?.min(session.until);
    let mut clock = OutputClock::new(&index, session.from);
    let status = &session.status;
    let sizes = session.output.sizes(session.from).map_err(wrong)?;
    let mut sizes = sizes.iter().copied().peekable();
    let first = sizes.next_if(|(at, _)| *at <= session.from).map(|(_, size)| (size.cols, size.rows));
    let known = first.unwrap_or((status.cols, status.rows));
    let (width, height) = if known.0 > 0 && known.1 > 0 { known } else { USUAL };
    let began_ms = clock.began_ms.unwrap_or(status.started_at.unwrap_or(status.created_at).0);
    let header = CastHeader {
        version: 2,
        width,
        height,
        timestamp: began_ms / 1000,
        idle_time_limit: idle_limit.map(|limit| limit.as_secs_f64()),
        command: redact::redact_command_line(&status.what.command),
        title: status.handle().to_owned(),
    };
    target((json(&header)? + "\n").as_bytes())?;
    progress.begin(end.saturating_sub(session.from));
    let mut text = Utf8Decoder::default();
    let (mut offset, mut buffer) = (session.from, vec![0; READ_BYTES]);
    while offset < end {
        let (count, at) = session.output.read_at(offset, &mut buffer).map_err(wrong)?;
        // An event has bytes of one moment only, and only bytes of the exported part.
        let until = clock.advance(at).unwrap_or(u64::MAX).min(end);
        while let Some((_, size)) = sizes.next_if(|(from, _)| *from <= at) {
            event(clock.now_ms, "r", &format!("{}x{}", size.cols, size.rows), target)?;
        }
        // An event has bytes of one terminal size only.
        let until = sizes.peek().map_or(until, |(from, _)| until.min(*from));
        let count = count.min(usize::try_from(until.saturating_sub(at)).unwrap_or(usize::MAX));
        if count == 0 {
            break;
        }
        offset = at + count as u64;
        let said = text.take(&buffer[..count]);
        if !said.is_empty() {
            event(clock.now_ms, "o", &said, target)?;
        }
        progress.add(count as u64);
    }
    let rest = text.finish();
    if rest.is_empty() { Ok(()) } else { event(clock.now_ms, "o", &rest, target) }
}

/// Writes one event: of kind `o` for output, of kind `r` for a new size.
fn event(at_ms: u64, kind: &str, said: &str, target: &mut ExportWriter<'_>) -> Result<(), Problem> {
    let line = format!("[{}.{:03}, \"{kind}\", {}]\n", at_ms / 1000, at_ms % 1000, json(&said)?);
    target(line.as_bytes())
}

fn json(value: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(value).map(|json| format::visible_json(&json)).map_err(|error| {
        Problem::new(berth_api::ProblemCode::Bug, format!("cannot write the recording as JSON: {error}"))
    })
}

/// Times of the bytes at each offset, from the beginning of the recording.
struct OutputClock<'a> {
    /// Entries of the time index that are still to come.
    index: &'a [(u64, u64)],
    began_ms: Option<u64>,
    last_wall_ms: u64,
    now_ms: u64,
}

impl<'a> OutputClock<'a> {
    fn new(index: &'a [(u64, u64)], from: u64) -> Self {
        // The time of the first byte is the last one noted at the byte or before it.
        let first = index.partition_point(|(_, offset)| *offset <= from).saturating_sub(1);
        let index = &index[first..];
        let began_ms = index.first().map(|(wall_ms, _)| *wall_ms);
        Self { index, began_ms, last_wall_ms: began_ms.unwrap_or(0), now_ms: 0 }
    }

    /// Moves to this offset; returns the offset of the next moment.
    fn advance(&mut self, offset: u64) -> Option<u64> {
        while let Some((wall_ms, from)) = self.index.first() {
            if *from > offset {
                return Some(*from);
            }
            // A clock that was set back costs a pause, and never the order.
            self.now_ms += wall_ms.saturating_sub(self.last_wall_ms);
            self.last_wall_ms = *wall_ms;
            self.index = &self.index[1..];
        }
        None
    }
}

/// Decodes bytes to text, wherever the reads cut them.
#[derive(Default)]
struct Utf8Decoder {
    /// The beginning of a character whose end is still to come.
    half: Vec<u8>,
}

impl Utf8Decoder {
    fn take(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.half);
        all.extend_from_slice(bytes);
        let mut text = String::with_capacity(all.len());
        let mut rest = &all[..];
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => {
                    let (valid, behind) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(bad) = error.error_len() else {
                        self.half = behind.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &behind[bad..];
                }
            }
        }
    }

    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.half)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_whole_however_its_bytes_are_cut_and_invalid_bytes_are_replaced() {
        let all = "aé€😀z".as_bytes();
        for cut in 0..=all.len() {
            let mut text = Utf8Decoder::default();
            let said = text.take(&all[..cut]) + &text.take(&all[cut..]) + &text.finish();
            assert_eq!(said, "aé€😀z", "cut at {cut}");
        }
        let mut text = Utf8Decoder::default();
        assert_eq!(text.take(b"a\xffb\xe2\x82") + &text.take(b"x") + &text.finish(), "a\u{fffd}b\u{fffd}x");
        assert_eq!(text.take(b"\xe2\x82") + &text.finish(), "\u{fffd}");
    }

    #[test]
    fn time_goes_on_from_the_first_byte_that_is_meant_and_never_back() {
        let index = [(1000, 0), (1500, 10), (400, 20), (900, 30)];
        let mut clock = OutputClock::new(&index, 0);
        assert_eq!((clock.began_ms, clock.advance(0), clock.now_ms), (Some(1000), Some(10), 0));
        assert_eq!((clock.advance(10), clock.now_ms), (Some(20), 500));
        assert_eq!((clock.advance(20), clock.now_ms), (Some(30), 500), "set back");
        assert_eq!((clock.advance(35), clock.now_ms), (None, 1000));
        let mut later = OutputClock::new(&index, 15);
        assert_eq!((later.began_ms, later.advance(15), later.now_ms), (Some(1500), Some(20), 0));
    }
}
