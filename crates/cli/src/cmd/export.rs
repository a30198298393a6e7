//! `berth export`: a session as a file for others.

use berth_api::{Code, Problem};
use berth_verbs::export::{Exported, cast, events, markdown};
use clap::ValueEnum;

use crate::args::{Export, Format};
use crate::ctx::Ctx;
use crate::export::Target;
use crate::print;
use crate::progress::Later;

pub(crate) fn run(ctx: &Ctx, args: &Export) -> Result<u8, Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    let wanted = wanted(args)?;
    let session = Exported::load(ctx, &id, args.run)?;
    let usual = if session.takes_turns() { Format::Md } else { Format::Cast };
    let format = wanted.unwrap_or(usual);
    if format == Format::Cast {
        session.check_playable()?;
    }
    if format != Format::Cast && args.idle_limit.is_some() {
        return Err(Problem::new(Code::Usage, "only a recording has pauses")
            .hint("use `--idle-limit` with `--format cast`"));
    }
    let name = format!("{}.{}", session.status.name.as_deref().unwrap_or(id.as_str()), ending(format));
    let mut target = Target::open(&args.output, &name, args.force)?;
    let progress = Later::new("writing");
    let mut write = |bytes: &[u8]| target.write(bytes);
    match format {
        Format::Md => markdown(&session, &progress, &mut write)?,
        Format::Json => events(&session, None, true, &mut write)?,
        Format::Jsonl => events(&session, None, false, &mut write)?,
        Format::Cast => cast(&session, args.idle_limit, &progress, &mut write)?,
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

/// The format that was asked for: by --format, or by how the file is called.
fn wanted(args: &Export) -> Result<Option<Format>, Problem> {
    let called = args.output.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let by_name = Format::value_variants().iter().copied().find(|it| called.as_deref() == Some(ending(*it)));
    match (args.format, by_name) {
        // A directory may be called as it likes: the file in it is named after the format.
        _ if args.output.is_dir() => Ok(args.format),
        (Some(format), Some(by_name)) if format != by_name => {
            let (file, format) = (args.output.display(), ending(format));
            let what = format!("{file} is called as {} is, and --format says {format}", ending(by_name));
            Err(Problem::new(Code::Usage, what).hint(format!("leave --format out, or name a file .{format}")))
        }
        (format, by_name) => Ok(format.or(by_name)),
    }
}

/// How a file of this format is called, behind the dot.
fn ending(format: Format) -> &'static str {
    match format {
        Format::Md => "md",
        Format::Json => "json",
        Format::Jsonl => "jsonl",
        Format::Cast => "cast",
    }
}
