//! `berth run`: a command in a new session.

use std::ffi::OsString;
use std::path::Path;

use berth_api::life::PolicyChange;
use berth_api::message::{Answer, Request, Submit};
use berth_api::record::Spec;
use berth_api::turn::Origin;
use berth_api::{Code, Connection, Problem, Status, redact};
use berth_core::{MAX_PROMPT_BYTES, Name, Refusal, SessionId};
use berth_keeper::keeper::last_complaints;
use berth_keeper::{conversations, names::NamesLock, start, turn, view};

use crate::agents::{Driver, Table, TuiBegin};
use crate::args::Run;
use crate::attached;
use crate::cmd::replace::Replaced;
use crate::cmd::{output, policy, send, stop, talk};
use crate::config::Config;
use crate::ctx::Ctx;
use crate::{config, life, print, tty, turns};

/// The longest key. Each byte may take three in a file name, and a file name has 255.
const MAX_KEY_BYTES: usize = 76;

pub(crate) fn run(ctx: &Ctx, args: Run) -> Result<u8, Problem> {
    refuse_unknown_option(&args)?;
    let name = args.name.as_deref().map(Name::parse).transpose();
    let name = name.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
    let tags = life::tags(&args.sorting.tag)?;
    let spec = match &args.agent.agent {
        Some(agent) => agent_spec(&args, agent)?,
        None => spec(&args)?,
    };
    let takes_turns = !matches!(spec.driver.as_str(), "pty");
    let replaced = args.replace.as_deref();
    let replaced = replaced.map(|old| Replaced::agreed(ctx, old, name.as_ref(), args.yes)).transpose()?;
    let name = name.filter(|_| !replaced.as_ref().is_some_and(Replaced::hands_on_its_name));
    // Held until the session itself says its name and key, so that nobody can claim them between.
    let lock_names = || (name.is_some() || spec.key.is_some()).then(|| ctx.home.lock_names()).transpose();
    let keyed = || spec.key.as_deref().map(|key| ctx.home.session_keyed(key)).transpose();
    let mut lock = lock_names()?;
    while let Some(id) = keyed()?.flatten() {
        drop(lock.take());
        match made_before(ctx, &id, &spec) {
            Ok(status) => return again(ctx, &args, &id, status, replaced),
            // It was purged since its key was looked up, and the key with it.
            Err(problem) if problem.code == Code::NotFound && !ctx.home.session_dir(&id).exists() => {
                lock = lock_names()?;
            }
            Err(problem) => return Err(problem),
        }
    }
    let (spec, secrets) = without_secrets(spec);
    let asked = Asked {
        name: name.as_ref(),
        lock: lock.as_ref(),
        take: args.agent.take,
        secrets: &secrets,
        tags: &tags,
        note: args.sorting.note.as_deref(),
    };
    let prompt = args.agent.prompt.as_deref().map(first_prompt).transpose()?;
    if let Origin::Resumed(native) = &spec.origin {
        conversations::heal_last_writer(&ctx.home, &spec.conversation, native);
    }
    let (connection, status) = begin(ctx, spec, &asked)?;
    drop(lock);
    let left_out: Vec<&str> = secrets.iter().map(|(name, _)| name.as_str()).collect();
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        print::note(&format!("in no record, and to be in the environment when it is resumed: {names}"));
    }
    let (connection, status) = await_agent(ctx, connection, status)?;
    let status = settle(ctx, status, replaced)?;
    if !takes_turns {
        return stay(ctx, connection, &status, args.detach, args.json);
    }
    match prompt {
        Some(prompt) => first_turn(ctx, &args, &status, prompt),
        None if tty::is_interactive() && !args.detach && !args.json => talk::talk(ctx, &id_of(&status)?),
        None => stay(ctx, connection, &status, true, args.json),
    }
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

/// Takes what looks like a secret out of what is recorded. It reaches the agent all the same.
fn without_secrets(mut spec: Spec) -> (Spec, Vec<(String, String)>) {
    let all = std::mem::take(&mut spec.env);
    let (secrets, env) = all.into_iter().partition(|(name, value)| redact::is_secret_variable(name, value));
    spec.env = env;
    (spec, secrets)
}

/// What a new session is given besides what it runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) name: Option<&'a Name>,
    pub(crate) lock: Option<&'a NamesLock>,
    /// End whoever else writes its conversation.
    pub(crate) take: bool,
    /// Variables that are in no record.
    pub(crate) secrets: &'a [(String, String)],
    /// What people sort it by.
    pub(crate) tags: &'a [Name],
    /// What somebody wrote about it.
    pub(crate) note: Option<&'a str>,
}

