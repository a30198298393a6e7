//! Copies of agents' own transcripts, so that an agent's clean-up or a damaged file is not the end.
//!
//! A transcript grows by appending. So a [`TranscriptCopy`] has the pieces of the file, by the hash of what is in each, and a
//! [`SizeMark`] for each look at the file: its size at that time. Pieces are shared by all copies. A file that did not
//! just grow (it was cut, replaced or changed in the middle) gets another copy, beside the first.
//! Promise: originals are only read. A copy never names a piece that is not on disk; a process killed at any instant
//! leaves at most pieces that no copy names, which [`TranscriptCopies::tidy`] removes. Reading a copy returns exactly the
//! copied bytes, by their hash, or an error.
//! Not here: the places of agents' files (`berth_transcript`), the times of copying (see the keeper's
//! `transcript_copier`),
//! putting a copy back (`verbs::history`).
//! Start with [`TranscriptCopies::begin`].

mod cleanup;
mod copy;
mod pieces;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_host::disk::write_atomically;
use berth_store::conversation_locks::conversation_file_name;
use berth_store::killpoint;
use sha2::{Digest, Sha256};

pub use cleanup::{CopyCleanup, CopyLimit};
pub use copy::{SizeMark, TranscriptCopy};

use copy::{CopiedPiece, is_of_format};
use pieces::PieceStore;

/// The directory of all copies, in the state directory.
const DIR: &str = "history";
/// The size of a full piece. Two files with an equal beginning share all full pieces of it.
const PIECE_BYTES: u64 = 256 << 10;
/// The number of pieces at the end of a copy that may be short before they are merged into one.
const MOST_SHORT_PIECES: usize = 32;
/// The number of marks of a copy. Beyond that every second one of the older half is dropped.
const MOST_MARKS: usize = 512;
/// The largest description of a copy that is read, in bytes: that of a file of 100 GB.
const MAX_COPY_BYTES: u64 = 64 << 20;
/// The time that a deletion of copies waits for processes that make some.
pub const FORGET_PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two attempts.
const FORGET_PAUSE: Duration = Duration::from_millis(10);
/// The largest file that is copied, in bytes.
const MAX_FILE_BYTES: u64 = 8 << 30;

/// All copies of a state directory.
#[derive(Clone, Debug)]
pub struct TranscriptCopies {
    root: PathBuf,
    pieces: PieceStore,
}

/// A file to copy.
#[derive(Clone, Copy, Debug)]
pub struct CopySource<'a> {
    /// The kind of its conversation.
    pub kind: &'a str,
    /// The conversation's id.
    pub id: &'a str,
    /// The session that it is copied for.
    pub session: &'a str,
    /// The path of the file relative to the transcript; empty for the transcript itself.
    pub name: &'a str,
    /// The path of the file.
    pub path: &'a Path,
}

/// The thoroughness of a look at a file that was copied before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyCheck {
    /// Check only that the file still has the last copied piece, and has grown.
    AtItsEnd,
    /// Compare the whole file.
    Whole,
}

/// The result of a request for a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyResult {
    /// The size of the file, in bytes.
    pub size: u64,
    /// The bytes that were added to the pieces.
    pub added: u64,
}

impl TranscriptCopies {
    /// The copies of the state directory `home`.
    pub fn of(home: &Path) -> Self {
        let root = home.join(DIR);
        Self { pieces: PieceStore::at(root.join("pieces")), root }
    }

    fn dir_of(&self, kind: &str, id: &str) -> PathBuf {
        self.root.join("of").join(conversation_file_name(kind)).join(conversation_file_name(id))
    }

    /// Copies the part of a file that is not copied yet, and marks its size.
    pub fn take(
        &self,
        source: &CopySource<'_>,
        mark: (u64, Option<u64>),
        look: CopyCheck,
    ) -> io::Result<CopyResult> {
        self.begin(source.kind, source.id)?.take(source, mark, look)
    }

