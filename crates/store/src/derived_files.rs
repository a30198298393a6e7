//! Files beside a journal, derived by the session's owner, so that readers need not replay the whole journal.
//!
//! Promise: everything here follows from the journal and can be lost. A write that fails costs time, never a commit.
//! Not here: which readers believe them, and when (see `stored_session`).

use std::io;
use std::path::{Path, PathBuf};

use berth_api::Problem;
use berth_api::turn::TurnView;
use berth_core::SessionId;
use berth_journal::Checkpoint;

use crate::session_view::SessionView;
use crate::snapshot::Snapshot;
use crate::store;
use crate::stored_session::TurnPageRequest;
use crate::turn_index::{TurnIndex, TurnLink};

/// Number of events after which another snapshot is written. A reader replays at most as many events behind it.
const SNAPSHOT_EVENTS: u64 = 128;
/// Number of events behind the last synced snapshot from which on a run that ends leaves another one. After an orderly end
/// and a reboot, a reader replays at most as many events. Smaller than [`SNAPSHOT_EVENTS`], so a run that wrote a snapshot ends with a synced one.
const LAST_SNAPSHOT_EVENTS: u64 = 64;

/// The derived files of one session, as its owner writes them.
#[derive(Debug)]
pub struct DerivedFiles {
    dir: PathBuf,
    id: SessionId,
    /// Turn index, once there is something to write into it. It has all events up to now.
    index: Option<TurnIndex>,
    /// Number of the last event in the snapshot, or of the event for which writing one was tried last.
    snapshot_seq: u64,
    /// Number of the last event in a snapshot that survives a power cut. Other snapshots are valid until the next boot.
    synced_seq: u64,
}

impl DerivedFiles {
    /// Starts for a new session.
    pub(crate) fn new(dir: &Path, id: &SessionId) -> Self {
        Self { dir: dir.to_owned(), id: id.clone(), index: None, snapshot_seq: 0, synced_seq: 0 }
    }

    /// Starts for a session with a past: a snapshot has the events up to `known_to`, and the events behind it have
    /// these links. `is_synced`: that snapshot survives a power cut.
    pub(crate) fn resume(
        dir: &Path,
        id: &SessionId,
        history: &SessionView,
        known_to: u64,
        is_synced: bool,
        links: &[TurnLink],
    ) -> Self {
        let synced_seq = if is_synced { known_to } else { 0 };
        let mut derived = Self { snapshot_seq: known_to, synced_seq, ..Self::new(dir, id) };
        if known_to == 0 {
            Snapshot::remove(dir);
        }
        if history.session.turns.last() > 0 {
            let made = match known_to {
                0 => TurnIndex::rebuild(dir, links),
                _ => TurnIndex::open_to_write(dir)
                    .and_then(|index| index.add(known_to + 1, links).map(|()| index)),
            };
            derived.index = derived.or_none(made);
        }
        derived
    }

    /// Writes a snapshot if the last one is old. With `is_last` the owner leaves, and the snapshot survives a power
    /// cut.
    pub fn write_snapshot(&mut self, checkpoint: Option<Checkpoint>, history: &SessionView, is_last: bool) {
        let (before, least) = match is_last {
            true => (self.synced_seq, LAST_SNAPSHOT_EVENTS),
            false => (self.snapshot_seq, SNAPSHOT_EVENTS),
        };
        let is_due = history.seq.saturating_sub(before) >= least;
        let Some(checkpoint) = checkpoint.filter(|_| is_due) else { return };
        self.snapshot_seq = history.seq;
        let waiting: usize = history.session.turns.window.values().map(|turn| turn.prompt.len()).sum();
        if waiting > Snapshot::MAX_BYTES {
            return;
        }
        let index = match &self.index {
            Some(index) => index.inode().and_then(|inode| {
                if is_last {
                    index.sync()?;
                }
                Ok(Some(inode))
            }),
            None if history.session.turns.last() == 0 => Ok(None),
            None => Err(io::Error::other("there is no turn index")),
        };
        let written = index
            .and_then(|index| Snapshot::new(checkpoint, history, index).write(&self.dir, &self.id, is_last));
        match written {
            Ok(()) if is_last => self.synced_seq = history.seq,
            Ok(()) => {}
            Err(error) => tracing::warn!(session = %self.id, %error, "cannot write a snapshot"),
        }
    }

