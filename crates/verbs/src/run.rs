//! A command, or an agent, in a new session.
//!
//! Promise: a key means one session; a name is claimed before anybody can see the session without it; what fails
//! leaves nothing; what looks like a secret is in no record.
//! Not here: what somebody typed (see the CLI), or posted (see the gateway).
//! Start with [`prepare`].

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_api::life::PolicyChange;
use berth_api::message::{Answer, Request};
use berth_api::record::{Grant, InterfaceLaunch, Limits, Spec};
use berth_api::turn::{NewTurn, Origin, Policy};
use berth_api::{Code, Connection, Problem, SessionState, Status, redact};
use berth_core::{Deed, Event, Name, SessionId};
use berth_journal::Committed;
use berth_keeper::keeper::last_complaints;
use berth_keeper::{recover, start, turn};
use berth_store::history::Stored;
use berth_store::names::{Naming, PointerClaim};
use berth_store::view;

use crate::agents::{Agent, Driver, Table, TuiBegin};
use crate::config::Config;
use crate::ctx::Ctx;
use crate::{auto_name, history, life, turns};

/// The longest key. Each byte may take three in a file name, and a file name has 255.
const MAX_KEY_BYTES: usize = 76;
/// The longest id of a conversation.
const MAX_CONVERSATION_BYTES: usize = 256;
/// The agents whose interface a word alone starts.
const INTERFACES: [&str; 2] = ["claude", "codex"];
/// The pause between two looks at a session that is about to run.
const BEGIN_PAUSE: Duration = Duration::from_millis(20);
/// How much of a command a problem shows.
const SHOWN_COMMAND_CHARS: usize = 60;

/// What somebody wants to run, as they said it.
#[derive(Clone, Default, Debug)]
pub struct Wanted {
    /// What people call it.
    pub name: Option<String>,
    /// Where; here if nobody says.
    pub cwd: Option<PathBuf>,
    /// Variables on top of this environment.
    pub env: Vec<(String, String)>,
    /// What makes the call repeatable.
    pub key: Option<String>,
    /// An agent from the table.
    pub agent: Option<String>,
    /// The agent's own terminal interface.
    pub tui: bool,
    /// The conversation to go on with.
    pub resume: Option<String>,
    /// End other programs that write that conversation.
    pub take: bool,
    /// The first turn; here it is only looked at.
    pub prompt: Option<String>,
    /// When it ends by itself, over what the config says.
    pub policy: PolicyChange,
    /// What it may use.
    pub limits: Limits,
    /// What people sort it by.
    pub tags: Vec<String>,
    /// The note about the session.
    pub note: Option<String>,
    /// What to tell people of, over what the config says.
    pub notify: Option<berth_core::Notify>,
    /// What processes in the session may ask of berth, beyond what every agent may.
    pub grant: Grant,
    /// The command and its arguments; with an agent, more arguments for it.
    pub command: Vec<String>,
}

/// What was wanted, looked through: nothing is made yet.
pub struct Prepared {
    spec: Spec,
    /// What people will call it. Whoever hands a name over later takes it out.
    pub name: Option<Name>,
    /// What it is called otherwise, with a number if that is in use.
    stem: Name,
    tags: Vec<Name>,
    note: Option<String>,
    take: bool,
}

/// A session that runs, or that was made before with the same key.
pub struct Made {
    /// What is known.
    pub status: Status,
    /// The way to its keeper, if it was made now.
    pub connection: Option<Connection>,
    /// Whether the key meant it already.
    pub is_repeated: bool,
    /// Variables that are in no record, and have to be in the environment when it is resumed.
    pub left_out: Vec<String>,
}

/// Looks through what is wanted; refuses what cannot be.
pub fn prepare(wanted: &Wanted) -> Result<Prepared, Problem> {
    let name = wanted.name.as_deref().map(Name::parse).transpose();
    let name = name.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
    let tags = life::tags(&wanted.tags)?;
    if wanted.agent.is_none() && wanted.command.first().is_none_or(String::is_empty) {
        return Err(Problem::new(Code::Usage, "there is nothing to run")
            .hint("name an agent, or a command and its arguments"));
    }
    if wanted.command.iter().any(|word| word.contains('\0')) {
        return Err(Problem::new(Code::Usage, "the command has a zero byte"));
    }
    let spec = match &wanted.agent {
        Some(agent) => agent_spec(wanted, agent)?,
        None if is_its_interface(&wanted.command)? => {
            let agent = wanted.command[0].clone();
            let named = Wanted { agent: None, tui: true, command: vec![], ..wanted.clone() };
            agent_spec(&named, &agent)?
        }
        None => spec(wanted)?,
    };
    if let Some(prompt) = &wanted.prompt {
        turns::check_prompt(prompt)?;
    }
    let stem = auto_name::stem(&[wanted.prompt.as_deref()], Path::new(&spec.cwd));
    Ok(Prepared { spec, name, stem, tags, note: wanted.note.clone(), take: wanted.take })
}

