//! The agent's output: raw bytes in bounded files, with a time index.
//!
//! `output/<offset>.out` holds the bytes from that offset on; `<offset>.idx` holds pairs of
//! (wall clock ms, offset), little-endian u64 each, at most one per [`INDEX_EVERY_MS`]. `<offset>.size` holds the sizes
//! the terminal had: the offset (u64) of the first byte that was written at a size, then rows and columns (u16 each), little-endian.
//! Promise: what was written is never changed; about [`KEEP_BYTES`] are kept, in whole files, and what was
//! dropped is said in the journal.
//! Not here: screens. The files are the truth, a screen is a cache of them.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use berth_core::ClockReading;

use crate::session_status::modified_ms;

use std::os::unix::fs::OpenOptionsExt;

/// Size of one file, in bytes.
pub const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;
/// Limit of the kept output of a session, in bytes.
pub const KEEP_BYTES: u64 = 1024 * 1024 * 1024;
/// Length of one record of a terminal size, in bytes.
const SIZE_RECORD_BYTES: usize = 12;
/// Shortest time between two records of the time, in milliseconds.
pub const INDEX_EVERY_MS: u64 = 100;
/// Longest time that written bytes wait before they are synced, in milliseconds.
const SYNC_EVERY_MS: u64 = 1000;

/// The output of one session, for its only writer.
#[derive(Debug)]
pub struct OutputLog {
    dir: PathBuf,
    segment: Option<OutputSegment>,
    end: u64,
    /// Time of the latest index record, on the boot clock.
    indexed_at_ms: Option<u64>,
    dirty_since_ms: Option<u64>,
    /// Full files, and directories with new names in them, that are not known to be on the disk.
    unsynced: Vec<File>,
    syncing: Option<JoinHandle<io::Result<()>>>,
    /// The size of the terminal that the next byte comes from.
    size: Option<TerminalSize>,
}

/// Rows and columns of the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TerminalSize {
    /// Rows, from top to bottom.
    pub rows: u16,
    /// Columns, from left to right.
    pub cols: u16,
}

#[derive(Debug)]
struct OutputSegment {
    start: u64,
    bytes: File,
    index: File,
    /// Latest size that was recorded in this file.
    size: Option<TerminalSize>,
}

/// Facts about the output that belong into the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutputChange {
    /// Old output was deleted.
    Dropped {
        /// Offset of the first byte that is still there.
        before: u64,
    },
}

impl OutputLog {
    /// Continues behind the last byte.
    fn open(files: OutputFiles) -> io::Result<Self> {
        let end = files.end()?;
        Ok(Self {
            dir: files.dir,
            segment: None,
            end,
            indexed_at_ms: None,
            dirty_since_ms: None,
            unsynced: Vec::new(),
            syncing: None,
            size: None,
        })
    }

    /// Offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Name of the file in use.
    pub fn file_name(&self) -> Option<String> {
        self.file_start().map(bytes_name)
    }

    /// Offset at which the file in use begins.
    pub fn file_start(&self) -> Option<u64> {
        self.segment.as_ref().map(|segment| segment.start)
    }

    /// Sets the size of the terminal that writes from now on.
    pub fn set_size(&mut self, rows: u16, cols: u16) {
        self.size = Some(TerminalSize { rows, cols });
    }

    /// Writes `bytes`, or as many as fit on the disk, and returns how many were taken.
    pub fn append(&mut self, bytes: &[u8], now: ClockReading) -> io::Result<(usize, Option<OutputChange>)> {
        let mut remark = None;
        let full = self.segment.as_ref().is_some_and(|segment| self.end - segment.start >= SEGMENT_BYTES);
        if full || self.segment.is_none() {
            self.roll()?;
            remark = self.drop_oldest()?;
        }
        let segment = self.segment.as_mut().expect("roll() leaves a segment");
        if let Some(size) = self.size.filter(|size| segment.size != Some(*size)) {
            // As with the index: a failure here loses no output, and is not repeated with every byte.
            let _ = note_size(&self.dir, segment.start, self.end, size);
            segment.size = Some(size);
        }
        let taken = segment.bytes.write(bytes)?;
        if self.indexed_at_ms.is_none_or(|at| now.boot_ms >= at + INDEX_EVERY_MS) {
            let mut pair = [0; 16];
            pair[..8].copy_from_slice(&now.wall_ms.to_le_bytes());
            pair[8..].copy_from_slice(&self.end.to_le_bytes());
            // The index is a convenience; the bytes are not. A failure here loses no output.
            let _ = segment.index.write_all(&pair);
            self.indexed_at_ms = Some(now.boot_ms);
        }
        self.end += taken as u64;
        self.dirty_since_ms.get_or_insert(now.boot_ms);
        Ok((taken, remark))
    }

