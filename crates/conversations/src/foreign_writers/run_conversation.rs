//! The conversation that the agent of a run has open, by the agent's own signs: for a run whose hooks report nothing.
//!
//! Promise: only a process of the run counts, and of an agent inside of another agent only the outer one. An id is returned
//! only for a conversation that its agent can go on with by that id; the conversation of a sub-agent is not one.
//! Start with [`conversation_open_in_run`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use berth_driver::{AgentTraits, WriterSign};
use berth_host::clock;
use berth_host::identity::{ProcessIdentity, ProcessLiveness, ProcessStat};
use berth_host::process::all_processes;
use berth_host::process_tree;
use berth_procs::nested_sessions;
use berth_transcript::{TranscriptKind, conversation_catalog};

use super::writer_evidence;

/// The pauses between two walks over all processes that find nothing: the first one, and the longest.
const FIRST_PAUSE_MS: u64 = 500;
const LONGEST_PAUSE_MS: u64 = 10_000;

/// The agent behind a first process that only starts it. It is remembered, and walks that find no agent are made more
/// and more rarely: a walk takes time for every process of the host.
#[derive(Debug, Default)]
pub struct WrappedAgent {
    found: Option<ProcessIdentity>,
    /// The time of the next walk, on the boot clock.
    walk_at_ms: u64,
    /// The pause before that walk; 0 before the first walk.
    pause_ms: u64,
}

impl WrappedAgent {
    /// Makes the next search walk if necessary: there may be no later one.
    pub fn walk_next(&mut self) {
        self.walk_at_ms = 0;
    }

    /// The agent may open a conversation in a moment.
    pub fn expect_soon(&mut self, now_ms: u64) {
        self.pause_ms = 0;
        self.walk_at_ms = self.walk_at_ms.min(now_ms + FIRST_PAUSE_MS);
    }

    fn may_walk(&self, now_ms: u64) -> bool {
        self.walk_at_ms <= now_ms
    }

    fn walked(&mut self, found: Option<ProcessIdentity>, now_ms: u64) {
        self.pause_ms = match found {
            Some(_) => FIRST_PAUSE_MS,
            None => (2 * self.pause_ms).clamp(FIRST_PAUSE_MS, LONGEST_PAUSE_MS),
        };
        self.walk_at_ms = now_ms + self.pause_ms;
        self.found = found;
    }

    /// The conversation that the remembered process wrote, if it still lives.
    fn written(&self, kind: TranscriptKind, dir: &Path) -> Option<String> {
        let found = self.found.as_ref()?;
        let (_, id) = written_by(kind, dir, found.pid)?;
        // Checked after its files were looked at, so that they are not of a later process with its pid.
        matches!(found.check(), ProcessLiveness::Alive(_)).then_some(id)
    }
}

/// The conversation that the run's agent has open. `dir` is where the agent keeps its data, `agent` the first process
/// of the run and `keeper` the process above it. Usually the first process is the agent, and only that one is examined.
pub fn conversation_open_in_run(
    kind: TranscriptKind,
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
fn behind_a_wrapper(kind: TranscriptKind, dir: &Path, keeper: u32) -> Option<(ProcessStat, String)> {
    let all = all_processes().ok()?;
    let ours = nested_sessions::sort_listed_descendants(&all, keeper).ours;
    let agents =
        all.iter().filter(|stat| ours.contains(&stat.pid) && writer_evidence::is_agent(kind.word(), stat));
    let found: Vec<(u32, (SystemTime, String))> =
        agents.filter_map(|stat| Some((stat.pid, written_by(kind, dir, stat.pid)?))).collect();
    let inner: BTreeSet<u32> =
        found.iter().flat_map(|(pid, _)| process_tree::descendants_in(&all, *pid)).collect();
    let outer = found.into_iter().filter(|(pid, _)| !inner.contains(pid));
    let (pid, (_, id)) = outer.max_by(|(_, one), (_, other)| one.cmp(other))?;
    let agent = all.into_iter().find(|stat| stat.pid == pid)?;
    Some((agent, id))
}

/// The conversation that a process wrote last, and the time of that.
fn written_by(kind: TranscriptKind, dir: &Path, pid: u32) -> Option<(SystemTime, String)> {
    match AgentTraits::of(kind.word()).writer_sign {
        WriterSign::None => None,
        WriterSign::ProcessFile { folder } => {
            let entry = writer_evidence::entry_in(kind.word(), &dir.join(folder), pid)?;
            Some((fs::metadata(&entry.file).ok()?.modified().ok()?, entry.session))
        }
        WriterSign::ConversationLock { folder, transcripts } => {
            // The kernel resolves symbolic links in the names of open files.
            let dir = fs::canonicalize(dir).ok()?;
            last_written(&dir.join(folder), &dir.join(transcripts), pid)
        }
    }
}

/// A process holds the lock of every conversation that it had open since it started, and writes only the one that it
/// shows. Before the first prompt there is no file, and nothing to go on with.
fn last_written(locks: &Path, transcripts: &Path, pid: u32) -> Option<(SystemTime, String)> {
    let locks = process_tree::held_files_in(pid, locks).ok()?;
    let is_locked =
        |id: &String| locks.iter().any(|lock| lock.file_stem().is_some_and(|stem| stem == id.as_str()));
    let open = process_tree::open_files_below(pid, transcripts).ok()?;
    let written =
        open.iter().filter(|path| !conversation_catalog::is_of_sub_agent(path)).filter_map(|path| {
            let id = conversation_catalog::id_of_path(path).filter(is_locked)?;
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
        let mut gone = ProcessIdentity::me().expect("this process");
        gone.start_ticks += 1;
        wrapped.walked(Some(gone), 0);
        assert_eq!(wrapped.written(TranscriptKind::Claude, Path::new("/nowhere")), None);
    }
}
