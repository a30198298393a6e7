//! Deleting a session: the only place where anything that a session holds is deleted.
//!
//! Promise: only what is proven not to run is deleted, with its lease held from the proof to the end. It leaves
//! the list in one step, so a crash leaves a session or nothing that looks like one; the next sweep deletes the
//! rest. Nothing outside of the session's own directory, its pointers and its history is touched: not the agent's
//! files, not the directories it worked in, not the locks of conversations.
//! Not here: asking for a yes.
//! Start with [`purge`].

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_host::lock::Probe;
use berth_store::Grave;
use berth_store::NotBuried;
use berth_store::SessionFiles;
use berth_store::home::Home;
use berth_store::store::{self, Lease};
use berth_store::{History, conversations, killpoint, view};

use crate::copies::{Copies, FORGET_PATIENCE};
use crate::recover;

/// Deletes a session that nothing is left of but its record, if that is what was meant: `seen` is the number of
/// the last event that whoever decided this knew of. Says how many bytes that was.
pub fn purge(home: &Home, id: &SessionId, seen: u64) -> Result<u64, Problem> {
    recover::heal(home, id)?;
    let files = home.session(id);
    if !view::history(home, id)?.session.is_live() {
        outwait_goodbye(&files);
    }
    let lease = claim(&files)?;
    let History { session, seq, .. } = view::history(home, id)?;
    lease.prove_sole_keeper(session.keeper.as_ref())?;
    if session.is_live() {
        return Err(runs(id, "its last run is not over"));
    }
    if seq != seen {
        let what = format!("something happened in session {id} meanwhile; nothing of it was deleted");
        return Err(Problem::new(Code::Held, what)
            .hint(format!("`berth log {id}` says what; purge it again if you mean it all the same")));
    }
    match files.probe_run_lock() {
        Ok(None | Some(Probe::Free)) => {}
        Ok(Some(Probe::Held)) => return Err(runs(id, "something of its last run is still there")),
        Err(error) => {
            let why = format!("cannot tell whether something of its last run is still there: {error}");
            return Err(Problem::new(Code::Refused, format!("session {id} is not purged: {why}"))
                .hint(format!("nothing of it was deleted; look at {}", files.display())));
        }
    }
    let bytes = files.size();
    let trouble = |what: &str, error: &io::Error| {
        Problem::new(Code::Refused, format!("cannot {what} session {id}: {error}"))
    };
    let grave = files.bury(&lease).map_err(|why| match why {
        NotBuried::NoPlace(problem) => problem,
        NotBuried::Occupied(error) => trouble("make room for", &error),
        NotBuried::Unmoved(error) => {
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
    let rest = "it is in no list any more; `berth sweep` deletes the rest";
    grave.empty().map_err(|error| trouble("delete all of", &error).hint(rest))?;
    // Its place is on the shelf until its history is gone, too: whoever sweeps finds it there.
    forget(home, id, FORGET_PATIENCE).map_err(|error| trouble("delete the history of", &error).hint(rest))?;
    grave.remove().map_err(|error| trouble("delete all of", &error).hint(rest))?;
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
        Err(error) => Err(Problem::new(Code::Refused, format!("cannot claim session {id}: {error}"))),
    }
}

fn runs(id: &SessionId, why: &str) -> Problem {
    Problem::new(Code::Held, format!("session {id} is not purged: {why}; nothing of it was deleted"))
        .hint(format!("end it with `berth stop {id}`, then try again"))
}

/// Finishes a purge that was broken off.
pub(crate) fn finish(home: &Home, grave: &Grave) -> Result<(), String> {
    // One of the same id that somebody brought back from a copy keeps its name, and its history.
    let id = grave.id();
    let is_back = home.session(id).exists();
    if !is_back {
        home.drop_pointers(id).map_err(|error| format!("cannot drop its names: {error}"))?;
    }
    grave.empty().map_err(|error| error.to_string())?;
    if !is_back {
        // Nobody waits for who is making copies: there is another sweep.
        let forgotten = forget(home, id, Duration::ZERO);
        forgotten.map_err(|error| format!("cannot delete its history: {error}"))?;
    }
    grave.remove().map_err(|error| error.to_string())
}
