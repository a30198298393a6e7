//! The conversations an agent keeps: which there are, where each was had, how it began, and when it was last written.
//!
//! Promise: whatever is in the agent's directory, listing costs a look at each name; of a file no more is read than
//! `HEAD_BYTES` at its beginning and `TAIL_BYTES` at its end, and only of those that somebody wants to see. What is
//! torn, binary, empty or of an unknown kind is listed with what can be told. Nothing is ever written.
//! Not here: who has one open (see the keeper's `writers`), whose it is, what is wrong with one.
//! Start with [`list`], then [`Kept::look`].

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memchr::{memmem, memrchr};
use serde_json::Value;

use crate::place::{self, Kind, config_dir};
use crate::{moment, words};

/// How much of a file's beginning is read at most: an agent's first record may have its whole instructions.
const HEAD_BYTES: u64 = 512 << 10;
/// How much of a file's end is read.
const TAIL_BYTES: u64 = 64 << 10;
/// The most conversations of one agent that are listed, the newest ones.
pub const MOST_KEPT: usize = 100_000;
/// How much of the first words is kept.
const MAX_WORDS_CHARS: usize = 200;
/// A name of a directory or a version that is longer is none.
const MAX_NAME_BYTES: usize = 4096;
/// What a record that has a time, and one that has a title, cannot be without.
const TIME_MARK: &[u8] = b"\"timestamp\"";
const TITLE_MARK: &[u8] = b"Title\"";
/// How an id looks: a UUID.
const ID_LENGTH: usize = 36;

/// A conversation that an agent keeps, by its file's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Whose it is.
    pub kind: Kind,
    /// The agent's own id of it.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// How large that is.
    pub bytes: u64,
    /// When it was last written, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Put away by the agent: it is there to read, and not to go on.
    pub is_archived: bool,
    /// It cannot be read here.
    pub is_compressed: bool,
}

/// What an agent keeps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shelf {
    /// Its conversations, the last written first.
    pub kept: Vec<Kept>,
    /// How many more there are.
    pub beyond: usize,
    /// What could not be looked at.
    pub damaged: Vec<String>,
}

/// What a conversation's file tells of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// The directory it was had in.
    pub cwd: Option<PathBuf>,
    /// What the agent, or a person, called it.
    pub title: Option<String>,
    /// How it began, on one line.
    pub first_words: Option<String>,
    /// The version of the agent that began it.
    pub version: Option<String>,
    /// The branch that was checked out then.
    pub branch: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub began_ms: Option<u64>,
    /// The time of its last record that has one.
    pub last_ms: Option<u64>,
}

/// All conversations that an agent with this environment keeps. Another directory is another account.
pub fn list(kind: Kind, env: impl Fn(&str) -> Option<OsString>) -> Result<Shelf, String> {
    let dir = config_dir(kind, env)?;
    let mut shelf = Shelf::default();
    match kind {
        Kind::Claude => {
            for project in shelf.entries(&dir.join("projects")) {
                for path in shelf.entries(&project) {
                    let name = path.file_name().unwrap_or_default().as_bytes();
                    if let Some(id) = name.strip_suffix(b".jsonl").and_then(id) {
                        shelf.put(kind, id, path, false, false);
                    }
                }
            }
        }
        Kind::Codex => {
            for (folder, depth, is_archived) in [("sessions", 3, false), ("archived_sessions", 0, true)] {
                shelf.rollouts(&dir.join(folder), depth, is_archived);
            }
        }
    }
    shelf.kept.sort_by(|one, other| (other.modified_ms, &one.id).cmp(&(one.modified_ms, &other.id)));
    // Two paths may lead to one file.
    shelf.kept.dedup_by(|one, other| one.id == other.id && is_one(&one.path, &other.path));
    shelf.beyond = shelf.kept.len().saturating_sub(MOST_KEPT);
    shelf.kept.truncate(MOST_KEPT);
    Ok(shelf)
}

/// The conversation in this file, wherever it is: told by its name.
pub fn of_file(path: &Path) -> Option<Kept> {
    let (kind, id) = named(path)?;
    let is_compressed = path.extension().is_some_and(|extension| extension == "zst");
    let mut shelf = Shelf::default();
    shelf.put(kind, id, path.to_owned(), false, is_compressed);
    shelf.kept.pop()
}

/// The id of the conversation that a file of this name has.
pub fn id_in(path: &Path) -> Option<String> {
    named(path).map(|(_, id)| id)
}

