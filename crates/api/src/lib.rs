//! What goes over the wire between a keeper and its clients, the one error table, a typed client.
//!
//! Promise: a [`record::Entry`] written by any older version can be read.
//! Not here: any decision. See `docs/design/keeper-protocol.md` for why frames and not HTTP.
//! Start with [`message::Request`].

#![forbid(unsafe_code)]

pub mod client;
pub mod frame;
pub mod helper;
pub mod hook;
pub mod life;
pub mod message;
mod paper;
pub mod problem;
pub mod record;
pub mod redact;
pub mod scope;
pub mod snapshot;
pub mod state;
pub mod status;
pub mod time;
pub mod token;
pub mod trace;
pub mod turn;
pub mod viewer;

pub use client::Connection;
pub use frame::{Frame, Kind};
pub use message::{Answer, Call, Notice, Request};
pub use problem::{Code, Problem};
pub use record::Entry;
pub use scope::Scope;
pub use state::{SessionState, TurnState};
pub use status::{Status, Timestamp};
pub use token::{NewToken, Token, TokenKind};
pub use viewer::Viewer;
