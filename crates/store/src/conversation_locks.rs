//! Conversations that agents write: one lock each, held while a run of ours may write the conversation.
//!
//! Promise: of all sessions of a state directory at most one may write a conversation, whichever way its agent
//! reaches it. The lock file is never removed.
//! Not here: writers that are not ours (see `foreign_writers`), the contents of a conversation (`berth_transcript`).
//! Start with [`StateDir::claim_conversation`].

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::SessionStatus;
use berth_core::SessionId;
use berth_host::lock::{LockFile, LockState, lock_state};

use crate::session_files::SessionFiles;
use crate::state_dir::StateDir;
use crate::{fnv, session_status};

/// Time to wait for a lock: a reader of a lock holds it for an instant.
pub const LOCK_PATIENCE: Duration = Duration::from_millis(200);
/// Limit of the length of a lock file's name, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// The right to write a conversation. Given back on drop.
#[derive(Debug)]
pub struct ConversationLock {
    file: LockFile,
    kind: String,
    id: String,
}

/// Outcome of a claim on a conversation.
#[derive(Debug)]
pub enum ConversationClaim {
    /// The caller may write the conversation.
    Ours(ConversationLock),
    /// Another process may. The lock file names this session, as far as the file can be trusted.
    Held(Option<SessionId>),
}

impl StateDir {
    /// Takes the right to write a conversation.
    pub fn claim_conversation(
        &self,
        kind: &str,
        id: &str,
        session: &SessionId,
    ) -> io::Result<ConversationClaim> {
        self.claim_conversation_within(LOCK_PATIENCE, kind, id, session)
    }

    /// Takes the right to write a conversation, and waits for it no longer than `patience`.
    pub fn claim_conversation_within(
        &self,
        patience: Duration,
        kind: &str,
        id: &str,
        session: &SessionId,
    ) -> io::Result<ConversationClaim> {
        let path = lock_path(self, kind, id);
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let file = LockFile::open_or_create(&path)?;
        let held = !file.acquire(patience)?;
        let last = SessionId::parse(file.read_text().unwrap_or_default().trim());
        if held {
            return Ok(ConversationClaim::Held(last));
        }
        // A keeper that was killed releases its locks at once, but the processes of its run may live on, and write.
        if let Some(last) =
            last.filter(|last| last != session && is_left_over(&self.sessions().session(last), id))
        {
            return Ok(ConversationClaim::Held(Some(last)));
        }
        // The text is for the next claim, and for people: the lock counts, not the text.
        let _ = file.write_text(session.as_str());
        Ok(ConversationClaim::Ours(ConversationLock { file, kind: kind.to_owned(), id: id.to_owned() }))
    }
}

impl ConversationLock {
    /// A lock that an earlier image of this program took, if it belongs to this conversation: an agent can go on to
    /// a conversation of another session.
    pub fn inherited(file: LockFile, home: &StateDir, kind: String, id: String) -> Option<Self> {
        let is_another = matches!(file.is_at(&lock_path(home, &kind, &id)), Ok(false));
        (!is_another).then_some(Self { file, kind, id })
    }

    /// The locked file.
    pub fn file(&self) -> &LockFile {
        &self.file
    }

    /// True if the lock belongs to this conversation.
    pub fn is_of(&self, kind: &str, id: &str) -> bool {
        self.kind == kind && self.id == id
    }
}

/// True if a process of the session's last run is left that may write this conversation.
fn is_left_over(session: &SessionFiles, id: &str) -> bool {
    if !matches!(session.probe_run_lock(), Ok(Some(LockState::Held))) {
        return false;
    }
    // A run that is recorded as over left nothing: then only its keeper is there, and about to leave. A run that is
    // not over may have gone on to another conversation; if its journal cannot be read, assume that it writes this one.
    let Ok(past) = session.past() else { return true };
    let session = past.history.session;
    session.is_live() && session.conversation.is_some_and(|writes| writes.id == id)
}

/// The session that wrote a conversation last, according to its lock file.
pub fn last_writer(home: &StateDir, kind: &str, id: &str) -> Option<SessionId> {
    let path = lock_path(home, kind, id);
    let file = path.exists().then(|| LockFile::open_or_create(&path))?;
    SessionId::parse(file.ok()?.read_text().ok()?.trim())
}

