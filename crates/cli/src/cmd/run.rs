//! `berth run`: starts an agent or a command in a new session.
//!
//! Promise: a repeated call with a known key starts no second session.
//! Not here: ending a replaced session (see `replace`).
//! Start with [`run`].

mod interactive;

use std::ffi::OsString;

use berth_api::policy_change::PolicyChange;
use berth_api::{KeeperConnection, Problem, SessionStatus};
use berth_core::SessionId;
use berth_verbs::run::{self as verb, RunRequest, StartedSession, id_of};

use crate::args::{LeaveKeyArgs, RunArgs};
use crate::attachment::{self, AttachOptions};
use crate::chat;
use crate::cmd::replace::ReplacedSession;
use crate::cmd::{policy, send};
use crate::ctx::CommandContext;
use crate::{config, print, tty};

pub(crate) fn run(ctx: &CommandContext, mut args: RunArgs) -> Result<u8, Problem> {
    refuse_unknown_option(&args)?;
    interactive::choose_agent(&mut args)?;
    if let Some(code) = interactive::resolve_taken_name(ctx, &mut args)? {
        return Ok(code);
    }
    let wanted = start_request(&args)?;
    let mut prepared = verb::prepare(&wanted)?;
    let takes_turns = prepared.takes_turns();
    let replaced = args.replace.as_deref();
    let replaced = replaced
        .map(|old| ReplacedSession::confirm(ctx, old, prepared.name.as_ref(), args.yes))
        .transpose()?;
    prepared.name.take_if(|_| replaced.as_ref().is_some_and(ReplacedSession::transfers_name));
    let StartedSession { status, connection, left_out, .. } = prepared.start(ctx)?;
    let Some(connection) = connection else {
        let id = id_of(&status)?;
        return repeated_start(ctx, &args, wanted.prompt, &id, status, replaced);
    };
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        print::note(&format!(
            "variables not stored in the record, which `berth resume` takes from its environment: {names}"
        ));
    }
    let status = finish_start(ctx, status, replaced)?;
    let how = StartFollowOptions { detach: args.detach, json: args.json, leave: args.leave };
    if !takes_turns {
        return follow_start(ctx, connection, &status, how);
    }
    match wanted.prompt {
        Some(prompt) => first_turn(ctx, &args, &status, prompt),
        None if tty::is_interactive() && !args.detach && !args.json => chat::run_chat(ctx, &id_of(&status)?),
        None => follow_start(ctx, connection, &status, StartFollowOptions { detach: true, ..how }),
    }
}

/// The session that the arguments describe.
fn start_request(args: &RunArgs) -> Result<RunRequest, Problem> {
    let variable = |pair: &String| {
        let (name, value) = pair.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some((name.to_owned(), value.to_owned()))
    };
    let env = args.env.iter().map(|pair| {
        let bad = || Problem::usage(format!("--env takes NAME=VALUE, not `{pair}`"));
        variable(pair).ok_or_else(bad)
    });
    let agent = &args.agent;
    Ok(RunRequest {
        name: args.name.clone(),
        cwd: args.cwd.clone(),
        env: env.collect::<Result<_, _>>()?,
        key: args.key.clone(),
        agent: agent.agent.clone(),
        tui: agent.tui,
        resume: agent.resume.clone(),
        take: agent.take,
        prompt: agent.prompt.as_ref().map(|prompt| send::text(&[prompt.to_owned()])).transpose()?,
        policy: PolicyChange {
            idle: agent.idle.unwrap_or_default(),
            ttl: agent.ttl.unwrap_or_default(),
            archive_after: args.sorting.archive_after.unwrap_or_default(),
            on_unknown: agent.on_unknown.map(policy::on_unknown),
            on_failed: agent.on_failed.map(policy::on_failed),
            notify: None,
        },
        limits: (&args.limits).into(),
        tags: args.sorting.tag.clone(),
        note: args.sorting.note.clone(),
        notify: args.notify.clone(),
        grant: args.grant.unwrap_or_default(),
        command: recorded_command(&args.command)?,
    })
}

/// Makes a session that runs now the current one of this terminal, and ends the session that it replaces.
fn finish_start(
    ctx: &CommandContext,
    status: SessionStatus,
    replaced: Option<ReplacedSession>,
) -> Result<SessionStatus, Problem> {
    let id = id_of(&status)?;
    berth_tui::current_session::set_current_session(&ctx.home, &id);
    let Some(replaced) = replaced else { return Ok(status) };
    replaced.complete(ctx, &status)?;
    // The session may have taken over a name.
    ctx.status(&id)
}

