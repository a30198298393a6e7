//! A session's events and turns, for programs: an array, or a line each.
//!
//! An event is what `berth log --json` prints, but for the secrets of command lines; a turn is what
//! `berth turn --json` prints, with `"view": "turn"` in front.
//! Start with [`write()`].

use berth_api::record::Event;
use berth_api::turn::TurnView;
use berth_api::{Problem, redact};
use serde::Serialize;

use super::{Exported, Write};
use crate::events::Line;
use crate::words;

#[derive(Serialize)]
struct Turn<'a> {
    view: &'static str,
    #[serde(flatten)]
    turn: &'a TurnView,
}

/// Writes them: as an array, or each on a line of its own.
pub fn write(session: &Exported, is_array: bool, target: &mut Write<'_>) -> Result<(), Problem> {
    let mut before = if is_array { "[\n" } else { "" };
    let mut write = |json: serde_json::Result<String>| {
        let json = json.map_err(|error| {
            Problem::new(berth_api::Code::Bug, format!("cannot write an event as JSON: {error}"))
        })?;
        target(before.as_bytes())?;
        before = if is_array { ",\n" } else { "\n" };
        target(words::visible_json(&json).as_bytes())
    };
    for event in &session.events {
        let entry = event.get().entry();
        let mut line = Line::new(event.seq().0, entry);
        make_harmless(&mut line.event);
        write(serde_json::to_string(&line))?;
    }
    for turn in &session.turns {
        write(serde_json::to_string(&Turn { view: "turn", turn }))?;
    }
    let is_empty = session.events.is_empty() && session.turns.is_empty();
    target(match (is_array, is_empty) {
        (true, true) => b"[]\n",
        (true, false) => b"\n]\n",
        (false, true) => b"",
        (false, false) => b"\n",
    })
}

/// Without what is nobody's business: the file will be passed on.
fn make_harmless(event: &mut Event) {
    if let Event::Created { spec, .. } | Event::Respecified { spec } = event {
        spec.command = redact::words(&spec.command);
        spec.again = redact::words(&spec.again);
    }
}
