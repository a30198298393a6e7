//! Copies of the agent's transcript, made at the end of each turn, in any interface, and of each run.
//!
//! Promise: the loop never waits for it. One copy is made at a time, beside the loop; a request that comes meanwhile
//! is granted after that, once for each conversation. A keeper that leaves waits a moment for the last one. A failure is in
//! the log, and `berth history` shows how far the copies reach.
//! Not here: the copies themselves (see [`berth_conversations::transcript_copies`]).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use berth_conversations::location;
use berth_conversations::transcript_copies::{CopyCheck, CopySource, TranscriptCopies};
use berth_core::{ActivityChange, Conversation, Event, Session, SessionId, SessionSpec};
use berth_host::clock;
use berth_journal::Committed;
use berth_store::killpoint;
use berth_store::session_view::StoredEvent;

use super::identity::KeeperIdentity;

/// The variable that disables copying, set from the config file when a keeper is started.
pub const KEEP_VARIABLE: &str = "BERTH_HISTORY_KEEP";
/// The time that a keeper that leaves waits for the last copy.
const LAST_COPY_PATIENCE: Duration = Duration::from_secs(2);
/// Enough stack for one copy.
const STACK_BYTES: usize = 256 << 10;
/// The number of files beside a transcript that are copied: those of the agents it started.
const MOST_FILES: usize = 1000;

/// The number of conversations that may wait for a copy. A session has one at a time.
const MOST_WISHES: usize = 8;

/// Makes copies of the agent's transcript in a thread beside the loop.
#[derive(Debug, Default)]
pub(super) struct TranscriptCopier {
    queue: Arc<(Mutex<CopyQueue>, Condvar)>,
}

#[derive(Debug, Default)]
struct CopyQueue {
    /// At most one for each conversation.
    next: VecDeque<CopyRequest>,
    is_at_work: bool,
    /// The conversation that was copied last, for which a look at the file's end is enough.
    known: Option<String>,
}

#[derive(Debug)]
struct CopyRequest {
    root: PathBuf,
    session: String,
    spec: SessionSpec,
    conversation: Conversation,
    at_ms: u64,
    turn: Option<u64>,
}

impl TranscriptCopier {
    /// Requests a copy if a turn or the run ended. For a typed turn only its end is known.
    pub(super) fn follow(
        &self,
        events: &[Committed<StoredEvent>],
        session: &Session,
        identity: &KeeperIdentity,
    ) {
        let is_end = |event: &Event| {
            matches!(
                event,
                Event::TurnEnded { .. }
                    | Event::RunEnded { .. }
                    | Event::ActivityReported {
                        edge: ActivityChange::Stopped | ActivityChange::Interrupted | ActivityChange::Quiet,
                        ..
                    }
            )
        };
        if !events.iter().any(|event| is_end(&event.get().event)) {
            return;
        }
        let turn = events.iter().rev().find_map(|event| match &event.get().event {
            Event::TurnEnded { turn, .. } => Some(*turn),
            _ => None,
        });
        let (Some(spec), Some(conversation)) = (&session.spec, &session.conversation) else { return };
        let is_known = berth_transcript::TranscriptKind::of(&spec.conversation).is_some();
        if !is_known || std::env::var_os(KEEP_VARIABLE).is_some_and(|value| value == "off") {
            return;
        }
        self.enqueue(CopyRequest {
            root: identity.root().to_owned(),
            session: identity.session().to_string(),
            spec: spec.clone(),
            conversation: conversation.clone(),
            at_ms: clock::wall_ms(),
            turn,
        });
    }

    fn enqueue(&self, mut request: CopyRequest) {
        let mut queue = self.queue.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |other: &CopyRequest| other.conversation.id == request.conversation.id;
        if let Some(unmade) = queue.next.iter().position(is_same).and_then(|at| queue.next.remove(at)) {
            request.turn = request.turn.or(unmade.turn);
        }
        if queue.next.len() == MOST_WISHES {
            queue.next.pop_front();
            tracing::warn!("a transcript is not copied: too many others are to be");
        }
        queue.next.push_back(request);
        if queue.is_at_work {
            return;
        }
        let at = Arc::clone(&self.queue);
        let thread = std::thread::Builder::new().name("copies".to_owned()).stack_size(STACK_BYTES);
        match thread.spawn(move || work(&at)) {
            Ok(_) => queue.is_at_work = true,
            Err(error) => tracing::warn!(%error, "the transcript is not copied: no thread for it"),
        }
    }

    /// Waits for a moment until all copies are made.
    pub(super) fn finish(&self) {
        let queue = self.queue.0.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = killpoint::patience("BERTH_LAST_COPY_MS", LAST_COPY_PATIENCE);
        // The next run's first copy includes the missing rest.
        let _ = self.queue.1.wait_timeout_while(queue, patience, |queue| queue.is_at_work);
    }
}

