//! Any life of a session that takes turns: what must hold after every step, and at the end.
//!
//! Commands come rightly and wrongly, reports late, early and twice, agents, keepers and hosts die. What is
//! promised is kept a second time here, in the plainest way ([`Seen`]), and read from the events alone.
//! A life that fails is printed in its smallest form; `BERTH_SEED=N` repeats the run, `BERTH_CASES=100000`
//! lives as many.
//! Start with [`Life::step`], then [`Life::check`].

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, RngSeed};

use super::{Story, actor, ask, end, prompt};
use crate::turns::{Able, Current, Final, Hold, MOST_ASKS, MOST_QUEUED, Manner, OnUnknown, Prompt, Release};
use crate::turns::{StartBy, TurnState, Turns, Wish};
use crate::{
    Command, Effect, Event, Exit, Observation, Phase, Policy, PolicyChange, Process, Refusal, Session, Term,
    decide, effects, observe,
};

/// How a property is tested: with so many random cases, unless the environment says otherwise.
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

/// What can happen to a session that takes turns.
#[derive(Clone, Debug)]
enum Step {
    Send {
        text: u8,
        key: Option<u8>,
        manner: Manner,
        within_ms: Option<u64>,
    },
    /// So many at once: a queue that is full is worth nothing untested.
    Flood(u8),
    /// The keeper does what is owed: gives the turn that is due.
    Deliver,
    /// A keeper gone mad gives a turn of its own choice.
    DeliverAny(u64),
    Withdraw(u64),
    Cancel(u64),
    Move(u64, u64),
    Pause,
    GoOn,
    Answer(Option<u8>, bool),
    Stop(u64),
    /// Somebody begins the next run.
    Start,
    /// The keeper does what is owed: begins the next run, if it is.
    NextRun,
    Spawned,
    SpawnFailed,
    Ready(bool),
    Began(u64),
    Over(u64, Final),
    Asks(u8),
    Unasked(u8),
    Foreign,
    Broken,
    Exited,
    Empty,
    /// One of the earlier reports comes again.
    Again(u8),
    KeeperDies,
    Reboot,
    Archive,
    Restore,
    /// Somebody wants other times: to be released, and to live.
    Policy(Term, Term),
    Pass(u64),
    /// Time passes exactly until something is due.
    PassUntilDue,
}

fn fate() -> impl Strategy<Value = Final> {
    prop_oneof![
        4 => Just(Final::Done),
        2 => Just(Final::Failed),
        1 => Just(Final::Cancelled),
        1 => Just(Final::Interrupted),
        1 => Just(Final::Unknown),
    ]
}

fn manner() -> impl Strategy<Value = Manner> {
    prop_oneof![4 => Just(Manner::Queue), 1 => Just(Manner::Steer), 1 => Just(Manner::Interrupt)]
}

fn term(most_ms: u64) -> impl Strategy<Value = Term> {
    prop_oneof![Just(Term::Same), Just(Term::Never), (0..most_ms).prop_map(Term::After)]
}

