//! Turns after the fact: what the journal tells of them, and what became of one that nobody saw end.
//!
//! Promise: `done` only with the agent's own word for it; `interrupted` only when its end without one is
//! proven; everything else is `unknown`.
//! Not here: who asks (a keeper whose agent ended, or whoever clears up after a keeper that died).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use berth_api::status::{Status, Timestamp};
use berth_api::turn::{AnswerGiven, Hold, Release, TurnView, turn_id};
use berth_api::{Code, Problem};
use berth_core::{
    Ask, Conversation, Event, Exit, Final, Interface, Origin, Prompt, Session, SessionId, Spec, TurnEnd,
    TurnLookup, TurnState,
};
use berth_driver::{Begin, Driver, Out, Update};
use berth_journal::Committed;
use berth_transcript::{Asked, Fate, Progress};

use crate::history::{History, Stored};
use crate::turn_index::{self, Link};
use crate::{driver, output, recover, store};

/// How much of the output is read at a time.
const READ_BYTES: usize = 256 * 1024;
/// Events with fewer numbers between them are read at once.
const NEAR_EVENTS: u64 = 16;
/// The longest line that is understood.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Where the agent of this session keeps its conversations; empty if nobody knows.
pub(crate) fn store_of(spec: &Spec) -> String {
    let kind = berth_transcript::Kind::of(&spec.conversation);
    let dir =
        kind.and_then(|kind| berth_transcript::config_dir(kind, |name| driver::variable(spec, name)).ok());
    dir.and_then(|dir| dir.into_os_string().into_string().ok()).unwrap_or_default()
}

/// A variable that says where the agent keeps its conversations, as it was when the agent ran: whoever looks
/// now may have another home.
pub(crate) fn where_kept<'a>(
    spec: &'a Spec,
    conversation: Option<&'a Conversation>,
) -> impl Fn(&str) -> Option<OsString> + 'a {
    let store =
        conversation.map(|conversation| conversation.store.as_str()).filter(|store| !store.is_empty());
    let variable = berth_transcript::Kind::of(&spec.conversation).map(berth_transcript::Kind::dir_variable);
    move |name| match store.filter(|_| variable == Some(name)) {
        Some(store) => Some(store.into()),
        None => driver::variable(spec, name),
    }
}

/// Whether the agent has a record of a conversation; `None` if that cannot be told.
pub(crate) fn exists(spec: &Spec, known: Option<&Conversation>, id: &str) -> Option<bool> {
    berth_transcript::exists(&spec.conversation, id, where_kept(spec, known))
}

/// The files in which the agent of this session keeps its conversation itself.
pub fn conversation_files(session: &Session) -> Result<Vec<PathBuf>, String> {
    let Some(spec) = &session.spec else { return Ok(Vec::new()) };
    let known = session.conversation.as_ref();
    let named = match &spec.origin {
        Origin::Named(id) | Origin::Resumed(id) => Some(id.as_str()),
        Origin::New | Origin::Forked(_) => None,
    };
    let Some(id) = known.map(|known| known.id.as_str()).or(named) else { return Ok(Vec::new()) };
    berth_transcript::files(&spec.conversation, id, where_kept(spec, known))
}

/// Why a conversation cannot be gone on with, and what to do.
pub(crate) fn no_conversation(id: &str, session: &str) -> String {
    format!(
        "its conversation {id} is not there any more; `berth resume {session} --fresh` begins a new one in the same session"
    )
}

/// Refuses what was meant for another session or conversation.
pub fn is_expected(session: &Session, id: &SessionId, expected: &str) -> Result<(), Problem> {
    let writes = session.conversation.as_ref().map(|conversation| conversation.id.as_str());
    if id.as_str() == expected || writes == Some(expected) {
        return Ok(());
    }
    let name = session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
    let writes = writes.unwrap_or("none yet");
    Err(Problem::new(
        Code::Refused,
        format!("session `{name}` is {id} and its conversation {writes}, not `{expected}`; nothing was sent"),
    )
    .hint("look which session you mean with `berth ls`"))
}

/// Why an agent takes no turns. `complaint` is what it printed last, as words to put behind a sentence.
pub fn unusable(status: &Status, complaint: &str) -> Problem {
    let handle = status.handle();
    let why = match (&status.released, status.exit, &status.failure) {
        (Some(why), _, _) => why.clone(),
        (None, Some(code), _) => format!("the agent ended with exit {code}{complaint}"),
        (None, None, Some(failure)) => failure.clone(),
        (None, None, None) => "it is over".to_owned(),
    };
    Problem::new(Code::Refused, format!("session `{handle}` takes no turns: {why}"))
        .hint(format!("mend that, then `berth resume {handle}`; `berth log {handle}` tells what happened"))
}