/// Whether a rollout of Codex is of a sub-agent: it names the conversation that it works for as well as its own.
pub fn is_of_sub_agent(rollout: &Path) -> bool {
    let first = place::open(rollout).ok().and_then(|file| {
        let mut line = Vec::new();
        io::BufReader::new(file.take(HEAD_BYTES)).read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice::<Value>(&line).ok()
    });
    first.is_some_and(|record| {
        let meta = &record["payload"];
        let works_for_another = meta["session_id"].is_string() && meta["session_id"] != meta["id"];
        works_for_another || meta["source"]["subagent"] != Value::Null
    })
}

/// The same, and whose it is.
pub(crate) fn named(path: &Path) -> Option<(Kind, String)> {
    let name = path.file_name()?.as_bytes();
    let stem = name.strip_suffix(b".zst").unwrap_or(name).strip_suffix(b".jsonl")?;
    Some(match stem.strip_prefix(b"rollout-") {
        Some(rest) => (Kind::Codex, id(rest.get(rest.len().checked_sub(ID_LENGTH)?..)?)?),
        None => (Kind::Claude, id(stem)?),
    })
}

/// What looks like an id: hexadecimal digits in five groups.
fn id(text: &[u8]) -> Option<String> {
    let is_one = text.len() == ID_LENGTH
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    is_one.then(|| String::from_utf8_lossy(text).into_owned())
}

fn is_one(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    place(one).is_some_and(|one| place(other) == Some(one))
}

impl Shelf {
    fn entries(&mut self, dir: &Path) -> Vec<PathBuf> {
        place::entries(dir).unwrap_or_else(|why| {
            self.damaged.push(why);
            Vec::new()
        })
    }

    fn put(&mut self, kind: Kind, id: String, path: PathBuf, is_archived: bool, is_compressed: bool) {
        match fs::metadata(&path) {
            Ok(file) if file.is_file() => {
                let modified_ms = u64::try_from(file.mtime()).unwrap_or(0) * 1000
                    + u64::try_from(file.mtime_nsec()).unwrap_or(0) / 1_000_000;
                self.kept.push(Kept {
                    kind,
                    id,
                    path,
                    bytes: file.len(),
                    modified_ms,
                    is_archived,
                    is_compressed,
                });
            }
            // A directory that is called like one, or one that was removed this moment.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.damaged.push(format!("cannot look at {}: {error}", path.display())),
        }
    }

    /// `rollout-<time>-<id>.jsonl` in folders of years, months and days.
    fn rollouts(&mut self, dir: &Path, depth: usize, is_archived: bool) {
        for path in self.entries(dir) {
            if depth > 0 {
                self.rollouts(&path, depth - 1, is_archived);
            } else if let Some(kept) = of_file(&path).filter(|kept| kept.kind == Kind::Codex) {
                self.kept.push(Kept { is_archived, ..kept });
            }
        }
    }
}

impl Kept {
    /// Reads the beginning and the end of it. An error says why nothing can be told.
    pub fn look(&self) -> Result<Look, String> {
        let wrong = |error: io::Error| format!("cannot read {}: {error}", self.path.display());
        if self.is_compressed {
            return Err(format!("{} is compressed", self.path.display()));
        }
        let file = place::open(&self.path)?;
        let mut look = Look::default();
        look.begin(self.kind, io::BufReader::new((&file).take(HEAD_BYTES))).map_err(wrong)?;
        let end = file.metadata().map_err(wrong)?.len();
        let mut tail = Vec::new();
        let mut file = file;
        file.seek(SeekFrom::Start(end.saturating_sub(TAIL_BYTES))).map_err(wrong)?;
        file.take(TAIL_BYTES).read_to_end(&mut tail).map_err(wrong)?;
        look.end(self.kind, &tail);
        Ok(look)
    }

    /// When it was last written, by its last record if that has a time.
    pub fn last_ms(&self, look: &Look) -> u64 {
        look.last_ms.unwrap_or(self.modified_ms)
    }
}

impl Look {
    fn begin(&mut self, kind: Kind, mut head: impl io::BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        while !self.is_enough() {
            line.clear();
            if head.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            // Torn and binary lines are no records.
            let Ok(record) = serde_json::from_slice::<Value>(&line) else { continue };
            let at_ms = record["timestamp"].as_str().and_then(moment);
            self.began_ms = self.began_ms.or(at_ms);
            match kind {
                Kind::Claude => self.claude(&record),
                Kind::Codex => self.codex(&record),
            }
        }
        Ok(())
    }