impl Prepared {
    /// Whether its agent takes turns.
    pub fn takes_turns(&self) -> bool {
        self.spec.driver != "pty"
    }

    /// Makes the session and begins its first run; answered when the agent takes turns, if it does.
    pub fn start(self, ctx: &Ctx) -> Result<Made, Problem> {
        let Self { spec, name, stem, tags, note, take } = self;
        let (spec, secrets) = without_secrets(spec);
        let naming = name.map_or(Naming::Stem(stem), Naming::Chosen);
        let asked = Besides { naming: &naming, take, secrets: &secrets, tags: &tags, note: note.as_deref() };
        let (connection, status) = loop {
            let keyed = spec.key.as_deref().map(|key| ctx.home.session_keyed(key)).transpose()?.flatten();
            if let Some(id) = keyed {
                match made_before(ctx, &id, &spec) {
                    Ok(status) => {
                        return Ok(Made { status, connection: None, is_repeated: true, left_out: vec![] });
                    }
                    // It was purged since its key was looked up, and the key with it.
                    Err(problem) if problem.code == Code::NotFound && !ctx.home.session(&id).exists() => {}
                    Err(problem) => return Err(problem),
                }
            }
            if let Origin::Resumed(native) = &spec.origin {
                recover::heal_last_writer(&ctx.home, &spec.conversation, native);
            }
            // Nothing begins if another call with this key made its session meanwhile: that session is meant.
            if let Some(begun) = begin(ctx, spec.clone(), &asked)? {
                break begun;
            }
        };
        let left_out = secrets.into_iter().map(|(name, _)| name).collect();
        let (connection, status) = await_agent(ctx, connection, status)?;
        Ok(Made { status, connection: Some(connection), is_repeated: false, left_out })
    }
}

/// Takes what looks like a secret out of what is recorded. It reaches the agent all the same.
fn without_secrets(mut spec: Spec) -> (Spec, Vec<(String, String)>) {
    let all = std::mem::take(&mut spec.env);
    let (secrets, env) = all.into_iter().partition(|(name, value)| redact::is_secret_variable(name, value));
    spec.env = env;
    (spec, secrets)
}

/// What a new session is given besides what it runs.
#[derive(Clone, Copy)]
pub struct Besides<'a> {
    /// What people call it.
    pub naming: &'a Naming,
    /// End whoever else writes its conversation.
    pub take: bool,
    /// Variables that are in no record.
    pub secrets: &'a [(String, String)],
    /// What people sort it by.
    pub tags: &'a [Name],
    /// The note about the session.
    pub note: Option<&'a str>,
}

/// Makes a session and begins its first run; `None` if its key means another session.
pub fn begin(ctx: &Ctx, spec: Spec, asked: &Besides<'_>) -> Result<Option<(Connection, Status)>, Problem> {
    let Besides { naming, take, secrets, tags, note } = *asked;
    // The keeper looks as well; here it is said before a name or a directory is made.
    ctx.may_at_all(Deed::Start { grant: spec.grant.into(), takes: take }, "a session")?;
    ctx.may_start_in(Path::new(&spec.cwd))?;
    let id = ctx.home.mint().map_err(|error| {
        Problem::new(
            Code::Refused,
            format!("cannot make a session in {}: {error}", ctx.home.root().display()),
        )
    })?;
    let spec = Spec { parent: ctx.parent.as_ref().map(ToString::to_string), ..spec };
    // Held until the session itself says its key and name, so that no other command can claim them between.
    let mut claims = Vec::new();
    let started = (|| {
        if let Some(key) = &spec.key {
            let Some(claim) = ctx.home.claim_key(key, &id)? else { return Ok(None) };
            claims.push(claim);
        }
        let (name, claim) = ctx.home.claim_name(naming, &id)?;
        claims.push(claim);
        let create = Request::Create {
            spec,
            name: Some(name.to_string()),
            size: ctx.size.unwrap_or_default(),
            take: take.into(),
            tags: tags.iter().map(ToString::to_string).collect(),
            note: note.map(str::to_owned),
        };
        let variables = [secrets, &history::variables()].concat();
        start::keeper_with(&ctx.home, &id, create, ctx.asker(), &variables).map(Some)
    })();
    if !matches!(started, Ok(Some(_))) {
        // The keeper removes what it made. If it never ran, the empty directories are ours.
        ctx.home.unmint(&id);
        // A keeper that died on the way may have left a session, and then name and key are its own.
        if !ctx.home.session(&id).exists() {
            claims.into_iter().for_each(PointerClaim::give_up);
        }
    }
    started
}

