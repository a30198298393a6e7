//! The index of a segment: the offset of each event, in a file beside it.
//!
//! Promise: reading the index instead of the segment costs one small read. Its content is only a hint: it is written
//! without a sync, and readers check the number and the checksum of the frame at the offset it gives.
//! Not here: that check, and reading a segment from its start when it fails (see `recover.rs`).
//! Start with [`SegmentIndex::add`] and [`place`].

use crate::Seq;
use crate::disk::JournalDisk;
use crate::frame::{FRAME_HEADER_BYTES, u32_at};
use crate::segment::HEADER_BYTES;

const ENTRY_BYTES: usize = 4;
/// The number of entries that a reader looks at in front of the wanted one, in case the index lags behind.
const LAG: u64 = 1024;

/// Place of a frame: the number that it should have, and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameOffset {
    pub(crate) seq: Seq,
    pub(crate) offset: u64,
}

/// `00000000000000000042.idx`, beside `00000000000000000042.log`.
pub(crate) fn file_name(first: Seq) -> String {
    format!("{:020}.idx", first.0)
}

/// The place of event `seq` in the segment that begins with `first`, or of the last event before it that the index
/// knows. `None` without a usable index.
pub(crate) fn place<D: JournalDisk>(disk: &D, first: Seq, seq: Seq) -> Option<FrameOffset> {
    let name = file_name(first);
    let wanted = seq.0 - first.0;
    let skipped = wanted.saturating_sub(LAG);
    let window = (wanted - skipped + 1) as usize * ENTRY_BYTES;
    // Files have signed offsets. No index is as long as that.
    let offset = skipped.saturating_mul(ENTRY_BYTES as u64).min(i64::MAX as u64);
    let entries = disk.read_at(&name, offset, window).ok()?;
    let (skipped, entries) = match entries.len() / ENTRY_BYTES {
        0 => (0, disk.read_at(&name, 0, usize::MAX).ok()?),
        _ => (skipped, entries),
    };
    let last = ((entries.len() / ENTRY_BYTES) as u64).min(wanted - skipped + 1).checked_sub(1)?;
    let offset = u64::from(u32_at(&entries, last as usize * ENTRY_BYTES));
    (offset >= HEADER_BYTES as u64).then_some(FrameOffset { seq: Seq(first.0 + skipped + last), offset })
}

/// True if the index of the segment that begins with `first` has these entries, from event `from` on.
pub(crate) fn is_current<D: JournalDisk>(disk: &D, first: Seq, from: Seq, entries: &[u8]) -> bool {
    let offset = (from.0 - first.0) * ENTRY_BYTES as u64;
    disk.read_at(&file_name(first), offset, entries.len()).is_ok_and(|found| found == entries)
}

/// The entries for events at these offsets, as far as 32 bits hold them.
pub(crate) fn entries(offsets: impl Iterator<Item = u64>) -> Vec<u8> {
    offsets.map_while(|offset| u32::try_from(offset).ok()).flat_map(u32::to_le_bytes).collect()
}

/// Replaces the index of a segment. An index that cannot be written is left incomplete: readers do without it.
pub(crate) fn replace<D: JournalDisk>(disk: &D, first: Seq, entries: &[u8]) -> Option<D::File> {
    let name = file_name(first);
    // Fails if there is none yet; an error of the disk then shows in the creation.
    let _ = disk.remove(&name);
    let mut file = disk.create_new(&name).ok()?;
    disk.append(&mut file, entries).ok()?;
    Some(file)
}

/// The index of the segment that is being written.
pub(crate) enum SegmentIndex<F> {
    /// The segment is small, so reading all of it is cheap, and the next opening replaces it. The entries wait.
    Waiting(Vec<u8>),
    /// All entries so far are in this file.
    Kept(F),
    /// A write failed, so that the next entry would stand in the wrong place.
    GivenUp,
}

impl<F> SegmentIndex<F> {
    /// Adds the events of a write to the segment that begins with `first`. From `index_from` bytes on it has an index.
    pub(crate) fn add<D: JournalDisk<File = F>>(
        &mut self,
        disk: &D,
        first: Seq,
        write: SegmentWrite<'_>,
        index_from: u64,
    ) {
        let added = entries(write.events());
        let end = write.offset + write.bytes.len() as u64;
        match self {
            SegmentIndex::Waiting(waiting) => {
                waiting.extend_from_slice(&added);
                if end >= index_from {
                    *self = match replace(disk, first, waiting) {
                        Some(file) => SegmentIndex::Kept(file),
                        None => SegmentIndex::GivenUp,
                    };
                }
            }
            SegmentIndex::Kept(file) => {
                if end > u64::from(u32::MAX) || disk.append(file, &added).is_err() {
                    *self = SegmentIndex::GivenUp;
                }
            }
            SegmentIndex::GivenUp => {}
        }
    }
}

/// Bytes of a segment that were written at once, and the offset at which they begin.
#[derive(Clone, Copy)]
pub(crate) struct SegmentWrite<'a> {
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
}

impl SegmentWrite<'_> {
    /// The offsets of the events in it. A seal is not an event.
    fn events(self) -> impl Iterator<Item = u64> {
        let mut at = if self.offset == 0 { HEADER_BYTES } else { 0 };
        std::iter::from_fn(move || {
            let begin = at;
            let frame = self.bytes.get(begin..).filter(|rest| rest.len() >= FRAME_HEADER_BYTES)?;
            let length = u32_at(frame, 0);
            at += FRAME_HEADER_BYTES + length as usize;
            (length > 0).then_some(self.offset + begin as u64)
        })
    }
}
