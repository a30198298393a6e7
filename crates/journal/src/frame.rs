//! Frames: one event, or the seal, as bytes.
//!
//! Promise: a frame is read back as it was written, for an equal owner and number, or not at all.
//! Not here: which frame may follow which (see `segment.rs`).
//! Start with [`FrameCodec::push`]; the byte table is in `docs/journal-format.md`.

use crate::Seq;
use crate::error::FrameFlaw;

/// Length, back, seq, checksum.
pub(crate) const FRAME_HEADER_BYTES: usize = 20;

/// Size limit of a payload, whatever the limits of the writer. A larger length is garbage.
pub(crate) const MAX_RECORD_BYTES: usize = 64 << 20;

/// Writes and checks frames for one owner.
#[derive(Clone, Debug)]
pub(crate) struct FrameCodec {
    pub(crate) owner: String,
    pub(crate) owner_sum: u32,
    #[cfg(feature = "testing")]
    pub(crate) planted: crate::PlantedBugs,
}

/// A frame that passed its checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalFrame<'a> {
    pub(crate) offset: usize,
    back: u32,
    pub(crate) seq: Seq,
    pub(crate) payload: &'a [u8],
}

impl JournalFrame<'_> {
    /// A seal has no payload, and the number of the event before it.
    pub(crate) fn is_seal(&self) -> bool {
        self.payload.is_empty()
    }

    pub(crate) fn end(&self) -> usize {
        self.offset + FRAME_HEADER_BYTES + self.payload.len()
    }

    /// Offset at which the write that carried this frame began. The writer syncs each write before it starts the
    /// next, so everything before this offset was safe once.
    pub(crate) fn write_start(&self) -> usize {
        self.offset.saturating_sub(self.back as usize)
    }
}

impl FrameCodec {
    pub(crate) fn new(owner: &str) -> Self {
        // With its length in front, no owner is a prefix of another.
        let length = crc32c::crc32c(&(owner.len() as u64).to_le_bytes());
        FrameCodec {
            owner: owner.to_owned(),
            owner_sum: crc32c::crc32c_append(length, owner.as_bytes()),
            #[cfg(feature = "testing")]
            planted: crate::PlantedBugs::default(),
        }
    }

    /// Adds a frame to a write that is being put together. `write` starts where the write starts.
    pub(crate) fn push(&self, write: &mut Vec<u8>, seq: Seq, payload: &[u8]) {
        let start = write.len();
        write.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        write.extend_from_slice(&(start as u32).to_le_bytes());
        write.extend_from_slice(&seq.0.to_le_bytes());
        let sum = self.sum(&write[start..], payload);
        write.extend_from_slice(&sum.to_le_bytes());
        write.extend_from_slice(payload);
    }

    /// Reads the frame at `offset`, which is at most the length of `bytes`.
    pub(crate) fn parse<'a>(&self, bytes: &'a [u8], offset: usize) -> Result<JournalFrame<'a>, FrameFlaw> {
        let (header, rest) = bytes[offset..].split_at_checked(FRAME_HEADER_BYTES).ok_or(FrameFlaw::Short)?;
        let length = u32_at(header, 0);
        if length as usize > MAX_RECORD_BYTES {
            return Err(FrameFlaw::Length(length));
        }
        let payload = rest.get(..length as usize).ok_or(FrameFlaw::Short)?;
        if !self.trusts(u32_at(header, 16), &header[..16], payload) {
            return Err(FrameFlaw::Checksum);
        }
        Ok(JournalFrame { offset, back: u32_at(header, 4), seq: Seq(u64_at(header, 8)), payload })
    }

    /// Searches behind a bad frame for a frame whose write began later than the bad one. The bad frame was then
    /// safe on disk once, so no crash explains it.
    ///
    /// A good frame of the *same* write proves nothing: disks do not write pages in order. Neither does a number
    /// below `next`: that is a copy of an old frame inside a payload.
    pub(crate) fn later_write(&self, bytes: &[u8], bad: usize, next: Seq) -> Option<usize> {
        // Numbers first: reading checksums at every offset would be quadratic for large lengths.
        let plausible = next.0..=next.0.saturating_add(bytes.len() as u64);
        let last = bytes.len().checked_sub(FRAME_HEADER_BYTES)?;
        (bad + 1..=last).find(|&offset| {
            plausible.contains(&u64_at(bytes, offset + 8))
                && self.parse(bytes, offset).is_ok_and(|frame| frame.write_start() > bad)
        })
    }

    fn trusts(&self, found: u32, fields: &[u8], payload: &[u8]) -> bool {
        #[cfg(feature = "testing")]
        if self.planted.skip_checksum {
            return true;
        }
        found == self.sum(fields, payload)
    }

    /// Checksum of an event's number and payload, wherever the event is stored.
    pub(crate) fn event_sum(&self, seq: Seq, payload: &[u8]) -> u32 {
        self.sum(&seq.0.to_le_bytes(), payload)
    }

    fn sum(&self, fields: &[u8], payload: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.owner_sum, fields), payload)
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes are two bytes"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes are four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes are eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(owner: &str, events: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (n, payload) in events.iter().enumerate() {
            FrameCodec::new(owner).push(&mut bytes, Seq(n as u64 + 1), payload);
        }
        bytes
    }

    #[test]
    fn a_frame_is_read_back_as_it_was_written() {
        let bytes = write("me", &[b"one", b"two"]);
        let first = FrameCodec::new("me").parse(&bytes, 0).unwrap();
        let second = FrameCodec::new("me").parse(&bytes, first.end()).unwrap();
        assert_eq!((first.seq, first.payload, first.write_start()), (Seq(1), &b"one"[..], 0));
        assert_eq!((second.seq, second.payload, second.write_start()), (Seq(2), &b"two"[..], 0));
        assert_eq!(second.end(), bytes.len());
    }

    #[test]
    fn a_frame_of_another_owner_fails_its_checksum() {
        let bytes = write("me", &[b"one"]);
        assert_eq!(FrameCodec::new("you").parse(&bytes, 0).unwrap_err(), FrameFlaw::Checksum);
        assert_eq!(FrameCodec::new("m").parse(&bytes, 0).unwrap_err(), FrameFlaw::Checksum);
    }

    #[test]
    fn a_large_length_is_never_followed() {
        let bytes = [0xff; 64];
        assert_eq!(FrameCodec::new("me").parse(&bytes, 0).unwrap_err(), FrameFlaw::Length(u32::MAX));
    }

    #[test]
    fn a_good_frame_of_the_same_write_is_no_proof_that_the_bad_place_was_safe() {
        let mut bytes = write("me", &[b"one", b"two", b"three"]);
        bytes[20] ^= 1;
        assert_eq!(FrameCodec::new("me").later_write(&bytes, 0, Seq(1)), None);
        let end = bytes.len();
        bytes.extend(write("me", &[b"later write"]));
        assert_eq!(FrameCodec::new("me").later_write(&bytes, 0, Seq(1)), Some(end));
    }

    #[test]
    fn a_copy_of_an_old_frame_inside_a_payload_is_no_proof_either() {
        let old = write("me", &[b"one"]);
        let mut bytes = Vec::new();
        FrameCodec::new("me").push(&mut bytes, Seq(2), &old);
        bytes[0] ^= 1;
        assert_eq!(FrameCodec::new("me").later_write(&bytes, 0, Seq(2)), None);
    }
}
