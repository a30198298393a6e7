//! A snapshot comes back as the session it was made of, whatever happened in that session before.
//!
//! Events come in any order here, also in orders that no rule would allow: a session takes them all, and has states
//! that way which few real lives have. Real lives are put on paper in the simulation of `berth-keeper`.

use std::hash::{BuildHasher, Hasher, RandomState};

use berth_api::snapshot::{BadSnapshot, SessionSnapshot};
use berth_core::{
    Able, Actor, Ask, AskKind, AskOption, Boot, Boundary, Cancel, Conversation, Edge, Epoch, Event, Exit,
    Expiry, Failure, Fence, Final, Hold, Interface, InterfaceLaunch, Leaving, MOST_OVER_KEPT, Manner, Name,
    Notify, Occasion, Origin, Outcome, Owner, Policy, Process, Prompt, ReadyWhen, Release, Retry, Scope,
    Session, SessionId, Spec, StartBy, Terms, TurnEnd, TurnLookup,
};
use proptest::collection::vec;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed};

/// Through JSON and back, with the keys that a turn index would bring.
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
        session.apply(&Event::TurnEnded { turn, end: end(Final::Done), at_boot_ms: turn });
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

fn boot() -> Boot {
    Boot("boot 1".to_owned())
}

fn process(pid: u32) -> Process {
    Process { pid, start_ticks: u64::MAX, boot: boot() }
}

fn name(name: &str) -> Name {
    Name::parse(name).expect("a name")
}

fn end(state: Final) -> TurnEnd {
    TurnEnd {
        answer: "it is so".to_owned(),
        failure: Failure::Limit,
        ..TurnEnd::without_answer(state, "why")
    }
}

fn accepted(turn: u64, key: &str) -> Event {
    let prompt = Prompt {
        by: actor(),
        text: format!("text of turn {turn}\n\"quoted\""),
        key: Some(key.to_owned()),
        start_by: Some(StartBy { boot: boot(), boot_ms: turn }),
        manner: [Manner::Queue, Manner::Steer, Manner::Interrupt][turn as usize % 3],
        retry: turn.is_multiple_of(2).then_some(Retry { of: 1, attempt: 2 }),
    };
    Event::TurnAccepted { turn, prompt }
}

fn spec(driver: &str) -> Spec {
    Spec {
        driver: driver.to_owned(),
        command: vec!["agent".to_owned()],
        cwd: "/w".to_owned(),
        env: vec![("A".to_owned(), "b".to_owned())],
        key: Some("key".to_owned()),
        conversation: "claude".to_owned(),
        origin: Origin::Forked("of".to_owned()),
        again: vec!["again".to_owned()],
        policy: policy(),
        parent: Some("parent".to_owned()),
        other: Some(InterfaceLaunch { driver: "pty".to_owned(), ..InterfaceLaunch::default() }),
        ..Spec::default()
    }
}

fn policy() -> Policy {
    Policy { idle_ms: Some(1), notify: Notify::Only(vec![Occasion::Failed]), ..Policy::default() }
}

fn ask() -> Ask {
    let option = AskOption { id: "yes".to_owned(), name: "Yes".to_owned(), kind: AskKind::AllowOnce };
    Ask {
        request: "1".to_owned(),
        tool: "Bash".to_owned(),
        options: vec![option],
        several: true,
        ..Ask::default()
    }
}

