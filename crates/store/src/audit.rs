//! The audit log: uses of tokens, refusals, answers to questions of agents, take-overs.
//!
//! Promise: one JSON object a line, appended and never changed, in files that only the owner can read; all files together
//! stay below [`MAX_FILE_BYTES`] times the number of files, plus a line each. No text in it has a control character. A
//! line that cannot be written delays no caller: it is left out, and the program's own log says so.
//! Not here: limits on frequent events (see the gateway), how the log is shown (see the CLI).
//! Start with [`append_audit_event`] and [`read_audit_log`]. Why it is so: docs/design/audit.md.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use berth_api::{AccessScope, Timestamp, Token, TokenKind};
use berth_host::clock;
use berth_host::lock::LockFile;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// The size at which a new file begins.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
/// How many full files are kept beside the one that grows.
pub const FULL_FILES: usize = 3;
/// How many characters of one text are kept.
const MAX_TEXT_CHARS: usize = 300;

const FILE: &str = "audit.jsonl";
const LOCK: &str = "audit.lock";

/// One line of the log.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct AuditEntry {
    /// The time, by the clock of this host.
    pub at: Timestamp,
    /// The caller, as the gateway or the keeper knows it.
    pub by: String,
    /// The event, with its fields beside `at` and `by`.
    #[serde(flatten)]
    pub event: AuditEvent,
}

/// An event of the audit log.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are named after what docs/audit.md says of them")]
pub enum AuditEvent {
    /// A token, a login or a link was made.
    TokenMade {
        token: String,
        name: String,
        kind: TokenKind,
        scope: AccessScope,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sessions: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
    },
    /// The first use of a token or login from an address in a period.
    TokenUsed { token: String, name: String, kind: TokenKind, scope: AccessScope },
    /// A token, login or link was revoked.
    TokenRevoked { token: String, name: String, kind: TokenKind },
    /// A caller showed a secret that is not valid.
    TokenRefused {
        /// How many refusals were left out before this line because there were too many.
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: u64,
    },
    /// A known caller asked for more than it may.
    RequestRefused {
        method: String,
        route: String,
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: u64,
    },
    /// A question of an agent was answered.
    QuestionAnswered { session: String, name: String, tool: String, detail: String, choice: String },
    /// A terminal was taken over from another writer.
    WriterTaken { session: String, name: String, from: String },
    /// Another writer of a conversation was ended.
    ConversationTaken { session: String, name: String, conversation_id: String, ended: String },
}

impl AuditEvent {
    /// A token, a login or a link that was made.
    pub fn made(token: &Token) -> Self {
        Self::TokenMade {
            token: token.id.clone(),
            name: token.name.clone(),
            kind: token.kind,
            scope: token.scope,
            sessions: token.sessions.clone(),
            expires_at: token.expires_at,
            parent: token.parent.clone(),
        }
    }

