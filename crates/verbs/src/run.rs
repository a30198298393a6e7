//! New sessions: a command or an agent in its first run.
//!
//! Promise: a key identifies one session; a name is claimed before the session is visible; a failure leaves no files;
//! values that look like secrets are in no record.
//! Not here: parsing of arguments (see the CLI) and of requests (see the gateway).
//! Start with [`prepare`].

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::policy_change::PolicyChange;
use berth_api::record::{Grant, InterfaceLaunch, RunLimits, SessionSpec};
use berth_api::turn::{ConversationOrigin, NewTurn, SessionPolicy};
use berth_api::{KeeperConnection, Problem, ProblemCode, SessionState, SessionStatus, redact};
use berth_core::{CallerAction, Event, SafeName, SessionId};
use berth_journal::Committed;
use berth_keeper::keeper::last_complaints;
use berth_keeper::{recover, spawn_keeper, turn_outcome};
use berth_store::names::{PointerClaim, RequestedName};
use berth_store::session_status;
use berth_store::session_view::StoredEvent;

use crate::agents::{AgentDefinition, AgentTable, DriverKind, TuiStart};
use crate::config::Config;
use crate::context::VerbContext;
use crate::{auto_name, history, lifecycle, turns};

/// Limit for a key. Each byte may take three in a file name, and a file name has 255.
const MAX_KEY_BYTES: usize = 76;
/// Limit for the id of a conversation.
const MAX_CONVERSATION_BYTES: usize = 256;
/// Agents whose interface starts when their name is the whole command.
const INTERFACES: [&str; 2] = ["claude", "codex"];
/// Polling interval for a session that is about to run.
const BEGIN_PAUSE: Duration = Duration::from_millis(20);
/// Size of the events that are read at once, in bytes.
const PAGE_BYTES: usize = 16 << 10;
/// Limit for the part of a command that an error shows.
const SHOWN_COMMAND_CHARS: usize = 60;

/// Options of a new session.
#[derive(Clone, Default, Debug)]
pub struct RunRequest {
    /// Name of the session; `None` lets berth choose one.
    pub name: Option<String>,
    /// Working directory; `None` for the current one.
    pub cwd: Option<PathBuf>,
    /// Variables in addition to this environment.
    pub env: Vec<(String, String)>,
    /// Idempotency key: a second call with it returns the same session.
    pub key: Option<String>,
    /// Name of an agent from the table.
    pub agent: Option<String>,
    /// True for the agent's own terminal interface.
    pub tui: bool,
    /// Id of the conversation to resume.
    pub resume: Option<String>,
    /// True to end other programs that write that conversation.
    pub take: bool,
    /// Text of the first turn; used here only to choose a name.
    pub prompt: Option<String>,
    /// Policy for the automatic end; overrides the config.
    pub policy: PolicyChange,
    /// Limits for the processes of the session.
    pub limits: RunLimits,
    /// Tags of the session, in order.
    pub tags: Vec<String>,
    /// The note about the session.
    pub note: Option<String>,
    /// Occasions for notifications; overrides the config.
    pub notify: Option<berth_core::NotificationPolicy>,
    /// Rights of the processes in the session towards berth, beyond those that every agent has.
    pub grant: Grant,
    /// Command and its arguments; with an agent, additional arguments for it.
    pub command: Vec<String>,
}

/// Checked options: nothing is created yet.
pub struct PreparedRun {
    spec: SessionSpec,
    /// Name of the session. A caller that assigns the name later takes it out.
    pub name: Option<SafeName>,
    /// Name that berth chooses otherwise, with a number if it is in use.
    stem: SafeName,
    tags: Vec<SafeName>,
    note: Option<String>,
    take: bool,
}

/// A session that was created, or that an earlier call with the same key created.
pub struct StartedSession {
    /// Status of the session.
    pub status: SessionStatus,
    /// Connection to the session's keeper, if the session was created by this call.
    pub connection: Option<KeeperConnection>,
    /// True if an earlier call with the same key created the session.
    pub is_repeated: bool,
    /// Names of variables that are in no record, and must be in the environment when the session is resumed.
    pub left_out: Vec<String>,
}

