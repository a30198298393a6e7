//! A snapshot is restored to the session that it was made of, whatever events the session had.
//!
//! The events come in any order here, also in orders that no rule would allow: a session applies them all, and
//! reaches states that few real lives have. The simulation of `berth-keeper` stores real lives.

use std::hash::{BuildHasher, Hasher, RandomState};

use berth_core::{
    ActivityChange, Actor, AgentCapabilities, AgentInterface, AgentQuestion, BootId, CancelRequest,
    Conversation, ConversationOrigin, Epoch, Event, Fence, FinalState, HelperOwner, HelperScope, HelperTerms,
    InterfaceLaunch, LeaveReason, MOST_OVER_KEPT, NotificationKind, NotificationPolicy, ProcessExit,
    ProcessRef, QuestionOption, QuestionOptionKind, QueueHold, ReadinessProbe, ReleaseReason, RunBoundary,
    RunOutcome, SafeName, SendMode, Session, SessionExpiry, SessionId, SessionPolicy, SessionSpec,
    StartDeadline, TurnEnd, TurnFailure, TurnLookup, TurnPrompt, TurnRetry,
};
use proptest::collection::vec;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed};

use super::{BadSnapshot, SessionSnapshot};

/// Converts to JSON and back, with the keys that a turn index would add.
fn back_from_paper(session: &Session) -> Session {
    let json = serde_json::to_vec(&SessionSnapshot::from(session)).expect("plain data");
    let paper: SessionSnapshot = serde_json::from_slice(&json).expect("what we wrote");
    let mut back = Session::try_from(paper).expect("what we wrote");
    for key in session.turns.keys.iter() {
        back.turns.remember_key(key.hash, key.turn, key.digest);
    }
    back
}

fn seed() -> u64 {
    let given = std::env::var("BERTH_SEED").ok().map(|seed| seed.parse().expect("BERTH_SEED is a number"));
    let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("BERTH_SEED={seed} repeats this run");
    seed
}

proptest::proptest! {
    #![proptest_config(Config { failure_persistence: None, rng_seed: RngSeed::Fixed(seed()), ..Config::with_cases(64) })]

    #[test]
    fn a_session_comes_back_from_paper_as_it_was(events in vec(select(events()), 1..200)) {
        let mut session = Session::default();
        for event in events {
            session.apply(&event);
            assert_eq!(back_from_paper(&session), session);
        }
    }
}

#[test]
fn every_kind_of_event_leaves_something_that_comes_back() {
    let mut session = Session::default();
    for event in events() {
        session.apply(&event);
        assert_eq!(back_from_paper(&session), session, "after {event:?}");
    }
}

#[test]
fn a_session_with_more_turns_than_memory_keeps_comes_back_and_knows_all_keys() {
    let mut session = Session::default();
    for turn in 1..=3 * MOST_OVER_KEPT as u64 {
        session.apply(&accepted(turn, &format!("key {turn}")));
        session.apply(&Event::TurnEnded { turn, end: end(FinalState::Done), at_boot_ms: turn });
    }
    let back = back_from_paper(&session);
    assert_eq!(back, session);
    assert_eq!((back.turns.find(1), back.turns.keyed("key 1")), (TurnLookup::Past, Some(1)));
}

#[test]
fn a_snapshot_of_another_format_is_not_read() {
    let mut json = serde_json::to_value(SessionSnapshot::from(&Session::default())).expect("plain data");
    json["format"] = 999.into();
    let paper: SessionSnapshot = serde_json::from_value(json).expect("the rest fits");
    assert_eq!(Session::try_from(paper), Err(BadSnapshot::Format(999)));
}

fn actor() -> Actor {
    Actor { pid: 1, uid: Some(2), place: "pts/3".to_owned() }
}

fn boot() -> BootId {
    BootId("boot 1".to_owned())
}

