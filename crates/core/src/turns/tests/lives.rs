//! Any life of a session that takes turns: invariants after every step, and at the end.
//!
//! Commands are right and wrong; reports come late, early and twice; agents, keepers and hosts die. The promises
//! are kept a second time here, in the plainest way ([`TurnEventModel`]), and read from the events alone.
//! A life that fails is printed in its smallest form; `BERTH_SEED=N` repeats the run, `BERTH_CASES=100000` lives as
//! many.
//! Start with [`RandomTurnsScenario::step`], then [`RandomTurnsScenario::check`].

mod check;
mod seen;
mod step;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;
use std::time::Duration;

use proptest::collection::vec;
use proptest::test_runner::{Config, RngSeed};

use super::{TurnsScenario, actor, ask, end, prompt};
use crate::turns::{
    AgentCapabilities, CurrentTurn, FinalState, MOST_QUEUED, QuestionReply, QueueHold, ReleaseReason,
    TurnEnd, TurnFailure, TurnLookup, TurnProgress, TurnPrompt,
};
use crate::{
    Command, Effect, Event, Observation, PolicyChange, ProcessExit, ProcessRef, Refusal, RunPhase, Session,
    SessionPolicy, decide, observe,
};
use seen::TurnEventModel;
use step::{TurnsScenarioStep, policy, step};

/// The configuration of a property test: so many random cases, unless the environment says otherwise.
fn cases(usual: u32) -> Config {
    let seed = number("BERTH_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    let cases = number("BERTH_CASES").unwrap_or(usual);
    println!("BERTH_SEED={seed} BERTH_CASES={cases} repeats this run");
    Config { failure_persistence: None, rng_seed: RngSeed::Fixed(seed), ..Config::with_cases(cases) }
}

fn number<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number that fits")))
}

struct RandomTurnsScenario {
    story: TurnsScenario,
    seen: TurnEventModel,
    reports: Vec<Observation>,
}

impl RandomTurnsScenario {
    fn new(policy: SessionPolicy) -> Self {
        Self { story: TurnsScenario::new(policy), seen: TurnEventModel::default(), reports: Vec::new() }
    }

    /// Maps the number in a step to a turn that exists, or to one or two that do not.
    fn turn(&self, number: u64) -> u64 {
        number % (self.story.session.turns.last() + 2)
    }

    /// A turn that a report would be about: mostly the one that the agent has.
    fn likely(&self, number: u64) -> u64 {
        let current = self.story.session.turns.current.as_ref();
        match current.filter(|_| !number.is_multiple_of(4)) {
            Some(CurrentTurn { turn, steered, .. }) => *steered.get(number as usize % 3).unwrap_or(turn),
            None => self.turn(number),
        }
    }

