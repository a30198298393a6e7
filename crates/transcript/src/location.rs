//! Places where agents keep their conversations.
//!
//! Promise: paths come from the environment of the *agent*, never from ours. An id is searched for by name, never taken
//! as a path. A directory that cannot be read is an error, not an absence.
//! Not here: the contents of the files. Start with [`transcript_files`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open as open_fd};

use crate::{conversation_catalog, read_budget};

/// Limit for the id of a conversation.
const MAX_ID_BYTES: usize = 128;

/// Program that wrote a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TranscriptKind {
    /// Claude Code, also when another program drives it.
    Claude,
    /// Codex, also when another program drives it.
    Codex,
}

impl TranscriptKind {
    /// Every known kind.
    pub const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    /// Parses the name of a kind; `None` if berth cannot read the agent's files.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "claude" => Some(Self::Claude),
            "codex" => Some(Self::Codex),
            _ => None,
        }
    }

    /// The agent's name: `claude` or `codex`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// Variable that names the agent's config directory.
    pub fn dir_variable(self) -> &'static str {
        match self {
            Self::Claude => "CLAUDE_CONFIG_DIR",
            Self::Codex => "CODEX_HOME",
        }
    }
}

/// Config directory of an agent with this environment.
pub fn config_dir(kind: TranscriptKind, env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    let variable = kind.dir_variable();
    let usual = match kind {
        TranscriptKind::Claude => ".claude",
        TranscriptKind::Codex => ".codex",
    };
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = match set(variable) {
        Some(dir) => dir,
        None => set("HOME")
            .ok_or_else(|| format!("neither {variable} nor HOME is set for the agent"))?
            .join(usual),
    };
    if dir.is_absolute() { Ok(dir) } else { Err(format!("{} is not an absolute path", dir.display())) }
}

/// A file of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TranscriptFile {
    pub(crate) path: PathBuf,
    /// True if the agent archived the conversation: it can be read, but not resumed.
    pub(crate) is_archived: bool,
    pub(crate) is_compressed: bool,
}

/// True if this is a safe id of a conversation: an agent does not take it for an option, and it contains no path.
pub fn is_plain_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    id.len() <= MAX_ID_BYTES
        && id.bytes().all(is_plain)
        && id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
}

/// Finds the files of a conversation: usually one, or none. Two paths to one file count once.
pub(crate) fn files(
    kind: TranscriptKind,
    id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<TranscriptFile>, String> {
    if !is_plain_id(id) {
        return Err("the id of the conversation is not one an agent gives".to_owned());
    }
    let dir = config_dir(kind, env)?;
    let mut found = Vec::new();
    match kind {
        TranscriptKind::Claude => {
            let name = format!("{id}.jsonl");
            for project in entries(&dir.join("projects"))? {
                let path = project.join(&name);
                match fs::metadata(&path) {
                    Ok(_) => found.push(TranscriptFile { path, is_archived: false, is_compressed: false }),
                    Err(error) if is_absent(&error) => {}
                    Err(error) => return Err(format!("cannot examine {}: {error}", path.display())),
                }
            }
        }
        TranscriptKind::Codex => {
            for (folder, depth, is_archived) in [("sessions", 3, false), ("archived_sessions", 0, true)] {
                rollouts(&dir.join(folder), depth, id, is_archived, &mut found)?;
            }
        }
    }
    let place = |found: &TranscriptFile| fs::metadata(&found.path).map(|file| (file.dev(), file.ino())).ok();
    let mut places = Vec::new();
    found.retain(|file| {
        let place = place(file);
        let is_new = place.is_none() || !places.contains(&place);
        places.push(place);
        is_new
    });
    Ok(found)
}

/// Facts about an agent's own transcript that its path tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TranscriptPath {
    /// Agent that keeps the transcript.
    pub kind: TranscriptKind,
    /// Config directory of that agent.
    pub account: PathBuf,
    /// Id of the conversation; for a sub-agent that of its main conversation. Older versions do not have it in the
    /// path.
    pub conversation: Option<String>,
}

/// Returns the facts if a path is in an agent's own directory, also through links.
pub fn agents_own_path(path: &Path) -> Option<TranscriptPath> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A link in an agent's directory belongs to the agent as much as its target.
    let named = path.file_name().and_then(|name| Some(fs::canonicalize(dir).ok()?.join(name)));
    named.as_deref().and_then(own_at).or_else(|| own_at(&fs::canonicalize(path).ok()?))
}

