//! The features of a directory's file system: free space, and locks that hold.
//!
//! Promise: a trial file is gone when [`locks_hold`] returns.
//! Start with [`disk_facts`].

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, Mode, OFlags, access, flock, open, statvfs};
use rustix::io::Errno;

use super::mounts;
use crate::{random_bytes, reason};

/// The result of [`disk_facts`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskFacts {
    /// The directory that was examined: the requested one, or its nearest existing parent.
    pub dir: PathBuf,
    /// True if the requested directory exists.
    pub exists: bool,
    /// True if this process may write there.
    pub writable: bool,
    /// The kind of file system.
    pub kind: String,
    /// The bytes that ordinary users may still write.
    pub free_bytes: u64,
    /// The size of the file system in bytes.
    pub total_bytes: u64,
    /// The number of files that can still be made; `None` where there is no limit.
    pub free_files: Option<u64>,
    /// The number of files the file system can have in all.
    pub total_files: u64,
}

/// Examines the file system that a directory is on, or would be on.
pub fn disk_facts(dir: &Path) -> io::Result<DiskFacts> {
    let mut found = dir;
    while !found.is_dir() {
        found = found.parent().ok_or(io::ErrorKind::NotFound)?;
    }
    let room = statvfs(found)?;
    let real = found.canonicalize()?;
    let all = mounts()?;
    // Of the mounts above the directory the longest is nearest, and the last hides the others.
    let above = all.iter().filter(|mount| real.starts_with(&mount.point));
    let nearest = above.max_by_key(|mount| mount.point.components().count());
    Ok(DiskFacts {
        dir: found.to_owned(),
        exists: found == dir,
        writable: access(found, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
        kind: nearest.map_or_else(|| "unknown".to_owned(), |mount| mount.kind.clone()),
        free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
        total_bytes: room.f_blocks.saturating_mul(room.f_frsize),
        free_files: (room.f_files > 0).then_some(room.f_favail),
        total_files: room.f_files,
    })
}

/// Tries whether a lock taken in the directory excludes other holders. Uses a file without a name, or one that is
/// removed before this returns.
pub fn locks_hold(dir: &Path) -> Result<bool, String> {
    try_locks(dir).map_err(|error| reason(&error))
}

fn try_locks(dir: &Path) -> io::Result<bool> {
    let (first, second) = match open(dir, OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC, Mode::RWXU) {
        Ok(file) => {
            // Opened once more, and not duplicated: two descriptors of one opening share their locks.
            let again = format!("/proc/self/fd/{}", file.as_raw_fd());
            let second = open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            (file, second)
        }
        // Not every file system has files without names.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => named_twice(dir)?,
        Err(error) => return Err(error.into()),
    };
    flock(&first, FlockOperation::NonBlockingLockExclusive)?;
    match flock(&second, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(true),
        Ok(()) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn named_twice(dir: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut name = [0; 8];
    random_bytes(&mut name)?;
    let path = dir.join(format!(".berth-doctor-{:016x}", u64::from_ne_bytes(name)));
    let first = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    let second = File::open(&path);
    std::fs::remove_file(&path)?;
    Ok((first.into(), second?.into()))
}

#[cfg(test)]
mod tests {
    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn a_directory_that_is_not_there_yet_is_judged_by_the_one_it_would_be_in() {
        let temporary = std::env::temp_dir();
        let there = disk_facts(&temporary).unwrap();
        let not_yet = disk_facts(&temporary.join("no/such/directory")).unwrap();
        assert!(there.exists && !not_yet.exists && there.writable);
        assert_eq!((&not_yet.dir, &not_yet.kind), (&temporary, &there.kind));
        assert!(there.free_bytes <= there.total_bytes && there.total_bytes > 0, "{there:?}");
    }

    #[test]
    fn locks_are_tried_without_leaving_a_file() {
        let dir = TestDir::new();
        assert_eq!(locks_hold(&dir), Ok(true));
        let (first, second) = named_twice(&dir).unwrap();
        flock(&first, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(flock(&second, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
        // Fails if anything is in it.
        std::fs::remove_dir(&dir).unwrap();
    }
}
