//! The conversation that the agent of a run has open, by the agent's own signs: for a run whose hooks tell nothing.
//!
//! Promise: only a process of the run counts, and of an agent inside of another agent only the outer one. An id is returned
//! only for a conversation that its agent can go on with by that id; what a sub-agent writes is not one.
//! Start with [`open_in`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use berth_driver::{AgentTraits, WriterSign};
use berth_host::clock;
use berth_host::identity::{Identity, ProcessStat, Verdict};
use berth_host::process::census;
use berth_host::tree;
use berth_transcript::{Kind, shelf};

use super::signs;
use crate::foreign;

/// The pauses between two walks over all processes that find nothing: the first one, and the longest.
const FIRST_PAUSE_MS: u64 = 500;
const LONGEST_PAUSE_MS: u64 = 10_000;

/// The agent behind a first process that only starts it. It is remembered, and walks that find none are made more and
/// more rarely: a walk over all processes takes as long as there are processes.
#[derive(Debug, Default)]
pub(crate) struct WrappedAgent {
    found: Option<Identity>,
    /// When the next walk may be made, on the boot clock.
    walk_at_ms: u64,
    /// The pause before that; 0 before the first walk.
    pause_ms: u64,
}

impl WrappedAgent {
    /// The next look walks if it has to: there may be no later one.
    pub(crate) fn walk_next(&mut self) {
        self.walk_at_ms = 0;
    }

    /// The agent may open a conversation in a moment.
    pub(crate) fn expect_soon(&mut self, now_ms: u64) {
        self.pause_ms = 0;
        self.walk_at_ms = self.walk_at_ms.min(now_ms + FIRST_PAUSE_MS);
    }

    fn may_walk(&self, now_ms: u64) -> bool {
        self.walk_at_ms <= now_ms
    }

    fn walked(&mut self, found: Option<Identity>, now_ms: u64) {
        self.pause_ms = match found {
            Some(_) => FIRST_PAUSE_MS,
            None => (2 * self.pause_ms).clamp(FIRST_PAUSE_MS, LONGEST_PAUSE_MS),
        };
        self.walk_at_ms = now_ms + self.pause_ms;
        self.found = found;
    }

    /// What the remembered process wrote, if that still lives.
    fn written(&self, kind: Kind, dir: &Path) -> Option<String> {
        let found = self.found.as_ref()?;
        let (_, id) = written_by(kind, dir, found.pid)?;
        // Checked after its files were looked at, so that they are not of a later process with its pid.
        matches!(found.check(), Verdict::Alive(_)).then_some(id)
    }
}

/// The conversation that the run's agent has open. `dir` is where the agent keeps everything, `agent` the first process of
/// the run and `keeper` the one above it. Usually the first process is the agent, and only that is looked at.
pub(crate) fn open_in(
    kind: Kind,
    dir: &Path,
    agent: u32,
    keeper: u32,
    wrapped: &mut WrappedAgent,
) -> Option<String> {
    let known = written_by(kind, dir, agent).map(|(_, id)| id).or_else(|| wrapped.written(kind, dir));
    let now_ms = clock::boot_ms();
    if known.is_some() || !wrapped.may_walk(now_ms) {
        return known;
    }
    let found = behind_a_wrapper(kind, dir, keeper);
    let identity = found.as_ref().and_then(|(agent, _)| agent.identity().ok());
    wrapped.walked(identity, now_ms);
    found.map(|(_, id)| id)
}

/// The agent that the first process started, and its conversation: a walk over all processes.
fn behind_a_wrapper(kind: Kind, dir: &Path, keeper: u32) -> Option<(ProcessStat, String)> {
    let all = census().ok()?;
    let ours = foreign::below_in(&all, keeper).ours;
    let agents = all.iter().filter(|stat| ours.contains(&stat.pid) && signs::is_agent(kind.word(), stat));
    let found: Vec<(u32, (SystemTime, String))> =
        agents.filter_map(|stat| Some((stat.pid, written_by(kind, dir, stat.pid)?))).collect();
    let inner: BTreeSet<u32> = found.iter().flat_map(|(pid, _)| tree::descendants_in(&all, *pid)).collect();
    let outer = found.into_iter().filter(|(pid, _)| !inner.contains(pid));
    let (pid, (_, id)) = outer.max_by(|(_, one), (_, other)| one.cmp(other))?;
    let agent = all.into_iter().find(|stat| stat.pid == pid)?;
    Some((agent, id))
}

/// The conversation that a process wrote last, and when.
fn written_by(kind: Kind, dir: &Path, pid: u32) -> Option<(SystemTime, String)> {
    match AgentTraits::of(kind.word()).writer_sign {
        WriterSign::None => None,
        WriterSign::ProcessFile { folder } => {
            let entry = signs::entry_in(kind.word(), &dir.join(folder), pid)?;
            Some((fs::metadata(&entry.file).ok()?.modified().ok()?, entry.session))
        }
        WriterSign::ConversationLock { folder, transcripts } => {
            // The kernel's names of open files have no links in them.
            let dir = fs::canonicalize(dir).ok()?;
            last_written(&dir.join(folder), &dir.join(transcripts), pid)
        }
    }
}

/// A process has the lock of every conversation that it had open since it started, and writes only the one that it shows.
/// There is no file before the first prompt, and nothing to go on with.
fn last_written(locks: &Path, transcripts: &Path, pid: u32) -> Option<(SystemTime, String)> {
    let locks = tree::held_files_in(pid, locks).ok()?;
    let is_locked =
        |id: &String| locks.iter().any(|lock| lock.file_stem().is_some_and(|stem| stem == id.as_str()));
    let open = tree::open_files_below(pid, transcripts).ok()?;
    let written = open.iter().filter(|path| !shelf::is_of_sub_agent(path)).filter_map(|path| {
        let id = shelf::id_in(path).filter(is_locked)?;
        Some((fs::metadata(path).ok()?.modified().ok()?, id))
    });
    written.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_that_find_no_agent_become_rare_until_one_is_expected() {
        let mut wrapped = WrappedAgent::default();
        let (mut now_ms, mut walks) = (0, 0);
        while now_ms < 60_000 {
            if wrapped.may_walk(now_ms) {
                wrapped.walked(None, now_ms);
                walks += 1;
            }
            now_ms += 100;
        }
        assert!((5..=12).contains(&walks), "{walks} walks in a minute");
        wrapped.expect_soon(now_ms);
        assert!(wrapped.may_walk(now_ms + FIRST_PAUSE_MS));
        wrapped.walked(None, now_ms + FIRST_PAUSE_MS);
        assert!(wrapped.may_walk(now_ms + 2 * FIRST_PAUSE_MS), "the pauses begin again");
        wrapped.walked(None, now_ms);
        wrapped.walk_next();
        assert!(wrapped.may_walk(now_ms));
    }

    #[test]
    fn a_remembered_process_that_is_gone_is_not_believed() {
        let mut wrapped = WrappedAgent::default();
        let mut gone = Identity::me().expect("this process");
        gone.start_ticks += 1;
        wrapped.walked(Some(gone), 0);
        assert_eq!(wrapped.written(Kind::Claude, Path::new("/nowhere")), None);
    }
}