/// Checks the options; refuses invalid ones.
pub fn prepare(wanted: &RunRequest) -> Result<PreparedRun, Problem> {
    let name = wanted.name.as_deref().map(SafeName::parse).transpose();
    let name = name.map_err(|bad| Problem::usage(bad.to_string()))?;
    let tags = lifecycle::tags(&wanted.tags)?;
    if wanted.agent.is_none() && wanted.command.first().is_none_or(String::is_empty) {
        return Err(Problem::usage("no agent and no command is given")
            .hint("give an agent, or a command and its arguments"));
    }
    if wanted.command.iter().any(|word| word.contains('\0')) {
        return Err(Problem::usage("the command contains a zero byte"));
    }
    let spec = match &wanted.agent {
        Some(agent) => agent_spec(wanted, agent)?,
        None if is_its_interface(&wanted.command)? => {
            let agent = wanted.command[0].clone();
            let named = RunRequest { agent: None, tui: true, command: vec![], ..wanted.clone() };
            agent_spec(&named, &agent)?
        }
        None => spec(wanted)?,
    };
    if let Some(prompt) = &wanted.prompt {
        turns::check_prompt(prompt)?;
    }
    let stem = auto_name::suggest_name(&[wanted.prompt.as_deref()], Path::new(&spec.cwd));
    Ok(PreparedRun { spec, name, stem, tags, note: wanted.note.clone(), take: wanted.take })
}

impl PreparedRun {
    /// True if the session's agent takes turns.
    pub fn takes_turns(&self) -> bool {
        self.spec.driver != "pty"
    }

    /// Creates the session and begins its first run; if the agent takes turns, returns when it is ready for them.
    pub fn start(self, ctx: &VerbContext) -> Result<StartedSession, Problem> {
        let Self { spec, name, stem, tags, note, take } = self;
        let (spec, secrets) = without_secrets(spec);
        let naming = name.map_or(RequestedName::Stem(stem), RequestedName::Chosen);
        let asked =
            StartOptions { naming: &naming, take, secrets: &secrets, tags: &tags, note: note.as_deref() };
        let (connection, status) = loop {
            let keyed = spec.key.as_deref().map(|key| ctx.home.session_keyed(key)).transpose()?.flatten();
            if let Some(id) = keyed {
                match find_by_key(ctx, &id, &spec) {
                    Ok(status) => {
                        return Ok(StartedSession {
                            status,
                            connection: None,
                            is_repeated: true,
                            left_out: vec![],
                        });
                    }
                    // The session was purged after its key was found, and the key with it.
                    Err(problem)
                        if problem.code == ProblemCode::NotFound && !ctx.home.session(&id).exists() => {}
                    Err(problem) => return Err(problem),
                }
            }
            if let ConversationOrigin::Resumed(native) = &spec.origin {
                recover::recover_last_writer(&ctx.home, &spec.conversation, native);
            }
            // Another call with this key may have created its session meanwhile: then that session is returned.
            if let Some(begun) = create_session(ctx, spec.clone(), &asked)? {
                break begun;
            }
        };
        let left_out = secrets.into_iter().map(|(name, _)| name).collect();
        let (connection, status) = await_agent(ctx, connection, status)?;
        Ok(StartedSession { status, connection: Some(connection), is_repeated: false, left_out })
    }
}

/// Removes values that look like secrets from the record. The agent gets them all the same.
fn without_secrets(mut spec: SessionSpec) -> (SessionSpec, Vec<(String, String)>) {
    let all = std::mem::take(&mut spec.env);
    let (secrets, env) = all.into_iter().partition(|(name, value)| redact::is_secret_variable(name, value));
    spec.env = env;
    (spec, secrets)
}

/// Properties of a new session besides its command.
#[derive(Clone, Copy)]
pub struct StartOptions<'a> {
    /// Name of the session.
    pub naming: &'a RequestedName,
    /// True to end other writers of the conversation.
    pub take: bool,
    /// Variables that are in no record.
    pub secrets: &'a [(String, String)],
    /// Tags of the session, in order.
    pub tags: &'a [SafeName],
    /// The note about the session.
    pub note: Option<&'a str>,
}

