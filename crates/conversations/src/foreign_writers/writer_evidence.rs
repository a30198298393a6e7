//! The signs that agents leave of the conversations they write.
//!
//! Promise: every returned process was alive when its sign was checked; signs that are stale, of another boot, or of
//! another pid namespace are skipped. A lock that is held by an unseen process is an error.
//! Start with [`registered_writers`] and [`by_process`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use berth_driver::{AgentTraits, WriterSign};
use berth_host::identity::{self, ProcessIdentity, ProcessStat};
use berth_host::lock::{self, LockState};
use berth_host::process::all_processes;
use berth_host::process_tree;
use berth_transcript::{TranscriptKind, config_dir};
use serde::Deserialize;

use super::WriterEvidence;

/// The largest entry of an agent's list of its processes that is read. Usual entries have less than one KiB.
const MAX_ENTRY_BYTES: u64 = 64 << 10;
/// The words that a conversation's id follows on command lines.
const BEFORE_ID: [&str; 5] = ["--resume", "-r", "--session-id", "--session", "-s"];
/// With this option an agent reads the conversation it resumes, and writes another.
const FORKS: &str = "--fork-session";
/// Interpreters: the actual program is their argument.
const INTERPRETERS: [&str; 3] = ["node", "bun", "deno"];

type FoundWriters = Vec<(ProcessIdentity, WriterEvidence)>;

