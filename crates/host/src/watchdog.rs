//! In-place replacement of a stuck process.
//!
//! A process that stops turning its event loop is replaced by a fresh image of the same program, in the
//! same process: its pid, its children and the descriptors in `keep` (and so its locks) stay.
//!
//! Promise: the handler only uses what was prepared in [`Watchdog::install`] and what POSIX allows in a
//! handler. If the exec fails, everything is as before, except that a blocking call was interrupted.
//! Not here: what the new image does with what it inherits, apart from [`inherited_descriptor`]. It must call
//! [`crate::signals::unblock_all_signals`], because it starts with `SIGALRM` blocked.
//! Start with [`Watchdog::install`].

use std::ffi::{CString, OsStr, OsString, c_char, c_int};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use crate::checked;

/// The data that the handler needs. Null until a watchdog is installed; the plan it points to is never freed.
static PLAN: AtomicPtr<ReplacementPlan> = AtomicPtr::new(ptr::null_mut());

struct ReplacementPlan {
    args: Vec<*const c_char>,
    env: Vec<*const c_char>,
    keep: Vec<RawFd>,
}

/// The installed watchdog of this process.
#[derive(Debug)]
pub struct Watchdog(());

impl Watchdog {
    /// Prepares to start `/proc/self/exe` again with `args` (`argv[0]` included), the environment of
    /// now and the descriptors `keep`, when an alarm comes. Nothing is armed yet. The memory this takes
    /// (a few kilobytes) is never given back: install once, and again only when the descriptors change.
    pub fn install(args: &[OsString], keep: &[RawFd]) -> io::Result<Self> {
        let args = leaked(args.iter().map(|arg| arg.as_bytes().to_vec()))?;
        let env = leaked(std::env::vars_os().map(|(key, value)| {
            [key.as_os_str(), OsStr::new("="), value.as_os_str()].map(OsStr::as_bytes).concat()
        }))?;
        let plan = Box::leak(Box::new(ReplacementPlan { args, env, keep: keep.to_vec() }));
        PLAN.store(plan, Ordering::Release);

        // SAFETY: all zeroes is a valid `sigaction`. No SA_RESTART: should the exec fail, the call
        // that is stuck at least returns.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_alarm as extern "C" fn(c_int) as usize;
        // SAFETY: the handler is safe to run at any moment, see there. The old action is not asked for.
        checked(unsafe { libc::sigaction(libc::SIGALRM, &action, ptr::null_mut()) })?;
        Ok(Watchdog(()))
    }

    /// Replaces the process unless [`Watchdog::disarm`] or another `arm` comes within `limit`.
    pub fn arm(&self, limit: Duration) {
        // A zero would mean never.
        set_timer(limit.max(Duration::from_micros(1)));
    }

    /// Cancels the alarm until the next [`Watchdog::arm`].
    pub fn disarm(&self) {
        set_timer(Duration::ZERO);
    }

    /// Replaces the process now. Returns only if that fails. Destructors do not run.
    pub fn restart_now(&self) -> io::Error {
        // A timer survives exec, and the new image has no handler yet: the alarm would kill it.
        self.disarm();
        restart();
        io::Error::last_os_error()
    }
}

/// Takes over a descriptor that this image inherited through exec, and marks it close-on-exec. Rejects a number that
/// cannot have been inherited: not open, or standard input, output or error, or already close-on-exec (opened by this
/// image, or taken over before).
pub fn inherited_descriptor(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes no memory.
    let flags = checked(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    if fd < 3 || flags & libc::FD_CLOEXEC != 0 {
        let problem = format!("descriptor {fd} did not come through exec");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    // SAFETY: takes no memory.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFD, flags | libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open. Everything this image opens closes on exec (std and this crate see to it), and
    // so does a descriptor that this function returned before, so no other code owns it yet.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Runs at any moment, in the middle of anything: it may use system calls and prepared memory only.
extern "C" fn on_alarm(_signal: c_int) {
    // SAFETY: always points to this thread's error number. The interrupted code may be about to look.
    let errno = unsafe { *libc::__errno_location() };
    restart();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns only when it fails, with the reason in `errno`.
fn restart() {
    // SAFETY: null, or a plan that `install` leaked whole before it stored the pointer.
    let Some(plan) = (unsafe { PLAN.load(Ordering::Acquire).as_ref() }) else { return };
    set_close_on_exec(&plan.keep, 0);
    // SAFETY: both lists end in null and point to C strings that are never freed.
    unsafe { libc::execve(c"/proc/self/exe".as_ptr(), plan.args.as_ptr(), plan.env.as_ptr()) };
    // SAFETY: always points to this thread's error number.
    let errno = unsafe { *libc::__errno_location() };
    set_close_on_exec(&plan.keep, libc::FD_CLOEXEC);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn set_close_on_exec(fds: &[RawFd], flag: c_int) {
    for &fd in fds {
        // SAFETY: takes no memory. A descriptor that was closed meanwhile is refused; the new image will miss it.
        unsafe { libc::fcntl(fd, libc::F_SETFD, flag) };
    }
}

fn set_timer(value: Duration) {
    let nothing = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let value = libc::timeval {
        tv_sec: libc::time_t::try_from(value.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: value.subsec_micros().into(),
    };
    let timer = libc::itimerval { it_interval: nothing, it_value: value };
    // SAFETY: `timer` is readable, and the old one is not asked for. It fails only for values out of
    // range, which these are not.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()) };
}

/// Pointers to C strings that are never freed, with a null at the end.
fn leaked(texts: impl Iterator<Item = Vec<u8>>) -> io::Result<Vec<*const c_char>> {
    let mut pointers = Vec::new();
    for text in texts {
        pointers.push(CString::new(text)?.into_raw().cast_const());
    }
    pointers.push(ptr::null());
    Ok(pointers)
}
