//! One session, as every client sees it: its status, its turns, and its events as they come.
//!
//! Promise: the handle knows neither a socket nor a file; whether a keeper answers or the files do is settled below it.
//! Not here: starting and ending runs (see `run`, `resume`, `stop`).
//! Start with [`Ctx::session`]; for events, with [`Session::events`].

use berth_api::turn::{NewTurn, Receipt, TurnView};
use berth_api::{Connection, Problem, Status};
use berth_core::SessionId;

use crate::cursor::Cursor;
use crate::{Ctx, turns};

/// A session and the caller that uses it.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    ctx: &'a Ctx,
    id: &'a SessionId,
}

impl Ctx {
    /// A handle on the session with this id.
    pub fn session<'a>(&'a self, id: &'a SessionId) -> Session<'a> {
        Session { ctx: self, id }
    }
}

impl Session<'_> {
    /// The status of the session. A run whose keeper died is brought to its end first.
    pub fn status(&self) -> Result<Status, Problem> {
        self.ctx.status(self.id)
    }

    /// The turn with this number.
    pub fn turn(&self, number: u64) -> Result<TurnView, Problem> {
        turns::view(self.ctx, self.id, number)
    }

    /// The turns from this number on.
    pub fn turns(&self, from: u64) -> Result<Vec<TurnView>, Problem> {
        Ok(turns::page(self.ctx, self.id, from, u64::MAX, usize::MAX)?.turns)
    }

    /// Sends a turn. The connection is that of the keeper that accepted it: [`Session::turn_news`] goes on with it.
    pub fn send(&self, submit: NewTurn) -> Result<(Option<Connection>, Receipt), Problem> {
        turns::send(self.ctx, self.id, submit)
    }

    /// The events from number `from` on, those of the past from disk, and then as they happen.
    pub fn events(&self, from: u64) -> Cursor {
        Cursor::events(self.ctx.clone(), self.id.clone(), from)
    }

    /// Events and notices from the moment that a keeper is connected to; nothing is read from disk.
    pub fn news(&self) -> Cursor {
        Cursor::news(self.ctx.clone(), self.id.clone())
    }

    /// Events and notices of one turn. `connection` is used first, if there is one.
    pub fn turn_news(&self, number: u64, connection: Option<Connection>) -> Cursor {
        Cursor::of_turn(self.ctx.clone(), self.id.clone(), number, connection)
    }
}