    /// Time at which [`OutputLog::sync_if_due`] wants to be called, on the boot clock.
    pub fn sync_due_ms(&self) -> Option<u64> {
        self.dirty_since_ms.map(|since| since + SYNC_EVERY_MS)
    }

    /// Syncs written bytes, in a thread that lives as long as that takes: a slow disk must not stand between the
    /// agent and its terminal.
    pub fn sync_if_due(&mut self, now_ms: u64) -> io::Result<()> {
        if self.sync_due_ms().is_none_or(|due| due > now_ms) {
            return Ok(());
        }
        if self.syncing.as_ref().is_some_and(|job| !job.is_finished()) {
            // The thread still syncs earlier bytes; check again in a second.
            self.dirty_since_ms = Some(now_ms);
            return Ok(());
        }
        let last = self.finish_sync();
        self.dirty_since_ms = None;
        let mut files = std::mem::take(&mut self.unsynced);
        files.extend(self.segment.as_ref().map(|segment| segment.bytes.try_clone()).transpose()?);
        let sync_all = move || files.iter().try_for_each(File::sync_all);
        self.syncing = Some(std::thread::Builder::new().stack_size(64 * 1024).spawn(sync_all)?);
        last
    }

    /// Waits until everything is on the disk.
    pub fn finish(&mut self) -> io::Result<()> {
        self.finish_sync()?;
        self.dirty_since_ms = None;
        self.unsynced.drain(..).try_for_each(|file| file.sync_all())?;
        self.segment.as_ref().map_or(Ok(()), |segment| segment.bytes.sync_data())
    }

    fn finish_sync(&mut self) -> io::Result<()> {
        match self.syncing.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the syncing thread panicked")),
        }
    }

    fn roll(&mut self) -> io::Result<()> {
        if self.segment.is_none() {
            let mut builder = fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            match builder.create(&self.dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        let start = self.end;
        let open = |name: String| {
            fs::OpenOptions::new().append(true).create(true).mode(0o600).open(self.dir.join(name))
        };
        let next = OutputSegment {
            start,
            bytes: open(bytes_name(start))?,
            index: open(index_name(start))?,
            size: None,
        };
        // A file whose name is lost in a power cut is lost as well.
        let mut names = vec![File::open(&self.dir)?];
        names.extend(self.dir.parent().map(File::open).transpose()?);
        // An attempt that failed leaves nothing: a full disk causes many of them.
        let full = self.segment.replace(next).map(|full| full.bytes);
        self.unsynced.extend(full.into_iter().chain(names));
        Ok(())
    }

    fn drop_oldest(&mut self) -> io::Result<Option<OutputChange>> {
        let starts = starts(&self.dir)?;
        let mut remark = None;
        for pair in starts.windows(2).take_while(|pair| self.end.saturating_sub(pair[1]) >= KEEP_BYTES) {
            fs::remove_file(self.dir.join(bytes_name(pair[0])))?;
            let _ = fs::remove_file(self.dir.join(index_name(pair[0])));
            let _ = fs::remove_file(self.dir.join(size_name(pair[0])));
            remark = Some(OutputChange::Dropped { before: pair[1] });
        }
        Ok(remark)
    }
}

/// The output of one session, for readers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputFiles {
    dir: PathBuf,
}

