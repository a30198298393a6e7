//! List of an agent's conversations: directory, first words and time of the last record of each.
//!
//! Promise: whatever is in the agent's directory, listing costs one look at each name; of a file at most `HEAD_BYTES`
//! at its beginning and `TAIL_BYTES` at its end are read, and only if the caller wants its details. A torn, binary,
//! empty or unknown file is listed with the facts that are known. Nothing is ever written.
//! Not here: open conversations (see `berth_conversations::foreign_writers`), their sessions, damage in a file.
//! Start with [`list_conversations`], then [`StoredConversation::details`].

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memchr::{memmem, memrchr};
use serde_json::Value;

use crate::location::{self, TranscriptKind, config_dir};
use crate::{parse_timestamp_ms, record_excerpts};

/// Limit for the beginning of a file that is read: an agent's first record may have its whole instructions.
const HEAD_BYTES: u64 = 512 << 10;
/// Limit for the end of a file that is read.
const TAIL_BYTES: u64 = 64 << 10;
/// Limit for the conversations of one agent that are listed, the newest ones.
pub const MOST_KEPT: usize = 100_000;
/// Limit for the first words.
const MAX_WORDS_CHARS: usize = 200;
/// Limit for a directory, a title and a version; longer ones are ignored.
const MAX_NAME_BYTES: usize = 4096;
/// Texts without which a record has no time, or no title.
const TIME_MARK: &[u8] = b"\"timestamp\"";
const TITLE_MARK: &[u8] = b"Title\"";
/// Length of an id: a UUID.
const ID_LENGTH: usize = 36;

/// A conversation of an agent, known by the name of its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredConversation {
    /// Agent that keeps the conversation.
    pub kind: TranscriptKind,
    /// Id that the agent gave the conversation.
    pub id: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub modified_ms: u64,
    /// True if the agent archived the conversation: it can be read, but not resumed.
    pub is_archived: bool,
    /// True if the file is compressed, and cannot be read here.
    pub is_compressed: bool,
}

/// Conversations of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConversationCatalog {
    /// Conversations, the last written first.
    pub kept: Vec<StoredConversation>,
    /// Number of further conversations.
    pub more: usize,
    /// Errors of files and directories that could not be read.
    pub damaged: Vec<String>,
}

/// Facts in a conversation's file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConversationDetails {
    /// Directory of the conversation.
    pub cwd: Option<PathBuf>,
    /// Title that the agent or a user gave the conversation.
    pub title: Option<String>,
    /// First words, on one line.
    pub first_words: Option<String>,
    /// Version of the agent that began the conversation.
    pub version: Option<String>,
    /// Branch that was checked out at the beginning.
    pub branch: Option<String>,
    /// Time of the first record, in milliseconds since 1970.
    pub began_ms: Option<u64>,
    /// Time of the last record that has one, in milliseconds since 1970.
    pub last_ms: Option<u64>,
}