/// Waits until the agent takes turns. One that does not is told with the reason; its record stays.
pub(crate) fn await_agent(
    ctx: &Ctx,
    mut connection: Connection,
    started: Status,
) -> Result<(Connection, Status), Problem> {
    if started.turns.is_none() {
        return Ok((connection, started));
    }
    let id = id_of(&started)?;
    loop {
        let lost = match connection.ask(Request::AwaitAgent) {
            Ok(Answer::Done { status }) => return Ok((connection, *status)),
            Ok(other) => return Err(turns::odd(&other)),
            Err(problem) if problem.code == Code::Unreachable => problem,
            Err(problem) => return Err(problem),
        };
        // An agent that ends at once is over, keeper and all, before we have asked; or the keeper was replaced.
        let Some(keeper) = ctx.keeper_of(&id)? else {
            let status = ctx.status(&id)?;
            if status.state == "idle" {
                // It took turns, and was released because there were none.
                return Ok((connection, status));
            }
            let is_over = status.exit.is_some() || status.released.is_some() || status.failure.is_some();
            let why = turn::unusable(&status, &last_complaints(&ctx.home.session_dir(&id)));
            return Err(if is_over { why } else { lost });
        };
        connection = keeper;
    }
}

/// The first prompt, looked at before anything is made for it.
fn first_prompt(prompt: &str) -> Result<String, Problem> {
    let text = send::text(&[prompt.to_owned()])?;
    let refusal = if text.trim().is_empty() {
        Refusal::EmptyPrompt
    } else if text.len() > MAX_PROMPT_BYTES {
        Refusal::PromptTooLong { bytes: text.len(), limit: MAX_PROMPT_BYTES }
    } else {
        return Ok(text);
    };
    Err(berth_api::problem::refusal(&refusal, ""))
}

/// The turn a session was started for.
fn first_turn(ctx: &Ctx, args: &Run, status: &Status, text: String) -> Result<u8, Problem> {
    let id = id_of(status)?;
    // A repeated call with the same key finds the same turn, too.
    let key = args.key.as_ref().map(|key| format!("run {key}"));
    if !args.detach {
        print::note(&format!("session {}", status.handle()));
    }
    let submit = Submit { text, key, waits: !args.detach, ..Submit::default() };
    let (connection, receipt) = turns::send(ctx, &id, submit)?;
    if !args.detach {
        return send::watch(ctx, &id, receipt.number, connection, args.json);
    }
    if args.json {
        print::json(&ctx.status(&id)?)?;
    } else {
        print::text(&format!("{id}\n"))?;
    }
    Ok(0)
}

/// Whether two calls with one key ask for the same. An id that we gave a conversation is another each time.
fn is_same(made: &Spec, asked: &Spec) -> bool {
    let words = |spec: &Spec| -> Vec<String> {
        let named = match &spec.origin {
            Origin::Named(id) => Some(id.clone()),
            Origin::New | Origin::Resumed(_) | Origin::Forked(_) => None,
        };
        spec.command.iter().filter(|word| Some(*word) != named.as_ref()).cloned().collect()
    };
    let same_origin = match (&made.origin, &asked.origin) {
        (Origin::Named(_), Origin::Named(_)) => true,
        (one, other) => one == other,
    };
    same_origin && (&made.driver, &made.cwd, words(made)) == (&asked.driver, &asked.cwd, words(asked))
}

fn id_of(status: &Status) -> Result<SessionId, Problem> {
    SessionId::parse(&status.id).ok_or_else(|| Problem::new(Code::Bug, "the keeper gave no id"))
}

/// What follows a start, for `run` and `resume` alike.
pub(crate) fn stay(
    ctx: &Ctx,
    connection: Connection,
    status: &Status,
    detach: bool,
    json: bool,
) -> Result<u8, Problem> {
    match (detach, json) {
        (true, true) => print::json(status),
        (true, false) => print::text(&format!("{}\n", status.id)),
        (false, _) => return follow(ctx, connection, status, json),
    }
    .map_err(|problem| problem.hint(format!("session {0} runs; end it with `berth stop {0}`", status.id)))?;
    Ok(0)
}

fn follow(ctx: &Ctx, connection: Connection, status: &Status, json: bool) -> Result<u8, Problem> {
    let id = id_of(status)?;
    if tty::is_interactive() && !json {
        return attached::attach(ctx, &id, Some(connection), berth_api::message::Role::Writer);
    }
    drop(connection);
    if json {
        let ended = crate::cmd::wait::until_exit(ctx, &id, None)?;
        print::json(&ended)?;
        return crate::cmd::wait::exit_code(&ended);
    }
    output::stream_to_end(ctx, &id)
}

