//! One file's copy: what it is of, its pieces, and how far the file reached at which time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Look, PIECE_BYTES, Source};

/// The format of a copy's description that is written and understood.
const FORMAT: u32 = 1;

/// A file as it was, as far as it only grew.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Copy {
    /// How this description is to be read.
    pub format: u32,
    /// Copies of a conversation are numbered, beginning with one.
    pub number: u64,
    /// The conversation's kind.
    pub kind: String,
    /// The conversation's id.
    pub id: String,
    /// The session it was last copied for.
    pub session: String,
    /// Empty for the transcript itself, else its place beside that.
    pub name: String,
    /// Where the file was.
    pub original: PathBuf,
    /// Which file that was: device and inode.
    pub place: (u64, u64),
    /// What is in it, in order.
    pub(super) pieces: Vec<Piece>,
    /// How far it reached at which time.
    pub marks: Vec<Mark>,
}

/// How far a file reached when it was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// After which turn; nothing if it was not the end of one that was given here.
    pub turn: Option<u64>,
    /// How far.
    pub size: u64,
    /// Files of one conversation that were looked at together have the same number, and later ones a greater one: a
    /// clock may be set back. 0 in those that were made before there were such numbers.
    #[serde(default)]
    pub order: u64,
}

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Piece {
    #[serde(with = "hex")]
    pub(super) hash: [u8; 32],
    pub(super) size: u64,
}

pub(super) fn is_of_format(copy: &Copy) -> bool {
    copy.format == FORMAT
}

impl Copy {
    pub(super) fn new(number: u64, source: &Source<'_>, place: (u64, u64)) -> Self {
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

    /// How many bytes were copied.
    pub fn size(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.size).sum()
    }

    /// Whether a file is this one, and has only grown since.
    pub(super) fn grew_into(
        &self,
        file: &File,
        place: (u64, u64),
        size: u64,
        look: Look,
    ) -> io::Result<bool> {
        if self.size() > size || (look == Look::AtItsEnd && self.place != place) {
            return Ok(false);
        }
        let mut buffer = vec![0; PIECE_BYTES as usize];
        let mut end = self.size();
        // From the end: what is different is most often there.
        for piece in self.pieces.iter().rev() {
            let bytes = &mut buffer[..piece.size as usize];
            end -= piece.size;
            file.read_exact_at(bytes, end)?;
            if <[u8; 32]>::from(Sha256::digest(&*bytes)) != piece.hash {
                return Ok(false);
            }
            if look == Look::AtItsEnd {
                break;
            }
        }
        Ok(true)
    }

    /// Remembers how far the file reaches.
    pub(super) fn mark(&mut self, mark: Mark, most: usize) {
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

/// A hash in words.
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
