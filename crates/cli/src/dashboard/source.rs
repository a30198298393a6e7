//! What feeds the dashboard: threads that watch, and one box where they leave what they found.
//!
//! Promise: the drawing thread never waits for any of them, so a keeper that is stuck freezes nothing. What
//! nobody has read yet is replaced by what is newer, so the box stays small however long nobody looks.
//! Not here: what it means (see `model`).
//! Start with [`start`].

mod looker;
mod pulse;
mod watcher;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::{Code, Problem};
use berth_core::SessionId;
use rustix::event::{EventfdFlags, eventfd};

use super::model::{Done, Found, Listed, Pulse};
use super::preview::Preview;
use crate::ctx::Ctx;

/// What was found and not read yet.
#[derive(Default, Debug)]
pub(crate) struct Inbox {
    pub(crate) found: BTreeMap<SessionId, Found>,
    pub(crate) loaded: bool,
    pub(crate) pulses: BTreeMap<SessionId, Pulse>,
    pub(crate) preview: Option<Preview>,
    pub(crate) done: Vec<Done>,
    pub(crate) listed: Vec<Listed>,
    pub(crate) trouble: Option<Problem>,
}

/// What the drawing thread wants to know more about.
#[derive(Clone, Default, Debug)]
struct Wanted {
    /// Whose preview. The number grows with every wish.
    look: (u64, Option<SessionId>),
    /// What is measured.
    seen: Vec<Seen>,
}

/// A session in view, with what is needed to measure it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) id: SessionId,
    pub(crate) keeper_pid: u32,
    pub(crate) output_file: Option<String>,
}

/// The box between the drawing thread and the others.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inbox: Mutex<Inbox>,
    wanted: Mutex<Wanted>,
    drawer: Wake,
    looker: Wake,
    pulse: Wake,
}

impl Mailbox {
    pub(crate) fn new() -> Result<Self, Problem> {
        let wake = || {
            Wake::new().map_err(|error| {
                Problem::new(Code::Refused, format!("cannot open the dashboard: {error}"))
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

    /// Leaves something for the drawing thread.
    pub(crate) fn put(&self, leave: impl FnOnce(&mut Inbox)) {
        leave(&mut locked(&self.inbox));
        self.drawer.wake();
    }

    /// Takes out everything there is.
    pub(crate) fn take(&self) -> Inbox {
        self.drawer.clear();
        std::mem::take(&mut locked(&self.inbox))
    }

    /// Asks for the preview of a session, from its beginning; `None` for nobody's.
    pub(crate) fn look_at(&self, id: Option<SessionId>) {
        let mut wanted = locked(&self.wanted);
        wanted.look = (wanted.look.0 + 1, id);
        drop(wanted);
        self.looker.wake();
    }

    /// Says who is in view.
    pub(crate) fn measure(&self, seen: Vec<Seen>) {
        let mut wanted = locked(&self.wanted);
        if wanted.seen != seen {
            wanted.seen = seen;
            drop(wanted);
            self.pulse.wake();
        }
    }

    fn look(&self) -> (u64, Option<SessionId>) {
        locked(&self.wanted).look.clone()
    }

    fn seen(&self) -> Vec<Seen> {
        locked(&self.wanted).seen.clone()
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.drawer.as_fd()
    }
}

/// Starts everything that watches. It ends with the process.
pub(crate) fn start(ctx: &Arc<Ctx>, mailbox: &Arc<Mailbox>) -> Result<(), Problem> {
    /// Something that goes on as long as the dashboard does.
    type Part = fn(&Arc<Ctx>, &Mailbox);
    let parts: [(&str, Part); 3] =
        [("list", watcher::watch), ("preview", looker::look), ("pulse", pulse::measure)];
    for (name, part) in parts {
        let (ctx, mailbox) = (Arc::clone(ctx), Arc::clone(mailbox));
        spawn(name, &Arc::clone(&mailbox), move || part(&ctx, &mailbox))?;
    }
    Ok(())
}

/// Runs something beside the drawing thread. If it panics, that is said and nothing else happens.
pub(crate) fn spawn(
    name: &str,
    mailbox: &Arc<Mailbox>,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), Problem> {
    let (mailbox, owned) = (Arc::clone(mailbox), name.to_owned());
    let guarded = move || {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
            let what = format!("a part of the dashboard failed: {owned}");
            let problem = Problem::new(Code::Bug, what).hint("leave and open it again; the sessions go on");
            mailbox.put(|inbox| inbox.trouble = Some(problem));
        }
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(guarded)
        .map(drop)
        .map_err(|error| Problem::new(Code::Refused, format!("cannot start a thread: {error}")))
}

/// Something to be woken by in a poll.
#[derive(Debug)]
struct Wake(OwnedFd);

impl Wake {
    fn new() -> rustix::io::Result<Self> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Self)
    }

    fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A duration as a poll wants it.
fn timespec(duration: std::time::Duration) -> rustix::event::Timespec {
    rustix::event::Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
