//! `berth use`: prints, sets and clears the current session of this terminal.

use berth_api::Problem;
use berth_procs::own_terminal;
use berth_store::TerminalIdentity;
use serde::Serialize;

use crate::args::UseArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::target_session::{self, TargetSession, TargetSource};

/// The object of `--json`.
#[derive(Serialize)]
struct CurrentSessionOutput {
    session: Option<String>,
    handle: Option<String>,
    /// The source of the current session: `terminal` or `BERTH_SESSION`; `None` without one.
    from: Option<&'static str>,
}

pub(crate) fn run(ctx: &CommandContext, args: &UseArgs) -> Result<u8, Problem> {
    if args.none {
        if ctx.session.is_some() {
            return Err(
                Problem::usage("--none and --session do not go together").hint("leave one of them out")
            );
        }
        return forget(ctx, args.json);
    }
    let named = args.session.as_deref().or(ctx.session.as_deref());
    let Some(named) = named else { return tell(ctx, args.json) };
    let terminal = terminal()?;
    let meant = ctx.target(Some(named))?;
    ctx.home.set_current(&terminal, &meant.id)?;
    if args.json {
        return print(Some(TargetSession {
            handle: ctx.handle(&meant.id),
            how: TargetSource::Terminal,
            ..meant
        }));
    }
    let handle = ctx.handle(&meant.id);
    print::note(&format!("`{handle}` is the current session of this terminal; `@` means it"));
    Ok(0)
}

/// Prints the current session.
fn tell(ctx: &CommandContext, json: bool) -> Result<u8, Problem> {
    if json {
        return print(ctx.current_session()?);
    }
    let meant = ctx.target(Some(target_session::CURRENT))?;
    print::text(&format!("{}\n", meant.handle))?;
    if meant.how == TargetSource::Env {
        print::note("from BERTH_SESSION, which overrides the current session of a terminal");
    }
    Ok(0)
}

fn forget(ctx: &CommandContext, json: bool) -> Result<u8, Problem> {
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

fn print(meant: Option<TargetSession>) -> Result<u8, Problem> {
    let from = meant.as_ref().map(|meant| match meant.how {
        TargetSource::Env => "BERTH_SESSION",
        TargetSource::Named | TargetSource::Matched | TargetSource::Terminal => "terminal",
    });
    let (session, handle) = meant.map(|meant| (meant.id.to_string(), meant.handle)).unzip();
    print::json(&CurrentSessionOutput { session, handle, from })?;
    Ok(0)
}

/// The terminal whose current session is to be changed.
fn terminal() -> Result<TerminalIdentity, Problem> {
    own_terminal::own_terminal().ok_or_else(|| {
        if target_session::session_from_env().is_some() {
            return Problem::usage(
                "BERTH_SESSION is set: it overrides a terminal's current session, and a process in a \
                 session cannot change another terminal",
            )
            .hint("unset BERTH_SESSION if you set it yourself; inside a session name the one you mean");
        }
        Problem::usage(
            "a current session belongs to a terminal, and standard input is not a person's terminal",
        )
        .hint("scripts name a session: as an argument, with --session S, or with BERTH_SESSION=S")
    })
}
