//! The rules, as sentences.

use std::time::Duration;

use crate::{
    Actor, BootId, ClockReading, Command, Effect, Epoch, Event, Fence, Observation, ProcessExit, ProcessRef,
    Refusal, RunBoundary, RunOutcome, RunPhase, SafeName, Session, SessionId, SessionSpec, SessionState,
    decide, effects, observe,
};

fn at(boot_ms: u64) -> ClockReading {
    ClockReading { wall_ms: 1_000_000 + boot_ms, boot_ms }
}

fn process(pid: u32) -> ProcessRef {
    ProcessRef { pid, start_ticks: u64::from(pid) * 10, boot: BootId("boot".to_owned()) }
}

fn actor(pid: u32) -> Actor {
    Actor { pid, uid: Some(0), place: format!("pts/{pid}") }
}

/// A session with its history, for tests that tell a story.
#[derive(Default)]
struct SessionScenario {
    session: Session,
    events: Vec<Event>,
    now: ClockReading,
}

impl SessionScenario {
    fn running() -> Self {
        let mut story = Self { now: at(0), ..Self::default() };
        story.order(Command::Create { spec: SessionSpec::default(), name: None }).expect("a new session");
        story
            .order(Command::Start {
                epoch: Epoch(1),
                keeper: process(1),
                output_from: 0,
                boundary: RunBoundary::default(),
            })
            .expect("a first run");
        story.see(Observation::Spawned { epoch: Epoch(1), agent: process(2) });
        story
    }

    fn order(&mut self, command: Command) -> Result<Vec<Event>, Refusal> {
        let events = decide(&self.session, command, self.now)?;
        self.happened(&events);
        Ok(events)
    }

    fn see(&mut self, observation: Observation) -> Vec<Event> {
        let events = observe(&self.session, &observation, self.now);
        self.happened(&events);
        events
    }

    fn happened(&mut self, events: &[Event]) {
        for event in events {
            self.session.apply(event);
        }
        self.events.extend_from_slice(events);
        assert_eq!(Session::replay(&self.events), self.session, "replay leads elsewhere than life did");
    }

    fn state(&self) -> SessionState {
        self.session.state(true)
    }

    fn stop(&mut self, grace_ms: u64) -> Vec<Event> {
        let stop = Command::Stop { by: actor(9), grace: Duration::from_millis(grace_ms) };
        self.order(stop).expect("stopping is never refused")
    }
}

#[test]
fn a_run_is_recorded_before_it_is_owed() {
    let mut story = SessionScenario::default();
    story.order(Command::Create { spec: SessionSpec::default(), name: None }).expect("new");
    assert_eq!(effects(&story.session), vec![]);
    story
        .order(Command::Start {
            epoch: Epoch(1),
            keeper: process(1),
            output_from: 0,
            boundary: RunBoundary::default(),
        })
        .expect("first run");
    assert_eq!(effects(&story.session), vec![Effect::Spawn { epoch: Epoch(1) }]);
    story.see(Observation::Spawned { epoch: Epoch(1), agent: process(2) });
    assert_eq!(effects(&story.session), vec![]);
    assert_eq!(story.state(), SessionState::Running);
}

#[test]
fn a_live_run_refuses_a_second_one() {
    let mut story = SessionScenario::running();
    let again = Command::Start {
        epoch: Epoch(2),
        keeper: process(5),
        output_from: 0,
        boundary: RunBoundary::default(),
    };
    assert_eq!(story.order(again.clone()), Err(Refusal::AlreadyRunning));
    story.stop(100);
    assert_eq!(story.order(again), Err(Refusal::AlreadyRunning));
}

#[test]
fn a_session_is_created_once() {
    let mut story = SessionScenario::running();
    let create = Command::Create { spec: SessionSpec::default(), name: None };
    assert_eq!(story.order(create), Err(Refusal::AlreadyCreated));
}

#[test]
fn a_run_whose_epoch_is_not_larger_than_the_last_one_is_refused() {
    let mut story = SessionScenario::running();
    story.see(Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Code(0), oom: false });
    story.see(Observation::Empty { epoch: Epoch(1) });
    let start = |epoch| Command::Start {
        epoch: Epoch(epoch),
        keeper: process(3),
        output_from: 0,
        boundary: RunBoundary::default(),
    };
    let stale = Refusal::StaleEpoch { given: Epoch(1), current: Epoch(1) };
    assert_eq!(story.order(start(1)), Err(stale));
    story.order(start(7)).expect("a later claim, after others that began no run");
    assert_eq!(story.session.epoch, Epoch(7));
}

