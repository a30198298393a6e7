//! The preview of the selected session: over one connection to its keeper, or from disk.
//!
//! Promise: a preview changes the size of no terminal, and asks a keeper at most a dozen times a second. If a keeper
//! does not answer, the preview says so and shows the state on disk.
//! Start with [`run`].

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::SessionStatus;
use berth_api::message::{KeeperAnswer, KeeperNotice, KeeperRequest};
use berth_api::record::Event;
use berth_core::SessionId;
use berth_store::session_status;
use berth_verbs::VerbContext;
use berth_verbs::screen;
use berth_verbs::session_cursor::{CursorNews, SessionCursor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::preview::{PreviewContent, PreviewScreen, SessionPreview};
use super::super::preview_transcript::PreviewTranscript;
use super::{DashboardMailbox, timespec};

/// The shortest time between two pictures.
const FRAME: Duration = Duration::from_millis(80);
/// How long a keeper may take to answer before the preview says that it does not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often to check a session without a keeper. A start is also reported by the list.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);
/// How many events of a long journal are read.
const MOST_EVENTS: u64 = 4000;

pub(super) fn run(ctx: &Arc<VerbContext>, mailbox: &DashboardMailbox) {
    let mut latest = 0;
    let mut looking: Option<PreviewLoader<'_>> = None;
    loop {
        mailbox.looker.clear();
        let (newest, id) = mailbox.wanted_preview();
        if newest != latest {
            latest = newest;
            looking = id.map(|id| PreviewLoader::begin(ctx, mailbox, id));
        }
        let timeout = looking
            .as_ref()
            .and_then(PreviewLoader::due)
            .map(|due| due.saturating_duration_since(Instant::now()));
        let is_woken = {
            let timeout: Option<Timespec> = timeout.map(timespec);
            let mut fds = vec![PollFd::from_borrowed_fd(mailbox.looker.as_fd(), PollFlags::IN)];
            let keeper = looking.as_ref().and_then(|looking| looking.cursor.fd());
            fds.extend(keeper.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let _ = poll(&mut fds, timeout.as_ref());
            !fds[0].revents().is_empty()
        };
        // Another session was requested: spend no more time on this one.
        if let Some(looking) = looking.as_mut().filter(|_| !is_woken) {
            looking.hear();
            looking.go_on();
        }
    }
}

/// The preview of one session.
struct PreviewLoader<'a> {
    ctx: &'a VerbContext,
    mailbox: &'a DashboardMailbox,
    id: SessionId,
    /// The conversation, if the agent takes turns.
    talk: Option<PreviewTranscript>,
    cursor: SessionCursor,
    /// True if a change is not shown yet.
    is_stale: bool,
    shown_at: Option<Instant>,
    /// When a screen was requested that has not come yet.
    asked_at: Option<Instant>,
    /// True once the preview said that the keeper does not answer.
    is_silent: bool,
    /// True while the state on disk is shown, because the session has no keeper.
    is_remembered: bool,
}

impl<'a> PreviewLoader<'a> {
    fn begin(ctx: &'a VerbContext, mailbox: &'a DashboardMailbox, id: SessionId) -> Self {
        let mut looking = Self {
            ctx,
            mailbox,
            cursor: ctx.session(&id).news().every(IDLE_INTERVAL),
            id,
            talk: None,
            is_stale: false,
            shown_at: None,
            asked_at: None,
            is_silent: false,
            is_remembered: false,
        };
        match session_status::status(&ctx.home, &looking.id) {
            Ok(status) => looking.open(&status),
            Err(problem) => looking.show(PreviewContent::Trouble(problem)),
        }
        looking
    }

    /// Begins the preview again, for the session's present interface.
    fn open(&mut self, status: &SessionStatus) {
        let session = self.ctx.session(&self.id);
        let has_terminal = status.what.has_terminal();
        self.talk = (!has_terminal).then(PreviewTranscript::default);
        self.cursor = match has_terminal {
            true => session.news(),
            false => session.events(status.seq.saturating_sub(MOST_EVENTS)),
        }
        .every(IDLE_INTERVAL);
    }

    /// Subscribes to the turn that the agent has.
    fn follow(&mut self) {
        let Some(talk) = &mut self.talk else { return };
        let Some(turn) = talk.current() else { return };
        talk.hear_again(turn);
        self.cursor.ask(KeeperRequest::Follow { turn });
    }

    /// Handles everything that has arrived from the keeper.
    fn hear(&mut self) {
        self.cursor.look_if_due();
        while let Some(news) = self.cursor.take() {
            self.take(news);
        }
    }

    fn take(&mut self, news: CursorNews) {
        match news {
            CursorNews::Connected(status) => {
                (self.is_silent, self.is_remembered) = (false, false);
                if status.what.has_terminal() == self.talk.is_some() {
                    return self.open(&status);
                }
                self.is_stale = true;
                self.follow();
            }
            CursorNews::Event { entry, .. } => {
                self.tell(|talk| talk.event(&entry.event));
                if matches!(entry.event, Event::TurnDelivered { .. }) {
                    self.follow();
                }
            }
            CursorNews::Notice(KeeperNotice::Output { .. }) => self.is_stale |= self.talk.is_none(),
            CursorNews::Notice(KeeperNotice::Said { turn, text }) => self.tell(|talk| talk.said(turn, &text)),
            CursorNews::Notice(KeeperNotice::Doing { turn, activity, detail, .. }) => {
                self.tell(|talk| talk.doing(turn, &activity, &detail));
            }
            CursorNews::Answer(KeeperAnswer::Screen { text, cursor_row }) => {
                self.answered();
                self.show(PreviewContent::Screen(PreviewScreen::new(&text, cursor_row)));
            }
            CursorNews::Answer(KeeperAnswer::Problem { problem }) if self.talk.is_none() => {
                self.answered();
                self.show(PreviewContent::Trouble(problem));
            }
            CursorNews::Refused(problem) if self.talk.is_none() => {
                self.show(PreviewContent::Trouble(problem))
            }
            CursorNews::Silent => self.mark_unresponsive(),
            CursorNews::Lost => (self.asked_at, self.is_silent) = (None, false),
            CursorNews::NoKeeper(Ok(status)) => {
                if status.what.has_terminal() == self.talk.is_some() {
                    return self.open(&status);
                }
                self.remember();
            }
            CursorNews::Trouble(_) => self.remember(),
            CursorNews::NoKeeper(Err(problem)) | CursorNews::Purged(problem) => {
                self.show(PreviewContent::Trouble(problem))
            }
            // The journal has a turn that was over before the subscription.
            CursorNews::Answer(_) | CursorNews::Notice(_) | CursorNews::Refused(_) => {}
        }
    }

    fn answered(&mut self) {
        self.asked_at = None;
        self.is_stale |= std::mem::take(&mut self.is_silent);
    }

    fn mark_unresponsive(&mut self) {
        self.is_silent = true;
        if self.talk.is_some() { self.show_talk() } else { self.show_remembered() }
    }

    /// Shows the last screen once, when there is no keeper to ask.
    fn remember(&mut self) {
        if !std::mem::replace(&mut self.is_remembered, true) && self.talk.is_none() {
            self.show_remembered();
        }
        self.is_stale |= self.talk.is_some() && self.shown_at.is_none();
    }

    fn tell(&mut self, change: impl FnOnce(&mut PreviewTranscript)) {
        if let Some(talk) = &mut self.talk {
            change(talk);
            self.is_stale = true;
        }
    }

    /// The next time when work is due without an event.
    fn due(&self) -> Option<Instant> {
        let frame = self.shown_at.map_or_else(Instant::now, |shown| shown + FRAME);
        // A picture that was requested and has not come is not requested again.
        let can_be_shown = self.talk.is_some() || (self.asked_at.is_none() && self.cursor.fd().is_some());
        let picture = (self.is_stale && can_be_shown).then_some(frame);
        let silence = self.asked_at.filter(|_| !self.is_silent).map(|asked| asked + ANSWER_TIMEOUT);
        [picture, silence, self.cursor.due()].into_iter().flatten().min()
    }

    /// Does the work that is due.
    fn go_on(&mut self) {
        let now = Instant::now();
        if !self.is_silent && self.asked_at.is_some_and(|asked| now >= asked + ANSWER_TIMEOUT) {
            self.mark_unresponsive();
        }
        if self.is_stale && self.shown_at.is_none_or(|shown| now >= shown + FRAME) {
            if self.talk.is_some() {
                self.show_talk();
            } else if self.asked_at.is_none() && self.cursor.fd().is_some() {
                self.is_stale = false;
                self.asked_at = Some(now);
                self.cursor.ask(KeeperRequest::Screen { ansi: true });
            }
        }
    }

    fn show_talk(&mut self) {
        self.is_stale = false;
        if let Some(talk) = self.talk.clone() {
            self.show(PreviewContent::Talk(talk));
        }
    }

    /// Shows the screen that the last run left, or one made from the output.
    fn show_remembered(&mut self) {
        match screen::remembered_screen(self.ctx, &self.id) {
            Ok(mut screen) => {
                let (cursor_row, _) = screen.cursor();
                self.show(PreviewContent::Screen(PreviewScreen::new(&screen.ansi(), Some(cursor_row))));
            }
            Err(problem) => self.show(PreviewContent::Trouble(problem)),
        }
    }

    fn show(&mut self, content: PreviewContent) {
        self.shown_at = Some(Instant::now());
        let remark = self.is_silent.then(|| "the keeper does not answer; this is read from disk".to_owned());
        let preview = SessionPreview { id: self.id.clone(), content, remark };
        self.mailbox.put(|inbox| inbox.preview = Some(preview));
    }
}
