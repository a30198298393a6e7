//! Turn index: the numbers of the journal events of each turn, so that one turn is read without the journal's past.
//!
//! Promise: derived, and never the source of truth. A record is checked by its checksum and by the events that it
//! names; a reader in doubt replays the journal. Numbers behind the snapshot are not believed: the tail of the
//! journal has those.
//! Not here: folding the events of a turn (see `turn`), when the index is trusted (see `snapshot`).
//! Start with [`TurnIndex::links`].

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use berth_core::{AgentInterface, KnownKey};
use berth_host::disk::write_atomically;

/// One record for each turn, by number.
const INDEX_FILE: &str = "turns.idx";
/// Full records of turns with more events than one record has room for.
const MORE_FILE: &str = "turns.more";
const RECORD_BYTES: usize = 128;
const HEAD_BYTES: usize = 32;
/// How many records are read at a time.
const READ_RECORDS: usize = 512;
/// Number of events that a record has room for. Most turns have four.
const SLOTS: usize = (RECORD_BYTES - HEAD_BYTES) / 8;
/// Marks the number of a question's event, which is only there for the answer behind it.
const QUESTION: u64 = 1 << 63;

/// An event that belongs to a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnLink {
    /// Number of the turn.
    pub turn: u64,
    /// Number of the event.
    pub seq: u64,
    /// The interface that the turn was given through, if the event is its delivery.
    pub interface: Option<AgentInterface>,
    /// True for a question, whose answer is the next link.
    pub is_question: bool,
    /// The key that the turn was accepted with, if the event is its acceptance.
    pub key: Option<KnownKey>,
}

/// The index of one session.
#[derive(Debug)]
pub struct TurnIndex {
    dir: PathBuf,
    index: File,
}

/// Index record of one turn.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct TurnIndexRecord {
    turn: u64,
    /// Place in [`MORE_FILE`] of the record with the earlier events, from 1 on; 0 if there are none.
    more: u32,
    interface: Option<AgentInterface>,
    key: Option<KnownKey>,
    seqs: Vec<u64>,
}

impl TurnIndexRecord {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[4..8].copy_from_slice(&self.more.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.turn.to_le_bytes());
        bytes[16] = match self.interface {
            None => 0,
            Some(AgentInterface::Chat) => 1,
            Some(AgentInterface::Terminal) => 2,
        };
        bytes[17] = u8::try_from(self.seqs.len()).expect("a record has few slots");
        if let Some(key) = self.key {
            bytes[18] = 1;
            bytes[20..24].copy_from_slice(&key.digest.to_le_bytes());
            bytes[24..32].copy_from_slice(&key.hash.to_le_bytes());
        }
        for (slot, seq) in bytes[HEAD_BYTES..].chunks_exact_mut(8).zip(&self.seqs) {
            slot.copy_from_slice(&seq.to_le_bytes());
        }
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Adds an event. A full record is spilled first.
    fn push(&mut self, link: &TurnLink, spill: &mut impl FnMut(&Self) -> io::Result<u32>) -> io::Result<()> {
        if self.seqs.len() == SLOTS {
            self.more = spill(self)?;
            self.seqs.clear();
        }
        self.seqs.push(if link.is_question { link.seq | QUESTION } else { link.seq });
        self.interface = link.interface.or(self.interface);
        self.key = link.key.or(self.key);
        Ok(())
    }

    /// Decodes a record; `None` if it is not a valid record of this turn.
    fn decode(bytes: &[u8; RECORD_BYTES], turn: u64) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let interface = match bytes[16] {
            0 => None,
            1 => Some(AgentInterface::Chat),
            2 => Some(AgentInterface::Terminal),
            _ => return None,
        };
        let count = usize::from(bytes[17]);
        let is_whole = u32_at(0) == crc32c::crc32c(&bytes[4..]) && u64_at(8) == turn && count <= SLOTS;
        let seqs = (0..count.min(SLOTS)).map(|slot| u64_at(HEAD_BYTES + 8 * slot)).collect();
        let key = (bytes[18] != 0).then_some(KnownKey {
            hash: u64_at(24),
            turn: u32::try_from(turn).ok()?,
            digest: u32_at(20),
        });
        is_whole.then_some(Self { turn, more: u32_at(4), interface, key, seqs })
    }
}

