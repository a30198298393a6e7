//! The outcome of a turn whose end was not observed.
//!
//! Promise: `done` only with the agent's transcript of it; `interrupted` only when an end without a result is proven;
//! everything else is `unknown`.
//! Not here: the journal's view of a turn (see `berth_store::turn_view`). Callers are a keeper whose agent ended, and
//! commands that clear up after a keeper that died.
//! Start with `dead_agent_turn_end` and `lost_run_turn_end`.

use std::ops::ControlFlow;

use berth_api::Problem;
use berth_api::status::SessionStatus;
use berth_api::turn::ReleaseReason;
use berth_conversations::location;
use berth_core::{Conversation, ConversationOrigin, FinalState, ProcessExit, Session, SessionId, TurnEnd};
use berth_driver::{AgentUpdate, ConversationStart, Driver, DriverOutput};
use berth_store::SessionFiles;
use berth_store::output::OutputFiles;
use berth_store::process_ref;
use berth_store::session_view::SessionView;
use berth_transcript::{GivenPrompt, RecordedProgress, TurnFate};

use crate::agent_launch;

/// The number of bytes of output that are read at a time.
const READ_BYTES: usize = 256 * 1024;
/// The longest line that is parsed.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Why a conversation cannot be gone on with, and what to do.
pub(crate) fn no_conversation(id: &str, session: &str) -> String {
    format!(
        "its conversation {id} is not there any more; `berth resume {session} --fresh` begins a new one in the same session"
    )
}

/// Rejects a request that was meant for another session or conversation.
pub fn check_expected_session(session: &Session, id: &SessionId, expected: &str) -> Result<(), Problem> {
    let writes = session.conversation.as_ref().map(|conversation| conversation.id.as_str());
    if id.as_str() == expected || writes == Some(expected) {
        return Ok(());
    }
    let name = session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
    let writes = writes.unwrap_or("none yet");
    Err(Problem::refused(format!(
        "session `{name}` (id {id}, conversation {writes}) is not the expected `{expected}`; nothing was sent"
    ))
    .hint("`berth ls` lists the sessions with their ids"))
}

/// The error for an agent that takes no turns. `complaint` is its last error output, worded to follow a sentence.
pub fn takes_no_turns_problem(status: &SessionStatus, complaint: &str) -> Problem {
    let handle = status.handle();
    let why = match (&status.released, status.exit, &status.failure) {
        (Some(why), _, _) => why.clone(),
        (None, Some(code), _) => format!("the agent ended with exit {code}{complaint}"),
        (None, None, Some(failure)) => failure.clone(),
        (None, None, None) => "its run is over".to_owned(),
    };
    Problem::refused(format!("session `{handle}` takes no turns: {why}"))
        .hint(format!("fix the cause, then `berth resume {handle}`; `berth log {handle}` shows its events"))
}

/// The prompts that the agent has received and not answered: the turn itself, then the additions to it.
pub(crate) fn unanswered_prompts(session: &Session) -> Vec<(u64, String)> {
    let Some(current) = &session.turns.current else { return vec![] };
    let turns = std::iter::once(current.turn).chain(current.steered.iter().copied());
    turns.filter_map(|turn| Some((turn, session.turns.open(turn)?.prompt.to_string()))).collect()
}