/// Steps that are worth repeating, in a life that gets somewhere.
fn step() -> impl Strategy<Value = Step> {
    let turn = || 0..12_u64;
    let send = (0..3_u8, option::weighted(0.3, 0..3_u8), manner(), option::weighted(0.2, 0..3000_u64))
        .prop_map(|(text, key, manner, within_ms)| Step::Send { text, key, manner, within_ms });
    let asked = (option::of(0..3_u8), any::<bool>()).prop_map(|(which, allow)| Step::Answer(which, allow));
    let commands = prop_oneof![
        12 => send,
        1 => (60..130_u8).prop_map(Step::Flood),
        12 => Just(Step::Deliver),
        1 => turn().prop_map(Step::DeliverAny),
        1 => turn().prop_map(Step::Withdraw),
        4 => turn().prop_map(Step::Cancel),
        3 => (turn(), 0..5_u64).prop_map(|(turn, to)| Step::Move(turn, to)),
        1 => Just(Step::Pause),
        3 => Just(Step::GoOn),
        2 => asked,
        1 => (0..3000_u64).prop_map(Step::Stop),
        5 => Just(Step::Start),
        5 => Just(Step::NextRun),
        1 => Just(Step::Archive),
        2 => Just(Step::Restore),
        1 => (term(9000), term(40_000)).prop_map(|(idle, ttl)| Step::Policy(idle, ttl)),
    ];
    let reports = prop_oneof![
        6 => Just(Step::Spawned),
        1 => Just(Step::SpawnFailed),
        8 => any::<bool>().prop_map(Step::Ready),
        3 => turn().prop_map(Step::Began),
        8 => (turn(), fate()).prop_map(|(turn, fate)| Step::Over(turn, fate)),
        2 => (0..3_u8).prop_map(Step::Asks),
        1 => (0..3_u8).prop_map(Step::Unasked),
        1 => Just(Step::Foreign),
        1 => Just(Step::Broken),
        2 => Just(Step::Exited),
        4 => Just(Step::Empty),
        4 => any::<u8>().prop_map(Step::Again),
        1 => Just(Step::KeeperDies),
        1 => Just(Step::Reboot),
        4 => (0..8000_u64).prop_map(Step::Pass),
        3 => Just(Step::PassUntilDue),
    ];
    prop_oneof![commands, reports]
}

fn policy() -> impl Strategy<Value = Policy> {
    let unknown = prop_oneof![Just(OnUnknown::Hold), Just(OnUnknown::Continue)];
    let (idle_ms, ttl_ms) = (option::of(0..9000_u64), option::weighted(0.2, 0..40_000_u64));
    (idle_ms, ttl_ms, unknown).prop_map(|(idle_ms, ttl_ms, on_unknown)| Policy {
        idle_ms,
        ttl_ms,
        archive_after_ms: None,
        on_unknown,
        ..Policy::default()
    })
}

/// What the events said so far.
#[derive(Default)]
struct Seen {
    accepted: u64,
    /// How often each turn was given to an agent, and where it stands.
    turns: BTreeMap<u64, (u32, TurnState)>,
    /// The text each key belongs to.
    keys: BTreeMap<String, String>,
    /// Turns nobody moved and that were in no hurry: they keep their order.
    plain: Vec<u64>,
    last_plain: u64,
    /// Which ends were reported of which turn.
    told: Vec<(u64, Final)>,
    /// Somebody stopped it, and nobody has started it since.
    is_stopped: bool,
    /// Which of them came after the end.
    late: Vec<(u64, Final)>,
    /// Somebody put it away, and nobody has brought it back since.
    is_archived: bool,
}

struct Life {
    story: Story,
    seen: Seen,
    reports: Vec<Observation>,
}

impl Life {
    fn new(policy: Policy) -> Self {
        Self { story: Story::new(policy), seen: Seen::default(), reports: Vec::new() }
    }

    /// Numbers in steps mean the turns there are, and one or two there are not.
    fn turn(&self, number: u64) -> u64 {
        number % (self.story.session.turns.last() + 2)
    }

    /// A turn that the world would speak of: the one the agent has, mostly.
    fn likely(&self, number: u64) -> u64 {
        let current = self.story.session.turns.current.as_ref();
        match current.filter(|_| !number.is_multiple_of(4)) {
            Some(Current { turn, steered, .. }) => *steered.get(number as usize % 3).unwrap_or(turn),
            None => self.turn(number),
        }
    }

