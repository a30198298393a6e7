//! Any journal, told in the plainest way and by the index: both tell the same of every turn.

use std::fs;

use berth_api::status::Timestamp;
use berth_api::turn::{AnswerGiven, Hold, TurnView, turn_id};
use berth_core::{
    Actor, Ask, Boundary, Cancel, Epoch, Event, Exit, Final, Manner, Outcome, Process, Prompt, Reply,
    Session, SessionId, Spec, TurnEnd, TurnState,
};
use berth_journal::fake::FakeDisk;
use berth_journal::{Committed, Journal, Limits};
use proptest::prelude::*;

use super::*;
use crate::history::{History, Stored};
use crate::turn_view;

fn id() -> SessionId {
    SessionId::parse("0123456789ab").expect("an id")
}

/// What happens next: a kind of event, and a number that says to which turn or question.
type Step = (u8, u64);

/// Events as a life could bring them, in any order: applying them never fails.
fn events(steps: &[Step]) -> Vec<Event> {
    let (mut last, mut epoch) = (0, 0);
    let spec = Spec { driver: "claude".to_owned(), ..Spec::default() };
    let mut events = vec![Event::Created { spec: spec.clone(), name: None }];
    for (kind, number) in steps {
        let turn = 1 + number % last.max(1);
        let request = format!("question {}", number % 3);
        let by = Actor { pid: *number as u32, ..Actor::default() };
        let end = TurnEnd::without_answer(
            [Final::Done, Final::Failed, Final::Unknown][*number as usize % 3],
            "why",
        );
        events.push(match kind {
            0..4 => {
                last += 1;
                let key = (number % 2 == 0).then(|| format!("key {number}"));
                let text = format!("text {number}");
                let manner = if number % 5 == 0 { Manner::Steer } else { Manner::Queue };
                let prompt = Prompt { by, text, key, start_by: None, manner, retry: None };
                Event::TurnAccepted { turn: last, prompt }
            }
            4 => Event::TurnEdited { turn, text: format!("edited {number}"), by },
            5..8 => Event::TurnDelivered { turn, epoch: Epoch(epoch), output_from: *number },
            8 | 9 => Event::TurnBegan { turn },
            10 => {
                let cancel = Cancel { by, for_another: false, until_boot_ms: 0 };
                Event::CancelRequested { turn, cancel }
            }
            11 | 12 => Event::TurnEnded { turn, end, at_boot_ms: 0 },
            13 => Event::TurnLate { turn, end },
            14..18 => Event::Asked { ask: Ask { request, tool: format!("tool {number}"), ..Ask::default() } },
            18..22 => Event::Answered { request, reply: Reply::default(), by },
            22 => Event::Unasked { request },
            23 => {
                epoch += 1;
                let (keeper, boundary) = (Process::default(), Boundary::default());
                Event::RunStarting { epoch: Epoch(epoch), keeper, output_from: *number, boundary }
            }
            24 => Event::RunEnded { epoch: Epoch(epoch), outcome: Outcome::Exited(Exit::Code(0)) },
            _ => {
                let driver = if number % 2 == 0 { "pty" } else { "claude" };
                Event::Respecified { spec: Spec { driver: driver.to_owned(), ..spec.clone() } }
            }
        });
    }
    // Late words only follow an end, and only what was accepted has a life.
    let (mut over, mut accepted) = (std::collections::BTreeSet::new(), 0);
    events.retain(|event| match event {
        Event::TurnAccepted { turn, .. } => {
            accepted = *turn;
            true
        }
        event if turn_view::turn_of(event).is_some_and(|turn| turn > accepted) => false,
        Event::TurnEnded { turn, .. } => over.insert(*turn),
        Event::TurnLate { turn, .. } => over.contains(turn),
        Event::TurnDelivered { turn, .. } | Event::TurnBegan { turn } => !over.contains(turn),
        _ => true,
    });
    events
}