    fn step(&mut self, step: TurnsScenarioStep) {
        let epoch = self.story.session.epoch;
        match step {
            TurnsScenarioStep::Send { text, key, manner, within_ms } => {
                let start_by = within_ms.and_then(|ms| self.story.in_ms(ms));
                let key = key.map(|key| format!("key {key}"));
                self.send(TurnPrompt { key, start_by, manner, ..prompt(&format!("text {text}")) });
            }
            TurnsScenarioStep::Flood(count) => (0..count).for_each(|_| self.send(prompt("more"))),
            TurnsScenarioStep::Busy(count) => {
                for _ in 0..count {
                    self.send(prompt("soon done"));
                    self.step(TurnsScenarioStep::Deliver);
                    let current = self.story.session.turns.current.as_ref().map(|current| current.turn);
                    if let Some(turn) = current {
                        self.report(Observation::TurnOver { turn, end: end(FinalState::Done) });
                    }
                    self.check();
                }
            }
            TurnsScenarioStep::Deliver => {
                if let Some(turn) = self.story.session.due_turn() {
                    let given = self.order(Command::Deliver { turn, output_from: 0 });
                    assert!(given.is_ok(), "what is due is not refused: {given:?}");
                    assert_ne!(self.story.state(turn), TurnProgress::Queued, "giving it changes something");
                }
            }
            TurnsScenarioStep::DeliverAny(turn) => {
                let turn = self.turn(turn);
                let due = self.story.session.due_turn();
                let given = self.order(Command::Deliver { turn, output_from: 0 });
                assert_eq!(given.is_ok(), due == Some(turn), "only what is due is given");
            }
            TurnsScenarioStep::Withdraw(turn) => {
                let turn = self.turn(turn);
                let waits =
                    self.seen.turns.get(&turn).is_some_and(|(_, state)| *state == TurnProgress::Queued);
                let withdrawn = self.order(Command::Withdraw { turn, by: actor(2) });
                assert_eq!(withdrawn.is_ok(), waits, "only what waits is withdrawn");
            }
            TurnsScenarioStep::Cancel(turn) => {
                let turn = self.turn(turn);
                let cancelled = self.order(Command::Cancel { turn, by: actor(2) });
                let state = self.seen.turns.get(&turn).map(|(_, state)| *state);
                match state {
                    None => assert_eq!(cancelled, Err(Refusal::NoSuchTurn { turn })),
                    Some(TurnProgress::Queued) => panic!("turn {turn} still waits"),
                    Some(TurnProgress::Delivered | TurnProgress::Working) => {}
                    // The turn may have waited before.
                    Some(TurnProgress::Over(end)) if cancelled.is_ok() => {
                        assert_eq!(end, FinalState::Cancelled)
                    }
                    Some(TurnProgress::Over(end)) => {
                        let is_here = matches!(self.story.session.turns.find(turn), TurnLookup::Here(_));
                        let end = is_here.then_some(end);
                        assert_eq!(cancelled, Err(Refusal::TurnOver { turn, end }));
                    }
                }
            }
            TurnsScenarioStep::Move(turn, to) => {
                let turn = self.turn(turn);
                if self.order(Command::Move { turn, to }).is_ok() {
                    let queue = self.story.queue();
                    let last = queue.len() as u64 - 1;
                    assert_eq!(queue[to.min(last) as usize], turn, "it is where it was wanted");
                    self.seen.plain.retain(|plain| *plain != turn);
                }
            }
            TurnsScenarioStep::Pause => {
                self.order(Command::Pause { by: actor(1) }).expect("never refused");
                assert!(self.story.session.turns.hold.is_some());
            }
            TurnsScenarioStep::GoOn => {
                self.order(Command::GoOn { by: actor(1) }).expect("never refused");
                assert_eq!(self.story.session.turns.hold, None);
            }
            TurnsScenarioStep::Answer(which, allow) => {
                let reply = if allow { QuestionReply::Allow } else { QuestionReply::Deny { reason: None } };
                let request = which.map(|which| which.to_string());
                drop(self.order(Command::Answer { request, reply, by: actor(1) }));
            }
            TurnsScenarioStep::Stop(ms) => {
                let stop = Command::Stop { by: actor(9), grace: Duration::from_millis(ms) };
                // Nothing of a session at rest is stopped; a later command for it is accepted.
                let is_at_rest = !self.story.session.is_live() && !self.story.session.goes_on();
                self.order(stop).expect("never refused");
                self.seen.is_stopped |= !is_at_rest;
            }
            TurnsScenarioStep::Start => {
                let is_archived = self.seen.is_archived;
                let started = self.start();
                assert!(!(started && is_archived), "what was put away does not run");
            }
            TurnsScenarioStep::Archive => {
                let is_live = self.story.session.is_live();
                let archived = self.order(Command::Archive { by: actor(5) });
                assert_eq!(archived.is_ok(), !is_live, "only what does not run is put away");
                assert_eq!(self.seen.is_archived, !is_live);
            }
            TurnsScenarioStep::Restore => {
                self.order(Command::Restore { by: actor(5) }).expect("never refused");
                assert!(!self.seen.is_archived);
            }
            TurnsScenarioStep::Policy(idle, ttl) => {
                let change = PolicyChange { idle, ttl, ..PolicyChange::default() };
                let wanted = change.of(&self.story.session.policy());
                match self.order(Command::SetPolicy { change }) {
                    Ok(_) => assert_eq!(self.story.session.policy(), wanted),
                    Err(Refusal::Expired) => {
                        assert_eq!(self.story.session.released, Some(ReleaseReason::Expired));
                    }
                    Err(refusal) => panic!("refused for no reason: {refusal:?}"),
                }
            }
            TurnsScenarioStep::NextRun => {
                let owes_it = |life: &Self| life.story.owed().contains(&Effect::NextRun { epoch });
                if owes_it(self) && !self.start() {
                    self.report(Observation::Tick);
                    assert!(!owes_it(self), "a run that is refused is not owed for ever");
                }
            }
            TurnsScenarioStep::Spawned => {
                let agent = self.story.process(8);
                self.report(Observation::Spawned { epoch, agent });
            }
            TurnsScenarioStep::SpawnFailed => {
                self.report(Observation::SpawnFailed { epoch, reason: "no such program".to_owned() });
            }
            TurnsScenarioStep::Ready(steer) => self
                .report(Observation::AgentReady { epoch, able: AgentCapabilities { steer, resume: true } }),
            TurnsScenarioStep::Began(turn) => self.report(Observation::TurnBegan { turn: self.likely(turn) }),
            TurnsScenarioStep::Over(turn, fate) => {
                let turn = self.likely(turn);
                // Every second turn that fails does so because of the model.
                let failure = if turn.is_multiple_of(2) { TurnFailure::Limit } else { TurnFailure::Other };
                self.report(Observation::TurnOver { turn, end: TurnEnd { failure, ..end(fate) } });
            }
            TurnsScenarioStep::Asks(which) => self.report(Observation::Asks { ask: ask(&which.to_string()) }),
            TurnsScenarioStep::Unasked(which) => {
                self.report(Observation::QuestionWithdrawn { request: which.to_string() })
            }
            TurnsScenarioStep::Foreign => {
                let hold = QueueHold::ForeignWriter { who: "pid 5".to_owned() };
                self.report(Observation::Held { hold });
            }
            TurnsScenarioStep::Broken => {
                self.report(Observation::Broken { epoch, reason: "garbage".to_owned() })
            }
            TurnsScenarioStep::Exited => {
                self.report(Observation::Exited { epoch, exit: ProcessExit::Code(1), oom: false })
            }
            TurnsScenarioStep::Empty => self.report(Observation::Empty { epoch }),
            TurnsScenarioStep::Again(which) => {
                let count = self.reports.len().max(1);
                if let Some(report) = self.reports.get(which as usize % count).cloned() {
                    self.report(report);
                }
            }
            TurnsScenarioStep::KeeperDies => self.keeper_dies(),
            TurnsScenarioStep::Reboot => {
                self.story.boot += 1;
                self.story.now.boot_ms /= 3;
                self.keeper_dies();
            }
            TurnsScenarioStep::Pass(ms) => self.pass(ms),
            TurnsScenarioStep::PassUntilDue => {
                let due = self.story.wakes_at().unwrap_or_default();
                self.pass(due.saturating_sub(self.story.now.boot_ms).min(100_000));
            }
        }
    }

