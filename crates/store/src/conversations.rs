//! The conversations agents write: one lock each, held while a run of ours may write it.
//!
//! Promise: of all sessions of a state directory at most one may write a conversation, whichever way its
//! agent reaches it. The lock file is never removed.
//! Not here: writers that are not ours (see `writers`), what is in a conversation (`berth_transcript`).

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::Status;
use berth_core::SessionId;
use berth_host::lock::{LockFile, Probe, probe};

use crate::home::Home;
use crate::session_files::SessionFiles;
use crate::{fnv, view};

/// Whoever looks at a lock has it for an instant.
pub const LOCK_PATIENCE: Duration = Duration::from_millis(200);
/// The longest name of a lock file.
const MAX_NAME_BYTES: usize = 200;

/// The right to write a conversation. Given back on drop.
#[derive(Debug)]
pub struct ConversationLock {
    file: LockFile,
    kind: String,
    id: String,
}

/// Whether we may write it.
#[derive(Debug)]
pub enum Claim {
    /// We may.
    Ours(ConversationLock),
    /// The session of this id does, as far as its own word goes.
    Held(Option<SessionId>),
}

impl Home {
    /// Takes the right to write a conversation.
    pub fn claim_conversation(&self, kind: &str, id: &str, session: &SessionId) -> io::Result<Claim> {
        self.claim_conversation_within(LOCK_PATIENCE, kind, id, session)
    }

    /// Takes the right to write a conversation, and waits for it no longer than `patience`.
    pub fn claim_conversation_within(
        &self,
        patience: Duration,
        kind: &str,
        id: &str,
        session: &SessionId,
    ) -> io::Result<Claim> {
        let path = lock_path(self, kind, id);
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let file = LockFile::open_or_create(&path)?;
        let held = !file.acquire(patience)?;
        let last = SessionId::parse(file.read_text().unwrap_or_default().trim());
        if held {
            return Ok(Claim::Held(last));
        }
        // A keeper that was killed gives its locks back at once; what it ran may live on, and write.
        if let Some(last) =
            last.filter(|last| last != session && is_left_over(&self.sessions().session(last), id))
        {
            return Ok(Claim::Held(Some(last)));
        }
        // For whoever comes next, and for people: the lock counts, not the text.
        let _ = file.write_text(session.as_str());
        Ok(Claim::Ours(ConversationLock { file, kind: kind.to_owned(), id: id.to_owned() }))
    }
}

impl ConversationLock {
    /// A lock that an earlier image of this program took, if it is the one of this conversation: an agent can go on to
    /// one that is somebody else's.
    pub fn inherited(file: LockFile, home: &Home, kind: String, id: String) -> Option<Self> {
        let is_another = matches!(file.is_at(&lock_path(home, &kind, &id)), Ok(false));
        (!is_another).then_some(Self { file, kind, id })
    }

    /// Its file.
    pub fn file(&self) -> &LockFile {
        &self.file
    }

    /// Whether it is the right to write this one.
    pub fn is_of(&self, kind: &str, id: &str) -> bool {
        self.kind == kind && self.id == id
    }
}

/// Whether something of a session's last run is there that may write this conversation.
fn is_left_over(session: &SessionFiles, id: &str) -> bool {
    if !matches!(session.probe_run_lock(), Ok(Some(Probe::Held))) {
        return false;
    }
    // A run that is recorded as over left nothing: then it is only its keeper, which is about to leave. One that is not may
    // have gone on to another conversation; what cannot be read may well be it.
    let Ok(past) = session.past() else { return true };
    let session = past.history.session;
    session.is_live() && session.conversation.is_some_and(|writes| writes.id == id)
}

/// The session that wrote a conversation last, as far as its lock tells.
pub fn last_writer(home: &Home, kind: &str, id: &str) -> Option<SessionId> {
    let path = lock_path(home, kind, id);
    let file = path.exists().then(|| LockFile::open_or_create(&path))?;
    SessionId::parse(file.ok()?.read_text().ok()?.trim())
}

