//! A session's raw output on standard output, as it comes.
//!
//! Start with [`stream_to_end`]; [`RawOutputReader`] for the bytes alone.

use berth_api::Problem;
use berth_core::SessionId;
use berth_store::output::OutputFiles;
use berth_verbs::follow::{RunUpdate, follow};
use berth_verbs::{VerbContext, wait};

use crate::print;

/// Streams the output of the current run as plain lines and passes its exit code through.
pub fn stream_to_end(ctx: &VerbContext, id: &SessionId) -> Result<u8, Problem> {
    let begin = ctx.status(id)?.output_from;
    let mut reader = RawOutputReader::new(ctx, id, begin);
    let mut held_return = false;
    let mut show = |bytes: &[u8]| {
        // A terminal ends lines with CR LF; the reader of a pipe expects LF.
        let mut plain = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            if std::mem::take(&mut held_return) && *byte != b'\n' {
                plain.push(b'\r');
            }
            match byte {
                b'\r' => held_return = true,
                _ => plain.push(*byte),
            }
        }
        print::raw(&plain)
    };
    follow_output(ctx, id, &mut reader, &mut show)?;
    reader.drain(&mut show)?;
    if held_return {
        print::raw(b"\r")?;
    }
    wait::exit_code(&ctx.status(id)?)
}

/// Shows output as it comes, until the run ends.
pub fn follow_output(
    ctx: &VerbContext,
    id: &SessionId,
    reader: &mut RawOutputReader,
    show: &mut dyn FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let hear = |news: RunUpdate| match news {
        RunUpdate::Output => reader.drain(show).map(|()| false),
        RunUpdate::Event { .. } => Ok(false),
    };
    follow(ctx.session(id).news(), None, hear).map(drop)
}

/// Reads a session's output, beginning at an offset.
pub struct RawOutputReader {
    output: OutputFiles,
    offset: u64,
    /// Number of requested bytes that are no longer kept; `None` if all were there.
    pub missing: Option<u64>,
}

impl RawOutputReader {
    /// Begins at this offset.
    pub fn new(ctx: &VerbContext, id: &SessionId, offset: u64) -> Self {
        Self { output: ctx.home.session(id).output(), offset, missing: None }
    }

    /// Passes all available output to `show`.
    pub fn drain(&mut self, show: &mut dyn FnMut(&[u8]) -> Result<(), Problem>) -> Result<(), Problem> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let (count, from) = self.output.read_at(self.offset, &mut buffer).map_err(|error| {
                Problem::refused(format!("cannot read {}: {error}", self.output.display()))
            })?;
            if count == 0 {
                return Ok(());
            }
            if from > self.offset {
                self.missing = Some(from - self.offset);
            }
            self.offset = from + count as u64;
            show(&buffer[..count])?;
        }
    }
}
