//! Writing a copy: in rounds, each into a new file, and only the last gets the name.
//!
//! Promise: nothing with the name of the copy is there before it is whole and on disk; nothing else is left, whatever
//! goes wrong. Files that hold what was said are only for their owner.
//! Start with [`Work::begin`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::plan::Plan;
use crate::head::Head;
use crate::survey::{Numbers, Survey};
use crate::walk::{Flaw, MAX_HELD_BYTES, Seen, walk};

/// How many pieces a copy may be made of.
const MAX_PIECES: usize = 1 << 20;

/// The path of a file that belongs to another: `COPY.rest`.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// A piece of a copy.
#[derive(Debug)]
enum Piece {
    /// As it is in the original.
    Copy(Range<u64>),
    /// The same, with what is not UTF-8 replaced; not longer than is held.
    Lossy(Range<u64>),
    Put(Vec<u8>),
}

/// Files in the making; removed unless they were finished.
#[derive(Debug)]
pub(super) struct Work {
    now: PathBuf,
    next: PathBuf,
    rest: PathBuf,
    /// Whether `now` and `next` are ours: a file of that name that is somebody else's is left alone.
    is_now_made: bool,
    is_next_made: bool,
    rest_file: Option<File>,
}

impl Work {
    pub(super) fn begin(target: &Path) -> Result<Self, String> {
        if target.file_name().is_none() {
            return Err(format!("{} is not the name of a file", target.display()));
        }
        let path = |word: &str| beside(target, &format!("{word}.{}", std::process::id()));
        let (now, next, rest) = (path("making"), path("next"), path("aside"));
        Ok(Self { now, next, rest, is_now_made: false, is_next_made: false, rest_file: None })
    }

    /// What was made last.
    pub(super) fn current(&self) -> PathBuf {
        self.now.clone()
    }

    /// Makes what a plan says of a file.
    pub(super) fn round(&mut self, file: &File, survey: &Survey, plan: &Plan) -> Result<(), String> {
        let (pieces, rest) = pieces(file, survey, plan).map_err(|error| format!("cannot copy: {error}"))?;
        self.make_next(file, &pieces)?;
        if !rest.is_empty() {
            let out = match self.rest_file.take() {
                Some(out) => out,
                None => new_file(&self.rest)?,
            };
            let out = self.rest_file.insert(out);
            let wrong = |error: io::Error| format!("cannot write {}: {error}", self.rest.display());
            write(file, &rest, out).and_then(|()| out.sync_all()).map_err(wrong)?;
        }
        self.take_next()
    }

    fn make_next(&mut self, file: &File, pieces: &[Piece]) -> Result<(), String> {
        let out = new_file(&self.next)?;
        self.is_next_made = true;
        let written = write(file, pieces, &out).and_then(|()| out.sync_all());
        written.map_err(|error| format!("cannot write {}: {error}", self.next.display()))
    }

    fn take_next(&mut self) -> Result<(), String> {
        rename(&self.next, &self.now, self.is_now_made)?;
        (self.is_now_made, self.is_next_made) = (true, false);
        Ok(())
    }

    /// Gives all records another session, or only the first that has one; how many had another.
    pub(super) fn rename(&mut self, id: &str, only_first: bool) -> Result<u64, String> {
        let wrong = |error: io::Error| format!("cannot write {}: {error}", self.now.display());
        let file = OpenOptions::new().read(true).write(true).open(&self.now).map_err(wrong)?;
        let size = file.metadata().map_err(wrong)?.len();
        let quoted = serde_json::Value::from(id).to_string();
        let ours = crate::head::Id::of(id.as_bytes());
        let (mut count, mut seen_any) = (0, false);
        let mut failed = None;
        // Those of another length need another file.
        let (mut others, mut done) = (Pieces::default(), 0);
        walk(
            &file,
            size,
            |_, _| {},
            |_, seen| {
                let Seen::Record(head) = seen else { return };
                let is_meant = head.session.is_some() && !(only_first && seen_any);
                seen_any |= is_meant;
                if !is_meant || head.session == Some(ours) || failed.is_some() {
                    return;
                }
                let mut places = head.session_at.clone();
                places.sort_by_key(|at| at.start);
                for at in places.iter().filter(|at| !at.is_empty()) {
                    // Ids of agents have one length; another is none of theirs.
                    if at.end - at.start == quoted.len() as u64 {
                        failed = failed.take().or(file.write_all_at(quoted.as_bytes(), at.start).err());
                    } else {
                        others.copy(done..at.start);
                        others.put(quoted.as_bytes());
                        done = at.end;
                    }
                }
                count += 1;
            },
        )
        .map_err(wrong)?;
        failed.map_or_else(|| file.sync_all(), Err).map_err(wrong)?;
        if done > 0 {
            others.copy(done..size);
            let pieces = others.whole().map_err(wrong)?;
            self.make_next(&file, &pieces)?;
            self.take_next()?;
        }
        Ok(count)
    }

