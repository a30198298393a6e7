//! A cursor over a session: its events from a number on, each once and in order, and the keeper's notices.
//!
//! Promise: no event is skipped or repeated when the keeper leaves, is killed or replaces its program: events that a
//! client missed are read from disk, from the next number on and never before it. A cursor without a keeper looks for
//! one with a back-off, and costs nothing in between. The cursor starts nothing, and changes nothing unless the caller
//! asks for it ([`SessionCursor::healing`]).
//! Not here: the reaction to events, starting a session again (see `turns::ensure_keeper`).
//! Start with [`SessionCursor::next`]. A client that waits for more than one thing polls [`SessionCursor::fd`] until [`SessionCursor::due`], then
//! calls [`SessionCursor::look_if_due`] (which may block) and [`SessionCursor::take`] (which does not wait).
//! To stop, drop the cursor.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use berth_api::client::KeeperMessage;
use berth_api::message::{KeeperAnswer, KeeperNotice, KeeperRequest};
use berth_api::record::EventEntry;
use berth_api::{KeeperConnection, Problem, ProblemCode, SessionStatus};
use berth_core::SessionId;
use berth_host::socket::{self, CONNECT_TIMEOUT};
use berth_keeper::recover;
use berth_store::session_status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::context::{CONNECT_PATIENCE, VerbContext};

/// Back-off before the cursor reconnects to a keeper that went away: a keeper that drops every client at once must not
/// cost a core.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(200));
/// A connection that lasted this long was stable: the next attempt is made at once.
const STEADY: Duration = Duration::from_millis(500);
/// Pause before a retry at a keeper that serves too many clients.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);
/// Time that a keeper may take to answer the subscription before the cursor reports [`CursorNews::Silent`].
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// Limit for one read of a journal.
const PAGE_BYTES: usize = 1 << 20;

/// One report of a cursor.
#[derive(Clone, PartialEq, Debug)]
pub enum CursorNews {
    /// The cursor is subscribed to a keeper; the keeper's status at that moment. Events up to that status that the
    /// cursor has not reported follow.
    Connected(Box<SessionStatus>),
    /// An event. The number is zero if the keeper repeats an open question to a client that follows a turn.
    #[expect(missing_docs, reason = "as in `Notice::Event`")]
    Event { seq: u64, entry: Box<EventEntry> },
    /// Any other notice: output, a piece of an answer, an activity of the agent.
    Notice(KeeperNotice),
    /// The answer to a request of [`SessionCursor::ask`], or the receipt of the turn that is followed.
    Answer(KeeperAnswer),
    /// The keeper has not answered the subscription in time. The answer may still come.
    Silent,
    /// The keeper refuses the subscription, because it serves too many. The cursor tries again.
    Refused(Problem),
    /// The connection ended: the keeper leaves, died or replaces its program, or the cursor gave it up because the journal
    /// cannot be read. The cursor connects again.
    Lost,
    /// No keeper has the session, and every event on disk was reported. Carries the status from the files, or why they
    /// cannot be read. Reported at every poll.
    NoKeeper(Result<Box<SessionStatus>, Problem>),
    /// The keeper cannot be reached, or its journal cannot be read. The cursor tries again.
    Trouble(Problem),
    /// The session was purged. This is the last report.
    Purged(Problem),
}

/// A position in a session's events, with a connection for those that follow.
#[derive(Debug)]
pub struct SessionCursor {
    ctx: VerbContext,
    id: SessionId,
    subject: SubscriptionTopic,
    link: KeeperLink,
    /// Reports that are ready for the caller.
    ready: VecDeque<CursorNews>,
    /// Events up to this number may be on disk and were not reported yet.
    behind: Option<u64>,
    /// Error of the last failed read of the journal: reported once, however often the read is retried.
    unreadable: Option<Problem>,
    /// Report for the time when every event on disk was reported.
    absent: Option<Result<Box<SessionStatus>, Problem>>,
    pause: Duration,
    /// Polling interval for a session without a keeper.
    pace: Duration,
    /// Begin of the time in which a keeper holds the session and does not accept connections.
    away_since: Option<Instant>,
    healing: RecoveryMode,
}