    /// A token, a login or a link that was revoked.
    pub fn revoked(token: &Token) -> Self {
        Self::TokenRevoked { token: token.id.clone(), name: token.name.clone(), kind: token.kind }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A text for the log: short, and without characters that a terminal would obey.
pub fn text_for_log(text: &str) -> String {
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let mut kept: String = text.chars().take(MAX_TEXT_CHARS).map(shown).collect();
    if text.chars().nth(MAX_TEXT_CHARS).is_some() {
        kept.push('…');
    }
    kept
}

/// Appends an event of this state directory to the log.
pub fn append_audit_event(root: &Path, by: &str, event: AuditEvent) {
    let entry = AuditEntry { at: Timestamp(clock::wall_ms()), by: text_for_log(by), event };
    if let Err(error) = append(root, &entry, MAX_FILE_BYTES) {
        tracing::warn!(%error, "the audit log cannot be written");
    }
}

fn append(root: &Path, entry: &AuditEntry, max_bytes: u64) -> io::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    let path = root.join(FILE);
    let mut file = open(&path)?;
    if file.metadata()?.len() + line.len() as u64 > max_bytes {
        begin_another(root, max_bytes)?;
        file = open(&path)?;
    }
    // One call: lines of several processes do not mix. A process that opened the file before it became a full one
    // writes to the full one, and its line is kept.
    file.write_all(&line)
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    File::options().append(true).create(true).mode(0o600).custom_flags(flags).open(path)
}

/// The full files, the newest first.
fn full(root: &Path) -> impl DoubleEndedIterator<Item = PathBuf> {
    let root = root.to_owned();
    (1..=FULL_FILES).map(move |number| root.join(format!("{FILE}.{number}")))
}

/// Makes the current file a full one, and drops the oldest. A second process leaves that to the first.
fn begin_another(root: &Path, max_bytes: u64) -> io::Result<()> {
    let lock = LockFile::open_or_create(&root.join(LOCK))?;
    let path = root.join(FILE);
    if !lock.try_exclusive()? || fs::metadata(&path)?.len() * 2 < max_bytes {
        return Ok(());
    }
    let places: Vec<PathBuf> = std::iter::once(path).chain(full(root)).collect();
    for pair in places.windows(2).rev() {
        match fs::rename(&pair[0], &pair[1]) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The log as it was read.
#[derive(Debug, Default)]
pub struct AuditLog {
    /// The oldest first.
    pub entries: Vec<AuditEntry>,
    /// How many lines could not be understood.
    pub damaged: usize,
}

/// Everything that is kept, the oldest first.
pub fn read_audit_log(root: &Path) -> io::Result<AuditLog> {
    let mut log = AuditLog::default();
    for path in full(root).rev().chain([root.join(FILE)]) {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(2 * MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(entry) => log.entries.push(entry),
                Err(_) => log.damaged += 1,
            }
        }
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use berth_test_dir::TestDir;

    use super::*;

    fn entry(by: &str) -> AuditEntry {
        AuditEntry { at: Timestamp(1), by: by.to_owned(), event: AuditEvent::TokenRefused { left_out: 0 } }
    }

    #[test]
    fn a_full_log_begins_another_file_and_forgets_the_oldest_of_them() {
        let place = TestDir::new();
        for number in 0..1000 {
            append(&place, &entry(&format!("caller {number:04}")), 2000).unwrap();
        }
        let sizes: Vec<u64> = full(&place).map(|path| fs::metadata(path).unwrap().len()).collect();
        assert!(sizes.len() == FULL_FILES && sizes.iter().all(|size| *size <= 2000), "{sizes:?}");
        assert_eq!(fs::read_dir(&place).unwrap().count(), FULL_FILES + 2, "and the lock");
        let log = read_audit_log(&place).unwrap();
        assert_eq!((log.damaged, log.entries.last().map(|it| it.by.as_str())), (0, Some("caller 0999")));
        let order: Vec<&str> = log.entries.iter().map(|it| it.by.as_str()).collect();
        assert!(order.is_sorted() && order.len() > 60, "{}", order.len());
    }

    #[test]
    fn lines_of_many_writers_do_not_mix_and_only_the_owner_can_read_them() {
        let place = TestDir::new();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let root = &place;
                scope.spawn(move || {
                    for _ in 0..200 {
                        append(root, &entry(&format!("writer {writer}")), MAX_FILE_BYTES).unwrap();
                    }
                });
            }
        });
        let log = read_audit_log(&place).unwrap();
        assert_eq!((log.entries.len(), log.damaged), (800, 0));
        let mode = fs::metadata(place.join(FILE)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn a_text_of_a_stranger_is_short_and_has_no_control_character() {
        let place = TestDir::new();
        append_audit_event(
            &place,
            &format!("\u{1b}[2J\u{9b}x{}", "y".repeat(5000)),
            AuditEvent::TokenRefused { left_out: 7 },
        );
        let bytes = fs::read(place.join(FILE)).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.trim_end().chars().any(char::is_control) && !text.contains("\\u001b"), "{text}");
        assert!(text.len() < 1500, "{}", text.len());
        // A line that was cut by a full disk costs itself and no other.
        File::options().append(true).open(place.join(FILE)).unwrap().write_all(b"{\"at\":\n").unwrap();
        append_audit_event(&place, "next", AuditEvent::TokenRefused { left_out: 0 });
        let log = read_audit_log(&place).unwrap();
        assert_eq!((log.entries.len(), log.damaged), (2, 1));
    }
}
