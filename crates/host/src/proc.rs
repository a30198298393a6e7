//! Reading `/proc` quickly and without being fooled by a pid that changes hands.
//!
//! Promise: files opened through one directory of `/proc` all belong to one process: the directory stays
//! tied to the process it was opened for, and answers `ESRCH` or `ENOENT` once that is gone.
//! Not here: the meaning of the files (see [`crate::identity`] and [`crate::process_tree`]).
//! Start with [`each_pid`].

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat};
use rustix::io::Errno;

/// Long enough for any `/proc/PID/stat` line: 52 numbers and a 64 byte name.
pub(crate) const STAT_SIZE: usize = 2048;

pub(crate) fn open() -> io::Result<OwnedFd> {
    shows_our_numbers()?;
    directory(CWD, "/proc")
}

/// Fails unless the numbers in `/proc` are those that our system calls take. In a pid namespace without a
/// `/proc` of its own each of them means another process, and a signal would reach a stranger.
pub(crate) fn shows_our_numbers() -> io::Result<()> {
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    let me = std::process::id();
    if KNOWN.load(Ordering::Relaxed) == me {
        return Ok(());
    }
    let shown = readlinkat(CWD, "/proc/self", Vec::new())
        .map_err(|error| io::Error::other(format!("/proc does not show this very process: {error}")))?;
    if shown.to_bytes() != me.to_string().as_bytes() {
        return Err(io::Error::other("/proc shows the processes of another pid namespace"));
    }
    KNOWN.store(me, Ordering::Relaxed);
    Ok(())
}

/// Opens a directory to list it.
pub(crate) fn directory(at: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    Ok(openat(at, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Calls `visit` with each process number that `/proc` lists.
pub(crate) fn each_pid(proc: &OwnedFd, mut visit: impl FnMut(u32) -> io::Result<()>) -> io::Result<()> {
    each_number(proc.as_fd(), |pid, _| visit(pid))
}

/// Calls `visit` with each name in a directory that is a number.
pub(crate) fn each_number(
    directory: BorrowedFd<'_>,
    mut visit: impl FnMut(u32, &CStr) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(number) = name.to_str().ok().and_then(|name| name.parse().ok()) {
            visit(number, name)?;
        }
    }
    Ok(())
}

/// Reads what one `read` gives: whole for the small files of `/proc` when `buffer` is large enough.
pub(crate) fn read_once<'b>(at: BorrowedFd<'_>, path: &str, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    let file = openat(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let count = retry(|| rustix::io::read(&file, &mut *buffer))?;
    Ok(&buffer[..count])
}

/// Reads a file to its end into `buffer`, which is emptied first.
pub(crate) fn read_all(at: BorrowedFd<'_>, path: &str, buffer: &mut Vec<u8>) -> io::Result<()> {
    let file = openat(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    buffer.clear();
    loop {
        let start = buffer.len();
        buffer.resize(start + 32 * 1024, 0);
        let count = retry(|| rustix::io::read(&file, &mut buffer[start..]))?;
        buffer.truncate(start + count);
        if count == 0 {
            return Ok(());
        }
    }
}

/// True if the error means that the process ended while we looked.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// True if the error means that we may not look.
pub(crate) fn is_hidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// Repeats a call that a signal interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return Ok(answer?),
        }
    }
}