    /// Adds the events from number `from` on to the turn index. `had_turns` is true if there were turns before them.
    pub fn follow(&mut self, from: u64, links: &[TurnLink], had_turns: bool) {
        if links.is_empty() {
            return;
        }
        let added = match self.index.take() {
            Some(index) => index.add(from, links).map(|()| index),
            None if !had_turns => TurnIndex::rebuild(&self.dir, links),
            // An index that lacks the events before these would lack keys. The next opening makes a whole one.
            None => return,
        };
        self.index = self.or_none(added);
    }

    fn or_none(&self, made: io::Result<TurnIndex>) -> Option<TurnIndex> {
        made.inspect_err(|error| tracing::warn!(session = %self.id, %error, "cannot write the turn index"))
            .ok()
    }

    /// Reads turns. An index that is not trusted is rebuilt.
    pub fn turns(&mut self, page: TurnPageRequest, history: &SessionView) -> Result<Vec<TurnView>, Problem> {
        let links = |turn: u64| {
            let links = self.index.as_ref().map(|index| index.links(turn, history.seq));
            links.and_then(Result::ok).flatten().unwrap_or_default()
        };
        if let Some(views) = page.read(&self.dir, &self.id, history, links)? {
            return Ok(views);
        }
        let events = store::read(&self.dir, &self.id, 1)?;
        let known = &events[..events.partition_point(|event| event.seq().0 <= history.seq)];
        let (_, links) = SessionView::replay_with_links(known);
        let made = TurnIndex::rebuild(&self.dir, &links);
        self.index = self.or_none(made);
        Ok(page.replay(&self.id, known, history))
    }
}

#[cfg(test)]
mod tests {
    use berth_core::KnownKey;
    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn an_index_that_could_not_be_begun_is_not_begun_in_the_middle_without_the_first_keys() {
        let dir = TestDir::new();
        std::fs::create_dir_all(dir.join("turns.idx")).expect("a directory in the place of the index");
        let id = SessionId::parse("0123456789ab").expect("an id");
        let link = |seq, key| TurnLink { turn: 1, seq, interface: None, is_question: false, key };
        let key = KnownKey { hash: 7, turn: 1, digest: 9 };
        let mut derived = DerivedFiles::new(&dir, &id);
        derived.follow(2, &[link(2, Some(key))], false);
        assert!(derived.index.is_none(), "it cannot be made");
        std::fs::remove_dir(dir.join("turns.idx")).expect("our own directory");
        derived.follow(3, &[link(3, None)], true);
        assert!(derived.index.is_none() && !dir.join("turns.idx").exists());
    }

    /// The last event in the snapshot of a directory, and whether a power cut spares it.
    fn snapshot_in(dir: &TestDir, id: &SessionId) -> (u64, bool) {
        let snapshot = Snapshot::read(dir, id).expect("a snapshot");
        (snapshot.checkpoint.seq.0, snapshot.is_synced)
    }

    #[test]
    fn a_run_that_ends_soon_after_an_unsynced_snapshot_leaves_a_synced_one() {
        let dir = TestDir::new();
        let id = SessionId::parse("0123456789ab").expect("an id");
        let at = |seq| SessionView { seq, ..SessionView::default() };
        let checkpoint = |seq| Some(Checkpoint { seq: berth_journal::Seq(seq), sum: 1 });
        let mut derived = DerivedFiles::new(&dir, &id);
        derived.write_snapshot(checkpoint(130), &at(130), false);
        assert_eq!(snapshot_in(&dir, &id), (130, false));
        derived.write_snapshot(checkpoint(140), &at(140), true);
        assert_eq!(snapshot_in(&dir, &id), (140, true));
        // A short run behind a synced snapshot leaves it: a reboot costs its readers a short replay.
        let mut next = DerivedFiles::resume(&dir, &id, &at(150), 140, true, &[]);
        next.write_snapshot(checkpoint(150), &at(150), true);
        assert_eq!(snapshot_in(&dir, &id), (140, true));
        // The snapshot of a run that was killed was not synced: the next run that ends leaves one that is.
        next.write_snapshot(checkpoint(300), &at(300), false);
        let mut after_kill = DerivedFiles::resume(&dir, &id, &at(301), 300, false, &[]);
        after_kill.write_snapshot(checkpoint(301), &at(301), true);
        assert_eq!(snapshot_in(&dir, &id), (301, true));
    }
}
