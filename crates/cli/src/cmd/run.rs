//! `berth run`: a command in a new session.

use std::ffi::OsString;
use std::path::Path;

use berth_api::message::Request;
use berth_api::record::Spec;
use berth_api::{Code, Connection, Problem, Status};
use berth_core::{Name, SessionId};
use berth_keeper::{names::NamesLock, start};

use crate::args::Run;
use crate::attached;
use crate::cmd::output;
use crate::ctx::Ctx;
use crate::{print, tty};

/// The longest key. Each byte may take three in a file name, and a file name has 255.
const MAX_KEY_BYTES: usize = 76;

pub(crate) fn run(ctx: &Ctx, args: Run) -> Result<u8, Problem> {
    let name = args.name.as_deref().map(Name::parse).transpose();
    let name = name.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
    let spec = spec(&args)?;
    // Held until the session itself says its name and key, so that nobody can claim them between.
    let lock = (name.is_some() || spec.key.is_some()).then(|| ctx.home.lock_names()).transpose()?;
    let made_before = spec.key.as_deref().map(|key| ctx.home.session_keyed(key)).transpose()?.flatten();
    if let Some(id) = made_before {
        drop(lock);
        return again(ctx, &args, &id, &spec);
    }
    let (connection, status) = begin(ctx, spec, name.as_ref(), lock.as_ref())?;
    drop(lock);
    stay(ctx, connection, &status, args.detach, args.json)
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
    let id = SessionId::parse(&status.id).ok_or_else(|| Problem::new(Code::Bug, "the keeper gave no id"))?;
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

/// A repeated call with a known key: the same session, whatever became of it.
fn again(ctx: &Ctx, args: &Run, id: &SessionId, spec: &Spec) -> Result<u8, Problem> {
    let status = ctx.status(id)?;
    if status.what.command != spec.command || status.what.cwd != spec.cwd {
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
    match (args.detach, args.json) {
        (true, true) => print::json(&status).map(|()| 0),
        (true, false) => print::text(&format!("{id}\n")).map(|()| 0),
        (false, _) => match ctx.keeper_of(id)? {
            Some(connection) => follow(ctx, connection, &status, args.json),
            None => output::stream_to_end(ctx, id),
        },
    }
}

fn begin(
    ctx: &Ctx,
    spec: Spec,
    name: Option<&Name>,
    lock: Option<&NamesLock>,
) -> Result<(Connection, Status), Problem> {
    let id = ctx.home.mint().map_err(|error| {
        Problem::new(
            Code::Refused,
            format!("cannot make a session in {}: {error}", ctx.home.root().display()),
        )
    })?;
    let key = spec.key.clone();
    let started = (|| {
        if let (Some(lock), Some(name)) = (lock, name) {
            lock.claim_name(name, &id)?;
        }
        if let (Some(lock), Some(key)) = (lock, &key) {
            lock.claim_key(key, &id)?;
        }
        let size = tty::size().unwrap_or_default();
        let create = Request::Create { spec, name: name.map(ToString::to_string), size, take: false };
        start::keeper(&ctx.home, &id, create, tty::place())
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
    Ok(Spec { driver, command, cwd, env, key, limits: (&args.limits).into(), ..Spec::default() })
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
