//! Segments: a header, then frames, in a file named after its first event.
//!
//! Promise: [`Segment::walk`] hands out only frames that are intact and in order, and says how they end.
//! Not here: what that end means, which depends on the segments around it (see `recover.rs`).

use crate::Seq;
use crate::disk::Disk;
use crate::error::{Damage, Flaw, JournalError};
use crate::files;
use crate::frame::{Codec, Frame, u16_at, u32_at, u64_at};
use crate::index::Place;

/// The newest format that this code reads, and the one it writes.
pub(crate) const FORMAT_VERSION: u16 = 1;
pub(crate) const HEADER_BYTES: usize = 32;
const MAGIC: &[u8; 8] = b"berthlog";
const SUPERSEDES: u16 = 1;

/// `00000000000000000042.log`: twenty digits hold every number, and sort like numbers.
pub(crate) fn file_name(first: Seq) -> String {
    format!("{:020}.log", first.0)
}

/// The other direction; `None` for files that are not segments.
pub(crate) fn first_seq(name: &str) -> Option<Seq> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|&first| first != 0).map(Seq)
}

/// What a segment says about itself. Magic, version and checksum are checked and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) first: Seq,
    /// From `first` on, the segment before counts for nothing: neither events nor garbage.
    pub(crate) supersedes: bool,
    /// The number of bytes from the start of the file that were on disk before the file got its name: no crash can cause a
    /// flaw in them. 0 for a segment that was made under its name.
    pub(crate) placed: u32,
}

impl Header {
    /// The header of a segment that goes on where the one before was sealed.
    pub(crate) fn next(first: Seq) -> Self {
        Header { first, supersedes: false, placed: 0 }
    }

    /// The header of a segment that supersedes the tail of the one before. [`Header::seal_placed`] completes it.
    pub(crate) fn superseding(first: Seq) -> Self {
        Header { first, supersedes: true, placed: 0 }
    }

    /// Notes in the header of a superseding segment how long its first write is. `write` is all of that write.
    pub(crate) fn seal_placed(write: &mut [u8]) {
        let length = write.len() as u32;
        write[24..28].copy_from_slice(&length.to_le_bytes());
        let sum = crc32c::crc32c(&write[..28]);
        write[28..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads the header at the start of a segment. `None` if it is not all there; a header that is whole and says the
    /// wrong thing is refused.
    fn parse<D: Disk>(
        disk: &D,
        codec: &Codec,
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
                    return Err(corrupt(Damage::ImpossibleHeader { version, flags }));
                }
                if u32_at(raw, 12) != codec.owner_sum {
                    return Err(JournalError::WrongOwner { path: path(), owner: codec.owner.clone() });
                }
                let found = Seq(u64_at(raw, 16));
                if found != first {
                    return Err(corrupt(Damage::Misnamed { found }));
                }
                let (supersedes, placed) = (flags & SUPERSEDES != 0, u32_at(raw, 24));
                Ok(Some(Header { first, supersedes, placed }))
            }
            Some(_) | None => Ok(None),
        }
    }

    pub(crate) fn push(self, codec: &Codec, write: &mut Vec<u8>) {
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
pub(crate) struct Segment {
    pub(crate) name: String,
    /// As the name says; the header agrees if there is one.
    pub(crate) first: Seq,
    /// The content of the file from `base` on.
    pub(crate) bytes: Vec<u8>,
    /// `None` if it is not all there: the crash of a writer, or damage.
    pub(crate) header: Option<Header>,
    /// The offset in the file at which `bytes` begin. Offsets of frames count from here.
    pub(crate) base: usize,
    /// The number of the first event in `bytes`.
    begins: Seq,
    /// True if the file may go on behind `bytes`.
    pub(crate) is_cut: bool,
}

/// The frames of a segment.
pub(crate) struct Walk<'a> {
    pub(crate) events: Vec<Frame<'a>>,
    /// The number that comes after the last event.
    pub(crate) next: Seq,
    /// Where the last good frame ends.
    pub(crate) offset: usize,
    pub(crate) end: End<'a>,
}

