//! Events of turns that follow from reports of the world: the agent's messages, its end, and time.

use super::apply::end_digest;
use super::queue::{actor_label, turn_ended};
use super::send::check_prompt;
use super::timeouts::may_be_released;
use super::{
    AgentCapabilities, CancelRequest, CurrentTurn, FIRST_BACK_OFF, FinalState, MOST_ENDS, MOST_QUEUED,
    MOST_RETRIES, OnFailed, OnUnknown, QueueHold, RELEASE_GRACE, ReleaseReason, SendMode, TurnEnd,
    TurnLookup, TurnProgress, TurnPrompt, TurnRetry,
};
use crate::{Actor, ClockReading, Conversation, Epoch, Event, RunOutcome, Session};

/// Reason of a turn that was withdrawn because the agent did not have it by its limit.
const TOO_LATE: &str = "withdrawn: the agent did not have it in time";
/// Reason of every turn that waited when the session's time to live ended.
const TIME_IS_UP: &str = "withdrawn: the session's time is up";

/// The agent is ready to take turns.
pub(crate) fn ready(
    session: &Session,
    epoch: Epoch,
    able: AgentCapabilities,
    now: ClockReading,
) -> Vec<Event> {
    let awaited = session.turns.ready.is_none() && epoch == session.epoch && may_be_released(session);
    if awaited { vec![Event::AgentReady { epoch, able, at_boot_ms: now.boot_ms }] } else { vec![] }
}

/// The agent confirmed the prompt.
pub(crate) fn began(session: &Session, turn: u64) -> Vec<Event> {
    let is_news = session.turns.has(turn)
        && session.turns.open(turn).is_some_and(|turn| turn.state == TurnProgress::Delivered);
    if is_news { vec![Event::TurnBegan { turn }] } else { vec![] }
}

/// A turn is over, for the first time or reported again. A report of a turn that is no longer in memory is ignored.
pub(crate) fn turn_over(session: &Session, turn: u64, end: TurnEnd, now: ClockReading) -> Vec<Event> {
    if !session.turns.has(turn) {
        let is_news = match session.turns.find(turn) {
            TurnLookup::Here(turn) => {
                turn.state.is_over() && turn.ends.len() < MOST_ENDS && !turn.ends.contains(&end_digest(&end))
            }
            TurnLookup::Past | TurnLookup::Absent => false,
        };
        return if is_news { vec![Event::LateResult { turn, end }] } else { vec![] };
    }
    let Some(current) = &session.turns.current else { return vec![] };
    if current.turn != turn {
        let policy = session.spec.as_ref().map(|spec| spec.policy.on_unknown).unwrap_or_default();
        let holds =
            end.state == FinalState::Unknown && policy == OnUnknown::Hold && session.turns.hold.is_none();
        let hold = holds.then_some(Event::QueueHeld { hold: QueueHold::Unknown { turn } });
        return std::iter::once(turn_ended(turn, end, now)).chain(hold).collect();
    }
    // Only the end of its run, or its own report, proves that an agent in a terminal interrupted its turn.
    let unproven = session.has_terminal() && end.state == FinalState::Unknown;
    let end = if unproven { end } else { current.cancel.iter().fold(end, broken_off) };
    let policy = session.spec.as_ref().map(|spec| spec.policy.on_unknown).unwrap_or_default();
    // A user who interrupted it for another turn has said that the queue goes on.
    let may_hold = policy == OnUnknown::Hold && session.turns.hold.is_none() && current.cancel.is_none();
    let whole = end.state;
    let steered = current.steered.iter().map(|steered| {
        let was_taken = session.turns.open(*steered).is_some_and(|it| it.state == TurnProgress::Working);
        (*steered, steered_end(whole, turn, was_taken))
    });
    let ends: Vec<(u64, TurnEnd)> = steered.chain([(turn, end)]).collect();
    let unknown = ends.iter().rfind(|(_, end)| may_hold && end.state == FinalState::Unknown);
    let hold = unknown.map(|(turn, _)| Event::QueueHeld { hold: QueueHold::Unknown { turn: *turn } });
    let failed = match ends.last() {
        Some((_, end)) if end.state == FinalState::Failed && end.failure.is_model_failure() => {
            model_failed(session, current, end, now)
        }
        Some(_) | None => vec![],
    };
    ends.into_iter().map(|(turn, end)| turn_ended(turn, end, now)).chain(hold).chain(failed).collect()
}

