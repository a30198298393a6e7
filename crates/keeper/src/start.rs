//! Starting a keeper, from the outside: spawn it, hand it its first request, wait for its word.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use berth_api::message::{Answer, Asker, Request};
use berth_api::status::Status;
use berth_api::{Code, Connection, Problem};
use berth_core::SessionId;
use berth_driver::AgentTraits;
use berth_host::cgroup;
use berth_host::identity::Pidfd;
use berth_host::spawn::{Spawn, Stdio, THIS_PROGRAM, spawn};
use berth_host::systemd::Manager;
use berth_store::home::Home;
use berth_store::keepers::KEEPER_VERB;

/// What begins the word that tells it since when the other one looked whether its helper is ready.
pub(crate) const LOOKING_SINCE: &str = "--looking-since=";

/// How long a keeper may take until its agent runs: slow disks included, dead ones not.
pub const START_PATIENCE: Duration = Duration::from_secs(60);

/// Variables that belong to the run a command was called from, not to the session it starts.
const OF_THE_CALLER: [&str; 3] = [crate::recover::MARK, "BERTH_SESSION", "BERTH_HELPER"];

/// What the variables begin with that tell a person's own command of an event (see `notify`). A session that such
/// a command starts is not told of another one's.
pub const EVENT_VARIABLES: &str = "BERTH_EVENT_";

/// Starts a keeper for session `id` and gives it its first request. Returns when the agent runs,
/// or says why it does not. The connection stays usable.
pub fn keeper(
    home: &Home,
    id: &SessionId,
    first: Request,
    asker: impl Into<Asker>,
) -> Result<(Connection, Status), Problem> {
    keeper_with(home, id, first, asker, &[])
}

/// The same with more variables, which are in the agent's environment and in no record.
pub fn keeper_with(
    home: &Home,
    id: &SessionId,
    first: Request,
    asker: impl Into<Asker>,
    variables: &[(String, String)],
) -> Result<(Connection, Status), Problem> {
    let trouble = |what: &str, error: &dyn std::fmt::Display| {
        Problem::new(Code::Refused, format!("cannot start a keeper for session {id}: {what}: {error}"))
    };
    let (ours, theirs) = UnixStream::pair().map_err(|error| trouble("making a socket", &error))?;
    let null = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .map_err(|error| trouble("opening /dev/null", &error))?;
    let args: Vec<OsString> = vec!["berth".into(), KEEPER_VERB.into(), home.session(id).argument()];
    let mut env = environment();
    // A relative path means something else in the agent's directory.
    if let Some((_, dir)) = env.iter_mut().find(|(name, _)| name == "BERTH_HOME") {
        *dir = home.root().into();
    }
    for (name, value) in variables {
        env.retain(|(known, _)| known != name.as_str());
        env.push((name.into(), value.into()));
    }
    // Where systemd runs, the keeper gets a scope as soon as it is there. Elsewhere it is born in the group
    // of keepers. With neither it stays where we are; it finds out why by itself, for `berth why`.
    let manager = Manager::reach().ok();
    let birthplace = if manager.is_none() { cgroup::keeper_place().ok() } else { None };
    let mut spec = Spawn {
        program: Path::new(THIS_PROGRAM),
        args: &args,
        env: &env,
        cwd: Path::new("/"),
        stdio: Stdio::Files { stdin: theirs.as_fd(), stdout: null.as_fd(), stderr: null.as_fd() },
        keep: &[],
        cgroup: birthplace.as_ref().map(|place| place.as_fd()),
        joins: &[],
    };
    let mut spawned = spawn(&spec);
    if spawned.is_err() && spec.cgroup.take().is_some() {
        spawned = spawn(&spec);
    }
    let child = spawned.map_err(|error| trouble("starting it", &error))?;
    tracing::info!(session = %id, pid = child.pid, scope = manager.is_some(), "started a keeper");
    remember(child.pidfd);
    drop(theirs);
    // It waits for its first request meanwhile, so nothing of it is anywhere else yet.
    if let Some(manager) = manager
        && manager.make_scope(child.pid, id.as_str(), &format!("Keeper of berth session {id}")).is_err()
        && let Ok(group) = cgroup::keeper_place()
    {
        let _ = group.take_in(child.pid);
    }
    let mut connection = Connection::over_for(ours, asker.into());
    let _ = connection.set_patience(Some(START_PATIENCE));
    let answer = connection.ask(first);
    let _ = connection.set_patience(None);
    match answer? {
        Answer::Done { status } => Ok((connection, *status)),
        other => Err(Problem::new(Code::Bug, format!("the keeper gave an odd answer: {other:?}"))),
    }
}

/// The keepers this process started, as far as it is not known that they ended.
static STARTED: Mutex<Vec<Pidfd>> = Mutex::new(Vec::new());

fn remember(keeper: Pidfd) {
    collect();
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).push(keeper);
}

/// Takes over what the image before this one started: keepers, and nobody else takes their exits. For who replaced its
/// own program, before it starts anything itself.
pub fn adopt_children() {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let children = pids.into_iter().filter_map(|pid| Pidfd::open(pid).ok());
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).extend(children);
}

/// Takes the exits of keepers that this process started and that have ended. Who stays for long calls it now and
/// then: else each would be listed as ended until we end ourselves.
pub fn collect() {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).retain(|keeper| !keeper.collect());
}

/// Our environment without what belongs to the run we may have been called from.
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    let is_ours = |name: &OsString| {
        let agents = AgentTraits::ALL.iter().flat_map(|(_, traits)| traits.run_variables);
        !OF_THE_CALLER.iter().chain(agents).any(|of_the_caller| name == of_the_caller)
            && !name.as_bytes().starts_with(EVENT_VARIABLES.as_bytes())
    };
    let absolute = |(name, value): (OsString, OsString)| {
        // Where it is looked for next is another directory.
        let is_path = name == "BERTH_CONFIG" && !value.is_empty();
        let path = is_path.then(|| std::path::absolute(&value).ok()).flatten();
        (name, path.map_or(value, Into::into))
    };
    std::env::vars_os().filter(|(name, _)| is_ours(name)).map(absolute).collect()
}