fn committed(events: Vec<Event>) -> Vec<Committed<Stored>> {
    let mut journal = Journal::create(FakeDisk::new(0), id().as_str(), Limits::default()).expect("a journal");
    let stored = events.into_iter().enumerate().map(|(at, event)| Stored { at_ms: at as u64, event });
    journal.append(stored.collect()).expect("room")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_turn_of_its_own_events_is_the_turn_of_the_whole_journal(
        steps in prop::collection::vec((0_u8..27, 0_u64..40), 0..160),
        split in 0_usize..160,
        lost in 0_usize..40,
    ) {
        let events = committed(events(&steps));
        let expected = plainly(&events);
        prop_assert_eq!(&turn_view::views(&events, &id()), &expected);

        // A writer came further than the snapshot and died; the next one takes its place.
        let split = split.min(events.len());
        let further = (split + lost).min(events.len());
        let dir = std::env::temp_dir().join(format!("berth-turn-index-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        let mut history = History::default();
        let before: Vec<Link> = events[..split].iter().flat_map(|event| history.apply(event)).collect();
        let index = TurnIndex::rebuild(&dir, &before).expect("an index");
        let at_snapshot = history.clone();
        for event in &events[split..further] {
            let links = history.apply(event);
            index.add(event.seq().0, &links).expect("room");
        }
        let tail = |mut history: History| -> (History, Vec<Link>) {
            let links = events[split..].iter().flat_map(|event| history.apply(event)).collect();
            (history, links)
        };
        let (now, links) = tail(at_snapshot.clone());
        let behind = by_turn(&links);
        // A reader believes the index as far as the snapshot goes.
        let read = |upto: u64, tail: &BTreeMap<u64, Vec<Link>>| -> Vec<TurnView> {
            let links = |turn: u64| {
                let indexed = index.links(turn, upto).expect("readable").unwrap_or_default();
                indexed.into_iter().chain(tail.get(&turn).cloned().unwrap_or_default()).collect::<Vec<_>>()
            };
            let numbers = 1..=now.session.turns.last();
            numbers.filter_map(|turn| turn_view::view(&id(), &now.session, &links(turn), &events)).collect()
        };
        prop_assert_eq!(&read(split as u64, &behind), &expected);
        // The next writer repeats what the last one did.
        index.add(split as u64 + 1, &links).expect("room");
        prop_assert_eq!(&read(now.seq, &BTreeMap::new()), &expected);
        let keys = index.keys(now.session.turns.last()).expect("readable").expect("all");
        let mut known = berth_core::TurnKeys::default();
        known.remember_all(keys);
        prop_assert_eq!(&known, &now.session.turns.keys);
        fs::remove_dir_all(&dir).expect("our own directory");
    }
}

#[test]
fn a_record_that_is_damaged_or_of_another_turn_is_not_believed() {
    let record = Record { turn: 3, seqs: vec![5, 6], ..Record::default() };
    let bytes = record.encode();
    assert_eq!(Record::decode(&bytes, 3), Some(record));
    assert_eq!(Record::decode(&bytes, 4), None);
    for at in 0..RECORD_BYTES {
        let mut changed = bytes;
        changed[at] ^= 1;
        assert_eq!(Record::decode(&changed, 3), None, "byte {at}");
    }
}

/// All turns, told in one go through the whole journal.
fn plainly(events: &[Committed<Stored>]) -> Vec<TurnView> {
    let mut views: Vec<TurnView> = Vec::new();
    let mut states: Vec<TurnState> = Vec::new();
    let mut session = Session::default();
    for event in events {
        let Stored { at_ms, event } = event.get();
        if let Event::Answered { request, reply, by } = event {
            let turns = &session.turns;
            let view = turns.current.as_ref().and_then(|current| view_of(&mut views, current.turn));
            let ask = turns.asks.iter().find(|ask| ask.request == *request);
            if let (Some(view), Some(ask)) = (view, ask) {
                view.answers.push(AnswerGiven {
                    request: request.clone(),
                    tool: ask.tool.clone(),
                    detail: ask.detail.clone(),
                    reply: reply.clone().into(),
                    by: by.clone().into(),
                    answered_at: Timestamp(*at_ms),
                });
            }
        }
        session.apply(event);
        tell(&mut views, &id(), Timestamp(*at_ms), event);
        states.resize(views.len(), TurnState::Queued);
        let (turn, state) = match event {
            Event::TurnDelivered { turn, .. } => (*turn, TurnState::Delivered),
            Event::TurnBegan { turn } => (*turn, TurnState::Working),
            Event::TurnEnded { turn, end, .. } => (*turn, TurnState::Over(end.state)),
            _ => continue,
        };
        if let Some(known) = states.get_mut(turn as usize - 1).filter(|known| !known.is_over()) {
            *known = state;
        }
        if let Some(view) = view_of(&mut views, turn).filter(|_| state == TurnState::Delivered) {
            view.interface = session.spec.as_ref().map(|spec| spec.interface().into());
        }
    }
    let held = session.turns.hold.clone().map(|hold| Hold::from(hold).describe(id().as_str()));
    for (view, state) in views.iter_mut().zip(states) {
        view.state = state.into();
        view.in_progress = !state.is_over();
        let position = session.turns.queue.iter().position(|queued| *queued == view.number);
        view.position = position.map(|at| at as u64);
        view.held = held.clone().filter(|_| position.is_some());
    }
    views
}

fn tell(views: &mut Vec<TurnView>, id: &SessionId, at: Timestamp, event: &Event) {
    match event {
        Event::TurnAccepted { turn, prompt } => views.push(TurnView {
            turn: turn_id(id.as_str(), *turn),
            session: id.to_string(),
            number: *turn,
            prompt: prompt.text.clone(),
            key: prompt.key.clone(),
            by: prompt.by.clone().into(),
            manner: prompt.manner.into(),
            retry: prompt.retry.map(Into::into),
            accepted_at: at,
            ..TurnView::default()
        }),
        Event::TurnEdited { turn, text, by } => {
            if let Some(view) = view_of(views, *turn) {
                view.prompt.clone_from(text);
                (view.edited_at, view.edited_by) = (Some(at), Some(by.clone().into()));
            }
        }
        Event::TurnDelivered { turn, epoch, output_from } => {
            if let Some(view) = view_of(views, *turn) {
                (view.delivered_at, view.epoch, view.output_from) =
                    (Some(at), Some(epoch.0), Some(*output_from));
            }
        }
        Event::TurnBegan { turn } => {
            if let Some(view) = view_of(views, *turn) {
                view.began_at = Some(at);
            }
        }
        Event::CancelRequested { turn, cancel } => {
            if let Some(view) = view_of(views, *turn) {
                view.cancelled_by = Some(cancel.by.clone().into());
            }
        }
        Event::TurnEnded { turn, end, .. } => {
            if let Some(view) = view_of(views, *turn) {
                view.ended_at = Some(at);
                view.answer = Some(end.answer.clone());
                (view.cut, view.reason) = (end.cut, end.reason.clone());
                (view.input_tokens, view.output_tokens) = (end.input_tokens, end.output_tokens);
                view.failure = end.failure.into();
            }
        }
        Event::TurnLate { turn, end } => {
            if let Some(view) = view_of(views, *turn) {
                view.late.push(end.clone().into());
            }
        }
        _ => {}
    }
}

fn view_of(views: &mut [TurnView], turn: u64) -> Option<&mut TurnView> {
    views.get_mut(usize::try_from(turn).ok()?.checked_sub(1)?)
}
