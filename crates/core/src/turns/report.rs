//! What follows for turns from what the world reports: the agent's words, its end, and time.

use super::apply::end_digest;
use super::queue::{over, who};
use super::send::can_be_said;
use super::time::may_be_released;
use super::{
    Able, Cancel, Current, FIRST_BACK_OFF, Final, Hold, MOST_ENDS, MOST_QUEUED, MOST_RETRIES, Manner,
    OnFailed, OnUnknown, Prompt, RELEASE_GRACE, Release, Retry, TurnEnd, TurnLookup, TurnState,
};
use crate::{Actor, Conversation, Epoch, Event, Now, Outcome, Session};

/// Why a turn was withdrawn that was to be with the agent by a certain time.
const TOO_LATE: &str = "withdrawn: the agent did not have it in time";
/// Why every turn was withdrawn that waited when the session's time was up.
const TIME_IS_UP: &str = "withdrawn: the session's time is up";

/// The agent takes turns.
pub(crate) fn ready(session: &Session, epoch: Epoch, able: Able, now: Now) -> Vec<Event> {
    let awaited = session.turns.ready.is_none() && epoch == session.epoch && may_be_released(session);
    if awaited { vec![Event::AgentReady { epoch, able, at_boot_ms: now.boot_ms }] } else { vec![] }
}

/// The agent has the prompt.
pub(crate) fn began(session: &Session, turn: u64) -> Vec<Event> {
    let is_news = session.turns.has(turn)
        && session.turns.open(turn).is_some_and(|turn| turn.state == TurnState::Delivered);
    if is_news { vec![Event::TurnBegan { turn }] } else { vec![] }
}

/// A turn is over, for the first time or once more. A report of a turn that is no longer in memory is ignored.
pub(crate) fn turn_over(session: &Session, turn: u64, end: TurnEnd, now: Now) -> Vec<Event> {
    if !session.turns.has(turn) {
        let is_news = match session.turns.find(turn) {
            TurnLookup::Here(turn) => {
                turn.state.is_over() && turn.ends.len() < MOST_ENDS && !turn.ends.contains(&end_digest(&end))
            }
            TurnLookup::Past | TurnLookup::Absent => false,
        };
        return if is_news { vec![Event::TurnLate { turn, end }] } else { vec![] };
    }
    let Some(current) = &session.turns.current else { return vec![] };
    if current.turn != turn {
        let policy = session.spec.as_ref().map(|spec| spec.policy.on_unknown).unwrap_or_default();
        let holds = end.state == Final::Unknown && policy == OnUnknown::Hold && session.turns.hold.is_none();
        let hold = holds.then_some(Event::QueueHeld { hold: Hold::Unknown { turn } });
        return std::iter::once(over(turn, end, now)).chain(hold).collect();
    }
    // Only the end of its run, or its own word, proves that an agent in a terminal broke off.
    let unproven = session.has_terminal() && end.state == Final::Unknown;
    let end = if unproven { end } else { current.cancel.iter().fold(end, broken_off) };
    let policy = session.spec.as_ref().map(|spec| spec.policy.on_unknown).unwrap_or_default();
    // Whoever had it broken off for another turn has said that the queue goes on.
    let may_hold = policy == OnUnknown::Hold && session.turns.hold.is_none() && current.cancel.is_none();
    let whole = end.state;
    let steered = current.steered.iter().map(|steered| {
        let was_taken = session.turns.open(*steered).is_some_and(|it| it.state == TurnState::Working);
        (*steered, steered_end(whole, turn, was_taken))
    });
    let ends: Vec<(u64, TurnEnd)> = steered.chain([(turn, end)]).collect();
    let unknown = ends.iter().rfind(|(_, end)| may_hold && end.state == Final::Unknown);
    let hold = unknown.map(|(turn, _)| Event::QueueHeld { hold: Hold::Unknown { turn: *turn } });
    let failed = match ends.last() {
        Some((_, end)) if end.state == Final::Failed && end.failure.is_of_model() => {
            model_failed(session, current, end, now)
        }
        Some(_) | None => vec![],
    };
    ends.into_iter().map(|(turn, end)| over(turn, end, now)).chain(hold).chain(failed).collect()
}