    fn step(&mut self, step: Step) {
        let epoch = self.story.session.epoch;
        match step {
            Step::Send { text, key, manner, within_ms } => {
                let start_by = within_ms.and_then(|ms| self.story.in_ms(ms));
                let key = key.map(|key| format!("key {key}"));
                self.send(Prompt { key, start_by, manner, ..prompt(&format!("text {text}")) });
            }
            Step::Flood(count) => (0..count).for_each(|_| self.send(prompt("more"))),
            Step::Deliver => {
                if let Some(turn) = self.story.session.due_turn() {
                    let given = self.order(Command::Deliver { turn, output_from: 0 });
                    assert!(given.is_ok(), "what is due is not refused: {given:?}");
                    assert_ne!(self.story.state(turn), TurnState::Queued, "giving it changes something");
                }
            }
            Step::DeliverAny(turn) => {
                let turn = self.turn(turn);
                let due = self.story.session.due_turn();
                let given = self.order(Command::Deliver { turn, output_from: 0 });
                assert_eq!(given.is_ok(), due == Some(turn), "only what is due is given");
            }
            Step::Withdraw(turn) => {
                let turn = self.turn(turn);
                let waits = self.seen.turns.get(&turn).is_some_and(|(_, state)| *state == TurnState::Queued);
                let withdrawn = self.order(Command::Withdraw { turn, by: actor(2) });
                assert_eq!(withdrawn.is_ok(), waits, "only what waits is withdrawn");
            }
            Step::Cancel(turn) => {
                let turn = self.turn(turn);
                let cancelled = self.order(Command::Cancel { turn, by: actor(2) });
                let state = self.seen.turns.get(&turn).map(|(_, state)| *state);
                match state {
                    None => assert_eq!(cancelled, Err(Refusal::NoSuchTurn { turn })),
                    Some(TurnState::Queued) => panic!("turn {turn} still waits"),
                    Some(TurnState::Delivered | TurnState::Working | TurnState::Over(_)) => {}
                }
            }
            Step::Move(turn, to) => {
                let turn = self.turn(turn);
                if self.order(Command::Move { turn, to }).is_ok() {
                    let queue = self.story.queue();
                    let last = queue.len() as u64 - 1;
                    assert_eq!(queue[to.min(last) as usize], turn, "it is where it was wanted");
                    self.seen.plain.retain(|plain| *plain != turn);
                }
            }
            Step::Pause => {
                self.order(Command::Pause { by: actor(1) }).expect("never refused");
                assert!(self.story.session.turns.hold.is_some());
            }
            Step::GoOn => {
                self.order(Command::GoOn { by: actor(1) }).expect("never refused");
                assert_eq!(self.story.session.turns.hold, None);
            }
            Step::Answer(which, allow) => {
                let wish = if allow { Wish::Allow } else { Wish::Deny };
                let request = which.map(|which| which.to_string());
                drop(self.order(Command::Answer { request, wish, by: actor(1) }));
            }
            Step::Stop(ms) => {
                let stop = Command::Stop { by: actor(9), grace: Duration::from_millis(ms) };
                // Of a session at rest nothing is stopped; whoever wants something of it later is heard.
                let is_at_rest = !self.story.session.is_live() && !self.story.session.goes_on();
                self.order(stop).expect("never refused");
                self.seen.is_stopped |= !is_at_rest;
            }
            Step::Start => {
                let is_archived = self.seen.is_archived;
                let started = self.start();
                assert!(!(started && is_archived), "what was put away does not run");
            }
            Step::Archive => {
                let is_live = self.story.session.is_live();
                let archived = self.order(Command::Archive { by: actor(5) });
                assert_eq!(archived.is_ok(), !is_live, "only what does not run is put away");
                assert_eq!(self.seen.is_archived, !is_live);
            }
            Step::Restore => {
                self.order(Command::Restore { by: actor(5) }).expect("never refused");
                assert!(!self.seen.is_archived);
            }
            Step::Policy(idle, ttl) => {
                let change = PolicyChange { idle, ttl, ..PolicyChange::default() };
                let wanted = change.of(&self.story.session.policy());
                match self.order(Command::SetPolicy { change }) {
                    Ok(_) => assert_eq!(self.story.session.policy(), wanted),
                    Err(Refusal::Expired) => {
                        assert_eq!(self.story.session.released, Some(Release::Expired));
                    }
                    Err(refusal) => panic!("refused for no reason: {refusal:?}"),
                }
            }
            Step::NextRun => {
                let owes_it = |life: &Self| life.story.owed().contains(&Effect::NextRun { epoch });
                if owes_it(self) && !self.start() {
                    self.report(Observation::Tick);
                    assert!(!owes_it(self), "a run that is refused is not owed for ever");
                }
            }
            Step::Spawned => {
                let agent = self.story.process(8);
                self.report(Observation::Spawned { epoch, agent });
            }
            Step::SpawnFailed => {
                self.report(Observation::SpawnFailed { epoch, reason: "no such program".to_owned() });
            }
            Step::Ready(steer) => {
                self.report(Observation::AgentReady { epoch, able: Able { steer, resume: true } })
            }
            Step::Began(turn) => self.report(Observation::TurnBegan { turn: self.likely(turn) }),
            Step::Over(turn, fate) => {
                let turn = self.likely(turn);
                self.report(Observation::TurnOver { turn, end: end(fate) });
            }
            Step::Asks(which) => self.report(Observation::Asks { ask: ask(&which.to_string()) }),
            Step::Unasked(which) => self.report(Observation::Unasked { request: which.to_string() }),
            Step::Foreign => {
                let hold = Hold::ForeignWriter { who: "pid 5".to_owned() };
                self.report(Observation::Held { hold });
            }
            Step::Broken => self.report(Observation::Broken { epoch, reason: "garbage".to_owned() }),
            Step::Exited => self.report(Observation::Exited { epoch, exit: Exit::Code(1), oom: false }),
            Step::Empty => self.report(Observation::Empty { epoch }),
            Step::Again(which) => {
                let count = self.reports.len().max(1);
                if let Some(report) = self.reports.get(which as usize % count).cloned() {
                    self.report(report);
                }
            }
            Step::KeeperDies => self.keeper_dies(),
            Step::Reboot => {
                self.story.boot += 1;
                self.story.now.boot_ms /= 3;
                self.keeper_dies();
            }
            Step::Pass(ms) => self.pass(ms),
            Step::PassUntilDue => {
                let due = self.story.wakes_at().unwrap_or_default();
                self.pass(due.saturating_sub(self.story.now.boot_ms).min(100_000));
            }
        }
    }