/// Events for the queue after a turn that failed because of the model.
fn model_failed(session: &Session, current: &CurrentTurn, end: &TurnEnd, now: ClockReading) -> Vec<Event> {
    let policy = session.spec.as_ref().map(|spec| spec.policy.on_failed).unwrap_or_default();
    let (turn, failure) = (current.turn, end.failure);
    let reason = end.reason.clone().unwrap_or_default();
    let waits = !session.turns.queue.is_empty() && session.turns.hold.is_none();
    let held = waits.then(|| {
        let reason = reason.clone();
        Event::QueueHeld { hold: QueueHold::ModelFailed { turn, failure, reason } }
    });
    let before =
        session.turns.open(turn).and_then(|turn| turn.retry).unwrap_or(TurnRetry { of: turn, attempt: 0 });
    let prompt = again(session, current, TurnRetry { attempt: before.attempt + 1, ..before });
    // The next run may have a terminal, in which the text would be a command.
    let can_be_said = check_prompt(session, &prompt.text).is_ok();
    let ended_for_good = session.stopped_by.is_some() || session.released == Some(ReleaseReason::Expired);
    let has_room = session.turns.queue.len() < MOST_QUEUED && !ended_for_good;
    match policy {
        OnFailed::Continue => vec![],
        OnFailed::Hold => held.into_iter().collect(),
        OnFailed::Retry
            if failure.is_transient() && before.attempt < MOST_RETRIES && has_room && can_be_said =>
        {
            let by = session.turns.last() + 1;
            let hold = session.turns.hold.is_none().then(|| {
                let back_off = FIRST_BACK_OFF.as_millis() as u64 * (1 << before.attempt);
                let until_boot_ms = now.boot_ms.saturating_add(back_off);
                let (attempt, boot) = (before.attempt + 1, session.boot().clone());
                let hold = QueueHold::Retrying { turn, failure, reason, by, attempt, boot, until_boot_ms };
                Event::QueueHeld { hold }
            });
            let accepted = Event::TurnAccepted { turn: by, prompt };
            [accepted, Event::QueueMoved { turn: by, to: 0 }].into_iter().chain(hold).collect()
        }
        OnFailed::Retry => held.into_iter().collect(),
    }
}

/// Prompt that repeats a failed turn: its own text, and the text that was added to it.
fn again(session: &Session, current: &CurrentTurn, retry: TurnRetry) -> TurnPrompt {
    let turns = std::iter::once(&current.turn).chain(&current.steered);
    let texts: Vec<&str> =
        turns.filter_map(|turn| session.turns.open(*turn)).map(|turn| &*turn.prompt).collect();
    let TurnRetry { of, attempt } = retry;
    TurnPrompt {
        by: retry_policy(),
        text: texts.join("\n\n"),
        key: Some(format!("~retry-{of}-{attempt}")),
        start_by: None,
        manner: SendMode::Queue,
        retry: Some(retry),
    }
}

/// Actor of an action that berth takes by itself.
fn retry_policy() -> Actor {
    Actor { pid: 0, uid: None, place: "policy `on-failed retry`".to_owned() }
}

/// Resumes the queue when the back-off before a retry is over.
fn back_off_over(session: &Session, now: ClockReading) -> Option<Event> {
    let is_over = session.back_off_until_boot_ms().is_some_and(|until| until <= now.boot_ms);
    is_over.then(|| Event::QueueResumed { by: retry_policy() })
}

/// End of a turn whose text went into another one. An agent that never confirmed the added text may have finished
/// without it.
fn steered_end(whole: FinalState, into: u64, was_taken: bool) -> TurnEnd {
    match whole {
        FinalState::Done if !was_taken => {
            let reason = format!("no proof that its text was added to turn {into} before turn {into} ended");
            TurnEnd::without_answer(FinalState::Unknown, reason)
        }
        FinalState::Done
        | FinalState::Failed
        | FinalState::Cancelled
        | FinalState::Interrupted
        | FinalState::Unknown => TurnEnd::without_answer(whole, format!("its text went into turn {into}")),
    }
}

/// End of a turn that was to be interrupted. A turn that was done first stays done. A turn that was interrupted
/// for another one may have been finished unless the opposite is proven.
fn broken_off(end: TurnEnd, cancel: &CancelRequest) -> TurnEnd {
    let by = actor_label(&cancel.by);
    let (state, reason) = match (end.state, cancel.for_another) {
        (FinalState::Done, _) => return end,
        (
            FinalState::Failed | FinalState::Cancelled | FinalState::Interrupted | FinalState::Unknown,
            false,
        ) => (FinalState::Cancelled, format!("cancelled by {by}")),
        (FinalState::Failed | FinalState::Cancelled | FinalState::Interrupted, true) => {
            (FinalState::Interrupted, format!("interrupted for another turn by {by}"))
        }
        (FinalState::Unknown, true) => {
            let unproven = "whether it was finished is unknown";
            (FinalState::Unknown, format!("interrupted for another turn by {by}, and {unproven}"))
        }
    };
    TurnEnd { state, reason: Some(reason), ..end }
}

