//! Copies of agents' own transcripts, so that an agent's clean-up or a damaged file is not the end.
//!
//! A transcript grows by appending. So a [`struct@Copy`] has the pieces of the file, by the hash of what is in each, and a
//! [`Mark`] for each time somebody looked: how far the file reached then. Pieces are shared by all copies. A file that
//! did not just grow (it was cut, replaced or changed in the middle) is another copy, beside the first.
//! Promise: originals are only read. A copy never names a piece that is not on disk; whoever is killed at any instant
//! leaves at most pieces that nobody names, which [`Copies::tidy`] takes away. What is read back is what was copied, by
//! its hash, or an error.
//! Not here: where agents keep their files (`berth_transcript`), when copies are made (see `keeper/copying`), putting
//! one back (`verbs::history`).
//! Start with [`Copies::begin`].

mod copy;
mod pieces;
#[cfg(test)]
mod tests;
mod tidy;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_host::disk::write_atomically;
use berth_store::conversations::file_name;
use berth_store::killpoint;
use sha2::{Digest, Sha256};

pub use copy::{Copy, Mark};
pub use tidy::{Limit, Tidied};

use copy::{Piece, is_of_format};
use pieces::Pieces;

/// The directory of all copies, in the state directory.
const DIR: &str = "history";
/// A piece that is full. Two files with the same beginning share all full pieces of it.
const PIECE_BYTES: u64 = 256 << 10;
/// How many pieces that are not full a copy may have at its end before they are made one.
const MOST_SHORT_PIECES: usize = 32;
/// How many marks a copy keeps. Beyond that every second one of the older half goes.
const MOST_MARKS: usize = 512;
/// The largest description of a copy that is read: that of a file of 100 GB.
const MAX_COPY_BYTES: u64 = 64 << 20;
/// How long somebody who deletes copies waits for those who make some.
pub(crate) const FORGET_PATIENCE: Duration = Duration::from_secs(30);
/// How often they look.
const FORGET_PAUSE: Duration = Duration::from_millis(10);
/// The largest file that is copied.
const MAX_FILE_BYTES: u64 = 8 << 30;

/// All copies of a state directory.
#[derive(Clone, Debug)]
pub struct Copies {
    root: PathBuf,
    pieces: Pieces,
}

/// A file to be copied.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Which kind of conversation it is of.
    pub kind: &'a str,
    /// The conversation's id.
    pub id: &'a str,
    /// The session it was copied for.
    pub session: &'a str,
    /// What it is in the conversation: empty for the transcript itself, else its place beside that.
    pub name: &'a str,
    /// Where it is.
    pub path: &'a Path,
}

/// How closely a file is looked at that was copied before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// That it still has the last piece that was copied, and has grown.
    AtItsEnd,
    /// All of it.
    Whole,
}

/// What came of a wish for a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// How large the file is.
    pub size: u64,
    /// How many bytes were added to the pieces.
    pub added: u64,
}

impl Copies {
    /// Those of the state directory `home`.
    pub fn of(home: &Path) -> Self {
        let root = home.join(DIR);
        Self { pieces: Pieces::at(root.join("pieces")), root }
    }

    fn dir_of(&self, kind: &str, id: &str) -> PathBuf {
        self.root.join("of").join(file_name(kind)).join(file_name(id))
    }

    /// Copies what of a file is not copied yet, and marks how far it reaches.
    pub fn take(&self, source: &Source<'_>, mark: (u64, Option<u64>), look: Look) -> io::Result<Taken> {
        self.begin(source.kind, source.id)?.take(source, mark, look)
    }