    fn send(&mut self, prompt: Prompt) {
        let session = &self.story.session;
        let (is_full, last) = (session.turns.queue.len() == MOST_QUEUED, session.turns.last());
        let known = prompt.key.as_ref().and_then(|key| self.seen.keys.get(key)).cloned();
        let is_ending = matches!(session.phase, Phase::Ending(_));
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
        let start = Command::Start { keeper, output_from: 0, boundary: Default::default() };
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

    /// Every event against the state it met.
    fn happened(&mut self, events: &[Event]) {
        for event in events {
            self.seen.witness(&self.story, event);
            self.story.apply(std::slice::from_ref(event));
        }
    }

    /// What holds whenever nothing is going on.
    fn check(&self) {
        let session = &self.story.session;
        let turns = &session.turns;
        assert_eq!(Session::replay(&self.story.events), *session, "replay leads elsewhere than life did");
        self.check_places(turns);
        assert!(turns.asks.len() <= MOST_ASKS);
        let is_live = session.is_live();
        assert!(is_live || (turns.current.is_none() && turns.ready.is_none() && turns.asks.is_empty()));
        assert!(turns.current.is_none() || turns.ready.is_some(), "only an agent that takes turns has one");
        let is_quiet = turns.ready.is_some() && turns.current.is_none() && turns.queue.is_empty();
        assert_eq!(turns.quiet_since_boot_ms.is_some(), is_quiet, "it is quiet if it has nothing to do");
        self.check_owed();
        self.check_that_time_does_not_stand_still();
        self.check_that_agents_are_not_tried_for_ever();
    }

    /// Each turn is in one place: in the queue, with the agent, or over.
    fn check_places(&self, turns: &Turns) {
        let mut with_agent: Vec<u64> = turns.current.iter().map(|current| current.turn).collect();
        with_agent.extend(turns.current.iter().flat_map(|current| current.steered.iter().copied()));
        let mut waiting = self.story.queue();
        with_agent.sort_unstable();
        waiting.sort_unstable();
        let (mut delivered, mut queued) = (Vec::new(), Vec::new());
        for (turn, (_, state)) in &self.seen.turns {
            assert_eq!(self.story.state(*turn), *state, "turn {turn}");
            match state {
                TurnState::Queued => queued.push(*turn),
                TurnState::Delivered | TurnState::Working => delivered.push(*turn),
                TurnState::Over(_) => {}
            }
        }
        assert_eq!((waiting, with_agent), (queued, delivered));
        assert!(turns.queue.len() <= MOST_QUEUED);
        assert_eq!(turns.last(), self.seen.accepted);
    }

    fn check_owed(&self) {
        let session = &self.story.session;
        let turns = &session.turns;
        let is_running = matches!(session.phase, Phase::Running { .. });
        let cancel = turns.current.as_ref().filter(|current| current.cancel.is_some());
        let owed = effects(session);
        for effect in &owed {
            match effect {
                Effect::Say { turn } => {
                    let has = turns.current.iter().any(|it| it.turn == *turn || it.steered.contains(turn));
                    assert!(is_running && has, "{effect:?}");
                    assert_eq!(self.story.state(*turn), TurnState::Delivered, "said, and heard");
                }
                Effect::Interrupt { turn } => {
                    assert!(is_running && cancel.is_some_and(|it| it.turn == *turn), "{effect:?}");
                }
                Effect::Deliver { turn } => {
                    assert!(is_running && turns.ready.is_some() && turns.hold.is_none(), "{effect:?}");
                    assert_eq!(turns.queue.front(), Some(turn));
                }
                Effect::NextRun { .. } => {
                    let may = !self.seen.is_stopped
                        && !self.seen.is_archived
                        && session.released != Some(Release::Expired);
                    assert!(may && turns.hold.is_none() && !turns.queue.is_empty(), "{effect:?}");
                    assert!(!owed.contains(&Effect::Leave));
                }
                Effect::Leave => assert!(!session.is_live()),
                Effect::Spawn { .. }
                | Effect::Terminate { .. }
                | Effect::Kill { .. }
                | Effect::Prove { .. }
                | Effect::WakeAt { .. } => {}
            }
        }
        let interrupts = owed.iter().filter(|effect| matches!(effect, Effect::Interrupt { .. })).count();
        assert_eq!(interrupts, usize::from(is_running && cancel.is_some()));
    }

    /// Whoever wakes when asked to finds something to do, and then something else: a loop cannot spin.
    fn check_that_time_does_not_stand_still(&self) {
        let (mut session, mut now) = (self.story.session.clone(), self.story.now);
        for _ in 0..4 {
            let wakes_at = effects(&session).into_iter().find_map(|effect| match effect {
                Effect::WakeAt { boot_ms } => Some(boot_ms),
                _ => None,
            });
            let Some(at) = wakes_at else { return };
            now.boot_ms = now.boot_ms.max(at);
            let events = observe(&session, &Observation::Tick, now);
            assert!(!events.is_empty(), "woken at {at} for nothing: {:?}", session);
            events.iter().for_each(|event| session.apply(event));
        }
        // A queue with many deadlines has as many reasons to wake, each later than the one before.
        let waits = session.turns.queue.iter().filter_map(|turn| session.turns.get(*turn)?.start_by.clone());
        let late = |by: &StartBy| by.boot_id == self.story.boot_id() && by.boot_ms <= now.boot_ms;
        assert_eq!(waits.filter(late).count(), 0, "woken again and again: {session:?}");
    }

    /// An agent that never takes a turn is not started over and over.
    fn check_that_agents_are_not_tried_for_ever(&self) {
        let mut story = Story { events: Vec::new(), session: self.story.session.clone(), ..self.story };
        for _ in 0..4 {
            let epoch = story.session.epoch;
            if !story.owed().contains(&Effect::NextRun { epoch }) {
                return;
            }
            let keeper = story.process(7);
            let start = Command::Start { keeper, output_from: 0, boundary: Default::default() };
            let Ok(events) = decide(&story.session, start, story.now) else { return };
            story.apply(&events);
            let epoch = story.session.epoch;
            for report in [
                Observation::Spawned { epoch, agent: story.process(8) },
                Observation::AgentReady { epoch, able: Able::default() },
                Observation::Exited { epoch, exit: Exit::Code(0), oom: false },
                Observation::Empty { epoch },
            ] {
                let events = observe(&story.session, &report, story.now);
                story.apply(&events);
            }
        }
        panic!("an agent that takes no turn is started again and again: {:?}", story.session);
    }

    /// The world cooperates: whatever holds is lifted, agents start, take turns and finish them.
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
                Phase::New | Phase::Ended { .. } => {
                    if !self.start() {
                        // Its time was up. It begins anew when the host does.
                        self.step(Step::Reboot);
                    }
                }
                Phase::Starting => self.step(Step::Spawned),
                Phase::Running { .. } if self.story.session.turns.ready.is_none() => {
                    self.step(Step::Ready(true));
                }
                Phase::Running { .. } => {
                    self.step(Step::Deliver);
                    if let Some(current) = self.story.session.turns.current.clone() {
                        self.report(Observation::TurnOver { turn: current.turn, end: end(Final::Done) });
                    }
                }
                Phase::Ending(_) => {
                    let agent = Process::default();
                    self.report(Observation::Spawned { epoch, agent });
                    self.step(Step::Exited);
                    self.step(Step::Empty);
                }
            }
            self.check();
        }
        panic!("some turn never ends: {:?}", self.story.session);
    }
}

