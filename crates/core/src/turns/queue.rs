//! What becomes of turns that wait: given to the agent, withdrawn, put elsewhere, changed; and the one the agent
//! has, broken off.

use super::report::{expired, withdrawn};
use super::send::can_be_said;
use super::{CANCEL_PATIENCE, Cancel, Final, Hold, Turn, TurnEnd, TurnLookup, TurnState};
use crate::{Actor, Event, Now, Refusal, Session};

/// Gives the due turn to the agent: on disk before the agent hears of it. If it is too late for that, it is
/// withdrawn instead.
pub(crate) fn deliver(
    session: &Session,
    turn: u64,
    output_from: u64,
    now: Now,
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

/// Withdraws what waits, and nothing else.
pub(crate) fn withdraw(session: &Session, turn: u64, by: Actor, now: Now) -> Result<Vec<Event>, Refusal> {
    match session.turns.open(turn).map(|known| known.state) {
        Some(TurnState::Delivered | TurnState::Working) => Err(Refusal::TurnStarted { turn }),
        Some(TurnState::Queued | TurnState::Over(_)) | None => cancel(session, turn, by, now),
    }
}

/// Withdraws what waits; has the agent break off what it has.
pub(crate) fn cancel(session: &Session, turn: u64, by: Actor, now: Now) -> Result<Vec<Event>, Refusal> {
    let known = known(session, turn)?;
    match known.state {
        TurnState::Over(end) => Err(Refusal::TurnOver { turn, end: Some(end) }),
        TurnState::Queued => {
            let end = TurnEnd::without_answer(Final::Cancelled, format!("withdrawn by {}", who(&by)));
            let is_retry = session.turns.hold.as_ref().and_then(Hold::retry) == Some(turn);
            let resumed = is_retry.then_some(Event::QueueResumed { by });
            Ok(std::iter::once(over(turn, end, now)).chain(resumed).collect())
        }
        TurnState::Delivered | TurnState::Working => match &session.turns.current {
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

pub(crate) fn cancel_requested(turn: u64, by: Actor, for_another: bool, now: Now) -> Event {
    let until_boot_ms = now.boot_ms.saturating_add(CANCEL_PATIENCE.as_millis() as u64);
    Event::CancelRequested { turn, cancel: Cancel { by, for_another, until_boot_ms } }
}

/// Puts a waiting turn at another place; 0 is the front.
pub(crate) fn shift(session: &Session, turn: u64, to: u64) -> Result<Vec<Event>, Refusal> {
    let known = known(session, turn)?;
    match known.state {
        TurnState::Queued => {
            let stays = session.turns.queue.iter().position(|queued| *queued == turn);
            let to = to.min(session.turns.queue.len().saturating_sub(1) as u64);
            Ok(if stays == usize::try_from(to).ok() { vec![] } else { vec![Event::QueueMoved { turn, to }] })
        }
        TurnState::Over(end) => Err(Refusal::TurnOver { turn, end: Some(end) }),
        TurnState::Delivered | TurnState::Working => Err(Refusal::TurnStarted { turn }),
    }
}

/// Has a waiting turn say something else. Its number, its place, its key and whatever else was asked of it stay.
pub(crate) fn edit(session: &Session, turn: u64, text: String, by: Actor) -> Result<Vec<Event>, Refusal> {
    let known = known(session, turn)?;
    match known.state {
        TurnState::Queued => {
            can_be_said(session, &text)?;
            Ok(if *known.prompt == *text { vec![] } else { vec![Event::TurnEdited { turn, text, by }] })
        }
        TurnState::Over(end) => Err(Refusal::TurnOver { turn, end: Some(end) }),
        TurnState::Delivered | TurnState::Working => Err(Refusal::TurnStarted { turn }),
    }
}

/// The turn of this number, unless it is long over or was never accepted.
fn known(session: &Session, turn: u64) -> Result<&Turn, Refusal> {
    match session.turns.find(turn) {
        TurnLookup::Here(known) => Ok(known),
        TurnLookup::Past => Err(Refusal::TurnOver { turn, end: None }),
        TurnLookup::Absent => Err(Refusal::NoSuchTurn { turn }),
    }
}

pub(super) fn over(turn: u64, end: TurnEnd, now: Now) -> Event {
    Event::TurnEnded { turn, end, at_boot_ms: now.boot_ms }
}

pub(super) fn who(by: &Actor) -> String {
    if by.place.is_empty() { format!("process {}", by.pid) } else { by.place.clone() }
}