/// The turn a session was started for. A repeated call with the same key finds the same turn, too.
pub fn first_turn(key: Option<&str>, text: String, wait: bool) -> NewTurn {
    NewTurn { text, key: key.map(|key| format!("run {key}")), wait, ..NewTurn::default() }
}

/// What to say when a session is there and its first turn was refused: whoever asked has to know which it is.
pub fn without_its_turn(id: &SessionId, is_repeated: bool, refused: Problem) -> Problem {
    let came = if is_repeated { "is there already" } else { "was made" };
    let what = format!("session `{id}` {came}, but its first turn was not accepted: {}", refused.what);
    Problem { what, ..refused }
}

/// Waits until the agent takes turns. One that does not is told with the reason; its record stays.
pub fn await_agent(
    ctx: &Ctx,
    connection: Connection,
    started: Status,
) -> Result<(Connection, Status), Problem> {
    if started.turns.is_none() { Ok((connection, started)) } else { await_ready(ctx, connection, &started) }
}

/// Waits until the agent takes turns, or has a terminal, with the interface that was chosen last.
pub fn await_ready(
    ctx: &Ctx,
    mut connection: Connection,
    started: &Status,
) -> Result<(Connection, Status), Problem> {
    let id = id_of(started)?;
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
            if status.state == SessionState::Idle {
                // It took turns, and was released because there were none.
                return Ok((connection, status));
            }
            let is_over = status.exit.is_some() || status.released.is_some() || status.failure.is_some();
            let why = turn::unusable(&status, &last_complaints(&ctx.home.session(&id)));
            return Err(if is_over { why } else { lost });
        };
        connection = keeper;
    }
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
    let is_it = |made: &Spec| {
        same_origin && (&made.driver, &made.cwd, words(made)) == (&asked.driver, &asked.cwd, words(asked))
    };
    // It may have been made with the interface that it does not have now.
    let mut other = berth_core::Spec::from(made.clone());
    other.switch();
    is_it(made) || is_it(&other.into())
}

/// The id a keeper told.
pub fn id_of(status: &Status) -> Result<SessionId, Problem> {
    SessionId::parse(&status.id).ok_or_else(|| Problem::new(Code::Bug, "the keeper gave no id"))
}

/// The session that a key already means, if it is of the same kind.
fn made_before(ctx: &Ctx, id: &SessionId, spec: &Spec) -> Result<Status, Problem> {
    let status = once_begun(ctx, id)?;
    let made = view::history(&ctx.home, id)?.session.spec.map(Spec::from).unwrap_or_default();
    if !is_same(&made, spec) {
        let shown: String =
            redact::command_line(&status.what.command).chars().take(SHOWN_COMMAND_CHARS).collect();
        let key = spec.key.as_deref().unwrap_or_default();
        return Err(Problem::new(
            Code::Refused,
            format!("the key `{key}` belongs to session {id}, which runs something else: {}", shown),
        )
        .hint("use another key for another command"));
    }
    let never_ran = || {
        let events = ctx.home.session(id).read(1);
        let ran = |event: &Committed<Stored>| matches!(event.get().event, Event::RunStarted { .. });
        events.is_ok_and(|events| !events.iter().any(ran))
    };
    if let Some(failure) = status.failure.as_ref().filter(|_| never_ran()) {
        // The caller would take a success to mean that the command runs or ran. Nothing proves that it never ran, so it is
        // not started again without a request.
        let what =
            format!("session {id}, which the key means, ended before its command was seen to run: {failure}");
        return Err(Problem::new(Code::Refused, what)
            .hint(format!("`berth resume {id}` starts it; another key makes a new session")));
    }
    Ok(status)
}