impl Seen {
    /// Takes note of an event, and of whether it may happen in the state it met.
    fn witness(&mut self, story: &Story, event: &Event) {
        let before = &story.session;
        match event {
            Event::TurnAccepted { turn, prompt } => {
                self.accepted += 1;
                assert_eq!(*turn, self.accepted, "numbered without a gap");
                assert!(before.turns.queue.len() < MOST_QUEUED);
                self.turns.insert(*turn, (0, TurnState::Queued));
                if prompt.manner == Manner::Queue {
                    self.plain.push(*turn);
                }
            }
            Event::TurnDelivered { turn, epoch, .. } => {
                let is_running = matches!(before.phase, Phase::Running { .. });
                assert!(is_running && *epoch == before.epoch, "given to an agent that does not run");
                assert!(before.turns.ready.is_some(), "given to an agent that takes no turns");
                assert_eq!(before.turns.hold, None, "given while it was held");
                let given = before.turns.get(*turn).expect("accepted before");
                let in_time = |by: &StartBy| by.boot_id == story.boot_id() && by.boot_ms > story.now.boot_ms;
                assert!(given.start_by.as_ref().is_none_or(in_time), "given too late");
                let is_expired = before.is_expired(&story.boot_id(), story.now.boot_ms);
                assert!(!is_expired, "given when the session's time was up");
                let steers = given.manner == Manner::Steer;
                assert!(before.turns.current.is_none() || steers, "two at a time");
                let (times, state) = self.turns.get_mut(turn).expect("accepted before");
                assert_eq!((*times, *state), (0, TurnState::Queued), "given twice");
                (*times, *state) = (1, TurnState::Delivered);
                if self.plain.contains(turn) {
                    assert!(*turn > self.last_plain, "{turn} was overtaken by {}", self.last_plain);
                    self.last_plain = *turn;
                }
            }
            Event::TurnBegan { turn } => {
                let (_, state) = self.turns.get_mut(turn).expect("accepted before");
                assert_eq!(*state, TurnState::Delivered);
                *state = TurnState::Working;
            }
            Event::TurnEnded { turn, end, .. } => self.ended(before, *turn, end.state),
            Event::TurnLate { turn, end } => {
                let (_, state) = self.turns.get(turn).expect("accepted before");
                assert!(state.is_over(), "late is what comes after the end");
                assert!(!self.late.contains(&(*turn, end.state)), "kept twice");
                self.late.push((*turn, end.state));
            }
            Event::CancelRequested { turn, .. } => {
                let current = before.turns.current.as_ref().expect("only what runs is broken off");
                assert_eq!((current.turn, &current.cancel), (*turn, &None), "asked once");
            }
            Event::Released { epoch, .. } => {
                let may = matches!(before.phase, Phase::Starting | Phase::Running { .. });
                assert!(may && *epoch == before.epoch);
            }
            Event::RunStarting { .. } => {
                assert!(!self.is_archived, "what was put away does not run");
                self.is_stopped = false;
            }
            Event::Archived { .. } => {
                assert!(!before.is_live() && !self.is_archived, "put away once, and nothing that runs");
                self.is_archived = true;
            }
            Event::Restored { .. } => {
                assert!(self.is_archived, "only what was put away comes back");
                self.is_archived = false;
            }
            Event::RunEnded { .. } => {
                assert_eq!(before.turns.current, None, "no turn outlives its run");
            }
            Event::Created { .. }
            | Event::Renamed { .. }
            | Event::RunStarted { .. }
            | Event::StopRequested { .. }
            | Event::AgentExited { .. }
            | Event::OomKilled { .. }
            | Event::KillOrdered { .. }
            | Event::EndUnproven { .. }
            | Event::WriterGranted { .. }
            | Event::WriterReleased { .. }
            | Event::Typed { .. }
            | Event::KeeperRestarted { .. }
            | Event::OutputDropped { .. }
            | Event::Declared { .. }
            | Event::Respecified { .. }
            | Event::OwnerJoined { .. }
            | Event::OwnerLeft { .. }
            | Event::BecameReady { .. }
            | Event::NeverReady { .. }
            | Event::ConversationEntered { .. }
            | Event::ConversationLeft { .. }
            | Event::AgentReady { .. }
            | Event::Asked { .. }
            | Event::Answered { .. }
            | Event::Unasked { .. }
            | Event::QueueHeld { .. }
            | Event::QueueResumed { .. }
            | Event::QueueMoved { .. }
            | Event::TurnEdited { .. }
            | Event::ExpirySet { .. }
            | Event::Tagged { .. }
            | Event::Noted { .. }
            | Event::PolicySet { .. }
            | Event::Warned { .. } => {}
        }
    }