/// Found by seed 73 of the simulation: the creator of a session died before its first event was on disk.
#[test]
fn nothing_is_run_or_named_before_it_is_created() {
    let mut story = SessionScenario::default();
    let start = Command::Start {
        epoch: Epoch(1),
        keeper: process(1),
        output_from: 0,
        boundary: RunBoundary::default(),
    };
    assert_eq!(story.order(start), Err(Refusal::NotCreated));
    let name = SafeName::parse("early").expect("a name");
    assert_eq!(story.order(Command::Rename { name }), Err(Refusal::NotCreated));
}

#[test]
fn an_agent_that_ends_alone_ends_its_run_when_nothing_is_left() {
    let mut story = SessionScenario::running();
    story.see(Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Code(3), oom: false });
    assert_eq!(story.state(), SessionState::Stopping);
    assert!(effects(&story.session).contains(&Effect::Prove { epoch: Epoch(1) }));
    story.see(Observation::Empty { epoch: Epoch(1) });
    assert_eq!(story.session.outcome(), Some(&RunOutcome::Exited(ProcessExit::Code(3))));
    assert_eq!(effects(&story.session), vec![Effect::Leave]);
}

#[test]
fn an_empty_tree_proves_nothing_before_the_agent_was_seen_to_end() {
    let mut story = SessionScenario::running();
    assert_eq!(story.see(Observation::Empty { epoch: Epoch(1) }), vec![]);
    story.stop(100);
    assert_eq!(story.see(Observation::Empty { epoch: Epoch(1) }), vec![]);
}

#[test]
fn patience_ends_exactly_once() {
    let mut story = SessionScenario::running();
    story.stop(100);
    assert!(effects(&story.session).contains(&Effect::Terminate { epoch: Epoch(1) }));
    assert!(effects(&story.session).contains(&Effect::WakeAt { boot_ms: 100 }));
    story.now = at(99);
    assert_eq!(story.see(Observation::Tick), vec![]);
    story.now = at(100);
    assert_eq!(story.see(Observation::Tick), vec![Event::KillOrdered { epoch: Epoch(1) }]);
    assert_eq!(story.see(Observation::Tick), vec![]);
    assert_eq!(effects(&story.session), vec![Effect::Kill { epoch: Epoch(1) }]);
}

#[test]
fn a_second_less_patient_stop_counts_and_a_more_patient_one_does_not() {
    let mut story = SessionScenario::running();
    story.stop(1000);
    assert_eq!(story.stop(5000), vec![]);
    assert_eq!(story.stop(10).len(), 1);
    story.now = at(10);
    assert_eq!(story.see(Observation::Tick).len(), 1);
}

#[test]
fn stopping_twice_or_what_is_over_changes_nothing() {
    let mut story = SessionScenario::running();
    story.stop(100);
    assert_eq!(story.stop(100), vec![]);
    story.see(Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Signal(15), oom: false });
    story.see(Observation::Empty { epoch: Epoch(1) });
    assert_eq!(story.stop(0), vec![]);
}

/// F10: a graceful end racing the timeout has exactly one outcome.
#[test]
fn f10_an_end_that_races_the_kill_has_one_outcome() {
    let reports = [
        Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Code(0), oom: false },
        Observation::Tick,
        Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Signal(9), oom: false },
        Observation::Empty { epoch: Epoch(1) },
        Observation::Empty { epoch: Epoch(1) },
        Observation::KeeperGone { epoch: Epoch(1) },
    ];
    for first in 0..reports.len() {
        let mut story = SessionScenario::running();
        story.stop(0);
        for offset in 0..reports.len() * 2 {
            story.see(reports[(first + offset) % reports.len()].clone());
        }
        let ends = story.events.iter().filter(|event| matches!(event, Event::RunEnded { .. })).count();
        assert_eq!(ends, 1, "starting with report {first}: {:?}", story.events);
    }
}

#[test]
fn processes_that_cannot_be_killed_are_named_and_the_run_is_not_over() {
    let mut story = SessionScenario::running();
    story.stop(0);
    story.see(Observation::Tick);
    let left = vec!["pid 7 waits in the kernel".to_owned()];
    let still = Observation::StillThere { epoch: Epoch(1), left: left.clone() };
    assert_eq!(story.see(still.clone()).len(), 1);
    assert_eq!(story.see(still), vec![], "said once is enough");
    assert_eq!(story.state(), SessionState::Stopping);
    assert!(matches!(&story.session.phase, RunPhase::Ending(ending) if ending.left == left));
}

