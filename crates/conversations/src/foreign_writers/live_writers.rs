//! All processes that have any conversation open, for lists.
//!
//! Promise: as with [`super::find`], every named process was alive under this very identity. One walk over the
//! processes, and a closer look only at those that are agents by their names.
//! Start with [`live_writers`].

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use berth_driver::{AgentTraits, WriterSign};
use berth_host::identity::{ProcessIdentity, ProcessStat};
use berth_host::process::all_processes;
use berth_host::process_tree;
use berth_procs::nested_sessions;
use berth_store::SessionFiles;
use berth_store::keepers;
use berth_store::state_dir::StateDir;
use berth_transcript::{TranscriptKind, config_dir};

use super::{ForeignWriter, WriterEvidence, described_writer, writer_evidence};
use crate::open_conversations::OpenConversations;

/// The largest number of agents that are examined.
const MOST_AGENTS: usize = 10_000;

/// The processes that have conversations of this kind open in the directory that `env` leads to, ours included: each
/// by its strongest sign. A process that holds several conversations is listed for each.
pub fn live_writers(
    kind: TranscriptKind,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<ForeignWriter>, String> {
    let dir = config_dir(kind, env)?;
    let mut found: Vec<(String, ProcessIdentity, WriterEvidence)> = Vec::new();
    let sign = AgentTraits::of(kind.word()).writer_sign;
    if let WriterSign::ProcessFile { folder } = sign {
        for entry in writer_evidence::entries(kind.word(), &dir.join(folder))? {
            found.push((entry.session, entry.identity, WriterEvidence::Registry { file: entry.file }));
        }
    }
    let known: BTreeSet<u32> = found.iter().map(|(_, identity, _)| identity.pid).collect();
    let all = all_processes().map_err(|error| format!("cannot look through the processes: {error}"))?;
    let agents = all.iter().filter(|stat| !stat.is_kernel && !stat.is_zombie() && !known.contains(&stat.pid));
    for stat in agents.filter(|stat| writer_evidence::is_agent(kind.word(), stat)).take(MOST_AGENTS) {
        let Ok(identity) = stat.identity() else { continue };
        match sign {
            WriterSign::ProcessFile { .. } | WriterSign::None => {
                let is_here = writer_evidence::place_of(kind, stat.pid)
                    .is_some_and(|place| writer_evidence::is_same(&place, &dir));
                for id in named(stat).into_iter().filter(|_| is_here) {
                    found.push((id, identity.clone(), WriterEvidence::CommandLine));
                }
            }
            WriterSign::ConversationLock { folder, .. } => {
                for file in process_tree::held_files_in(stat.pid, &dir.join(folder)).unwrap_or_default() {
                    let id = file.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
                    found.extend(
                        id.map(|id| (id, identity.clone(), WriterEvidence::Lock { file: file.clone() })),
                    );
                }
            }
        }
    }
    found.extend(told(kind, &dir, &found));
    let me = std::process::id();
    found.retain(|(_, identity, _)| identity.pid != me);
    // A launcher that waits for the program it started is not the writer.
    let parents: Vec<u32> = all
        .iter()
        .filter(|stat| found.iter().any(|(_, identity, _)| identity.pid == stat.pid))
        .map(|stat| stat.ppid)
        .collect();
    found.retain(|(_, identity, evidence)| {
        !matches!(evidence, WriterEvidence::CommandLine) || !parents.contains(&identity.pid)
    });
    Ok(found
        .into_iter()
        .filter_map(|(id, identity, evidence)| described_writer(kind.word(), &id, identity, evidence))
        .collect())
}

/// The processes whose hooks reported a conversation for which there is no other sign.
fn told(
    kind: TranscriptKind,
    dir: &Path,
    found: &[(String, ProcessIdentity, WriterEvidence)],
) -> Vec<(String, ProcessIdentity, WriterEvidence)> {
    let Ok(root) = StateDir::place() else { return Vec::new() };
    let holders = OpenConversations::of(&root);
    let mut open = holders.open();
    open.retain(|holder| holder.kind == kind.word());
    open.retain(|holder| holder.account().is_none_or(|place| writer_evidence::is_same(place, dir)));
    open.retain(|holder| {
        !found.iter().any(|(id, identity, _)| *id == holder.conversation_id && *identity == holder.identity)
    });
    open.into_iter()
        .map(|holder| {
            let file = holders.file(&holder.kind, &holder.identity);
            (holder.conversation_id, holder.identity, WriterEvidence::Hook { file })
        })
        .collect()
}

/// The conversations that a command line says it will write.
fn named(stat: &ProcessStat) -> Vec<String> {
    let argv = stat.open().and_then(|opened| opened.argv()).unwrap_or_default();
    let mut ids: Vec<String> = argv
        .iter()
        .flat_map(|word| [word.as_str(), word.split_once('=').map_or("", |(_, value)| value)])
        .filter_map(|word| {
            let stem = Path::new(word).file_stem()?.to_str()?;
            let file = PathBuf::from(format!("{stem}.jsonl"));
            berth_transcript::conversation_catalog::id_of_path(&file)
                .filter(|id| writer_evidence::names(&argv, id))
        })
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

impl ForeignWriter {
    /// The session that keeps the process, in any state directory.
    pub fn kept_in(&self) -> Option<SessionFiles> {
        let stat = berth_host::identity::process_stat(self.identity.pid).ok()?;
        keepers::session_of_keeper(self.identity.pid).or_else(|| nested_sessions::keeper_above(&stat))
    }
}