    /// Gives the copy its name, and what was set aside. Only the copy replaces anything, and only by `force`.
    pub(super) fn finish(
        &mut self,
        target: &Path,
        rest: &Path,
        force: bool,
    ) -> Result<Option<PathBuf>, String> {
        let has_rest = self.rest_file.is_some();
        if has_rest {
            rename(&self.rest, rest, false)?;
            self.rest_file = None;
        }
        rename(&self.now, target, force).inspect_err(|_| {
            if has_rest {
                let _ = fs::remove_file(rest);
            }
        })?;
        self.is_now_made = false;
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|error| format!("cannot sync {}: {error}", dir.display()))?;
        Ok(has_rest.then(|| rest.to_owned()))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let is_ours = [self.is_now_made, self.is_next_made, self.rest_file.is_some()];
        for (path, _) in [&self.now, &self.next, &self.rest].into_iter().zip(is_ours).filter(|(_, is)| *is) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Gives a file another name; what has it already is replaced only if that is said.
fn rename(from: &Path, to: &Path, replace: bool) -> Result<(), String> {
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    renameat_with(CWD, from, CWD, to, flags)
        .map_err(|error| format!("cannot make {}: {}", to.display(), io::Error::from(error)))
}

fn new_file(path: &Path) -> Result<File, String> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| format!("cannot make {}: {error}", path.display()))
}

fn write(source: &File, pieces: &[Piece], out: &File) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(256 << 10, source);
    let mut writer = BufWriter::with_capacity(256 << 10, out);
    for piece in pieces {
        match piece {
            Piece::Copy(range) => {
                reader.seek(SeekFrom::Start(range.start))?;
                let wanted = range.end - range.start;
                if io::copy(&mut (&mut reader).take(wanted), &mut writer)? != wanted {
                    return Err(io::Error::other("the file became shorter meanwhile"));
                }
            }
            Piece::Lossy(range) => {
                let mut bytes = vec![0; (range.end - range.start) as usize];
                source.read_exact_at(&mut bytes, range.start)?;
                writer.write_all(String::from_utf8_lossy(&bytes).as_bytes())?;
            }
            Piece::Put(bytes) => writer.write_all(bytes)?,
        }
    }
    writer.flush()
}

/// Collects pieces: what is copied from one place to the next in one go stays one.
#[derive(Default)]
struct Pieces {
    all: Vec<Piece>,
    is_full: bool,
}

impl Pieces {
    fn copy(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some(Piece::Copy(last)) = self.all.last_mut()
            && last.end == range.start
        {
            last.end = range.end;
            return;
        }
        self.push(Piece::Copy(range));
    }

    fn put(&mut self, bytes: impl Into<Vec<u8>>) {
        self.push(Piece::Put(bytes.into()));
    }

    fn push(&mut self, piece: Piece) {
        if self.all.len() < MAX_PIECES {
            self.all.push(piece);
        } else {
            self.is_full = true;
        }
    }

    /// All of them, if there was room.
    fn whole(self) -> io::Result<Vec<Piece>> {
        if self.is_full { Err(io::Error::other("there is too much to mend in it")) } else { Ok(self.all) }
    }
}