    /// Begins to copy the files of one conversation, as they are at one time.
    pub fn begin(&self, kind: &str, id: &str) -> io::Result<CopyOperation<'_>> {
        // A process that tidies removes unnamed pieces and empty directories, so none may run while a copy is made.
        let nobody_tidies = self.lock()?.shared()?;
        let dir = self.dir_of(kind, id);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        // Two processes that copy one conversation (a run, and an import) would each overwrite the other's description.
        let nobody_else = CopyLock(File::open(&dir)?);
        nobody_else.0.lock()?;
        let before = self.list(kind, id)?;
        let order = before.iter().flat_map(|copy| &copy.marks).map(|mark| mark.order).max().unwrap_or(0) + 1;
        Ok(CopyOperation {
            copies: self,
            before,
            order,
            _nobody_else: nobody_else,
            _nobody_tidies: nobody_tidies,
        })
    }

    /// Makes pieces of the bytes behind the end of the copy.
    fn append(&self, copy: &mut TranscriptCopy, file: &File, size: u64) -> io::Result<u64> {
        let mut end = copy.size();
        if end == size {
            return Ok(0);
        }
        let full = copy.pieces.iter().take_while(|piece| piece.size == PIECE_BYTES).count();
        let begin_of_short = full as u64 * PIECE_BYTES;
        // Short pieces at the end are merged with the following bytes as soon as these fill a piece, or there are many.
        let mut known = Vec::new();
        if size - begin_of_short >= PIECE_BYTES || copy.pieces.len() - full >= MOST_SHORT_PIECES {
            // Read from the copy: the file may have been damaged there since, and was not compared.
            known = self.joined(&copy.pieces[full..]).unwrap_or_default();
            copy.pieces.truncate(full);
            end = begin_of_short;
        }
        let (mut buffer, mut added) = (vec![0; PIECE_BYTES as usize], 0);
        while end < size {
            let want = (size - end).min(PIECE_BYTES) as usize;
            let bytes = &mut buffer[..want];
            let (again, more) = bytes.split_at_mut(known.len().min(want));
            again.copy_from_slice(&known[..again.len()]);
            known.drain(..again.len());
            file.read_exact_at(more, end + again.len() as u64)?;
            let hash: [u8; 32] = Sha256::digest(&*bytes).into();
            added += self.pieces.put(&hash, bytes)?;
            copy.pieces.push(CopiedPiece { hash, size: want as u64 });
            end += want as u64;
        }
        Ok(added)
    }

    /// The joined content of some pieces.
    fn joined(&self, pieces: &[CopiedPiece]) -> io::Result<Vec<u8>> {
        pieces.iter().try_fold(Vec::new(), |bytes, piece| Ok([bytes, self.pieces.get(&piece.hash)?].concat()))
    }

    /// The copies of a conversation's files, the oldest first. A copy that cannot be read is an error: the pieces it
    /// names must not be lost.
    pub fn list(&self, kind: &str, id: &str) -> io::Result<Vec<TranscriptCopy>> {
        read_dir(&self.dir_of(kind, id))
    }

    /// Writes the content of a file at the time when it had `size` bytes. Every piece is compared with its hash.
    pub fn write(&self, copy: &TranscriptCopy, size: u64, to: &mut impl Write) -> io::Result<()> {
        let mut left = size;
        for piece in &copy.pieces {
            if left == 0 {
                break;
            }
            let bytes = self.pieces.get(&piece.hash)?;
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            to.write_all(&bytes[..part])?;
            left -= part as u64;
        }
        if left > 0 { Err(io::Error::other(format!("{left} bytes of it were never copied"))) } else { Ok(()) }
    }

    /// Removes the copies of a session. A copy that another session shares passes to that one: `heir` returns it, by
    /// the conversation's kind and id. The pieces are removed by the next tidy.
    pub fn forget(
        &self,
        session: &str,
        patience: Duration,
        mut heir: impl FnMut(&str, &str) -> Option<String>,
    ) -> io::Result<u64> {
        if !self.root.try_exists()? {
            return Ok(0);
        }
        let _nobody_else = self.lock()?.alone_within(patience)?;
        let mut bytes = 0;
        for copy in self.each()? {
            // The owner of an unreadable copy is unknown: the copy stays, and does no harm.
            let mut copy = match copy {
                Ok(copy) if copy.session == session => copy,
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, session, "an unreadable copy is kept: it may belong to the session");
                    continue;
                }
            };
            if let Some(heir) = heir(&copy.kind, &copy.id) {
                copy.session = heir;
                self.describe(&copy)?;
                continue;
            }
            bytes += copy.size();
            self.remove(&copy)?;
        }
        Ok(bytes)
    }

    fn describe(&self, copy: &TranscriptCopy) -> io::Result<()> {
        let json = serde_json::to_vec(copy).map_err(io::Error::other)?;
        let dir = self.dir_of(&copy.kind, &copy.id);
        write_atomically(&dir, &format!("{:08}.json", copy.number), &json, true)
    }

    fn remove(&self, copy: &TranscriptCopy) -> io::Result<()> {
        let dir = self.dir_of(&copy.kind, &copy.id);
        fs::remove_file(dir.join(format!("{:08}.json", copy.number)))?;
        // The directory stays if it has another copy.
        let _ = fs::remove_dir(&dir);
        Ok(())
    }

    /// All copies of the state directory.
    pub fn all(&self) -> io::Result<Vec<TranscriptCopy>> {
        self.each()?.into_iter().collect()
    }

    /// All copies, with an error for each one that cannot be read.
    fn each(&self) -> io::Result<Vec<io::Result<TranscriptCopy>>> {
        let mut all = Vec::new();
        for kind in entries(&self.root.join("of"))? {
            for conversation in entries(&kind)? {
                all.extend(described(&conversation)?.iter().map(|path| read(path)));
            }
        }
        Ok(all)
    }

    fn lock(&self) -> io::Result<CopyLock> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        let mut options = File::options();
        let options = std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.read(true).write(true).create(true).truncate(false).open(self.root.join("lock")).map(CopyLock)
    }
}

/// The lock for copying: many processes copy at a time, or one tidies; one process copies a conversation.
/// Released on drop.
#[derive(Debug)]
struct CopyLock(File);