/// The session that a key already means, if it is of the same kind.
fn made_before(ctx: &Ctx, id: &SessionId, spec: &Spec) -> Result<Status, Problem> {
    let status = ctx.status(id)?;
    let made = view::history(&ctx.home, id)?.session.spec.map(Spec::from).unwrap_or_default();
    if !is_same(&made, spec) {
        let key = spec.key.as_deref().unwrap_or_default();
        return Err(Problem::new(
            Code::Refused,
            format!(
                "the key `{key}` belongs to session {id}, which runs something else: {}",
                print::command_line(&status.what.command, 60)
            ),
        )
        .hint("use another key for another command"));
    }
    Ok(status)
}

/// A repeated call with a known key: the same session, whatever became of it.
fn again(
    ctx: &Ctx,
    args: &Run,
    id: &SessionId,
    mut status: Status,
    replaced: Option<Replaced>,
) -> Result<u8, Problem> {
    if let Some(replaced) = replaced {
        if stop::is_over(&status) {
            let what = format!("session {id}, which the key means, is {}: it replaces nothing", status.state);
            return Err(Problem::new(Code::Refused, what)
                .hint(format!("`berth resume {id}` starts it again; another key makes a new one")));
        }
        status = settle(ctx, status, Some(replaced))?;
    }
    if let (Some(_), Some(prompt)) = (&status.turns, &args.agent.prompt) {
        return first_turn(ctx, args, &status, first_prompt(prompt)?);
    }
    match (args.detach || status.turns.is_some(), args.json) {
        (true, true) => print::json(&status).map(|()| 0),
        (true, false) => print::text(&format!("{id}\n")).map(|()| 0),
        (false, _) => match ctx.keeper_of(id)? {
            Some(connection) => follow(ctx, connection, &status, args.json),
            None => output::stream_to_end(ctx, id),
        },
    }
}

pub(crate) fn begin(ctx: &Ctx, spec: Spec, asked: &Asked<'_>) -> Result<(Connection, Status), Problem> {
    let Asked { name, lock, take, secrets, tags, note } = *asked;
    let id = ctx.home.mint().map_err(|error| {
        Problem::new(
            Code::Refused,
            format!("cannot make a session in {}: {error}", ctx.home.root().display()),
        )
    })?;
    let spec = Spec { parent: session_around(ctx).map(|id| id.to_string()), ..spec };
    let key = spec.key.clone();
    let started = (|| {
        if let (Some(lock), Some(name)) = (lock, name) {
            lock.claim_name(name, &id)?;
        }
        if let (Some(lock), Some(key)) = (lock, &key) {
            lock.claim_key(key, &id)?;
        }
        let size = tty::size().unwrap_or_default();
        let tags = tags.iter().map(ToString::to_string).collect();
        let note = note.map(str::to_owned);
        let create = Request::Create { spec, name: name.map(ToString::to_string), size, take, tags, note };
        start::keeper_with(&ctx.home, &id, create, tty::place(), secrets)
    })();
    if started.is_err() {
        // The keeper removes what it made. If it never ran, the empty directories are ours.
        ctx.home.unmint(&id);
        // A keeper that died on the way may have left a session, and then name and key are its own.
        let left = ctx.home.session_dir(&id).exists();
        if let (Some(lock), Some(name), false) = (lock, name, left) {
            lock.drop_name(name, &id);
        }
        if let (Some(lock), Some(key), false) = (lock, &key, left) {
            lock.drop_key(key, &id);
        }
    }
    started
}

/// The session whose run this command is part of. Anybody may set BERTH_SESSION to mean a session; a run has
/// both marks.
fn session_around(ctx: &Ctx) -> Option<SessionId> {
    let id = std::env::var("BERTH_SESSION").ok().and_then(|id| SessionId::parse(&id))?;
    let run = std::env::var(berth_keeper::recover::MARK).ok()?;
    let is_its_run = run.strip_prefix(id.as_str()).is_some_and(|epoch| epoch.starts_with(':'));
    (is_its_run && ctx.home.session_dir(&id).is_dir()).then_some(id)
}

