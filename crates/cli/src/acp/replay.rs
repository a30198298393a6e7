//! What was said and done in a session before the editor opened it.
//!
//! Promise: every turn there was, in order, each with what was asked, what the agent did and said, and how it ended if it is
//! not simply done. Not here: what comes then (see `watch`). Start with [`Past::read`].

use agent_client_protocol_schema::v1::{ContentChunk, SessionUpdate};
use berth_api::record::Event;
use berth_api::turn::TurnView;
use berth_api::{Problem, TurnState};
use berth_core::SessionId;
use berth_store::output::OutputFiles;
use berth_store::turn_view;

use super::Server;
use super::tools::Tools;
use crate::ctx::Ctx;

const READ_BYTES: usize = 256 << 10;

/// The turns of a session, as its files have them.
pub(super) struct Past {
    turns: Vec<TurnView>,
    /// The number of the last event: what comes later is news.
    pub(super) seq: u64,
    /// The run it is in, or was in last.
    pub(super) epoch: u64,
    /// Where each run's output begins. What an agent says at the beginning of a run is its own replay.
    runs: Vec<u64>,
    output: OutputFiles,
}

impl Past {
    /// Reads it. A run whose keeper died is brought to its end first.
    pub(super) fn read(ctx: &Ctx, id: &SessionId) -> Result<Self, Problem> {
        ctx.known(id)?;
        let session = ctx.home.session(id);
        let events = session.read(1)?;
        let runs = events.iter().filter_map(|event| match event.get().entry().event {
            Event::RunStarting { epoch, output_from, .. } => Some((epoch, output_from)),
            _ => None,
        });
        let (epochs, runs): (Vec<u64>, Vec<u64>) = runs.unzip();
        Ok(Self {
            turns: turn_view::views(&events, id),
            seq: events.last().map_or(0, |event| event.seq().0),
            epoch: epochs.last().copied().unwrap_or_default(),
            runs,
            output: session.output(),
        })
    }

    /// The turns that are not over: what waits, and the one the agent has.
    pub(super) fn left(&self) -> Vec<TurnView> {
        self.turns.iter().filter(|turn| !turn.state.is_final()).cloned().collect()
    }

    /// Tells it.
    pub(super) fn tell(&self, server: &Server, wire: &str) {
        for (number, turn) in self.turns.iter().enumerate() {
            let is_over = turn.state.is_final();
            if !is_over && turn.output_from.is_none() {
                // It is told when it begins.
                continue;
            }
            let prompt = ContentChunk::new(turn.prompt.clone().into());
            server.wire.update(wire, SessionUpdate::UserMessageChunk(prompt));
            if !is_over {
                // The rest of it is told by whoever watches.
                continue;
            }
            if let Some(from) = turn.output_from {
                let next = self.turns[number + 1..].iter().find_map(|next| next.output_from);
                let until = end_of(from, next, &self.runs);
                did(&self.output, from, until, |update| server.wire.update(wire, update));
            }
            if let Some(answer) = turn.answer.as_deref().filter(|answer| !answer.is_empty()) {
                server.wire.update(wire, agent(answer));
            }
            if let Some(how) = ending(turn.state, turn.reason.as_deref()) {
                server.tell(wire, &format!("turn {} {how}", turn.turn));
            }
            for late in turn.late.iter().filter(|late| !late.answer.is_empty()) {
                server.wire.update(wire, agent(&late.answer));
            }
        }
    }
}

/// Where the output of a turn ends: with the next turn, or with the run.
fn end_of(from: u64, next: Option<u64>, runs: &[u64]) -> u64 {
    let run = runs.iter().copied().find(|run| *run > from);
    next.into_iter().chain(run).min().unwrap_or(u64::MAX)
}

/// What an agent did, from its output.
fn did(output: &OutputFiles, from: u64, until: u64, mut tell: impl FnMut(SessionUpdate)) {
    let (mut tools, mut offset, mut buffer) = (Tools::default(), from, vec![0; READ_BYTES]);
    while offset < until {
        let Ok((count, at)) = output.read_at(offset, &mut buffer) else { return };
        let count = count.min(usize::try_from(until.saturating_sub(at)).unwrap_or(usize::MAX));
        if count == 0 {
            return;
        }
        offset = at + count as u64;
        tools.feed(&buffer[..count]).into_iter().for_each(&mut tell);
    }
}

/// A piece of an answer.
pub(super) fn agent(text: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()))
}

/// What a reader has to know about a turn that is not simply done.
pub(super) fn ending(state: TurnState, reason: Option<&str>) -> Option<String> {
    let why = reason.map(|why| format!(": {why}")).unwrap_or_default();
    match state {
        TurnState::Done => None,
        TurnState::Failed => Some(format!("failed{why}")),
        TurnState::Cancelled => Some(format!("was cancelled{why}")),
        TurnState::Interrupted => Some(format!("was interrupted{why}; what it did until then is done")),
        TurnState::Unknown | TurnState::Queued | TurnState::Delivered | TurnState::Working => {
            Some(format!("was given to the agent, and its end is unknown{why}; it was not repeated"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_says_of_the_past_when_it_begins_anew_is_no_part_of_the_last_turn() {
        let runs = [0, 500, 900];
        assert_eq!(end_of(100, Some(200), &runs), 200);
        assert_eq!(end_of(200, Some(600), &runs), 500, "from 500 on it tells the first turns again");
        assert_eq!(end_of(600, None, &runs), 900);
        assert_eq!(end_of(950, None, &runs), u64::MAX);
    }
}