    /// Begins to copy the files of one conversation, as they are at one time.
    pub fn begin(&self, kind: &str, id: &str) -> io::Result<Taking<'_>> {
        // Whoever tidies up takes away what no copy names, and empty directories: not while one is being made.
        let nobody_tidies = self.lock()?.shared()?;
        let dir = self.dir_of(kind, id);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        // Two who copy one conversation (a run, and somebody who imports it) would each describe what they know of it.
        let nobody_else = Lock(File::open(&dir)?);
        nobody_else.0.lock()?;
        let before = self.list(kind, id)?;
        let order = before.iter().flat_map(|copy| &copy.marks).map(|mark| mark.order).max().unwrap_or(0) + 1;
        Ok(Taking { copies: self, before, order, _nobody_else: nobody_else, _nobody_tidies: nobody_tidies })
    }

    /// Makes pieces of what is behind the end of the copy.
    fn append(&self, copy: &mut Copy, file: &File, size: u64) -> io::Result<u64> {
        let mut end = copy.size();
        if end == size {
            return Ok(0);
        }
        let full = copy.pieces.iter().take_while(|piece| piece.size == PIECE_BYTES).count();
        let begin_of_short = full as u64 * PIECE_BYTES;
        // What is short at the end becomes one with what follows as soon as it is enough for a full piece, or is much.
        let mut known = Vec::new();
        if size - begin_of_short >= PIECE_BYTES || copy.pieces.len() - full >= MOST_SHORT_PIECES {
            // From what was copied: the file may have been damaged there since, and nobody has looked.
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
            copy.pieces.push(Piece { hash, size: want as u64 });
            end += want as u64;
        }
        Ok(added)
    }

    /// What is in some pieces.
    fn joined(&self, pieces: &[Piece]) -> io::Result<Vec<u8>> {
        pieces.iter().try_fold(Vec::new(), |bytes, piece| Ok([bytes, self.pieces.get(&piece.hash)?].concat()))
    }

    /// The copies of a conversation's files, the oldest first. One that cannot be read is an error: what it names
    /// is not to be lost.
    pub fn list(&self, kind: &str, id: &str) -> io::Result<Vec<Copy>> {
        read_dir(&self.dir_of(kind, id))
    }

    /// Writes what a file had when it had `size` bytes. Every piece is compared with its hash.
    pub fn write(&self, copy: &Copy, size: u64, to: &mut impl Write) -> io::Result<()> {
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

    /// Takes away what was copied for a session. What another session has, too, is that one's from then on: `heir` says
    /// which, by the conversation's kind and id. The pieces go when somebody tidies up.
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
            // Whose one is that cannot be read nobody can tell: it stays, and is in nobody's way.
            let mut copy = match copy {
                Ok(copy) if copy.session == session => copy,
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, session, "a copy that may be of it is left");
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

    fn describe(&self, copy: &Copy) -> io::Result<()> {
        let json = serde_json::to_vec(copy).map_err(io::Error::other)?;
        let dir = self.dir_of(&copy.kind, &copy.id);
        write_atomically(&dir, &format!("{:08}.json", copy.number), &json, true)
    }

    fn remove(&self, copy: &Copy) -> io::Result<()> {
        let dir = self.dir_of(&copy.kind, &copy.id);
        fs::remove_file(dir.join(format!("{:08}.json", copy.number)))?;
        // Stays if there is another one in it.
        let _ = fs::remove_dir(&dir);
        Ok(())
    }

    /// All copies there are.
    pub fn all(&self) -> io::Result<Vec<Copy>> {
        self.each()?.into_iter().collect()
    }

    /// The same, and which of them cannot be read.
    fn each(&self) -> io::Result<Vec<io::Result<Copy>>> {
        let mut all = Vec::new();
        for kind in entries(&self.root.join("of"))? {
            for conversation in entries(&kind)? {
                all.extend(described(&conversation)?.iter().map(|path| read(path)));
            }
        }
        Ok(all)
    }

    fn lock(&self) -> io::Result<Lock> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        let mut options = File::options();
        let options = std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.read(true).write(true).create(true).truncate(false).open(self.root.join("lock")).map(Lock)
    }
}

/// Many who copy, or one who tidies up; of one conversation, one who copies. Given back on drop.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    fn shared(self) -> io::Result<Self> {
        self.0.lock_shared()?;
        Ok(self)
    }

    /// `None` if somebody copies.
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