/// The prompts the agent has been given and not answered: the turn itself, then what was added to it.
pub(crate) fn given(session: &Session) -> Vec<(u64, String)> {
    let Some(current) = &session.turns.current else { return vec![] };
    let turns = std::iter::once(current.turn).chain(current.steered.iter().copied());
    turns.filter_map(|turn| Some((turn, session.turns.open(turn)?.prompt.to_string()))).collect()
}

/// Lets a driver hear what an agent wrote from `from` on, and before `until` if that is given. What it wants to
/// say is dropped. Returns the beginning of the last line.
pub(crate) fn hear_output(
    driver: &mut dyn Driver,
    dir: &Path,
    from: u64,
    until: Option<u64>,
    hear: &mut dyn FnMut(Update),
) -> Vec<u8> {
    let (mut offset, mut line, mut overlong) = (from, Vec::new(), false);
    let mut buffer = vec![0; READ_BYTES];
    let mut out = Out::default();
    while let Ok((count, at)) = output::read_at(dir, offset, &mut buffer) {
        let left =
            until.map_or(usize::MAX, |until| usize::try_from(until.saturating_sub(at)).unwrap_or(usize::MAX));
        let count = count.min(left);
        if count == 0 {
            break;
        }
        offset = at + count as u64;
        let mut rest = &buffer[..count];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (piece, behind) = rest.split_at(end);
            rest = &behind[1..];
            line.extend_from_slice(piece);
            if !std::mem::take(&mut overlong) {
                driver.hear(&line, &mut out);
                out.bytes.clear();
                out.updates.drain(..).for_each(&mut *hear);
            }
            line.clear();
        }
        if overlong || line.len() + rest.len() > MAX_LINE_BYTES {
            overlong = true;
            line = Vec::new();
        } else {
            line.extend_from_slice(rest);
        }
    }
    line
}

/// What the agent's output says about the turn it had.
fn heard(session: &Session, id: &SessionId, dir: &Path) -> Option<TurnEnd> {
    let spec = session.spec.as_ref()?;
    let current = session.turns.current.as_ref()?;
    let mut driver = driver::of(&spec.driver, id)?;
    let conversation = session.conversation.as_ref().map(|Conversation { id, .. }| id.clone());
    let begin = conversation.map_or(Begin::New { id: None }, |id| Begin::Resume { id });
    driver.begin(&begin, &spec.cwd, &mut Out::default());
    let output = dir.join("output");
    let _ =
        hear_output(driver.as_mut(), &output, session.output_from, Some(current.output_from), &mut |_| {});
    // Not what was added to it: a driver waits for the answer to that, and a dead agent gives none.
    let (turn, text) = given(session).into_iter().next()?;
    driver.prompt(turn, &text, &mut Out::default());
    let mut found = None;
    let _ = hear_output(driver.as_mut(), &output, current.output_from, None, &mut |update| match update {
        Update::Ended { turn, end } if turn == current.turn => {
            found.get_or_insert(end);
        }
        _ => {}
    });
    found
}

/// How the turn of an agent ended that is proven gone, after we heard everything it said: it did not say
/// that it was done.
pub(crate) fn of_dead_agent(
    history: &History,
    id: &SessionId,
    exit: Option<Exit>,
    complaint: &str,
) -> Option<TurnEnd> {
    let session = &history.session;
    session.turns.current.as_ref()?;
    if let Recorded::Over(end) = recorded(history, id, 0) {
        return Some(end);
    }
    let (state, how) = match exit {
        _ if session.stopped_by.is_some() => (Final::Interrupted, "the session was stopped".to_owned()),
        _ if session.released.is_some() => {
            let why = session.released.clone().map(|why| Release::from(why).describe());
            (Final::Interrupted, format!("the run was ended: {}", why.unwrap_or_default()))
        }
        Some(Exit::Code(code)) => (Final::Failed, format!("the agent ended with exit {code}{complaint}")),
        Some(Exit::Signal(signal)) => {
            (Final::Interrupted, format!("the agent was killed by signal {signal}{complaint}"))
        }
        None => (Final::Unknown, "the end of the agent was not seen".to_owned()),
    };
    Some(TurnEnd::without_answer(state, how))
}

/// How the turn of an agent ended that lives, has nothing to do, and did not tell the end.
pub(crate) fn of_quiet_agent(history: &History, id: &SessionId) -> Option<TurnEnd> {
    match recorded(history, id, 0) {
        Recorded::Over(end) => Some(end),
        Recorded::Unfinished(why, _) => {
            let reason = format!("it was interrupted: {why}");
            Some(TurnEnd::without_answer(Final::Interrupted, reason))
        }
        Recorded::CannotTell => None,
    }
}

