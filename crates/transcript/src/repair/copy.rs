//! Writing a copy: in rounds, each into a new file; only the last one gets the name of the copy.
//!
//! Promise: the copy appears under its name only when it is complete and on disk; after any failure no other file is
//! left. Files with dialogue are readable only by their owner.
//! Start with [`CopyFiles::begin`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::plan::RepairPlan;
use crate::record_scanner::{MAX_HELD_BYTES, ScannedItem, TranscriptFlaw, scan_records};
use crate::record_summary::RecordSummary;
use crate::transcript_index::{RecordNumbering, TranscriptIndex};

/// Limit for the pieces of a copy.
const MAX_PIECES: usize = 1 << 20;

/// The path of a file beside another one: `COPY.rest`.
pub(super) fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// A piece of a copy.
#[derive(Debug)]
enum CopyPiece {
    /// Bytes of the original, unchanged.
    Copy(Range<u64>),
    /// Bytes of the original, with invalid UTF-8 replaced; at most as long as the buffer.
    Lossy(Range<u64>),
    Put(Vec<u8>),
}

/// Temporary files; removed unless they were finished.
#[derive(Debug)]
pub(super) struct CopyFiles {
    now: PathBuf,
    next: PathBuf,
    rest: PathBuf,
    /// True if `now` and `next` were created by us: another process's file of that name is left alone.
    is_now_made: bool,
    is_next_made: bool,
    rest_file: Option<File>,
}

impl CopyFiles {
    pub(super) fn begin(target: &Path) -> Result<Self, String> {
        if target.file_name().is_none() {
            return Err(format!("{} is not the name of a file", target.display()));
        }
        let path = |word: &str| sibling_path(target, &format!("{word}.{}", std::process::id()));
        let (now, next, rest) = (path("making"), path("next"), path("aside"));
        Ok(Self { now, next, rest, is_now_made: false, is_next_made: false, rest_file: None })
    }

    /// The file of the last round.
    pub(super) fn current(&self) -> PathBuf {
        self.now.clone()
    }

