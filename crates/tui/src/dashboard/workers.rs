//! Data sources of the dashboard: threads that watch, and the mailbox for their results.
//!
//! Promise: the drawing thread never waits for another thread, so a keeper that hangs freezes nothing. A result that
//! was not read yet is replaced by a newer one, so the mailbox stays small even if it is not read for long.
//! Not here: the meaning of the results (see `model`).
//! Start with [`start`].

mod measurement;
mod preview_loader;
mod session_watcher;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::Problem;
use berth_core::SessionId;
use berth_verbs::VerbContext;
use rustix::event::{EventfdFlags, eventfd};

use super::model::{FinishedAction, LoadedList, SessionLookup, SessionMeasurement};
use super::preview::SessionPreview;

/// Results that the drawing thread has not read yet.
#[derive(Default, Debug)]
pub(crate) struct DashboardInbox {
    pub(crate) found: BTreeMap<SessionId, SessionLookup>,
    pub(crate) loaded: bool,
    pub(crate) pulses: BTreeMap<SessionId, SessionMeasurement>,
    pub(crate) preview: Option<SessionPreview>,
    pub(crate) done: Vec<FinishedAction>,
    pub(crate) listed: Vec<LoadedList>,
    pub(crate) trouble: Option<Problem>,
}

/// Requests of the drawing thread to the other threads.
#[derive(Clone, Default, Debug)]
struct WorkerRequests {
    /// The session to preview; the number grows with every request.
    look: (u64, Option<SessionId>),
    /// The sessions to measure.
    seen: Vec<MeasuredSession>,
}

/// A session in view, with what a measurement of it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MeasuredSession {
    pub(crate) id: SessionId,
    pub(crate) keeper_pid: u32,
    pub(crate) output_file: Option<String>,
}

/// The mailbox between the drawing thread and the other threads.
#[derive(Debug)]
pub(crate) struct DashboardMailbox {
    inbox: Mutex<DashboardInbox>,
    wanted: Mutex<WorkerRequests>,
    drawer: WakeFd,
    looker: WakeFd,
    pulse: WakeFd,
}

impl DashboardMailbox {
    pub(crate) fn new() -> Result<Self, Problem> {
        let wake = || {
            WakeFd::new().map_err(|error| {
                Problem::refused(format!("cannot open the dashboard: {error}"))
                    .hint("`berth ls` lists the sessions without it")
            })
        };
        Ok(Self {
            inbox: Mutex::default(),
            wanted: Mutex::default(),
            drawer: wake()?,
            looker: wake()?,
            pulse: wake()?,
        })
    }

    /// Changes the inbox, and wakes the drawing thread.
    pub(crate) fn put(&self, leave: impl FnOnce(&mut DashboardInbox)) {
        leave(&mut locked(&self.inbox));
        self.drawer.wake();
    }

    /// Takes all results out of the inbox.
    pub(crate) fn take(&self) -> DashboardInbox {
        self.drawer.clear();
        std::mem::take(&mut locked(&self.inbox))
    }

    /// Requests the preview of a session, from its beginning; of none if `None`.
    pub(crate) fn look_at(&self, id: Option<SessionId>) {
        let mut wanted = locked(&self.wanted);
        wanted.look = (wanted.look.0 + 1, id);
        drop(wanted);
        self.looker.wake();
    }

    /// Sets the sessions in view, which are measured.
    pub(crate) fn measure(&self, seen: Vec<MeasuredSession>) {
        let mut wanted = locked(&self.wanted);
        if wanted.seen != seen {
            wanted.seen = seen;
            drop(wanted);
            self.pulse.wake();
        }
    }

    fn wanted_preview(&self) -> (u64, Option<SessionId>) {
        locked(&self.wanted).look.clone()
    }

    fn seen(&self) -> Vec<MeasuredSession> {
        locked(&self.wanted).seen.clone()
    }
}

impl AsFd for DashboardMailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.drawer.as_fd()
    }
}

/// Starts all watching threads. They end with the process.
pub(crate) fn start(ctx: &Arc<VerbContext>, mailbox: &Arc<DashboardMailbox>) -> Result<(), Problem> {
    /// The body of a thread that lives as long as the dashboard.
    type Part = fn(&Arc<VerbContext>, &DashboardMailbox);
    let parts: [(&str, Part); 3] =
        [("list", session_watcher::watch), ("preview", preview_loader::run), ("pulse", measurement::measure)];
    for (name, part) in parts {
        let (ctx, mailbox) = (Arc::clone(ctx), Arc::clone(mailbox));
        spawn(name, &Arc::clone(&mailbox), move || part(&ctx, &mailbox))?;
    }
    Ok(())
}

/// Runs work beside the drawing thread. If the work panics, the dashboard shows that and goes on.
pub(crate) fn spawn(
    name: &str,
    mailbox: &Arc<DashboardMailbox>,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), Problem> {
    let (mailbox, owned) = (Arc::clone(mailbox), name.to_owned());
    let guarded = move || {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
            let what = format!("a part of the dashboard failed: {owned}");
            let problem = Problem::bug(what).hint("leave and open it again; the sessions go on");
            mailbox.put(|inbox| inbox.trouble = Some(problem));
        }
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(guarded)
        .map(drop)
        .map_err(|error| Problem::refused(format!("cannot start a thread: {error}")))
}

/// An eventfd that wakes a thread from `poll`.
#[derive(Debug)]
struct WakeFd(OwnedFd);

impl WakeFd {
    fn new() -> rustix::io::Result<Self> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Self)
    }

    fn wake(&self) {
        // A full counter wakes the thread as well.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A duration in the form that `poll` takes.
fn timespec(duration: std::time::Duration) -> rustix::event::Timespec {
    rustix::event::Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