/// The end of an agent's turn, if its own record has one.
pub(crate) fn recorded_end(history: &History, id: &SessionId) -> Option<TurnEnd> {
    match recorded(history, id, 0) {
        Recorded::Over(end) => Some(end),
        Recorded::Unfinished(..) | Recorded::CannotTell => None,
    }
}

/// How the turn of a run ended whose keeper died. Everything of the run is proven gone.
pub(crate) fn of_lost_run(history: &History, dir: &Path) -> Option<TurnEnd> {
    let session = &history.session;
    session.turns.current.as_ref()?;
    let id = dir.file_name().and_then(|name| SessionId::parse(name.to_str()?))?;
    if let Some(end) = heard(session, &id, dir) {
        return Some(end);
    }
    Some(match recorded(history, &id, 0) {
        Recorded::Over(end) => end,
        Recorded::Unfinished(why, _) => {
            let reason = format!("the keeper died, and the agent had not finished: {why}");
            TurnEnd::without_answer(Final::Interrupted, reason)
        }
        Recorded::CannotTell => {
            let reason = "the keeper died, and nothing tells whether the agent had finished";
            TurnEnd::without_answer(Final::Unknown, reason)
        }
    })
}

/// What an agent's own record says about the last prompt.
#[derive(Clone, Debug)]
pub(crate) enum Recorded {
    Over(TurnEnd),
    Unfinished(String, Progress),
    CannotTell,
}

/// Looks into the agent's own record for the turn it has. What is before `from_bytes` is not read.
pub(crate) fn recorded(history: &History, id: &SessionId, from_bytes: u64) -> Recorded {
    let session = &history.session;
    let known = session.spec.as_ref().zip(session.conversation.as_ref());
    let current = session.turns.current.as_ref();
    let turn = current.and_then(|current| session.turns.open(current.turn));
    let (Some((spec, known)), Some(current), Some(turn)) = (known, current, turn) else {
        return Recorded::CannotTell;
    };
    let is_new = matches!(spec.origin, Origin::New | Origin::Named(_));
    let keeper = session.keeper.as_ref().map(recover::identity);
    let message = driver::of(&spec.driver, id).and_then(|driver| driver.message_id(current.turn));
    let asked = Asked {
        text: &turn.prompt,
        id: message.as_deref(),
        given_at_ms: history.given_at_ms,
        first: is_new && session.turns.given_total <= 1,
        same_boot: keeper.is_some_and(|keeper| matches!(keeper.is_of_another_boot(), Ok(false))),
        typed: session.has_terminal(),
        from_bytes,
    };
    let fate = berth_transcript::fate(&spec.conversation, &known.id, where_kept(spec, Some(known)), &asked);
    Recorded::from(fate)
}

impl From<Fate> for Recorded {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Done { answer, cut } => Recorded::Over(TurnEnd {
                answer,
                cut,
                reason: Some("found in the agent's own record".to_owned()),
                ..TurnEnd::without_answer(Final::Done, "")
            }),
            Fate::Failed { why } => Recorded::Over(TurnEnd::without_answer(Final::Failed, why)),
            Fate::Rejected { why } => Recorded::Over(TurnEnd {
                failure: berth_driver::failure_in(&why),
                ..TurnEnd::without_answer(Final::Failed, why)
            }),
            Fate::Unfinished { why, progress } => Recorded::Unfinished(why, progress),
            Fate::CannotTell { .. } => Recorded::CannotTell,
        }
    }
}

/// The turn that an event is about.
pub(crate) fn turn_of(event: &Event) -> Option<u64> {
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
pub(crate) fn view(
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
        view.state = state.word().to_owned();
        view.in_progress = !state.is_over();
        view.position = position.map(|at| at as u64);
        view.held = held.map(|hold| Hold::from(hold).describe(name));
        fits.then_some(view)
    }
}

#[cfg(test)]
mod tests {
    use berth_core::Failure;

    use super::*;

    #[test]
    fn the_record_of_a_rejected_request_tells_what_the_model_refused_and_other_failures_do_not() {
        let rejected = |why: &str| Fate::Rejected { why: why.to_owned() };
        let refused = "the model refused to answer: ask again when the rate limit is over".to_owned();
        for (fate, failure) in [
            (rejected("API Error: 429 {\"type\":\"error\"}"), Failure::Limit),
            (rejected("API Error: 529 Overloaded"), Failure::Overloaded),
            (rejected("unexpected status 401 Unauthorized: wrong key"), Failure::Login),
            (rejected("API Error: Connection dropped"), Failure::Other),
            (Fate::Failed { why: refused }, Failure::Other),
        ] {
            let Recorded::Over(end) = Recorded::from(fate.clone()) else { panic!("{fate:?} is an end") };
            assert_eq!((end.state, end.failure), (Final::Failed, failure), "{fate:?}");
        }
    }
}
