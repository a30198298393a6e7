//! A turn as the journal tells it: its events, folded into what a client sees.
//!
//! Promise: what is told follows from the events and from where the session stands. Events that do not fit are not folded.
//! Not here: which events are of a turn (see `turn_index`).
//! Start with [`view`].

use std::path::Path;

use berth_api::Problem;
use berth_api::status::Timestamp;
use berth_api::turn::{AnswerGiven, Hold, TurnView, turn_id};
use berth_core::{Ask, Event, Interface, Prompt, Session, SessionId, TurnLookup, TurnState};
use berth_journal::Committed;

use crate::history::{History, Stored};
use crate::store;
use crate::turn_index::{self, Link};

/// Events with fewer numbers between them are read at once.
const NEAR_EVENTS: u64 = 16;

/// The turn that an event is about.
pub fn turn_of(event: &Event) -> Option<u64> {
    match event {
        Event::TurnAccepted { turn, .. }
        | Event::TurnEdited { turn, .. }
        | Event::TurnDelivered { turn, .. }
        | Event::TurnBegan { turn }
        | Event::CancelRequested { turn, .. }
        | Event::TurnEnded { turn, .. }
        | Event::TurnLate { turn, .. } => Some(*turn),
        _ => None,
    }
}

/// All turns of a session, as its journal tells them.
pub fn views(events: &[Committed<Stored>], id: &SessionId) -> Vec<TurnView> {
    let (history, links) = History::replay_with_links(events);
    let turns = turn_index::by_turn(&links);
    turns.values().filter_map(|links| view(id, &history.session, links, events)).collect()
}

/// Reads the events that these links of turns name, and folds them. `None` if the links of a turn are not to be trusted.
pub(crate) fn read_views(
    dir: &Path,
    id: &SessionId,
    session: &Session,
    turns: &[Vec<Link>],
) -> Result<Option<Vec<TurnView>>, Problem> {
    let mut seqs: Vec<u64> = turns.iter().flatten().map(|link| link.seq).collect();
    seqs.sort_unstable();
    let mut events = Vec::new();
    for near in seqs.chunk_by(|before, next| next - before <= NEAR_EVENTS) {
        let (first, last) = (near[0], near[near.len() - 1]);
        events.extend(store::read_range(dir, id, first, last, usize::MAX)?);
    }
    Ok(turns.iter().map(|links| view(id, session, links, &events)).collect())
}

/// One turn, from the events that its links name, and from where the session stands. `None` if these are not the events
/// of that turn, or not all: then the index is not to be trusted.
pub fn view(
    id: &SessionId,
    session: &Session,
    links: &[Link],
    events: &[Committed<Stored>],
) -> Option<TurnView> {
    let mut folded: Option<Folded> = None;
    let mut asked: Option<&Ask> = None;
    for Link { turn, seq, interface, .. } in links {
        let at = events.binary_search_by_key(seq, |event| event.seq().0).ok()?;
        let Stored { at_ms, event } = events[at].get();
        match (event, &mut folded, asked.take()) {
            (Event::TurnAccepted { turn: accepted, prompt }, None, None) if accepted == turn => {
                folded = Some(Folded::accepted(id, *turn, prompt, Timestamp(*at_ms)));
            }
            (Event::Asked { ask }, Some(_), None) => asked = Some(ask),
            (Event::Answered { request, reply, by }, Some(folded), Some(ask)) if ask.request == *request => {
                folded.view.answers.push(AnswerGiven {
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
struct Folded {
    view: TurnView,
    state: TurnState,
}

impl Folded {
    fn accepted(id: &SessionId, turn: u64, prompt: &Prompt, at: Timestamp) -> Self {
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
        Self { view, state: TurnState::Queued }
    }

    fn tell(&mut self, at: Timestamp, event: &Event, interface: Option<Interface>) {
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
                Some(TurnState::Delivered)
            }
            Event::TurnBegan { .. } => {
                view.began_at = Some(at);
                Some(TurnState::Working)
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
                Some(TurnState::Over(end.state))
            }
            Event::TurnLate { end, .. } => {
                view.late.push(end.clone().into());
                None
            }
            _ => None,
        };
        self.state = state.filter(|_| !self.state.is_over()).unwrap_or(self.state);
    }

    /// Adds what only the session tells. The session knows the state of each turn that is not over, so events that lead
    /// to another state are not all there are.
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
        view.held = held.map(|hold| Hold::from(hold).describe(name));
        fits.then_some(view)
    }
}
