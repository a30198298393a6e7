//! The wire: messages between a keeper and its clients, statuses, references to turns, trace ids, the stored form of
//! events (types that mirror those of `berth_core`, with serde), the one error table, the client that connects to a
//! keeper, times and durations as text, and redaction of secrets in what is logged.
//!
//! Promise: a [`record::EventEntry`] written by any older version can be read.
//! Not here: any decision. `docs/design/keeper-protocol.md` explains why the protocol has frames and not HTTP.
//! Start with [`message::KeeperRequest`].

#![forbid(unsafe_code)]

pub mod client;
pub mod frame;
pub mod helper;
pub mod hook;
pub mod message;
mod mirror;
pub mod policy_change;
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

pub use client::KeeperConnection;
pub use frame::{FrameKind, ReceivedFrame};
pub use message::{KeeperAnswer, KeeperCall, KeeperNotice, KeeperRequest};
pub use problem::{Problem, ProblemCode};
pub use record::EventEntry;
pub use scope::AccessScope;
pub use state::{SessionState, TurnState};
pub use status::{SessionStatus, Timestamp};
pub use token::{NewToken, Token, TokenKind};
pub use viewer::ViewerRights;
