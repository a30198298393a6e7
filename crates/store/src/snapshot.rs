//! Snapshot: the result of replaying a session's journal up to an event, in a file beside the journal.
//!
//! Promise: derived, and believed only where the journal confirms it. A snapshot is discarded if its checksum is
//! bad, if it has another format, session or boot (unless it was synced), if the turn index beside it is another
//! file, or if its last event is missing in the journal or differs there. Then the whole journal is replayed.
//! Not here: the events behind it (see `stored_session` and `store`), and when it is written (see `derived_files`).
//! Start with [`Snapshot`].

use std::fs;
use std::io;
use std::path::Path;

use berth_api::snapshot::SessionSnapshot;
use berth_core::SessionId;
use berth_host::identity::boot_id;
use berth_journal::{Checkpoint, Seq};
use serde::{Deserialize, Serialize};

use crate::session_view::{LastExchange, SessionView};
use crate::turn_index::TurnIndex;

const SNAPSHOT_FILE: &str = "snapshot";
/// Number of this format.
const FORMAT: u32 = 1;
/// Size of the checksum in front, in bytes.
const SUM_BYTES: usize = 4;

/// State of a session at an event, for opening and reading without a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Last event that is in it.
    pub checkpoint: Checkpoint,
    /// Summary of all events up to that one, without the keys of turns.
    pub history: SessionView,
    /// Turn index with the events up to that one, by the number of its file; `None` without a turn.
    index: Option<u64>,
    /// True if the file survives a power cut.
    pub(crate) is_synced: bool,
}

/// The stored form of a snapshot.
#[derive(Serialize, Deserialize)]
struct StoredSnapshot {
    format: u32,
    id: String,
    /// Boot in which it was written, unless it was synced: a power cut may have kept one of two files.
    boot: Option<String>,
    seq: u64,
    sum: u32,
    index: Option<u64>,
    session: SessionSnapshot,
    run_seq: u64,
    created_at_ms: u64,
    started_at_ms: Option<u64>,
    ended_at_ms: Option<u64>,
    last_event_at_ms: u64,
    archived_at_ms: Option<u64>,
    writer_since_ms: u64,
    given_at_ms: Option<u64>,
    told_at_ms: u64,
    last_prompt: Option<String>,
    last_answer: Option<String>,
    joined_at_ms: Vec<(String, u64)>,
    asked: Vec<(String, u64)>,
}

impl Snapshot {
    /// Size limit. A longer snapshot is not written: the texts of waiting turns may be long, and are read from the
    /// journal then.
    pub(crate) const MAX_BYTES: usize = 1 << 20;

    /// Makes a snapshot at this event.
    pub fn new(checkpoint: Checkpoint, history: &SessionView, index: Option<u64>) -> Self {
        Self { checkpoint, history: history.clone(), index, is_synced: false }
    }

    /// Reads the snapshot of the session in `dir`, if it is valid by itself. The caller checks whether it fits the
    /// journal.
    pub(crate) fn read(dir: &Path, id: &SessionId) -> Option<Self> {
        let snapshot = Self::decode(&fs::read(dir.join(SNAPSHOT_FILE)).ok()?, id)?;
        let index = TurnIndex::open(dir).and_then(|index| index.inode()).ok();
        (snapshot.index.is_none() || snapshot.index == index).then_some(snapshot)
    }

    /// Writes the file. A snapshot that is not synced counts until the next boot.
    pub(crate) fn write(&self, dir: &Path, id: &SessionId, synced: bool) -> io::Result<()> {
        let bytes = self.encode(id, if synced { None } else { Some(boot_id()?.to_owned()) });
        if bytes.len() > Self::MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match synced {
            true => berth_host::disk::write_atomically(dir, SNAPSHOT_FILE, &bytes, true),
            false => berth_host::disk::write_briefly(dir, SNAPSHOT_FILE, &bytes),
        }
    }

    /// Removes a snapshot that does not fit its journal.
    pub(crate) fn remove(dir: &Path) {
        // A failure is harmless: the snapshot stays rejected as long as it is there.
        let _ = fs::remove_file(dir.join(SNAPSHOT_FILE));
    }

    /// Encodes the file.
    pub fn encode(&self, id: &SessionId, boot: Option<String>) -> Vec<u8> {
        let Checkpoint { seq, sum } = self.checkpoint;
        let SessionView {
            session,
            seq: _,
            run_seq,
            created_at_ms,
            started_at_ms,
            ended_at_ms,
            last_event_at_ms,
            archived_at_ms,
            writer_since_ms,
            given_at_ms,
            told_at_ms,
            last_said: LastExchange { prompt: last_prompt, answer: last_answer },
            joined_at_ms,
            asked,
        } = self.history.clone();
        let paper = StoredSnapshot {
            format: FORMAT,
            id: id.to_string(),
            boot,
            seq: seq.0,
            sum,
            index: self.index,
            session: SessionSnapshot::from(&session),
            run_seq,
            created_at_ms,
            started_at_ms,
            ended_at_ms,
            last_event_at_ms,
            archived_at_ms,
            writer_since_ms,
            given_at_ms,
            told_at_ms,
            last_prompt,
            last_answer,
            joined_at_ms: joined_at_ms.into_iter().map(|(owner, at)| (owner.to_string(), at)).collect(),
            asked,
        };
        let mut bytes = vec![0; SUM_BYTES];
        serde_json::to_writer(&mut bytes, &paper)
            .expect("a snapshot is plain data and a Vec takes any write");
        let sum = crc32c::crc32c(&bytes[SUM_BYTES..]);
        bytes[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a file; `None` if it is not a snapshot of this session, this version and this boot.
    pub fn decode(bytes: &[u8], id: &SessionId) -> Option<Self> {
        let (sum, json) = bytes.split_first_chunk()?;
        if u32::from_le_bytes(*sum) != crc32c::crc32c(json) {
            return None;
        }
        let paper: StoredSnapshot = serde_json::from_slice(json).ok()?;
        let is_synced = paper.boot.is_none();
        let is_of_now = paper.boot.is_none_or(|written| boot_id().is_ok_and(|now| now == written));
        if paper.format != FORMAT || paper.id != id.as_str() || !is_of_now {
            return None;
        }
        let joined = paper.joined_at_ms.into_iter().map(|(owner, at)| Some((SessionId::parse(&owner)?, at)));
        let history = SessionView {
            session: paper.session.try_into().ok()?,
            seq: paper.seq,
            run_seq: paper.run_seq,
            created_at_ms: paper.created_at_ms,
            started_at_ms: paper.started_at_ms,
            ended_at_ms: paper.ended_at_ms,
            last_event_at_ms: paper.last_event_at_ms,
            archived_at_ms: paper.archived_at_ms,
            writer_since_ms: paper.writer_since_ms,
            given_at_ms: paper.given_at_ms,
            told_at_ms: paper.told_at_ms,
            last_said: LastExchange { prompt: paper.last_prompt, answer: paper.last_answer },
            joined_at_ms: joined.collect::<Option<_>>()?,
            asked: paper.asked,
        };
        let checkpoint = Checkpoint { seq: Seq(paper.seq), sum: paper.sum };
        Some(Self { checkpoint, history, index: paper.index, is_synced })
    }

    /// Adds the keys of all turns, from the turn index; `None` if the index lacks one.
    pub(crate) fn with_keys(mut self, dir: &Path) -> Option<Self> {
        let turns = &mut self.history.session.turns;
        if turns.last() > 0 {
            turns.keys.remember_all(TurnIndex::open(dir).ok()?.keys(turns.last()).ok()??);
        }
        Some(self)
    }
}
