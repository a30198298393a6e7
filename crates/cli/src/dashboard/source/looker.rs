//! The preview of the selected session: one connection to its keeper, or what is on disk.
//!
//! Promise: nobody's terminal changes its size for this, and nobody is asked more than a dozen times a second.
//! A keeper that does not answer is said not to, and what is on disk is shown.
//! Start with [`look`].

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::client::Arrival;
use berth_api::message::{Answer, Notice, Request};
use berth_api::record::Event;
use berth_api::{Connection, Problem};
use berth_core::SessionId;
use berth_keeper::{store, view};
use berth_verbs::screen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::preview::{Content, Preview, Screen};
use super::super::transcript::Transcript;
use super::{Mailbox, timespec};
use crate::ctx::Ctx;
use crate::tty;

/// The shortest time between two pictures.
const FRAME: Duration = Duration::from_millis(80);
/// How long a keeper may take to answer before that is said.
const PATIENCE: Duration = Duration::from_secs(2);
/// When a connection is tried again that broke off or was not there yet.
const AGAIN: Duration = Duration::from_millis(500);
/// How many events of a long journal are read.
const MOST_EVENTS: u64 = 4000;

pub(super) fn look(ctx: &Arc<Ctx>, mailbox: &Mailbox) {
    let mut wish = 0;
    let mut looking: Option<Looking<'_>> = None;
    loop {
        mailbox.looker.clear();
        let (newest, id) = mailbox.look();
        if newest != wish {
            wish = newest;
            looking = id.map(|id| Looking::begin(ctx, mailbox, id));
        }
        let timeout =
            looking.as_ref().and_then(Looking::due).map(|due| due.saturating_duration_since(Instant::now()));
        let (is_woken, is_told) = {
            let connection = looking.as_ref().and_then(|looking| looking.connection.as_ref());
            let has_more = connection.is_some_and(Connection::has_more);
            let timeout = if has_more { Some(Duration::ZERO) } else { timeout };
            let timeout: Option<Timespec> = timeout.map(timespec);
            let mut fds = vec![PollFd::from_borrowed_fd(mailbox.looker.as_fd(), PollFlags::IN)];
            fds.extend(
                connection.map(|connection| PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::IN)),
            );
            let _ = poll(&mut fds, timeout.as_ref());
            let told = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
            (!fds[0].revents().is_empty(), told || has_more)
        };
        // Somebody else is wanted: no more time for this one.
        if let Some(looking) = looking.as_mut().filter(|_| !is_woken) {
            if is_told {
                looking.hear();
            }
            looking.go_on();
        }
    }
}

/// One session being looked at.
struct Looking<'a> {
    ctx: &'a Ctx,
    mailbox: &'a Mailbox,
    id: SessionId,
    /// What was said, if it is an agent that takes turns.
    talk: Option<Transcript>,
    connection: Option<Connection>,
    /// Something changed that is not shown yet.
    is_stale: bool,
    shown_at: Option<Instant>,
    /// Since when an answer is owed.
    asked_at: Option<Instant>,
    /// The keeper was said not to answer.
    is_silent: bool,
    again_at: Option<Instant>,
}

impl<'a> Looking<'a> {
    fn begin(ctx: &'a Ctx, mailbox: &'a Mailbox, id: SessionId) -> Self {
        let mut looking = Self {
            ctx,
            mailbox,
            id,
            talk: None,
            connection: None,
            is_stale: false,
            shown_at: None,
            asked_at: None,
            is_silent: false,
            again_at: None,
        };
        looking.load();
        looking
    }

    /// Reads what is on disk, and connects if there is a keeper.
    fn load(&mut self) {
        self.again_at = None;
        let status = match view::status(&self.ctx.home, &self.id) {
            Ok(status) => status,
            Err(problem) => return self.show(Content::Trouble(problem)),
        };
        let mut from = u64::MAX;
        if !status.what.has_terminal() {
            match self.read_journal(status.seq) {
                Ok(next) => from = next,
                Err(problem) => return self.show(Content::Trouble(problem)),
            }
            self.show_talk();
        }
        self.connection = None;
        if status.keeper_pid.is_some() {
            self.connect(from);
            // It starts, ends or replaces itself.
            if self.connection.is_none() {
                self.again_at = Some(Instant::now() + AGAIN);
            }
        }
        if self.connection.is_none() && status.what.has_terminal() {
            self.show_remembered();
        }
    }

    fn connect(&mut self, from: u64) {
        let dir = self.ctx.home.session_dir(&self.id);
        let Ok(mut connection) = Connection::open(&dir, tty::place()) else { return };
        if connection.send(Request::Watch { from }).is_err() {
            return;
        }
        self.asked_at = Some(Instant::now());
        self.is_silent = false;
        self.connection = Some(connection);
        match &self.talk {
            Some(_) => self.follow(),
            None => self.is_stale = true,
        }
    }

    /// The last turns, as the journal tells them; the number of the next event.
    fn read_journal(&mut self, seq: u64) -> Result<u64, Problem> {
        let from = seq.saturating_sub(MOST_EVENTS).max(1);
        let events = store::read(&self.ctx.home.session_dir(&self.id), &self.id, from)?;
        let mut talk = Transcript::default();
        for event in &events {
            talk.event(&event.get().entry().event);
        }
        self.talk = Some(talk);
        Ok(events.last().map_or(from, |last| last.seq().0 + 1))
    }