fn process(pid: u32) -> ProcessRef {
    ProcessRef { pid, start_ticks: u64::MAX, boot: boot() }
}

fn name(name: &str) -> SafeName {
    SafeName::parse(name).expect("a name")
}

fn end(state: FinalState) -> TurnEnd {
    TurnEnd {
        answer: "it is so".to_owned(),
        failure: TurnFailure::Limit,
        ..TurnEnd::without_answer(state, "why")
    }
}

fn accepted(turn: u64, key: &str) -> Event {
    let prompt = TurnPrompt {
        by: actor(),
        text: format!("text of turn {turn}\n\"quoted\""),
        key: Some(key.to_owned()),
        start_by: Some(StartDeadline { boot: boot(), boot_ms: turn }),
        manner: [SendMode::Queue, SendMode::Steer, SendMode::Interrupt][turn as usize % 3],
        retry: turn.is_multiple_of(2).then_some(TurnRetry { of: 1, attempt: 2 }),
    };
    Event::TurnAccepted { turn, prompt }
}

fn spec(driver: &str) -> SessionSpec {
    SessionSpec {
        driver: driver.to_owned(),
        command: vec!["agent".to_owned()],
        cwd: "/w".to_owned(),
        env: vec![("A".to_owned(), "b".to_owned())],
        key: Some("key".to_owned()),
        conversation: "claude".to_owned(),
        origin: ConversationOrigin::Forked("of".to_owned()),
        again: vec!["again".to_owned()],
        policy: policy(),
        parent: Some("parent".to_owned()),
        other: Some(InterfaceLaunch { driver: "pty".to_owned(), ..InterfaceLaunch::default() }),
        ..SessionSpec::default()
    }
}

fn policy() -> SessionPolicy {
    SessionPolicy {
        idle_ms: Some(1),
        notify: NotificationPolicy::Only(vec![NotificationKind::Failed]),
        ..SessionPolicy::default()
    }
}

fn ask() -> AgentQuestion {
    let option =
        QuestionOption { id: "yes".to_owned(), name: "Yes".to_owned(), kind: QuestionOptionKind::AllowOnce };
    AgentQuestion {
        request: "1".to_owned(),
        tool: "Bash".to_owned(),
        options: vec![option],
        several: true,
        ..AgentQuestion::default()
    }
}