/// Policy of the cursor for a run whose keeper died.
#[derive(Clone, Copy, Debug)]
enum RecoveryMode {
    /// Another part of the program ends such runs.
    Never,
    /// Tries once for each run; `tried` is the last run that was tried.
    Once { tried: Option<u64> },
}

/// Subject of the subscription.
#[derive(Clone, Copy, Debug)]
enum SubscriptionTopic {
    /// Events from this number on, and all notices.
    Events { next: u64 },
    /// Events as they happen, and all notices.
    News,
    /// Events and notices of this turn.
    Turn(u64),
}

#[derive(Debug)]
enum KeeperLink {
    Away { look_at: Instant },
    On { keeper: KeeperConnection, since: Instant, subscription: SubscriptionState },
    Purged(Problem),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SubscriptionState {
    Asked,
    Silent,
    Answered,
}

impl SessionCursor {
    pub(crate) fn events(ctx: VerbContext, id: SessionId, from: u64) -> Self {
        Self::new(ctx, id, SubscriptionTopic::Events { next: from.max(1) })
    }

    pub(crate) fn news(ctx: VerbContext, id: SessionId) -> Self {
        Self::new(ctx, id, SubscriptionTopic::News)
    }

    pub(crate) fn of_turn(
        ctx: VerbContext,
        id: SessionId,
        turn: u64,
        connection: Option<KeeperConnection>,
    ) -> Self {
        let mut cursor = Self::new(ctx, id, SubscriptionTopic::Turn(turn));
        if let Some(connection) = connection {
            cursor.use_connection(connection);
        }
        cursor
    }

    fn new(ctx: VerbContext, id: SessionId, subject: SubscriptionTopic) -> Self {
        Self {
            ctx,
            id,
            subject,
            link: KeeperLink::Away { look_at: Instant::now() },
            ready: VecDeque::new(),
            behind: None,
            unreadable: None,
            absent: None,
            pause: PAUSES.0,
            pace: PAUSES.1,
            away_since: None,
            healing: RecoveryMode::Never,
        }
    }

    /// Sets the polling interval for a session without a keeper.
    pub fn every(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Makes the cursor end a run whose keeper died, and report that. Two clients that do so at once disturb each
    /// other: a client that asks for the status or follows a list does not need this, because the status and the list
    /// do it.
    pub fn healing(mut self) -> Self {
        self.healing = RecoveryMode::Once { tried: None };
        self
    }

    /// Waits for the next report; `None` when the time is up, even if more reports are ready. After the purge of the
    /// session, every call returns [`CursorNews::Purged`].
    pub fn next(&mut self, until: Option<Instant>) -> Option<CursorNews> {
        loop {
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return self.ready.pop_front();
            }
            self.look_if_due();
            if let Some(news) = self.take() {
                return Some(news);
            }
            if let KeeperLink::Purged(problem) = &self.link {
                return Some(CursorNews::Purged(problem.clone()));
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
        // After a signal the caller checks again.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// The next ready report, without waiting. A cursor that is behind reads a piece of the journal for it.
    pub fn take(&mut self) -> Option<CursorNews> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return Some(news);
            }
            if let Some(to) = self.behind {
                self.catch_up(to);
                continue;
            }
            if let Some(absent) = self.absent.take() {
                return Some(CursorNews::NoKeeper(absent));
            }
            let KeeperLink::On { keeper, since, subscription } = &mut self.link else { return None };
            match keeper.next() {
                Ok(Some(arrival)) => self.hear(arrival),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if *subscription == SubscriptionState::Asked && since.elapsed() >= ANSWER_PATIENCE {
                        *subscription = SubscriptionState::Silent;
                        self.behind = self.numbered().then_some(u64::MAX);
                        self.ready.push_back(CursorNews::Silent);
                        continue;
                    }
                    return None;
                }
                Ok(None) | Err(_) => self.lost(),
            }
        }
    }

    /// Time at which the cursor has work to do even if [`SessionCursor::fd`] is not readable.
    pub fn due(&self) -> Option<Instant> {
        if !self.ready.is_empty() || self.behind.is_some() || self.absent.is_some() {
            return Some(Instant::now());
        }
        match &self.link {
            KeeperLink::Away { look_at } => Some(*look_at),
            KeeperLink::On { keeper, .. } if keeper.has_more() => Some(Instant::now()),
            KeeperLink::On { since, subscription: SubscriptionState::Asked, .. } => {
                Some(*since + ANSWER_PATIENCE)
            }
            KeeperLink::On { .. } | KeeperLink::Purged(_) => None,
        }
    }