    /// Asks to be told of the turn the agent has.
    fn follow(&mut self) {
        let Some(talk) = &mut self.talk else { return };
        let Some(turn) = talk.current() else { return };
        talk.hear_again(turn);
        self.send(Request::Follow { turn });
    }

    fn send(&mut self, request: Request) {
        if self.connection.as_mut().is_some_and(|connection| connection.send(request).is_err()) {
            self.dropped();
        }
    }

    /// Takes in what has arrived.
    fn hear(&mut self) {
        loop {
            let Some(connection) = &mut self.connection else { return };
            match connection.next() {
                Ok(Some(arrival)) => self.take(arrival),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(None) | Err(_) => return self.dropped(),
            }
            if !self.connection.as_ref().is_some_and(Connection::has_more) {
                return;
            }
        }
    }

    fn take(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Answer(answer) => {
                self.asked_at = None;
                if std::mem::take(&mut self.is_silent) {
                    self.is_stale = true;
                }
                match answer {
                    Answer::Screen { text, cursor_row } => {
                        self.show(Content::Screen(Screen::new(&text, cursor_row)));
                    }
                    Answer::Problem { problem } if self.talk.is_none() => {
                        self.show(Content::Trouble(problem));
                    }
                    // One that was over before we could follow it is in the journal.
                    Answer::Problem { .. }
                    | Answer::Done { .. }
                    | Answer::Heard
                    | Answer::Attached { .. }
                    | Answer::Decided { .. }
                    | Answer::Receipt { .. } => {}
                }
            }
            Arrival::Notice(Notice::Output { .. }) => self.is_stale |= self.talk.is_none(),
            Arrival::Notice(Notice::Said { turn, text }) => self.tell(|talk| talk.said(turn, &text)),
            Arrival::Notice(Notice::Doing { turn, what, detail, .. }) => {
                self.tell(|talk| talk.doing(turn, &what, &detail));
            }
            Arrival::Notice(Notice::Event { entry, .. }) => {
                self.tell(|talk| talk.event(&entry.event));
                if matches!(entry.event, Event::TurnDelivered { .. }) {
                    self.follow();
                }
            }
            Arrival::Notice(Notice::Replaced { .. } | Notice::Resized { .. })
            | Arrival::Output(_)
            | Arrival::Screen(_) => {}
        }
    }

    fn tell(&mut self, change: impl FnOnce(&mut Transcript)) {
        if let Some(talk) = &mut self.talk {
            change(talk);
            self.is_stale = true;
        }
    }

    /// When something has to be done without being told to.
    fn due(&self) -> Option<Instant> {
        let frame = self.shown_at.map_or_else(Instant::now, |shown| shown + FRAME);
        let picture = (self.is_stale && self.connection.is_some()).then_some(frame);
        // A picture that was asked for and has not come is not asked for again.
        let picture = picture.filter(|_| self.talk.is_some() || self.asked_at.is_none());
        let silence = self.asked_at.filter(|_| !self.is_silent).map(|asked| asked + PATIENCE);
        [picture, silence, self.again_at].into_iter().flatten().min()
    }

    /// Does what is due.
    fn go_on(&mut self) {
        let now = Instant::now();
        if self.again_at.is_some_and(|at| at <= now) {
            return self.load();
        }
        if !self.is_silent && self.asked_at.is_some_and(|asked| now >= asked + PATIENCE) {
            self.is_silent = true;
            if self.talk.is_some() { self.show_talk() } else { self.show_remembered() }
        }
        if self.is_stale && self.shown_at.is_none_or(|shown| now >= shown + FRAME) {
            if self.talk.is_some() {
                self.show_talk();
            } else if self.asked_at.is_none() && self.connection.is_some() {
                self.is_stale = false;
                self.asked_at = Some(now);
                self.send(Request::Screen { ansi: true });
            }
        }
    }

    /// The keeper is gone, or replaces itself: the files tell the rest.
    fn dropped(&mut self) {
        self.connection = None;
        self.asked_at = None;
        self.is_silent = false;
        self.again_at = Some(Instant::now() + AGAIN);
    }

    fn show_talk(&mut self) {
        self.is_stale = false;
        if let Some(talk) = self.talk.clone() {
            self.show(Content::Talk(talk));
        }
    }

    /// The screen as the last run left it, or as the output tells.
    fn show_remembered(&mut self) {
        match screen::remembered(self.ctx, &self.id) {
            Ok(mut screen) => {
                let (cursor_row, _) = screen.cursor();
                self.show(Content::Screen(Screen::new(&screen.ansi(), Some(cursor_row))));
            }
            Err(problem) => self.show(Content::Trouble(problem)),
        }
    }

    fn show(&mut self, content: Content) {
        self.shown_at = Some(Instant::now());
        let remark = self.is_silent.then(|| "the keeper does not answer; this is from disk".to_owned());
        let preview = Preview { id: self.id.clone(), content, remark };
        self.mailbox.put(|inbox| inbox.preview = Some(preview));
    }
}
