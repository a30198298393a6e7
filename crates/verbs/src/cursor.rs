//! A cursor over a session: its events from a number on, each once and in order, and the keeper's notices.
//!
//! Promise: no event is skipped or repeated when the keeper leaves, is killed or replaces its program: what a client missed
//! is read from disk, from the next number on and never before it. A cursor without a keeper looks for one with a back-off,
//! and costs nothing in between. It starts nothing, and changes nothing unless it is told to ([`Cursor::healing`]).
//! Not here: what to make of the news, starting a session again (see `turns::bring_back`).
//! Start with [`Cursor::next`]. A client that waits for more than one thing polls [`Cursor::fd`] until [`Cursor::due`], then
//! calls [`Cursor::look_if_due`] (which may block) and [`Cursor::take`] (which does not wait).
//! To stop, drop the cursor.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use berth_api::client::Arrival;
use berth_api::message::{Answer, Notice, Request};
use berth_api::record::Entry;
use berth_api::{Code, Connection, Problem, Status};
use berth_core::SessionId;
use berth_host::socket::{self, QUEUE_PATIENCE};
use berth_keeper::recover;
use berth_store::view;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ctx::{CONNECT_PATIENCE, Ctx};

/// The pauses before a keeper that went away is connected to again: a keeper that drops every client at once must not
/// cost a core.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(200));
/// A connection that lasted this long was a good one: the next one is made at once.
const STEADY: Duration = Duration::from_millis(500);
/// The pause before a keeper that serves too many clients is asked again.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);
/// How long a keeper may take to answer the subscription before that is told.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// How much of a journal is read at a time.
const PAGE_BYTES: usize = 1 << 20;

/// What a cursor tells.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// A keeper tells from now on; its status at that moment. Events up to it that the cursor has not told follow.
    Connected(Box<Status>),
    /// An event. The number is zero if the keeper repeats an open question to a client that follows a turn.
    #[expect(missing_docs, reason = "as in `Notice::Event`")]
    Event { seq: u64, entry: Box<Entry> },
    /// Any other notice: output, a piece of an answer, what the agent does.
    Notice(Notice),
    /// The answer to a request of [`Cursor::ask`], or the receipt of the turn that is followed.
    Answer(Answer),
    /// The keeper has not answered the subscription in time. It may yet.
    Silent,
    /// The keeper refuses the subscription, because it serves too many. The cursor tries again.
    Refused(Problem),
    /// The connection ended: the keeper leaves, died or replaces its program, or the cursor gave it up because the journal
    /// cannot be read. The cursor connects again.
    Lost,
    /// No keeper has the session, and every event on disk has been told. The status by the files; or why they cannot be
    /// read. Told at every look.
    NoKeeper(Result<Box<Status>, Problem>),
    /// The keeper cannot be reached, or its journal cannot be read. The cursor tries again.
    Trouble(Problem),
    /// The session was purged. Nothing else will be told.
    Purged(Problem),
}

/// A place in a session's events, and the way to the ones behind it.
#[derive(Debug)]
pub struct Cursor {
    ctx: Ctx,
    id: SessionId,
    subject: Subject,
    link: Link,
    /// What is to be told.
    ready: VecDeque<News>,
    /// Events up to this number may be on disk and were not told.
    behind: Option<u64>,
    /// Why the journal could not be read the last time: told once, however often the read is repeated.
    unreadable: Option<Problem>,
    /// What is to be told once everything on disk was.
    absent: Option<Result<Box<Status>, Problem>>,
    pause: Duration,
    /// How often a session without a keeper is looked at.
    pace: Duration,
    /// Since when a keeper that holds the session cannot be connected to.
    away_since: Option<Instant>,
    healing: Healing,
}

/// Whether a run whose keeper died is brought to its end.
#[derive(Clone, Copy, Debug)]
enum Healing {
    /// Another part of the program does it.
    Never,
    /// Once for each run; the last one it was tried for.
    Once { tried: Option<u64> },
}

