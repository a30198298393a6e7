//! The conversation that the agent of a run has open, by the agent's own signs: for a run whose hooks tell nothing.
//!
//! Promise: only a process of the run counts, and of an agent inside of another agent only the outer one. An id is returned
//! only for a conversation that its agent can go on with by that id; what a sub-agent of Codex writes is not one.
//! Start with [`open_in`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use berth_host::process::census;
use berth_host::tree;
use berth_transcript::{Kind, shelf};

use super::signs;
use crate::foreign;

/// Where in its directory Codex has the conversations that it goes on with.
const CODEX_ROLLOUTS: &str = "sessions";

/// The conversation that the run's agent has open. `dir` is where the agent keeps everything, `agent` the first process of
/// the run and `keeper` the one above it. Usually the first process is the agent, and only that is looked at.
pub(crate) fn open_in(kind: Kind, dir: &Path, agent: u32, keeper: u32) -> Option<String> {
    written_by(kind, dir, agent).or_else(|| behind_a_wrapper(kind, dir, keeper)).map(|(_, id)| id)
}

/// The same where the first process only starts the agent: a walk over all processes.
fn behind_a_wrapper(kind: Kind, dir: &Path, keeper: u32) -> Option<(SystemTime, String)> {
    let all = census().ok()?;
    let ours = foreign::below_in(&all, keeper).ours;
    let agents = all.iter().filter(|stat| ours.contains(&stat.pid) && signs::is_agent(kind.word(), stat));
    let found: Vec<(u32, (SystemTime, String))> =
        agents.filter_map(|stat| Some((stat.pid, written_by(kind, dir, stat.pid)?))).collect();
    let inner: BTreeSet<u32> = found.iter().flat_map(|(pid, _)| tree::descendants_in(&all, *pid)).collect();
    found.into_iter().filter(|(pid, _)| !inner.contains(pid)).map(|(_, written)| written).max()
}

/// The conversation that a process wrote last, and when.
fn written_by(kind: Kind, dir: &Path, pid: u32) -> Option<(SystemTime, String)> {
    match kind {
        Kind::Claude => {
            let entry = signs::entry_in(dir, pid)?;
            Some((fs::metadata(&entry.file).ok()?.modified().ok()?, entry.session))
        }
        Kind::Codex => last_rollout(dir, pid),
    }
}

/// Codex has the lock of every conversation that it had open since it started, and writes only the one that it shows. There
/// is no file before the first prompt, and nothing to go on with.
fn last_rollout(dir: &Path, pid: u32) -> Option<(SystemTime, String)> {
    // The kernel's names of open files have no links in them.
    let dir = fs::canonicalize(dir).ok()?;
    let locks = tree::held_files_in(pid, &dir.join(signs::CODEX_LOCKS)).ok()?;
    let is_locked =
        |id: &String| locks.iter().any(|lock| lock.file_stem().is_some_and(|stem| stem == id.as_str()));
    let rollouts = tree::open_files_below(pid, &dir.join(CODEX_ROLLOUTS)).ok()?;
    let written = rollouts.iter().filter(|path| !shelf::is_of_sub_agent(path)).filter_map(|path| {
        let id = shelf::id_in(path).filter(is_locked)?;
        Some((fs::metadata(path).ok()?.modified().ok()?, id))
    });
    written.max()
}