#[test]
fn reports_of_an_earlier_run_are_ignored() {
    let mut story = SessionScenario::running();
    story.see(Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Code(0), oom: false });
    story.see(Observation::Empty { epoch: Epoch(1) });
    story
        .order(Command::Start {
            epoch: Epoch(2),
            keeper: process(3),
            output_from: 7,
            boundary: RunBoundary::default(),
        })
        .expect("the last run is over");
    assert_eq!(story.session.epoch, Epoch(2));
    for late in [
        Observation::Spawned { epoch: Epoch(1), agent: process(2) },
        Observation::SpawnFailed { epoch: Epoch(1), reason: "late".into() },
        Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Signal(9), oom: false },
        Observation::Empty { epoch: Epoch(1) },
        Observation::KeeperGone { epoch: Epoch(1) },
        Observation::StillThere { epoch: Epoch(1), left: vec!["x".into()] },
    ] {
        assert_eq!(story.see(late.clone()), vec![], "{late:?} is of an earlier run");
    }
}

#[test]
fn a_run_whose_keeper_died_is_lost_unless_its_end_was_recorded() {
    let mut lost = SessionScenario::running();
    lost.see(Observation::KeeperGone { epoch: Epoch(1) });
    assert_eq!(lost.state(), SessionState::Lost);

    let mut seen = SessionScenario::running();
    seen.see(Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Code(4), oom: false });
    seen.see(Observation::KeeperGone { epoch: Epoch(1) });
    assert_eq!(seen.session.outcome(), Some(&RunOutcome::Exited(ProcessExit::Code(4))));
}

/// G1: a run that is recorded as live is lost the moment its lease is free.
#[test]
fn g1_a_live_record_without_a_keeper_is_lost() {
    let mut story = SessionScenario::running();
    assert_eq!(story.session.state(false), SessionState::Lost);
    story.stop(5);
    assert_eq!(story.session.state(false), SessionState::Lost);
}

#[test]
fn a_run_that_could_not_start_says_why() {
    let mut story = SessionScenario::default();
    story.order(Command::Create { spec: SessionSpec::default(), name: None }).expect("new");
    story
        .order(Command::Start {
            epoch: Epoch(1),
            keeper: process(1),
            output_from: 0,
            boundary: RunBoundary::default(),
        })
        .expect("first run");
    story.see(Observation::SpawnFailed { epoch: Epoch(1), reason: "no such program".into() });
    assert_eq!(story.session.outcome(), Some(&RunOutcome::StartFailed("no such program".into())));
    assert_eq!(story.state(), SessionState::Stopped);
}

#[test]
fn a_stop_that_overtakes_the_spawn_still_ends_it() {
    let mut story = SessionScenario::default();
    story.order(Command::Create { spec: SessionSpec::default(), name: None }).expect("new");
    story
        .order(Command::Start {
            epoch: Epoch(1),
            keeper: process(1),
            output_from: 0,
            boundary: RunBoundary::default(),
        })
        .expect("first run");
    story.stop(100);
    story.see(Observation::Spawned { epoch: Epoch(1), agent: process(2) });
    assert_eq!(story.state(), SessionState::Stopping);
    assert!(effects(&story.session).contains(&Effect::Terminate { epoch: Epoch(1) }));
}

/// B1: of two clients that want to type, one wins and the other learns which.
#[test]
fn b1_one_of_two_writers_wins_and_the_other_hears_who() {
    let mut story = SessionScenario::running();
    story.order(Command::TakeWriter { who: actor(10), force: false }).expect("no client types yet");
    let second = story.order(Command::TakeWriter { who: actor(11), force: false });
    assert_eq!(second, Err(Refusal::Held { by: actor(10) }));
}

