//! For any journal, the index and a plain replay give equal turns.

use berth_api::status::Timestamp;
use berth_api::turn::{GivenAnswer, QueueHold, TurnView, turn_id};
use berth_core::{
    Actor, AgentQuestion, CancelRequest, ChosenReply, Epoch, Event, FinalState, ProcessExit, ProcessRef,
    RunBoundary, RunOutcome, SendMode, Session, SessionId, SessionSpec, TurnEnd, TurnProgress, TurnPrompt,
};
use berth_journal::fake_disk::FakeDisk;
use berth_journal::{Committed, Journal, JournalLimits};
use berth_test_dir::TestDir;
use proptest::prelude::*;

use super::*;
use crate::session_view::{SessionView, StoredEvent};
use crate::turn_view;

fn id() -> SessionId {
    SessionId::parse("0123456789ab").expect("an id")
}

/// Kind of the next event, and a number that chooses the turn or question.
type TurnIndexTestStep = (u8, u64);

/// Events as a life could bring them, in any order: applying them never fails.
fn events(steps: &[TurnIndexTestStep]) -> Vec<Event> {
    let (mut last, mut epoch) = (0, 0);
    let spec = SessionSpec { driver: "claude".to_owned(), ..SessionSpec::default() };
    let mut events = vec![Event::Created { spec: spec.clone(), name: None }];
    for (kind, number) in steps {
        let turn = 1 + number % last.max(1);
        let request = format!("question {}", number % 3);
        let by = Actor { pid: *number as u32, ..Actor::default() };
        let end = TurnEnd::without_answer(
            [FinalState::Done, FinalState::Failed, FinalState::Unknown][*number as usize % 3],
            "why",
        );
        events.push(match kind {
            0..4 => {
                last += 1;
                let key = (number % 2 == 0).then(|| format!("key {number}"));
                let text = format!("text {number}");
                let manner = if number % 5 == 0 { SendMode::Steer } else { SendMode::Queue };
                let prompt = TurnPrompt { by, text, key, start_by: None, manner, retry: None };
                Event::TurnAccepted { turn: last, prompt }
            }
            4 => Event::TurnEdited { turn, text: format!("edited {number}"), by },
            5..8 => Event::TurnDelivered { turn, epoch: Epoch(epoch), output_from: *number },
            8 | 9 => Event::TurnBegan { turn },
            10 => {
                let cancel = CancelRequest { by, for_another: false, until_boot_ms: 0 };
                Event::CancelRequested { turn, cancel }
            }
            11 | 12 => Event::TurnEnded { turn, end, at_boot_ms: 0 },
            13 => Event::LateResult { turn, end },
            14..18 => Event::QuestionAsked {
                ask: AgentQuestion { request, tool: format!("tool {number}"), ..AgentQuestion::default() },
            },
            18..22 => Event::Answered { request, reply: ChosenReply::default(), by },
            22 => Event::QuestionWithdrawn { request },
            23 => {
                epoch += 1;
                let (keeper, boundary) = (ProcessRef::default(), RunBoundary::default());
                Event::RunStarting { epoch: Epoch(epoch), keeper, output_from: *number, boundary }
            }
            24 => Event::RunEnded { epoch: Epoch(epoch), outcome: RunOutcome::Exited(ProcessExit::Code(0)) },
            _ => {
                let driver = if number % 2 == 0 { "pty" } else { "claude" };
                Event::CommandChanged { spec: SessionSpec { driver: driver.to_owned(), ..spec.clone() } }
            }
        });
    }
    // Late reports only follow an end, and only an accepted turn has a life.
    let (mut over, mut accepted) = (std::collections::BTreeSet::new(), 0);
    events.retain(|event| match event {
        Event::TurnAccepted { turn, .. } => {
            accepted = *turn;
            true
        }
        event if turn_view::turn_of(event).is_some_and(|turn| turn > accepted) => false,
        Event::TurnEnded { turn, .. } => over.insert(*turn),
        Event::LateResult { turn, .. } => over.contains(turn),
        Event::TurnDelivered { turn, .. } | Event::TurnBegan { turn } => !over.contains(turn),
        _ => true,
    });
    events
}

