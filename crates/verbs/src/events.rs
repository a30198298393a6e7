//! What happened in a session, as everybody is shown it.
//!
//! Promise: the values of the environment are nobody's business; every way to see events goes through [`Line`].
//! Not here: following them as they come (see the CLI's `follow`, the gateway's `live`).

use berth_api::record::{Entry, Event};
use berth_api::{Problem, Timestamp};
use berth_core::SessionId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Ctx;

/// An event as `berth log --json` prints it.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "EventLine")]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

impl Line {
    /// An entry of the journal, without what is nobody's business.
    pub fn new(seq: u64, entry: Entry) -> Self {
        let mut event = entry.event;
        if let Event::Created { spec, .. } | Event::Respecified { spec } = &mut event {
            spec.env.iter_mut().for_each(|(_, value)| *value = "…".to_owned());
        }
        Self { seq, at: Timestamp(entry.at_ms), event }
    }
}

/// The events from number `from` up to and with number `to`, as far as there are any, and no more once they have
/// `most_bytes`.
pub fn read(ctx: &Ctx, id: &SessionId, from: u64, to: u64, most_bytes: usize) -> Result<Vec<Line>, Problem> {
    if from > to {
        return Ok(Vec::new());
    }
    let events = ctx.home.session(id).read_range(from.max(1), to, most_bytes)?;
    Ok(events.iter().map(|event| Line::new(event.seq().0, event.get().entry())).collect())
}