/// Why a walk through a segment stopped.
pub(crate) enum End<'a> {
    /// The file ends behind a good event, or behind the header.
    File,
    /// With a seal, and nothing behind it.
    Seal(Frame<'a>),
    /// At a frame that is not whole.
    Flawed(Flaw),
    /// At something that no crash can make.
    Wrong(Damage),
    /// At the number where the caller wanted to stop.
    Reached,
}

impl Segment {
    /// Reads a segment whole. A header that is whole and says the wrong thing is refused here.
    pub(crate) fn load<D: Disk>(disk: &D, codec: &Codec, first: Seq) -> Result<Self, JournalError> {
        Self::load_front(disk, codec, first, usize::MAX)
    }

    /// Reads at most so many bytes from the start of a segment.
    pub(crate) fn load_front<D: Disk>(
        disk: &D,
        codec: &Codec,
        first: Seq,
        most: usize,
    ) -> Result<Self, JournalError> {
        let name = file_name(first);
        let bytes = files::read_at(disk, &name, 0, most.max(HEADER_BYTES))?;
        let header = Header::parse(disk, codec, first, &bytes)?;
        let is_cut = bytes.len() >= most;
        Ok(Segment { name, first, bytes, header, base: 0, begins: first, is_cut })
    }

    /// Reads at most so many bytes of a segment from a frame on. `None` if the frame there is not the event that
    /// should be there.
    pub(crate) fn load_from<D: Disk>(
        disk: &D,
        codec: &Codec,
        first: Seq,
        place: Place,
        most: usize,
    ) -> Result<Option<Self>, JournalError> {
        let name = file_name(first);
        let header = Header::parse(disk, codec, first, &files::read_at(disk, &name, 0, HEADER_BYTES)?)?;
        let bytes = files::read_at(disk, &name, place.offset, most)?;
        let (base, begins, is_cut) = (place.offset as usize, place.seq, bytes.len() >= most);
        let is_there = match codec.parse(&bytes, 0) {
            Ok(frame) => !frame.is_seal() && frame.seq == place.seq,
            // The frame is larger than what was read of it. Its number is checked when all of it is there.
            Err(flaw) => flaw == Flaw::Short && is_cut,
        };
        let segment = Segment { name, first, bytes, header, base, begins, is_cut };
        Ok((is_there && header.is_some()).then_some(segment))
    }

    pub(crate) fn supersedes(&self) -> bool {
        self.header.is_some_and(|header| header.supersedes)
    }

    /// Whether this offset in `bytes` is in the part that was on disk before the file got its name.
    pub(crate) fn is_placed(&self, offset: usize) -> bool {
        self.header.is_some_and(|header| self.base + offset < header.placed as usize)
    }

    /// Walks the frames behind the header, up to `until` if given.
    pub(crate) fn walk(&self, codec: &Codec, until: Option<Seq>) -> Walk<'_> {
        let offset = if self.base == 0 { HEADER_BYTES } else { 0 };
        let mut walk = Walk { events: Vec::new(), next: self.begins, offset, end: End::File };
        walk.end = loop {
            if until == Some(walk.next) {
                break End::Reached;
            }
            if walk.offset == self.bytes.len() {
                break End::File;
            }
            let frame = match codec.parse(&self.bytes, walk.offset) {
                Ok(frame) => frame,
                Err(flaw) => break End::Flawed(flaw),
            };
            if frame.is_seal() {
                break self.judge_seal(frame, &walk);
            }
            if frame.seq != walk.next {
                break End::Wrong(Damage::Misnumbered { expected: walk.next, found: frame.seq });
            }
            walk.offset = frame.end();
            walk.next = walk.next.plus(1);
            walk.events.push(frame);
        };
        walk
    }

    fn judge_seal<'a>(&self, seal: Frame<'a>, walk: &Walk<'_>) -> End<'a> {
        match walk.events.last() {
            // A header is never written without an event behind it.
            None => End::Flawed(Flaw::EarlySeal),
            Some(last) if seal.seq != last.seq => {
                End::Wrong(Damage::WrongSeal { last: last.seq, found: seal.seq })
            }
            Some(_) if seal.end() != self.bytes.len() => End::Wrong(Damage::BehindSeal),
            Some(_) => End::Seal(seal),
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
        Header::superseding(Seq(7)).push(&Codec::new("me"), &mut write);
        assert_eq!(write.len(), HEADER_BYTES);
    }
}