/// Copies being made of one conversation's files.
#[derive(Debug)]
pub struct Taking<'a> {
    copies: &'a Copies,
    /// What there is.
    before: Vec<Copy>,
    order: u64,
    /// Given back first.
    _nobody_else: Lock,
    _nobody_tidies: Lock,
}

impl Taking<'_> {
    /// Copies what of a file is not copied yet, and marks how far it reaches.
    pub fn take(&mut self, source: &Source<'_>, mark: (u64, Option<u64>), look: Look) -> io::Result<Taken> {
        let file = berth_transcript::open(source.path).map_err(io::Error::other)?;
        let found = file.metadata()?;
        let (place, size) = ((found.dev(), found.ino()), found.len());
        if size > MAX_FILE_BYTES {
            return Err(io::Error::other(format!(
                "it has {size} bytes, and at most {MAX_FILE_BYTES} are copied"
            )));
        }
        // Two accounts may have conversations of one id: then there are two files of one name.
        let is_of_file =
            |copy: &Copy| copy.name == source.name && (copy.original == source.path || copy.place == place);
        let last = self.before.iter().rposition(is_of_file);
        let is_there = |copy: &Copy| copy.original == source.path && copy.place == place;
        // There may be hundreds beside a transcript, most of which nobody writes any more.
        if let Some(last) = last.map(|at| &self.before[at])
            && !source.name.is_empty()
            && look == Look::AtItsEnd
            && is_there(last)
            && last.size() == size
        {
            return Ok(Taken { size, added: 0 });
        }
        let next = self.before.iter().map(|copy| copy.number).max().unwrap_or(0) + 1;
        let (at, mut copy) = match last {
            Some(at) if self.before[at].grew_into(&file, place, size, look)? => (at, self.before[at].clone()),
            _ => (self.before.len(), Copy::new(next, source, place)),
        };
        let is_told = |last: &Mark| {
            let is_of_turn = mark.1.is_none() || last.turn == mark.1;
            last.size == size && (is_of_turn || !source.name.is_empty())
        };
        if is_there(&copy) && copy.marks.last().is_some_and(is_told) {
            return Ok(Taken { size, added: 0 });
        }
        // It may have been moved, or put back.
        (copy.original, copy.place) = (source.path.to_owned(), place);
        let added = self.copies.append(&mut copy, &file, size)?;
        killpoint::reached("copied-pieces");
        copy.session = source.session.to_owned();
        // The edge of a turn may be told before the turn is: that is one point, not two.
        if copy.marks.last().is_some_and(|last| last.size == size && last.turn.is_none()) {
            copy.marks.pop();
        }
        copy.mark(Mark { at_ms: mark.0, turn: mark.1, size, order: self.order }, MOST_MARKS);
        self.copies.describe(&copy)?;
        if at < self.before.len() {
            self.before[at] = copy;
        } else {
            self.before.push(copy);
        }
        Ok(Taken { size, added })
    }
}

/// The copies that are described in a directory, in their order.
fn read_dir(dir: &Path) -> io::Result<Vec<Copy>> {
    let mut copies: Vec<Copy> = described(dir)?.iter().map(|path| read(path)).collect::<io::Result<_>>()?;
    copies.sort_by_key(|copy| copy.number);
    Ok(copies)
}

fn described(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let is_json = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    Ok(entries(dir)?.into_iter().filter(is_json).collect())
}

fn read(path: &Path) -> io::Result<Copy> {
    let damaged = |why: String| io::Error::other(format!("{} cannot be read: {why}", path.display()));
    if fs::metadata(path)?.len() > MAX_COPY_BYTES {
        return Err(damaged("it is too large".to_owned()));
    }
    let copy: Copy = serde_json::from_slice(&fs::read(path)?).map_err(|error| damaged(error.to_string()))?;
    if !is_of_format(&copy) {
        return Err(damaged(format!("it is of format {}, made by a newer berth", copy.format)));
    }
    if copy.pieces.iter().any(|piece| !(1..=PIECE_BYTES).contains(&piece.size)) {
        return Err(damaged("it names a piece of a size that none has".to_owned()));
    }
    Ok(copy)
}

/// What is in a directory, in order; nothing if there is none.
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
