//! Deleting a session: the only place where anything that a session holds is deleted.
//!
//! Promise: only what is proven not to run is deleted, with its lease held from the proof to the end. It leaves
//! the list in one step, so a crash leaves a session or nothing that looks like one; the next sweep deletes the
//! rest. Nothing outside of the session's own directory, its pointers and its history is touched: not the agent's
//! files, not the directories it worked in, not the locks of conversations.
//! Not here: asking for a yes.
//! Start with [`purge`].

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_host::lock::{Probe, probe};
use berth_store::home::Home;
use berth_store::store::{self, Lease};
use berth_store::stranger::StrangeHolder;
use berth_store::{History, conversations, killpoint, view};

use crate::copies::{Copies, FORGET_PATIENCE};
use crate::recover;

/// How many bytes a session's directory holds. What cannot be read counts nothing.
pub fn size(home: &Home, id: &SessionId) -> u64 {
    size_of(&home.session_dir(id))
}

fn size_of(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(file) if file.is_dir() => size_of(&entry.path()),
        Ok(file) => file.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Deletes a session that nothing is left of but its record, if that is what was meant: `seen` is the number of
/// the last event that whoever decided this knew of. Says how many bytes that was.
pub fn purge(home: &Home, id: &SessionId, seen: u64) -> Result<u64, Problem> {
    recover::heal(home, id)?;
    let dir = home.session_dir(id);
    if !view::history(home, id)?.session.is_live() {
        outwait_goodbye(&dir);
    }
    let lease = claim(&dir, id)?;
    let History { session, seq, .. } = view::history(home, id)?;
    lease.prove_sole_keeper(id, session.keeper.as_ref())?;
    if session.is_live() {
        return Err(runs(id, "its last run is not over"));
    }
    if seq != seen {
        let what = format!("something happened in session {id} meanwhile; nothing of it was deleted");
        return Err(Problem::new(Code::Held, what)
            .hint(format!("`berth log {id}` says what; purge it again if you mean it all the same")));
    }
    match probe(&dir.join("run")) {
        Ok(None | Some(Probe::Free)) => {}
        Ok(Some(Probe::Held)) => return Err(runs(id, "something of its last run is still there")),
        Err(error) => {
            let why = format!("cannot tell whether something of its last run is still there: {error}");
            return Err(Problem::new(Code::Refused, format!("session {id} is not purged: {why}"))
                .hint(format!("nothing of it was deleted; look at {}", dir.join("run").display())));
        }
    }
    let bytes = size_of(&dir);
    let shelf = home.purging_dir()?;
    let grave = shelf.join(id.as_str());
    let trouble = |what: &str, error: &io::Error| {
        Problem::new(Code::Refused, format!("cannot {what} session {id}: {error}"))
    };
    // What is left of an earlier one with this id: somebody brought it back from a copy.
    gone(fs::remove_dir_all(&grave)).map_err(|error| trouble("make room for", &error))?;
    fs::rename(&dir, &grave)
        .map_err(|error| trouble("purge", &error).hint("nothing was deleted; `berth show` still has it"))?;
    // From here on it is no session any more, whatever happens to us.
    let _ = store::sync_dirs(&[&home.sessions_dir(), &shelf]);
    killpoint::reached("purging");
    if let Some(name) = &session.name {
        home.drop_name(name, id);
    }
    if let Some(key) = session.spec.as_ref().and_then(|spec| spec.key.as_ref()) {
        home.drop_key(key, id);
    }
    killpoint::reached("purged-names");
    let rest = "it is in no list any more; `berth sweep` deletes the rest";
    empty(&grave).map_err(|error| trouble("delete all of", &error).hint(rest))?;
    // Its place is on the shelf until its history is gone, too: whoever sweeps finds it there.
    forget(home, id, FORGET_PATIENCE).map_err(|error| trouble("delete the history of", &error).hint(rest))?;
    gone(fs::remove_dir_all(&grave)).map_err(|error| trouble("delete all of", &error).hint(rest))?;
    drop(lease);
    Ok(bytes)
}

/// Deletes what was copied for a session. What another session has, too, is that one's from then on.
fn forget(home: &Home, id: &SessionId, patience: Duration) -> io::Result<()> {
    let mut known: HashMap<(String, String), Option<String>> = HashMap::new();
    let heir = |kind: &str, native: &str| {
        // A look at every session, once for each conversation.
        let heir = known.entry((kind.to_owned(), native.to_owned())).or_insert_with(|| {
            let others = conversations::sessions_with(home, kind, native);
            others.into_iter().map(|other| other.id).find(|other| other != id.as_str())
        });
        heir.clone()
    };
    Copies::of(home.root()).forget(id.as_str(), patience, heir).map(drop)
}

/// Whoever has ended a run holds the lease a moment longer: to tell everybody, and for the last copy.
fn outwait_goodbye(dir: &Path) {
    let until = Instant::now() + recover::GOODBYE_PATIENCE;
    let is_kept = || view::is_kept(dir).unwrap_or_default() && StrangeHolder::of(dir).is_none();
    while Instant::now() < until && is_kept() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn claim(dir: &Path, id: &SessionId) -> Result<Lease, Problem> {
    match Lease::claim(dir) {
        Ok(Some(lease)) => Ok(lease),
        Ok(None) if let Err(problem) = StrangeHolder::refuse(dir, id.as_str()) => Err(problem),
        Ok(None) => Err(runs(id, &format!("another process holds it ({})", store::holder(dir)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(store::no_session(id)),
        Err(error) => Err(Problem::new(Code::Refused, format!("cannot claim session {id}: {error}"))),
    }
}

fn runs(id: &SessionId, why: &str) -> Problem {
    Problem::new(Code::Held, format!("session {id} is not purged: {why}; nothing of it was deleted"))
        .hint(format!("end it with `berth stop {id}`, then try again"))
}

/// Deletes all that is in a place on the shelf but the lease, which says whether somebody is at it. Symbolic links are
/// deleted, never followed.
fn empty(grave: &Path) -> io::Result<()> {
    gone(fs::remove_dir_all(grave.join(store::JOURNAL_DIR)))?;
    killpoint::reached("purged-journal");
    let entries = match fs::read_dir(grave) {
        Ok(entries) => entries,
        Err(error) => return gone(Err(error)),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == "lease" {
            continue;
        }
        let is_dir = entry.file_type()?.is_dir();
        let path = entry.path();
        gone(if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) })?;
    }
    Ok(())
}

/// Somebody else who finishes the same is welcome.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Sessions whose purge was broken off: whoever did it is gone.
pub(crate) fn unfinished(home: &Home) -> io::Result<Vec<(SessionId, PathBuf)>> {
    let entries = match fs::read_dir(home.purging_place()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Some(id) = entry.file_name().to_str().and_then(SessionId::parse) else { continue };
        if !view::is_kept(&entry.path()).unwrap_or(true) {
            found.push((id, entry.path()));
        }
    }
    Ok(found)
}

/// Finishes one of them.
pub(crate) fn finish(home: &Home, id: &SessionId, grave: &Path) -> Result<(), String> {
    // One of the same id that somebody brought back from a copy keeps its name, and its history.
    let is_back = home.session_dir(id).exists();
    if !is_back {
        home.drop_pointers(id).map_err(|error| format!("cannot drop its names: {error}"))?;
    }
    empty(grave).map_err(|error| error.to_string())?;
    if !is_back {
        // Nobody waits for who is making copies: there is another sweep.
        let forgotten = forget(home, id, Duration::ZERO);
        forgotten.map_err(|error| format!("cannot delete its history: {error}"))?;
    }
    gone(fs::remove_dir_all(grave)).map_err(|error| error.to_string())
}