/// What follows for the queue from a turn that failed for a reason that is the model's.
fn model_failed(session: &Session, current: &Current, end: &TurnEnd, now: Now) -> Vec<Event> {
    let policy = session.spec.as_ref().map(|spec| spec.policy.on_failed).unwrap_or_default();
    let (turn, failure) = (current.turn, end.failure);
    let reason = end.reason.clone().unwrap_or_default();
    let waits = !session.turns.queue.is_empty() && session.turns.hold.is_none();
    let held = waits.then(|| {
        let reason = reason.clone();
        Event::QueueHeld { hold: Hold::ModelFailed { turn, failure, reason } }
    });
    let before =
        session.turns.open(turn).and_then(|turn| turn.retry).unwrap_or(Retry { of: turn, attempt: 0 });
    let prompt = again(session, current, Retry { attempt: before.attempt + 1, ..before });
    // The next run may have a terminal, in which the text would be a command.
    let can_be_said = can_be_said(session, &prompt.text).is_ok();
    let ended_for_good = session.stopped_by.is_some() || session.released == Some(Release::Expired);
    let has_room = session.turns.queue.len() < MOST_QUEUED && !ended_for_good;
    match policy {
        OnFailed::Continue => vec![],
        OnFailed::Hold => held.into_iter().collect(),
        OnFailed::Retry if failure.may_pass() && before.attempt < MOST_RETRIES && has_room && can_be_said => {
            let by = session.turns.last() + 1;
            let hold = session.turns.hold.is_none().then(|| {
                let back_off = FIRST_BACK_OFF.as_millis() as u64 * (1 << before.attempt);
                let until_boot_ms = now.boot_ms.saturating_add(back_off);
                let (attempt, boot) = (before.attempt + 1, session.boot().clone());
                let hold = Hold::Retrying { turn, failure, reason, by, attempt, boot, until_boot_ms };
                Event::QueueHeld { hold }
            });
            let accepted = Event::TurnAccepted { turn: by, prompt };
            [accepted, Event::QueueMoved { turn: by, to: 0 }].into_iter().chain(hold).collect()
        }
        OnFailed::Retry => held.into_iter().collect(),
    }
}

/// What a failed turn said, once more: its own text, and what was added to it.
fn again(session: &Session, current: &Current, retry: Retry) -> Prompt {
    let turns = std::iter::once(&current.turn).chain(&current.steered);
    let texts: Vec<&str> =
        turns.filter_map(|turn| session.turns.open(*turn)).map(|turn| &*turn.prompt).collect();
    let Retry { of, attempt } = retry;
    Prompt {
        by: retry_policy(),
        text: texts.join("\n\n"),
        key: Some(format!("~retry-{of}-{attempt}")),
        start_by: None,
        manner: Manner::Queue,
        retry: Some(retry),
    }
}

/// The actor of what berth does by itself.
fn retry_policy() -> Actor {
    Actor { pid: 0, uid: None, place: "policy `on-failed retry`".to_owned() }
}

/// The back-off before a retry is over.
fn back_off_over(session: &Session, now: Now) -> Option<Event> {
    let is_over = session.back_off_until_boot_ms().is_some_and(|until| until <= now.boot_ms);
    is_over.then(|| Event::QueueResumed { by: retry_policy() })
}

/// The end of a turn whose text went into another one. An agent that never said that it took the text in may
/// have finished without it.
fn steered_end(whole: Final, into: u64, was_taken: bool) -> TurnEnd {
    match whole {
        Final::Done if !was_taken => {
            let reason = format!("nothing tells whether its text came into turn {into} before that was done");
            TurnEnd::without_answer(Final::Unknown, reason)
        }
        Final::Done | Final::Failed | Final::Cancelled | Final::Interrupted | Final::Unknown => {
            TurnEnd::without_answer(whole, format!("its text went into turn {into}"))
        }
    }
}

/// The end of a turn that somebody wanted broken off. Done before that could be is what it is, and what was
/// broken off for another turn may have been finished if nobody proved that it was not.
fn broken_off(end: TurnEnd, cancel: &Cancel) -> TurnEnd {
    let by = who(&cancel.by);
    let (state, reason) = match (end.state, cancel.for_another) {
        (Final::Done, _) => return end,
        (Final::Failed | Final::Cancelled | Final::Interrupted | Final::Unknown, false) => {
            (Final::Cancelled, format!("cancelled by {by}"))
        }
        (Final::Failed | Final::Cancelled | Final::Interrupted, true) => {
            (Final::Interrupted, format!("interrupted for another turn by {by}"))
        }
        (Final::Unknown, true) => {
            let unproven = "whether it was finished is unknown";
            (Final::Unknown, format!("interrupted for another turn by {by}, and {unproven}"))
        }
    };
    TurnEnd { state, reason: Some(reason), ..end }
}

pub(crate) fn hold(session: &Session, hold: &Hold) -> Vec<Event> {
    match session.turns.hold {
        Some(_) => vec![],
        None => vec![Event::QueueHeld { hold: hold.clone() }],
    }
}

pub(crate) fn conversation(session: &Session, conversation: &Conversation) -> Vec<Event> {
    if session.conversation.as_ref() == Some(conversation) {
        return vec![];
    }
    vec![Event::ConversationEntered { conversation: conversation.clone() }]
}

