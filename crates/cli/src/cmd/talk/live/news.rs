//! What the keeper tells whoever talks, also through one that replaces its own program, and what the files tell when
//! nobody keeps the session any more.
//!
//! Promise: events are heard once, in order; nothing here starts anything.

use std::time::Instant;

use berth_api::Connection;
use berth_api::client::Arrival;
use berth_api::message::{Answer, Notice, Request};
use berth_keeper::store;

use super::{FRAME_PATIENCE, Live, NEWS_AT_ONCE, TICK};
use crate::tty;

impl Live<'_> {
    pub(super) fn connect(&mut self) {
        self.looked_at = Instant::now();
        // Only whoever sends something starts a session that has no keeper.
        let Ok(mut connection) = Connection::open(&self.ctx.home.session_dir(self.id), tty::place()) else {
            return self.catch_up();
        };
        let _ = connection.set_patience(Some(FRAME_PATIENCE));
        if connection.send(Request::Watch { from: self.seq + 1 }).is_ok() {
            self.keeper = Some(connection);
            self.is_caught_up = false;
            self.story.connected();
        }
    }

    /// Nobody keeps the session. If its keeper died, nobody told us how that ended; the files do.
    fn catch_up(&mut self) {
        if self.is_caught_up || self.ctx.is_kept(self.id) {
            return;
        }
        self.is_caught_up = true;
        let known = self.ctx.known(self.id);
        let missed =
            known.and_then(|_| store::read(&self.ctx.home.session_dir(self.id), self.id, self.seq + 1));
        match missed {
            Ok(missed) => {
                for event in missed {
                    self.seq = self.seq.max(event.seq().0);
                    self.story.hear(&event.get().entry().event);
                }
            }
            Err(problem) => self.complain(&problem),
        }
    }

    /// Asks to be told what the agent says about the turn it has now.
    pub(super) fn follow_on(&mut self) {
        if self.keeper.is_none() {
            return;
        }
        let Some(turn) = self.story.take_follow() else { return };
        if let Some(keeper) = &mut self.keeper
            && keeper.send(Request::Follow { turn }).is_err()
        {
            self.keeper = None;
        }
    }

    pub(super) fn listen(&mut self) {
        for _ in 0..NEWS_AT_ONCE {
            let Some(keeper) = &mut self.keeper else { return };
            match keeper.next() {
                Ok(Some(arrival)) => self.hear(arrival),
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    return;
                }
                // It leaves, is gone, or replaces its own program.
                Ok(None) | Err(_) => {
                    self.keeper = None;
                    self.looked_at = Instant::now().checked_sub(TICK).unwrap_or_else(Instant::now);
                    return;
                }
            }
            self.follow_on();
            if !self.keeper.as_ref().is_some_and(Connection::has_more) {
                return;
            }
        }
    }

    fn hear(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Notice(Notice::Event { seq, entry }) => {
                // What is told once more to whoever follows a turn has no number.
                if seq == 0 || seq > self.seq {
                    self.seq = self.seq.max(seq);
                    self.story.hear(&entry.event);
                }
            }
            Arrival::Notice(Notice::Said { turn, text }) => self.story.said(turn, &text),
            Arrival::Notice(Notice::Doing { turn, what, detail, tokens }) => {
                self.story.doing(turn, &what, &detail, tokens);
            }
            Arrival::Answer(Answer::Problem { problem }) => self.complain(&problem),
            Arrival::Notice(Notice::Output { .. } | Notice::Replaced { .. } | Notice::Resized { .. })
            | Arrival::Answer(_)
            | Arrival::Output(_)
            | Arrival::Screen(_) => {}
        }
    }
}