impl TurnIndex {
    /// Opens the index of the session in `dir` for reading.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self { dir: dir.to_owned(), index: File::open(dir.join(INDEX_FILE))? })
    }

    /// Opens the index for its only writer, and makes it if there is none.
    pub(crate) fn open_to_write(dir: &Path) -> io::Result<Self> {
        Ok(Self { dir: dir.to_owned(), index: writable(dir, INDEX_FILE)? })
    }

    /// Makes the index of a whole journal, in place of an earlier one.
    pub(crate) fn rebuild(dir: &Path, links: &[TurnLink]) -> io::Result<Self> {
        let (mut index, mut more) = (Vec::new(), Vec::new());
        for (turn, links) in &by_turn(links) {
            let mut record = TurnIndexRecord { turn: *turn, ..TurnIndexRecord::default() };
            let mut spill = |full: &TurnIndexRecord| {
                more.extend_from_slice(&full.encode());
                u32::try_from(more.len() / RECORD_BYTES).map_err(|_| io::ErrorKind::FileTooLarge.into())
            };
            links.iter().try_for_each(|link| record.push(link, &mut spill))?;
            let place = usize::try_from(place_of(*turn)?).map_err(|_| io::ErrorKind::FileTooLarge)?;
            index.resize(place, 0);
            index.extend_from_slice(&record.encode());
        }
        // Records of another journal would be found where the next ones are expected.
        match more.is_empty() {
            true => drop(fs::remove_file(dir.join(MORE_FILE))),
            false => write_atomically(dir, MORE_FILE, &more, false)?,
        }
        write_atomically(dir, INDEX_FILE, &index, false)?;
        Self::open_to_write(dir)
    }

    /// Number of the index file: a copy has another one.
    pub(crate) fn inode(&self) -> io::Result<u64> {
        Ok(self.index.metadata()?.ino())
    }

    /// The keys of the turns up to this one; `None` if a turn among them has no record.
    pub(crate) fn keys(&self, last: u64) -> io::Result<Option<Vec<KnownKey>>> {
        let mut keys = Vec::new();
        let mut bytes = vec![0; READ_RECORDS * RECORD_BYTES];
        let mut turn = 1;
        while turn <= last {
            let count = usize::try_from(last - turn + 1).unwrap_or(usize::MAX).min(READ_RECORDS);
            let piece = &mut bytes[..count * RECORD_BYTES];
            match self.index.read_exact_at(piece, place_of(turn)?) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                read => read?,
            }
            for record in piece.as_chunks().0 {
                let Some(record) = TurnIndexRecord::decode(record, turn) else { return Ok(None) };
                keys.extend(record.key);
                turn += 1;
            }
        }
        Ok(Some(keys))
    }

    /// Adds the links of the events from number `from` on. Entries of these turns from that event on are replaced:
    /// they are from a writer that came further than the snapshot.
    pub(crate) fn add(&self, from: u64, links: &[TurnLink]) -> io::Result<()> {
        for (turn, links) in &by_turn(links) {
            let mut record = self.kept_before(*turn, from)?;
            links.iter().try_for_each(|link| record.push(link, &mut |full| self.spill(full)))?;
            self.index.write_all_at(&record.encode(), place_of(*turn)?)?;
        }
        Ok(())
    }

    /// Record of a turn as it was before the event `from`.
    fn kept_before(&self, turn: u64, from: u64) -> io::Result<TurnIndexRecord> {
        let mut record = read(&self.index, place_of(turn)?, turn)?.unwrap_or_default();
        record.turn = turn;
        loop {
            cut(&mut record.seqs, from);
            if !record.seqs.is_empty() || record.more == 0 {
                return Ok(record);
            }
            let before = read(&writable(&self.dir, MORE_FILE)?, more_place(record.more), turn)?;
            let before = before.filter(|before| before.more < record.more).unwrap_or_default();
            (record.more, record.seqs) = (before.more, before.seqs);
        }
    }

    /// Moves a full record to [`MORE_FILE`], and returns its place.
    fn spill(&self, record: &TurnIndexRecord) -> io::Result<u32> {
        let more = writable(&self.dir, MORE_FILE)?;
        let place = more.metadata()?.len().div_ceil(RECORD_BYTES as u64) + 1;
        let place = u32::try_from(place).map_err(|_| io::ErrorKind::FileTooLarge)?;
        more.write_all_at(&record.encode(), more_place(place))?;
        Ok(place)
    }

    /// Links of a turn up to and with the event `to`, in order; `None` if the index cannot be trusted.
    pub fn links(&self, turn: u64, to: u64) -> io::Result<Option<Vec<TurnLink>>> {
        let Some(TurnIndexRecord { mut more, interface, mut seqs, .. }) =
            read(&self.index, place_of(turn)?, turn)?
        else {
            return Ok(None);
        };
        let spilled = (more != 0).then(|| File::open(self.dir.join(MORE_FILE))).transpose()?;
        while let Some(spilled) = spilled.as_ref().filter(|_| more != 0) {
            // Each spilled record lies before the one that names it, so a damaged file cannot cause an endless loop.
            let before = read(spilled, more_place(more), turn)?.filter(|before| before.more < more);
            let Some(before) = before else { return Ok(None) };
            more = before.more;
            seqs.splice(0..0, before.seqs);
        }
        cut(&mut seqs, to.saturating_add(1));
        let link = |seq: u64| TurnLink {
            turn,
            seq: seq & !QUESTION,
            interface,
            is_question: seq & QUESTION != 0,
            key: None,
        };
        Ok(Some(seqs.into_iter().map(link).collect()))
    }

    /// Syncs the additions, so that they survive a power cut.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.index.sync_data()?;
        match File::open(self.dir.join(MORE_FILE)) {
            Ok(more) => more.sync_data(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn writable(dir: &Path, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(dir.join(name))
}

/// The links of each turn, in the order of the turns.
pub(crate) fn by_turn(links: &[TurnLink]) -> BTreeMap<u64, Vec<TurnLink>> {
    let mut turns: BTreeMap<u64, Vec<TurnLink>> = BTreeMap::new();
    for link in links {
        turns.entry(link.turn).or_default().push(*link);
    }
    turns
}

/// Removes the event `from` and later ones, with a question that only a removed answer needs.
fn cut(seqs: &mut Vec<u64>, from: u64) {
    let end = seqs.iter().position(|seq| seq & QUESTION == 0 && *seq >= from);
    seqs.truncate(end.unwrap_or(seqs.len()));
    while seqs.last().is_some_and(|seq| seq & QUESTION != 0) {
        seqs.pop();
    }
}

fn place_of(turn: u64) -> io::Result<u64> {
    let place = turn.checked_sub(1).and_then(|before| before.checked_mul(RECORD_BYTES as u64));
    place.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn more_place(place: u32) -> u64 {
    u64::from(place.saturating_sub(1)) * RECORD_BYTES as u64
}

fn read(file: &File, place: u64, turn: u64) -> io::Result<Option<TurnIndexRecord>> {
    let mut bytes = [0; RECORD_BYTES];
    match file.read_exact_at(&mut bytes, place) {
        Ok(()) => Ok(TurnIndexRecord::decode(&bytes, turn)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
