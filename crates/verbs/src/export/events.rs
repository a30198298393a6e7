//! A session's events and turns, for programs: an array, or a line each.
//!
//! An event is what `berth log --json` prints, but for the secrets of command lines; a turn is what
//! `berth turn --json` prints, with `"view": "turn"` in front.
//! Start with [`write()`].

use std::collections::BTreeSet;

use berth_api::turn::TurnView;
use berth_api::{Problem, Scope, Viewer};
use berth_core::SessionId;
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

/// Writes them: as an array, or each on a line of its own. The file will be passed on, so secrets of command lines are
/// masked for every caller; `sessions` are the only ones there are for the caller.
pub fn write(
    session: &Exported,
    sessions: Option<&BTreeSet<SessionId>>,
    is_array: bool,
    target: &mut Write<'_>,
) -> Result<(), Problem> {
    let viewer = Viewer { scope: Scope::Read, sessions: sessions.cloned() };
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
        line.event.hide_from(&viewer);
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