/// What the copy and the rest are made of.
fn pieces(file: &File, survey: &Survey, plan: &Plan) -> io::Result<(Vec<Piece>, Vec<Piece>)> {
    let mut source = file;
    source.seek(SeekFrom::Start(0))?;
    let size = survey.walked.bytes;
    if plan.is_empty() {
        return Ok((vec![Piece::Copy(0..size)], Vec::new()));
    }
    let (mut out, mut late, mut rest) = (Pieces::default(), Pieces::default(), Pieces::default());
    // Everything before this is done.
    let mut done = 0;
    let mut numbers = Numbers::default();
    // Where lines begin: only those that are behind something that is left out matter.
    let mut left_out: Option<Range<u64>> = None;
    let line_at = std::cell::Cell::new(0);
    let begun = |_, from: u64| line_at.set(from);
    walk(source, size, begun, |place, seen| {
        let line_begins = line_at.get();
        // With a whole line its end goes, too.
        let gone = left_out.take();
        if let Some(gone) = &gone {
            done = if line_begins == gone.end + 1 { line_begins } else { gone.end };
        }
        let at = place.bytes.clone();
        let mut leave_out = |out: &mut Pieces, done: &mut u64, at: &Range<u64>| {
            out.copy(*done..at.start);
            *done = at.end;
            if at.start == line_begins {
                left_out = Some(at.clone());
            }
        };
        match seen {
            Seen::Flaw(Flaw::Torn) => {
                leave_out(&mut out, &mut done, &at);
                rest.copy(at);
                rest.put(*b"\n");
            }
            Seen::Flaw(Flaw::Zeroes) => leave_out(&mut out, &mut done, &at),
            Seen::Flaw(Flaw::Fused) => {
                out.copy(done..at.start);
                // Nothing is before it on its line any more.
                if gone.is_none_or(|gone| gone.end != at.start) {
                    out.put(*b"\n");
                }
                done = at.start;
            }
            Seen::Flaw(Flaw::NotUtf8) => {
                if at.end - at.start <= MAX_HELD_BYTES as u64 {
                    out.copy(done..at.start);
                    done = at.end;
                    out.push(Piece::Lossy(at));
                }
            }
            Seen::Flaw(Flaw::Deep) => {}
            Seen::Record(head) => {
                let Some(this) = numbers.of(head) else { return };
                // It was written with other characters: what else is to be done is done in the next round.
                if done > at.start {
                    return;
                }
                let new = plan.parents.get(&this);
                if plan.drops.contains_key(&this) || plan.is_aside(this) {
                    leave_out(&mut out, &mut done, &at);
                    rest.copy(at);
                    rest.put(*b"\n");
                } else if plan.is_late(this) {
                    leave_out(&mut out, &mut done, &at);
                    edited(head, &at, new, &mut late);
                    late.put(*b"\n");
                    added(plan, this, &mut late);
                } else if new.is_some() || plan.after.contains_key(&this) {
                    out.copy(done..at.start);
                    edited(head, &at, new, &mut out);
                    done = at.end;
                    if plan.after.contains_key(&this) {
                        out.put(*b"\n");
                        added(plan, this, &mut out);
                        // The record has its own end of line; ours had one as well.
                        if let Some(Piece::Put(last)) = out.all.last_mut() {
                            last.pop();
                        }
                    }
                }
            }
        }
    })?;
    if let Some(gone) = left_out {
        done = (gone.end + 1).min(size);
    }
    out.copy(done..size);
    if let Some(end) = &plan.end {
        late.put(format!("{end}\n"));
    }
    if !late.all.is_empty() {
        // A last line without an end would run into what follows; an empty line harms nobody.
        let mut last = [0];
        let ends = size > 0 && file.read_exact_at(&mut last, size - 1).is_ok() && last[0] == b'\n';
        if !ends {
            out.put(*b"\n");
        }
        late.whole()?.into_iter().for_each(|piece| out.push(piece));
    }
    Ok((out.whole()?, rest.whole()?))
}

/// A record, with another parent if it has one.
fn edited(head: &Head, at: &Range<u64>, new: Option<&Option<Vec<u8>>>, out: &mut Pieces) {
    match new {
        Some(parent) if !head.parent_at.is_empty() => {
            out.copy(at.start..head.parent_at.start);
            out.put(parent.as_deref().unwrap_or(b"null"));
            out.copy(head.parent_at.end..at.end);
        }
        // It did not say anything about one.
        Some(parent) => {
            out.copy(at.start..at.start + 1);
            out.put([b"\"parentUuid\":", parent.as_deref().unwrap_or(b"null"), b","].concat());
            out.copy(at.start + 1..at.end);
        }
        None => out.copy(at.clone()),
    }
}

/// The records that come behind one.
fn added(plan: &Plan, this: u32, out: &mut Pieces) {
    if let Some(text) = plan.after.get(&this) {
        out.put(format!("{text}\n"));
    }
}
