//! Sessions as they live: streams of events, and the list as it changes.
//!
//! Promise: a session with readers has one connection to its keeper, however many read; one without has none. Who
//! reads slowly slows nobody: it falls back to the journal and loses no event of it. Every buffer has a limit.
//! Not here: what goes over HTTP (see `http::events`), terminals (see `http::terminal`).
//! Start with [`hub::Hub`], then [`feed::Feed`]. Why it is so: docs/design/live-events.md.

pub(crate) mod client;
pub(crate) mod feed;
pub(crate) mod hub;
pub(crate) mod list;
pub(crate) mod pages;
pub(crate) mod reader;
pub(crate) mod sse;
pub(crate) mod upstream;

use berth_core::SessionId;

use crate::caller::Caller;

/// Whether somebody who was let in may go on listening. Asked at every heartbeat of a stream and of a terminal, so
/// that a token that was revoked or is too old ends what it opened.
pub(crate) fn is_still_welcome(caller: &Caller, session: Option<&SessionId>) -> bool {
    session.is_none_or(|id| caller.may_see(id))
}