impl CopyLock {
    fn shared(self) -> io::Result<Self> {
        self.0.lock_shared()?;
        Ok(self)
    }

    /// `None` if another process copies.
    fn alone(self) -> io::Result<Option<Self>> {
        Ok(if self.is_alone()? { Some(self) } else { None })
    }

    fn alone_within(self, patience: Duration) -> io::Result<Self> {
        let begun = Instant::now();
        while !self.is_alone()? {
            if begun.elapsed() > patience {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process is making copies"));
            }
            std::thread::sleep(FORGET_PAUSE);
        }
        Ok(self)
    }

    fn is_alone(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// A copying of one conversation's files in progress.
#[derive(Debug)]
pub struct CopyOperation<'a> {
    copies: &'a TranscriptCopies,
    /// The copies from before.
    before: Vec<TranscriptCopy>,
    order: u64,
    /// Released first.
    _nobody_else: CopyLock,
    _nobody_tidies: CopyLock,
}

impl CopyOperation<'_> {
    /// Copies the part of a file that is not copied yet, and marks its size.
    pub fn take(
        &mut self,
        source: &CopySource<'_>,
        mark: (u64, Option<u64>),
        look: CopyCheck,
    ) -> io::Result<CopyResult> {
        let file = berth_transcript::open_transcript(source.path).map_err(io::Error::other)?;
        let found = file.metadata()?;
        let (place, size) = ((found.dev(), found.ino()), found.len());
        if size > MAX_FILE_BYTES {
            return Err(io::Error::other(format!(
                "the file has {size} bytes, and at most {MAX_FILE_BYTES} are copied"
            )));
        }
        // Two accounts may have conversations with equal ids: then there are two files of one name.
        let is_of_file = |copy: &TranscriptCopy| {
            copy.name == source.name && (copy.original == source.path || copy.place == place)
        };
        let last = self.before.iter().rposition(is_of_file);
        let is_there = |copy: &TranscriptCopy| copy.original == source.path && copy.place == place;
        // There may be hundreds of files beside a transcript, most of which are not written any more.
        if let Some(last) = last.map(|at| &self.before[at])
            && !source.name.is_empty()
            && look == CopyCheck::AtItsEnd
            && is_there(last)
            && last.size() == size
        {
            return Ok(CopyResult { size, added: 0 });
        }
        let next = self.before.iter().map(|copy| copy.number).max().unwrap_or(0) + 1;
        let (at, mut copy) = match last {
            Some(at) if self.before[at].grew_into(&file, place, size, look)? => (at, self.before[at].clone()),
            _ => (self.before.len(), TranscriptCopy::new(next, source, place)),
        };
        let is_told = |last: &SizeMark| {
            let is_of_turn = mark.1.is_none() || last.turn == mark.1;
            last.size == size && (is_of_turn || !source.name.is_empty())
        };
        if is_there(&copy) && copy.marks.last().is_some_and(is_told) {
            return Ok(CopyResult { size, added: 0 });
        }
        // The file may have been moved, or put back.
        (copy.original, copy.place) = (source.path.to_owned(), place);
        let added = self.copies.append(&mut copy, &file, size)?;
        killpoint::reached("copied-pieces");
        copy.session = source.session.to_owned();
        // The end of a turn may be noticed before the turn is reported: that is one point, not two.
        if copy.marks.last().is_some_and(|last| last.size == size && last.turn.is_none()) {
            copy.marks.pop();
        }
        copy.mark(SizeMark { at_ms: mark.0, turn: mark.1, size, order: self.order }, MOST_MARKS);
        self.copies.describe(&copy)?;
        if at < self.before.len() {
            self.before[at] = copy;
        } else {
            self.before.push(copy);
        }
        Ok(CopyResult { size, added })
    }
}

/// Reads the copies that are described in a directory, in their order.
fn read_dir(dir: &Path) -> io::Result<Vec<TranscriptCopy>> {
    let mut copies: Vec<TranscriptCopy> =
        described(dir)?.iter().map(|path| read(path)).collect::<io::Result<_>>()?;
    copies.sort_by_key(|copy| copy.number);
    Ok(copies)
}

fn described(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let is_json = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    Ok(entries(dir)?.into_iter().filter(is_json).collect())
}

fn read(path: &Path) -> io::Result<TranscriptCopy> {
    let damaged = |why: String| io::Error::other(format!("{} cannot be read: {why}", path.display()));
    if fs::metadata(path)?.len() > MAX_COPY_BYTES {
        return Err(damaged("it is too large".to_owned()));
    }
    let copy: TranscriptCopy =
        serde_json::from_slice(&fs::read(path)?).map_err(|error| damaged(error.to_string()))?;
    if !is_of_format(&copy) {
        return Err(damaged(format!("it is of format {}, made by a newer berth", copy.format)));
    }
    if copy.pieces.iter().any(|piece| !(1..=PIECE_BYTES).contains(&piece.size)) {
        return Err(damaged("it names a piece of a size that none has".to_owned()));
    }
    Ok(copy)
}

/// The entries of a directory, in order; none if it does not exist.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let listed = match fs::read_dir(dir) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = listed.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
