//! Which agent a hook is called by.
//!
//! Promise: it is an ancestor of this process, alive when we looked; no word of anybody makes it another one. Outside of
//! our sessions it is one that says so of itself or has an agent's name: a hook whose agent is gone, or that somebody
//! typed, is nobody's. The session is the one whose keeper is above it.
//! Start with [`agent`].

use std::path::{Path, PathBuf};

use berth_host::identity::{self, Identity, ProcessStat};
use berth_store::SessionFiles;
use berth_store::keepers;

use crate::writers;

/// How far up an agent is looked for.
const MOST_ANCESTORS: usize = 64;
/// What stands between an agent and its hooks.
const BETWEEN: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "busybox", "env", "nice", "timeout", "sudo", "setsid",
    "berth",
];

/// The agent that calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agent {
    /// Which process it is.
    pub identity: Identity,
    /// Its terminal, if it has one.
    pub terminal: Option<PathBuf>,
    /// The session of ours that it runs in.
    pub session: Option<String>,
    /// The session or helper whose keeper is above it, in whatever state directory.
    pub kept_in: Option<SessionFiles>,
    /// Who is between it and the keeper of that session, nearest first.
    pub above: Vec<u32>,
}

/// Finds the agent of this kind above this process. `named` is the one it says it is, which counts if it is above us.
pub fn agent(kind: &str, named: Option<u32>) -> Option<Agent> {
    let (of_run, dir) = ancestors();
    let is_between = |stat: &ProcessStat| BETWEEN.contains(&stat.comm.as_str());
    let at = named.and_then(|named| of_run.iter().position(|stat| stat.pid == named));
    // The nearest that does more than start others. Above an orphan that may be anybody, and `--take` would end it.
    let nearest = || of_run.iter().position(|stat| !is_between(stat));
    let is_one = |at: &usize| dir.is_some() || writers::is_agent(kind, &of_run[*at]);
    let at = at.or_else(|| nearest().filter(is_one));
    // A run may well be a script.
    let at = at.or_else(|| dir.as_ref().and(of_run.len().checked_sub(1)))?;
    let stat = &of_run[at];
    let session = dir.as_ref().filter(|session| !session.is_helper());
    Some(Agent {
        identity: stat.identity().ok()?,
        terminal: stat.tty_name().map(|name| Path::new("/dev").join(name)),
        session: session.map(|session| session.id().to_string()),
        above: of_run[at + 1..].iter().map(|stat| stat.pid).collect(),
        kept_in: dir,
    })
}

/// Who is above us, nearest first, without the first process; up to the keeper of the session that we are in, if we are,
/// and where that session is. An agent waits for this, so nobody above a keeper is looked at.
fn ancestors() -> (Vec<ProcessStat>, Option<SessionFiles>) {
    let mut line: Vec<ProcessStat> = Vec::new();
    let mut next = identity::stat(std::process::id()).map_or(0, |me| me.ppid);
    while next > 1 && line.len() < MOST_ANCESTORS && line.iter().all(|stat| stat.pid != next) {
        let Ok(stat) = identity::stat(next) else { break };
        if let Some(dir) = keepers::kept_by(stat.pid) {
            return (line, Some(dir));
        }
        next = stat.ppid;
        line.push(stat);
    }
    (line, None)
}
