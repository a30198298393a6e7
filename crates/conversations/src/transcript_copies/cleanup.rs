//! Keeping the copies within a limit.
//!
//! Promise: a copy is removed only if its content is elsewhere: in a later copy, or in the original, as proven by
//! comparing all of it. Content that is nowhere else stays, however large. If anything that says what is needed
//! cannot be read, nothing is removed.
//! Start with [`TranscriptCopies::tidy`].

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use berth_host::disk::write_atomically;
use schemars::JsonSchema;
use serde::Serialize;

use super::copy::{TranscriptCopy, hex};
use super::{CopyCheck, PIECE_BYTES, TranscriptCopies, entries};

/// The file whose presence stops further copying.
const FULL: &str = "full";

/// The largest size of all copies together, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyLimit(pub u64);

/// Result of limiting the copies: what was removed, and what is left.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "TidiedHistory")]
pub struct CopyCleanup {
    /// Copies that were removed because of the limit, by the conversation's kind and id.
    pub dropped: Vec<(String, String)>,
    /// Number of bytes that were freed.
    pub freed: u64,
    /// Number of bytes that are left.
    pub bytes: u64,
    /// True if the copies are larger than the limit and none of them may be removed: copying stops.
    pub full: bool,
}

impl TranscriptCopies {
    /// Removes pieces that no copy names, and copies beyond the limit: first those whose content a later copy of
    /// the file has, then those whose content the original still has; the oldest first. `None` if another process
    /// copies just now.
    pub fn tidy(&self, limit: CopyLimit) -> io::Result<Option<CopyCleanup>> {
        if !self.root.try_exists()? {
            return Ok(Some(CopyCleanup::default()));
        }
        let Some(_alone) = self.lock()?.alone()? else { return Ok(None) };
        let copies = self.all()?;
        // The number of copies that name a piece, and the size of the piece on disk.
        let mut uses: HashMap<String, (u64, Option<u64>)> = HashMap::new();
        for piece in copies.iter().flat_map(|copy| &copy.pieces) {
            uses.entry(hex::of(&piece.hash)).or_default().0 += 1;
        }
        let (mut strays, mut tidied): (Vec<(PathBuf, u64)>, CopyCleanup) = Default::default();
        self.pieces.each(|path, name, size| match uses.get_mut(name) {
            Some((_, on_disk)) => {
                *on_disk = Some(size);
                tidied.bytes += size;
            }
            None => strays.push((path.to_owned(), size)),
        })?;
        self.stray_descriptions(&mut strays)?;
        let mut doomed = doomed(&copies);
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        while tidied.bytes > limit.0
            && let Some(at) = doomed.pop()
        {
            let copy = &copies[at];
            let mut stay =
                copies.iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, copy)| copy);
            if !stay.any(|other| self.is_within(copy, other)) && !copy.is_within_original() {
                continue;
            }
            self.remove(copy)?;
            gone.insert(at);
            tidied.dropped.push((copy.kind.clone(), copy.id.clone()));
            for piece in &copy.pieces {
                let name = hex::of(&piece.hash);
                let Some((count, on_disk)) = uses.get_mut(&name) else { continue };
                *count = count.saturating_sub(1);
                if *count == 0
                    && let Some(size) = on_disk.take()
                {
                    tidied.bytes = tidied.bytes.saturating_sub(size);
                    strays.push((self.root.join("pieces").join(&name[..2]).join(&name), size));
                }
            }
        }
        for (path, size) in strays {
            fs::remove_file(path)?;
            tidied.freed += size;
        }
        tidied.full = tidied.bytes > limit.0;
        if tidied.full {
            let why = format!("{} bytes of history are kept, the limit is {}", tidied.bytes, limit.0);
            write_atomically(&self.root, FULL, why.as_bytes(), false)?;
        } else if let Err(error) = fs::remove_file(self.root.join(FULL))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        Ok(Some(tidied))
    }

    /// The reason why copying has stopped, if it has.
    pub fn full(&self) -> Option<String> {
        fs::read_to_string(self.root.join(FULL)).ok()
    }

    /// Finds files left by a process that was killed while it described a copy, or wrote the file [`FULL`].
    fn stray_descriptions(&self, strays: &mut Vec<(PathBuf, u64)>) -> io::Result<()> {
        let mut look_at = |path: PathBuf| -> io::Result<()> {
            if path.extension().is_some_and(|end| end == "tmp") {
                let size = fs::metadata(&path)?.len();
                strays.push((path, size));
            }
            Ok(())
        };
        entries(&self.root)?.into_iter().try_for_each(&mut look_at)?;
        for kind in entries(&self.root.join("of"))? {
            for conversation in entries(&kind)? {
                entries(&conversation)?.into_iter().try_for_each(&mut look_at)?;
            }
        }
        Ok(())
    }
}

