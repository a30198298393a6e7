//! Taking a session away: as a transcript, as its events, or as a recording of its terminal.
//!
//! Promise: what is written was said or happened, and what is not known is called unknown; of a damaged session comes
//! what can be read; no secret of a command line comes along.
//! Not here: the command line, and where it is written to (see the CLI).
//! Start with [`Exported::load`]; `markdown`, `events` and `cast` write it.

mod cast;
mod events;
mod markdown;

use std::path::PathBuf;

use berth_api::turn::TurnView;
use berth_api::{Code, Problem, Status};
use berth_core::{Event, SessionId};
use berth_journal::Committed;
use berth_store::history::Stored;
use berth_store::output::OutputFiles;
use berth_store::{History, turn_view, view};

pub use {cast::write as cast, events::write as events, markdown::exchange, markdown::write as markdown};

use crate::ctx::Ctx;
use crate::transcript::{OwnRecord, find_own_record, own_files};
use crate::turns;

/// Where it is written to.
pub type Write<'a> = dyn FnMut(&[u8]) -> Result<(), Problem> + 'a;

/// A session, or one run of it, as it is written.
#[derive(Debug)]
pub struct Exported {
    /// Its id.
    pub id: SessionId,
    /// What is known about it.
    pub status: Status,
    /// Where its output is.
    output: OutputFiles,
    events: Vec<Committed<Stored>>,
    turns: Vec<TurnView>,
    /// The part of its output that is meant.
    from: u64,
    until: u64,
    /// What only the agent's own record has.
    own: Own,
    /// Why this is not all.
    pub damage: Option<Problem>,
}

/// The agent's own records of a session, as far as they have what berth was not told.
#[derive(Debug)]
enum Own {
    /// Nothing, or only one run is meant.
    Nothing,
    /// What was said before the conversation came here.
    Before(OwnRecord),
    /// All of it: the agent has a terminal interface of its own. `is_all` is false if some record is missing.
    Terminal { files: Vec<PathBuf>, is_all: bool },
}

impl Exported {
    /// Reads everything but the output. With `run` only what belongs to that run.
    pub fn load(ctx: &Ctx, id: &SessionId, run: Option<u64>) -> Result<Self, Problem> {
        // A run whose keeper died is brought to its end first, so that its turns have one.
        let known = ctx.known(id).map(drop);
        if let Some(problem) = known.err().filter(|problem| problem.code == Code::NotFound) {
            return Err(problem);
        }
        let (status, mut events, damage) = salvaged(ctx, id);
        let mut turns = turn_view::views(&events, id);
        turns::hide_own_keys(&mut turns);
        let output = ctx.home.session(id).output();
        let (mut from, mut until) = (0, u64::MAX);
        if let Some(run) = run {
            let runs: Vec<(u64, u64)> = events.iter().filter_map(start_of_run).collect();
            let Some(at) = runs.iter().position(|(epoch, _)| *epoch == run) else {
                let last = runs.last().map_or(0, |(epoch, _)| *epoch);
                let what = format!("session `{}` has no run {run}", status.handle());
                return Err(Problem::new(Code::NotFound, what).hint(format!("its last run is {last}")));
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
            (Some(_), _) => Own::Nothing,
            (None, true) => {
                let (files, is_all) = own_files(&events);
                Own::Terminal { files, is_all }
            }
            (None, false) => find_own_record(ctx, id, &status)?.map_or(Own::Nothing, Own::Before),
        };
        Ok(Self { id: id.clone(), status, output, events, turns, from, until, own, damage })
    }

    /// Whether its agent takes turns.
    pub fn takes_turns(&self) -> bool {
        !matches!(self.status.what.driver.as_str(), "" | "pty")
    }
}

impl Exported {
    /// Refuses to play back what has no terminal.
    pub fn check_playable(&self) -> Result<(), Problem> {
        if !self.takes_turns() {
            return Ok(());
        }
        let what = format!("session `{}` has no terminal to play back", self.status.handle());
        Err(Problem::new(Code::Usage, what).hint("its agent takes turns; `--format md` has them"))
    }
}

fn start_of_run(event: &Committed<Stored>) -> Option<(u64, u64)> {
    match &event.get().event {
        Event::RunStarting { epoch, output_from, .. } => Some((epoch.0, *output_from)),
        _ => None,
    }
}

/// What is known of a session whose record may be damaged, the events that can be read, and the damage.
pub(crate) fn salvaged(ctx: &Ctx, id: &SessionId) -> (Status, Vec<Committed<Stored>>, Option<Problem>) {
    let session = ctx.home.session(id);
    let (events, damage) = session.salvage();
    let status = match (&damage, view::status(&ctx.home, id)) {
        (None, Ok(status)) => status,
        (_, known) => {
            let told = History::replay(&events).status(id, false);
            // What only the short cut has: how large the terminal was, and, if nothing can be read, what it was.
            let short = known.ok().or_else(|| session.read_short_cut());
            match short {
                Some(short) if events.is_empty() => short,
                Some(short) => Status { rows: short.rows, cols: short.cols, ..told },
                None => told,
            }
        }
    };
    (status, events, damage)
}