/// Waits until the run of a session has begun or failed to begin, and returns its status: the caller that made the session
/// may be gone while its keeper is still starting the run.
fn once_begun(ctx: &Ctx, id: &SessionId) -> Result<Status, Problem> {
    let until = Instant::now() + start::START_PATIENCE;
    loop {
        let status = ctx.status(id)?;
        if status.state != SessionState::Starting {
            return Ok(status);
        }
        if Instant::now() >= until {
            let what = format!("session {id}, which the key means, is still starting");
            return Err(
                Problem::new(Code::Unreachable, what).hint(format!("`berth why {id}` shows what is known"))
            );
        }
        std::thread::sleep(BEGIN_PAUSE);
    }
}

/// Refuses as the id of a conversation what an agent could take for something else: it is a word of its command line.
fn is_an_id(id: &str) -> Result<(), Problem> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if (1..=MAX_CONVERSATION_BYTES).contains(&id.len()) && !id.starts_with('-') && id.bytes().all(is_plain) {
        return Ok(());
    }
    let shown: String = id.chars().take(SHOWN_COMMAND_CHARS).collect();
    Err(Problem::new(Code::Usage, format!("{shown:?} cannot be the id of a conversation"))
        .hint("an id has letters, digits and `-_.:`, and does not begin with `-`"))
}

/// Whether a command is one word that starts the interface of the agent of that name, whose conversation we can follow:
/// then it is that agent, and has its hooks and its history. With anything behind the word it may be anything.
fn is_its_interface(command: &[String]) -> Result<bool, Problem> {
    let [word] = command else { return Ok(false) };
    if !INTERFACES.contains(&word.as_str()) {
        return Ok(false);
    }
    let table = Table::load()?;
    let tui = table.find(word).ok().and_then(|agent| agent.tui.clone()).unwrap_or_default();
    Ok(tui.first() == Some(word))
}

/// What an agent from the table runs.
fn agent_spec(wanted: &Wanted, name: &str) -> Result<Spec, Problem> {
    let table = Table::load()?;
    let agent = table.find(name)?;
    let base = spec(wanted)?;
    let extra = base.command.clone();
    let is_tui = wanted.tui || agent.driver == Driver::Pty;
    if let Some(id) = &wanted.resume {
        is_an_id(id)?;
    }
    if is_tui && wanted.prompt.is_some() {
        let what = format!("agent `{name}` has a terminal and takes no turns");
        return Err(Problem::new(Code::Usage, what).hint("leave --prompt out, and type it"));
    }
    let mut again = Vec::new();
    let (command, driver, origin) = if !is_tui {
        let origin = wanted.resume.clone().map_or(Origin::New, Origin::Resumed);
        (agent.structured_command(&extra), agent.driver.name(), origin)
    } else if let Some(id) = &wanted.resume {
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
        // It tells the id of its conversation later, and the keeper puts it there.
        if agent.resume_tui.is_some() {
            again = agent.tui_command(TuiBegin::Resume("{id}"), &extra)?;
        }
        (tui, "pty", Origin::New)
    };
    let cwd = Path::new(&base.cwd);
    let command = absolute(agent, command, cwd)?;
    let again = if again.is_empty() { again } else { absolute(agent, again, cwd)? };
    let other = other_interface(agent, is_tui, &extra, cwd);
    let mut env = agent.env.clone();
    env.extend(base.env.clone());
    let mut of_config = Config::load()?.policy.of_agent();
    // Somebody may be about to type into an interface.
    of_config.idle_ms = of_config.idle_ms.filter(|_| !is_tui);
    let mut policy = chosen(of_config, wanted.policy.clone());
    policy.notify = base.policy.notify.clone();
    Ok(Spec {
        driver: driver.to_owned(),
        command,
        again,
        other,
        env,
        agent: Some(name.to_owned()),
        conversation: agent.conversation.clone().unwrap_or_default(),
        origin,
        policy,
        ..base
    })
}

/// A command with the absolute path of its program: the next start may have another PATH.
fn absolute(agent: &Agent, mut command: Vec<String>, cwd: &Path) -> Result<Vec<String>, Problem> {
    let program = agent.locate(&command, cwd)?;
    if let (Some(first), Some(path)) = (command.first_mut(), program.to_str()) {
        *first = path.to_owned();
    }
    Ok(command)
}