    fn is_enough(&self) -> bool {
        self.first_words.is_some() && self.cwd.is_some() && self.version.is_some()
    }

    fn claude(&mut self, record: &Value) {
        let word = |name: &str| name_of(&record[name]);
        self.cwd = self.cwd.take().or_else(|| word("cwd").map(PathBuf::from).filter(|cwd| cwd.is_absolute()));
        self.version = self.version.take().or_else(|| word("version"));
        self.branch = self.branch.take().or_else(|| word("gitBranch"));
        self.title(kind_of(record), record);
        let is_prompt =
            kind_of(record) == "user" && record["isMeta"] != true && record["isSidechain"] != true;
        if is_prompt && self.first_words.is_none() {
            self.first_words = said(&record["message"]["content"]);
        }
    }

    fn title(&mut self, kind: &str, record: &Value) {
        let title = match kind {
            "summary" => &record["summary"],
            "custom-title" => &record["customTitle"],
            "ai-title" => &record["aiTitle"],
            _ => return,
        };
        self.title = title.as_str().and_then(first_words).or(self.title.take());
    }

    fn codex(&mut self, record: &Value) {
        let payload = &record["payload"];
        match (kind_of(record), payload["type"].as_str().unwrap_or_default()) {
            ("session_meta", _) => {
                self.cwd = name_of(&payload["cwd"]).map(PathBuf::from).filter(|cwd| cwd.is_absolute());
                self.version = name_of(&payload["cli_version"]);
                self.branch = name_of(&payload["git"]["branch"]);
            }
            ("event_msg", "user_message") if self.first_words.is_none() => {
                self.first_words = payload["message"].as_str().and_then(first_words);
            }
            ("response_item", "message") if payload["role"] == "user" && self.first_words.is_none() => {
                self.first_words = said(&payload["content"]);
            }
            _ => {}
        }
    }

    /// The last time in the last records, and what it came to be called. Most lines need not be taken apart for that.
    fn end(&mut self, kind: Kind, mut tail: &[u8]) {
        // What it was called last counts over what it was called first.
        let mut has_title = kind != Kind::Claude || memmem::find(tail, TITLE_MARK).is_none();
        while !(tail.is_empty() || has_title && self.last_ms.is_some()) {
            let line = match memrchr(b'\n', tail) {
                Some(at) => {
                    let line = &tail[at + 1..];
                    tail = &tail[..at];
                    line
                }
                None => std::mem::take(&mut tail),
            };
            let names = !has_title && memmem::find(line, TITLE_MARK).is_some();
            let dates = self.last_ms.is_none() && memmem::find(line, TIME_MARK).is_some();
            if !names && !dates {
                continue;
            }
            let Ok(record) = serde_json::from_slice::<Value>(line) else { continue };
            if self.last_ms.is_none() {
                self.last_ms = record["timestamp"].as_str().and_then(moment);
            }
            if names {
                let before = self.title.take();
                self.title(kind_of(&record), &record);
                has_title = self.title.is_some();
                self.title = self.title.take().or(before);
            }
        }
    }
}

fn kind_of(record: &Value) -> &str {
    record["type"].as_str().unwrap_or_default()
}

fn name_of(value: &Value) -> Option<String> {
    value.as_str().filter(|name| !name.is_empty() && name.len() <= MAX_NAME_BYTES).map(str::to_owned)
}

/// What a person said in a message: a text, or the first part of it that is one. What agents put before it
/// (`<environment_context>`, `<command-name>`, `# AGENTS.md`) is not a person's.
fn said(content: &Value) -> Option<String> {
    let is_theirs = |text: &&str| {
        let text = text.trim_start();
        !text.starts_with('<') && !text.starts_with("# AGENTS.md") && !text.starts_with("Caveat: ")
    };
    if let Some(text) = content.as_str() {
        return Some(text).filter(is_theirs).and_then(first_words);
    }
    let parts = content.as_array()?.iter().filter_map(|part| part["text"].as_str());
    parts.filter(is_theirs).find_map(first_words)
}

/// The first words of a text, on one line; nothing if there are none.
fn first_words(text: &str) -> Option<String> {
    Some(words::first_words(text, MAX_WORDS_CHARS)).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests;