    fn send(&mut self, prompt: TurnPrompt) {
        let session = &self.story.session;
        let (is_full, last) = (session.turns.queue.len() == MOST_QUEUED, session.turns.last());
        let known = prompt.key.as_ref().and_then(|key| self.seen.keys.get(key)).cloned();
        let is_ending = matches!(session.phase, RunPhase::Ending(_));
        let (text, key) = (prompt.text.clone(), prompt.key.clone());
        let sent = self.order(Command::Send { prompt });
        let grew = self.story.session.turns.last() - last;
        match (known, sent) {
            (Some(known), Ok(events)) => assert!(events.is_empty() && known == text, "a key means one turn"),
            (Some(known), Err(refusal)) => {
                assert!(matches!(refusal, Refusal::KeyReused { .. }) && known != text, "{refusal:?}");
            }
            (None, Ok(_)) => {
                assert!(!is_full && grew == 1, "one more than can wait");
                self.seen.keys.extend(key.map(|key| (key, text)));
            }
            (None, Err(Refusal::QueueFull { .. })) => assert!(is_full),
            (None, Err(Refusal::BeingEnded)) => assert!(is_ending),
            (None, Err(Refusal::Archived)) => assert!(self.seen.is_archived),
            (None, Err(Refusal::CannotSteer | Refusal::Expired)) => {}
            (None, Err(refusal)) => panic!("refused for no reason: {refusal:?}"),
        }
    }

