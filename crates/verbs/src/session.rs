//! One session, as every client sees it: its status, its turns, and its events as they come.
//!
//! Promise: the handle knows neither a socket nor a file; whether a keeper answers or the files do is settled below it.
//! Not here: starting and ending runs (see `run`, `resume`, `stop`).
//! Start with [`VerbContext::session`]; for events, with [`SessionHandle::events`].

use berth_api::turn::{NewTurn, TurnPage, TurnReceipt, TurnView};
use berth_api::{KeeperConnection, Problem, SessionStatus};
use berth_core::SessionId;

use crate::session_cursor::SessionCursor;
use crate::{VerbContext, turns};

/// A session and the caller that uses it.
#[derive(Clone, Copy, Debug)]
pub struct SessionHandle<'a> {
    ctx: &'a VerbContext,
    id: &'a SessionId,
}

impl VerbContext {
    /// A handle on the session with this id.
    pub fn session<'a>(&'a self, id: &'a SessionId) -> SessionHandle<'a> {
        SessionHandle { ctx: self, id }
    }
}

impl<'a> SessionHandle<'a> {
    /// The status of the session. A run whose keeper died is brought to its end first.
    pub fn status(&self) -> Result<SessionStatus, Problem> {
        self.ctx.status(self.id)
    }

    /// The turn with this number. A run whose keeper died is brought to its end first.
    pub fn turn(&self, number: u64) -> Result<TurnView, Problem> {
        turns::view(self.ctx, self.id, number)
    }

    /// At most `limit` turns, beginning with the turn `from`; stops once their texts have `most_bytes`. A run whose
    /// keeper died is brought to its end first.
    pub fn turns(&self, from: u64, limit: u64, most_bytes: usize) -> Result<TurnPage, Problem> {
        turns::page(self.ctx, self.id, from, limit, most_bytes)
    }

    /// All turns from the turn `from` on, in pages that end once their texts have `most_bytes`. `keeper_silent`: the
    /// session's status says so already.
    pub fn turn_pages(
        &self,
        from: u64,
        most_bytes: usize,
        keeper_silent: bool,
    ) -> impl Iterator<Item = Result<TurnPage, Problem>> + use<'a> {
        turns::pages(self.ctx, self.id, from, most_bytes, keeper_silent)
    }

    /// Sends a turn. A session without a keeper is started again. The connection is that of the keeper that accepted
    /// it: [`SessionHandle::turn_news`] goes on with it.
    pub fn send(&self, submit: NewTurn) -> Result<(Option<KeeperConnection>, TurnReceipt), Problem> {
        turns::send(self.ctx, self.id, submit)
    }

    /// The events from number `from` on, those of the past from disk, and then as they happen.
    pub fn events(&self, from: u64) -> SessionCursor {
        SessionCursor::events(self.ctx.clone(), self.id.clone(), from)
    }

    /// Events and notices from the moment that a keeper is connected to; nothing is read from disk.
    pub fn news(&self) -> SessionCursor {
        SessionCursor::news(self.ctx.clone(), self.id.clone())
    }

    /// Events and notices of one turn. `connection` is used first, if there is one.
    pub fn turn_news(&self, number: u64, connection: Option<KeeperConnection>) -> SessionCursor {
        SessionCursor::of_turn(self.ctx.clone(), self.id.clone(), number, connection)
    }
}