impl OutputFiles {
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Path of the output, for messages.
    pub fn display(&self) -> impl std::fmt::Display + '_ {
        self.dir.display()
    }

    /// Opens the output for its only writer, behind the last byte.
    pub fn open_log(&self) -> io::Result<OutputLog> {
        OutputLog::open(self.clone())
    }

    /// Time of the last write to the newest file, in milliseconds since 1970; `None` without output.
    pub fn written_at_ms(&self) -> Option<u64> {
        modified_ms(&fs::metadata(self.dir.join(self.newest()?)).ok()?)
    }

    /// Name of the newest file.
    pub fn newest(&self) -> Option<String> {
        let names = fs::read_dir(&self.dir).ok()?;
        let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.ends_with(".out")).max()
    }

    /// Metadata of the file with this name, as it is now.
    pub fn metadata(&self, name: &str) -> io::Result<fs::Metadata> {
        fs::metadata(self.dir.join(name))
    }

    /// Offset behind the last byte.
    pub fn end(&self) -> io::Result<u64> {
        let Some(start) = starts(&self.dir)?.pop() else { return Ok(0) };
        Ok(start + fs::metadata(self.dir.join(bytes_name(start)))?.len())
    }

    /// Reads from `offset` on into `buffer`; fewer bytes at the end of a file, none at the end of all.
    /// An offset whose bytes are not kept reads from the next one whose are: the second number is where
    /// the bytes really begin.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<(usize, u64)> {
        let starts = starts(&self.dir)?;
        let Some(first) = starts.first() else { return Ok((0, offset)) };
        let mut offset = offset.max(*first);
        if i64::try_from(offset).is_err() {
            // Behind anything a file can hold.
            return Ok((0, offset));
        }
        let mut at = starts.partition_point(|start| *start <= offset) - 1;
        loop {
            let mut file = File::open(self.dir.join(bytes_name(starts[at])))?;
            file.seek(SeekFrom::Start(offset - starts[at]))?;
            let count = file.read(buffer)?;
            at += 1;
            if count > 0 || at == starts.len() {
                return Ok((count, offset));
            }
            // A power cut may take the end of a file and leave the next one.
            offset = starts[at];
        }
    }

    /// The last bytes, at most `limit` and none before the offset `from`.
    pub fn tail(&self, from: u64, limit: u64) -> io::Result<Vec<u8>> {
        let end = self.end()?;
        self.range(end.saturating_sub(limit).max(from), end)
    }

    /// The bytes from one offset up to another, as far as they are kept.
    pub fn range(&self, mut offset: u64, end: u64) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        while offset < end {
            let (count, from) = self.read_at(offset, &mut buffer)?;
            if count == 0 {
                break;
            }
            let wanted = count.min(usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX));
            all.extend_from_slice(&buffer[..wanted]);
            offset = from + count as u64;
        }
        Ok(all)
    }

    /// The sizes of the terminal from `offset` on: the one that held there, and each change with the offset of the first
    /// byte that was written at it.
    pub fn sizes(&self, offset: u64) -> io::Result<Vec<(u64, TerminalSize)>> {
        let starts = starts(&self.dir)?;
        let first = starts.partition_point(|start| *start <= offset).saturating_sub(1);
        // The last one at or before `offset`, and the changes behind it.
        let mut held = None;
        let mut changes: Vec<(u64, TerminalSize)> = Vec::new();
        for start in starts.into_iter().skip(first) {
            let bytes = match fs::read(self.dir.join(size_name(start))) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for record in bytes.chunks_exact(SIZE_RECORD_BYTES) {
                let at = u64::from_le_bytes(record[..8].try_into().expect("eight bytes"));
                let number = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
                let size = TerminalSize { rows: number(8), cols: number(10) };
                if at <= offset {
                    held = Some((at, size));
                } else if changes.last().or(held.as_ref()).is_none_or(|(_, last)| *last != size) {
                    changes.push((at, size));
                }
            }
        }
        Ok(held.into_iter().chain(changes).collect())
    }

    /// The file of a moment: when the bytes from each offset on came, oldest first.
    pub fn time_index(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut pairs = Vec::new();
        for start in starts(&self.dir)? {
            let bytes = match fs::read(self.dir.join(index_name(start))) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            pairs.extend(bytes.chunks_exact(16).map(|pair| (number(&pair[..8]), number(&pair[8..]))));
        }
        Ok(pairs)
    }

    /// The files , oldest first: where each begins, and how long it is.
    pub fn files(&self) -> io::Result<Vec<(PathBuf, u64, u64)>> {
        let mut files = Vec::new();
        for start in starts(&self.dir)? {
            let path = self.dir.join(bytes_name(start));
            match fs::metadata(&path) {
                Ok(file) => files.push((path, start, file.len())),
                // The oldest goes when there is too much.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }
}

fn note_size(dir: &Path, start: u64, offset: u64, size: TerminalSize) -> io::Result<()> {
    let mut record = [0; SIZE_RECORD_BYTES];
    record[..8].copy_from_slice(&offset.to_le_bytes());
    record[8..10].copy_from_slice(&size.rows.to_le_bytes());
    record[10..].copy_from_slice(&size.cols.to_le_bytes());
    let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(dir.join(size_name(start)));
    file?.write_all(&record)
}

fn starts(dir: &Path) -> io::Result<Vec<u64>> {
    let mut starts = Vec::new();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(starts),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let name = entry?.file_name();
        let start =
            name.to_str().and_then(|name| name.strip_suffix(".out")).and_then(|n| n.parse::<u64>().ok());
        starts.extend(start);
    }
    starts.sort_unstable();
    Ok(starts)
}

fn bytes_name(start: u64) -> String {
    format!("{start:020}.out")
}

fn index_name(start: u64) -> String {
    format!("{start:020}.idx")
}

fn size_name(start: u64) -> String {
    format!("{start:020}.size")
}

#[cfg(test)]
mod tests;