/// At least one event of each kind that changes a session.
fn events() -> Vec<Event> {
    let epoch = Epoch(3);
    let owner = SessionId::parse("0123456789ab").expect("an id");
    let terms = HelperTerms {
        name: name("web"),
        scope: HelperScope::Dir("/w".to_owned()),
        linger_ms: 5,
        ready: Some(ReadinessProbe::Line("up".to_owned())),
        ready_within_ms: 6,
    };
    let boundary = RunBoundary { cgroup: Some("/c".to_owned()), ..RunBoundary::default() };
    let reason = || "reason".to_owned();
    let (turn, failure) = (2, TurnFailure::Overloaded);
    let retrying = QueueHold::Retrying {
        turn,
        failure,
        reason: reason(),
        by: 3,
        attempt: 1,
        boot: boot(),
        until_boot_ms: 9,
    };
    let holds = [
        QueueHold::Paused { by: actor() },
        QueueHold::Unknown { turn },
        QueueHold::ForeignWriter { who: reason() },
        QueueHold::Draft,
        QueueHold::AgentFailed { reason: reason() },
        QueueHold::ModelFailed { turn, failure, reason: reason() },
        retrying,
    ];
    let outcomes = [
        RunOutcome::Exited(ProcessExit::Code(1)),
        RunOutcome::Exited(ProcessExit::Signal(9)),
        RunOutcome::OutOfMemory,
        RunOutcome::StartFailed(reason()),
        RunOutcome::Lost,
    ];
    let releases = [
        ReleaseReason::Idle,
        ReleaseReason::Expired,
        ReleaseReason::Unresponsive,
        ReleaseReason::Switched,
        ReleaseReason::Broken { reason: reason() },
    ];
    let ends = [
        FinalState::Done,
        FinalState::Failed,
        FinalState::Cancelled,
        FinalState::Interrupted,
        FinalState::Unknown,
    ];
    let edges = [
        ActivityChange::Quiet,
        ActivityChange::Prompt,
        ActivityChange::Tool,
        ActivityChange::Stopped,
        ActivityChange::Interrupted,
    ];
    let mut events = vec![
        Event::Created { spec: spec("acp"), name: Some(name("first")) },
        Event::Renamed { name: name("second") },
        Event::RunStarting { epoch, keeper: process(7), output_from: 4, boundary },
        Event::StopRequested { epoch, by: actor(), kill_at_boot_ms: u64::MAX },
        Event::RunStarted { epoch, agent: process(8) },
        Event::AgentReady { epoch, able: AgentCapabilities { steer: true, resume: false }, at_boot_ms: 5 },
        Event::HooksInjected { epoch },
        Event::OomKilled { epoch, kills: 2 },
        Event::WriterGranted { fence: Fence(4), holder: actor(), taken_from: None },
        Event::QuestionAsked { ask: ask() },
        Event::HelperDeclared { terms },
        Event::OwnerJoined { owner: HelperOwner { session: owner.clone(), keep: true } },
        Event::BecameReady { epoch, address: Some("tcp:80".to_owned()) },
        Event::NeverReady { epoch, reason: reason() },
        Event::OwnerLeft { owner, why: LeaveReason::Gone, stop_at_boot_ms: Some(7) },
        Event::ConversationEntered {
            conversation: Conversation { id: "id".to_owned(), store: "/store".to_owned() },
        },
        Event::InterfaceChosen { interface: AgentInterface::Terminal, at_once: true, by: actor() },
        Event::ExpirySet { expiry: SessionExpiry { boot: boot(), boot_ms: 8 } },
        Event::TagsChanged { tags: vec![name("a"), name("b")] },
        Event::NoteChanged { note: Some("note".to_owned()) },
        Event::PolicySet { policy: policy() },
        Event::Archived { by: actor() },
    ];
    for turn in 1..=4 {
        events.push(accepted(turn, "one key"));
        events.push(Event::TurnEdited { turn, text: "edited".to_owned(), by: actor() });
        events.push(Event::TurnDelivered { turn, epoch, output_from: turn });
        events.push(Event::TurnBegan { turn });
        let cancel = CancelRequest { by: actor(), for_another: true, until_boot_ms: 10 };
        events.push(Event::CancelRequested { turn, cancel });
    }
    events.extend(holds.map(|hold| Event::QueueHeld { hold }));
    events.extend(edges.map(|edge| Event::ActivityReported { epoch, edge }));
    for (turn, state) in (1..).zip(ends) {
        events.push(Event::TurnEnded { turn, end: end(state), at_boot_ms: 11 });
        events.push(Event::LateResult { turn, end: end(FinalState::Unknown) });
        events.push(Event::QueueMoved { turn, to: 0 });
    }
    events.extend(releases.map(|why| Event::RunReleased { epoch, why, kill_at_boot_ms: 12 }));
    events.extend([
        Event::AgentExited { epoch, exit: ProcessExit::Signal(9), oom: true, kill_at_boot_ms: 13 },
        Event::KillOrdered { epoch },
        Event::EndUnproven { epoch, left: vec!["pid 9".to_owned()] },
        Event::WriterReleased { fence: Fence(4) },
        Event::QuestionWithdrawn { request: "1".to_owned() },
        Event::QueueResumed { by: actor() },
        Event::Restored { by: actor() },
        Event::CommandChanged { spec: spec("pty") },
        Event::ConversationLeft { by: actor() },
    ]);
    events.extend(outcomes.map(|outcome| Event::RunEnded { epoch, outcome }));
    events
}