fn work(at: &(Mutex<CopyQueue>, Condvar)) {
    let _gone = StopOnPanic(at);
    let (queue, idle) = at;
    let mut done: Option<String> = None;
    loop {
        let (request, look) = {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.known = done.take().or(queue.known.take());
            let request = queue.next.pop_front();
            queue.is_at_work = request.is_some();
            let is_known = |request: &CopyRequest| queue.known.as_ref() == Some(&request.conversation.id);
            let look =
                if request.as_ref().is_some_and(is_known) { CopyCheck::AtItsEnd } else { CopyCheck::Whole };
            (request, look)
        };
        let Some(request) = request else {
            idle.notify_all();
            return;
        };
        killpoint::reached("copying");
        match make(&request, look) {
            Ok(()) => done = Some(request.conversation.id),
            Err(error) => tracing::warn!(%error, "the transcript is not copied"),
        }
        killpoint::reached("copied");
    }
}

/// Marks the thread as gone if it panics, so that the next request starts another one.
struct StopOnPanic<'a>(&'a (Mutex<CopyQueue>, Condvar));

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.lock().unwrap_or_else(PoisonError::into_inner).is_at_work = false;
            self.0.1.notify_all();
        }
    }
}

/// Copies the current transcript of a session's agent at once.
pub fn copy_now(
    root: &Path,
    session: &SessionId,
    spec: &SessionSpec,
    conversation: &Conversation,
) -> io::Result<()> {
    let request = CopyRequest {
        root: root.to_owned(),
        session: session.to_string(),
        spec: spec.clone(),
        conversation: conversation.clone(),
        at_ms: clock::wall_ms(),
        turn: None,
    };
    make(&request, CopyCheck::Whole)
}

fn make(request: &CopyRequest, look: CopyCheck) -> io::Result<()> {
    let copies = TranscriptCopies::of(&request.root);
    if let Some(why) = copies.full() {
        return Err(io::Error::other(why));
    }
    let (kind, id) = (request.spec.conversation.as_str(), request.conversation.id.as_str());
    let env = |name: &str| -> Option<OsString> {
        location::where_kept(&request.spec, Some(&request.conversation))(name)
    };
    let main = berth_transcript::transcript_files(kind, id, env).map_err(io::Error::other)?;
    if main.is_empty() {
        return Ok(());
    }
    let mut taking = copies.begin(kind, id)?;
    for path in &main {
        let source = CopySource { kind, id, session: &request.session, name: "", path };
        taking.take(&source, (request.at_ms, request.turn), look)?;
        for (name, path) in beside(path)? {
            let source = CopySource { name: &name, path: &path, ..source };
            taking.take(&source, (request.at_ms, request.turn), look)?;
        }
    }
    Ok(())
}

/// The transcripts of sub-agents, where an agent keeps them beside its own: `<id>/subagents/*.jsonl`.
fn beside(transcript: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    const FOLDER: &str = "subagents";
    let listed = match fs::read_dir(transcript.with_extension("").join(FOLDER)) {
        Ok(listed) => listed,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in listed.take(MOST_FILES) {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "jsonl")
            && let Some(name) = path.file_name().and_then(|name| name.to_str())
        {
            found.push((format!("{FOLDER}/{name}"), path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: &str, turn: Option<u64>) -> CopyRequest {
        let conversation = Conversation { id: id.to_owned(), ..Conversation::default() };
        let spec = SessionSpec { conversation: "claude".to_owned(), ..SessionSpec::default() };
        CopyRequest {
            root: PathBuf::from("/nowhere"),
            session: "s".to_owned(),
            spec,
            conversation,
            at_ms: 1,
            turn,
        }
    }

    #[test]
    fn a_wish_for_another_conversation_takes_the_place_of_none() {
        let copying = TranscriptCopier::default();
        copying.queue.0.lock().expect("a lock of its own").is_at_work = true;
        for (id, turn) in [("x", Some(7)), ("y", Some(1)), ("x", None)] {
            copying.enqueue(request(id, turn));
        }
        let queue = copying.queue.0.lock().expect("a lock of its own");
        let next: Vec<_> =
            queue.next.iter().map(|request| (request.conversation.id.as_str(), request.turn)).collect();
        assert_eq!(next, [("y", Some(1)), ("x", Some(7))]);
    }

    #[test]
    fn only_a_conversation_that_was_copied_is_known() {
        // There is no home directory with the agent's files.
        let at = (Mutex::new(CopyQueue::default()), Condvar::new());
        at.0.lock().expect("a lock of its own").next.push_back(request("not/an/id", None));
        work(&at);
        let queue = at.0.lock().expect("a lock of its own");
        assert_eq!((queue.known.as_deref(), queue.is_at_work), (None, false));
    }
}
