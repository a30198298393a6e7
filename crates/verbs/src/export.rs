//! Export of a session: as a transcript, as its events, or as a recording of its terminal.
//!
//! Promise: an export contains only recorded facts, and calls the rest unknown; a damaged session is exported as far as
//! it can be read; secrets of command lines are redacted.
//! Not here: the command line, and the target of the export (see the CLI).
//! Start with [`SessionExport::load`]; `markdown`, `events` and `cast` write it.

mod cast;
mod events;
mod markdown;

use std::path::PathBuf;

use berth_api::turn::TurnView;
use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::{Event, SessionId};
use berth_journal::Committed;
use berth_store::output::OutputFiles;
use berth_store::session_view::StoredEvent;
use berth_store::turn_output::TurnOutputs;
use berth_store::{SessionView, session_status, turn_view};

pub use {cast::write as cast, events::write as events, markdown::exchange, markdown::write as markdown};

use crate::context::VerbContext;
use crate::transcript::{AgentRecord, find_own_record, own_files};
use crate::turns;

/// Function that writes a piece of the export to its target.
pub type ExportWriter<'a> = dyn FnMut(&[u8]) -> Result<(), Problem> + 'a;

/// A session, or one run of it, ready for export.
#[derive(Debug)]
pub struct SessionExport {
    /// Id of the session.
    pub id: SessionId,
    /// Status of the session.
    pub status: SessionStatus,
    /// Files with the session's output.
    output: OutputFiles,
    events: Vec<Committed<StoredEvent>>,
    turns: Vec<TurnView>,
    /// Parts of the output that belong to turns.
    turn_outputs: TurnOutputs,
    /// First byte of the exported part of the output.
    from: u64,
    until: u64,
    /// Dialogue that only the agent's transcript has.
    own: ExportRecords,
    /// Reason why the export is not complete.
    pub damage: Option<Problem>,
}

/// Parts of the dialogue that are only in the agent's transcripts.
#[derive(Debug)]
enum ExportRecords {
    /// Nothing, or only one run is exported.
    Nothing,
    /// The dialogue before berth adopted the conversation.
    Before(AgentRecord),
    /// The whole dialogue: the agent has a terminal interface of its own. `is_all` is false if some record is missing.
    Terminal { files: Vec<PathBuf>, is_all: bool },
}

impl SessionExport {
    /// Reads everything but the output. With `run` only the parts that belong to that run.
    pub fn load(ctx: &VerbContext, id: &SessionId, run: Option<u64>) -> Result<Self, Problem> {
        // A run whose keeper died is brought to its end first, so that its turns have one.
        let known = ctx.known(id).map(drop);
        if let Some(problem) = known.err().filter(|problem| problem.code == ProblemCode::NotFound) {
            return Err(problem);
        }
        let (status, mut events, damage) = readable_prefix(ctx, id);
        let mut turns = turn_view::turn_views(&events, id);
        turns::hide_own_keys(&mut turns);
        // The end of a turn's output may be an event of the next run.
        let turn_outputs = TurnOutputs::of(&events);
        let output = ctx.home.session(id).output();
        let (mut from, mut until) = (0, u64::MAX);
        if let Some(run) = run {
            let runs: Vec<(u64, u64)> = events.iter().filter_map(start_of_run).collect();
            let Some(at) = runs.iter().position(|(epoch, _)| *epoch == run) else {
                let last = runs.last().map_or(0, |(epoch, _)| *epoch);
                let what = format!("session `{}` has no run {run}", status.handle());
                return Err(Problem::not_found(what).hint(format!("its last run is {last}")));
            };
            from = runs[at].1;
            until = runs.get(at + 1).map_or(u64::MAX, |(_, from)| *from);
            turns.retain(|turn| turn.epoch == Some(run));
            let mut current = 0;
            events.retain(|event| {
                current = start_of_run(event).map_or(current, |(epoch, _)| epoch);
                current == run || matches!(event.get().event, Event::Created { .. })
            });
        }
        let own = match (run, status.what.has_terminal()) {
            (Some(_), _) => ExportRecords::Nothing,
            (None, true) => {
                let (files, is_all) = own_files(&events);
                ExportRecords::Terminal { files, is_all }
            }
            (None, false) => {
                find_own_record(ctx, id, &status)?.map_or(ExportRecords::Nothing, ExportRecords::Before)
            }
        };
        Ok(Self { id: id.clone(), status, output, events, turns, turn_outputs, from, until, own, damage })
    }

    /// True if the session's agent takes turns.
    pub fn takes_turns(&self) -> bool {
        !matches!(self.status.what.driver.as_str(), "" | "pty")
    }
}

impl SessionExport {
    /// Refuses a recording of a session without a terminal.
    pub fn check_playable(&self) -> Result<(), Problem> {
        if !self.takes_turns() {
            return Ok(());
        }
        let what = format!("session `{}` has no terminal to play back", self.status.handle());
        Err(Problem::usage(what).hint("its agent takes turns; `--format md` has them"))
    }
}

fn start_of_run(event: &Committed<StoredEvent>) -> Option<(u64, u64)> {
    match &event.get().event {
        Event::RunStarting { epoch, output_from, .. } => Some((epoch.0, *output_from)),
        _ => None,
    }
}

/// The status of a session whose record may be damaged, the events that can be read, and the damage.
pub(crate) fn readable_prefix(
    ctx: &VerbContext,
    id: &SessionId,
) -> (SessionStatus, Vec<Committed<StoredEvent>>, Option<Problem>) {
    let session = ctx.home.session(id);
    let (events, damage) = session.salvage();
    let status = match (&damage, session_status::status(&ctx.home, id)) {
        (None, Ok(status)) => status,
        (_, known) => {
            let told = SessionView::replay(&events).status(id, false);
            // Only the state file has the terminal's size, and, if no event can be read, the session's command.
            let short = known.ok().or_else(|| session.read_status_cache());
            match short {
                Some(short) if events.is_empty() => short,
                Some(short) => SessionStatus { rows: short.rows, cols: short.cols, ..told },
                None => told,
            }
        }
    };
    (status, events, damage)
}
