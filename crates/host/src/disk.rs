//! Files that appear whole or not at all.
//!
//! Promise: a reader of the name sees the old contents or the new, never a part, also when the writer
//! is killed half way.
//! Not here: append-only files (the journal has its own rules).
//! Start with [`write_atomically`]; [`write_briefly`] is for files that may be lost in a power cut.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::lock::LockFile;

/// Temporary files of [`write_atomically`] in a directory: of a write that is in progress, or one that never finished.
pub fn temporary_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(".tmp")) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Makes new names in these directories survive a power cut.
pub fn sync_dirs(dirs: &[&Path]) -> io::Result<()> {
    dirs.iter().try_for_each(|dir| File::open(dir)?.sync_all())
}

/// Writes a file through a temporary one beside it. With `sync`, the file survives a power cut once this returns;
/// without, a power cut may bring the old file back.
pub fn write_atomically(dir: &Path, name: &str, bytes: &[u8], sync: bool) -> io::Result<()> {
    let temporary = temporary(dir, name);
    let written = write_new(&temporary, bytes, sync).and_then(|()| fs::rename(&temporary, dir.join(name)));
    if let Err(error) = written {
        // The first error is the one to report. If this fails as well, a stray file is all that is left.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    if sync {
        // The new name lives in the directory: without this a power cut could undo the rename.
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// A file that is whole, synced and locked (flock) before it gets its name.
#[derive(Debug)]
pub struct PreparedFile {
    dir: PathBuf,
    temporary: TemporaryName,
    file: File,
}

impl PreparedFile {
    /// Writes, syncs and locks a temporary file in `dir`. `label` is a part of its temporary name.
    pub fn new(dir: &Path, label: &str, bytes: &[u8]) -> io::Result<Self> {
        let temporary = TemporaryName(temporary(dir, label));
        write_new(&temporary.0, bytes, true)?;
        let file = File::open(&temporary.0)?;
        file.try_lock()?;
        Ok(Self { dir: dir.to_owned(), temporary, file })
    }

    /// Gives the file this name. Returns `false` if the name is taken, so that the caller can try another one.
    pub fn link_as(&self, name: &str) -> io::Result<bool> {
        match fs::hard_link(&self.temporary.0, self.dir.join(name)) {
            Ok(()) => File::open(&self.dir)?.sync_all().map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives the file this name, replacing any file that has it.
    pub fn replace(&self, name: &str) -> io::Result<()> {
        fs::rename(&self.temporary.0, self.dir.join(name))?;
        File::open(&self.dir)?.sync_all()
    }

    /// The open file, which holds the lock. The temporary name goes.
    pub fn into_locked(self) -> LockFile {
        LockFile::from_fd(self.file.into())
    }
}

/// The name of a temporary file, removed on drop.
#[derive(Debug)]
struct TemporaryName(PathBuf);

impl Drop for TemporaryName {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Like [`write_atomically`], for files that are rewritten often and are worthless after a power cut, which may leave
/// an empty file.
///
/// This never waits for the disk, and avoids starting disk writes: some file systems (ext4 among them) begin to write
/// a file that replaces another one by rename, because programs often mean a sync by that. An exchange of two names
/// does not trigger this, and a version that is replaced early is never written at all.
pub fn write_briefly(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (temporary, path) = (temporary(dir, name), dir.join(name));
    let exchange = || renameat_with(CWD, &temporary, CWD, &path, RenameFlags::EXCHANGE);
    let written = write_new(&temporary, bytes, false).and_then(|()| match exchange() {
        // After the exchange the temporary name has the old file, which is removed. A directory cannot be removed, so
        // it gets its name back.
        Ok(()) => match fs::remove_file(&temporary) {
            // A sweep removed it as a leftover: its age is that of the previous version.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.inspect_err(|_| exchange().unwrap_or_default()),
        },
        // There was no old file, or the file system cannot exchange names. A plain rename then reports the real error.
        Err(_) => fs::rename(&temporary, &path),
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A name that no living process uses.
fn temporary(dir: &Path, name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    dir.join(format!(".{name}.{}.{count}.tmp", std::process::id()))
}

fn write_new(path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    // Truncated rather than refused if it exists: an earlier process with our pid may have been killed
    // while it wrote, and no living one uses this name.
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    if sync { file.sync_data() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn a_prepared_file_tries_one_name_after_the_other_and_is_locked_under_the_one_it_gets() {
        let dir = TestDir::new();
        fs::write(dir.join("a"), "taken").unwrap();
        let prepared = PreparedFile::new(&dir, "a", b"text").unwrap();
        assert!(!prepared.link_as("a").unwrap());
        assert!(prepared.link_as("b").unwrap());
        let locked = prepared.into_locked();
        let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let other = File::open(dir.join("b")).unwrap();
        let is_locked = other.try_lock().is_err();
        drop(locked);
        let is_free = other.try_lock().is_ok();
        let texts = ["a", "b"].map(|name| fs::read_to_string(dir.join(name)).unwrap());
        assert_eq!((names, texts), (vec!["a".into(), "b".into()], ["taken".into(), "text".into()]));
        assert!(is_locked && is_free);
    }

    #[test]
    fn a_file_is_replaced_whole_and_a_failure_leaves_nothing() {
        let dir = TestDir::new();
        fs::create_dir_all(dir.join("taken")).unwrap();
        for (text, sync) in [("a longer text", false), ("short", true)] {
            write_atomically(&dir, "file", text.as_bytes(), sync).unwrap();
            assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), text);
            write_briefly(&dir, "file", b"even longer than that").unwrap();
            assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "even longer than that");
        }
        write_briefly(&dir, "new", b"").unwrap();
        // A file cannot take the name of a directory.
        assert!(write_atomically(&dir, "taken", b"text", true).is_err());
        assert!(write_briefly(&dir, "taken", b"text").is_err() && dir.join("taken").is_dir());
        let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "new", "taken"]);
    }
}
