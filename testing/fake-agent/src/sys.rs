//! The calls that std and rustix do not offer safely: fork and signal dispositions.
//!
//! Promise: the rest of this crate is safe code.
//! Relied upon: this program never starts a thread. Every SAFETY comment builds on that.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::script::SignalNumber;

/// The two sides of a fork.
pub(crate) enum ForkRole {
    Parent,
    Child,
}

/// Splits the process in two.
pub(crate) fn fork() -> io::Result<ForkRole> {
    // SAFETY: there is one thread, so no lock can be held by a thread that the child lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkRole::Child),
        _ => Ok(ForkRole::Parent),
    }
}

/// The command will lead a session of its own, as the tools of real agents do.
pub(crate) fn leads_a_session(command: &mut Command) {
    // SAFETY: setsid is async-signal-safe and takes no memory.
    unsafe { command.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(io::Error::from)) };
}

/// From now on this signal does nothing.
pub(crate) fn ignore(signal: SignalNumber) -> io::Result<()> {
    disposition(signal, libc::SIG_IGN)
}

/// From now on every change of the terminal's size is written to stdout.
pub(crate) fn print_size_on_winch() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = print_size;
    disposition(SignalNumber(libc::SIGWINCH), handler as *const () as libc::sighandler_t)
}

/// From now on the number of every signal that can be caught is written to this descriptor, a line each.
pub(crate) fn witness(fd: RawFd) -> io::Result<()> {
    WITNESS.store(fd, Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int) = write_number;
    // Faults of our own are not signals from another process.
    let own = [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
    for signal in (1..=31).filter(|signal| !own.contains(signal)) {
        disposition(SignalNumber(signal), handler as *const () as libc::sighandler_t)?;
    }
    Ok(())
}

/// Gives up the real user of a set-user-id program, so that only its owner is left: a process may take on
/// any user it already is.
pub(crate) fn own_uid() -> io::Result<()> {
    // SAFETY: takes no memory.
    let result = unsafe {
        let owner = libc::geteuid();
        libc::setresuid(owner, owner, owner)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Dies by this signal, even if it was ignored or blocked before.
pub(crate) fn die(signal: SignalNumber) -> io::Error {
    if ![libc::SIGKILL, libc::SIGSTOP].contains(&signal.0)
        && let Err(refused) = disposition(signal, libc::SIG_DFL)
    {
        return refused;
    }
    // SAFETY: the set is initialised by sigemptyset before anything reads it, and raise
    // takes any number; a wrong one is refused.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal.0);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal.0);
    }
    io::Error::other(format!("signal {} did not end the process", signal.0))
}

/// Closes every descriptor above stderr but the one to keep.
pub(crate) fn close_all_but(kept: Option<RawFd>) {
    let ranges = match kept {
        Some(fd) => [(3, fd - 1), (fd + 1, RawFd::MAX)],
        None => [(3, RawFd::MAX), (1, 0)],
    };
    for (first, last) in ranges {
        if first <= last {
            // SAFETY: nothing in this program owns a descriptor above 2 but the one kept:
            // files are opened and closed within one step, and listeners were given away.
            unsafe { libc::close_range(first.cast_unsigned(), last.cast_unsigned(), 0) };
        }
    }
}

fn disposition(signal: SignalNumber, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero is a valid sigaction (no flags, empty mask), and the handler is
    // SIG_IGN, SIG_DFL or a function of the right signature.
    let result = unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal.0, &raw const action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Where [`witness`] writes.
static WITNESS: AtomicI32 = AtomicI32::new(-1);

/// A handler: async-signal-safe calls and a buffer on the stack, nothing else.
extern "C" fn write_number(signal: libc::c_int) {
    let mut line = *b"    0\n";
    line[..5].copy_from_slice(&decimal(u16::try_from(signal).unwrap_or(u16::MAX)));
    // SAFETY: the whole buffer is initialised. A failed write cannot be reported anywhere.
    unsafe { libc::write(WITNESS.load(Ordering::Relaxed), line.as_ptr().cast(), line.len()) };
}

/// The SIGWINCH handler: async-signal-safe calls and a buffer on the stack, nothing else.
extern "C" fn print_size(_: libc::c_int) {
    let mut buffer = [0; 32];
    let mut used = 0;
    let mut put = |bytes: &[u8]| {
        buffer[used..used + bytes.len()].copy_from_slice(bytes);
        used += bytes.len();
    };
    // SAFETY: all-zero is a valid winsize, and the kernel writes no more than one.
    let size = unsafe {
        let mut size = std::mem::zeroed::<libc::winsize>();
        libc::ioctl(0, libc::TIOCGWINSZ, &raw mut size);
        size
    };
    put(b"size ");
    put(decimal(size.ws_col).trim_ascii_start());
    put(b"x");
    put(decimal(size.ws_row).trim_ascii_start());
    put(b"\n");
    // SAFETY: `used` bytes of the buffer are initialised. A failed write cannot be reported anywhere.
    unsafe { libc::write(1, buffer.as_ptr().cast(), used) };
}

/// Five digits, padded with spaces: formatting without the allocator.
fn decimal(mut number: u16) -> [u8; 5] {
    let mut digits = *b"    0";
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit fits");
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits
}
