//! The rules of owner sets, as sentences; then as one property of random lives of a helper.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};

use super::{MOST_OWNERS, OWNERLESS_GRACE, REMEMBERED};
use crate::{
    Actor, ClockReading, Command, Effect, Event, HelperOwner, HelperReadiness, HelperScope, HelperTerms,
    LeaveReason, Observation, ProcessExit, ProcessRef, ReadinessProbe, Refusal, RunBoundary, RunPhase,
    SafeName, Session, SessionId, SessionSpec, decide, effects, observe,
};

fn id(number: u8) -> SessionId {
    SessionId::from_random([number; SessionId::LENGTH])
}

fn owner(number: u8) -> HelperOwner {
    HelperOwner { session: id(number), keep: false }
}

fn terms(linger_ms: u64) -> HelperTerms {
    let name = SafeName::parse("broker").expect("a name");
    HelperTerms { name, scope: HelperScope::User, linger_ms, ready: None, ready_within_ms: 1000 }
}

/// The life of a helper.
struct HelperScenario {
    session: Session,
    events: Vec<Event>,
    now: ClockReading,
}

impl HelperScenario {
    fn new(terms: HelperTerms) -> Self {
        let now = ClockReading { wall_ms: 1_000_000, boot_ms: 1000 };
        let mut story = Self { session: Session::default(), events: Vec::new(), now };
        let (spec, name) = (SessionSpec::default(), Some(terms.name.clone()));
        story.order(Command::Create { spec: spec.clone(), name }).expect("a new record");
        story.order(Command::Declare { spec, terms }).expect("a new helper");
        story.start();
        story
    }

    fn shared_by(linger_ms: u64, owners: &[u8]) -> Self {
        let mut story = Self::new(terms(linger_ms));
        for number in owners {
            story.join(*number).expect("it runs");
        }
        story
    }

    fn start(&mut self) {
        let keeper = ProcessRef { pid: 7, ..ProcessRef::default() };
        self.order(Command::Start {
            epoch: self.session.epoch.next(),
            keeper,
            output_from: 0,
            boundary: RunBoundary::default(),
        })
        .expect("nothing runs");
        let agent = ProcessRef { pid: 8, ..ProcessRef::default() };
        self.see(Observation::Spawned { epoch: self.session.epoch, agent });
    }

    fn end(&mut self) {
        let epoch = self.session.epoch;
        self.see(Observation::Exited { epoch, exit: ProcessExit::Code(0), oom: false });
        self.see(Observation::Empty { epoch });
    }

    fn order(&mut self, command: Command) -> Result<Vec<Event>, Refusal> {
        let events = decide(&self.session, command, self.now)?;
        Ok(self.happened(events))
    }

    fn see(&mut self, observation: Observation) -> Vec<Event> {
        let events = observe(&self.session, &observation, self.now);
        self.happened(events)
    }

    fn happened(&mut self, events: Vec<Event>) -> Vec<Event> {
        events.iter().for_each(|event| self.session.apply(event));
        self.events.extend(events.iter().cloned());
        assert_eq!(Session::replay(&self.events), self.session, "replay leads elsewhere than life did");
        events
    }

    fn join(&mut self, number: u8) -> Result<Vec<Event>, Refusal> {
        self.order(Command::Join { owner: owner(number) })
    }

    fn leave(&mut self, number: u8) -> Result<Vec<Event>, Refusal> {
        self.order(Command::Leave { owner: id(number) })
    }

    fn pass(&mut self, ms: u64) -> Vec<Event> {
        self.now.boot_ms += ms;
        self.see(Observation::Tick)
    }

    fn owners(&self) -> Vec<SessionId> {
        let sharing = self.session.sharing.as_ref().expect("a helper");
        sharing.owners.iter().map(|owner| owner.session.clone()).collect()
    }

    fn is_stopping(&self) -> bool {
        matches!(self.session.phase, RunPhase::Ending(_))
    }

    /// Counts how often the current run was stopped for having no owner.
    fn idle_stops(&self) -> usize {
        let current = self.session.epoch;
        let is_idle_stop = |event: &&Event| match event {
            Event::StopRequested { epoch, by, .. } => {
                *epoch == current && by.place == "its last owner leaving"
            }
            _ => false,
        };
        self.events.iter().filter(is_idle_stop).count()
    }
}