    /// The connection to the keeper, if there is one: readable when there are reports.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            KeeperLink::On { keeper, .. } => Some(keeper.as_fd()),
            KeeperLink::Away { .. } | KeeperLink::Purged(_) => None,
        }
    }

    /// True if [`SessionCursor::look_if_due`] has something to do.
    pub fn is_look_due(&self) -> bool {
        let idle = self.ready.is_empty() && self.behind.is_none() && self.absent.is_none();
        idle && matches!(self.link, KeeperLink::Away { look_at } if look_at <= Instant::now())
    }

    /// Connects to the keeper, or reads the files if there is none, when that is due. May block for as long as a keeper
    /// takes to accept.
    pub fn look_if_due(&mut self) {
        if self.is_look_due() {
            self.connect();
        }
    }

    /// Makes the next poll due now: the caller knows that the session changed.
    pub fn look_soon(&mut self) {
        if let KeeperLink::Away { look_at } = &mut self.link {
            *look_at = Instant::now();
        }
    }

    /// Sends the keeper a request; the answer comes as [`CursorNews::Answer`]. Without a keeper the request is dropped.
    pub fn ask(&mut self, request: KeeperRequest) {
        if let KeeperLink::On { keeper, .. } = &mut self.link
            && keeper.send(request).is_err()
        {
            self.lost();
        }
    }

    /// Continues on a connection that the caller made when it started the session again.
    pub fn use_connection(&mut self, mut keeper: KeeperConnection) {
        let request = match self.subject {
            // Past events are read from disk: the keeper has better things to do.
            SubscriptionTopic::Events { .. } | SubscriptionTopic::News => KeeperRequest::Watch,
            SubscriptionTopic::Turn(turn) => KeeperRequest::Follow { turn },
        };
        let sent = keeper.set_nonblocking().and_then(|()| keeper.send(request));
        (self.absent, self.away_since) = (None, None);
        self.link = KeeperLink::On { keeper, since: Instant::now(), subscription: SubscriptionState::Asked };
        if sent.is_err() {
            self.lost();
        }
    }

    fn connect(&mut self) {
        let session = self.ctx.home.session(&self.id);
        let opened = session.connect(self.ctx.asker(), CONNECT_TIMEOUT).and_then(checked);
        let error = match opened {
            Ok(keeper) => return self.use_connection(keeper),
            Err(error) => error,
        };
        let is_absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
        if is_absent && !self.ctx.has_keeper(&self.id) {
            return self.look_at_files();
        }
        // The keeper is starting, leaving or replacing its program.
        let since = *self.away_since.get_or_insert_with(Instant::now);
        if !is_absent || since.elapsed() > CONNECT_PATIENCE {
            self.away_since = None;
            self.ready.push_back(CursorNews::Trouble(self.ctx.unreachable(&self.id, &error)));
        }
        self.back_off();
    }

    fn look_at_files(&mut self) {
        self.away_since = None;
        self.link = KeeperLink::Away { look_at: Instant::now() + self.pace };
        let looked = self.status_by_files();
        match &looked {
            Err(problem) if problem.code == ProblemCode::NotFound && self.is_purged() => {
                self.ready.push_back(CursorNews::Purged(problem.clone()));
                self.link = KeeperLink::Purged(problem.clone());
                return;
            }
            Ok(status) => {
                let is_behind =
                    matches!(self.subject, SubscriptionTopic::Events { next } if next <= status.seq);
                self.behind = is_behind.then_some(u64::MAX);
            }
            Err(_) => {}
        }
        self.absent = Some(looked);
    }

    fn status_by_files(&mut self) -> Result<Box<SessionStatus>, Problem> {
        let (home, id) = (&self.ctx.home, &self.id);
        let mut status = session_status::status(home, id)?;
        if let RecoveryMode::Once { tried } = &mut self.healing
            && status.is_unrecorded_loss()
            && tried.replace(status.epoch) != Some(status.epoch)
        {
            recover::recover_session(home, id)?;
            status = session_status::status(home, id)?;
        }
        Ok(Box::new(status))
    }

    /// True if the session does not exist any more. A session whose directory cannot be read may still exist.
    fn is_purged(&self) -> bool {
        self.ctx.home.is_purged(&self.id)
    }

    /// Reads the next events from disk, up to number `to`.
    fn catch_up(&mut self, to: u64) {
        let SubscriptionTopic::Events { next } = &mut self.subject else {
            self.behind = None;
            return;
        };
        let read = self.ctx.home.session(&self.id).read_range(*next, to, PAGE_BYTES);
        match read {
            Ok(events) => {
                self.unreadable = None;
                // Events that are not on disk yet are reported by the keeper later.
                self.behind = self.behind.filter(|_| !events.is_empty());
                for event in events {
                    *next = event.seq().0 + 1;
                    let entry = Box::new(event.get().entry());
                    self.ready.push_back(CursorNews::Event { seq: event.seq().0, entry });
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
                    self.ready.push_back(CursorNews::Trouble(problem.clone()));
                    self.unreadable = Some(problem);
                }
                // The keeper may be quiet for hours: the next connection reads the journal again.
                if matches!(self.link, KeeperLink::On { .. }) {
                    self.lost();
                }
            }
        }
    }

    fn hear(&mut self, arrival: KeeperMessage) {
        match arrival {
            KeeperMessage::Answer(answer) => self.answered(answer),
            KeeperMessage::Notice(KeeperNotice::Event { seq, entry }) => match &mut self.subject {
                SubscriptionTopic::Events { next } if seq > *next => self.behind = Some(seq),
                SubscriptionTopic::Events { next } if seq == *next => {
                    *next += 1;
                    self.ready.push_back(CursorNews::Event { seq, entry });
                }
                SubscriptionTopic::Events { .. } if seq > 0 => {}
                SubscriptionTopic::Events { .. } | SubscriptionTopic::News | SubscriptionTopic::Turn(_) => {
                    self.ready.push_back(CursorNews::Event { seq, entry });
                }
            },
            KeeperMessage::Notice(notice) => self.ready.push_back(CursorNews::Notice(notice)),
            KeeperMessage::Output(_) | KeeperMessage::Screen(_) => {}
        }
    }

    fn answered(&mut self, answer: KeeperAnswer) {
        let KeeperLink::On { subscription, .. } = &mut self.link else { return };
        let is_first =
            std::mem::replace(subscription, SubscriptionState::Answered) != SubscriptionState::Answered;
        self.ready.push_back(match answer {
            KeeperAnswer::Problem { problem } if is_first => {
                self.link = KeeperLink::Away { look_at: Instant::now() + REFUSED_PAUSE };
                self.behind = self.numbered().then_some(u64::MAX);
                CursorNews::Refused(problem)
            }
            KeeperAnswer::Done { status } if is_first => {
                self.behind = self.numbered().then_some(status.seq);
                if let SubscriptionTopic::Events { next } = self.subject {
                    self.behind = self.behind.filter(|last| next <= *last);
                }
                CursorNews::Connected(status)
            }
            answer => CursorNews::Answer(answer),
        });
    }

    fn numbered(&self) -> bool {
        matches!(self.subject, SubscriptionTopic::Events { .. })
    }

    fn lost(&mut self) {
        if let KeeperLink::On { since, .. } = &self.link
            && since.elapsed() > STEADY
        {
            self.pause = PAUSES.0;
        }
        self.ready.push_back(CursorNews::Lost);
        self.back_off();
    }

    fn back_off(&mut self) {
        self.link = KeeperLink::Away { look_at: Instant::now() + self.pause };
        self.pause = (self.pause * 2).min(PAUSES.1);
    }
}

/// Rejects another user's process that listens in place of a keeper: a keeper runs as this account, or as root.
fn checked(keeper: KeeperConnection) -> io::Result<KeeperConnection> {
    let (peer, me) = (socket::peer_credentials(&keeper)?.uid, rustix::process::geteuid().as_raw());
    if peer == me || peer == 0 || me == 0 {
        return Ok(keeper);
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the process that listens there belongs to user {peer}"),
    ))
}
