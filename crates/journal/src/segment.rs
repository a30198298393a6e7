//! Segments: a header, then frames, in a file named after its first event.
//!
//! Promise: [`JournalSegment::walk`] hands out only frames that are intact and in order, and says how they end.
//! Not here: the meaning of that end, which depends on the segments around it (see `recover.rs`).

use crate::Seq;
use crate::disk::JournalDisk;
use crate::error::{FrameFlaw, JournalError, SegmentDamage};
use crate::files;
use crate::frame::{FrameCodec, JournalFrame, u16_at, u32_at, u64_at};
use crate::index::FrameOffset;

/// The newest format that this code reads, and the one it writes.
pub(crate) const FORMAT_VERSION: u16 = 1;
pub(crate) const HEADER_BYTES: usize = 32;
const MAGIC: &[u8; 8] = b"berthlog";
const SUPERSEDES: u16 = 1;

/// `00000000000000000042.log`: twenty digits hold every number, and sort like numbers.
pub(crate) fn file_name(first: Seq) -> String {
    format!("{:020}.log", first.0)
}

/// Parses the name of a segment; `None` for other files.
pub(crate) fn first_seq(name: &str) -> Option<Seq> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|&first| first != 0).map(Seq)
}

/// Header of a segment. Magic, version and checksum are checked and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) first: Seq,
    /// True if the segment before counts for nothing from `first` on: neither its events nor its garbage.
    pub(crate) supersedes: bool,
    /// The number of bytes from the start of the file that were on disk before the file got its name: no crash can cause a
    /// flaw in them. 0 for a segment that was made under its name.
    pub(crate) placed: u32,
}

impl SegmentHeader {
    /// The header of a segment that goes on where the one before was sealed.
    pub(crate) fn next(first: Seq) -> Self {
        SegmentHeader { first, supersedes: false, placed: 0 }
    }

    /// The header of a segment that supersedes the tail of the one before. [`SegmentHeader::seal_placed`] completes it.
    pub(crate) fn superseding(first: Seq) -> Self {
        SegmentHeader { first, supersedes: true, placed: 0 }
    }

    /// Notes in the header of a superseding segment how long its first write is. `write` is all of that write.
    pub(crate) fn seal_placed(write: &mut [u8]) {
        let length = write.len() as u32;
        write[24..28].copy_from_slice(&length.to_le_bytes());
        let sum = crc32c::crc32c(&write[..28]);
        write[28..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads the header at the start of a segment. `None` if it is incomplete; a complete header with wrong values
    /// is refused.
    fn parse<D: JournalDisk>(
        disk: &D,
        codec: &FrameCodec,
        first: Seq,
        bytes: &[u8],
    ) -> Result<Option<Self>, JournalError> {
        let path = || disk.path(&file_name(first));
        let corrupt = |damage| JournalError::Corrupt { path: path(), offset: 0, damage };
        match bytes.get(..HEADER_BYTES) {
            Some(raw) if raw.starts_with(MAGIC) && u32_at(raw, 28) == crc32c::crc32c(&raw[..28]) => {
                let (version, flags) = (u16_at(raw, 8), u16_at(raw, 10));
                if version > FORMAT_VERSION {
                    let (found, supported) = (version, FORMAT_VERSION);
                    return Err(JournalError::NewerFormat { path: path(), found, supported });
                }
                if version == 0 || flags & !SUPERSEDES != 0 {
                    return Err(corrupt(SegmentDamage::ImpossibleHeader { version, flags }));
                }
                if u32_at(raw, 12) != codec.owner_sum {
                    return Err(JournalError::WrongOwner { path: path(), owner: codec.owner.clone() });
                }
                let found = Seq(u64_at(raw, 16));
                if found != first {
                    return Err(corrupt(SegmentDamage::Misnamed { found }));
                }
                let (supersedes, placed) = (flags & SUPERSEDES != 0, u32_at(raw, 24));
                Ok(Some(SegmentHeader { first, supersedes, placed }))
            }
            Some(_) | None => Ok(None),
        }
    }

    pub(crate) fn push(self, codec: &FrameCodec, write: &mut Vec<u8>) {
        let start = write.len();
        write.extend_from_slice(MAGIC);
        write.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        write.extend_from_slice(&(if self.supersedes { SUPERSEDES } else { 0 }).to_le_bytes());
        write.extend_from_slice(&codec.owner_sum.to_le_bytes());
        write.extend_from_slice(&self.first.0.to_le_bytes());
        write.extend_from_slice(&self.placed.to_le_bytes());
        let sum = crc32c::crc32c(&write[start..]);
        write.extend_from_slice(&sum.to_le_bytes());
    }
}

/// A segment file, or a piece of it.
pub(crate) struct JournalSegment {
    pub(crate) name: String,
    /// First event according to the name. The header agrees, if there is one.
    pub(crate) first: Seq,
    /// The content of the file from `base` on.
    pub(crate) bytes: Vec<u8>,
    /// Header; `None` if it is incomplete: the crash of a writer, or damage.
    pub(crate) header: Option<SegmentHeader>,
    /// The offset in the file at which `bytes` begin. Offsets of frames count from here.
    pub(crate) base: usize,
    /// The number of the first event in `bytes`.
    begins: Seq,
    /// True if the file may go on behind `bytes`.
    pub(crate) is_cut: bool,
}

/// The frames of a segment.
pub(crate) struct SegmentWalk<'a> {
    pub(crate) events: Vec<JournalFrame<'a>>,
    /// The number that comes after the last event.
    pub(crate) next: Seq,
    /// Offset at which the last good frame ends.
    pub(crate) offset: usize,
    pub(crate) end: WalkEnd<'a>,
}

/// Reason why a walk through a segment stopped.
pub(crate) enum WalkEnd<'a> {
    /// The file ends behind a good event, or behind the header.
    File,
    /// A seal, and nothing behind it.
    Seal(JournalFrame<'a>),
    /// A frame that is incomplete or flawed.
    Flawed(FrameFlaw),
    /// Bytes that no crash can leave.
    Wrong(SegmentDamage),
    /// The number at which the caller wanted to stop.
    Reached,
}

impl JournalSegment {
    /// Reads a whole segment. A complete header with wrong values is refused here.
    pub(crate) fn load<D: JournalDisk>(
        disk: &D,
        codec: &FrameCodec,
        first: Seq,
    ) -> Result<Self, JournalError> {
        Self::load_front(disk, codec, first, usize::MAX)
    }

