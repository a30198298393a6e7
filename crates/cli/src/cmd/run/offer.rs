//! What `berth run` offers to a person at a terminal: agents to choose from, and what to do about a name that is taken.
//!
//! Promise: nobody is asked off a terminal; there the error says what to type. No answer means that nothing is done.
//! Start with [`agent`] and [`taken_name`].

use berth_api::{Code, Problem};
use berth_core::SessionId;

use crate::agents::{Agent, Table};
use crate::args::{Attach, Resume, Run};
use crate::cmd::{attach, resume};
use crate::consent;
use crate::ctx::Ctx;
use crate::{print, tty};

/// Whether a person is there for the session itself: a script that reads the output, as `$(berth run …)` does, is told
/// what to type.
fn may_offer(args: &Run) -> bool {
    tty::is_interactive() && tty::can_ask() && !args.detach && !args.json
}

/// Chooses an agent if neither an agent nor a command was named.
pub(super) fn agent(args: &mut Run) -> Result<(), Problem> {
    if args.agent.agent.is_some() || !args.command.is_empty() {
        return Ok(());
    }
    let table = Table::load()?;
    let names: Vec<&str> = table.iter().map(|agent| agent.name.as_str()).collect();
    let nothing = || {
        Problem::new(Code::Usage, "there is nothing to run: neither an agent nor a command was named").hint(
            format!(
                "`berth run --agent NAME` starts one of {}; `berth run -- CMD` any command",
                names.join(", ")
            ),
        )
    };
    if !may_offer(args) {
        return Err(nothing());
    }
    let cwd = std::env::current_dir().unwrap_or_default();
    let is_installed = |agent: &&Agent| agent.locate(&agent.command, &cwd).is_ok();
    let agents: Vec<&Agent> = table.iter().filter(is_installed).collect();
    if agents.is_empty() {
        let what = format!("none of the agents is installed: {}", names.join(", "));
        return Err(Problem::new(Code::Usage, what)
            .hint("`berth agents` tells how to install one; `berth run -- CMD` starts any command"));
    }
    let widest = agents.iter().map(|agent| agent.name.len()).max().unwrap_or_default();
    let rows = agents.iter().enumerate().map(|(at, agent)| {
        let about = agent.about.as_deref().unwrap_or_default();
        format!("  {}  {:widest$}  {about}", at + 1, agent.name).trim_end().to_owned()
    });
    let rows: Vec<String> = rows.collect();
    let answer = consent::choose(&format!(
        "Agents on this host:\n{}\nWhich one? A number or a name; Enter for none: ",
        rows.join("\n")
    ))?;
    let chosen = match answer.parse::<usize>() {
        Ok(number) => number.checked_sub(1).and_then(|at| agents.get(at).copied()),
        Err(_) => agents.iter().copied().find(|agent| agent.name == answer),
    };
    let Some(chosen) = chosen else {
        return Err(Problem::new(Code::Usage, format!("`{answer}` is not one of the agents above"))
            .hint("`berth agents` lists them all"));
    };
    args.agent.agent = Some(chosen.name.clone());
    Ok(())
}

/// Asks what to do if the wanted name belongs to a session: go on with that one, or replace it. The exit code, if
/// that was all there is to do.
pub(super) fn taken_name(ctx: &Ctx, args: &mut Run) -> Result<Option<u8>, Problem> {
    let is_settled = args.replace.is_some() || args.key.is_some() || args.yes;
    let Some(name) = args.name.clone().filter(|_| !is_settled && may_offer(args)) else { return Ok(None) };
    let Some(id) = ctx.home.session_named(&name)? else { return Ok(None) };
    let status = ctx.status(&id)?;
    let is_over = status.is_over();
    // A prompt is for the new session.
    let may_go_on = args.agent.prompt.is_none() && status.archived_at.is_none();
    let state = print::ending(&status).unwrap_or_else(|| status.state.to_string());
    let go_on = if is_over { "  r  resume it\n" } else { "  a  attach to it\n" };
    let replace = if is_over {
        "replace it; it keeps its record under another name"
    } else {
        "replace it; it ends when the new one runs, and keeps its record under another name"
    };
    let question = format!(
        "Session `{name}` exists already ({state}).\n{}  p  {replace}\nWhich? Enter for neither: ",
        if may_go_on { go_on } else { "" }
    );
    match consent::choose(&question)?.to_ascii_lowercase().as_str() {
        "r" | "resume" | "a" | "attach" if may_go_on => go_on_with(ctx, &id, is_over, args).map(Some),
        "p" | "replace" => {
            // The choice is the yes.
            (args.replace, args.yes) = (Some(name), true);
            Ok(None)
        }
        other => {
            Err(Problem::new(Code::Refused, format!("`{other}` is not one of the choices; nothing was done"))
                .hint(format!("another --name makes a new session beside `{name}`")))
        }
    }
}

fn go_on_with(ctx: &Ctx, id: &SessionId, is_over: bool, args: &Run) -> Result<u8, Problem> {
    let (session, leave) = (Some(id.to_string()), args.leave);
    if is_over {
        return resume::run(ctx, &Resume { session, leave, ..Resume::default() });
    }
    attach::run(ctx, &Attach { session, leave, ..Attach::default() })
}
