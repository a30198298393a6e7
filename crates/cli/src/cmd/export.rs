//! `berth export`: a session as a file for others.

use berth_api::{Code, Problem};

use crate::args::{Export, Format};
use crate::ctx::Ctx;
use crate::export::{Exported, Target, cast, events, markdown};
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Export) -> Result<u8, Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    let session = Exported::load(ctx, &id, args.run)?;
    let usual = if session.takes_turns() { Format::Md } else { Format::Cast };
    let format = args.format.unwrap_or(usual);
    if format == Format::Cast && session.takes_turns() {
        let what = format!("session `{}` has no terminal to play back", session.status.handle());
        return Err(Problem::new(Code::Usage, what).hint("its agent takes turns; `--format md` has them"));
    }
    if format != Format::Cast && args.idle_limit.is_some() {
        return Err(Problem::new(Code::Usage, "only a recording has pauses")
            .hint("use `--idle-limit` with `--format cast`"));
    }
    let ending = match format {
        Format::Md => "md",
        Format::Json => "json",
        Format::Jsonl => "jsonl",
        Format::Cast => "cast",
    };
    let name = format!("{}.{ending}", session.status.name.as_deref().unwrap_or(id.as_str()));
    let mut target = Target::open(&args.output, &name, args.force)?;
    match format {
        Format::Md => markdown(&session, &mut target)?,
        Format::Json => events(&session, true, &mut target)?,
        Format::Jsonl => events(&session, false, &mut target)?,
        Format::Cast => cast(&session, args.idle_limit, &mut target)?,
    }
    let path = target.path.clone();
    target.finish()?;
    if let Some(path) = path {
        print::note(&format!("written to {}", path.display()));
    }
    let Some(damage) = &session.damage else { return Ok(0) };
    print::problem(damage);
    Ok(damage.code.exit_code())
}