/// Creates a session and begins its first run; `None` if its key belongs to another session.
pub fn create_session(
    ctx: &VerbContext,
    spec: SessionSpec,
    asked: &StartOptions<'_>,
) -> Result<Option<(KeeperConnection, SessionStatus)>, Problem> {
    let StartOptions { naming, take, secrets, tags, note } = *asked;
    // The keeper checks again; here the refusal comes before a name or a directory is created.
    ctx.may_at_all(CallerAction::Start { grant: spec.grant.into(), takes: take }, "a session")?;
    ctx.may_start_in(Path::new(&spec.cwd))?;
    let id = ctx.home.mint().map_err(|error| {
        Problem::refused(format!("cannot create a session in {}: {error}", ctx.home.root().display()))
    })?;
    let spec = SessionSpec { parent: ctx.parent.as_ref().map(ToString::to_string), ..spec };
    // Held until the session's record has its key and name, so that no other command can claim them meanwhile.
    let mut claims = Vec::new();
    let started = (|| {
        if let Some(key) = &spec.key {
            let Some(claim) = ctx.home.claim_key(key, &id)? else { return Ok(None) };
            claims.push(claim);
        }
        let (name, claim) = ctx.home.claim_name(naming, &id)?;
        claims.push(claim);
        let create = KeeperRequest::Create {
            spec,
            name: Some(name.to_string()),
            size: ctx.size.unwrap_or_default(),
            take: take.into(),
            tags: tags.iter().map(ToString::to_string).collect(),
            note: note.map(str::to_owned),
        };
        let variables = [secrets, &history::variables()].concat();
        spawn_keeper::spawn_keeper_with_variables(&ctx.home, &id, create, ctx.asker(), &variables).map(Some)
    })();
    if !matches!(started, Ok(Some(_))) {
        // The keeper removes what it created. If it never ran, this process removes the empty directories.
        ctx.home.unmint(&id);
        // A keeper that died on the way may have left a session, which then owns the name and the key.
        if !ctx.home.session(&id).exists() {
            claims.into_iter().for_each(PointerClaim::give_up);
        }
    }
    started
}

/// The turn for which a session was created. A repeated call with the same key finds that turn.
pub fn first_turn(key: Option<&str>, text: String, wait: bool) -> NewTurn {
    NewTurn { text, key: key.map(|key| format!("run {key}")), wait, ..NewTurn::default() }
}

/// The error for a session that was created although its first turn was refused: the caller needs the id.
pub fn without_its_turn(id: &SessionId, is_repeated: bool, refused: Problem) -> Problem {
    let came = if is_repeated { "exists already" } else { "was made" };
    let what = format!("session `{id}` {came}, but its first turn was not accepted: {}", refused.what);
    Problem { what, ..refused }
}

/// Waits until the agent takes turns. An agent that does not get there is reported with the reason; its record stays.
pub fn await_agent(
    ctx: &VerbContext,
    connection: KeeperConnection,
    started: SessionStatus,
) -> Result<(KeeperConnection, SessionStatus), Problem> {
    if started.turns.is_none() { Ok((connection, started)) } else { await_ready(ctx, connection, &started) }
}

/// Waits until the agent takes turns, or has a terminal, with the interface that was chosen last.
pub fn await_ready(
    ctx: &VerbContext,
    mut connection: KeeperConnection,
    started: &SessionStatus,
) -> Result<(KeeperConnection, SessionStatus), Problem> {
    let id = id_of(started)?;
    loop {
        let lost = match connection.ask(KeeperRequest::AwaitAgent) {
            Ok(KeeperAnswer::Done { status }) => return Ok((connection, *status)),
            Ok(other) => return Err(turns::unexpected_answer(&other)),
            Err(problem) if problem.code == ProblemCode::Unreachable => problem,
            Err(problem) => return Err(problem),
        };
        // An agent that ends at once is gone with its keeper before this request; or the keeper was replaced.
        let Some(keeper) = ctx.keeper_of(&id)? else {
            let status = ctx.status(&id)?;
            if status.state == SessionState::Idle {
                // The agent took turns, and was released because there were none.
                return Ok((connection, status));
            }
            let is_over = status.exit.is_some() || status.released.is_some() || status.failure.is_some();
            let why = turn_outcome::takes_no_turns_problem(&status, &last_complaints(&ctx.home.session(&id)));
            return Err(if is_over { why } else { lost });
        };
        connection = keeper;
    }
}

