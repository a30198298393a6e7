//! The shared record of a fleet: the sessions, events and posted turns of many hosts, in one PostgreSQL.
//!
//! Promise: an append of a host that no longer owns its session changes nothing, and an answer that was not confirmed is
//! an error, never a success.
//! Not here: decisions about sessions (`berth-core`), local files (`berth-store`); bodies of events are opaque text.
//! Start with [`FleetEngine`]; docs/design/fleet-record.md has the reasons.

#![forbid(unsafe_code)]

pub mod engine;
mod error;
mod ids;
mod migrations;
#[cfg(feature = "testing")]
pub mod model;
pub mod pg;

pub use engine::FleetEngine;
pub use error::EngineError;
pub use ids::{
    BadRecordText, EventNumber, HeartbeatCount, HostId, Incarnation, PostNumber, RecordText, Term,
};
pub use migrations::{FORMAT, sql_from};