/// Rejects an unknown option, which would otherwise be run as a program or given to the agent. After `--` any word is
/// allowed.
fn refuse_unknown_option(args: &RunArgs) -> Result<(), Problem> {
    let given = args.command.first().and_then(|word| word.to_str()).filter(|word| word.starts_with('-'));
    let at = |word: &str| std::env::args_os().position(|given| given == word).unwrap_or(usize::MAX);
    let Some(given) = given.filter(|given| at(given) < at("--")) else { return Ok(()) };
    let command = crate::help::command();
    let known: Vec<String> = command
        .find_subcommand("run")
        .into_iter()
        .flat_map(|run| run.get_arguments().filter_map(|option| Some(format!("--{}", option.get_long()?))))
        .collect();
    let what = format!("`berth run` has no option `{given}`{}", config::did_you_mean(given, &known));
    Err(Problem::usage(what)
        .hint("`berth run --help` lists the options; arguments for the command or the agent follow `--`"))
}

/// Sends the first turn, which `--prompt` gave, and follows it unless `--detach` was given.
fn first_turn(
    ctx: &CommandContext,
    args: &RunArgs,
    status: &SessionStatus,
    text: String,
) -> Result<u8, Problem> {
    let id = id_of(status)?;
    if !args.detach {
        print::note(&format!("session {}", status.handle()));
    }
    let submit = verb::first_turn(args.key.as_deref(), text, !args.detach);
    let (connection, receipt) = ctx.session(&id).send(submit)?;
    let outcome = if !args.detach {
        crate::turn_watch::watch_turn(ctx, &id, receipt.number, connection, args.json)
    } else if args.json {
        ctx.status(&id).and_then(|status| print::json(&status)).map(|()| 0)
    } else {
        print::text(&format!("{id}\n")).map(|()| 0)
    };
    outcome.map_err(|problem| send::accepted(problem, &receipt, args.key.as_deref(), false))
}

/// How a command goes on after a session has started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartFollowOptions {
    pub(crate) detach: bool,
    pub(crate) json: bool,
    pub(crate) leave: LeaveKeyArgs,
}

/// Prints the session, attaches to it or streams its output, after a start by `run`, `resume`, `fork` or `adopt`.
pub(crate) fn follow_start(
    ctx: &CommandContext,
    connection: KeeperConnection,
    status: &SessionStatus,
    how: StartFollowOptions,
) -> Result<u8, Problem> {
    match (how.detach, how.json) {
        (true, true) => print::json(status),
        (true, false) => print::text(&format!("{}\n", status.id)),
        (false, _) => return follow(ctx, connection, status, how),
    }
    .map_err(|problem| but_session_runs(problem, &status.id))?;
    Ok(0)
}

/// Adds the session's id to a problem, because the session runs and its id could not be printed.
fn but_session_runs(problem: Problem, id: impl std::fmt::Display) -> Problem {
    problem.hint(format!("session {id} runs; end it with `berth stop {id}`"))
}

fn follow(
    ctx: &CommandContext,
    connection: KeeperConnection,
    status: &SessionStatus,
    how: StartFollowOptions,
) -> Result<u8, Problem> {
    let id = id_of(status)?;
    if tty::is_interactive() && !how.json {
        let options = AttachOptions::new(berth_api::message::AttachMode::Writer, how.leave.leave_key);
        return attachment::attach(ctx, &id, Some(connection), options);
    }
    drop(connection);
    if how.json {
        let ended = crate::cmd::wait::until_exit(ctx, &id, None)?;
        print::json(&ended)?;
        return berth_verbs::wait::exit_code(&ended);
    }
    crate::output_stream::stream_to_end(ctx, &id)
}

/// Handles a repeated call with a known key: goes on with the session of that key, in any state.
fn repeated_start(
    ctx: &CommandContext,
    args: &RunArgs,
    prompt: Option<String>,
    id: &SessionId,
    mut status: SessionStatus,
    replaced: Option<ReplacedSession>,
) -> Result<u8, Problem> {
    if let Some(replaced) = replaced {
        if status.is_over() {
            let what = format!(
                "session {id}, to which the key belongs, is {}: no session was replaced",
                status.state
            );
            return Err(Problem::refused(what)
                .hint(format!("`berth resume {id}` starts it again; another key makes a new one")));
        }
        status = finish_start(ctx, status, Some(replaced))?;
    }
    if let (Some(_), Some(prompt)) = (&status.turns, prompt) {
        return first_turn(ctx, args, &status, prompt);
    }
    match (args.detach || !status.what.has_terminal(), args.json) {
        (true, true) => print::json(&status).map(|()| 0).map_err(|problem| but_session_runs(problem, id)),
        (true, false) => {
            print::text(&format!("{id}\n")).map(|()| 0).map_err(|problem| but_session_runs(problem, id))
        }
        (false, _) => match ctx.keeper_of(id)? {
            Some(connection) => {
                let how = StartFollowOptions { detach: args.detach, json: args.json, leave: args.leave };
                follow(ctx, connection, &status, how)
            }
            None => crate::output_stream::stream_to_end(ctx, id),
        },
    }
}

/// A command as text, which is how records store it.
pub(crate) fn recorded_command(command: &[OsString]) -> Result<Vec<String>, Problem> {
    let word = |word: &OsString| {
        let text = word.to_str().map(str::to_owned);
        text.ok_or_else(|| Problem::usage(format!("{word:?} is not UTF-8; berth records commands as text")))
    };
    command.iter().map(word).collect()
}