/// The session that may write a conversation now, by the lock it holds on it. Whoever asks does not take it.
pub fn held_by(home: &Home, kind: &str, id: &str) -> Option<SessionId> {
    let path = lock_path(home, kind, id);
    matches!(probe(&path), Ok(Some(Probe::Held))).then_some(())?;
    SessionId::parse(LockFile::open_or_create(&path).ok()?.read_text().ok()?.trim())
}

/// The session here whose conversation this is, as its own record has it. `dir` is where the agent keeps the
/// conversation: one of the same id in another directory is another one. `all` gives those that have it
/// ([`sessions_with`]); it is asked only if the session that had it last has it no more.
pub fn session_of(
    home: &Home,
    kind: &str,
    id: &str,
    dir: &Path,
    all: impl FnOnce() -> Vec<Status>,
) -> Option<Status> {
    let session = last_writer(home, kind, id)?;
    let is_in_dir = |status: &Status| {
        let session = SessionId::parse(&status.id)?;
        let store = view::history(home, &session).ok()?.session.conversation?.store;
        let place = |dir: &Path| std::fs::metadata(dir).ok().map(|dir| (dir.dev(), dir.ino()));
        let is_here = store.is_empty() || Path::new(&store) == dir || place(Path::new(&store)) == place(dir);
        is_here.then_some(())
    };
    // The text is a hint: the session may be purged by now, or have gone on to another conversation. Then another one
    // may have it still.
    let named = view::status(home, &session).ok().filter(|status| has(status, kind, id));
    match named.filter(|status| is_in_dir(status).is_some()) {
        Some(status) => Some(status),
        None => all().into_iter().find(|status| is_in_dir(status).is_some()),
    }
}

/// All sessions whose conversation this is: a look at each there is.
pub fn sessions_with(home: &Home, kind: &str, id: &str) -> Vec<Status> {
    let mut found = sessions(home);
    found.retain(|status| has(status, kind, id));
    found
}

/// All sessions that have a conversation of an agent.
pub fn sessions(home: &Home) -> Vec<Status> {
    let all = home.session_ids().unwrap_or_default();
    let known = all.iter().filter_map(|session| view::status(home, session).ok());
    known.filter(|status| status.conversation_id.is_some()).collect()
}

/// Whether a session's conversation is this one.
pub fn has(status: &Status, kind: &str, id: &str) -> bool {
    status.conversation_id.as_deref() == Some(id) && status.what.conversation == kind
}

fn lock_path(home: &Home, kind: &str, id: &str) -> PathBuf {
    home.root().join("conversations").join(file_name(kind)).join(file_name(id))
}

/// A name that is safe as a file's, and different for different texts.
pub fn file_name(text: &str) -> String {
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
    use super::*;

    #[test]
    fn a_conversation_has_one_writer_until_that_leaves() {
        let root = std::env::temp_dir().join(format!("berth-conversations-{}", std::process::id()));
        let home = Home::open(root.clone()).expect("a state directory");
        let [a, b] = [*b"aaaaaaaaaaaa", *b"bbbbbbbbbbbb"].map(SessionId::from_random);
        let first = match home.claim_conversation("claude", "x/../y", &a).expect("a claim") {
            Claim::Ours(lock) => lock,
            Claim::Held(by) => panic!("held by {by:?}"),
        };
        match home.claim_conversation("claude", "x/../y", &b).expect("a claim") {
            Claim::Held(by) => assert_eq!(by, Some(a.clone())),
            Claim::Ours(_) => panic!("two writers"),
        }
        assert!(matches!(home.claim_conversation("codex", "x/../y", &b), Ok(Claim::Ours(_))));
        drop(first);
        assert!(matches!(home.claim_conversation("claude", "x/../y", &b), Ok(Claim::Ours(_))));
        std::fs::remove_dir_all(&root).expect("our own directory");
    }

    #[test]
    fn different_ids_have_different_files() {
        let long = "x".repeat(1000);
        let ids = ["", "a/b", "a%2fb", "..", ".", long.as_str(), &long[1..], "ü"];
        let names: std::collections::BTreeSet<String> = ids.iter().map(|id| file_name(id)).collect();
        assert_eq!(names.len(), ids.len());
        assert!(names.iter().all(|name| name.len() < 255 && !name.starts_with('.') && !name.contains('/')));
    }
}
