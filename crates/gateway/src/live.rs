//! Sessions as they live: streams of events, and the list as it changes.
//!
//! Promise: a session with readers has one connection to its keeper, however many read; one without has none. Who
//! reads slowly slows nobody: it falls back to the journal and loses no event of it. Every buffer has a limit.
//! Not here: what goes over HTTP (see `http::events`), terminals (see `http::terminal`), whose token ends in the middle
//! (see `auth::leash`).
//! Start with [`hub::Hub`], then [`feed::Feed`]. Why it is so: docs/design/live-events.md.

pub(crate) mod async_cursor;
pub(crate) mod client;
pub(crate) mod feed;
pub(crate) mod hub;
pub(crate) mod list;
pub(crate) mod pages;
pub(crate) mod reader;
pub(crate) mod sse;
pub(crate) mod terminals;
pub(crate) mod upstream;