/// B3: a writer that slept through a take-over can write nothing.
#[test]
fn b3_a_replaced_writer_can_type_nothing() {
    let mut story = SessionScenario::running();
    story.order(Command::TakeWriter { who: actor(10), force: false }).expect("no client types yet");
    let first = story.session.fence;
    story.order(Command::TakeWriter { who: actor(11), force: true }).expect("taken by force");
    let second = story.session.fence;
    assert!(second > first);
    assert_eq!(story.session.may_type(second), Ok(()));
    assert_eq!(story.session.may_type(first), Err(Refusal::StaleFence { given: first, current: second }));
    let typed = story.order(Command::Type { by: actor(10), fence: first, bytes: 1 });
    assert!(typed.is_err());
    // Its late good-bye must not take the right away from its successor.
    assert_eq!(story.order(Command::ReleaseWriter { fence: first }), Ok(vec![]));
    assert_eq!(story.session.may_type(second), Ok(()));
}

/// B6: a process that opens its own session again is not its own rival.
#[test]
fn b6_a_process_is_not_its_own_rival() {
    let mut story = SessionScenario::running();
    story.order(Command::TakeWriter { who: actor(10), force: false }).expect("no client types yet");
    let first = story.session.fence;
    story.order(Command::TakeWriter { who: actor(10), force: false }).expect("the same process");
    assert!(story.session.fence > first);
}

#[test]
fn fences_and_epochs_only_grow() {
    let mut story = SessionScenario::running();
    let mut last = (story.session.epoch, story.session.fence);
    for round in 0..20 {
        story.order(Command::TakeWriter { who: actor(round), force: true }).expect("by force");
        if round % 3 == 0 {
            story.see(Observation::Exited {
                epoch: story.session.epoch,
                exit: ProcessExit::Code(0),
                oom: false,
            });
            story.see(Observation::Empty { epoch: story.session.epoch });
            assert!(story.session.writer.is_none(), "a run that is over has no writer");
            story
                .order(Command::Start {
                    epoch: story.session.epoch.next(),
                    keeper: process(round),
                    output_from: 0,
                    boundary: RunBoundary::default(),
                })
                .expect("over");
            story.see(Observation::Spawned { epoch: story.session.epoch, agent: process(round + 100) });
        }
        let next = (story.session.epoch, story.session.fence);
        assert!(next.0 >= last.0 && next.1 > last.1, "{next:?} after {last:?}");
        last = next;
    }
}

#[test]
fn typing_into_a_session_that_does_not_run_is_refused() {
    let mut story = SessionScenario::running();
    story.order(Command::TakeWriter { who: actor(10), force: false }).expect("no client types yet");
    story.see(Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Code(0), oom: false });
    story.see(Observation::Empty { epoch: Epoch(1) });
    assert_eq!(story.session.may_type(Fence(1)), Err(Refusal::NotRunning));
    assert_eq!(story.order(Command::TakeWriter { who: actor(1), force: true }), Err(Refusal::NotRunning));
}

#[test]
fn names_are_safe_as_file_names() {
    for good in ["a", "fix-login", "a.b_c-1", "0"] {
        assert!(SafeName::parse(good).is_ok(), "{good} was refused");
    }
    for bad in ["", ".", "..", "-x", "a/b", "a b", "ü", "a\n", &"x".repeat(65)] {
        assert!(SafeName::parse(bad).is_err(), "{bad:?} was taken");
    }
}

/// H4: ids do not depend on the clock.
#[test]
fn h4_ids_made_in_the_same_tick_differ_by_their_randomness() {
    let one = SessionId::from_random([1; SessionId::LENGTH]);
    let two = SessionId::from_random([2; SessionId::LENGTH]);
    assert_ne!(one, two);
    assert_eq!(SessionId::parse(one.as_str()), Some(one));
    assert_eq!(SessionId::parse("ILOU00000000"), None);
}

#[test]
fn the_grace_period_of_a_stop_counts_for_the_whole_run() {
    let mut story = SessionScenario::running();
    story.stop(60_000);
    story.now = at(10);
    story.see(Observation::Exited { epoch: Epoch(1), exit: ProcessExit::Signal(15), oom: false });
    story.now = at(59_999);
    assert_eq!(story.see(Observation::Tick), vec![], "what the agent started has the same time to end");
    story.now = at(60_000);
    assert_eq!(story.see(Observation::Tick), vec![Event::KillOrdered { epoch: Epoch(1) }]);
}

#[test]
fn strangers_without_a_number_are_rivals_all_the_same() {
    let mut story = SessionScenario::running();
    story.order(Command::TakeWriter { who: actor(0), force: false }).expect("no client types yet");
    assert!(story.order(Command::TakeWriter { who: actor(0), force: false }).is_err());
}
