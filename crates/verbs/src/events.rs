//! Events of a session, in the form that clients get.
//!
//! Promise: the values of environment variables are redacted; every reader of events goes through [`EventLine`].
//! Not here: following events live (see `follow`, the gateway's `live`).

use berth_api::record::{Event, EventEntry};
use berth_api::{Problem, Timestamp};
use berth_core::SessionId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::VerbContext;

/// An event as `berth log --json` prints it.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "EventLine")]
pub struct EventLine {
    /// Number of the event in the session's journal, from 1.
    pub seq: u64,
    /// Time at which the event was recorded.
    pub at: Timestamp,
    /// The event itself; its fields are on the same level as `seq` and `at`.
    #[serde(flatten)]
    pub event: Event,
}

impl EventLine {
    /// Makes a line from an entry of the journal, with the values of environment variables redacted.
    pub fn new(seq: u64, entry: EventEntry) -> Self {
        let mut event = entry.event;
        if let Event::Created { spec, .. } | Event::CommandChanged { spec } = &mut event {
            spec.env.iter_mut().for_each(|(_, value)| *value = "…".to_owned());
        }
        Self { seq, at: Timestamp(entry.at_ms), event }
    }
}

/// The events from number `from` to number `to`, both included, as far as they exist. Stops once the result has
/// `most_bytes`.
pub fn read(
    ctx: &VerbContext,
    id: &SessionId,
    from: u64,
    to: u64,
    most_bytes: usize,
) -> Result<Vec<EventLine>, Problem> {
    if from > to {
        return Ok(Vec::new());
    }
    let events = ctx.home.session(id).read_range(from.max(1), to, most_bytes)?;
    Ok(events.iter().map(|event| EventLine::new(event.seq().0, event.get().entry())).collect())
}
