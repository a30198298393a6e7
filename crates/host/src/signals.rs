//! Signals of this process: ignored, or read from a descriptor. There are no handlers here.
//!
//! Promise: a signal given to a [`SignalFd`] arrives there and does nothing else.
//! Not here: signals to others (see [`crate::identity::Pidfd`]), the alarm (see [`crate::watchdog`]).
//! Start with [`SignalFd`].

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::checked;

/// Ignores these signals from now on.
pub fn ignore_signals(signals: &[i32]) -> io::Result<()> {
    signals.iter().try_for_each(|&signal| set_disposition(signal, libc::SIG_IGN))
}

/// Unblocks every signal. A new image needs this: the mask comes through exec, and the watchdog
/// starts the new image from a handler, with `SIGALRM` blocked.
pub fn unblock_all_signals() -> io::Result<()> {
    unblock_all_signals_but(&[])
}

/// Unblocks every signal except these, which are blocked: a signal that comes between two images of a program then
/// waits for the [`SignalFd`] of the new image.
pub fn unblock_all_signals_but(signals: &[i32]) -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, &signal_set(signals))
}

/// Lets the kernel reap our children when they end. This is for a process that never waits for a child: without it,
/// an ended child, and an ended orphan that this process adopted, would stay listed until this process ends. A later
/// wait for a child fails with "no child".
pub fn ignore_child_exits() {
    // The numbers are valid, so this cannot fail. If it did, ended children would stay listed, and nothing worse.
    let _ = set_disposition(libc::SIGCHLD, libc::SIG_IGN);
}

/// A descriptor that is readable when one of its signals has come.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks these signals and opens a non-blocking descriptor for them.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let set = signal_set(signals);
        change_mask(libc::SIG_BLOCK, &set)?;
        // The parent may have ignored a signal, and that survives exec. An ignored SIGCHLD would make the kernel
        // throw away the exits of our children.
        signals.iter().try_for_each(|&signal| set_disposition(signal, libc::SIG_DFL))?;
        // SAFETY: `set` is an initialised signal set, and -1 asks for a new descriptor.
        let fd = checked(unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
        // SAFETY: the kernel just made this descriptor and no other code owns it.
        Ok(SignalFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal that has come, if any.
    pub fn read(&self) -> io::Result<Option<i32>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        loop {
            // SAFETY: `info` is writable memory of `size` bytes.
            let count = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
            if usize::try_from(count) == Ok(size) {
                // SAFETY: the kernel filled all of it, and any bytes are a valid value.
                let info = unsafe { info.assume_init() };
                return Ok(Some(info.ssi_signo.cast_signed()));
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set, and `sigaddset` changes an initialised one. `sigaddset` rejects a
    // number that is not a valid signal and leaves the set as it was.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

fn change_mask(how: i32, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is an initialised signal set, and the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn set_disposition(signal: i32, disposition: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all zeroes is a valid `sigaction`: no flags, nothing masked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = disposition;
    // SAFETY: SIG_DFL or SIG_IGN runs no code of ours, and the old action is not asked for.
    checked(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) })?;
    Ok(())
}