fn committed(events: Vec<Event>) -> Vec<Committed<StoredEvent>> {
    let mut journal =
        Journal::create(FakeDisk::new(0), id().as_str(), JournalLimits::default()).expect("a journal");
    let stored = events.into_iter().enumerate().map(|(at, event)| StoredEvent { at_ms: at as u64, event });
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
        prop_assert_eq!(&turn_view::turn_views(&events, &id()), &expected);

        // One writer came further than the snapshot and died; the next one takes its place.
        let split = split.min(events.len());
        let further = (split + lost).min(events.len());
        let dir = TestDir::new();
        let mut history = SessionView::default();
        let before: Vec<TurnLink> = events[..split].iter().flat_map(|event| history.apply(event)).collect();
        let index = TurnIndex::rebuild(&dir, &before).expect("an index");
        let at_snapshot = history.clone();
        for event in &events[split..further] {
            let links = history.apply(event);
            index.add(event.seq().0, &links).expect("room");
        }
        let tail = |mut history: SessionView| -> (SessionView, Vec<TurnLink>) {
            let links = events[split..].iter().flat_map(|event| history.apply(event)).collect();
            (history, links)
        };
        let (now, links) = tail(at_snapshot.clone());
        let behind = by_turn(&links);
        // A reader believes the index as far as the snapshot goes.
        let read = |upto: u64, tail: &BTreeMap<u64, Vec<TurnLink>>| -> Vec<TurnView> {
            let links = |turn: u64| {
                let indexed = index.links(turn, upto).expect("readable").unwrap_or_default();
                indexed.into_iter().chain(tail.get(&turn).cloned().unwrap_or_default()).collect::<Vec<_>>()
            };
            let numbers = 1..=now.session.turns.last();
            numbers.filter_map(|turn| turn_view::turn_view(&id(), &now.session, &links(turn), &events)).collect()
        };
        prop_assert_eq!(&read(split as u64, &behind), &expected);
        // The next writer repeats what the last one did.
        index.add(split as u64 + 1, &links).expect("room");
        prop_assert_eq!(&read(now.seq, &BTreeMap::new()), &expected);
        let keys = index.keys(now.session.turns.last()).expect("readable").expect("all");
        let mut known = berth_core::TurnKeys::default();
        known.remember_all(keys);
        prop_assert_eq!(&known, &now.session.turns.keys);
    }
}

#[test]
fn a_record_that_is_damaged_or_of_another_turn_is_not_believed() {
    let record = TurnIndexRecord { turn: 3, seqs: vec![5, 6], ..TurnIndexRecord::default() };
    let bytes = record.encode();
    assert_eq!(TurnIndexRecord::decode(&bytes, 3), Some(record));
    assert_eq!(TurnIndexRecord::decode(&bytes, 4), None);
    for at in 0..RECORD_BYTES {
        let mut changed = bytes;
        changed[at] ^= 1;
        assert_eq!(TurnIndexRecord::decode(&changed, 3), None, "byte {at}");
    }
}

/// All turns, folded in one pass through the whole journal.
fn plainly(events: &[Committed<StoredEvent>]) -> Vec<TurnView> {
    let mut views: Vec<TurnView> = Vec::new();
    let mut states: Vec<TurnProgress> = Vec::new();
    let mut session = Session::default();
    for event in events {
        let StoredEvent { at_ms, event } = event.get();
        if let Event::Answered { request, reply, by } = event {
            let turns = &session.turns;
            let view = turns.current.as_ref().and_then(|current| view_of(&mut views, current.turn));
            let ask = turns.asks.iter().find(|ask| ask.request == *request);
            if let (Some(view), Some(ask)) = (view, ask) {
                view.answers.push(GivenAnswer {
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
        states.resize(views.len(), TurnProgress::Queued);
        let (turn, state) = match event {
            Event::TurnDelivered { turn, .. } => (*turn, TurnProgress::Delivered),
            Event::TurnBegan { turn } => (*turn, TurnProgress::Working),
            Event::TurnEnded { turn, end, .. } => (*turn, TurnProgress::Over(end.state)),
            _ => continue,
        };
        if let Some(known) = states.get_mut(turn as usize - 1).filter(|known| !known.is_over()) {
            *known = state;
        }
        if let Some(view) = view_of(&mut views, turn).filter(|_| state == TurnProgress::Delivered) {
            view.interface = session.spec.as_ref().map(|spec| spec.interface().into());
        }
    }
    let held = session.turns.hold.clone().map(|hold| QueueHold::from(hold).describe(id().as_str()));
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
        Event::LateResult { turn, end } => {
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