    fn start(&mut self) -> bool {
        let keeper = self.story.process(7);
        let epoch = self.story.session.epoch.next();
        let start = Command::Start { epoch, keeper, output_from: 0, boundary: Default::default() };
        self.order(start).is_ok()
    }

    fn keeper_dies(&mut self) {
        self.story.session = Session::replay(&self.story.events);
        self.report(Observation::KeeperGone { epoch: self.story.session.epoch });
    }

    fn pass(&mut self, ms: u64) {
        self.story.now.boot_ms += ms;
        self.report(Observation::Tick);
    }

    fn order(&mut self, command: Command) -> Result<Vec<Event>, Refusal> {
        let events = decide(&self.story.session, command, self.story.now)?;
        self.happened(&events);
        Ok(events)
    }

    fn report(&mut self, observation: Observation) {
        if let Observation::TurnOver { turn, end } = &observation {
            self.seen.told.push((*turn, end.state));
        }
        let events = observe(&self.story.session, &observation, self.story.now);
        self.happened(&events);
        self.reports.push(observation);
    }

    /// Checks every event against the state that it met.
    fn happened(&mut self, events: &[Event]) {
        for event in events {
            self.seen.witness(&self.story, event);
            self.story.apply(std::slice::from_ref(event));
        }
    }

    /// A key means its turn for as long as the session lives, also when that turn is long over.
    fn repeat_all_keys(&mut self) {
        for (key, text) in self.seen.keys.clone() {
            let turn = self.story.session.turns.keyed(&key).expect("a key is never forgotten");
            let again = |text: &str| TurnPrompt { key: Some(key.clone()), ..prompt(text) };
            assert_eq!(self.order(Command::Send { prompt: again(&text) }), Ok(vec![]));
            let other = self.order(Command::Send { prompt: again("another text") });
            assert_eq!(other, Err(Refusal::KeyReused { turn }));
        }
    }

    /// The world cooperates: every hold is lifted, agents start, take turns and finish them.
    fn cooperate(&mut self) {
        let most = 20 + 4 * self.story.session.turns.last();
        for _ in 0..most {
            if self.seen.turns.values().all(|(_, state)| state.is_over()) {
                return;
            }
            self.order(Command::GoOn { by: actor(1) }).expect("never refused");
            self.order(Command::Restore { by: actor(1) }).expect("never refused");
            let epoch = self.story.session.epoch;
            match self.story.session.phase.clone() {
                RunPhase::New | RunPhase::Ended { .. } => {
                    if !self.start() {
                        // The time to live has ended. It begins anew when the host does.
                        self.step(TurnsScenarioStep::Reboot);
                    }
                }
                RunPhase::Starting => self.step(TurnsScenarioStep::Spawned),
                RunPhase::Running { .. } if self.story.session.turns.ready.is_none() => {
                    self.step(TurnsScenarioStep::Ready(true));
                }
                RunPhase::Running { .. } => {
                    self.step(TurnsScenarioStep::Deliver);
                    if let Some(current) = self.story.session.turns.current.clone() {
                        self.report(Observation::TurnOver { turn: current.turn, end: end(FinalState::Done) });
                    }
                }
                RunPhase::Ending(_) => {
                    let agent = ProcessRef::default();
                    self.report(Observation::Spawned { epoch, agent });
                    self.step(TurnsScenarioStep::Exited);
                    self.step(TurnsScenarioStep::Empty);
                }
            }
            self.check();
        }
        panic!("some turn never ends: {:?}", self.story.session);
    }
}

proptest::proptest! {
    #![proptest_config(cases(150))]

    /// With any steps in any order, every promise about turns holds after every step, and a world
    /// that cooperates brings every turn to its end.
    #[test]
    fn any_life_keeps_the_promises_about_turns(policy in policy(), steps in vec(step(), 1..120)) {
        let mut life = RandomTurnsScenario::new(policy);
        for step in steps {
            life.step(step);
            life.check();
        }
        life.cooperate();
        life.repeat_all_keys();
    }
}