/// What an agent from the table runs.
fn agent_spec(args: &Run, name: &str) -> Result<Spec, Problem> {
    let table = Table::load()?;
    let agent = table.find(name)?;
    let options = &args.agent;
    let base = spec(args)?;
    let extra = base.command.clone();
    let is_tui = options.tui || agent.driver == Driver::Pty;
    if is_tui && options.prompt.is_some() {
        let what = format!("agent `{name}` has a terminal and takes no turns");
        return Err(Problem::new(Code::Usage, what).hint("leave --prompt out, and type it"));
    }
    let mut again = Vec::new();
    let (command, driver, origin) = if !is_tui {
        let origin = options.resume.clone().map_or(Origin::New, Origin::Resumed);
        (agent.structured_command(&extra), agent.driver.name(), origin)
    } else if let Some(id) = &options.resume {
        (agent.tui_command(TuiBegin::Resume(id), &extra)?, "pty", Origin::Resumed(id.clone()))
    } else if agent.begin_tui.is_some() && agent.resume_tui.is_some() {
        let id = turns::uuid()?;
        again = agent.tui_command(TuiBegin::Resume(&id), &extra)?;
        (agent.tui_command(TuiBegin::FreshAs(&id), &extra)?, "pty", Origin::Named(id))
    } else {
        let tui = if agent.tui.is_some() || agent.driver != Driver::Pty {
            agent.tui_command(TuiBegin::Fresh, &extra)?
        } else {
            agent.structured_command(&extra)
        };
        (tui, "pty", Origin::New)
    };
    let program = agent.locate(&command, Path::new(&base.cwd))?;
    // Where it is now: whoever starts it again may have another PATH.
    let absolute = |mut command: Vec<String>| {
        if let (Some(first), Some(path)) = (command.first_mut(), program.to_str()) {
            *first = path.to_owned();
        }
        command
    };
    let mut env = agent.env.clone();
    env.extend(base.env.clone());
    let change = PolicyChange {
        idle: options.idle.unwrap_or_default(),
        ttl: options.ttl.unwrap_or_default(),
        archive_after: args.sorting.archive_after.unwrap_or_default(),
        on_unknown: options.on_unknown.map(policy::on_unknown),
    };
    let mut policy = policy::chosen(Config::load()?.policy.of_agent(), change);
    policy.notify = base.policy.notify.clone();
    Ok(Spec {
        driver: driver.to_owned(),
        command: absolute(command),
        again: if again.is_empty() { again } else { absolute(again) },
        env,
        agent: Some(name.to_owned()),
        conversation: agent.conversation.clone().unwrap_or_default(),
        origin,
        policy,
        ..base
    })
}

fn spec(args: &Run) -> Result<Spec, Problem> {
    let usage = |what: String| Problem::new(Code::Usage, what);
    let command = words(&args.command)?;
    let mut env = Vec::new();
    for pair in &args.env {
        let (name, value) = pair
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| usage(format!("--env takes NAME=VALUE, not `{pair}`")))?;
        if name.starts_with("BERTH_") {
            return Err(usage(format!("{name} is berth's own; choose another name")));
        }
        env.push((name.to_owned(), value.to_owned()));
    }
    if let Some(key) = &args.key
        && !(1..=MAX_KEY_BYTES).contains(&key.len())
    {
        return Err(usage(format!("a key has 1 to {MAX_KEY_BYTES} bytes, not {}", key.len())));
    }
    let cwd = directory(args.cwd.as_deref())?;
    let (driver, key) = ("pty".to_owned(), args.key.clone());
    let archive_after = args.sorting.archive_after.unwrap_or_default();
    let change = PolicyChange { archive_after, ..PolicyChange::default() };
    let mut policy = policy::chosen(Config::load()?.policy.of_command(), change);
    policy.notify = args.notify.clone().unwrap_or_default().into();
    Ok(Spec { driver, command, cwd, env, key, limits: (&args.limits).into(), policy, ..Spec::default() })
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

/// The directory a person means: this one, or the one they name.
pub(crate) fn directory(named: Option<&Path>) -> Result<String, Problem> {
    let cwd = named.unwrap_or(Path::new("."));
    let cwd = std::fs::canonicalize(cwd).map_err(|error| {
        Problem::new(Code::Refused, format!("cannot use the directory {}: {error}", cwd.display()))
            .hint("name one that is there with --cwd DIR")
    })?;
    if !cwd.is_dir() {
        return Err(Problem::new(Code::Refused, format!("{} is not a directory", cwd.display()))
            .hint("name one with --cwd DIR"));
    }
    let text = cwd.into_os_string().into_string();
    text.map_err(|odd| Problem::new(Code::Usage, format!("{odd:?} is not UTF-8")))
}
