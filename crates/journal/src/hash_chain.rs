//! The hash chain: one hash that stands for everything up to an event.
//!
//! Promise: the head at an event follows from the owner and from number and payload of every event up to it, and from
//! nothing else. It does not change when segments are taken over, sealed or superseded; if one byte of one event differs,
//! every head from there on differs.
//! Not here: storing heads. A program that can edit the journal can compute its new head as well, so a head proves
//! something only if it was noted where that program cannot write. Damage is detected by the checksums.
//! Start with [`chain_heads`].

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::disk::JournalDisk;
use crate::error::JournalError;
use crate::event::{JournalRecord, Seq};
use crate::recover::read_journal_range;
use crate::{files, segment};

/// Beginning of the chain, in front of the owner.
const BEGINNING: &[u8] = b"berth journal chain 1\0";
/// How much of a journal is in memory at a time.
const PIECE_BYTES: usize = 8 << 20;

/// The state of a journal at one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainHead {
    /// Last event that it stands for; 0 for none.
    pub seq: Seq,
    /// SHA-256 of the chain up to that event.
    pub hash: [u8; 32],
}

impl fmt::Display for ChainHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.seq)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is not a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a head is the number of an event, a colon and 64 hexadecimal digits")]
pub struct InvalidChainHead;

impl FromStr for ChainHead {
    type Err = InvalidChainHead;

    fn from_str(text: &str) -> Result<Self, InvalidChainHead> {
        let (seq, hex) = text.trim().split_once(':').ok_or(InvalidChainHead)?;
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidChainHead);
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| InvalidChainHead)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| InvalidChainHead)?;
        }
        Ok(ChainHead { seq: Seq(seq.parse().map_err(|_| InvalidChainHead)?), hash })
    }
}

/// An event as the bytes that were written.
struct RawRecord(Vec<u8>);

impl JournalRecord for RawRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        Ok(RawRecord(bytes.to_vec()))
    }
}

/// The heads at these events, in order, and the head at the last event that was read: the largest of them, or the end of
/// the journal if that comes first. Events that are not there have no head. Reads like [`read`](crate::read_journal), without a
/// lock.
pub fn chain_heads<D: JournalDisk>(
    disk: &D,
    owner: &str,
    at: &[Seq],
) -> Result<(Vec<ChainHead>, ChainHead), JournalError> {
    let mut at = at.to_vec();
    at.sort_unstable();
    at.dedup();
    let last = at.last().copied().unwrap_or(Seq(0));
    let hash = Sha256::new().chain_update(BEGINNING).chain_update(owner).finalize().into();
    let mut head = ChainHead { seq: Seq(0), hash };
    let mut found: Vec<ChainHead> =
        at.first().filter(|&&seq| seq == Seq(0)).map(|_| head).into_iter().collect();
    while head.seq < last {
        let piece = read_journal_range::<RawRecord, D>(disk, owner, head.seq.plus(1), last, PIECE_BYTES)?;
        if piece.is_empty() {
            break;
        }
        for event in piece {
            let next = Sha256::new().chain_update(head.hash).chain_update(event.seq().0.to_le_bytes());
            head = ChainHead { seq: event.seq(), hash: next.chain_update(&event.get().0).finalize().into() };
            if at.binary_search(&head.seq).is_ok() {
                found.push(head);
            }
        }
    }
    Ok((found, head))
}

/// The files that have the events from `from` to `to`, as far as they are there.
pub fn segments_between<D: JournalDisk>(disk: &D, from: Seq, to: Seq) -> Result<Vec<String>, JournalError> {
    let segments = files::segments(disk)?;
    let begin = segments.partition_point(|&first| first <= from).saturating_sub(1);
    let some = segments[begin..].iter().take_while(|&&first| first <= to);
    Ok(some.map(|&first| segment::file_name(first)).collect())
}