/// Lists all conversations of an agent with this environment. Another config directory is another account.
pub fn list_conversations(
    kind: TranscriptKind,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<ConversationCatalog, String> {
    let dir = config_dir(kind, env)?;
    let mut catalog = ConversationCatalog::default();
    match kind {
        TranscriptKind::Claude => {
            for project in catalog.entries(&dir.join("projects")) {
                for path in catalog.entries(&project) {
                    let name = path.file_name().unwrap_or_default().as_bytes();
                    if let Some(id) = name.strip_suffix(b".jsonl").and_then(id) {
                        catalog.put(kind, id, path, false, false);
                    }
                }
            }
        }
        TranscriptKind::Codex => {
            for (folder, depth, is_archived) in [("sessions", 3, false), ("archived_sessions", 0, true)] {
                catalog.rollouts(&dir.join(folder), depth, is_archived);
            }
        }
    }
    catalog.kept.sort_by(|one, other| (other.modified_ms, &one.id).cmp(&(one.modified_ms, &other.id)));
    // Two paths may lead to one file.
    catalog.kept.dedup_by(|one, other| one.id == other.id && is_one(&one.path, &other.path));
    catalog.more = catalog.kept.len().saturating_sub(MOST_KEPT);
    catalog.kept.truncate(MOST_KEPT);
    Ok(catalog)
}

/// The conversation in this file, at any place: its name has the id.
pub fn conversation_in_file(path: &Path) -> Option<StoredConversation> {
    let (kind, id) = conversation_of_path(path)?;
    let is_compressed = path.extension().is_some_and(|extension| extension == "zst");
    let mut catalog = ConversationCatalog::default();
    catalog.put(kind, id, path.to_owned(), false, is_compressed);
    catalog.kept.pop()
}

/// The id of the conversation in a file with this name.
pub fn id_of_path(path: &Path) -> Option<String> {
    conversation_of_path(path).map(|(_, id)| id)
}

/// True if a rollout of Codex is one of a sub-agent: it names its main conversation as well as its own.
pub fn is_of_sub_agent(rollout: &Path) -> bool {
    let first = location::open_transcript(rollout).ok().and_then(|file| {
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

/// The agent and the id in the name of a file.
pub(crate) fn conversation_of_path(path: &Path) -> Option<(TranscriptKind, String)> {
    let name = path.file_name()?.as_bytes();
    let stem = name.strip_suffix(b".zst").unwrap_or(name).strip_suffix(b".jsonl")?;
    Some(match stem.strip_prefix(b"rollout-") {
        Some(rest) => (TranscriptKind::Codex, id(rest.get(rest.len().checked_sub(ID_LENGTH)?..)?)?),
        None => (TranscriptKind::Claude, id(stem)?),
    })
}

/// An id in the form of a UUID: hexadecimal digits in five groups.
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

impl ConversationCatalog {
    fn entries(&mut self, dir: &Path) -> Vec<PathBuf> {
        location::entries(dir).unwrap_or_else(|why| {
            self.damaged.push(why);
            Vec::new()
        })
    }

    fn put(
        &mut self,
        kind: TranscriptKind,
        id: String,
        path: PathBuf,
        is_archived: bool,
        is_compressed: bool,
    ) {
        match fs::metadata(&path) {
            Ok(file) if file.is_file() => {
                let modified_ms = u64::try_from(file.mtime()).unwrap_or(0) * 1000
                    + u64::try_from(file.mtime_nsec()).unwrap_or(0) / 1_000_000;
                self.kept.push(StoredConversation {
                    kind,
                    id,
                    path,
                    bytes: file.len(),
                    modified_ms,
                    is_archived,
                    is_compressed,
                });
            }
            // A directory with such a name, or a file that was removed at this moment.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.damaged.push(format!("cannot examine {}: {error}", path.display())),
        }
    }

    /// Adds files named `rollout-<time>-<id>.jsonl` in directories of years, months and days.
    fn rollouts(&mut self, dir: &Path, depth: usize, is_archived: bool) {
        for path in self.entries(dir) {
            if depth > 0 {
                self.rollouts(&path, depth - 1, is_archived);
            } else if let Some(kept) =
                conversation_in_file(&path).filter(|kept| kept.kind == TranscriptKind::Codex)
            {
                self.kept.push(StoredConversation { is_archived, ..kept });
            }
        }
    }
}

impl StoredConversation {
    /// Reads the beginning and the end of the file. An error says why no facts are known.
    pub fn details(&self) -> Result<ConversationDetails, String> {
        let wrong = |error: io::Error| format!("cannot read {}: {error}", self.path.display());
        if self.is_compressed {
            return Err(format!("{} is compressed", self.path.display()));
        }
        let file = location::open_transcript(&self.path)?;
        let mut look = ConversationDetails::default();
        look.begin(self.kind, io::BufReader::new((&file).take(HEAD_BYTES))).map_err(wrong)?;
        let end = file.metadata().map_err(wrong)?.len();
        let mut tail = Vec::new();
        let mut file = file;
        file.seek(SeekFrom::Start(end.saturating_sub(TAIL_BYTES))).map_err(wrong)?;
        file.take(TAIL_BYTES).read_to_end(&mut tail).map_err(wrong)?;
        look.end(self.kind, &tail);
        Ok(look)
    }

    /// Time of the last record, else of the last write.
    pub fn last_ms(&self, look: &ConversationDetails) -> u64 {
        look.last_ms.unwrap_or(self.modified_ms)
    }
}

impl ConversationDetails {
    fn begin(&mut self, kind: TranscriptKind, mut head: impl io::BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        while !self.is_enough() {
            line.clear();
            if head.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            // Torn and binary lines are not records.
            let Ok(record) = serde_json::from_slice::<Value>(&line) else { continue };
            let at_ms = record["timestamp"].as_str().and_then(parse_timestamp_ms);
            self.began_ms = self.began_ms.or(at_ms);
            match kind {
                TranscriptKind::Claude => self.claude(&record),
                TranscriptKind::Codex => self.codex(&record),
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

    /// Takes the last time and the last title from the last records. Most lines need not be parsed for that.
    fn end(&mut self, kind: TranscriptKind, mut tail: &[u8]) {
        // The last title counts over the first one.
        let mut has_title = kind != TranscriptKind::Claude || memmem::find(tail, TITLE_MARK).is_none();
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
                self.last_ms = record["timestamp"].as_str().and_then(parse_timestamp_ms);
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

/// The words of a user in a message: a text, or the first part that is one. Text that agents put before it
/// (`<environment_context>`, `<command-name>`, `# AGENTS.md`) is not the user's.
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

/// The first words of a text, on one line; `None` if it has none.
fn first_words(text: &str) -> Option<String> {
    Some(record_excerpts::first_words(text, MAX_WORDS_CHARS)).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests;
