//! Replays to the editor the turns that a session had before the editor opened it.
//!
//! Promise: all past turns, in order, each with its prompt, the agent's tool calls and answer, and its end unless it is
//! simply done. Not here: later turns (see `editor_feed`). Start with [`SessionReplay::read`].

use agent_client_protocol_schema::v1::{ContentChunk, SessionUpdate};
use berth_api::turn::TurnView;
use berth_api::{Problem, TurnState};
use berth_core::SessionId;
use berth_store::output::OutputFiles;
use berth_store::stored_session::StoredSession;
use berth_verbs::VerbContext;

use super::AcpServer;
use super::tool_calls::ToolCallReader;

const READ_BYTES: usize = 256 << 10;

/// Size of the texts of turns that are read at once, in bytes.
const PAGE_BYTES: usize = 1 << 20;

/// The past of a session, read from its files.
pub(super) struct SessionReplay {
    past: StoredSession,
    output: OutputFiles,
}

impl SessionReplay {
    /// Reads the state of a session. A run whose keeper died is brought to its end first.
    pub(super) fn read(ctx: &VerbContext, id: &SessionId) -> Result<Self, Problem> {
        ctx.known(id)?;
        let session = ctx.home.session(id);
        Ok(Self { past: session.past()?, output: session.output() })
    }

    /// The number of the last event. Later events are news.
    pub(super) fn seq(&self) -> u64 {
        self.past.history.seq
    }

    /// The epoch of the current run, or of the last one.
    pub(super) fn epoch(&self) -> u64 {
        self.past.history.session.epoch.0
    }

    /// The turns that are not over: those that wait, and the one that the agent has.
    pub(super) fn left(&self) -> Result<Vec<TurnView>, Problem> {
        let window = &self.past.history.session.turns.window;
        let open = window.iter().filter(|(_, turn)| !turn.state.is_over());
        let views = open.map(|(number, _)| self.past.turns(*number, 1, PAGE_BYTES));
        Ok(views.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Sends the past turns to the editor as updates.
    pub(super) fn tell(&self, server: &AcpServer, wire: &str) -> Result<(), Problem> {
        let mut next = 1;
        loop {
            let turns = self.past.turns(next, u64::MAX, PAGE_BYTES)?;
            let Some(last) = turns.last() else { return Ok(()) };
            next = last.number + 1;
            let delivered = turns.iter().filter(|turn| turn.state.is_final() && turn.output_from.is_some());
            let ends = self.past.output_ends(&delivered.map(|turn| turn.number).collect::<Vec<_>>())?;
            turns.iter().for_each(|turn| self.tell_turn(server, wire, turn, ends.get(&turn.number).copied()));
        }
    }

    /// Sends one turn, whose output ends at `output_end`.
    fn tell_turn(&self, server: &AcpServer, wire: &str, turn: &TurnView, output_end: Option<u64>) {
        let is_over = turn.state.is_final();
        if !is_over && turn.output_from.is_none() {
            // `editor_feed` tells this turn when it begins.
            return;
        }
        let prompt = ContentChunk::new(turn.prompt.clone().into());
        server.wire.update(wire, SessionUpdate::UserMessageChunk(prompt));
        if !is_over {
            // `editor_feed` tells the rest of this turn.
            return;
        }
        if let Some(from) = turn.output_from {
            let until = output_end.unwrap_or(u64::MAX);
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

/// Sends the agent's tool calls and plans from its output between two offsets.
fn did(output: &OutputFiles, from: u64, until: u64, mut tell: impl FnMut(SessionUpdate)) {
    let (mut tools, mut offset, mut buffer) = (ToolCallReader::default(), from, vec![0; READ_BYTES]);
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

/// A piece of the agent's answer, as an update.
pub(super) fn agent(text: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()))
}

/// How a turn ended, as text; none for a turn that is simply done.
pub(super) fn ending(state: TurnState, reason: Option<&str>) -> Option<String> {
    let why = reason.map(|why| format!(": {why}")).unwrap_or_default();
    match state {
        TurnState::Done => None,
        TurnState::Failed => Some(format!("failed{why}")),
        TurnState::Cancelled => Some(format!("was cancelled{why}")),
        TurnState::Interrupted => Some(format!("was interrupted{why}; its changes up to that point remain")),
        TurnState::Unknown | TurnState::Queued | TurnState::Delivered | TurnState::Working => {
            Some(format!("was given to the agent, and its end is unknown{why}; it was not repeated"))
        }
    }
}
