//! `berth output`: prints a session's raw output, and follows it to the end of the run.

use berth_api::{Problem, ProblemCode};
use berth_store::session_status;

use crate::args::OutputArgs;
use crate::ctx::CommandContext;
use crate::output_stream::{RawOutputReader, follow_output};
use crate::print;

pub(crate) fn run(ctx: &CommandContext, args: &OutputArgs) -> Result<u8, Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    // An unknown session is an error, not empty output. A damaged record is not: the output is stored apart from the
    // record and can still be read.
    let trouble = match session_status::status(&ctx.home, &id) {
        Ok(_) => None,
        Err(problem) if problem.code == ProblemCode::NotFound => return Err(problem),
        Err(problem) => Some(problem),
    };
    let mut reader = RawOutputReader::new(ctx, &id, args.from);
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
