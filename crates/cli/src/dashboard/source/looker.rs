//! The preview of the selected session: one connection to its keeper, or what is on disk.
//!
//! Promise: nobody's terminal changes its size for this, and nobody is asked more than a dozen times a second.
//! A keeper that does not answer is said not to, and what is on disk is shown.
//! Start with [`look`].

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Status;
use berth_api::message::{Answer, Notice, Request};
use berth_api::record::Event;
use berth_core::SessionId;
use berth_store::view;
use berth_verbs::cursor::{Cursor, News};
use berth_verbs::screen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::preview::{Content, Preview, Screen};
use super::super::transcript::Transcript;
use super::{Mailbox, timespec};
use crate::ctx::Ctx;

/// The shortest time between two pictures.
const FRAME: Duration = Duration::from_millis(80);
/// How long a keeper may take to answer before that is said.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a session without a keeper is looked at: the list tells of one that is started.
const SELDOM: Duration = Duration::from_secs(5);
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
        let is_woken = {
            let timeout: Option<Timespec> = timeout.map(timespec);
            let mut fds = vec![PollFd::from_borrowed_fd(mailbox.looker.as_fd(), PollFlags::IN)];
            let keeper = looking.as_ref().and_then(|looking| looking.cursor.fd());
            fds.extend(keeper.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let _ = poll(&mut fds, timeout.as_ref());
            !fds[0].revents().is_empty()
        };
        // Somebody else is wanted: no more time for this one.
        if let Some(looking) = looking.as_mut().filter(|_| !is_woken) {
            looking.hear();
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
    cursor: Cursor,
    /// Something changed that is not shown yet.
    is_stale: bool,
    shown_at: Option<Instant>,
    /// Since when a screen is owed.
    asked_at: Option<Instant>,
    /// The keeper was said not to answer.
    is_silent: bool,
    /// What is on disk is shown, because no keeper has the session.
    is_remembered: bool,
}

impl<'a> Looking<'a> {
    fn begin(ctx: &'a Ctx, mailbox: &'a Mailbox, id: SessionId) -> Self {
        let mut looking = Self {
            ctx,
            mailbox,
            cursor: ctx.session(&id).news().every(SELDOM),
            id,
            talk: None,
            is_stale: false,
            shown_at: None,
            asked_at: None,
            is_silent: false,
            is_remembered: false,
        };
        match view::status(&ctx.home, &looking.id) {
            Ok(status) => looking.open(&status),
            Err(problem) => looking.show(Content::Trouble(problem)),
        }
        looking
    }

    /// Begins anew with a session that has this interface.
    fn open(&mut self, status: &Status) {
        let session = self.ctx.session(&self.id);
        let has_terminal = status.what.has_terminal();
        self.talk = (!has_terminal).then(Transcript::default);
        self.cursor = match has_terminal {
            true => session.news(),
            false => session.events(status.seq.saturating_sub(MOST_EVENTS)),
        }
        .every(SELDOM);
    }

    /// Asks to be told of the turn the agent has.
    fn follow(&mut self) {
        let Some(talk) = &mut self.talk else { return };
        let Some(turn) = talk.current() else { return };
        talk.hear_again(turn);
        self.cursor.ask(Request::Follow { turn });
    }

    /// Takes in what has arrived.
    fn hear(&mut self) {
        self.cursor.look_if_due();
        while let Some(news) = self.cursor.take() {
            self.take(news);
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Connected(status) => {
                (self.is_silent, self.is_remembered) = (false, false);
                if status.what.has_terminal() == self.talk.is_some() {
                    return self.open(&status);
                }
                self.is_stale = true;
                self.follow();
            }
            News::Event { entry, .. } => {
                self.tell(|talk| talk.event(&entry.event));
                if matches!(entry.event, Event::TurnDelivered { .. }) {
                    self.follow();
                }
            }
            News::Notice(Notice::Output { .. }) => self.is_stale |= self.talk.is_none(),
            News::Notice(Notice::Said { turn, text }) => self.tell(|talk| talk.said(turn, &text)),
            News::Notice(Notice::Doing { turn, what, detail, .. }) => {
                self.tell(|talk| talk.doing(turn, &what, &detail));
            }
            News::Answer(Answer::Screen { text, cursor_row }) => {
                self.answered();
                self.show(Content::Screen(Screen::new(&text, cursor_row)));
            }
            News::Answer(Answer::Problem { problem }) if self.talk.is_none() => {
                self.answered();
                self.show(Content::Trouble(problem));
            }
            News::Refused(problem) if self.talk.is_none() => self.show(Content::Trouble(problem)),
            News::Silent => self.fall_silent(),
            News::Lost => (self.asked_at, self.is_silent) = (None, false),
            News::NoKeeper(Ok(status)) => {
                if status.what.has_terminal() == self.talk.is_some() {
                    return self.open(&status);
                }
                self.remember();
            }
            News::Trouble(_) => self.remember(),
            News::NoKeeper(Err(problem)) | News::Purged(problem) => self.show(Content::Trouble(problem)),
            // A turn that was over before it could be followed is in the journal.
            News::Answer(_) | News::Notice(_) | News::Refused(_) => {}
        }
    }

    fn answered(&mut self) {
        self.asked_at = None;
        self.is_stale |= std::mem::take(&mut self.is_silent);
    }

    fn fall_silent(&mut self) {
        self.is_silent = true;
        if self.talk.is_some() { self.show_talk() } else { self.show_remembered() }
    }

    /// Shows the last screen once, when nobody can be asked for another one.
    fn remember(&mut self) {
        if !std::mem::replace(&mut self.is_remembered, true) && self.talk.is_none() {
            self.show_remembered();
        }
        self.is_stale |= self.talk.is_some() && self.shown_at.is_none();
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
        // A picture that was asked for and has not come is not asked for again.
        let can_be_shown = self.talk.is_some() || (self.asked_at.is_none() && self.cursor.fd().is_some());
        let picture = (self.is_stale && can_be_shown).then_some(frame);
        let silence = self.asked_at.filter(|_| !self.is_silent).map(|asked| asked + PATIENCE);
        [picture, silence, self.cursor.due()].into_iter().flatten().min()
    }

    /// Does what is due.
    fn go_on(&mut self) {
        let now = Instant::now();
        if !self.is_silent && self.asked_at.is_some_and(|asked| now >= asked + PATIENCE) {
            self.fall_silent();
        }
        if self.is_stale && self.shown_at.is_none_or(|shown| now >= shown + FRAME) {
            if self.talk.is_some() {
                self.show_talk();
            } else if self.asked_at.is_none() && self.cursor.fd().is_some() {
                self.is_stale = false;
                self.asked_at = Some(now);
                self.cursor.ask(Request::Screen { ansi: true });
            }
        }
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