/// How an agent is started with the interface that it does not begin with, if it has two that can go on with one
/// conversation: its words are those that were given for the first.
fn other_interface(agent: &Agent, is_tui: bool, extra: &[String], cwd: &Path) -> Option<InterfaceLaunch> {
    if agent.driver == Driver::Pty || agent.resume_tui.is_none() {
        return None;
    }
    let (driver, command, again) = if is_tui {
        (agent.driver.name(), agent.structured_command(extra), vec![])
    } else {
        let again = agent.tui_command(TuiBegin::Resume("{id}"), extra).ok()?;
        ("pty", agent.tui_command(TuiBegin::Fresh, extra).ok()?, again)
    };
    let again = if again.is_empty() { again } else { absolute(agent, again, cwd).ok()? };
    Some(InterfaceLaunch { driver: driver.to_owned(), command: absolute(agent, command, cwd).ok()?, again })
}

/// What an agent runs that goes on with a conversation it keeps already. Nothing is started now, so neither its program
/// nor the directory has to be there yet.
pub fn spec_of_kept(
    name: &str,
    id: &str,
    tui: bool,
    cwd: String,
    env: Vec<(String, String)>,
) -> Result<Spec, Problem> {
    let table = Table::load()?;
    let agent = table.find(name)?;
    is_an_id(id)?;
    let (mut command, driver) = match tui || agent.driver == Driver::Pty {
        true => (agent.tui_command(TuiBegin::Resume(id), &[])?, "pty"),
        false => (agent.structured_command(&[]), agent.driver.name()),
    };
    // Where it is now, if it is: whoever starts it may have another PATH.
    let program = agent.locate(&command, Path::new("/")).ok();
    if let (Some(first), Some(path)) = (command.first_mut(), program.as_ref().and_then(|path| path.to_str()))
    {
        *first = path.to_owned();
    }
    let is_tui = driver == "pty";
    let other = other_interface(agent, is_tui, &[], Path::new("/"));
    // What was had long ago is at rest for long already, and was brought here on purpose.
    let mut policy = Policy { archive_after_ms: None, ..Config::load()?.policy.of_agent() };
    policy.idle_ms = policy.idle_ms.filter(|_| driver != "pty");
    // Nothing runs yet that could get the secrets: the caller that resumes the session has them, or the config.
    let (spec, _) = without_secrets(Spec {
        driver: driver.to_owned(),
        command,
        cwd,
        env: [agent.env.clone(), env].concat(),
        agent: Some(name.to_owned()),
        // Whatever the config says of the agent: this is the kind that wrote it.
        conversation: name.to_owned(),
        origin: Origin::Resumed(id.to_owned()),
        policy,
        other,
        ..Spec::default()
    });
    Ok(spec)
}

/// What a command runs.
fn spec(wanted: &Wanted) -> Result<Spec, Problem> {
    let usage = |what: String| Problem::new(Code::Usage, what);
    for (name, value) in &wanted.env {
        if value.contains('\0') {
            return Err(usage(format!("the value of {name} has a zero byte")));
        }
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(usage(format!("`{name}` is not a valid name of a variable")));
        }
        if name.starts_with("BERTH_") {
            return Err(usage(format!("{name} is berth's own; choose another name")));
        }
    }
    if let Some(key) = &wanted.key
        && !(1..=MAX_KEY_BYTES).contains(&key.len())
    {
        return Err(usage(format!("a key has 1 to {MAX_KEY_BYTES} bytes, not {}", key.len())));
    }
    let cwd = directory(wanted.cwd.as_deref())?;
    let change = PolicyChange { archive_after: wanted.policy.archive_after, ..PolicyChange::default() };
    let mut policy = chosen(Config::load()?.policy.of_command(), change);
    policy.notify = wanted.notify.clone().unwrap_or_default().into();
    Ok(Spec {
        driver: "pty".to_owned(),
        command: wanted.command.clone(),
        cwd,
        env: wanted.env.clone(),
        key: wanted.key.clone(),
        limits: wanted.limits.clone(),
        policy,
        grant: wanted.grant,
        ..Spec::default()
    })
}

/// What holds for a new session: what the config says, but for what was asked.
fn chosen(of_config: Policy, asked: PolicyChange) -> Policy {
    berth_core::PolicyChange::from(asked).of(&of_config.into()).into()
}

/// The directory a person means: this one, or the one they name.
pub fn directory(named: Option<&Path>) -> Result<String, Problem> {
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
