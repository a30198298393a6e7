//! `berth use`: the current session of this terminal.

use berth_api::{Code, Problem};
use berth_keeper::terminal_here;
use berth_store::Terminal;
use serde::Serialize;

use crate::args::Use;
use crate::ctx::Ctx;
use crate::meant::{self, How, Meant};
use crate::print;

/// What `--json` prints.
#[derive(Serialize)]
struct Current {
    session: Option<String>,
    handle: Option<String>,
    /// Who says so: `terminal` or `BERTH_SESSION`.
    from: Option<&'static str>,
}

pub(crate) fn run(ctx: &Ctx, args: &Use) -> Result<u8, Problem> {
    if args.none {
        if ctx.session.is_some() {
            return Err(Problem::new(Code::Usage, "--none and --session do not go together")
                .hint("leave one of them out"));
        }
        return forget(ctx, args.json);
    }
    let named = args.session.as_deref().or(ctx.session.as_deref());
    let Some(named) = named else { return tell(ctx, args.json) };
    let terminal = terminal()?;
    let meant = ctx.target(Some(named))?;
    ctx.home.set_current(&terminal, &meant.id)?;
    if args.json {
        return print(Some(Meant { handle: ctx.handle(&meant.id), how: How::Terminal, ..meant }));
    }
    let handle = ctx.handle(&meant.id);
    print::note(&format!("`{handle}` is the current session of this terminal; `@` means it"));
    Ok(0)
}

/// Says which one it is.
fn tell(ctx: &Ctx, json: bool) -> Result<u8, Problem> {
    if json {
        return print(ctx.implied()?);
    }
    let meant = ctx.target(Some(meant::CURRENT))?;
    print::text(&format!("{}\n", meant.handle))?;
    if meant.how == How::Env {
        print::note("by BERTH_SESSION, which comes before the current session of a terminal");
    }
    Ok(0)
}

fn forget(ctx: &Ctx, json: bool) -> Result<u8, Problem> {
    let had_one = ctx.home.clear_current(&terminal()?)?;
    if json {
        return print(None);
    }
    print::note(if had_one {
        "this terminal has no current session any more"
    } else {
        "this terminal had no current session"
    });
    Ok(0)
}

fn print(meant: Option<Meant>) -> Result<u8, Problem> {
    let from = meant.as_ref().map(|meant| match meant.how {
        How::Env => "BERTH_SESSION",
        How::Named | How::Matched | How::Terminal => "terminal",
    });
    let (session, handle) = meant.map(|meant| (meant.id.to_string(), meant.handle)).unzip();
    print::json(&Current { session, handle, from })?;
    Ok(0)
}

/// The terminal whose current session is to be changed.
fn terminal() -> Result<Terminal, Problem> {
    terminal_here::here().ok_or_else(|| {
        if meant::variable().is_some() {
            return Problem::new(
                Code::Usage,
                "BERTH_SESSION is set: it comes before a terminal's current session, and whatever runs in a \
                 session cannot change another terminal",
            )
            .hint("unset BERTH_SESSION if you set it yourself; inside a session name the one you mean");
        }
        Problem::new(
            Code::Usage,
            "a current session belongs to a terminal, and standard input is not a person's terminal",
        )
        .hint("scripts name a session: as an argument, with --session S, or with BERTH_SESSION=S")
    })
}