#[test]
fn the_last_owner_out_stops_it_in_the_same_commit() {
    let mut story = HelperScenario::shared_by(0, &[1, 2]);
    assert_eq!(story.leave(1).map(|events| events.len()), Ok(1));
    assert!(!story.is_stopping(), "the other one still uses it");
    let events = story.leave(2).expect("an owner");
    let kill_at_boot_ms = story.now.boot_ms + OWNERLESS_GRACE.as_millis() as u64;
    assert!(
        matches!(&events[..], [
            Event::OwnerLeft { why: LeaveReason::Released, stop_at_boot_ms: Some(1000), .. },
            Event::StopRequested { kill_at_boot_ms: at, .. },
        ] if *at == kill_at_boot_ms),
        "{events:?}"
    );
}

#[test]
fn an_owner_that_is_gone_has_left() {
    let mut story = HelperScenario::shared_by(0, &[1]);
    assert_eq!(story.see(Observation::OwnerGone { owner: id(2) }), vec![], "it never owned it");
    assert_eq!(story.see(Observation::OwnerGone { owner: id(1) }).len(), 2);
    assert_eq!(story.see(Observation::OwnerGone { owner: id(1) }), vec![], "told twice");
    assert_eq!(story.idle_stops(), 1);
}

#[test]
fn joining_twice_is_joining_once_and_another_way_is_recorded() {
    let mut story = HelperScenario::shared_by(0, &[1]);
    assert_eq!(story.join(1), Ok(vec![]));
    let keeping = HelperOwner { keep: true, ..owner(1) };
    assert_eq!(story.order(Command::Join { owner: keeping }).map(|events| events.len()), Ok(1));
    assert_eq!(story.owners(), vec![id(1)]);
    assert!(story.session.sharing.as_ref().is_some_and(|sharing| sharing.owners[0].keep));
}

#[test]
fn leaving_twice_is_no_mistake_and_leaving_as_a_stranger_is() {
    let mut story = HelperScenario::shared_by(60_000, &[1, 2]);
    assert_eq!(story.leave(3), Err(Refusal::NotOwner { owner: id(3) }));
    story.leave(1).expect("an owner");
    assert_eq!(story.leave(1), Ok(vec![]));
    story.end();
    assert_eq!(story.leave(2), Ok(vec![]), "the run it owned is over");
    assert_eq!(story.leave(3), Err(Refusal::NotOwner { owner: id(3) }));
}

#[test]
fn a_helper_lingers_as_long_as_it_may_and_whoever_joins_meanwhile_keeps_it() {
    let mut story = HelperScenario::shared_by(500, &[1]);
    story.leave(1).expect("an owner");
    assert!(effects(&story.session).contains(&Effect::WakeAt { boot_ms: 1500 }));
    assert_eq!(story.pass(499), vec![]);
    story.join(2).expect("no client has asked for its end");
    assert_eq!(effects(&story.session), vec![]);
    assert_eq!(story.pass(10_000), vec![], "however long its owner is silent");
    story.leave(2).expect("an owner");
    assert_eq!(story.pass(500).len(), 1);
    assert_eq!(story.pass(500), vec![], "once");
    assert_eq!(story.idle_stops(), 1);
}

#[test]
fn a_run_that_is_being_ended_or_over_cannot_be_joined() {
    let mut story = HelperScenario::shared_by(0, &[1]);
    story.leave(1).expect("an owner");
    assert_eq!(story.join(2), Err(Refusal::BeingEnded));
    story.end();
    assert_eq!(story.join(2), Err(Refusal::NotRunning));
    story.start();
    story.join(2).expect("the next run");
    assert_eq!(story.owners(), vec![id(2)]);
}

#[test]
fn ownership_is_of_a_run() {
    let mut story = HelperScenario::shared_by(0, &[1, 2]);
    story.end();
    assert_eq!(story.owners(), vec![]);
    story.start();
    assert_eq!(story.owners(), vec![], "who wants the next run asks for it");
    assert!(!story.is_stopping(), "this one still has its owner");
}

#[test]
fn leaving_what_somebody_else_is_stopping_asks_for_no_second_stop() {
    let mut story = HelperScenario::shared_by(0, &[1]);
    let by = Actor::default();
    story.order(Command::Stop { by, grace: Duration::from_secs(5) }).expect("never refused");
    assert_eq!(story.leave(1).map(|events| events.len()), Ok(1));
    assert_eq!(story.idle_stops(), 0);
}