/// Finds writers by the files that the agents write themselves.
pub(super) fn registered(
    kind: &str,
    id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<FoundWriters, String> {
    let Some(known) = TranscriptKind::of(kind) else { return Ok(Vec::new()) };
    let dir = config_dir(known, env)?;
    match AgentTraits::of(kind).writer_sign {
        WriterSign::None => Ok(Vec::new()),
        WriterSign::ProcessFile { folder } => Ok(entries(kind, &dir.join(folder))?
            .into_iter()
            .filter(|entry| entry.session == id)
            .map(|entry| (entry.identity, WriterEvidence::Registry { file: entry.file }))
            .collect()),
        WriterSign::ConversationLock { folder, .. } => locked(&conversation_lock(&dir.join(folder), id)),
    }
}

/// The lock that the writer of a conversation holds.
pub(super) fn conversation_lock(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

/// True if the agent stores a conversation of this id. An agent that locks its conversations also has some that it
/// does not store, to find a title, and reports their turns. A version that takes no locks leaves this open.
pub(super) fn is_kept(kind: &str, id: &str, env: impl Fn(&str) -> Option<OsString>) -> bool {
    let WriterSign::ConversationLock { folder, .. } = AgentTraits::of(kind).writer_sign else { return true };
    let Some(Ok(dir)) = TranscriptKind::of(kind).map(|kind| config_dir(kind, env)) else { return true };
    let folder = dir.join(folder);
    !folder.is_dir() || conversation_lock(&folder, id).exists()
}

/// The entry of a process in the agent's own list, if there is one.
pub(super) fn entry_of(
    kind: &str,
    pid: u32,
    env: impl Fn(&str) -> Option<OsString>,
) -> Option<RegistryEntry> {
    let WriterSign::ProcessFile { folder } = AgentTraits::of(kind).writer_sign else { return None };
    entry_in(kind, &config_dir(TranscriptKind::of(kind)?, env).ok()?.join(folder), pid)
}

/// The entry of a process in the list in this folder.
pub(super) fn entry_in(kind: &str, folder: &Path, pid: u32) -> Option<RegistryEntry> {
    entry(kind, pid, folder.join(format!("{pid}.json")))
}

/// A living process of an agent, by the agent's own list.
pub(super) struct RegistryEntry {
    pub(super) identity: ProcessIdentity,
    pub(super) session: String,
    pub(super) file: PathBuf,
    /// Its activity; older versions do not report it.
    pub(super) doing: Option<RegistryActivity>,
}

/// The activity of an agent's process, by its own report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegistryActivity {
    /// Idle since then, in milliseconds since 1970.
    Idle {
        /// The time of that, by the wall clock.
        since_ms: u64,
    },
    /// At work since then, in milliseconds since 1970.
    Busy {
        /// The time of that, by the wall clock.
        since_ms: u64,
    },
    /// Any other activity: it waits for an answer.
    Other,
}

/// Reads an agent's list of its processes, `<pid>.json`. Killed processes stay in it.
pub(super) fn entries(kind: &str, dir: &Path) -> Result<Vec<RegistryEntry>, String> {
    let wrong = |error: io::Error| format!("cannot list {}: {error}", dir.display());
    let list = match fs::read_dir(dir) {
        Ok(list) => list,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(wrong(error)),
    };
    let mut entries = Vec::new();
    for file in list {
        let file = file.map_err(wrong)?.path();
        let is_json = file.extension().is_some_and(|extension| extension == "json");
        let pid = file.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok());
        if let Some(pid) = pid.filter(|_| is_json) {
            entries.extend(entry(kind, pid, file));
        }
    }
    Ok(entries)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegistryRecord {
    pid: u32,
    session_id: String,
    /// Field 22 of `/proc/PID/stat`.
    proc_start: Option<String>,
    /// Ends with the pid namespace of the pid.
    pid_domain: Option<String>,
    /// `busy`, `waiting` or `idle`.
    status: Option<String>,
    status_updated_at: Option<u64>,
}

fn entry(kind: &str, pid: u32, file: PathBuf) -> Option<RegistryEntry> {
    // The cheap check comes first: most entries are of processes that are long gone.
    let stat = identity::process_stat(pid).ok().filter(|stat| !stat.is_zombie())?;
    let found = fs::metadata(&file).ok().filter(|found| found.is_file() && found.len() <= MAX_ENTRY_BYTES);
    let registered: RegistryRecord =
        found.and_then(|_| serde_json::from_slice(&fs::read(&file).ok()?).ok())?;
    let is_same = match &registered.proc_start {
        Some(start) => start.parse() == Ok(stat.start_ticks),
        // Older versions do not report it. Then the process must at least look like an agent.
        None => is_agent(kind, &stat),
    };
    let is_here = registered.pid_domain.as_ref().is_none_or(|domain| {
        fs::read_link("/proc/self/ns/pid").is_ok_and(|ours| domain.ends_with(&*ours.to_string_lossy()))
    });
    (is_same && is_here && registered.pid == pid).then_some(())?;
    let doing = registered.status.as_deref().map(|status| match (status, registered.status_updated_at) {
        ("idle", Some(since_ms)) => RegistryActivity::Idle { since_ms },
        ("busy", Some(since_ms)) => RegistryActivity::Busy { since_ms },
        (_, _) => RegistryActivity::Other,
    });
    let identity = stat.identity().ok()?;
    Some(RegistryEntry { identity, session: registered.session_id, file, doing })
}

/// The process that holds the lock of a conversation.
fn locked(file: &Path) -> Result<FoundWriters, String> {
    let evidence = |identity| (identity, WriterEvidence::Lock { file: file.to_owned() });
    let wrong = |error: io::Error| format!("cannot look at the lock {}: {error}", file.display());
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // Usually our own agent has the lock, and the kernel's list shows it at once. Trying the lock comes second,
    // because for an instant that keeps the lock from an agent that starts just now.
    let listed = match process_tree::listed_lockers(file) {
        Ok(pids) => pids,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(_) => Vec::new(),
    };
    let holds = |pid: &u32| process_tree::held_files(*pid, name).is_ok_and(|held| !held.is_empty());
    let sure: FoundWriters = listed
        .into_iter()
        .filter(holds)
        .filter_map(|pid| ProcessIdentity::of(pid).ok())
        .map(evidence)
        .collect();
    if !sure.is_empty() {
        return Ok(sure);
    }
    match lock::lock_state(file).map_err(wrong)? {
        Some(LockState::Held) => {}
        Some(LockState::Free) | None => return Ok(Vec::new()),
    }
    let found = process_tree::processes_with_open_lock(file).map_err(wrong)?;
    if !found.processes.is_empty() {
        return Ok(found.processes.into_iter().map(evidence).collect());
    }
    // The lock may have been released meanwhile.
    match lock::lock_state(file).map_err(wrong)? {
        Some(LockState::Held) => Err(format!(
            "the lock {} is held by an unknown process ({} processes may not be looked into)",
            file.display(),
            found.unreadable
        )),
        Some(LockState::Free) | None => Ok(Vec::new()),
    }
}

/// The number of locks beside this one that a process holds.
pub(super) fn other_locks(pid: u32, file: &Path) -> usize {
    let dir = file.parent().unwrap_or(file);
    process_tree::held_files_in(pid, dir).map_or(0, |held| held.iter().filter(|held| *held != file).count())
}

/// Finds writers by their processes: their command lines, and the variables of their children.
pub(super) fn by_process(
    kind: &str,
    id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<FoundWriters, String> {
    let wrong = |error: io::Error| format!("cannot look through the processes: {error}");
    let (known, traits) = (TranscriptKind::of(kind), AgentTraits::of(kind));
    let dir = known.map(|kind| config_dir(kind, &env)).transpose()?;
    // An equal id in another directory is another conversation.
    let is_here = |pid: u32| match (known, &dir) {
        (Some(kind), Some(dir)) => place_of(kind, pid).is_none_or(|place| is_same(&place, dir)),
        _ => true,
    };
    // A process that has gone on to another conversation reports that (in its file, or by the lock that it holds
    // instead), and still has the first one on its command line; children that it starts then have the new one
    // in their environment.
    let mut entries = None;
    let mut has_moved_on = |pid: u32| -> Result<bool, String> {
        let Some(dir) = &dir else { return Ok(false) };
        let folder = match traits.writer_sign {
            WriterSign::None => return Ok(false),
            WriterSign::ConversationLock { folder, .. } => {
                return Ok(other_locks(pid, &conversation_lock(&dir.join(folder), id)) > 0);
            }
            WriterSign::ProcessFile { folder } => dir.join(folder),
        };
        let entries: &Vec<RegistryEntry> = match &mut entries {
            Some(entries) => entries,
            none => none.insert(self::entries(kind, &folder)?),
        };
        Ok(entries.iter().any(|entry| entry.identity.pid == pid && entry.session != id))
    };
    let mentioning =
        process_tree::processes_mentioning(&[id, &format!("{id}.jsonl")]).map_err(wrong)?.processes;
    let mut named: BTreeMap<u32, ProcessIdentity> = BTreeMap::new();
    for identity in &mentioning {
        let stat =
            identity::process_stat(identity.pid).ok().filter(|stat| stat.start_ticks == identity.start_ticks);
        let opened = stat.and_then(|stat| Some((stat.open().ok()?.argv().ok()?, stat.comm)));
        if opened.is_some_and(|(argv, comm)| names(&argv, id) && looks_like(kind, &argv, &comm))
            && is_here(identity.pid)
            && !has_moved_on(identity.pid)?
        {
            named.insert(identity.pid, identity.clone());
        }
    }
    // A launcher that waits for the program it started is not the writer.
    if named.len() > 1 {
        let parents = all_processes().map_err(wrong)?.iter().map(|stat| (stat.pid, stat.ppid)).collect();
        for pid in named.keys().copied().collect::<Vec<_>>() {
            above(&parents, pid).iter().for_each(|above| drop(named.remove(above)));
        }
    }
    let mut found: FoundWriters =
        named.into_values().map(|identity| (identity, WriterEvidence::CommandLine)).collect();
    let marks = traits.child_marks;
    let Some((mark, pid_mark)) = marks.and_then(|marks| Some((marks.conversation, marks.agent_pid?))) else {
        return Ok(found);
    };
    for child in &mentioning {
        let Some(agent) = agent_of(child, mark, id, pid_mark) else { continue };
        if !is_agent(kind, &agent) || !is_here(agent.pid) || has_moved_on(agent.pid)? {
            continue;
        }
        found.push((agent.identity().map_err(wrong)?, WriterEvidence::Child { pid: child.pid }));
    }
    Ok(found)
}

/// The living agent that a process names as its parent.
fn agent_of(child: &ProcessIdentity, mark: &str, id: &str, pid_mark: &str) -> Option<ProcessStat> {
    let [conversation, pid] = process_tree::process_variables(child.pid, [mark, pid_mark]).ok()?;
    (conversation.as_deref() == Some(id)).then_some(())?;
    let agent = identity::process_stat(pid?.parse().ok()?).ok()?;
    // A process that started after its child only has the pid of the child's parent.
    (!agent.is_zombie() && agent.start_ticks <= child.start_ticks).then_some(agent)
}

/// The ancestors of a pid, nearest first.
fn above(parents: &BTreeMap<u32, u32>, pid: u32) -> Vec<u32> {
    let mut line = Vec::new();
    let mut pid = pid;
    while let Some(&parent) = parents.get(&pid).filter(|&&parent| parent > 0 && !line.contains(&parent)) {
        line.push(parent);
        pid = parent;
    }
    line
}

/// The directory in which an agent's process keeps its conversations; `None` if the kernel hides it.
pub(super) fn place_of(kind: TranscriptKind, pid: u32) -> Option<PathBuf> {
    let names = [kind.dir_variable(), "HOME"];
    let values = process_tree::process_variables(pid, names).ok()?;
    let value = |name: &str| names.iter().position(|known| *known == name).and_then(|at| values[at].clone());
    config_dir(kind, |name| value(name).map(OsString::from)).ok()
}

/// True if two paths lead to one directory.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |dir: &Path| fs::metadata(dir).ok().map(|dir| (dir.dev(), dir.ino()));
    one == other || place(one).is_some_and(|one| place(other) == Some(one))
}

pub(super) fn is_agent(kind: &str, stat: &ProcessStat) -> bool {
    let argv = stat.open().and_then(|opened| opened.argv()).unwrap_or_default();
    looks_like(kind, &argv, &stat.comm)
}

/// True if a process is a program of this kind by its name. A process that merely has the id on its command line (an
/// editor, a search, a command of ours) does not count.
fn looks_like(kind: &str, argv: &[String], comm: &str) -> bool {
    let name = |word: &String| Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let program = argv.first().map(name).unwrap_or_default();
    let script = argv.get(1).filter(|_| INTERPRETERS.contains(&program.as_str()));
    program.starts_with(kind)
        || comm.starts_with(kind)
        || script.is_some_and(|script| Path::new(script).is_absolute() && script.contains(kind))
}

/// True if a command line says that this conversation will be written.
pub(super) fn names(argv: &[String], id: &str) -> bool {
    let is_id = |word: &str| {
        word == id || word.ends_with(".jsonl") && Path::new(word).file_stem().is_some_and(|stem| stem == id)
    };
    let forks = argv.iter().any(|word| word == FORKS);
    let counts = |before: &str| BEFORE_ID.contains(&before) && !(forks && before != "--session-id");
    // Some agents take options between their verb and the id.
    let behind_verb = argv.iter().skip_while(|word| *word != "resume").any(|word| is_id(word));
    let behind = argv.windows(2).any(|pair| counts(&pair[0]) && is_id(&pair[1]));
    let joined =
        |word: &String| word.split_once('=').is_some_and(|(before, word)| counts(before) && is_id(word));
    behind || behind_verb || argv.iter().any(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    fn argv(line: &str) -> Vec<String> {
        line.replace("ID", ID).split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_command_line_names_the_conversation_it_will_write() {
        for line in [
            "claude --resume ID",
            "claude -r ID hello",
            "claude -p --session-id ID",
            "claude --resume=ID",
            "claude --resume /home/user/.claude/projects/-x/ID.jsonl",
            "codex resume ID",
            "codex exec resume --json ID",
            "claude --resume other --fork-session --session-id ID",
        ] {
            assert!(names(&argv(line), ID), "{line}");
        }
    }

    #[test]
    fn a_command_line_that_only_reads_names_nothing() {
        for line in [
            "claude --resume other",
            "claude --resume ID --fork-session",
            "claude --resume ID --fork-session --session-id other",
            "codex fork ID",
            "claude tell me about ID",
            "claude --session-id IDx",
        ] {
            assert!(!names(&argv(line), ID), "{line}");
        }
    }

    #[test]
    fn only_a_program_of_the_kind_is_one() {
        let is = |line: &str, comm: &str| looks_like("claude", &argv(line), comm);
        assert!(is("claude -p", "claude"));
        assert!(is("/opt/x/bin/claude.exe -p", "claude.exe"));
        assert!(is("node /opt/lib/claude-code/cli.js", "node"));
        assert!(is("anything", "claude"));
        assert!(!is("/home/claude/bin/berth run --resume ID", "berth"));
        assert!(!is("berth run --agent claude --resume ID", "berth"));
        assert!(!is("sh -c claude", "sh"));
        assert!(!is("node x.js claude", "node"));
        assert!(!is("", "node"));
    }

    #[test]
    fn parents_that_go_in_a_circle_are_followed_once() {
        let parents = BTreeMap::from([(4, 3), (3, 2), (2, 4)]);
        assert_eq!(above(&parents, 4), [3, 2, 4]);
        assert_eq!(above(&BTreeMap::from([(4, 1), (1, 0)]), 4), [1]);
    }
}