/// Feeds a driver the output of an agent from offset `from` on, up to `until` if that is given, or until `hear` breaks
/// off. The replies of the driver are dropped. Returns the unfinished last line; it is empty if `hear` broke off.
pub(crate) fn feed_driver(
    driver: &mut dyn Driver,
    output: &OutputFiles,
    from: u64,
    until: Option<u64>,
    hear: &mut dyn FnMut(AgentUpdate) -> ControlFlow<()>,
) -> Vec<u8> {
    let (mut offset, mut line, mut overlong) = (from, Vec::new(), false);
    let mut buffer = vec![0; READ_BYTES];
    let mut out = DriverOutput::default();
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
                if out.updates.drain(..).any(|update| hear(update).is_break()) {
                    return Vec::new();
                }
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

/// The outcome of the current turn, by the agent's output.
fn heard(session: &Session, files: &SessionFiles) -> Option<TurnEnd> {
    let spec = session.spec.as_ref()?;
    let current = session.turns.current.as_ref()?;
    let mut driver = agent_launch::of(&spec.driver, files.id())?;
    let conversation = session.conversation.as_ref().map(|Conversation { id, .. }| id.clone());
    let begin =
        conversation.map_or(ConversationStart::New { id: None }, |id| ConversationStart::Resume { id });
    driver.begin(&begin, &spec.cwd, &mut DriverOutput::default());
    let output = files.output();
    // The driver learns how the run began. Turns before this one say nothing about it, and may be many.
    let is_ready = &mut |update| match update {
        AgentUpdate::Ready => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    feed_driver(driver.as_mut(), &output, session.output_from, Some(current.output_from), is_ready);
    // Additions to the turn are left out: a driver waits for the answer to those, and a dead agent gives none.
    let (turn, text) = unanswered_prompts(session).into_iter().next()?;
    driver.prompt(turn, &text, &mut DriverOutput::default());
    let mut found = None;
    feed_driver(driver.as_mut(), &output, current.output_from, None, &mut |update| match update {
        AgentUpdate::Ended { turn, end } if turn == current.turn => {
            found = Some(end);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found
}

/// The outcome of the turn of an agent that is proven gone and whose whole output was read without an end of the turn.
pub(crate) fn dead_agent_turn_end(
    history: &SessionView,
    id: &SessionId,
    exit: Option<ProcessExit>,
    complaint: &str,
) -> Option<TurnEnd> {
    let session = &history.session;
    session.turns.current.as_ref()?;
    if let RecordedTurnEnd::Over(end) = search_agent_record(history, id, 0) {
        return Some(end);
    }
    let (state, how) = match exit {
        _ if session.stopped_by.is_some() => (FinalState::Interrupted, "the session was stopped".to_owned()),
        _ if session.released.is_some() => {
            let why = session.released.clone().map(|why| ReleaseReason::from(why).describe());
            (FinalState::Interrupted, format!("the run was ended: {}", why.unwrap_or_default()))
        }
        Some(ProcessExit::Code(code)) => {
            (FinalState::Failed, format!("the agent ended with exit {code}{complaint}"))
        }
        Some(ProcessExit::Signal(signal)) => {
            (FinalState::Interrupted, format!("the agent was killed by signal {signal}{complaint}"))
        }
        None => (FinalState::Unknown, "the end of the agent was not seen".to_owned()),
    };
    Some(TurnEnd::without_answer(state, how))
}

/// The outcome of the turn of an agent that lives, is idle, and did not report the end.
pub(crate) fn idle_agent_turn_end(history: &SessionView, id: &SessionId) -> Option<TurnEnd> {
    match search_agent_record(history, id, 0) {
        RecordedTurnEnd::Over(end) => Some(end),
        RecordedTurnEnd::Unfinished(why, _) => {
            let reason = format!("it was interrupted: {why}");
            Some(TurnEnd::without_answer(FinalState::Interrupted, reason))
        }
        RecordedTurnEnd::CannotTell => None,
    }
}

/// The end of an agent's turn, if its own record has one.
pub(crate) fn recorded_end(history: &SessionView, id: &SessionId) -> Option<TurnEnd> {
    match search_agent_record(history, id, 0) {
        RecordedTurnEnd::Over(end) => Some(end),
        RecordedTurnEnd::Unfinished(..) | RecordedTurnEnd::CannotTell => None,
    }
}

/// The outcome of the turn of a run whose keeper died. Every process of the run is proven gone.
pub(crate) fn lost_run_turn_end(history: &SessionView, files: &SessionFiles) -> Option<TurnEnd> {
    let session = &history.session;
    session.turns.current.as_ref()?;
    if let Some(end) = heard(session, files) {
        return Some(end);
    }
    Some(match search_agent_record(history, files.id(), 0) {
        RecordedTurnEnd::Over(end) => end,
        RecordedTurnEnd::Unfinished(why, _) => {
            let reason = format!("the keeper died, and the agent had not finished: {why}");
            TurnEnd::without_answer(FinalState::Interrupted, reason)
        }
        RecordedTurnEnd::CannotTell => {
            let reason = "the keeper died, and no record shows whether the agent had finished";
            TurnEnd::without_answer(FinalState::Unknown, reason)
        }
    })
}

/// The agent's transcript of the last prompt.
#[derive(Clone, Debug)]
pub(crate) enum RecordedTurnEnd {
    Over(TurnEnd),
    Unfinished(String, RecordedProgress),
    CannotTell,
}

/// Searches the agent's transcript for its current turn, from offset `from_bytes` on.
pub(crate) fn search_agent_record(history: &SessionView, id: &SessionId, from_bytes: u64) -> RecordedTurnEnd {
    let session = &history.session;
    let known = session.spec.as_ref().zip(session.conversation.as_ref());
    let current = session.turns.current.as_ref();
    let turn = current.and_then(|current| session.turns.open(current.turn));
    let (Some((spec, known)), Some(current), Some(turn)) = (known, current, turn) else {
        return RecordedTurnEnd::CannotTell;
    };
    let is_new = matches!(spec.origin, ConversationOrigin::New | ConversationOrigin::Named(_));
    let keeper = session.keeper.as_ref().map(process_ref::to_process_identity);
    let message = agent_launch::of(&spec.driver, id).and_then(|driver| driver.message_id(current.turn));
    let asked = GivenPrompt {
        text: &turn.prompt,
        id: message.as_deref(),
        given_at_ms: history.given_at_ms,
        first: is_new && session.turns.given_total <= 1,
        same_boot: keeper.is_some_and(|keeper| matches!(keeper.is_of_another_boot(), Ok(false))),
        typed: session.has_terminal(),
        from_bytes,
    };
    let fate = berth_transcript::turn_fate(
        &spec.conversation,
        &known.id,
        location::where_kept(spec, Some(known)),
        &asked,
    );
    RecordedTurnEnd::from(fate)
}

impl From<TurnFate> for RecordedTurnEnd {
    fn from(fate: TurnFate) -> Self {
        match fate {
            TurnFate::Done { answer, cut } => RecordedTurnEnd::Over(TurnEnd {
                answer,
                cut,
                reason: Some("found in the agent's transcript".to_owned()),
                ..TurnEnd::without_answer(FinalState::Done, "")
            }),
            TurnFate::Failed { why } => {
                RecordedTurnEnd::Over(TurnEnd::without_answer(FinalState::Failed, why))
            }
            TurnFate::Rejected { why } => RecordedTurnEnd::Over(TurnEnd {
                failure: berth_driver::failure_in_error_text(&why),
                ..TurnEnd::without_answer(FinalState::Failed, why)
            }),
            TurnFate::Unfinished { why, progress } => RecordedTurnEnd::Unfinished(why, progress),
            TurnFate::CannotTell { .. } => RecordedTurnEnd::CannotTell,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_core::TurnFailure;

    use super::*;

    #[test]
    fn the_record_of_a_rejected_request_gives_the_reason_and_other_failures_do_not() {
        let rejected = |why: &str| TurnFate::Rejected { why: why.to_owned() };
        let refused = "the model refused to answer: ask again when the rate limit is over".to_owned();
        for (fate, failure) in [
            (rejected("API Error: 429 {\"type\":\"error\"}"), TurnFailure::Limit),
            (rejected("API Error: 529 Overloaded"), TurnFailure::Overloaded),
            (rejected("unexpected status 401 Unauthorized: wrong key"), TurnFailure::Login),
            (rejected("API Error: Connection dropped"), TurnFailure::Other),
            (TurnFate::Failed { why: refused }, TurnFailure::Other),
        ] {
            let RecordedTurnEnd::Over(end) = RecordedTurnEnd::from(fate.clone()) else {
                panic!("{fate:?} is an end")
            };
            assert_eq!((end.state, end.failure), (FinalState::Failed, failure), "{fate:?}");
        }
    }
}
