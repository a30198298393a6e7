//! The agent that calls a hook.
//!
//! Promise: the agent is an ancestor of this process, alive when we looked; a mere statement cannot make another
//! process the agent. Outside of our sessions it is an ancestor that identifies itself or has an agent's name: a hook
//! whose agent is gone, or that a user typed, belongs to no agent. The session is the one whose keeper is above it.
//! Start with [`calling_agent`].

use std::path::{Path, PathBuf};

use berth_host::identity::{self, ProcessIdentity, ProcessStat};
use berth_store::SessionFiles;
use berth_store::keepers;

use crate::foreign_writers;

/// The number of generations up the tree in which an agent is looked for.
const MOST_ANCESTORS: usize = 64;
/// Programs that may stand between an agent and its hooks.
const BETWEEN: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "busybox", "env", "nice", "timeout", "sudo", "setsid",
    "berth",
];

/// The agent that calls the hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallingAgent {
    /// The process: pid, start time and boot.
    pub identity: ProcessIdentity,
    /// Its controlling terminal; absent without one.
    pub terminal: Option<PathBuf>,
    /// The session of ours that it runs in.
    pub session: Option<String>,
    /// The session or helper whose keeper is above it, in any state directory.
    pub kept_in: Option<SessionFiles>,
    /// The pids between it and the keeper of that session, nearest first.
    pub above: Vec<u32>,
}

/// Finds the agent of this kind above this process. `named` is the pid that the hook claims, which counts only if it
/// is above us.
pub fn calling_agent(kind: &str, named: Option<u32>) -> Option<CallingAgent> {
    let (of_run, dir) = ancestors();
    let is_between = |stat: &ProcessStat| BETWEEN.contains(&stat.comm.as_str());
    let at = named.and_then(|named| of_run.iter().position(|stat| stat.pid == named));
    // The nearest ancestor that does more than start others. Above an orphan that may be any process, and `--take`
    // would end it.
    let nearest = || of_run.iter().position(|stat| !is_between(stat));
    let is_one = |at: &usize| dir.is_some() || foreign_writers::is_agent(kind, &of_run[*at]);
    let at = at.or_else(|| nearest().filter(is_one));
    // A run may also be a script.
    let at = at.or_else(|| dir.as_ref().and(of_run.len().checked_sub(1)))?;
    let stat = &of_run[at];
    let session = dir.as_ref().filter(|session| !session.is_helper());
    Some(CallingAgent {
        identity: stat.identity().ok()?,
        terminal: stat.tty_name().map(|name| Path::new("/dev").join(name)),
        session: session.map(|session| session.id().to_string()),
        above: of_run[at + 1..].iter().map(|stat| stat.pid).collect(),
        kept_in: dir,
    })
}

/// The ancestors of this process, nearest first, without the first process of the host; up to the keeper of the
/// session we are in, if any, and the place of that session. An agent waits for this, so the climb stops at a keeper.
fn ancestors() -> (Vec<ProcessStat>, Option<SessionFiles>) {
    let mut line: Vec<ProcessStat> = Vec::new();
    let mut next = identity::process_stat(std::process::id()).map_or(0, |me| me.ppid);
    while next > 1 && line.len() < MOST_ANCESTORS && line.iter().all(|stat| stat.pid != next) {
        let Ok(stat) = identity::process_stat(next) else { break };
        if let Some(dir) = keepers::session_of_keeper(stat.pid) {
            return (line, Some(dir));
        }
        next = stat.ppid;
        line.push(stat);
    }
    (line, None)
}