    /// Applies a plan to a file, into a new file.
    pub(super) fn apply_plan(
        &mut self,
        file: &File,
        survey: &TranscriptIndex,
        plan: &RepairPlan,
    ) -> Result<(), String> {
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

    fn make_next(&mut self, file: &File, pieces: &[CopyPiece]) -> Result<(), String> {
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

    /// Sets the session of all records, or only of the first one that names a session; returns the number of changes.
    pub(super) fn rename(&mut self, id: &str, only_first: bool) -> Result<u64, String> {
        let wrong = |error: io::Error| format!("cannot write {}: {error}", self.now.display());
        let file = OpenOptions::new().read(true).write(true).open(&self.now).map_err(wrong)?;
        let size = file.metadata().map_err(wrong)?.len();
        let quoted = serde_json::Value::from(id).to_string();
        let ours = crate::record_summary::IdHash::of(id.as_bytes());
        let (mut count, mut seen_any) = (0, false);
        let mut failed = None;
        // Values of another length need another file.
        let (mut others, mut done) = (PieceList::default(), 0);
        scan_records(
            &file,
            size,
            |_, _| {},
            |_, seen| {
                let ScannedItem::Record(head) = seen else { return };
                let is_meant = head.session.is_some() && !(only_first && seen_any);
                seen_any |= is_meant;
                if !is_meant || head.session == Some(ours) || failed.is_some() {
                    return;
                }
                let mut places = head.session_at.clone();
                places.sort_by_key(|at| at.start);
                for at in places.iter().filter(|at| !at.is_empty()) {
                    // Ids of agents have one length; a value of another length was not written by an agent.
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

    /// Gives the copy and the file of set-aside records their names. Only the copy may replace a file, and only by
    /// `force`.
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

impl Drop for CopyFiles {
    fn drop(&mut self) {
        let is_ours = [self.is_now_made, self.is_next_made, self.rest_file.is_some()];
        for (path, _) in [&self.now, &self.next, &self.rest].into_iter().zip(is_ours).filter(|(_, is)| *is) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Renames a file; an existing target is replaced only with `replace`.
fn rename(from: &Path, to: &Path, replace: bool) -> Result<(), String> {
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    renameat_with(CWD, from, CWD, to, flags)
        .map_err(|error| format!("cannot create {}: {}", to.display(), io::Error::from(error)))
}

fn new_file(path: &Path) -> Result<File, String> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| format!("cannot create {}: {error}", path.display()))
}

fn write(source: &File, pieces: &[CopyPiece], out: &File) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(256 << 10, source);
    let mut writer = BufWriter::with_capacity(256 << 10, out);
    for piece in pieces {
        match piece {
            CopyPiece::Copy(range) => {
                reader.seek(SeekFrom::Start(range.start))?;
                let wanted = range.end - range.start;
                if io::copy(&mut (&mut reader).take(wanted), &mut writer)? != wanted {
                    return Err(io::Error::other("the file became shorter meanwhile"));
                }
            }
            CopyPiece::Lossy(range) => {
                let mut bytes = vec![0; (range.end - range.start) as usize];
                source.read_exact_at(&mut bytes, range.start)?;
                writer.write_all(String::from_utf8_lossy(&bytes).as_bytes())?;
            }
            CopyPiece::Put(bytes) => writer.write_all(bytes)?,
        }
    }
    writer.flush()
}

/// Collects pieces, and joins adjacent ones.
#[derive(Default)]
struct PieceList {
    all: Vec<CopyPiece>,
    is_full: bool,
}

impl PieceList {
    fn copy(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some(CopyPiece::Copy(last)) = self.all.last_mut()
            && last.end == range.start
        {
            last.end = range.end;
            return;
        }
        self.push(CopyPiece::Copy(range));
    }

    fn put(&mut self, bytes: impl Into<Vec<u8>>) {
        self.push(CopyPiece::Put(bytes.into()));
    }

    fn push(&mut self, piece: CopyPiece) {
        if self.all.len() < MAX_PIECES {
            self.all.push(piece);
        } else {
            self.is_full = true;
        }
    }

    /// The pieces, unless there were too many.
    fn whole(self) -> io::Result<Vec<CopyPiece>> {
        if self.is_full { Err(io::Error::other("the file needs too many changes")) } else { Ok(self.all) }
    }
}

/// The pieces of the copy, and those that are set aside.
fn pieces(
    file: &File,
    survey: &TranscriptIndex,
    plan: &RepairPlan,
) -> io::Result<(Vec<CopyPiece>, Vec<CopyPiece>)> {
    let mut source = file;
    source.seek(SeekFrom::Start(0))?;
    let size = survey.walked.bytes;
    if plan.is_empty() {
        return Ok((vec![CopyPiece::Copy(0..size)], Vec::new()));
    }
    let (mut out, mut late, mut rest) = (PieceList::default(), PieceList::default(), PieceList::default());
    // Everything before this offset is done.
    let mut done = 0;
    let mut numbers = RecordNumbering::default();
    // Line ends matter only after a record that is left out.
    let mut left_out: Option<Range<u64>> = None;
    let line_at = std::cell::Cell::new(0);
    let begun = |_, from: u64| line_at.set(from);
    scan_records(source, size, begun, |place, seen| {
        let line_begins = line_at.get();
        // The line end is left out together with a whole line.
        let gone = left_out.take();
        if let Some(gone) = &gone {
            done = if line_begins == gone.end + 1 { line_begins } else { gone.end };
        }
        let at = place.bytes.clone();
        let mut leave_out = |out: &mut PieceList, done: &mut u64, at: &Range<u64>| {
            out.copy(*done..at.start);
            *done = at.end;
            if at.start == line_begins {
                left_out = Some(at.clone());
            }
        };
        match seen {
            ScannedItem::Flaw(TranscriptFlaw::Torn) => {
                leave_out(&mut out, &mut done, &at);
                rest.copy(at);
                rest.put(*b"\n");
            }
            ScannedItem::Flaw(TranscriptFlaw::Zeroes) => leave_out(&mut out, &mut done, &at),
            ScannedItem::Flaw(TranscriptFlaw::Fused) => {
                out.copy(done..at.start);
                // No other record is left before it on its line.
                if gone.is_none_or(|gone| gone.end != at.start) {
                    out.put(*b"\n");
                }
                done = at.start;
            }
            ScannedItem::Flaw(TranscriptFlaw::NotUtf8) => {
                if at.end - at.start <= MAX_HELD_BYTES as u64 {
                    out.copy(done..at.start);
                    done = at.end;
                    out.push(CopyPiece::Lossy(at));
                }
            }
            ScannedItem::Flaw(TranscriptFlaw::Deep) => {}
            ScannedItem::Record(head) => {
                let Some(this) = numbers.of(head) else { return };
                // The invalid UTF-8 is replaced in this round; other changes of this record follow in the next round.
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
                    with_new_parent(head, &at, new, &mut late);
                    late.put(*b"\n");
                    added(plan, this, &mut late);
                } else if new.is_some() || plan.after.contains_key(&this) {
                    out.copy(done..at.start);
                    with_new_parent(head, &at, new, &mut out);
                    done = at.end;
                    if plan.after.contains_key(&this) {
                        out.put(*b"\n");
                        added(plan, this, &mut out);
                        // The record has a line end of its own; so has the inserted one.
                        if let Some(CopyPiece::Put(last)) = out.all.last_mut() {
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
        // A last line without an end would run into the next record; an empty line is harmless.
        let mut last = [0];
        let ends = size > 0 && file.read_exact_at(&mut last, size - 1).is_ok() && last[0] == b'\n';
        if !ends {
            out.put(*b"\n");
        }
        late.whole()?.into_iter().for_each(|piece| out.push(piece));
    }
    Ok((out.whole()?, rest.whole()?))
}

/// Copies a record, with a new parent if it gets one.
fn with_new_parent(
    head: &RecordSummary,
    at: &Range<u64>,
    new: Option<&Option<Vec<u8>>>,
    out: &mut PieceList,
) {
    match new {
        Some(parent) if !head.parent_at.is_empty() => {
            out.copy(at.start..head.parent_at.start);
            out.put(parent.as_deref().unwrap_or(b"null"));
            out.copy(head.parent_at.end..at.end);
        }
        // The record did not name a parent.
        Some(parent) => {
            out.copy(at.start..at.start + 1);
            out.put([b"\"parentUuid\":", parent.as_deref().unwrap_or(b"null"), b","].concat());
            out.copy(at.start + 1..at.end);
        }
        None => out.copy(at.clone()),
    }
}

/// Adds the records that follow another one.
fn added(plan: &RepairPlan, this: u32, out: &mut PieceList) {
    if let Some(text) = plan.after.get(&this) {
        out.put(format!("{text}\n"));
    }
}
