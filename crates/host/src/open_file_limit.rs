//! The limit on open files of this process.
//!
//! Promise: a process that raises its own limit does not pass it on. Programs started through [`crate::spawn`] begin
//! with the limit that was there before: those that use `select` break beyond 1024.
//! Not here: closing descriptors, and which limit a process needs.
//! Start with [`raise_limit`].

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checked;

/// The soft limit before [`raise_limit`]; zero while it is unchanged.
static BEFORE: AtomicU64 = AtomicU64::new(0);

/// Raises this process's own limit to `wanted`, or as far as the hard limit allows. Returns the new limit.
pub fn raise_limit(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    let raised = wanted.min(limit.rlim_max);
    if raised <= limit.rlim_cur {
        return Ok(limit.rlim_cur);
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = raised;
    // SAFETY: `limit` is readable.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    let _ = BEFORE.compare_exchange(0, before, Ordering::Relaxed, Ordering::Relaxed);
    Ok(raised)
}

/// Puts the limit back for a program that is about to be run. System calls only: it runs between clone and exec.
pub(crate) fn restore_limit() {
    let before = BEFORE.load(Ordering::Relaxed);
    if before == 0 {
        return;
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable, then readable. If the call fails, the program may open more than it expects.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = before.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