    /// One end each, and none that claims more than somebody said.
    fn ended(&mut self, before: &Session, turn: u64, end: Final) {
        let current = before.turns.current.as_ref();
        let whole = current.filter(|it| it.turn == turn || it.steered.contains(&turn)).map(|it| it.turn);
        let of_it = |told: &&(u64, Final)| told.0 == turn || Some(told.0) == whole;
        let was_told = |fate: Final| self.told.iter().filter(of_it).any(|(_, told)| *told == fate);
        let cancel = current.filter(|it| Some(it.turn) == whole).and_then(|it| it.cancel.as_ref());
        let (_, state) = self.turns.get(&turn).expect("accepted before");
        match (*state, end) {
            (TurnState::Over(first), _) => panic!("turn {turn} was {first:?} and is {end:?}"),
            (TurnState::Queued, Final::Cancelled) => {}
            (TurnState::Queued, _) => panic!("turn {turn} never reached an agent and is {end:?}"),
            (TurnState::Delivered | TurnState::Working, Final::Done | Final::Failed) => {
                assert!(was_told(end), "nobody said that turn {turn} is {end:?}");
            }
            (TurnState::Delivered | TurnState::Working, Final::Cancelled) => {
                assert!(was_told(end) || cancel.is_some_and(|it| !it.for_another), "nobody wanted that");
            }
            (TurnState::Delivered | TurnState::Working, Final::Interrupted) => {
                let broken_off = cancel.is_some_and(|it| it.for_another)
                    && (was_told(Final::Failed) || was_told(Final::Cancelled));
                assert!(was_told(end) || broken_off, "nobody proved that turn {turn} did not finish");
            }
            (TurnState::Delivered | TurnState::Working, Final::Unknown) => {}
        }
        self.turns.get_mut(&turn).expect("accepted before").1 = TurnState::Over(end);
    }
}

proptest::proptest! {
    #![proptest_config(cases(150))]

    /// Whatever happens in whatever order, every promise about turns holds after every step, and a world
    /// that cooperates brings every turn to its end.
    #[test]
    fn any_life_keeps_the_promises_about_turns(policy in policy(), steps in vec(step(), 1..120)) {
        let mut life = Life::new(policy);
        for step in steps {
            life.step(step);
            life.check();
        }
        life.cooperate();
    }
}