pub(crate) fn hold(session: &Session, hold: &QueueHold) -> Vec<Event> {
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
pub(crate) fn broken(session: &Session, epoch: Epoch, reason: &str, now: ClockReading) -> Vec<Event> {
    if epoch != session.epoch || !may_be_released(session) {
        return vec![];
    }
    vec![released(session, ReleaseReason::Broken { reason: reason.to_owned() }, now)]
}

fn released(session: &Session, why: ReleaseReason, now: ClockReading) -> Event {
    let kill_at_boot_ms = now.boot_ms.saturating_add(RELEASE_GRACE.as_millis() as u64);
    Event::RunReleased { epoch: session.epoch, why, kill_at_boot_ms }
}

/// Events that follow from the time alone.
pub(crate) fn tick(session: &Session, now: ClockReading) -> Vec<Event> {
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
        events.extend(crate::activity::interrupt_unconfirmed(session, current.turn, now));
    } else if gave_up {
        events.push(released(session, ReleaseReason::Unresponsive, now));
    } else if session.switch_is_due() {
        events.push(released(session, ReleaseReason::Switched, now));
    } else if is_idle {
        events.push(released(session, ReleaseReason::Idle, now));
    }
    events
}

/// The session's time to live has ended: no agent will ever get the waiting turns.
pub(super) fn expired(session: &Session, now: ClockReading) -> Vec<Event> {
    let waiting = session.turns.queue.iter();
    let withdrawn = waiting
        .map(|turn| turn_ended(*turn, TurnEnd::without_answer(FinalState::Cancelled, TIME_IS_UP), now));
    // A back-off with no turn behind it would wake the keeper for nothing, again and again.
    let retry = session.turns.hold.as_ref().and_then(QueueHold::retry);
    let resumed = retry.map(|_| Event::QueueResumed { by: retry_policy() });
    let released = may_be_released(session).then(|| released(session, ReleaseReason::Expired, now));
    withdrawn.chain(resumed).chain(released).collect()
}

/// Withdraws the turns that the agent should have had by now.
fn withdrawals(session: &Session, now: ClockReading) -> Vec<Event> {
    let late = session.turns.queue.iter().filter(|turn| session.is_late(**turn, now));
    late.map(|turn| withdrawn(*turn, now)).collect()
}

pub(super) fn withdrawn(turn: u64, now: ClockReading) -> Event {
    turn_ended(turn, TurnEnd::without_answer(FinalState::Cancelled, TOO_LATE), now)
}

/// True if a turn was cancelled by time, and not by a client.
pub(crate) fn is_withdrawn(end: &TurnEnd) -> bool {
    end.state == FinalState::Cancelled && matches!(end.reason.as_deref(), Some(TOO_LATE | TIME_IS_UP))
}

/// Ends the turn of a run that is over. The keeper has already checked whether the agent's transcript shows how
/// the turn ended; if the record did not, the end is unknown.
pub(crate) fn run_over(session: &Session, outcome: &RunOutcome, now: ClockReading) -> Vec<Event> {
    let mut events = match &session.turns.current {
        Some(current) => {
            let reason = "the run ended; there is no proof that the agent finished the turn";
            turn_over(session, current.turn, TurnEnd::without_answer(FinalState::Unknown, reason), now)
        }
        None => vec![],
    };
    let failed = match (outcome, &session.released) {
        (RunOutcome::StartFailed(reason), _) => Some(reason.clone()),
        (RunOutcome::Exited(_) | RunOutcome::OutOfMemory, _) if session.turns.was_of_use => None,
        (RunOutcome::Exited(_) | RunOutcome::OutOfMemory, Some(ReleaseReason::Broken { reason })) => {
            Some(reason.clone())
        }
        (RunOutcome::Exited(_) | RunOutcome::OutOfMemory, Some(ReleaseReason::Unresponsive) | None) => {
            Some("it ended before it took a turn".to_owned())
        }
        (
            RunOutcome::Exited(_) | RunOutcome::OutOfMemory,
            Some(ReleaseReason::Idle | ReleaseReason::Expired | ReleaseReason::Switched),
        )
        | (RunOutcome::Lost, _) => None,
    };
    // This includes a terminal without hooks that has turns left by a chat: without a hold, run would follow run.
    let waits = !session.turns.queue.is_empty() && session.stopped_by.is_none();
    // A back-off brings another run, and would do so again and again.
    let may_hold = session.turns.hold.as_ref().is_none_or(|hold| hold.retry().is_some());
    let holds = waits && may_hold && events.is_empty();
    if let Some(reason) = failed.filter(|_| holds) {
        events.push(Event::QueueHeld { hold: QueueHold::AgentFailed { reason } });
    }
    events
}
