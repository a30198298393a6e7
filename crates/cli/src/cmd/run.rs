//! `berth run`: a command in a new session.

mod offer;

use std::ffi::OsString;

use berth_api::life::PolicyChange;
use berth_api::{Code, Connection, Problem, Status};
use berth_core::SessionId;
use berth_verbs::run::{self as verb, Made, Wanted, id_of};

use crate::args::{Leave, Run};
use crate::attached::{self, Wish};
use crate::cmd::replace::Replaced;
use crate::cmd::{output, policy, send, talk};
use crate::ctx::Ctx;
use crate::{config, print, tty, turns};

pub(crate) fn run(ctx: &Ctx, mut args: Run) -> Result<u8, Problem> {
    refuse_unknown_option(&args)?;
    offer::agent(&mut args)?;
    if let Some(code) = offer::taken_name(ctx, &mut args)? {
        return Ok(code);
    }
    let wanted = wanted(&args)?;
    let mut prepared = verb::prepare(&wanted)?;
    let takes_turns = prepared.takes_turns();
    let replaced = args.replace.as_deref();
    let replaced =
        replaced.map(|old| Replaced::agreed(ctx, old, prepared.name.as_ref(), args.yes)).transpose()?;
    prepared.name.take_if(|_| replaced.as_ref().is_some_and(Replaced::hands_on_its_name));
    let Made { status, connection, left_out, .. } = prepared.start(ctx)?;
    let Some(connection) = connection else {
        let id = id_of(&status)?;
        return again(ctx, &args, wanted.prompt, &id, status, replaced);
    };
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        print::note(&format!("in no record, and to be in the environment when it is resumed: {names}"));
    }
    let status = settle(ctx, status, replaced)?;
    let how = Stay { detach: args.detach, json: args.json, leave: args.leave };
    if !takes_turns {
        return stay(ctx, connection, &status, how);
    }
    match wanted.prompt {
        Some(prompt) => first_turn(ctx, &args, &status, prompt),
        None if tty::is_interactive() && !args.detach && !args.json => talk::talk(ctx, &id_of(&status)?),
        None => stay(ctx, connection, &status, Stay { detach: true, ..how }),
    }
}

/// What was typed.
fn wanted(args: &Run) -> Result<Wanted, Problem> {
    let variable = |pair: &String| {
        let (name, value) = pair.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some((name.to_owned(), value.to_owned()))
    };
    let env = args.env.iter().map(|pair| {
        let bad = || Problem::new(Code::Usage, format!("--env takes NAME=VALUE, not `{pair}`"));
        variable(pair).ok_or_else(bad)
    });
    let agent = &args.agent;
    Ok(Wanted {
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
        command: words(&args.command)?,
    })
}

/// What a session that runs now is to others: the current one of this terminal, and the end of the one that it
/// replaces.
fn settle(ctx: &Ctx, status: Status, replaced: Option<Replaced>) -> Result<Status, Problem> {
    let id = id_of(&status)?;
    ctx.make_current(&id);
    let Some(replaced) = replaced else { return Ok(status) };
    replaced.by(ctx, &status)?;
    // It may have another name now.
    ctx.status(&id)
}

/// A mistyped option would be run as a program, or given to the agent: whoever means that writes `--` before it.
fn refuse_unknown_option(args: &Run) -> Result<(), Problem> {
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
    Err(Problem::new(Code::Usage, what)
        .hint("`berth run --help` lists them; what is for the command, or for the agent, follows `--`"))
}

/// The turn a session was started for.
fn first_turn(ctx: &Ctx, args: &Run, status: &Status, text: String) -> Result<u8, Problem> {
    let id = id_of(status)?;
    if !args.detach {
        print::note(&format!("session {}", status.handle()));
    }
    let submit = verb::first_turn(args.key.as_deref(), text, !args.detach);
    let (connection, receipt) = turns::send(ctx, &id, submit)?;
    let outcome = if !args.detach {
        send::watch(ctx, &id, receipt.number, connection, args.json)
    } else if args.json {
        ctx.status(&id).and_then(|status| print::json(&status)).map(|()| 0)
    } else {
        print::text(&format!("{id}\n")).map(|()| 0)
    };
    outcome.map_err(|problem| send::accepted(problem, &receipt, args.key.as_deref(), false))
}

/// How a start is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    pub(crate) detach: bool,
    pub(crate) json: bool,
    pub(crate) leave: Leave,
}

/// What follows a start, for `run` and `resume` alike.
pub(crate) fn stay(ctx: &Ctx, connection: Connection, status: &Status, how: Stay) -> Result<u8, Problem> {
    match (how.detach, how.json) {
        (true, true) => print::json(status),
        (true, false) => print::text(&format!("{}\n", status.id)),
        (false, _) => return follow(ctx, connection, status, how),
    }
    .map_err(|problem| runs(problem, &status.id))?;
    Ok(0)
}

/// Adds to a problem that the session runs: its id could not be printed.
fn runs(problem: Problem, id: impl std::fmt::Display) -> Problem {
    problem.hint(format!("session {id} runs; end it with `berth stop {id}`"))
}

fn follow(ctx: &Ctx, connection: Connection, status: &Status, how: Stay) -> Result<u8, Problem> {
    let id = id_of(status)?;
    if tty::is_interactive() && !how.json {
        let wish = Wish::new(berth_api::message::Role::Writer, how.leave.leave_key);
        return attached::attach(ctx, &id, Some(connection), wish);
    }
    drop(connection);
    if how.json {
        let ended = crate::cmd::wait::until_exit(ctx, &id, None)?;
        print::json(&ended)?;
        return crate::cmd::wait::exit_code(&ended);
    }
    output::stream_to_end(ctx, &id)
}

/// A repeated call with a known key: the same session, whatever became of it.
fn again(
    ctx: &Ctx,
    args: &Run,
    prompt: Option<String>,
    id: &SessionId,
    mut status: Status,
    replaced: Option<Replaced>,
) -> Result<u8, Problem> {
    if let Some(replaced) = replaced {
        if status.is_over() {
            let what = format!("session {id}, which the key means, is {}: it replaces nothing", status.state);
            return Err(Problem::new(Code::Refused, what)
                .hint(format!("`berth resume {id}` starts it again; another key makes a new one")));
        }
        status = settle(ctx, status, Some(replaced))?;
    }
    if let (Some(_), Some(prompt)) = (&status.turns, prompt) {
        return first_turn(ctx, args, &status, prompt);
    }
    match (args.detach || !status.what.has_terminal(), args.json) {
        (true, true) => print::json(&status).map(|()| 0).map_err(|problem| runs(problem, id)),
        (true, false) => print::text(&format!("{id}\n")).map(|()| 0).map_err(|problem| runs(problem, id)),
        (false, _) => match ctx.keeper_of(id)? {
            Some(connection) => {
                let how = Stay { detach: args.detach, json: args.json, leave: args.leave };
                follow(ctx, connection, &status, how)
            }
            None => output::stream_to_end(ctx, id),
        },
    }
}

/// A command as it is recorded.
pub(crate) fn words(command: &[OsString]) -> Result<Vec<String>, Problem> {
    let word = |word: &OsString| {
        let text = word.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            Problem::new(Code::Usage, format!("{word:?} is not UTF-8; berth records commands as text"))
        })
    };
    command.iter().map(word).collect()
}
