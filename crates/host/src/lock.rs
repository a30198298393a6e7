//! Lock files: at most one holder, and freed by the kernel when the last holder's descriptor closes.
//!
//! Promise: an `flock` belongs to the open file, so it lives as long as any process has an inherited
//! descriptor, and no crash can leave it behind. The file is never removed: two processes could lock
//! two files of one name.
//! Not here: which processes inherited a lock (see [`crate::process_tree::processes_with_open_lock`]).
//! Start with [`LockFile::try_exclusive`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock, fstat, lstat, open};
use rustix::io::{Errno, pread, pwrite};

use crate::proc::retry;

/// The size of the text in a lock file, padding and check sum included: one sector.
const BLOCK: usize = 512;
/// The check sum at the end of the block, in hexadecimal digits.
const SUM: usize = 16;
/// How often a text is read again when the sum does not match.
const READS: usize = 100;

/// An open lock file.
#[derive(Debug)]
pub struct LockFile(OwnedFd);

/// The identity of a file or directory, independent of its name: device and inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    /// The device number of the file system, as `stat` reports it.
    pub device: u64,
    /// The inode number, unique on its device while the file exists.
    pub inode: u64,
}

impl FileId {
    /// The identity of the file at `path`; `None` if there is none. Symbolic links are not followed.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        match retry(|| lstat(path)) {
            Ok(stat) => Ok(Some(Self::of(&stat))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[allow(clippy::useless_conversion, reason = "the width of these fields depends on the target")]
    fn of(stat: &Stat) -> Self {
        FileId { device: u64::from(stat.st_dev), inode: u64::from(stat.st_ino) }
    }
}

impl LockFile {
    /// Opens the file, or makes it, readable by its owner only. Takes no lock.
    pub fn open_or_create(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(LockFile(retry(|| open(path, flags, Mode::RUSR | Mode::WUSR))?))
    }

    /// Opens a directory, to lock the directory itself. Takes no lock.
    pub fn open_dir(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(LockFile(retry(|| open(path, flags, Mode::empty()))?))
    }

