//! What became of a turn that nobody saw end.
//!
//! Promise: `done` only with the agent's own word for it; `interrupted` only when its end without one is
//! proven; everything else is `unknown`.
//! Not here: what the journal tells of a turn (see `berth_store::turn_view`), who asks (a keeper whose agent ended, or whoever clears up after a keeper that died).

use std::ffi::OsString;
use std::path::PathBuf;

use berth_api::status::Status;
use berth_api::turn::Release;
use berth_api::{Code, Problem};
use berth_core::{Conversation, Exit, Final, Origin, Session, SessionId, Spec, TurnEnd};
use berth_driver::{Begin, Driver, Out, Update};
use berth_store::SessionFiles;
use berth_store::history::History;
use berth_store::output::OutputFiles;
use berth_store::process;
use berth_transcript::{Asked, Fate, Progress};

use crate::driver;

/// How much of the output is read at a time.
const READ_BYTES: usize = 256 * 1024;
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
    output: &OutputFiles,
    from: u64,
    until: Option<u64>,
    hear: &mut dyn FnMut(Update),
) -> Vec<u8> {
    let (mut offset, mut line, mut overlong) = (from, Vec::new(), false);
    let mut buffer = vec![0; READ_BYTES];
    let mut out = Out::default();
    while let Ok((count, at)) = output.read_at(offset, &mut buffer) {
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
fn heard(session: &Session, files: &SessionFiles) -> Option<TurnEnd> {
    let spec = session.spec.as_ref()?;
    let current = session.turns.current.as_ref()?;
    let mut driver = driver::of(&spec.driver, files.id())?;
    let conversation = session.conversation.as_ref().map(|Conversation { id, .. }| id.clone());
    let begin = conversation.map_or(Begin::New { id: None }, |id| Begin::Resume { id });
    driver.begin(&begin, &spec.cwd, &mut Out::default());
    let output = files.output();
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
pub(crate) fn of_lost_run(history: &History, files: &SessionFiles) -> Option<TurnEnd> {
    let session = &history.session;
    session.turns.current.as_ref()?;
    if let Some(end) = heard(session, files) {
        return Some(end);
    }
    Some(match recorded(history, files.id(), 0) {
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
    let keeper = session.keeper.as_ref().map(process::identity);
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
