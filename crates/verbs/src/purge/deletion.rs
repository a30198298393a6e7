//! Deleting a session: the only place where anything that a session holds is deleted.
//!
//! Promise: only a session that is proven not to run is deleted, with its lease held from the proof to the end. It
//! leaves the list in one step: after a crash the session is either whole or not listed, and the next sweep deletes
//! the rest. Nothing outside of the session's own directory, its pointers and its history is touched: not the agent's
//! files, not the directories it worked in, not the locks of conversations.
//! Not here: asking the user for confirmation.
//! Start with [`purge`].

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_core::SessionId;
use berth_host::lock::LockState;
use berth_store::PendingPurge;
use berth_store::PurgeError;
use berth_store::SessionFiles;
use berth_store::state_dir::StateDir;
use berth_store::store::{self, Lease};
use berth_store::{SessionView, conversation_locks, killpoint, session_status};

use berth_conversations::transcript_copies::{FORGET_PATIENCE, TranscriptCopies};
use berth_keeper::recover;

/// Deletes a session without any process, if nothing happened in it since the caller decided: `seen` is the number of
/// the last event that the caller knew of. Returns the bytes that were freed.
pub(super) fn purge(home: &StateDir, id: &SessionId, seen: u64) -> Result<u64, Problem> {
    recover::recover_session(home, id)?;
    let files = home.session(id);
    if !session_status::history(home, id)?.session.is_live() {
        outwait_goodbye(&files);
    }
    let lease = claim(&files)?;
    let SessionView { session, seq, .. } = session_status::history(home, id)?;
    lease.prove_sole_keeper(session.keeper.as_ref())?;
    if session.is_live() {
        return Err(runs(id, "its last run is not over"));
    }
    if seq != seen {
        let what = format!("session {id} has new events; nothing of it was deleted");
        return Err(Problem::held(what)
            .hint(format!("`berth log {id}` shows them; purge the session again if you still want to")));
    }
    match files.probe_run_lock() {
        Ok(None | Some(LockState::Free)) => {}
        Ok(Some(LockState::Held)) => return Err(runs(id, "a process of its last run is still alive")),
        Err(error) => {
            let why = format!("cannot tell whether a process of its last run is still alive: {error}");
            return Err(Problem::refused(format!("session {id} is not purged: {why}"))
                .hint(format!("nothing of it was deleted; look at {}", files.display())));
        }
    }
    let bytes = files.size();
    let trouble =
        |what: &str, error: &io::Error| Problem::refused(format!("cannot {what} session {id}: {error}"));
    let grave = files.bury(&lease).map_err(|why| match why {
        PurgeError::NoPlace(problem) => problem,
        PurgeError::Occupied(error) => trouble("make room for", &error),
        PurgeError::Unmoved(error) => {
            trouble("purge", &error).hint("nothing was deleted; `berth show` still has it")
        }
    })?;
    killpoint::reached("purging");
    if let Some(name) = &session.name {
        home.drop_name(name, id);
    }
    if let Some(key) = session.spec.as_ref().and_then(|spec| spec.key.as_ref()) {
        home.drop_key(key, id);
    }
    killpoint::reached("purged-names");
    let rest = "the session is no longer listed; `berth sweep` deletes the rest";
    grave.empty().map_err(|error| trouble("delete all of", &error).hint(rest))?;
    // The remains stay in the folder until the history is gone as well: a sweep finds them there.
    forget(home, id, FORGET_PATIENCE).map_err(|error| trouble("delete the history of", &error).hint(rest))?;
    grave.remove().map_err(|error| trouble("delete all of", &error).hint(rest))?;
    drop(lease);
    Ok(bytes)
}

/// Deletes the copies that were made for a session. Copies shared with another session pass to that one.
fn forget(home: &StateDir, id: &SessionId, patience: Duration) -> io::Result<()> {
    let mut known: HashMap<(String, String), Option<String>> = HashMap::new();
    let heir = |kind: &str, native: &str| {
        // This looks at every session, so it is done once for each conversation.
        let heir = known.entry((kind.to_owned(), native.to_owned())).or_insert_with(|| {
            let others = conversation_locks::sessions_with(home, kind, native);
            others.into_iter().map(|other| other.id).find(|other| other != id.as_str())
        });
        heir.clone()
    };
    TranscriptCopies::of(home.root()).forget(id.as_str(), patience, heir).map(drop)
}

/// A keeper that has ended a run holds the lease a moment longer: to notify clients, and for the last copy.
fn outwait_goodbye(files: &SessionFiles) {
    let until = Instant::now() + recover::GOODBYE_PATIENCE;
    let is_kept = || files.is_kept().unwrap_or_default() && files.stranger().is_none();
    while Instant::now() < until && is_kept() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn claim(files: &SessionFiles) -> Result<Lease, Problem> {
    let id = files.id();
    match files.claim() {
        Ok(Some(lease)) => Ok(lease),
        Ok(None) if let Err(problem) = files.refuse_stranger(id.as_str()) => Err(problem),
        Ok(None) => Err(runs(id, &format!("another process holds it ({})", files.lease_holder()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(store::no_session(id)),
        Err(error) => Err(Problem::refused(format!("cannot claim session {id}: {error}"))),
    }
}

fn runs(id: &SessionId, why: &str) -> Problem {
    Problem::held(format!("session {id} is not purged: {why}; nothing of it was deleted"))
        .hint(format!("end it with `berth stop {id}`, then try again"))
}

/// Finishes a purge that was interrupted.
pub(crate) fn finish(home: &StateDir, grave: &PendingPurge) -> Result<(), String> {
    // A session of the same id that a user restored from a copy keeps its name and its history.
    let id = grave.id();
    let is_back = home.session(id).exists();
    if !is_back {
        home.drop_pointers(id).map_err(|error| format!("cannot drop its names: {error}"))?;
    }
    grave.empty().map_err(|error| error.to_string())?;
    if !is_back {
        // No wait for a process that makes copies: there will be another sweep.
        let forgotten = forget(home, id, Duration::ZERO);
        forgotten.map_err(|error| format!("cannot delete its history: {error}"))?;
    }
    grave.remove().map_err(|error| error.to_string())
}
