//! `berth output`: a session's raw bytes, and following them to the end.

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_store::output::OutputFiles;
use berth_store::view;

use crate::args::Output;
use crate::cmd::{follow::News, follow::follow, wait};
use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Output) -> Result<u8, Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    // An error about the session is better than an empty answer, but what it said is kept apart from
    // its record, and there to read when that is damaged.
    let trouble = match view::status(&ctx.home, &id) {
        Ok(_) => None,
        Err(problem) if problem.code == Code::NotFound => return Err(problem),
        Err(problem) => Some(problem),
    };
    let mut reader = Reader::new(ctx, &id, args.from);
    let mut show = |bytes: &[u8]| print::raw(bytes);
    if args.follow {
        follow_output(ctx, &id, &mut reader, &mut show)?;
    }
    reader.drain(&mut show)?;
    if let Some(missing) = reader.missing {
        print::note(&format!("the first {missing} bytes are no longer kept"));
    }
    let Some(problem) = trouble else { return Ok(0) };
    print::problem(&problem);
    Ok(problem.code.exit_code())
}

/// Streams the output of the current run as plain lines and passes its exit code through.
pub(crate) fn stream_to_end(ctx: &Ctx, id: &SessionId) -> Result<u8, Problem> {
    let begin = ctx.status(id)?.output_from;
    let mut reader = Reader::new(ctx, id, begin);
    let mut held_return = false;
    let mut show = |bytes: &[u8]| {
        // A terminal ends lines with CR LF; whoever reads a pipe expects LF.
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
fn follow_output(
    ctx: &Ctx,
    id: &SessionId,
    reader: &mut Reader,
    show: &mut dyn FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let hear = |news: News| match news {
        News::Output => reader.drain(show).map(|()| false),
        News::Event { .. } => Ok(false),
    };
    follow(ctx.session(id).news(), None, hear).map(drop)
}

/// Reads a session's output from an offset on.
pub(crate) struct Reader {
    output: OutputFiles,
    offset: u64,
    /// How many of the bytes asked for are no longer kept.
    pub(crate) missing: Option<u64>,
}

impl Reader {
    pub(crate) fn new(ctx: &Ctx, id: &SessionId, offset: u64) -> Self {
        Self { output: ctx.home.session(id).output(), offset, missing: None }
    }

    /// Hands everything that is there to `show`.
    pub(crate) fn drain(
        &mut self,
        show: &mut dyn FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let (count, from) = self.output.read_at(self.offset, &mut buffer).map_err(|error| {
                Problem::new(Code::Refused, format!("cannot read {}: {error}", self.output.display()))
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
