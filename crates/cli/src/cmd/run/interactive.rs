//! The questions of `berth run` at a terminal: which agent to start, and how to go on if the name is taken.
//!
//! Promise: questions are asked at a terminal only; elsewhere an error says what to type. Without an answer nothing is
//! done.
//! Start with [`choose_agent`] and [`resolve_taken_name`].

use berth_api::Problem;
use berth_core::SessionId;

use crate::agents::{AgentDefinition, AgentTable};
use crate::args::{AttachArgs, ResumeArgs, RunArgs};
use crate::cmd::{attach, resume};
use crate::consent;
use crate::ctx::CommandContext;
use crate::{print, tty};

/// True if a user is at the terminal on both sides. A script that reads the output, as `$(berth run …)` does, gets an
/// error that says what to type.
fn is_interactive(args: &RunArgs) -> bool {
    tty::is_interactive() && tty::can_ask() && !args.detach && !args.json
}

/// Asks for an agent if neither an agent nor a command was named.
pub(super) fn choose_agent(args: &mut RunArgs) -> Result<(), Problem> {
    if args.agent.agent.is_some() || !args.command.is_empty() {
        return Ok(());
    }
    let table = AgentTable::load()?;
    let names: Vec<&str> = table.iter().map(|agent| agent.name.as_str()).collect();
    let nothing = || {
        Problem::usage("no agent and no command is given").hint(format!(
            "`berth run --agent NAME` starts one of {}; `berth run -- CMD` any command",
            names.join(", ")
        ))
    };
    if !is_interactive(args) {
        return Err(nothing());
    }
    let cwd = std::env::current_dir().unwrap_or_default();
    let is_installed = |agent: &&AgentDefinition| agent.locate(&agent.command, &cwd).is_ok();
    let agents: Vec<&AgentDefinition> = table.iter().filter(is_installed).collect();
    if agents.is_empty() {
        let what = format!("none of the agents is installed: {}", names.join(", "));
        return Err(Problem::usage(what)
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
        return Err(Problem::usage(format!("`{answer}` is not one of the agents above"))
            .hint("`berth agents` lists them all"));
    };
    args.agent.agent = Some(chosen.name.clone());
    Ok(())
}

/// If the wanted name belongs to a session, asks whether to go on with that session or to replace it. Returns the exit
/// code if the command is done.
pub(super) fn resolve_taken_name(ctx: &CommandContext, args: &mut RunArgs) -> Result<Option<u8>, Problem> {
    let is_settled = args.replace.is_some() || args.key.is_some() || args.yes;
    let Some(name) = args.name.clone().filter(|_| !is_settled && is_interactive(args)) else {
        return Ok(None);
    };
    let Some(id) = ctx.home.session_named(&name)? else { return Ok(None) };
    let status = ctx.status(&id)?;
    let is_over = status.is_over();
    // A prompt is meant for a new session, so there is no offer to go on with the old one.
    let may_go_on = args.agent.prompt.is_none() && status.archived_at.is_none();
    let state = print::exit_summary(&status).unwrap_or_else(|| status.state.to_string());
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
            // This choice counts as consent.
            (args.replace, args.yes) = (Some(name), true);
            Ok(None)
        }
        other => Err(Problem::refused(format!("`{other}` is not one of the choices; nothing was done"))
            .hint(format!("another --name makes a new session beside `{name}`"))),
    }
}

fn go_on_with(ctx: &CommandContext, id: &SessionId, is_over: bool, args: &RunArgs) -> Result<u8, Problem> {
    let (session, leave) = (Some(id.to_string()), args.leave);
    if is_over {
        return resume::run(ctx, &ResumeArgs { session, leave, ..ResumeArgs::default() });
    }
    attach::run(ctx, &AttachArgs { session, leave, ..AttachArgs::default() })
}