impl TranscriptCopies {
    /// True if the whole content of a copy is the beginning of a later copy of the file. A piece that cannot be read
    /// counts as missing.
    fn is_within(&self, copy: &TranscriptCopy, later: &TranscriptCopy) -> bool {
        if !copy.is_replaced_by(later) || copy.size() > later.size() {
            return false;
        }
        // As far as it reaches, every copy has equal full pieces; the rest behind them may be cut differently.
        let full = copy.pieces.iter().take_while(|piece| piece.size == PIECE_BYTES).count();
        if later.pieces.get(..full) != copy.pieces.get(..full) {
            return false;
        }
        let rest = |of: &TranscriptCopy| -> io::Result<Vec<u8>> {
            let wanted = (copy.size() - full as u64 * PIECE_BYTES) as usize;
            let mut bytes = Vec::new();
            for piece in of.pieces.iter().skip(full) {
                if bytes.len() < wanted {
                    bytes.extend(self.pieces.get(&piece.hash)?);
                }
            }
            bytes.truncate(wanted);
            Ok(bytes)
        };
        matches!((rest(copy), rest(later)), (Ok(one), Ok(other)) if one == other)
    }
}

/// The copies that may be removed, by their index in the list, the first to be removed last.
fn doomed(copies: &[TranscriptCopy]) -> Vec<usize> {
    let mut last: HashMap<(&str, &str, &str), u64> = HashMap::new();
    for copy in copies {
        let number = last.entry((&copy.kind, &copy.id, &copy.name)).or_default();
        *number = copy.number.max(*number);
    }
    let is_replaced = |copy: &TranscriptCopy| {
        last.get(&(&*copy.kind, &*copy.id, &*copy.name)).is_some_and(|last| copy.number < *last)
    };
    let when = |copy: &TranscriptCopy| copy.marks.last().map_or(0, |mark| mark.at_ms);
    let mut doomed: Vec<usize> = (0..copies.len())
        .filter(|at| is_replaced(&copies[*at]) || copies[*at].original_is_as_large())
        .collect();
    doomed.sort_by_key(|at| (is_replaced(&copies[*at]), std::cmp::Reverse(when(&copies[*at]))));
    doomed
}

impl TranscriptCopy {
    fn is_replaced_by(&self, other: &Self) -> bool {
        (&self.kind, &self.id, &self.name) == (&other.kind, &other.id, &other.name)
            && self.number < other.number
    }

    /// The cheap check: the original exists, and is at least as large.
    fn original_is_as_large(&self) -> bool {
        fs::metadata(&self.original).is_ok_and(|found| found.is_file() && found.size() >= self.size())
    }

    /// True if the original still has everything that was copied, by comparing all of it.
    fn is_within_original(&self) -> bool {
        let Ok(file) = berth_transcript::open_transcript(&self.original) else { return false };
        let Ok(found) = file.metadata() else { return false };
        let place = (found.dev(), found.ino());
        self.grew_into(&file, place, found.len(), CopyCheck::Whole).unwrap_or(false)
    }
}
