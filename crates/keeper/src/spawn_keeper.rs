//! Starting a keeper, from the outside: spawn it, send it its first request, wait for its answer.
//!
//! Promise: success means that the agent runs; an error says why it does not.
//! Not here: the keeper itself (see `keeper`).
//! Start with [`spawn_keeper`].

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use berth_api::message::{ClaimedCaller, KeeperAnswer, KeeperRequest};
use berth_api::status::SessionStatus;
use berth_api::{KeeperConnection, Problem};
use berth_core::SessionId;
use berth_driver::AgentTraits;
use berth_host::cgroup;
use berth_host::identity::Pidfd;
use berth_host::spawn::{ChildStdio, SpawnOptions, THIS_PROGRAM, spawn};
use berth_host::systemd::SystemdManager;
use berth_procs::attribution::MARK;
use berth_store::keepers::KEEPER_VERB;
use berth_store::notifications::EVENT_VARIABLES;
use berth_store::state_dir::StateDir;

/// The prefix of the argument with the time since when the previous image waits for its helper to be ready.
pub(crate) const LOOKING_SINCE: &str = "--looking-since=";

/// The time limit until the agent runs: enough for slow disks, not for dead ones.
pub const START_PATIENCE: Duration = Duration::from_secs(60);

/// Variables that belong to the run a command was called from, not to the session it starts.
const OF_THE_CALLER: [&str; 3] = [MARK, "BERTH_SESSION", "BERTH_HELPER"];

/// Starts a keeper for session `id` and sends it its first request. Returns when the agent runs, or says why it does
/// not. The connection stays usable.
pub fn spawn_keeper(
    home: &StateDir,
    id: &SessionId,
    first: KeeperRequest,
    asker: impl Into<ClaimedCaller>,
) -> Result<(KeeperConnection, SessionStatus), Problem> {
    spawn_keeper_with_variables(home, id, first, asker, &[])
}

/// Like [`spawn_keeper`], with more variables, which reach the agent's environment and no record.
pub fn spawn_keeper_with_variables(
    home: &StateDir,
    id: &SessionId,
    first: KeeperRequest,
    asker: impl Into<ClaimedCaller>,
    variables: &[(String, String)],
) -> Result<(KeeperConnection, SessionStatus), Problem> {
    let trouble = |what: &str, error: &dyn std::fmt::Display| {
        Problem::refused(format!("cannot start a keeper for session {id}: {what}: {error}"))
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
    // With systemd, the keeper gets a scope as soon as it exists. Without, it is born in the group of keepers. With
    // neither it stays in our group and finds out why by itself, for `berth why`.
    let manager = SystemdManager::reach().ok();
    let birthplace = if manager.is_none() { cgroup::keeper_place().ok() } else { None };
    let mut spec = SpawnOptions {
        program: Path::new(THIS_PROGRAM),
        args: &args,
        env: &env,
        cwd: Path::new("/"),
        stdio: ChildStdio::Files { stdin: theirs.as_fd(), stdout: null.as_fd(), stderr: null.as_fd() },
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
    // The keeper waits for its first request meanwhile, so it has started no process yet.
    if let Some(manager) = manager
        && manager.make_scope(child.pid, id.as_str(), &format!("Keeper of berth session {id}")).is_err()
        && let Ok(group) = cgroup::keeper_place()
    {
        let _ = group.take_in(child.pid);
    }
    let mut connection = KeeperConnection::over_for(ours, asker.into());
    let _ = connection.set_timeout(Some(START_PATIENCE));
    let answer = connection.ask(first);
    let _ = connection.set_timeout(None);
    match answer? {
        KeeperAnswer::Done { status } => Ok((connection, *status)),
        other => Err(Problem::bug(format!("the keeper sent an unexpected answer: {other:?}"))),
    }
}

/// The keepers this process started, except those known to have ended.
static STARTED: Mutex<Vec<Pidfd>> = Mutex::new(Vec::new());

fn remember(keeper: Pidfd) {
    reap_keepers();
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).push(keeper);
}

/// Takes over the keepers that the previous image of this process started, and reaps them. For a process that
/// replaced its own program, before it starts anything itself.
pub fn adopt_children() {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let children = pids.into_iter().filter_map(|pid| Pidfd::open(pid).ok());
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).extend(children);
}

/// Reaps keepers that this process started and that have ended. A long-lived process calls it now and then: otherwise
/// each one would stay listed as ended until this process ends.
pub fn reap_keepers() {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).retain(|keeper| !keeper.collect());
}

/// Our environment without the variables of the run we may have been called from.
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    let is_ours = |name: &OsString| {
        let agents = AgentTraits::ALL.iter().flat_map(|(_, traits)| traits.run_variables);
        !OF_THE_CALLER.iter().chain(agents).any(|of_the_caller| name == of_the_caller)
            && !name.as_bytes().starts_with(EVENT_VARIABLES.as_bytes())
    };
    let absolute = |(name, value): (OsString, OsString)| {
        // A relative path would mean another file in the keeper's directory.
        let is_path = name == "BERTH_CONFIG" && !value.is_empty();
        let path = is_path.then(|| std::path::absolute(&value).ok()).flatten();
        (name, path.map_or(value, Into::into))
    };
    std::env::vars_os().filter(|(name, _)| is_ours(name)).map(absolute).collect()
}