    /// Opens an existing file, for reading its text; `None` if there is none. Takes no lock.
    pub fn open_existing(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match retry(|| open(path, flags, Mode::empty())) {
            Ok(file) => Ok(Some(LockFile(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Wraps a lock file that other code opened.
    pub fn from_fd(fd: OwnedFd) -> Self {
        LockFile(fd)
    }

    /// The descriptor, which stays open as long as `self`.
    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// The bare descriptor. The lock stays.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Takes the lock if it is free. Returns true as well if this open file has it already.
    pub fn try_exclusive(&self) -> io::Result<bool> {
        try_lock(&self.0, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes the lock, trying again for as long as `patience` lasts. Even a free lock needs some patience: [`lock_state`]
    /// holds it for an instant, and so does a process of the last holder that was about to run a program.
    pub fn acquire(&self, patience: Duration) -> io::Result<bool> {
        let mut pause = Duration::from_micros(50);
        let mut since = None;
        while !self.try_exclusive()? {
            let left = patience.saturating_sub(since.get_or_insert_with(Instant::now).elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        Ok(true)
    }

    /// The identity of the open file, which no rename changes.
    pub fn id(&self) -> io::Result<FileId> {
        Ok(FileId::of(&retry(|| fstat(&self.0))?))
    }

    /// True if this is the file at `path`. False means that our file was moved or removed.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(FileId::at(path)? == Some(self.id()?))
    }

    /// Replaces the text in the file, at most 496 bytes without a zero byte. A concurrent reader sees
    /// the old text or the new one.
    ///
    /// One `pwrite` of a block of constant size leaves no moment at which the file is empty or has the
    /// length of one text and the bytes of the other, and a writer killed inside it has written all or
    /// nothing. One case remains: a reader on another core may copy the page while it changes (ext4 locks writers
    /// only), so the block ends in a check sum and the reader tries again.
    pub fn write_text(&self, text: &str) -> io::Result<()> {
        if text.len() > BLOCK - SUM || text.contains('\0') {
            let problem = "the text for a lock file is too long or has a zero byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let mut block = [0; BLOCK];
        block[..text.len()].copy_from_slice(text.as_bytes());
        let sum = format!("{:016x}", check_sum(&block[..BLOCK - SUM]));
        block[BLOCK - SUM..].copy_from_slice(sum.as_bytes());
        match retry(|| pwrite(&self.0, &block, 0))? {
            BLOCK => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::StorageFull, "the lock file was written in part")),
        }
    }

    /// The text that was last written; empty if there never was one.
    pub fn read_text(&self) -> io::Result<String> {
        let mut block = [0; BLOCK];
        for _ in 0..READS {
            let count = retry(|| pread(&self.0, &mut block, 0))?;
            if count == 0 {
                return Ok(String::new());
            }
            let (text, sum) = block.split_at(BLOCK - SUM);
            if count == BLOCK && format!("{:016x}", check_sum(text)).as_bytes() == sum {
                let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
                return Ok(String::from_utf8_lossy(text).into_owned());
            }
            thread::yield_now();
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the text in the lock file is damaged"))
    }
}

impl AsFd for LockFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The state of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockState {
    /// No process holds the lock.
    Free,
    /// A process holds the lock.
    Held,
}

/// Probes whether a lock is held; `None` if there is no such file. It takes a shared lock for an instant, which
/// disturbs no other probe, but can make a [`LockFile::try_exclusive`] fail.
pub fn lock_state(path: &Path) -> io::Result<Option<LockState>> {
    // Read only, so that a search for holders never takes a prober for one.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let free = try_lock(&file, FlockOperation::NonBlockingLockShared)?;
    Ok(Some(if free { LockState::Free } else { LockState::Held }))
}

/// The processes that took a lock on this file, by the kernel's list of locks. The list has no process of another pid
/// namespace, and none that has ended and left the lock to a child.
pub fn lock_holders(path: &Path) -> io::Result<Vec<u32>> {
    let file = retry(|| lstat(path))?;
    let device = format!("{:02x}:{:02x}", rustix::fs::major(file.st_dev), rustix::fs::minor(file.st_dev));
    let locks = std::fs::read_to_string("/proc/locks")?;
    let taken = locks.lines().filter_map(taken_lock).filter(|lock| lock.inode == file.st_ino);
    // Overlay file systems and Btrfs show another device to `stat` than to the kernel's list: there the open files of
    // the process decide.
    let is_this =
        |lock: &TakenLock<'_>| lock.device == device || has_open(lock.pid, (file.st_dev, file.st_ino));
    let mut pids: Vec<u32> = taken.filter(is_this).map(|lock| lock.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// One line of `/proc/locks`.
#[derive(PartialEq, Eq, Debug)]
struct TakenLock<'a> {
    pid: u32,
    device: &'a str,
    inode: u64,
}

/// Parses a line such as `7: FLOCK  ADVISORY  WRITE 1234 fe:00:5859194 0 EOF`. A waiting process has
/// `->` before `FLOCK`.
fn taken_lock(line: &str) -> Option<TakenLock<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
    let (device, inode) = file.rsplit_once(':')?;
    Some(TakenLock { pid: pid.parse().ok()?, device, inode: inode.parse().ok()? })
}

fn has_open(pid: u32, file: (u64, u64)) -> bool {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut places = files.filter_map(|open| std::fs::metadata(open.path()).ok());
    places.any(|open| (open.dev(), open.ino()) == file)
}

fn try_lock(fd: &OwnedFd, operation: FlockOperation) -> io::Result<bool> {
    match flock(fd, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// FNV-1a: small, and good enough to tell a mixture of two texts from either.
fn check_sum(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn a_line_of_the_list_of_locks_names_process_and_file_of_a_taken_flock_only() {
        let taken = taken_lock("7: FLOCK  ADVISORY  WRITE 1234 fe:00:5859194 0 EOF");
        assert_eq!(taken, Some(TakenLock { pid: 1234, device: "fe:00", inode: 5_859_194 }));
        assert_eq!(taken_lock("7: -> FLOCK  ADVISORY  WRITE 1234 fe:00:5859194 0 EOF"), None);
        assert_eq!(taken_lock("8: POSIX  ADVISORY  WRITE 1234 fe:00:5859194 0 EOF"), None);
        assert_eq!(taken_lock(""), None);
    }

    #[test]
    fn the_taker_of_a_lock_is_listed_until_the_lock_is_free() {
        let dir = TestDir::new();
        let path = dir.join("lock");
        let file = LockFile::open_or_create(&path).expect("a file");
        assert_eq!(lock_holders(&path).expect("a list"), []);
        assert!(file.try_exclusive().expect("a lock"));
        assert_eq!(lock_holders(&path).expect("a list"), [std::process::id()]);
        drop(file);
        assert_eq!(lock_holders(&path).expect("a list"), []);
    }
}
