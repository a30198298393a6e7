//! The kernel's side of the loop: the descriptors it waits for, signals, the socket, and the watchdog.
//!
//! Promise: a pass of the loop that takes too long replaces the program in place, unless that would lose words that are
//! on their way to the agent.
//! Not here: the reaction to an event ([`super::Keeper::handle`]).

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;
use std::time::Duration;

use berth_host::signals::SignalFd;
use berth_host::watchdog::Watchdog;
use berth_store::killpoint;
use rustix::event::{Timespec, epoll};

use super::{libc_chld, libc_term};

/// A pass of the loop that takes longer than this replaces the program in place.
const STUCK_AFTER: Duration = Duration::from_secs(30);

pub(super) const LISTENER: u64 = 0;
pub(super) const SIGNALS: u64 = 1;
pub(super) const TERMINAL: u64 = 2;
pub(super) const BOUNDARY: u64 = 3;
pub(super) const AGENT_OUT: u64 = 4;
pub(super) const AGENT_IN: u64 = 5;
pub(super) const FIRST_CLIENT: u64 = 16;
/// Tokens from this one on belong to owners.
pub(super) const FIRST_OWNER: u64 = 1 << 63;

/// The descriptors that the loop waits for. Each part registers its own.
#[derive(Clone, Debug)]
pub(super) struct Epoll(Rc<OwnedFd>);

impl Epoll {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Rc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?)))
    }

    pub(super) fn add(&self, fd: impl AsFd, token: u64, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&*self.0, fd, epoll::EventData::new_u64(token), flags)?)
    }

    pub(super) fn add_readable(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        self.add(fd, token, epoll::EventFlags::IN)
    }

    /// Changes the events to wait for at a descriptor; adds the descriptor if it was removed.
    pub(super) fn change(&self, fd: impl AsFd, token: u64, flags: epoll::EventFlags) {
        let data = epoll::EventData::new_u64(token);
        // A hang-up is reported for each registered descriptor, wanted or not: a descriptor without wanted events
        // must not be registered, or the loop spins.
        let _ = match epoll::modify(&*self.0, &fd, data, flags) {
            Ok(()) if flags.is_empty() => epoll::delete(&*self.0, &fd),
            Err(rustix::io::Errno::NOENT) if !flags.is_empty() => epoll::add(&*self.0, &fd, data, flags),
            done => done,
        };
    }

    /// Changes the events to wait for at a registered descriptor whose hang-ups must always be reported.
    pub(super) fn modify(&self, fd: impl AsFd, token: u64, flags: epoll::EventFlags) {
        let _ = epoll::modify(&*self.0, fd, epoll::EventData::new_u64(token), flags);
    }

    pub(super) fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&*self.0, fd);
    }

    /// Waits for events; an interrupted wait has none.
    pub(super) fn wait(&self, events: &mut Vec<epoll::Event>, timeout: Option<&Timespec>) -> io::Result<()> {
        match epoll::wait(&*self.0, rustix::buffer::spare_capacity(events), timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The descriptors of the process itself, and the watchdog over its loop.
#[derive(Debug)]
pub(super) struct EventLoop {
    epoll: Epoll,
    listener: UnixListener,
    signals: SignalFd,
    watchdog: Option<Watchdog>,
    /// True while the program must not be replaced.
    is_undisturbed: bool,
    is_leaving: bool,
}

impl EventLoop {
    pub(super) fn new(listener: UnixListener) -> io::Result<Self> {
        let signals = SignalFd::new(&[libc_chld(), libc_term()])?;
        let epoll = Epoll::new()?;
        epoll.add_readable(&listener, LISTENER)?;
        epoll.add_readable(&signals, SIGNALS)?;
        Ok(Self { epoll, listener, signals, watchdog: None, is_undisturbed: false, is_leaving: false })
    }

    pub(super) fn epoll(&self) -> &Epoll {
        &self.epoll
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// The next connection, if one waits.
    pub(super) fn accept(&self) -> Option<UnixStream> {
        self.listener.accept().ok().map(|(stream, _)| stream)
    }

    /// The next signal, if one waits.
    pub(super) fn signal(&mut self) -> Option<i32> {
        self.signals.read().ok().flatten()
    }

    /// Has the loop end after this pass.
    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    pub(super) fn has_watchdog(&self) -> bool {
        self.watchdog.is_some()
    }

    /// Sets the arguments and descriptors of the next image.
    pub(super) fn install_watchdog(&mut self, args: &[OsString], keep: &[RawFd]) {
        self.watchdog = Watchdog::install(args, keep).ok();
    }

    /// Starts the timeout of a pass of the loop.
    pub(super) fn arm_watchdog(&self) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.arm(killpoint::stuck_after(STUCK_AFTER));
        }
    }

    pub(super) fn disarm_watchdog(&self) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.disarm();
        }
    }

    /// Keeps the program from being replaced, or allows that again. Returns whether it was kept before.
    pub(super) fn set_undisturbed(&mut self, on: bool) -> bool {
        std::mem::replace(&mut self.is_undisturbed, on)
    }

    pub(super) fn is_undisturbed(&self) -> bool {
        self.is_undisturbed
    }

    /// Replaces the program in place. Returns only if that failed, and says why.
    pub(super) fn restart_now(&self) -> String {
        let error = self.watchdog.as_ref().map(Watchdog::restart_now);
        error.map_or_else(|| "there is no watchdog".to_owned(), |error| error.to_string())
    }

    pub(super) fn listener_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}