#[test]
fn a_session_is_not_shared_and_a_legacy_helper_is_never_stopped_on_a_guess() {
    let mut story = HelperScenario::shared_by(0, &[]);
    story.session.sharing = None;
    for command in [Command::Join { owner: owner(1) }, Command::Leave { owner: id(1) }] {
        assert_eq!(decide(&story.session, command, story.now), Err(Refusal::NotShared));
    }
    for report in [Observation::OwnerGone { owner: id(1) }, Observation::Tick] {
        assert_eq!(observe(&story.session, &report, story.now), vec![]);
    }
}

#[test]
fn a_helper_is_ready_when_it_says_so_and_given_up_when_its_time_is_up() {
    let wanted = HelperTerms { ready: Some(ReadinessProbe::Tcp(80)), ..terms(0) };
    let mut story = HelperScenario::new(wanted.clone());
    let epoch = story.session.epoch;
    assert_eq!(story.session.ready(), None);
    let address = Some("tcp:127.0.0.1:80".to_owned());
    let ready = Observation::Ready { epoch, address: address.clone() };
    assert_eq!(story.see(ready.clone()), vec![Event::BecameReady { epoch, address }]);
    assert_eq!(story.session.ready(), Some(Some("tcp:127.0.0.1:80")));
    assert_eq!(story.see(ready), vec![], "once");
    let late = Observation::NotReady { epoch, reason: "late".into() };
    assert_eq!(story.see(late), vec![]);
    story.end();
    assert_eq!(story.session.ready(), None);
    story.start();
    assert_eq!(story.session.ready(), None, "each run anew");

    let mut story = HelperScenario::new(wanted);
    story.join(1).expect("it runs");
    let events = story.see(Observation::NotReady { epoch, reason: "silence".into() });
    assert!(matches!(&events[..], [Event::NeverReady { .. }, Event::StopRequested { .. }]), "{events:?}");
    assert_eq!(story.join(2), Err(Refusal::BeingEnded));
    let readiness = story.session.sharing.as_ref().map(|sharing| sharing.readiness.clone());
    assert_eq!(readiness, Some(HelperReadiness::Never("silence".into())));
}

#[test]
fn without_a_sign_to_wait_for_it_is_ready_when_it_runs() {
    let mut story = HelperScenario::shared_by(0, &[1]);
    assert_eq!(story.session.ready(), Some(None));
    story.leave(1).expect("an owner");
    assert_eq!(story.session.ready(), None, "a dying helper is not handed out");
}

#[test]
fn a_helper_is_redeclared_only_between_runs_and_never_as_another_helper() {
    let mut story = HelperScenario::shared_by(0, &[1]);
    let other = SessionSpec { command: vec!["other".into()], ..SessionSpec::default() };
    let declare = |spec: &SessionSpec, terms| Command::Declare { spec: spec.clone(), terms };
    assert_eq!(story.order(declare(&other, terms(0))), Err(Refusal::AlreadyRunning));
    story.end();
    let renamed = HelperTerms { name: SafeName::parse("other").expect("a name"), ..terms(0) };
    let moved = HelperTerms { scope: HelperScope::Dir("/elsewhere".into()), ..terms(0) };
    for wrong in [renamed, moved] {
        assert_eq!(story.order(declare(&other, wrong)), Err(Refusal::OtherHelper));
    }
    assert_eq!(story.order(declare(&SessionSpec::default(), terms(0))), Ok(vec![]), "nothing is different");
    assert_eq!(story.order(declare(&other, terms(9))).map(|events| events.len()), Ok(2));
    assert_eq!(story.session.spec, Some(other));
}

#[test]
fn owners_and_their_memory_have_limits() {
    let numbered = |number: usize| {
        let mut bytes = [0; SessionId::LENGTH];
        bytes[0] = (number % 32) as u8;
        bytes[1] = (number / 32 % 32) as u8;
        SessionId::from_random(bytes)
    };
    let mut story = HelperScenario::shared_by(0, &[]);
    for number in 0..MOST_OWNERS {
        let owner = HelperOwner { session: numbered(number), keep: false };
        story.order(Command::Join { owner }).expect("there is room");
    }
    let one_more = HelperOwner { session: numbered(MOST_OWNERS), keep: false };
    let refused = story.order(Command::Join { owner: one_more });
    assert_eq!(refused, Err(Refusal::TooManyOwners { limit: MOST_OWNERS }));
    let sharing = story.session.sharing.as_mut().expect("a helper");
    for number in 0..REMEMBERED * 2 {
        sharing.remember(numbered(number));
    }
    assert_eq!(sharing.past.len(), REMEMBERED);
    assert!(sharing.was_owner(&numbered(REMEMBERED * 2 - 1)));
}

