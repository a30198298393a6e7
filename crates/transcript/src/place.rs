//! Where agents keep their conversations.
//!
//! Promise: paths come from the environment the *agent* runs with, never from ours. An id is looked for by
//! name, never taken for a path. What could not be looked at is an error, not an absence.
//! Not here: what is in the files. Start with [`files`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open as open_fd};

use crate::{allowance, shelf};

/// The longest id of a conversation.
const MAX_ID_BYTES: usize = 128;

/// Which program wrote a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Claude Code, and whatever drives it.
    Claude,
    /// Codex, and whatever drives it.
    Codex,
}

impl Kind {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    /// The kind of this name, if its files are known here.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "claude" => Some(Self::Claude),
            "codex" => Some(Self::Codex),
            _ => None,
        }
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// The variable that names the directory in which the agent keeps everything.
    pub fn dir_variable(self) -> &'static str {
        match self {
            Self::Claude => "CLAUDE_CONFIG_DIR",
            Self::Codex => "CODEX_HOME",
        }
    }
}

/// The directory in which an agent with this environment keeps everything.
pub fn config_dir(kind: Kind, env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    let variable = kind.dir_variable();
    let usual = match kind {
        Kind::Claude => ".claude",
        Kind::Codex => ".codex",
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

/// A file that has a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// Put away: it is there to read, and not to go on.
    pub(crate) is_archived: bool,
    pub(crate) is_compressed: bool,
}

/// Whether this can be the id of a conversation: an agent does not take it for an option, and it is part of no path.
pub fn is_plain_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    id.len() <= MAX_ID_BYTES
        && id.bytes().all(is_plain)
        && id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
}

/// The files of a conversation: usually one, or none. Two paths to one file are one.
pub(crate) fn files(
    kind: Kind,
    id: &str,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<Found>, String> {
    if !is_plain_id(id) {
        return Err("the id of the conversation is not one an agent gives".to_owned());
    }
    let dir = config_dir(kind, env)?;
    let mut found = Vec::new();
    match kind {
        Kind::Claude => {
            let name = format!("{id}.jsonl");
            for project in entries(&dir.join("projects"))? {
                let path = project.join(&name);
                match fs::metadata(&path) {
                    Ok(_) => found.push(Found { path, is_archived: false, is_compressed: false }),
                    Err(error) if is_absent(&error) => {}
                    Err(error) => return Err(format!("cannot look at {}: {error}", path.display())),
                }
            }
        }
        Kind::Codex => {
            for (folder, depth, is_archived) in [("sessions", 3, false), ("archived_sessions", 0, true)] {
                rollouts(&dir.join(folder), depth, id, is_archived, &mut found)?;
            }
        }
    }
    let place = |found: &Found| fs::metadata(&found.path).map(|file| (file.dev(), file.ino())).ok();
    let mut places = Vec::new();
    found.retain(|file| {
        let place = place(file);
        let is_new = place.is_none() || !places.contains(&place);
        places.push(place);
        is_new
    });
    Ok(found)
}

/// What a path says of an agent's own transcript.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Own {
    /// Whose it is.
    pub kind: Kind,
    /// The directory in which that agent keeps everything.
    pub account: PathBuf,
    /// The conversation it is of; of a sub-agent the one it works for. Older versions do not say that in the path.
    pub conversation: Option<String>,
}

/// Whether a path is one where an agent keeps a transcript of its own, by whatever link it is called.
pub fn own(path: &Path) -> Option<Own> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A link in an agent's directory is the agent's as much as what it leads to.
    let named = path.file_name().and_then(|name| Some(fs::canonicalize(dir).ok()?.join(name)));
    named.as_deref().and_then(own_at).or_else(|| own_at(&fs::canonicalize(path).ok()?))
}

fn own_at(path: &Path) -> Option<Own> {
    let name = |up: usize| path.ancestors().nth(up)?.file_name()?.to_str();
    let own = |kind: Kind, up: usize, conversation: Option<String>| {
        Some(Own { kind, account: path.ancestors().nth(up)?.to_owned(), conversation })
    };
    match shelf::named(path) {
        Some((Kind::Claude, id)) if name(2) == Some("projects") => own(Kind::Claude, 3, Some(id)),
        Some((Kind::Codex, id)) if name(4) == Some("sessions") => own(Kind::Codex, 5, Some(id)),
        Some((Kind::Codex, id)) if name(1) == Some("archived_sessions") => own(Kind::Codex, 2, Some(id)),
        None if name(0)?.starts_with("agent-") && name(0)?.ends_with(".jsonl") => {
            match (name(1), name(2), name(4)) {
                (Some("subagents"), Some(id), Some("projects")) => own(Kind::Claude, 5, Some(id.to_owned())),
                (_, Some("projects"), _) => own(Kind::Claude, 3, None),
                (_, _, _) => None,
            }
        }
        Some(_) | None => None,
    }
}

/// Every transcript of an agent, and what could not be looked at, with the reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EveryFile {
    /// In order.
    pub files: Vec<PathBuf>,
    /// Folders.
    pub damaged: Vec<(PathBuf, String)>,
}

/// Every transcript of an agent with this environment, those of sub-agents too; compressed ones are left out.
pub fn every_file(kind: Kind, env: impl Fn(&str) -> Option<OsString>) -> Result<EveryFile, String> {
    let dir = config_dir(kind, env)?;
    // Claude Code: a folder for each project, in it one for each conversation with sub-agents. Codex: years, months, days.
    let places: &[(&str, usize)] = match kind {
        Kind::Claude => &[("projects", 3)],
        Kind::Codex => &[("sessions", 3), ("archived_sessions", 0)],
    };
    let mut every = EveryFile::default();
    for (folder, depth) in places {
        below(&dir.join(folder), *depth, &mut every);
    }
    every.files.sort();
    Ok(every)
}

fn below(dir: &Path, depth: usize, every: &mut EveryFile) {
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

/// Looks for `rollout-<time>-<id>.jsonl` in folders of years, months and days.
fn rollouts(
    dir: &Path,
    depth: usize,
    id: &str,
    is_archived: bool,
    found: &mut Vec<Found>,
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
            found.push(Found { path, is_archived, is_compressed });
        }
    }
    Ok(())
}

/// What is in a directory; nothing if there is none, or if it is no directory.
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

/// Opens a transcript to read it. Links are followed; what is no file, at their end, is refused: nobody should
/// wait for somebody to write into a pipe.
pub fn open(path: &Path) -> Result<File, String> {
    let wrong = |error: io::Error| format!("cannot open {}: {error}", path.display());
    allowance::still_wanted().map_err(wrong)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open_fd(path, flags, Mode::empty()).map_err(|error| wrong(error.into()))?);
    match file.metadata().map_err(wrong)?.is_file() {
        true => Ok(file),
        false => Err(format!("{} is not a file", path.display())),
    }
}
