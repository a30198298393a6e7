//! One file's copy: its original, its pieces, and the size of the file at given times.
//!
//! Promise: a copy only grows; a file whose compared bytes differ gets another copy.
//! Not here: the directory of the copies (see [`super::TranscriptCopies`]).
//! Start with [`struct@Copy`].

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{CopyCheck, CopySource, PIECE_BYTES};

/// The format of a copy's description that is written and understood.
const FORMAT: u32 = 1;

/// A file and its past states, as far as it only grew.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TranscriptCopy {
    /// The version of this description.
    pub format: u32,
    /// The number of the copy in its conversation, from one.
    pub number: u64,
    /// The conversation's kind.
    pub kind: String,
    /// The conversation's id.
    pub id: String,
    /// The session that it was last copied for.
    pub session: String,
    /// The path of the file relative to the transcript; empty for the transcript itself.
    pub name: String,
    /// Where the file was.
    pub original: PathBuf,
    /// The identity of the original: device and inode.
    pub place: (u64, u64),
    /// The pieces of the file, in order.
    pub(super) pieces: Vec<CopiedPiece>,
    /// The sizes of the file at given times, in order.
    pub marks: Vec<SizeMark>,
}

/// The size of a file at the time of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SizeMark {
    /// The time of the look, in milliseconds since 1970.
    pub at_ms: u64,
    /// The turn that had just ended; absent if the look was not at the end of a turn of this session.
    pub turn: Option<u64>,
    /// The size of the file, in bytes.
    pub size: u64,
    /// Files of one conversation that were looked at together have the same number, and later ones a greater one: a
    /// clock may be set back. 0 in those that were made before there were such numbers.
    #[serde(default)]
    pub order: u64,
}

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct CopiedPiece {
    #[serde(with = "hex")]
    pub(super) hash: [u8; 32],
    pub(super) size: u64,
}

pub(super) fn is_of_format(copy: &TranscriptCopy) -> bool {
    copy.format == FORMAT
}

impl TranscriptCopy {
    pub(super) fn new(number: u64, source: &CopySource<'_>, place: (u64, u64)) -> Self {
        Self {
            format: FORMAT,
            number,
            kind: source.kind.to_owned(),
            id: source.id.to_owned(),
            session: source.session.to_owned(),
            name: source.name.to_owned(),
            original: source.path.to_owned(),
            place,
            pieces: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// The number of bytes that were copied.
    pub fn size(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.size).sum()
    }

    /// True if a file is the original of this copy, and has only grown since.
    pub(super) fn grew_into(
        &self,
        file: &File,
        place: (u64, u64),
        size: u64,
        look: CopyCheck,
    ) -> io::Result<bool> {
        if self.size() > size || (look == CopyCheck::AtItsEnd && self.place != place) {
            return Ok(false);
        }
        let mut buffer = vec![0; PIECE_BYTES as usize];
        let mut end = self.size();
        // From the end: changes are most often there.
        for piece in self.pieces.iter().rev() {
            let bytes = &mut buffer[..piece.size as usize];
            end -= piece.size;
            file.read_exact_at(bytes, end)?;
            if <[u8; 32]>::from(Sha256::digest(&*bytes)) != piece.hash {
                return Ok(false);
            }
            if look == CopyCheck::AtItsEnd {
                break;
            }
        }
        Ok(true)
    }

    /// Adds the size of the file at a time.
    pub(super) fn mark(&mut self, mark: SizeMark, most: usize) {
        self.marks.push(mark);
        if self.marks.len() > most {
            let (half, mut index) = (most / 2, 0);
            self.marks.retain(|_| {
                index += 1;
                index > half || index % 2 == 0
            });
        }
    }
}

/// A hash in hexadecimal digits.
pub(super) mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn of(hash: &[u8; 32]) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&of(hash))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || serde::de::Error::custom("a hash has 64 hexadecimal digits");
        let digits: Vec<u32> =
            text.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>().ok_or_else(wrong)?;
        let bytes: Vec<u8> =
            digits.chunks(2).map(|two| two.iter().fold(0, |sum, digit| sum << 4 | *digit as u8)).collect();
        bytes.try_into().map_err(|_| wrong())
    }
}