/// True if two calls with one key ask for the same session. An id that berth chose for a conversation differs each
/// time.
fn is_same(made: &SessionSpec, asked: &SessionSpec) -> bool {
    let words = |spec: &SessionSpec| -> Vec<String> {
        let named = match &spec.origin {
            ConversationOrigin::Named(id) => Some(id.clone()),
            ConversationOrigin::New | ConversationOrigin::Resumed(_) | ConversationOrigin::Forked(_) => None,
        };
        spec.command.iter().filter(|word| Some(*word) != named.as_ref()).cloned().collect()
    };
    let same_origin = match (&made.origin, &asked.origin) {
        (ConversationOrigin::Named(_), ConversationOrigin::Named(_)) => true,
        (one, other) => one == other,
    };
    let is_it = |made: &SessionSpec| {
        same_origin && (&made.driver, &made.cwd, words(made)) == (&asked.driver, &asked.cwd, words(asked))
    };
    // The session may have been created with the interface that it does not have now.
    let mut other = berth_core::SessionSpec::from(made.clone());
    other.switch();
    is_it(made) || is_it(&other.into())
}

/// The session's id in a keeper's status.
pub fn id_of(status: &SessionStatus) -> Result<SessionId, Problem> {
    SessionId::parse(&status.id).ok_or_else(|| Problem::bug("the keeper gave no id"))
}

/// The session that a key identifies, if it has the same command.
fn find_by_key(ctx: &VerbContext, id: &SessionId, spec: &SessionSpec) -> Result<SessionStatus, Problem> {
    let status = wait_until_started(ctx, id)?;
    let made =
        session_status::history(&ctx.home, id)?.session.spec.map(SessionSpec::from).unwrap_or_default();
    if !is_same(&made, spec) {
        let shown: String =
            redact::redact_command_line(&status.what.command).chars().take(SHOWN_COMMAND_CHARS).collect();
        let key = spec.key.as_deref().unwrap_or_default();
        return Err(Problem::refused(format!(
            "the key `{key}` belongs to session {id}, which runs something else: {}",
            shown
        ))
        .hint("use another key for another command"));
    }
    let never_ran = || {
        let ran = |event: &Committed<StoredEvent>| matches!(event.get().event, Event::RunStarted { .. });
        let session = ctx.home.session(id);
        session.pages(1, PAGE_BYTES).all(|page| page.is_ok_and(|events| !events.iter().any(ran)))
    };
    if let Some(failure) = status.failure.as_ref().filter(|_| never_ran()) {
        // The caller would take a success to mean that the command runs or ran. There is no proof that it never ran, so
        // it is not started again without a request.
        let what =
            format!("session {id}, which the key means, ended before its command was seen to run: {failure}");
        return Err(Problem::refused(what)
            .hint(format!("`berth resume {id}` starts it; another key makes a new session")));
    }
    Ok(status)
}

/// Waits until the run of a session has begun or failed to begin, and returns its status: the caller that created the
/// session may be gone while its keeper is still starting the run.
fn wait_until_started(ctx: &VerbContext, id: &SessionId) -> Result<SessionStatus, Problem> {
    let until = Instant::now() + spawn_keeper::START_PATIENCE;
    loop {
        let status = ctx.status(id)?;
        if status.state != SessionState::Starting {
            return Ok(status);
        }
        if Instant::now() >= until {
            let what = format!("session {id}, which the key means, is still starting");
            return Err(
                Problem::unreachable(what).hint(format!("`berth why {id}` shows the evidence for the state"))
            );
        }
        std::thread::sleep(BEGIN_PAUSE);
    }
}

/// Refuses an id of a conversation that an agent could take for an option: the id is an argument of its command line.
fn is_an_id(id: &str) -> Result<(), Problem> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if (1..=MAX_CONVERSATION_BYTES).contains(&id.len()) && !id.starts_with('-') && id.bytes().all(is_plain) {
        return Ok(());
    }
    let shown: String = id.chars().take(SHOWN_COMMAND_CHARS).collect();
    Err(Problem::usage(format!("{shown:?} is not a valid id of a conversation"))
        .hint("an id has letters, digits and `-_.:`, and does not begin with `-`"))
}

