//! The few operations of a file system that the journal needs.
//!
//! Promise: nothing here retries, caches or decides; each call is one thing done to one directory.
//! Not here: choosing files, the times of syncs, and the consequences of a failure (see `journal.rs`). The stand-in
//! for tests is `fake.rs`.
//! Start with [`JournalDisk`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// One directory of files that only ever grow.
///
/// Names are plain file names. There is no way to reopen a file for writing, to cut it or to write over it: the
/// journal never does.
pub trait JournalDisk {
    /// A file that this process created and may append to.
    type File;

    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// The content of a file from `offset` on: `most` bytes, or fewer where the file ends.
    fn read_at(&self, name: &str, offset: u64, most: usize) -> io::Result<Vec<u8>>;

    /// Creates a file for appending, and fails if the name is taken.
    fn create_new(&self, name: &str) -> io::Result<Self::File>;

    /// Writes all of `bytes` to the end. After an error any part of them may be there.
    fn append(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

    /// Returns once the content is safe. After an error, the state of the content is unknown, and another sync
    /// proves nothing: kernels forget data that they failed to write.
    fn sync_file(&self, file: &mut Self::File) -> io::Result<()>;

    /// Returns once names given and taken by the calls here are safe.
    fn sync_dir(&self) -> io::Result<()>;

    /// Gives a file another name, atomically; a file that had that name is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Path of the file, for people. The empty name is the directory.
    fn path(&self, name: &str) -> PathBuf;
}

/// A directory of the real file system. It must exist.
#[derive(Clone, Debug)]
pub struct RealDisk {
    dir: PathBuf,
}

impl RealDisk {
    /// Makes a value for this directory, without touching the disk.
    pub fn new(dir: PathBuf) -> Self {
        RealDisk { dir }
    }

    /// Path of the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

#[cfg(feature = "testing")]
std::thread_local! {
    static READ_BYTES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(feature = "testing")]
impl RealDisk {
    /// Bytes that this thread has read so far: tests run side by side.
    pub fn read_bytes() -> u64 {
        READ_BYTES.get()
    }
}

impl JournalDisk for RealDisk {
    type File = File;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            // A name that is not UTF-8 is not one of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn read_at(&self, name: &str, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.dir.join(name))?;
        let rest = file.metadata()?.len().saturating_sub(offset);
        let mut bytes = Vec::with_capacity(usize::try_from(rest).unwrap_or(usize::MAX).min(most));
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        file.take(most as u64).read_to_end(&mut bytes)?;
        #[cfg(feature = "testing")]
        READ_BYTES.set(READ_BYTES.get() + bytes.len() as u64);
        Ok(bytes)
    }

    fn create_new(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().append(true).create_new(true).mode(0o600).open(self.dir.join(name))
    }

    fn append(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync_file(&self, file: &mut File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.dir.clone() } else { self.dir.join(name) }
    }
}
