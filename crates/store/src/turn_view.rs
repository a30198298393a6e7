//! Turns as clients see them, folded from the events of the journal.
//!
//! Promise: a view follows from the events and from the state of the session. Events that do not fit are not folded.
//! Not here: finding the events of a turn (see `turn_index`).
//! Start with [`turn_view`].

use std::path::Path;

use berth_api::Problem;
use berth_api::status::Timestamp;
use berth_api::turn::{GivenAnswer, QueueHold, TurnView, turn_id};
use berth_core::{
    AgentInterface, AgentQuestion, Event, Session, SessionId, TurnLookup, TurnProgress, TurnPrompt,
};
use berth_journal::Committed;

use crate::session_view::{SessionView, StoredEvent};
use crate::store;
use crate::turn_index::{self, TurnLink};

/// Events with fewer numbers between them are read at once.
const NEAR_EVENTS: u64 = 16;

/// Number of the turn that an event is about.
pub fn turn_of(event: &Event) -> Option<u64> {
    match event {
        Event::TurnAccepted { turn, .. }
        | Event::TurnEdited { turn, .. }
        | Event::TurnDelivered { turn, .. }
        | Event::TurnBegan { turn }
        | Event::CancelRequested { turn, .. }
        | Event::TurnEnded { turn, .. }
        | Event::LateResult { turn, .. } => Some(*turn),
        _ => None,
    }
}

/// All turns of a session, folded from its whole journal.
pub fn turn_views(events: &[Committed<StoredEvent>], id: &SessionId) -> Vec<TurnView> {
    let (history, links) = SessionView::replay_with_links(events);
    let turns = turn_index::by_turn(&links);
    turns.values().filter_map(|links| turn_view(id, &history.session, links, events)).collect()
}

/// Reads the events that these links of turns name, and folds them. `None` if the links of a turn are not to be trusted.
pub(crate) fn read_views(
    dir: &Path,
    id: &SessionId,
    session: &Session,
    turns: &[Vec<TurnLink>],
) -> Result<Option<Vec<TurnView>>, Problem> {
    let mut seqs: Vec<u64> = turns.iter().flatten().map(|link| link.seq).collect();
    seqs.sort_unstable();
    let mut events = Vec::new();
    for near in seqs.chunk_by(|before, next| next - before <= NEAR_EVENTS) {
        let (first, last) = (near[0], near[near.len() - 1]);
        events.extend(store::read_range(dir, id, first, last, usize::MAX)?);
    }
    Ok(turns.iter().map(|links| turn_view(id, session, links, &events)).collect())
}

/// Folds one turn from the events that its links name, and from the state of the session. `None` if these events
/// are not all of that turn's: then the index is not to be trusted.
pub fn turn_view(
    id: &SessionId,
    session: &Session,
    links: &[TurnLink],
    events: &[Committed<StoredEvent>],
) -> Option<TurnView> {
    let mut folded: Option<FoldedTurn> = None;
    let mut asked: Option<&AgentQuestion> = None;
    for TurnLink { turn, seq, interface, .. } in links {
        let at = events.binary_search_by_key(seq, |event| event.seq().0).ok()?;
        let StoredEvent { at_ms, event } = events[at].get();
        match (event, &mut folded, asked.take()) {
            (Event::TurnAccepted { turn: accepted, prompt }, None, None) if accepted == turn => {
                folded = Some(FoldedTurn::accepted(id, *turn, prompt, Timestamp(*at_ms)));
            }
            (Event::QuestionAsked { ask }, Some(_), None) => asked = Some(ask),
            (Event::Answered { request, reply, by }, Some(folded), Some(ask)) if ask.request == *request => {
                folded.view.answers.push(GivenAnswer {
                    request: request.clone(),
                    tool: ask.tool.clone(),
                    detail: ask.detail.clone(),
                    reply: reply.clone().into(),
                    by: by.clone().into(),
                    answered_at: Timestamp(*at_ms),
                });
            }
            (event, Some(folded), None) if turn_of(event) == Some(*turn) => {
                folded.tell(Timestamp(*at_ms), event, *interface);
            }
            _ => return None,
        }
    }
    folded.filter(|_| asked.is_none())?.in_session(id, session)
}

/// A turn and its state, while its events are folded.
struct FoldedTurn {
    view: TurnView,
    state: TurnProgress,
}

impl FoldedTurn {
    fn accepted(id: &SessionId, turn: u64, prompt: &TurnPrompt, at: Timestamp) -> Self {
        let view = TurnView {
            turn: turn_id(id.as_str(), turn),
            session: id.to_string(),
            number: turn,
            prompt: prompt.text.clone(),
            key: prompt.key.clone(),
            by: prompt.by.clone().into(),
            manner: prompt.manner.into(),
            retry: prompt.retry.map(Into::into),
            accepted_at: at,
            ..TurnView::default()
        };
        Self { view, state: TurnProgress::Queued }
    }

    fn tell(&mut self, at: Timestamp, event: &Event, interface: Option<AgentInterface>) {
        let view = &mut self.view;
        let state = match event {
            Event::TurnEdited { text, by, .. } => {
                view.prompt.clone_from(text);
                (view.edited_at, view.edited_by) = (Some(at), Some(by.clone().into()));
                None
            }
            Event::TurnDelivered { epoch, output_from, .. } => {
                (view.delivered_at, view.epoch, view.output_from) =
                    (Some(at), Some(epoch.0), Some(*output_from));
                view.interface = interface.map(Into::into);
                Some(TurnProgress::Delivered)
            }
            Event::TurnBegan { .. } => {
                view.began_at = Some(at);
                Some(TurnProgress::Working)
            }
            Event::CancelRequested { cancel, .. } => {
                view.cancelled_by = Some(cancel.by.clone().into());
                None
            }
            Event::TurnEnded { end, .. } => {
                view.ended_at = Some(at);
                view.answer = Some(end.answer.clone());
                (view.cut, view.reason) = (end.cut, end.reason.clone());
                (view.input_tokens, view.output_tokens) = (end.input_tokens, end.output_tokens);
                view.failure = end.failure.into();
                Some(TurnProgress::Over(end.state))
            }
            Event::LateResult { end, .. } => {
                view.late.push(end.clone().into());
                None
            }
            _ => None,
        };
        self.state = state.filter(|_| !self.state.is_over()).unwrap_or(self.state);
    }

    /// Adds the fields that only the session has. The session knows the state of each turn that is not over, so
    /// events that lead to another state are not complete.
    fn in_session(self, id: &SessionId, session: &Session) -> Option<TurnView> {
        let Self { mut view, state } = self;
        let fits = match session.turns.find(view.number) {
            TurnLookup::Here(known) => known.state == state,
            TurnLookup::Past => state.is_over(),
            TurnLookup::Absent => false,
        };
        let name = session.name.as_ref().map_or(id.as_str(), |name| name.as_str());
        let position = session.turns.queue.iter().position(|queued| *queued == view.number);
        let held = session.turns.hold.clone().filter(|_| position.is_some());
        view.state = state.into();
        view.in_progress = !state.is_over();
        view.position = position.map(|at| at as u64);
        view.held = held.map(|hold| QueueHold::from(hold).describe(name));
        fits.then_some(view)
    }
}