/// The session that holds the lock on a conversation. The check does not take the lock.
pub fn held_by(home: &StateDir, kind: &str, id: &str) -> Option<SessionId> {
    let path = lock_path(home, kind, id);
    matches!(lock_state(&path), Ok(Some(LockState::Held))).then_some(())?;
    SessionId::parse(LockFile::open_or_create(&path).ok()?.read_text().ok()?.trim())
}

/// The session here whose own record has this conversation. `dir` is the directory where the agent keeps the
/// conversation: an equal id in another directory is another conversation. `all` lists the sessions that have it
/// ([`sessions_with`]); it is called only if the session that had the conversation last has it no more.
pub fn session_of(
    home: &StateDir,
    kind: &str,
    id: &str,
    dir: &Path,
    all: impl FnOnce() -> Vec<SessionStatus>,
) -> Option<SessionStatus> {
    let session = last_writer(home, kind, id)?;
    let is_in_dir = |status: &SessionStatus| {
        let session = SessionId::parse(&status.id)?;
        let store = session_status::history(home, &session).ok()?.session.conversation?.store;
        let place = |dir: &Path| std::fs::metadata(dir).ok().map(|dir| (dir.dev(), dir.ino()));
        let is_here = store.is_empty() || Path::new(&store) == dir || place(Path::new(&store)) == place(dir);
        is_here.then_some(())
    };
    // The text is a hint: the session may be purged by now, or have gone on to another conversation. Then another one
    // may have it still.
    let named =
        session_status::status(home, &session).ok().filter(|status| has_conversation(status, kind, id));
    match named.filter(|status| is_in_dir(status).is_some()) {
        Some(status) => Some(status),
        None => all().into_iter().find(|status| is_in_dir(status).is_some()),
    }
}

/// All sessions that have this conversation, found by reading the status of every session.
pub fn sessions_with(home: &StateDir, kind: &str, id: &str) -> Vec<SessionStatus> {
    let mut found = all_session_statuses(home);
    found.retain(|status| has_conversation(status, kind, id));
    found
}

/// All sessions that have a conversation of an agent.
pub fn all_session_statuses(home: &StateDir) -> Vec<SessionStatus> {
    let all = home.session_ids().unwrap_or_default();
    let known = all.iter().filter_map(|session| session_status::status(home, session).ok());
    known.filter(|status| status.conversation_id.is_some()).collect()
}

/// True if the session has this conversation.
pub fn has_conversation(status: &SessionStatus, kind: &str, id: &str) -> bool {
    status.conversation_id.as_deref() == Some(id) && status.what.conversation == kind
}

fn lock_path(home: &StateDir, kind: &str, id: &str) -> PathBuf {
    home.root().join("conversations").join(conversation_file_name(kind)).join(conversation_file_name(id))
}

/// Makes a name that is safe for a file, and different for different texts.
pub fn conversation_file_name(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.len() > MAX_NAME_BYTES {
        let sum = fnv::short(text);
        name.truncate(MAX_NAME_BYTES);
        name.push_str(&format!("~{}~{sum:016x}", text.len()));
    }
    if name.is_empty() { "%".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn a_conversation_has_one_writer_until_that_leaves() {
        let root = TestDir::new();
        let home = StateDir::open(root.to_path_buf()).expect("a state directory");
        let [a, b] = [*b"aaaaaaaaaaaa", *b"bbbbbbbbbbbb"].map(SessionId::from_random);
        let first = match home.claim_conversation("claude", "x/../y", &a).expect("a claim") {
            ConversationClaim::Ours(lock) => lock,
            ConversationClaim::Held(by) => panic!("held by {by:?}"),
        };
        match home.claim_conversation("claude", "x/../y", &b).expect("a claim") {
            ConversationClaim::Held(by) => assert_eq!(by, Some(a.clone())),
            ConversationClaim::Ours(_) => panic!("two writers"),
        }
        assert!(matches!(home.claim_conversation("codex", "x/../y", &b), Ok(ConversationClaim::Ours(_))));
        drop(first);
        assert!(matches!(home.claim_conversation("claude", "x/../y", &b), Ok(ConversationClaim::Ours(_))));
    }

    #[test]
    fn different_ids_have_different_files() {
        let long = "x".repeat(1000);
        let ids = ["", "a/b", "a%2fb", "..", ".", long.as_str(), &long[1..], "ü"];
        let names: std::collections::BTreeSet<String> =
            ids.iter().map(|id| conversation_file_name(id)).collect();
        assert_eq!(names.len(), ids.len());
        assert!(names.iter().all(|name| name.len() < 255 && !name.starts_with('.') && !name.contains('/')));
    }
}