/// What is subscribed to.
#[derive(Clone, Copy, Debug)]
enum Subject {
    /// Events from this number on, and all notices.
    Events { next: u64 },
    /// Events as they happen, and all notices.
    News,
    /// Events and notices of this turn.
    Turn(u64),
}

#[derive(Debug)]
enum Link {
    Away { look_at: Instant },
    On { keeper: Connection, since: Instant, subscription: Subscription },
    Purged(Problem),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subscription {
    Asked,
    Silent,
    Answered,
}

impl Cursor {
    pub(crate) fn events(ctx: Ctx, id: SessionId, from: u64) -> Self {
        Self::new(ctx, id, Subject::Events { next: from.max(1) })
    }

    pub(crate) fn news(ctx: Ctx, id: SessionId) -> Self {
        Self::new(ctx, id, Subject::News)
    }

    pub(crate) fn of_turn(ctx: Ctx, id: SessionId, turn: u64, connection: Option<Connection>) -> Self {
        let mut cursor = Self::new(ctx, id, Subject::Turn(turn));
        if let Some(connection) = connection {
            cursor.go_on_with(connection);
        }
        cursor
    }

    fn new(ctx: Ctx, id: SessionId, subject: Subject) -> Self {
        Self {
            ctx,
            id,
            subject,
            link: Link::Away { look_at: Instant::now() },
            ready: VecDeque::new(),
            behind: None,
            unreadable: None,
            absent: None,
            pause: PAUSES.0,
            pace: PAUSES.1,
            away_since: None,
            healing: Healing::Never,
        }
    }

    /// Sets how often a session without a keeper is looked at.
    pub fn every(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Brings a run whose keeper died to its end, and tells that. Two clients that do so at once get into each other's way:
    /// a client that asks for the status or has a list does not need this, because the status and the list do it.
    pub fn healing(mut self) -> Self {
        self.healing = Healing::Once { tried: None };
        self
    }

    /// Waits for news; `None` when the time is up, however much more there may be. After the purge of the session, that is
    /// told at every call.
    pub fn next(&mut self, until: Option<Instant>) -> Option<News> {
        loop {
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return self.ready.pop_front();
            }
            self.look_if_due();
            if let Some(news) = self.take() {
                return Some(news);
            }
            if let Link::Purged(problem) = &self.link {
                return Some(News::Purged(problem.clone()));
            }
            let due = [until, self.due()].into_iter().flatten().min();
            self.wait(due.map(|due| due.saturating_duration_since(Instant::now())));
        }
    }

    fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut fds: Vec<PollFd<'_>> =
            self.fd().into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // After a signal the caller looks again.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// What is there to be told; nothing is waited for. A cursor that is behind reads a piece of the journal for it.
    pub fn take(&mut self) -> Option<News> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return Some(news);
            }
            if let Some(to) = self.behind {
                self.catch_up(to);
                continue;
            }
            if let Some(absent) = self.absent.take() {
                return Some(News::NoKeeper(absent));
            }
            let Link::On { keeper, since, subscription } = &mut self.link else { return None };
            match keeper.next() {
                Ok(Some(arrival)) => self.hear(arrival),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if *subscription == Subscription::Asked && since.elapsed() >= ANSWER_PATIENCE {
                        *subscription = Subscription::Silent;
                        self.behind = self.numbered().then_some(u64::MAX);
                        self.ready.push_back(News::Silent);
                        continue;
                    }
                    return None;
                }
                Ok(None) | Err(_) => self.lost(),
            }
        }
    }

    /// When there is something to do although [`Cursor::fd`] has nothing to read.
    pub fn due(&self) -> Option<Instant> {
        if !self.ready.is_empty() || self.behind.is_some() || self.absent.is_some() {
            return Some(Instant::now());
        }
        match &self.link {
            Link::Away { look_at } => Some(*look_at),
            Link::On { keeper, .. } if keeper.has_more() => Some(Instant::now()),
            Link::On { since, subscription: Subscription::Asked, .. } => Some(*since + ANSWER_PATIENCE),
            Link::On { .. } | Link::Purged(_) => None,
        }
    }

    /// The connection to the keeper, if there is one: readable when there is news.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            Link::On { keeper, .. } => Some(keeper.as_fd()),
            Link::Away { .. } | Link::Purged(_) => None,
        }
    }

    /// Whether [`Cursor::look_if_due`] has something to do.
    pub fn is_look_due(&self) -> bool {
        let idle = self.ready.is_empty() && self.behind.is_none() && self.absent.is_none();
        idle && matches!(self.link, Link::Away { look_at } if look_at <= Instant::now())
    }

    /// Connects to the keeper, or looks at the files if there is none, when that is due. May block for as long as a keeper
    /// takes to accept.
    pub fn look_if_due(&mut self) {
        if self.is_look_due() {
            self.look();
        }
    }

    /// Makes the next look due: the caller knows that the session changed.
    pub fn look_soon(&mut self) {
        if let Link::Away { look_at } = &mut self.link {
            *look_at = Instant::now();
        }
    }

    /// Asks the keeper for something; the answer comes as [`News::Answer`]. Without a keeper nothing is asked.
    pub fn ask(&mut self, request: Request) {
        if let Link::On { keeper, .. } = &mut self.link
            && keeper.send(request).is_err()
        {
            self.lost();
        }
    }

    /// Goes on with a connection that the caller made: it has just started the session again.
    pub fn go_on_with(&mut self, mut keeper: Connection) {
        let request = match self.subject {
            // The past is read from disk: the keeper has better things to do.
            Subject::Events { .. } | Subject::News => Request::Watch { from: u64::MAX },
            Subject::Turn(turn) => Request::Follow { turn },
        };
        let sent = keeper.set_nonblocking().and_then(|()| keeper.send(request));
        (self.absent, self.away_since) = (None, None);
        self.link = Link::On { keeper, since: Instant::now(), subscription: Subscription::Asked };
        if sent.is_err() {
            self.lost();
        }
    }

    fn look(&mut self) {
        let session = self.ctx.home.session(&self.id);
        let opened = session.connect(self.ctx.asker(), QUEUE_PATIENCE).and_then(checked);
        let error = match opened {
            Ok(keeper) => return self.go_on_with(keeper),
            Err(error) => error,
        };
        let is_absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
        if is_absent && !self.ctx.has_keeper(&self.id) {
            return self.look_at_files();
        }
        // It starts, leaves or replaces its program.
        let since = *self.away_since.get_or_insert_with(Instant::now);
        if !is_absent || since.elapsed() > CONNECT_PATIENCE {
            self.away_since = None;
            self.ready.push_back(News::Trouble(self.ctx.unreachable(&self.id, &error)));
        }
        self.back_off();
    }

    fn look_at_files(&mut self) {
        self.away_since = None;
        self.link = Link::Away { look_at: Instant::now() + self.pace };
        let looked = self.status_by_files();
        match &looked {
            Err(problem) if problem.code == Code::NotFound && self.is_purged() => {
                self.ready.push_back(News::Purged(problem.clone()));
                self.link = Link::Purged(problem.clone());
                return;
            }
            Ok(status) => {
                let is_behind = matches!(self.subject, Subject::Events { next } if next <= status.seq);
                self.behind = is_behind.then_some(u64::MAX);
            }
            Err(_) => {}
        }
        self.absent = Some(looked);
    }

    fn status_by_files(&mut self) -> Result<Box<Status>, Problem> {
        let (home, id) = (&self.ctx.home, &self.id);
        let mut status = view::status(home, id)?;
        if let Healing::Once { tried } = &mut self.healing
            && status.is_unrecorded_loss()
            && tried.replace(status.epoch) != Some(status.epoch)
        {
            recover::heal(home, id)?;
            status = view::status(home, id)?;
        }
        Ok(Box::new(status))
    }

    /// Whether the session is no more. One whose place cannot be looked at may be there all the same.
    fn is_purged(&self) -> bool {
        self.ctx.home.is_purged(&self.id)
    }

    /// Reads the next events from disk, up to number `to`.
    fn catch_up(&mut self, to: u64) {
        let Subject::Events { next } = &mut self.subject else {
            self.behind = None;
            return;
        };
        let read = self.ctx.home.session(&self.id).read_range(*next, to, PAGE_BYTES);
        match read {
            Ok(events) => {
                self.unreadable = None;
                // What is not there yet is told by the keeper when it is.
                self.behind = self.behind.filter(|_| !events.is_empty());
                for event in events {
                    *next = event.seq().0 + 1;
                    let entry = Box::new(event.get().entry());
                    self.ready.push_back(News::Event { seq: event.seq().0, entry });
                }
                self.behind = self.behind.filter(|to| *next <= *to);
            }
            Err(problem) => {
                self.behind = None;
                if let Some(absent) = &mut self.absent {
                    *absent = Err(problem);
                    return;
                }
                if self.unreadable.as_ref() != Some(&problem) {
                    self.ready.push_back(News::Trouble(problem.clone()));
                    self.unreadable = Some(problem);
                }
                // The keeper may have nothing to tell for hours: the next connection reads the journal again.
                if matches!(self.link, Link::On { .. }) {
                    self.lost();
                }
            }
        }
    }

    fn hear(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Answer(answer) => self.answered(answer),
            Arrival::Notice(Notice::Event { seq, entry }) => match &mut self.subject {
                Subject::Events { next } if seq > *next => self.behind = Some(seq),
                Subject::Events { next } if seq == *next => {
                    *next += 1;
                    self.ready.push_back(News::Event { seq, entry });
                }
                Subject::Events { .. } if seq > 0 => {}
                Subject::Events { .. } | Subject::News | Subject::Turn(_) => {
                    self.ready.push_back(News::Event { seq, entry });
                }
            },
            Arrival::Notice(notice) => self.ready.push_back(News::Notice(notice)),
            Arrival::Output(_) | Arrival::Screen(_) => {}
        }
    }

    fn answered(&mut self, answer: Answer) {
        let Link::On { subscription, .. } = &mut self.link else { return };
        let is_first = std::mem::replace(subscription, Subscription::Answered) != Subscription::Answered;
        self.ready.push_back(match answer {
            Answer::Problem { problem } if is_first => {
                self.link = Link::Away { look_at: Instant::now() + REFUSED_PAUSE };
                self.behind = self.numbered().then_some(u64::MAX);
                News::Refused(problem)
            }
            Answer::Done { status } if is_first => {
                self.behind = self.numbered().then_some(status.seq);
                if let Subject::Events { next } = self.subject {
                    self.behind = self.behind.filter(|last| next <= *last);
                }
                News::Connected(status)
            }
            answer => News::Answer(answer),
        });
    }

    fn numbered(&self) -> bool {
        matches!(self.subject, Subject::Events { .. })
    }

    fn lost(&mut self) {
        if let Link::On { since, .. } = &self.link
            && since.elapsed() > STEADY
        {
            self.pause = PAUSES.0;
        }
        self.ready.push_back(News::Lost);
        self.back_off();
    }

    fn back_off(&mut self) {
        self.link = Link::Away { look_at: Instant::now() + self.pause };
        self.pause = (self.pause * 2).min(PAUSES.1);
    }
}

/// Rejects a stranger that listens in place of a keeper: a keeper runs as this account, or as root.
fn checked(keeper: Connection) -> io::Result<Connection> {
    let (peer, me) = (socket::peer(&keeper)?.uid, rustix::process::geteuid().as_raw());
    if peer == me || peer == 0 || me == 0 {
        return Ok(keeper);
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the process that listens there is user {peer}"),
    ))
}