/// At least one of each kind that changes a session.
fn events() -> Vec<Event> {
    let epoch = Epoch(3);
    let owner = SessionId::parse("0123456789ab").expect("an id");
    let terms = Terms {
        name: name("web"),
        scope: Scope::Dir("/w".to_owned()),
        linger_ms: 5,
        ready: Some(ReadyWhen::Line("up".to_owned())),
        ready_within_ms: 6,
    };
    let boundary = Boundary { cgroup: Some("/c".to_owned()), ..Boundary::default() };
    let reason = || "reason".to_owned();
    let (turn, failure) = (2, Failure::Overloaded);
    let retrying =
        Hold::Retrying { turn, failure, reason: reason(), by: 3, attempt: 1, boot: boot(), until_boot_ms: 9 };
    let holds = [
        Hold::Paused { by: actor() },
        Hold::Unknown { turn },
        Hold::ForeignWriter { who: reason() },
        Hold::Draft,
        Hold::AgentFailed { reason: reason() },
        Hold::ModelFailed { turn, failure, reason: reason() },
        retrying,
    ];
    let outcomes = [
        Outcome::Exited(Exit::Code(1)),
        Outcome::Exited(Exit::Signal(9)),
        Outcome::OutOfMemory,
        Outcome::StartFailed(reason()),
        Outcome::Lost,
    ];
    let releases = [
        Release::Idle,
        Release::Expired,
        Release::Unresponsive,
        Release::Switched,
        Release::Broken { reason: reason() },
    ];
    let ends = [Final::Done, Final::Failed, Final::Cancelled, Final::Interrupted, Final::Unknown];
    let edges = [Edge::Quiet, Edge::Prompt, Edge::Tool, Edge::Stopped, Edge::Interrupted];
    let mut events = vec![
        Event::Created { spec: spec("acp"), name: Some(name("first")) },
        Event::Renamed { name: name("second") },
        Event::RunStarting { epoch, keeper: process(7), output_from: 4, boundary },
        Event::StopRequested { epoch, by: actor(), kill_at_boot_ms: u64::MAX },
        Event::RunStarted { epoch, agent: process(8) },
        Event::AgentReady { epoch, able: Able { steer: true, resume: false }, at_boot_ms: 5 },
        Event::HooksCarried { epoch },
        Event::OomKilled { epoch, kills: 2 },
        Event::WriterGranted { fence: Fence(4), holder: actor(), taken_from: None },
        Event::Asked { ask: ask() },
        Event::Declared { terms },
        Event::OwnerJoined { owner: Owner { session: owner.clone(), keep: true } },
        Event::BecameReady { epoch, address: Some("tcp:80".to_owned()) },
        Event::NeverReady { epoch, reason: reason() },
        Event::OwnerLeft { owner, why: Leaving::Gone, stop_at_boot_ms: Some(7) },
        Event::ConversationEntered {
            conversation: Conversation { id: "id".to_owned(), store: "/store".to_owned() },
        },
        Event::InterfaceChosen { interface: Interface::Terminal, at_once: true, by: actor() },
        Event::ExpirySet { expiry: Expiry { boot: boot(), boot_ms: 8 } },
        Event::Tagged { tags: vec![name("a"), name("b")] },
        Event::Noted { note: Some("note".to_owned()) },
        Event::PolicySet { policy: policy() },
        Event::Archived { by: actor() },
    ];
    for turn in 1..=4 {
        events.push(accepted(turn, "one key"));
        events.push(Event::TurnEdited { turn, text: "edited".to_owned(), by: actor() });
        events.push(Event::TurnDelivered { turn, epoch, output_from: turn });
        events.push(Event::TurnBegan { turn });
        let cancel = Cancel { by: actor(), for_another: true, until_boot_ms: 10 };
        events.push(Event::CancelRequested { turn, cancel });
    }
    events.extend(holds.map(|hold| Event::QueueHeld { hold }));
    events.extend(edges.map(|edge| Event::EdgeSeen { epoch, edge }));
    for (turn, state) in (1..).zip(ends) {
        events.push(Event::TurnEnded { turn, end: end(state), at_boot_ms: 11 });
        events.push(Event::TurnLate { turn, end: end(Final::Unknown) });
        events.push(Event::QueueMoved { turn, to: 0 });
    }
    events.extend(releases.map(|why| Event::Released { epoch, why, kill_at_boot_ms: 12 }));
    events.extend([
        Event::AgentExited { epoch, exit: Exit::Signal(9), oom: true, kill_at_boot_ms: 13 },
        Event::KillOrdered { epoch },
        Event::EndUnproven { epoch, left: vec!["pid 9".to_owned()] },
        Event::WriterReleased { fence: Fence(4) },
        Event::Unasked { request: "1".to_owned() },
        Event::QueueResumed { by: actor() },
        Event::Restored { by: actor() },
        Event::Respecified { spec: spec("pty") },
        Event::ConversationLeft { by: actor() },
    ]);
    events.extend(outcomes.map(|outcome| Event::RunEnded { epoch, outcome }));
    events
}
