//! `berth export`: writes a session to a file in a common format.

use berth_api::Problem;
use berth_verbs::export::{SessionExport, cast, events, markdown};
use clap::ValueEnum;

use crate::args::{ExportArgs, ExportFormatArg};
use crate::ctx::CommandContext;
use crate::export::ExportTarget;
use crate::print;
use crate::progress::DeferredProgress;

pub(crate) fn run(ctx: &CommandContext, args: &ExportArgs) -> Result<u8, Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    let wanted = wanted(args)?;
    let session = SessionExport::load(ctx, &id, args.run)?;
    let usual = if session.takes_turns() { ExportFormatArg::Md } else { ExportFormatArg::Cast };
    let format = wanted.unwrap_or(usual);
    if format == ExportFormatArg::Cast {
        session.check_playable()?;
    }
    if format != ExportFormatArg::Cast && args.idle_limit.is_some() {
        return Err(
            Problem::usage("only a recording has pauses").hint("use `--idle-limit` with `--format cast`")
        );
    }
    let name = format!("{}.{}", session.status.name.as_deref().unwrap_or(id.as_str()), ending(format));
    let mut target = ExportTarget::open(&args.output, &name, args.force)?;
    let progress = DeferredProgress::new("writing");
    let mut write = |bytes: &[u8]| target.write(bytes);
    match format {
        ExportFormatArg::Md => markdown(&session, &progress, &mut write)?,
        ExportFormatArg::Json => events(&session, None, true, &mut write)?,
        ExportFormatArg::Jsonl => events(&session, None, false, &mut write)?,
        ExportFormatArg::Cast => cast(&session, args.idle_limit, &progress, &mut write)?,
    }
    drop(progress);
    let path = target.path.clone();
    target.finish()?;
    if let Some(path) = path {
        print::note(&format!("written to {}", path.display()));
    }
    let Some(damage) = &session.damage else { return Ok(0) };
    print::problem(damage);
    Ok(damage.code.exit_code())
}

/// The requested format, by --format or by the file's extension; `None` for the usual one.
fn wanted(args: &ExportArgs) -> Result<Option<ExportFormatArg>, Problem> {
    let called = args.output.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let by_name =
        ExportFormatArg::value_variants().iter().copied().find(|it| called.as_deref() == Some(ending(*it)));
    match (args.format, by_name) {
        // The name of a directory decides nothing: the file in it gets the extension of the format.
        _ if args.output.is_dir() => Ok(args.format),
        (Some(format), Some(by_name)) if format != by_name => {
            let (file, format) = (args.output.display(), ending(format));
            let what = format!("{file} has the extension of {}, but --format says {format}", ending(by_name));
            Err(Problem::usage(what).hint(format!("leave --format out, or name a file .{format}")))
        }
        (format, by_name) => Ok(format.or(by_name)),
    }
}

/// The file extension of this format.
fn ending(format: ExportFormatArg) -> &'static str {
    match format {
        ExportFormatArg::Md => "md",
        ExportFormatArg::Json => "json",
        ExportFormatArg::Jsonl => "jsonl",
        ExportFormatArg::Cast => "cast",
    }
}