fn own_at(path: &Path) -> Option<TranscriptPath> {
    let name = |up: usize| path.ancestors().nth(up)?.file_name()?.to_str();
    let own = |kind: TranscriptKind, up: usize, conversation: Option<String>| {
        Some(TranscriptPath { kind, account: path.ancestors().nth(up)?.to_owned(), conversation })
    };
    match conversation_catalog::conversation_of_path(path) {
        Some((TranscriptKind::Claude, id)) if name(2) == Some("projects") => {
            own(TranscriptKind::Claude, 3, Some(id))
        }
        Some((TranscriptKind::Codex, id)) if name(4) == Some("sessions") => {
            own(TranscriptKind::Codex, 5, Some(id))
        }
        Some((TranscriptKind::Codex, id)) if name(1) == Some("archived_sessions") => {
            own(TranscriptKind::Codex, 2, Some(id))
        }
        None if name(0)?.starts_with("agent-") && name(0)?.ends_with(".jsonl") => {
            match (name(1), name(2), name(4)) {
                (Some("subagents"), Some(id), Some("projects")) => {
                    own(TranscriptKind::Claude, 5, Some(id.to_owned()))
                }
                (_, Some("projects"), _) => own(TranscriptKind::Claude, 3, None),
                (_, _, _) => None,
            }
        }
        Some(_) | None => None,
    }
}

/// Every transcript of an agent, and the errors of directories that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllTranscripts {
    /// Paths of the transcripts, sorted.
    pub files: Vec<PathBuf>,
    /// Directories that could not be read, each with the error.
    pub damaged: Vec<(PathBuf, String)>,
}

/// Finds every transcript of an agent with this environment, those of sub-agents included; compressed ones are left
/// out.
pub fn every_file(
    kind: TranscriptKind,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<AllTranscripts, String> {
    let dir = config_dir(kind, env)?;
    // Claude Code: a folder for each project, in it one for each conversation with sub-agents. Codex: years, months, days.
    let places: &[(&str, usize)] = match kind {
        TranscriptKind::Claude => &[("projects", 3)],
        TranscriptKind::Codex => &[("sessions", 3), ("archived_sessions", 0)],
    };
    let mut every = AllTranscripts::default();
    for (folder, depth) in places {
        below(&dir.join(folder), *depth, &mut every);
    }
    every.files.sort();
    Ok(every)
}

fn below(dir: &Path, depth: usize, every: &mut AllTranscripts) {
    let entries = match entries(dir) {
        Ok(entries) => entries,
        Err(why) => return every.damaged.push((dir.to_owned(), why)),
    };
    for path in entries {
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            every.files.push(path);
        } else if depth > 0 && path.symlink_metadata().is_ok_and(|file| file.is_dir()) {
            below(&path, depth - 1, every);
        }
    }
}

/// Searches for `rollout-<time>-<id>.jsonl` in directories of years, months and days.
fn rollouts(
    dir: &Path,
    depth: usize,
    id: &str,
    is_archived: bool,
    found: &mut Vec<TranscriptFile>,
) -> Result<(), String> {
    for path in entries(dir)? {
        if depth > 0 {
            rollouts(&path, depth - 1, id, is_archived, found)?;
            continue;
        }
        let name = path.file_name().unwrap_or_default().as_bytes();
        let (plain, is_compressed) = match name.strip_suffix(b".zst") {
            Some(plain) => (plain, true),
            None => (name, false),
        };
        let rest = plain.strip_prefix(b"rollout-").and_then(|rest| rest.strip_suffix(b".jsonl"));
        let rest = rest.and_then(|rest| rest.strip_suffix(id.as_bytes()));
        if rest.is_some_and(|rest| rest.ends_with(b"-")) {
            found.push(TranscriptFile { path, is_archived, is_compressed });
        }
    }
    Ok(())
}

/// The entries of a directory; empty if it does not exist or is not a directory.
pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error: io::Error| format!("cannot list {}: {error}", dir.display());
    match fs::read_dir(dir) {
        Ok(entries) => {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(wrong)
        }
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(wrong(error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Opens a transcript to read it. Links are followed; a target that is not a regular file is refused, because a read
/// from a pipe would wait for a writer.
pub fn open_transcript(path: &Path) -> Result<File, String> {
    let wrong = |error: io::Error| format!("cannot open {}: {error}", path.display());
    read_budget::check_not_abandoned().map_err(wrong)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open_fd(path, flags, Mode::empty()).map_err(|error| wrong(error.into()))?);
    match file.metadata().map_err(wrong)?.is_file() {
        true => Ok(file),
        false => Err(format!("{} is not a file", path.display())),
    }
}