    /// Reads at most so many bytes from the start of a segment.
    pub(crate) fn load_front<D: JournalDisk>(
        disk: &D,
        codec: &FrameCodec,
        first: Seq,
        most: usize,
    ) -> Result<Self, JournalError> {
        let name = file_name(first);
        let bytes = files::read_at(disk, &name, 0, most.max(HEADER_BYTES))?;
        let header = SegmentHeader::parse(disk, codec, first, &bytes)?;
        let is_cut = bytes.len() >= most;
        Ok(JournalSegment { name, first, bytes, header, base: 0, begins: first, is_cut })
    }

    /// Reads at most so many bytes of a segment from a frame on. `None` if the frame there is not the event that
    /// should be there.
    pub(crate) fn load_from<D: JournalDisk>(
        disk: &D,
        codec: &FrameCodec,
        first: Seq,
        place: FrameOffset,
        most: usize,
    ) -> Result<Option<Self>, JournalError> {
        let name = file_name(first);
        let header =
            SegmentHeader::parse(disk, codec, first, &files::read_at(disk, &name, 0, HEADER_BYTES)?)?;
        let bytes = files::read_at(disk, &name, place.offset, most)?;
        let (base, begins, is_cut) = (place.offset as usize, place.seq, bytes.len() >= most);
        let is_there = match codec.parse(&bytes, 0) {
            Ok(frame) => !frame.is_seal() && frame.seq == place.seq,
            // The frame is larger than what was read of it. Its number is checked when all of it is there.
            Err(flaw) => flaw == FrameFlaw::Short && is_cut,
        };
        let segment = JournalSegment { name, first, bytes, header, base, begins, is_cut };
        Ok((is_there && header.is_some()).then_some(segment))
    }

    pub(crate) fn supersedes(&self) -> bool {
        self.header.is_some_and(|header| header.supersedes)
    }

    /// True if this offset in `bytes` is in the part that was on disk before the file got its name.
    pub(crate) fn is_placed(&self, offset: usize) -> bool {
        self.header.is_some_and(|header| self.base + offset < header.placed as usize)
    }

    /// Walks the frames behind the header, up to `until` if given.
    pub(crate) fn walk(&self, codec: &FrameCodec, until: Option<Seq>) -> SegmentWalk<'_> {
        let offset = if self.base == 0 { HEADER_BYTES } else { 0 };
        let mut walk = SegmentWalk { events: Vec::new(), next: self.begins, offset, end: WalkEnd::File };
        walk.end = loop {
            if until == Some(walk.next) {
                break WalkEnd::Reached;
            }
            if walk.offset == self.bytes.len() {
                break WalkEnd::File;
            }
            let frame = match codec.parse(&self.bytes, walk.offset) {
                Ok(frame) => frame,
                Err(flaw) => break WalkEnd::Flawed(flaw),
            };
            if frame.is_seal() {
                break self.judge_seal(frame, &walk);
            }
            if frame.seq != walk.next {
                break WalkEnd::Wrong(SegmentDamage::Misnumbered { expected: walk.next, found: frame.seq });
            }
            walk.offset = frame.end();
            walk.next = walk.next.plus(1);
            walk.events.push(frame);
        };
        walk
    }

    fn judge_seal<'a>(&self, seal: JournalFrame<'a>, walk: &SegmentWalk<'_>) -> WalkEnd<'a> {
        match walk.events.last() {
            // A header is never written without an event behind it.
            None => WalkEnd::Flawed(FrameFlaw::EarlySeal),
            Some(last) if seal.seq != last.seq => {
                WalkEnd::Wrong(SegmentDamage::WrongSeal { last: last.seq, found: seal.seq })
            }
            Some(_) if seal.end() != self.bytes.len() => WalkEnd::Wrong(SegmentDamage::BehindSeal),
            Some(_) => WalkEnd::Seal(seal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_like_numbers_and_only_segments_have_one() {
        assert_eq!(first_seq(&file_name(Seq(42))), Some(Seq(42)));
        assert_eq!(first_seq(&file_name(Seq(u64::MAX))), Some(Seq(u64::MAX)));
        assert!(file_name(Seq(9)) < file_name(Seq(10)));
        let strangers = [
            "",
            "42.log",
            "+0000000000000000001.log",
            "00000000000000000000.log",
            "00000000000000000042.log.new",
            "99999999999999999999.log",
        ];
        for stranger in strangers {
            assert_eq!(first_seq(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn the_header_is_as_long_as_it_says() {
        let mut write = Vec::new();
        SegmentHeader::superseding(Seq(7)).push(&FrameCodec::new("me"), &mut write);
        assert_eq!(write.len(), HEADER_BYTES);
    }
}
