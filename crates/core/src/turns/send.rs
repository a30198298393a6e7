//! Prompts of clients: accepted, recognised as repeated, or refused.

use super::queue::cancel_requested;
use super::{
    MAX_KEY_BYTES, MAX_PROMPT_BYTES, MOST_QUEUED, ReleaseReason, SendMode, TurnPrompt, key_hash, text_digest,
};
use crate::{ClockReading, Event, Refusal, RunPhase, Session};

/// Accepts a prompt, or recognises one that was accepted before.
pub(crate) fn send(session: &Session, prompt: TurnPrompt, now: ClockReading) -> Result<Vec<Event>, Refusal> {
    if session.spec.is_none() {
        return Err(Refusal::NotCreated);
    }
    if !session.takes_turns() {
        return Err(Refusal::NoTurns);
    }
    let turns = &session.turns;
    if let Some(known) = prompt.key.as_deref().and_then(|key| turns.keys.find(key_hash(key))) {
        let same = known.digest == text_digest(&prompt.text);
        return if same { Ok(vec![]) } else { Err(Refusal::KeyReused { turn: known.turn.into() }) };
    }
    if session.archived {
        return Err(Refusal::Archived);
    }
    check_prompt(session, &prompt.text)?;
    if let Some(bytes) = prompt.key.as_ref().map(String::len).filter(|len| !(1..=MAX_KEY_BYTES).contains(len))
    {
        return Err(Refusal::BadKey { bytes, limit: MAX_KEY_BYTES });
    }
    if turns.queue.len() >= MOST_QUEUED {
        return Err(Refusal::QueueFull { limit: MOST_QUEUED });
    }
    if matches!(session.phase, RunPhase::Ending(_)) && session.stopped_by.is_some() {
        return Err(Refusal::BeingEnded);
    }
    // A session at rest may be looked at on the clock of another boot; the process that starts it knows that clock.
    let is_over = session.is_live() && session.is_expired(session.boot(), now.boot_ms);
    if is_over || session.released == Some(ReleaseReason::Expired) {
        return Err(Refusal::Expired);
    }
    let running = turns.current.as_ref();
    if prompt.manner == SendMode::Steer && running.is_some() && turns.ready.is_some_and(|able| !able.steer) {
        return Err(Refusal::CannotSteer);
    }
    let by = prompt.by.clone();
    let interrupted = running
        .filter(|current| prompt.manner == SendMode::Interrupt && current.cancel.is_none())
        .map(|current| cancel_requested(current.turn, by, true, now));
    Ok(std::iter::once(Event::TurnAccepted { turn: turns.last() + 1, prompt }).chain(interrupted).collect())
}

pub(super) fn check_prompt(session: &Session, text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::EmptyPrompt);
    }
    if text.len() > MAX_PROMPT_BYTES {
        return Err(Refusal::PromptTooLong { bytes: text.len(), limit: MAX_PROMPT_BYTES });
    }
    if session.will_have_terminal() { check_typed_prompt(session, text) } else { Ok(()) }
}

/// Refuses a text that the agent's interface in a terminal would not take as plain text.
pub(crate) fn check_typed_prompt(session: &Session, text: &str) -> Result<(), Refusal> {
    if !crate::activity::can_be_pasted(text) {
        return Err(Refusal::CannotBePasted);
    }
    let terminal = session.spec.as_ref().map(|spec| spec.terminal).unwrap_or_default();
    match crate::activity::command_prefix(terminal, text) {
        Some(begins) => Err(Refusal::IsInterfaceCommand { begins }),
        None => Ok(()),
    }
}