/// Steps in the life of a helper.
#[derive(Clone, Debug)]
enum HelperScenarioStep {
    Join(u8),
    Leave(u8),
    Gone(u8),
    Pass(u64),
    PersonStops,
    Ends,
    Starts,
}

fn step() -> impl Strategy<Value = HelperScenarioStep> {
    prop_oneof![
        4 => (0..4_u8).prop_map(HelperScenarioStep::Join),
        4 => (0..4_u8).prop_map(HelperScenarioStep::Leave),
        2 => (0..4_u8).prop_map(HelperScenarioStep::Gone),
        4 => (0..200_u64).prop_map(HelperScenarioStep::Pass),
        1 => any::<()>().prop_map(|()| HelperScenarioStep::PersonStops),
        2 => any::<()>().prop_map(|()| HelperScenarioStep::Ends),
        2 => any::<()>().prop_map(|()| HelperScenarioStep::Starts),
    ]
}

proptest::proptest! {
    /// For random steps in random order: at most one stop per run for having no owner, none while there is one,
    /// and always one when there is none and the linger time is over. The owner set is kept a second time here,
    /// in the plainest way.
    #[test]
    fn any_life_of_a_helper_is_stopped_by_its_last_owner_once_and_by_nothing_else(
        linger_ms in prop_oneof![proptest::prelude::Just(0_u64), 1..300_u64],
        steps in vec(step(), 1..80),
    ) {
        let mut story = HelperScenario::shared_by(linger_ms, &[]);
        let mut set: Vec<u8> = Vec::new();
        let mut alone_since = None;
        for step in steps {
            let usable = matches!(story.session.phase, RunPhase::Starting | RunPhase::Running { .. });
            let stops = story.idle_stops();
            match step {
                HelperScenarioStep::Join(number) => {
                    assert_eq!(story.join(number).is_ok(), usable, "only a run that lives is joined");
                    if usable && !set.contains(&number) {
                        set.push(number);
                    }
                    if usable {
                        alone_since = None;
                    }
                }
                HelperScenarioStep::Leave(number) | HelperScenarioStep::Gone(number) => {
                    let owned = set.contains(&number);
                    match step {
                        HelperScenarioStep::Leave(_) => drop(story.leave(number)),
                        _ => drop(story.see(Observation::OwnerGone { owner: id(number) })),
                    }
                    set.retain(|known| *known != number);
                    if owned && set.is_empty() && usable {
                        alone_since = Some(story.now.boot_ms);
                    }
                }
                HelperScenarioStep::Pass(ms) => drop(story.pass(ms)),
                HelperScenarioStep::PersonStops => {
                    let stop = Command::Stop { by: Actor::default(), grace: Duration::from_secs(1) };
                    story.order(stop).expect("never refused");
                }
                HelperScenarioStep::Ends => {
                    story.end();
                    set.clear();
                }
                HelperScenarioStep::Starts if !story.session.is_live() => {
                    story.start();
                    set.clear();
                    alone_since = None;
                }
                HelperScenarioStep::Starts => {}
            }
            let stopped_now = story.idle_stops() > stops;
            assert!(story.idle_stops() <= 1, "stopped twice: {:?}", story.events);
            assert!(!stopped_now || set.is_empty(), "stopped under its owners: {:?}", story.events);
            let mut expected: Vec<_> = set.iter().map(|number| id(*number)).collect();
            let mut owners = story.owners();
            expected.sort();
            owners.sort();
            assert_eq!(owners, expected);
            let usable = matches!(story.session.phase, RunPhase::Starting | RunPhase::Running { .. });
            if usable && let Some(since) = alone_since {
                story.see(Observation::Tick);
                let is_over = story.now.boot_ms >= since + linger_ms;
                assert_eq!(story.is_stopping(), is_over, "{:?}", story.events);
            }
        }
    }
}
