//! A session's events and turns, for programs: an array, or a line each.
//!
//! An event is what `berth log --json` prints, but for the secrets of command lines; a turn is what
//! `berth turn --json` prints, with `"view": "turn"` in front.
//! Start with [`write()`].

use std::collections::BTreeSet;

use berth_api::turn::TurnView;
use berth_api::{AccessScope, Problem, ViewerRights};
use berth_core::SessionId;
use serde::Serialize;

use super::{ExportWriter, SessionExport};
use crate::events::EventLine;
use crate::format;

#[derive(Serialize)]
struct ExportedTurn<'a> {
    view: &'static str,
    #[serde(flatten)]
    turn: &'a TurnView,
}

/// Writes events and turns: as an array, or each on a line of its own. The file will be passed on, so secrets of
/// command lines are redacted for every caller; `sessions` are the only ones that the caller may see.
pub fn write(
    session: &SessionExport,
    sessions: Option<&BTreeSet<SessionId>>,
    is_array: bool,
    target: &mut ExportWriter<'_>,
) -> Result<(), Problem> {
    let viewer = ViewerRights { scope: AccessScope::Read, sessions: sessions.cloned() };
    let mut before = if is_array { "[\n" } else { "" };
    let mut write = |json: serde_json::Result<String>| {
        let json = json.map_err(|error| {
            Problem::new(berth_api::ProblemCode::Bug, format!("cannot write an event as JSON: {error}"))
        })?;
        target(before.as_bytes())?;
        before = if is_array { ",\n" } else { "\n" };
        target(format::visible_json(&json).as_bytes())
    };
    for event in &session.events {
        let entry = event.get().entry();
        let mut line = EventLine::new(event.seq().0, entry);
        line.event.hide_from(&viewer);
        write(serde_json::to_string(&line))?;
    }
    for turn in &session.turns {
        write(serde_json::to_string(&ExportedTurn { view: "turn", turn }))?;
    }
    let is_empty = session.events.is_empty() && session.turns.is_empty();
    target(match (is_array, is_empty) {
        (true, true) => b"[]\n",
        (true, false) => b"\n]\n",
        (false, true) => b"",
        (false, false) => b"\n",
    })
}
