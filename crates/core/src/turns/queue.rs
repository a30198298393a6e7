//! Changes to waiting turns (give to the agent, withdraw, move, edit), and the interruption of the running one.

use super::report::{expired, withdrawn};
use super::send::check_prompt;
use super::{CANCEL_PATIENCE, CancelRequest, FinalState, QueueHold, Turn, TurnEnd, TurnLookup, TurnProgress};
use crate::{Actor, ClockReading, Event, Refusal, Session};

/// Gives the due turn to the agent: on disk before the agent gets it. If it is too late for that, the turn is
/// withdrawn instead.
pub(crate) fn deliver(
    session: &Session,
    turn: u64,
    output_from: u64,
    now: ClockReading,
) -> Result<Vec<Event>, Refusal> {
    if session.due_turn() != Some(turn) {
        return Err(Refusal::NotDue { turn });
    }
    if session.is_expired(session.boot(), now.boot_ms) {
        return Ok(expired(session, now));
    }
    if session.is_late(turn, now) {
        return Ok(vec![withdrawn(turn, now)]);
    }
    Ok(vec![Event::TurnDelivered { turn, epoch: session.epoch, output_from }])
}

/// Withdraws a waiting turn, and refuses any other.
pub(crate) fn withdraw(
    session: &Session,
    turn: u64,
    by: Actor,
    now: ClockReading,
) -> Result<Vec<Event>, Refusal> {
    match session.turns.open(turn).map(|known| known.state) {
        Some(TurnProgress::Delivered | TurnProgress::Working) => Err(Refusal::TurnStarted { turn }),
        Some(TurnProgress::Queued | TurnProgress::Over(_)) | None => cancel(session, turn, by, now),
    }
}

/// Withdraws a waiting turn; has the agent interrupt a running one.
pub(crate) fn cancel(
    session: &Session,
    turn: u64,
    by: Actor,
    now: ClockReading,
) -> Result<Vec<Event>, Refusal> {
    let known = known(session, turn)?;
    match known.state {
        TurnProgress::Over(end) => Err(Refusal::TurnOver { turn, end: Some(end) }),
        TurnProgress::Queued => {
            let end =
                TurnEnd::without_answer(FinalState::Cancelled, format!("withdrawn by {}", actor_label(&by)));
            let is_retry = session.turns.hold.as_ref().and_then(QueueHold::retry) == Some(turn);
            let resumed = is_retry.then_some(Event::QueueResumed { by });
            Ok(std::iter::once(turn_ended(turn, end, now)).chain(resumed).collect())
        }
        TurnProgress::Delivered | TurnProgress::Working => match &session.turns.current {
            Some(current) if current.turn == turn && current.cancel.is_none() => {
                Ok(vec![cancel_requested(turn, by, false, now)])
            }
            Some(current) if current.steered.contains(&turn) => {
                Err(Refusal::PartOf { turn, whole: current.turn })
            }
            Some(_) | None => Ok(vec![]),
        },
    }
}

pub(crate) fn cancel_requested(turn: u64, by: Actor, for_another: bool, now: ClockReading) -> Event {
    let until_boot_ms = now.boot_ms.saturating_add(CANCEL_PATIENCE.as_millis() as u64);
    Event::CancelRequested { turn, cancel: CancelRequest { by, for_another, until_boot_ms } }
}

/// Moves a waiting turn to another place; 0 is the front.
pub(crate) fn move_turn(session: &Session, turn: u64, to: u64) -> Result<Vec<Event>, Refusal> {
    let known = known(session, turn)?;
    match known.state {
        TurnProgress::Queued => {
            let stays = session.turns.queue.iter().position(|queued| *queued == turn);
            let to = to.min(session.turns.queue.len().saturating_sub(1) as u64);
            Ok(if stays == usize::try_from(to).ok() { vec![] } else { vec![Event::QueueMoved { turn, to }] })
        }
        TurnProgress::Over(end) => Err(Refusal::TurnOver { turn, end: Some(end) }),
        TurnProgress::Delivered | TurnProgress::Working => Err(Refusal::TurnStarted { turn }),
    }
}

/// Replaces the text of a waiting turn. Its number, place, key and other settings stay.
pub(crate) fn edit(session: &Session, turn: u64, text: String, by: Actor) -> Result<Vec<Event>, Refusal> {
    let known = known(session, turn)?;
    match known.state {
        TurnProgress::Queued => {
            check_prompt(session, &text)?;
            Ok(if *known.prompt == *text { vec![] } else { vec![Event::TurnEdited { turn, text, by }] })
        }
        TurnProgress::Over(end) => Err(Refusal::TurnOver { turn, end: Some(end) }),
        TurnProgress::Delivered | TurnProgress::Working => Err(Refusal::TurnStarted { turn }),
    }
}

/// Finds a turn, unless it is long over or was never accepted.
fn known(session: &Session, turn: u64) -> Result<&Turn, Refusal> {
    match session.turns.find(turn) {
        TurnLookup::Here(known) => Ok(known),
        TurnLookup::Past => Err(Refusal::TurnOver { turn, end: None }),
        TurnLookup::Absent => Err(Refusal::NoSuchTurn { turn }),
    }
}

pub(super) fn turn_ended(turn: u64, end: TurnEnd, now: ClockReading) -> Event {
    Event::TurnEnded { turn, end, at_boot_ms: now.boot_ms }
}

pub(super) fn actor_label(by: &Actor) -> String {
    if by.place.is_empty() { format!("process {}", by.pid) } else { by.place.clone() }
}
