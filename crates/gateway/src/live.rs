//! Live data: event streams of sessions, and the list of sessions as it changes.
//!
//! Promise: a session with readers has one connection to its keeper, however many readers there are; a session without
//! readers has none. A slow reader does not delay others: it falls back to the journal and loses no event. Every buffer
//! has a limit.
//! Not here: HTTP (see `http::events`), terminals (see `http::terminal`), revocation of tokens in the middle of a
//! stream (see `auth::revocation`).
//! Start with [`hub::FeedHub`], then [`feed::SessionFeed`]. Reasons: docs/design/live-events.md.

pub(crate) mod async_cursor;
pub(crate) mod event_pages;
pub(crate) mod feed;
pub(crate) mod hub;
pub(crate) mod keeper_client;
pub(crate) mod live_list;
pub(crate) mod reader;
pub(crate) mod sse;
pub(crate) mod terminal_limits;
pub(crate) mod upstream;