/// True if a command is the bare name of an agent whose conversation berth can follow: then the session is one of that
/// agent, with hooks and history. With arguments the command may be anything.
fn is_its_interface(command: &[String]) -> Result<bool, Problem> {
    let [word] = command else { return Ok(false) };
    if !INTERFACES.contains(&word.as_str()) {
        return Ok(false);
    }
    let table = AgentTable::load()?;
    let tui = table.find(word).ok().and_then(|agent| agent.tui.clone()).unwrap_or_default();
    Ok(tui.first() == Some(word))
}

/// The command and settings of an agent from the table.
fn agent_spec(wanted: &RunRequest, name: &str) -> Result<SessionSpec, Problem> {
    let table = AgentTable::load()?;
    let agent = table.find(name)?;
    let base = spec(wanted)?;
    let extra = base.command.clone();
    let is_tui = wanted.tui || agent.driver == DriverKind::Pty;
    if let Some(id) = &wanted.resume {
        is_an_id(id)?;
    }
    if is_tui && wanted.prompt.is_some() {
        let what = format!("agent `{name}` has a terminal and takes no turns");
        return Err(Problem::usage(what).hint("leave --prompt out, and type the text"));
    }
    let mut again = Vec::new();
    let (command, driver, origin) = if !is_tui {
        let origin = wanted.resume.clone().map_or(ConversationOrigin::New, ConversationOrigin::Resumed);
        (agent.structured_command(&extra), agent.driver.name(), origin)
    } else if let Some(id) = &wanted.resume {
        (agent.tui_command(TuiStart::Resume(id), &extra)?, "pty", ConversationOrigin::Resumed(id.clone()))
    } else if agent.begin_tui.is_some() && agent.resume_tui.is_some() {
        let id = turns::random_conversation_id()?;
        again = agent.tui_command(TuiStart::Resume(&id), &extra)?;
        (agent.tui_command(TuiStart::FreshAs(&id), &extra)?, "pty", ConversationOrigin::Named(id))
    } else {
        let tui = if agent.tui.is_some() || agent.driver != DriverKind::Pty {
            agent.tui_command(TuiStart::Fresh, &extra)?
        } else {
            agent.structured_command(&extra)
        };
        // The agent reports the id of its conversation later, and the keeper fills it in.
        if agent.resume_tui.is_some() {
            again = agent.tui_command(TuiStart::Resume("{id}"), &extra)?;
        }
        (tui, "pty", ConversationOrigin::New)
    };
    let cwd = Path::new(&base.cwd);
    let command = absolute(agent, command, cwd)?;
    let again = if again.is_empty() { again } else { absolute(agent, again, cwd)? };
    let other = other_interface(agent, is_tui, &extra, cwd);
    let mut env = agent.env.clone();
    env.extend(base.env.clone());
    let mut of_config = Config::load()?.policy.of_agent();
    // A user may be about to type into an interface.
    of_config.idle_ms = of_config.idle_ms.filter(|_| !is_tui);
    let mut policy = merge_policy(of_config, wanted.policy.clone());
    policy.notify = base.policy.notify.clone();
    Ok(SessionSpec {
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

/// The command with the absolute path of its program: the next start may have another PATH.
fn absolute(agent: &AgentDefinition, mut command: Vec<String>, cwd: &Path) -> Result<Vec<String>, Problem> {
    let program = agent.locate(&command, cwd)?;
    if let (Some(first), Some(path)) = (command.first_mut(), program.to_str()) {
        *first = path.to_owned();
    }
    Ok(command)
}

/// The command for the agent's other interface, if both interfaces can resume one conversation: it has the same
/// additional arguments.
fn other_interface(
    agent: &AgentDefinition,
    is_tui: bool,
    extra: &[String],
    cwd: &Path,
) -> Option<InterfaceLaunch> {
    if agent.driver == DriverKind::Pty || agent.resume_tui.is_none() {
        return None;
    }
    let (driver, command, again) = if is_tui {
        (agent.driver.name(), agent.structured_command(extra), vec![])
    } else {
        let again = agent.tui_command(TuiStart::Resume("{id}"), extra).ok()?;
        ("pty", agent.tui_command(TuiStart::Fresh, extra).ok()?, again)
    };
    let again = if again.is_empty() { again } else { absolute(agent, again, cwd).ok()? };
    Some(InterfaceLaunch { driver: driver.to_owned(), command: absolute(agent, command, cwd).ok()?, again })
}

/// The session of an agent that resumes a conversation of its own record. Nothing is started now, so neither the
/// program nor the directory has to exist yet.
pub fn spec_of_kept(
    name: &str,
    id: &str,
    tui: bool,
    cwd: String,
    env: Vec<(String, String)>,
) -> Result<SessionSpec, Problem> {
    let table = AgentTable::load()?;
    let agent = table.find(name)?;
    is_an_id(id)?;
    let (mut command, driver) = match tui || agent.driver == DriverKind::Pty {
        true => (agent.tui_command(TuiStart::Resume(id), &[])?, "pty"),
        false => (agent.structured_command(&[]), agent.driver.name()),
    };
    // The program's current path, if it exists: a later start may have another PATH.
    let program = agent.locate(&command, Path::new("/")).ok();
    if let (Some(first), Some(path)) = (command.first_mut(), program.as_ref().and_then(|path| path.to_str()))
    {
        *first = path.to_owned();
    }
    let is_tui = driver == "pty";
    let other = other_interface(agent, is_tui, &[], Path::new("/"));
    // An old conversation is at rest for long already, and the user imported it on purpose.
    let mut policy = SessionPolicy { archive_after_ms: None, ..Config::load()?.policy.of_agent() };
    policy.idle_ms = policy.idle_ms.filter(|_| driver != "pty");
    // No process runs yet that could get the secrets: the caller that resumes the session has them, or the config.
    let (spec, _) = without_secrets(SessionSpec {
        driver: driver.to_owned(),
        command,
        cwd,
        env: [agent.env.clone(), env].concat(),
        agent: Some(name.to_owned()),
        // The kind of the agent that wrote the conversation, even if the config says otherwise.
        conversation: name.to_owned(),
        origin: ConversationOrigin::Resumed(id.to_owned()),
        policy,
        other,
        ..SessionSpec::default()
    });
    Ok(spec)
}

/// The command and settings of a plain command.
fn spec(wanted: &RunRequest) -> Result<SessionSpec, Problem> {
    let usage = |what: String| Problem::usage(what);
    for (name, value) in &wanted.env {
        if value.contains('\0') {
            return Err(usage(format!("the value of {name} contains a zero byte")));
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
    let mut policy = merge_policy(Config::load()?.policy.of_command(), change);
    policy.notify = wanted.notify.clone().unwrap_or_default().into();
    Ok(SessionSpec {
        driver: "pty".to_owned(),
        command: wanted.command.clone(),
        cwd,
        env: wanted.env.clone(),
        key: wanted.key.clone(),
        limits: wanted.limits.clone(),
        policy,
        grant: wanted.grant,
        ..SessionSpec::default()
    })
}

/// The policy of a new session: that of the config, changed by the options.
fn merge_policy(of_config: SessionPolicy, asked: PolicyChange) -> SessionPolicy {
    berth_core::PolicyChange::from(asked).of(&of_config.into()).into()
}

/// The working directory: the given one, else the current one.
pub fn directory(named: Option<&Path>) -> Result<String, Problem> {
    let cwd = named.unwrap_or(Path::new("."));
    let cwd = std::fs::canonicalize(cwd).map_err(|error| {
        Problem::refused(format!("cannot use the directory {}: {error}", cwd.display()))
            .hint("give an existing one with --cwd DIR")
    })?;
    if !cwd.is_dir() {
        return Err(
            Problem::refused(format!("{} is not a directory", cwd.display())).hint("give one with --cwd DIR")
        );
    }
    let text = cwd.into_os_string().into_string();
    text.map_err(|odd| Problem::usage(format!("{odd:?} is not UTF-8")))
}