/// The agent cannot be used: its run is ended.
pub(crate) fn broken(session: &Session, epoch: Epoch, reason: &str, now: Now) -> Vec<Event> {
    if epoch != session.epoch || !may_be_released(session) {
        return vec![];
    }
    vec![released(session, Release::Broken { reason: reason.to_owned() }, now)]
}

fn released(session: &Session, why: Release, now: Now) -> Event {
    let kill_at_boot_ms = now.boot_ms.saturating_add(RELEASE_GRACE.as_millis() as u64);
    Event::Released { epoch: session.epoch, why, kill_at_boot_ms }
}

/// What time alone brings.
pub(crate) fn tick(session: &Session, now: Now) -> Vec<Event> {
    if session.is_expired(session.boot(), now.boot_ms) {
        return expired(session, now);
    }
    let mut events = withdrawals(session, now);
    events.extend(back_off_over(session, now));
    let cancel = session.turns.current.as_ref().and_then(|current| current.cancel.as_ref());
    let gave_up = cancel.is_some_and(|cancel| cancel.until_boot_ms <= now.boot_ms);
    let is_idle = session.release_at_boot_ms().is_some_and(|at| at <= now.boot_ms);
    if !may_be_released(session) {
        return events;
    }
    if let Some(current) = session.turns.current.as_ref().filter(|_| gave_up && session.has_terminal()) {
        events.extend(crate::edges::break_unconfirmed(session, current.turn, now));
    } else if gave_up {
        events.push(released(session, Release::Unresponsive, now));
    } else if session.switch_is_due() {
        events.push(released(session, Release::Switched, now));
    } else if is_idle {
        events.push(released(session, Release::Idle, now));
    }
    events
}

/// The session's time is up: no agent will ever have what waits.
pub(super) fn expired(session: &Session, now: Now) -> Vec<Event> {
    let waiting = session.turns.queue.iter();
    let withdrawn =
        waiting.map(|turn| over(*turn, TurnEnd::without_answer(Final::Cancelled, TIME_IS_UP), now));
    // A back-off with nothing behind it would wake the keeper for nothing, again and again.
    let retry = session.turns.hold.as_ref().and_then(Hold::retry);
    let resumed = retry.map(|_| Event::QueueResumed { by: retry_policy() });
    let released = may_be_released(session).then(|| released(session, Release::Expired, now));
    withdrawn.chain(resumed).chain(released).collect()
}

/// Turns that were to be with the agent by now.
fn withdrawals(session: &Session, now: Now) -> Vec<Event> {
    let late = session.turns.queue.iter().filter(|turn| session.is_late(**turn, now));
    late.map(|turn| withdrawn(*turn, now)).collect()
}

pub(super) fn withdrawn(turn: u64, now: Now) -> Event {
    over(turn, TurnEnd::without_answer(Final::Cancelled, TOO_LATE), now)
}

/// Whether a turn was cancelled by time, and not by somebody.
pub(crate) fn is_withdrawn(end: &TurnEnd) -> bool {
    end.state == Final::Cancelled && matches!(end.reason.as_deref(), Some(TOO_LATE | TIME_IS_UP))
}

/// What the end of a run means for its turns. The keeper has looked before whether the agent's own record
/// tells how its turn ended; if it did not say, nobody knows.
pub(crate) fn run_over(session: &Session, outcome: &Outcome, now: Now) -> Vec<Event> {
    let mut events = match &session.turns.current {
        Some(current) => {
            let reason = "the run ended, and nothing tells whether the agent had finished";
            turn_over(session, current.turn, TurnEnd::without_answer(Final::Unknown, reason), now)
        }
        None => vec![],
    };
    let failed = match (outcome, &session.released) {
        (Outcome::StartFailed(reason), _) => Some(reason.clone()),
        (Outcome::Exited(_) | Outcome::OutOfMemory, _) if session.turns.was_of_use => None,
        (Outcome::Exited(_) | Outcome::OutOfMemory, Some(Release::Broken { reason })) => Some(reason.clone()),
        (Outcome::Exited(_) | Outcome::OutOfMemory, Some(Release::Unresponsive) | None) => {
            Some("it ended before it took a turn".to_owned())
        }
        (
            Outcome::Exited(_) | Outcome::OutOfMemory,
            Some(Release::Idle | Release::Expired | Release::Switched),
        )
        | (Outcome::Lost, _) => None,
    };
    // Also in a terminal that tells nothing and has turns that a chat left: without a hold, run would follow run.
    let waits = !session.turns.queue.is_empty() && session.stopped_by.is_none();
    // A back-off brings another run, and would do so again and again.
    let may_hold = session.turns.hold.as_ref().is_none_or(|hold| hold.retry().is_some());
    let holds = waits && may_hold && events.is_empty();
    if let Some(reason) = failed.filter(|_| holds) {
        events.push(Event::QueueHeld { hold: Hold::AgentFailed { reason } });
    }
    events
}
