//! The rules of turns, as sentences. What holds in any life is in `tests/lives.rs`.

mod life;
mod lives;

use std::time::Duration;

use super::{
    Able, Ask, AskKind, AskOption, CANCEL_PATIENCE, Expiry, Final, Hold, MAX_KEY_BYTES, MAX_PROMPT_BYTES,
    MOST_ASKS, MOST_ENDS, MOST_QUEUED, Manner, OnUnknown, Prompt, RELEASE_GRACE, Release, StartBy, TurnEnd,
    TurnState, Wish,
};
use crate::{
    Actor, Boundary, Command, Effect, Epoch, Event, Exit, Now, Observation, Outcome, Phase, Policy, Process,
    Refusal, Session, Spec, State, decide, effects, observe,
};

const IDLE_MS: u64 = 60_000;
const PATIENCE_MS: u64 = CANCEL_PATIENCE.as_millis() as u64;

fn actor(pid: u32) -> Actor {
    Actor { pid, uid: Some(0), place: format!("pts/{pid}") }
}

fn prompt(text: &str) -> Prompt {
    Prompt { by: actor(1), text: text.to_owned(), key: None, start_by: None, manner: Manner::Queue }
}

fn keyed(text: &str, key: &str) -> Prompt {
    Prompt { key: Some(key.to_owned()), ..prompt(text) }
}

fn hurried(text: &str, manner: Manner) -> Prompt {
    Prompt { manner, ..prompt(text) }
}

fn end(state: Final) -> TurnEnd {
    let answer = format!("it is {}", TurnState::Over(state).word());
    TurnEnd { state, reason: None, answer, cut: false, input_tokens: Some(1), output_tokens: Some(2) }
}

fn ask(request: &str) -> Ask {
    let option = |id: &str, kind| AskOption { id: id.to_owned(), name: id.to_owned(), kind };
    Ask {
        request: request.to_owned(),
        tool: "Bash".to_owned(),
        detail: "rm -r build".to_owned(),
        options: vec![option("yes", AskKind::AllowOnce), option("no", AskKind::RejectOnce)],
    }
}

/// The life of a session whose agent takes turns.
struct Story {
    session: Session,
    events: Vec<Event>,
    now: Now,
    boot: u32,
}

impl Story {
    /// A session that was just made.
    fn new(policy: Policy) -> Self {
        let now = Now { wall_ms: 1_000_000, boot_ms: 1000 };
        let mut story = Self { session: Session::default(), events: Vec::new(), now, boot: 1 };
        let spec = Spec { driver: "acp".to_owned(), policy, ..Spec::default() };
        story.order(Command::Create { spec, name: None }).expect("a new session");
        story
    }

    /// One whose agent waits for turns.
    fn ready(policy: Policy) -> Self {
        let mut story = Self::new(policy);
        story.start_ready();
        story
    }

    /// One whose agent works on turn 1, while what follows waits.
    fn working(waiting: &[&str]) -> Self {
        let mut story = Self::ready(Policy::default());
        story.send(prompt("the first")).expect("there is room");
        story.deliver();
        story.see(Observation::TurnBegan { turn: 1 });
        for text in waiting {
            story.send(prompt(text)).expect("there is room");
        }
        story
    }

    fn process(&self, pid: u32) -> Process {
        Process { pid, start_ticks: 1, boot_id: self.boot_id() }
    }

    fn boot_id(&self) -> String {
        format!("boot {}", self.boot)
    }

    fn in_ms(&self, ms: u64) -> Option<StartBy> {
        Some(StartBy { boot_id: self.boot_id(), boot_ms: self.now.boot_ms + ms })
    }

    fn start(&mut self) -> Result<Vec<Event>, Refusal> {
        let keeper = self.process(7);
        self.order(Command::Start { keeper, output_from: 0, boundary: Boundary::default() })
    }

    fn start_ready(&mut self) {
        self.start().expect("nothing runs");
        let (epoch, agent) = (self.session.epoch, self.process(8));
        self.see(Observation::Spawned { epoch, agent });
        self.see(Observation::AgentReady { epoch, able: Able { steer: true, resume: true } });
    }

    /// The agent ends by itself, and nothing of it is left.
    fn end_run(&mut self) {
        let epoch = self.session.epoch;
        self.see(Observation::Exited { epoch, exit: Exit::Code(1), oom: false });
        self.see(Observation::Empty { epoch });
    }

    /// The keeper dies; another one replays what there is, and reports that.
    fn keeper_dies(&mut self) {
        self.session = Session::replay(&self.events);
        let epoch = self.session.epoch;
        self.see(Observation::KeeperGone { epoch });
    }

    /// The host starts again; its clock does, too.
    fn reboot(&mut self) {
        self.boot += 1;
        self.now.boot_ms = 500;
        self.keeper_dies();
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
        self.apply(&events);
        assert_eq!(Session::replay(&self.events), self.session, "replay leads elsewhere than life did");
        events
    }

    fn apply(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.session.apply(event));
        self.events.extend_from_slice(events);
    }

    fn send(&mut self, prompt: Prompt) -> Result<Vec<Event>, Refusal> {
        self.order(Command::Send { prompt })
    }

    fn cancel(&mut self, turn: u64) -> Result<Vec<Event>, Refusal> {
        self.order(Command::Cancel { turn, by: actor(2) })
    }

    fn stop(&mut self) {
        self.order(Command::Stop { by: actor(9), grace: Duration::ZERO }).expect("stopping is never refused");
    }

    /// Does what [`Effect::Deliver`] asks for, and says which turn that was.
    fn deliver(&mut self) -> u64 {
        let due = self.owed().into_iter().find_map(|effect| match effect {
            Effect::Deliver { turn } => Some(turn),
            Effect::Spawn { .. }
            | Effect::Terminate { .. }
            | Effect::Kill { .. }
            | Effect::Prove { .. }
            | Effect::WakeAt { .. }
            | Effect::Say { .. }
            | Effect::Interrupt { .. }
            | Effect::NextRun { .. }
            | Effect::Leave => None,
        });
        let turn = due.expect("a turn is due");
        self.order(Command::Deliver { turn, output_from: 0 }).expect("it is due");
        turn
    }

    fn over(&mut self, turn: u64, state: Final) -> Vec<Event> {
        self.see(Observation::TurnOver { turn, end: end(state) })
    }

    fn pass(&mut self, ms: u64) -> Vec<Event> {
        self.now.boot_ms += ms;
        self.see(Observation::Tick)
    }

    fn owed(&self) -> Vec<Effect> {
        effects(&self.session)
    }

    fn wakes_at(&self) -> Option<u64> {
        self.owed().into_iter().find_map(|effect| match effect {
            Effect::WakeAt { boot_ms } => Some(boot_ms),
            Effect::Spawn { .. }
            | Effect::Terminate { .. }
            | Effect::Kill { .. }
            | Effect::Prove { .. }
            | Effect::Deliver { .. }
            | Effect::Say { .. }
            | Effect::Interrupt { .. }
            | Effect::NextRun { .. }
            | Effect::Leave => None,
        })
    }

    fn state(&self, turn: u64) -> TurnState {
        self.session.turns.get(turn).expect("there is such a turn").state
    }

    fn queue(&self) -> Vec<u64> {
        self.session.turns.queue.iter().copied().collect()
    }

    /// The reason of a turn's end.
    fn reason(&self, turn: u64) -> String {
        let reason = self.events.iter().find_map(|event| match event {
            Event::TurnEnded { turn: over, end, .. } if *over == turn => end.reason.clone(),
            _ => None,
        });
        reason.unwrap_or_default()
    }
}

/// C1: the first turn of a new session is no special case, and a second one waits for it.
#[test]
fn c1_two_first_turns_run_one_after_the_other() {
    let mut story = Story::new(Policy::default());
    story.send(prompt("one")).expect("accepted before anything runs");
    story.send(prompt("two")).expect("accepted before anything runs");
    assert_eq!(story.owed(), vec![], "nothing is given to an agent that is not there");
    story.start().expect("nothing runs");
    assert_eq!(story.order(Command::Deliver { turn: 1, output_from: 0 }), Err(Refusal::NotDue { turn: 1 }));
    let epoch = story.session.epoch;
    let agent = story.process(8);
    story.see(Observation::Spawned { epoch, agent });
    assert_eq!(story.owed(), vec![], "it runs, and has not said that it takes turns");
    story.see(Observation::AgentReady { epoch, able: Able::default() });
    assert_eq!(story.deliver(), 1);
    assert_eq!(story.owed(), vec![Effect::Say { turn: 1 }]);
    assert_eq!(story.order(Command::Deliver { turn: 2, output_from: 0 }), Err(Refusal::NotDue { turn: 2 }));
    story.over(1, Final::Done);
    assert_eq!(story.deliver(), 2);
    story.over(2, Final::Done);
    assert_eq!(story.session.state(true), State::Idle);
}

/// C3: the order of acceptance is the order of delivery, and none overlaps.
#[test]
fn c3_fifty_turns_are_given_in_the_order_they_were_accepted() {
    let mut story = Story::ready(Policy::default());
    for number in 1..=50 {
        let sent = if number % 2 == 0 { keyed("again", &format!("k{number}")) } else { prompt("again") };
        story.send(sent).expect("there is room");
    }
    for number in 1..=50 {
        assert_eq!(story.deliver(), number);
        assert_eq!(story.session.due_turn(), None, "one at a time");
        story.see(Observation::TurnBegan { turn: number });
        story.over(number, Final::Done);
    }
}

/// C4: a key means one turn, in flight, after success and after failure; with another text it is refused.
#[test]
fn c4_a_key_means_one_turn_whatever_became_of_it() {
    for fate in [Final::Done, Final::Failed, Final::Cancelled, Final::Interrupted, Final::Unknown] {
        let mut story = Story::ready(Policy::default());
        story.send(keyed("say it", "k")).expect("new");
        let again = |story: &mut Story, when: &str| {
            assert_eq!(story.send(keyed("say it", "k")), Ok(vec![]), "{when}");
            assert_eq!(story.send(keyed("other", "k")), Err(Refusal::KeyReused { turn: 1 }), "{when}");
            assert_eq!(story.session.turns.keyed("k"), Some(1), "{when}");
        };
        again(&mut story, "waiting");
        story.deliver();
        again(&mut story, "delivered");
        story.over(1, fate);
        again(&mut story, "over");
        story.end_run();
        story.keeper_dies();
        again(&mut story, "after the run and its keeper");
        assert_eq!(story.session.turns.last(), 1);
    }
}

/// C4: a retry that finds the queue full or the session ending still gets its receipt.
#[test]
fn c4_a_repeated_call_is_recognised_before_anything_is_refused() {
    let mut story = Story::ready(Policy::default());
    story.send(keyed("one", "k")).expect("new");
    for _ in 1..MOST_QUEUED {
        story.send(prompt("more")).expect("there is room");
    }
    assert_eq!(story.send(keyed("one", "k")), Ok(vec![]));
    story.stop();
    assert_eq!(story.send(keyed("one", "k")), Ok(vec![]));
}

/// C8: however long a turn takes, the next one waits for it.
#[test]
fn c8_a_turn_of_eight_hours_is_not_overtaken() {
    let mut story = Story::working(&["two"]);
    for _ in 0..8 {
        assert_eq!(story.pass(3_600_000), vec![]);
        assert_eq!(story.session.due_turn(), None);
    }
    story.over(1, Final::Done);
    assert_eq!(story.deliver(), 2);
}

/// C11: cancelled before it was given to the agent, it never is; only its own place is freed.
#[test]
fn c11_a_turn_cancelled_while_it_waits_never_reaches_the_agent() {
    let mut story = Story::working(&["two", "three"]);
    story.cancel(2).expect("it waits");
    assert_eq!(story.state(2), TurnState::Over(Final::Cancelled));
    assert_eq!(story.queue(), [3]);
    assert_eq!(story.state(1), TurnState::Working);
    story.over(1, Final::Done);
    assert_eq!(story.deliver(), 3);
}

/// C11: cancelled while the agent has it, it is broken off; the agent's word about that comes after.
#[test]
fn c11_a_turn_cancelled_while_it_runs_is_broken_off() {
    let mut story = Story::working(&["two"]);
    story.cancel(1).expect("it runs");
    assert_eq!(story.state(1), TurnState::Working, "asked is not done");
    assert!(story.owed().contains(&Effect::Interrupt { turn: 1 }));
    assert_eq!(story.session.due_turn(), None);
    assert_eq!(story.cancel(1), Ok(vec![]), "asked once is enough");
    story.over(1, Final::Failed);
    assert_eq!(story.state(1), TurnState::Over(Final::Cancelled));
    assert!(story.reason(1).contains("pts/2"), "{}", story.reason(1));
    assert_eq!(story.deliver(), 2);
}

/// C11: what was done before it could be broken off is done.
#[test]
fn c11_a_cancel_that_comes_too_late_does_not_undo_what_was_done() {
    let mut story = Story::working(&[]);
    story.cancel(1).expect("it runs");
    story.over(1, Final::Done);
    assert_eq!(story.state(1), TurnState::Over(Final::Done));
    assert_eq!(story.cancel(1), Err(Refusal::TurnOver { turn: 1, end: Final::Done }));
    assert_eq!(story.cancel(2), Err(Refusal::NoSuchTurn { turn: 2 }));
    assert_eq!(story.cancel(0), Err(Refusal::NoSuchTurn { turn: 0 }));
}

/// C11: a late success is kept beside `cancelled` and does not overwrite it.
#[test]
fn c11_a_late_success_does_not_overwrite_cancelled() {
    let mut story = Story::working(&["two"]);
    story.cancel(1).expect("it runs");
    story.over(1, Final::Failed);
    let late = story.over(1, Final::Done);
    assert_eq!(late, vec![Event::TurnLate { turn: 1, end: end(Final::Done) }]);
    assert_eq!(story.state(1), TurnState::Over(Final::Cancelled));
    assert_eq!(story.deliver(), 2);
    story.over(1, Final::Unknown);
    assert_eq!(story.state(2), TurnState::Delivered, "a late word about one turn is none about another");
}

/// C11: an agent that does not break a turn off when asked to loses its run, not the queue.
#[test]
fn c11_an_agent_that_does_not_break_off_is_ended_for_it() {
    let mut story = Story::working(&["two"]);
    story.cancel(1).expect("it runs");
    let until = story.now.boot_ms + PATIENCE_MS;
    assert_eq!(story.wakes_at(), Some(until));
    assert_eq!(story.pass(PATIENCE_MS - 1), vec![]);
    let kill_at_boot_ms = until + RELEASE_GRACE.as_millis() as u64;
    let why = Release::Unresponsive;
    let released = Event::Released { epoch: Epoch(1), why, kill_at_boot_ms };
    assert_eq!(story.pass(1), vec![released]);
    assert_eq!(story.pass(1), vec![], "once");
    story.end_run();
    assert_eq!(story.state(1), TurnState::Over(Final::Cancelled));
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
}

/// C15: exactly so many wait; one more is refused and leaves nothing behind.
#[test]
fn c15_a_full_queue_refuses_and_stores_nothing() {
    let mut story = Story::working(&[]);
    for _ in 0..MOST_QUEUED {
        story.send(prompt("more")).expect("there is room");
    }
    let before = story.session.clone();
    assert_eq!(story.send(keyed("too much", "k")), Err(Refusal::QueueFull { limit: MOST_QUEUED }));
    assert_eq!(story.session, before);
    story.over(1, Final::Done);
    story.deliver();
    story.send(keyed("too much", "k")).expect("the key was not used up, and there is room");
    assert_eq!(story.send(prompt("again")), Err(Refusal::QueueFull { limit: MOST_QUEUED }));
}

#[test]
fn bad_prompts_and_keys_are_refused_by_name() {
    let mut story = Story::ready(Policy::default());
    assert_eq!(story.send(prompt(" \n\t")), Err(Refusal::EmptyPrompt));
    let bytes = MAX_PROMPT_BYTES + 1;
    let limit = MAX_PROMPT_BYTES;
    assert_eq!(story.send(prompt(&"x".repeat(bytes))), Err(Refusal::PromptTooLong { bytes, limit }));
    story.send(prompt(&"x".repeat(limit))).expect("the limit is part of what is allowed");
    for bytes in [0, MAX_KEY_BYTES + 1] {
        let refused = story.send(keyed("text", &"k".repeat(bytes)));
        assert_eq!(refused, Err(Refusal::BadKey { bytes, limit: MAX_KEY_BYTES }));
    }
    story.send(keyed("text", &"k".repeat(MAX_KEY_BYTES))).expect("the limit is part of what is allowed");
}

#[test]
fn an_agent_in_a_terminal_takes_no_turns() {
    let mut story = Story::new(Policy::default());
    for driver in ["", "pty"] {
        story.session.spec = Some(Spec { driver: driver.to_owned(), ..Spec::default() });
        let by = actor(1);
        let orders = [
            Command::Send { prompt: prompt("hello") },
            Command::Pause { by: by.clone() },
            Command::GoOn { by },
        ];
        for order in orders {
            assert_eq!(decide(&story.session, order, story.now), Err(Refusal::NoTurns));
        }
    }
    let nothing = Session::default();
    let send = Command::Send { prompt: prompt("hello") };
    assert_eq!(decide(&nothing, send, story.now), Err(Refusal::NotCreated));
}

/// F11: what was with the agent when its run ended is unknown, never given again, and what waits is held.
#[test]
fn f11_a_turn_cut_off_by_the_end_of_its_run_is_unknown_and_not_repeated() {
    let mut story = Story::working(&["two"]);
    story.end_run();
    assert_eq!(story.state(1), TurnState::Over(Final::Unknown));
    assert_eq!(story.session.turns.hold, Some(Hold::Unknown { turn: 1 }));
    assert_eq!(story.owed(), vec![Effect::Leave], "nothing goes on without somebody's word");
    story.start_ready();
    assert_eq!(story.session.due_turn(), None, "a new run does not lift the hold");
    assert_eq!(story.session.state(true), State::NeedsYou);
    story.order(Command::GoOn { by: actor(1) }).expect("it is held");
    assert_eq!(story.deliver(), 2);
}

/// F11: with the policy to continue, the next turn gets another run.
#[test]
fn f11_a_session_may_go_on_behind_an_unknown_turn_if_it_was_made_so() {
    let mut story = Story::ready(Policy { on_unknown: OnUnknown::Continue, ..Policy::default() });
    story.send(prompt("one")).expect("there is room");
    story.send(prompt("two")).expect("there is room");
    story.deliver();
    story.end_run();
    assert_eq!(story.state(1), TurnState::Over(Final::Unknown));
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
    story.start_ready();
    assert_eq!(story.deliver(), 2);
}

/// F11: what the agent's own record proves comes before the end of its run, and counts.
#[test]
fn f11_what_the_agents_record_proves_is_not_unknown() {
    for proven in [Final::Done, Final::Interrupted] {
        let mut story = Story::working(&["two"]);
        story.over(1, proven);
        story.keeper_dies();
        assert_eq!(story.state(1), TurnState::Over(proven));
        assert_eq!(story.session.turns.hold, None);
        assert_eq!(story.session.outcome(), Some(&Outcome::Lost));
        assert_eq!(story.owed(), vec![Effect::Leave], "whoever asks next begins the next run");
        story.start_ready();
        assert_eq!(story.deliver(), 2);
    }
}

/// G1: a turn whose agent was killed is over in the same commit as its run.
#[test]
fn g1_no_turn_is_called_working_when_its_run_is_over() {
    let ends: [fn(&mut Story); 4] = [Story::end_run, Story::keeper_dies, Story::reboot, |story| {
        story.stop();
        story.end_run();
    }];
    for how in ends {
        let mut story = Story::working(&["two"]);
        how(&mut story);
        assert!(!story.session.is_live());
        assert!(story.state(1).is_over());
        assert_eq!(story.state(2), TurnState::Queued);
        let before = story.events.iter().position(|event| matches!(event, Event::TurnEnded { turn: 1, .. }));
        let after = story.events.iter().position(|event| matches!(event, Event::RunEnded { .. }));
        assert!(before < after, "whoever hears of the end of the run knows about the turn");
        story.send(prompt("three")).expect("new work is not blocked");
    }
}

/// G2: what was accepted and not given to an agent survives runs, keepers and hosts.
#[test]
fn g2_a_turn_that_waits_is_never_taken_for_lost() {
    let mut story = Story::new(Policy::default());
    story.send(prompt("one")).expect("there is room");
    story.keeper_dies();
    story.start().expect("nothing runs");
    story.keeper_dies();
    story.start_ready();
    story.reboot();
    assert_eq!(story.state(1), TurnState::Queued);
    story.start_ready();
    assert_eq!(story.deliver(), 1);
}

/// G3: an end that was reported while the run was ending is the end.
#[test]
fn g3_a_turn_that_finished_before_its_run_is_not_failed() {
    let mut story = Story::working(&[]);
    let epoch = story.session.epoch;
    story.see(Observation::Exited { epoch, exit: Exit::Signal(9), oom: false });
    story.over(1, Final::Done);
    story.see(Observation::Empty { epoch });
    assert_eq!(story.state(1), TurnState::Over(Final::Done));
    assert_eq!(story.session.turns.hold, None);
}

/// H2: a host that slept expires nothing that runs, and nothing that waits without a limit.
#[test]
fn h2_eight_hours_of_sleep_end_no_turn() {
    let mut story = Story::ready(Policy { idle_ms: Some(IDLE_MS), ..Policy::default() });
    story.send(prompt("one")).expect("there is room");
    story.deliver();
    story.send(prompt("two")).expect("there is room");
    assert_eq!(story.pass(8 * 3_600_000), vec![]);
    assert_eq!((story.state(1), story.queue()), (TurnState::Delivered, vec![2]));
}

/// H2, H5: an agent with nothing to do is released once, at a boundary between turns, and the next turn
/// brings it back.
#[test]
fn h5_idleness_is_counted_from_the_last_turn() {
    let mut story = Story::ready(Policy { idle_ms: Some(IDLE_MS), ..Policy::default() });
    assert_eq!(story.pass(IDLE_MS - 1), vec![]);
    story.send(prompt("one")).expect("there is room");
    story.deliver();
    assert_eq!(story.pass(IDLE_MS * 2), vec![], "a working agent is not idle");
    story.over(1, Final::Done);
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms + IDLE_MS));
    assert_eq!(story.pass(IDLE_MS - 1), vec![]);
    assert!(matches!(&story.pass(1)[..], [Event::Released { why: Release::Idle, .. }]));
    assert_eq!(story.pass(1), vec![], "once");
    story.send(prompt("two")).expect("a run that berth ends is no reason to refuse");
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
    story.start_ready();
    assert_eq!(story.deliver(), 2);
}

#[test]
fn a_session_that_was_released_for_idleness_is_called_idle() {
    let mut story = Story::ready(Policy { idle_ms: Some(IDLE_MS), ..Policy::default() });
    story.pass(IDLE_MS);
    story.end_run();
    assert_eq!(story.session.state(false), State::Idle);
    assert_eq!(story.owed(), vec![Effect::Leave]);
}

/// Stopped stays stopped: what waits does not bring a run back.
#[test]
fn what_waits_does_not_bring_a_stopped_session_back() {
    let mut story = Story::ready(Policy::default());
    story.order(Command::Pause { by: actor(1) }).expect("it goes on");
    story.send(prompt("one")).expect("there is room");
    story.order(Command::GoOn { by: actor(1) }).expect("it is held");
    story.stop();
    assert_eq!(story.send(prompt("two")), Err(Refusal::BeingEnded));
    assert_eq!(story.session.due_turn(), None, "nothing is given to an agent that is being ended");
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::Leave]);
    story.start_ready();
    assert_eq!(story.deliver(), 1, "whoever starts it again finds what was accepted");
}

/// Stopped stays stopped, also if the run was ending anyway when somebody stopped it.
#[test]
fn a_session_that_is_stopped_while_its_run_ends_does_not_go_on() {
    let ways: [fn(&mut Story); 3] = [
        Story::stop,
        |story| {
            story.pass(RELEASE_GRACE.as_millis() as u64);
            story.stop();
        },
        |story| {
            let stop = Command::Stop { by: actor(9), grace: Duration::from_secs(3600) };
            story.order(stop).expect("stopping is never refused");
        },
    ];
    for stop in ways {
        let mut story = Story::ready(Policy { idle_ms: Some(IDLE_MS), ..Policy::default() });
        story.pass(IDLE_MS);
        story.send(prompt("one")).expect("it would go on");
        stop(&mut story);
        story.end_run();
        assert_eq!(story.owed(), vec![Effect::Leave]);
        assert_eq!(story.session.stopped_by, Some(actor(9)));
    }
}

/// The same between two runs: a keeper may have to wait for its disk before it begins the next.
#[test]
fn a_session_that_is_stopped_between_two_runs_does_not_go_on() {
    let mut story = Story::ready(Policy { idle_ms: Some(IDLE_MS), ..Policy::default() });
    story.pass(IDLE_MS);
    story.send(prompt("one")).expect("it goes on");
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
    story.stop();
    assert_eq!(story.owed(), vec![Effect::Leave]);
    assert!(!story.session.is_live());
    story.start_ready();
    assert_eq!(story.deliver(), 1);
}

/// `--max-wait`: either it runs or it is withdrawn, never both.
#[test]
fn a_turn_that_was_not_started_in_time_is_withdrawn() {
    let mut story = Story::working(&[]);
    let start_by = story.in_ms(100);
    story.send(Prompt { start_by, ..prompt("soon") }).expect("there is room");
    story.send(prompt("whenever")).expect("there is room");
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms + 100));
    assert_eq!(story.pass(99), vec![]);
    assert_eq!(story.pass(1).len(), 1);
    assert_eq!(story.state(2), TurnState::Over(Final::Cancelled));
    story.over(1, Final::Done);
    assert_eq!(story.deliver(), 3);
    assert_eq!(story.pass(1_000_000), vec![]);
}

/// `--max-wait`: the clock counts, not who looks at it first.
#[test]
fn a_turn_that_is_too_late_is_withdrawn_even_if_its_agent_is_ready_first() {
    let mut story = Story::working(&[]);
    let start_by = story.in_ms(100);
    story.send(Prompt { start_by, ..prompt("soon") }).expect("there is room");
    story.over(1, Final::Done);
    story.now.boot_ms += 100;
    assert_eq!(story.deliver(), 2, "it was due");
    assert_eq!(story.state(2), TurnState::Over(Final::Cancelled));
    assert_eq!(story.owed(), vec![], "and is not said");
}

/// H2: a moment of an earlier boot has passed, whatever the new clock says.
#[test]
fn h2_a_turn_with_a_limit_does_not_run_after_the_host_was_started_again() {
    let mut story = Story::working(&[]);
    let start_by = story.in_ms(3_600_000);
    story.send(Prompt { start_by, ..prompt("within the hour") }).expect("there is room");
    story.over(1, Final::Done);
    story.reboot();
    story.start_ready();
    assert!(story.wakes_at() <= Some(story.now.boot_ms), "at once");
    story.deliver();
    assert_eq!(story.state(2), TurnState::Over(Final::Cancelled));
}

#[test]
fn a_turn_that_was_started_in_time_is_left_alone() {
    let mut story = Story::ready(Policy::default());
    let start_by = story.in_ms(100);
    story.send(Prompt { start_by, ..prompt("soon") }).expect("there is room");
    story.deliver();
    assert_eq!(story.pass(100), vec![]);
    assert_eq!(story.state(1), TurnState::Delivered);
}

#[test]
fn text_is_steered_into_the_turn_that_runs() {
    let mut story = Story::working(&["two"]);
    story.send(hurried("and this", Manner::Steer)).expect("it can");
    assert_eq!(story.queue(), [3, 2], "before what waits");
    assert_eq!(story.deliver(), 3);
    assert_eq!(story.owed(), vec![Effect::Say { turn: 3 }], "the agent said that it has the first");
    assert_eq!(story.cancel(3), Err(Refusal::PartOf { turn: 3, whole: 1 }));
    story.see(Observation::TurnBegan { turn: 3 });
    story.over(1, Final::Done);
    assert_eq!(
        (story.state(1), story.state(3)),
        (TurnState::Over(Final::Done), TurnState::Over(Final::Done))
    );
    assert_eq!(story.deliver(), 2);
}

/// F11 for text that is steered: what the agent never said it had is not called done.
#[test]
fn f11_text_that_may_have_come_too_late_for_its_turn_is_unknown() {
    let mut story = Story::working(&["two"]);
    story.send(hurried("and this", Manner::Steer)).expect("it can");
    story.deliver();
    story.over(1, Final::Done);
    assert_eq!(
        (story.state(1), story.state(3)),
        (TurnState::Over(Final::Done), TurnState::Over(Final::Unknown))
    );
    assert_eq!(story.session.turns.hold, Some(Hold::Unknown { turn: 3 }));
}

#[test]
fn text_for_an_agent_that_cannot_be_steered_is_refused() {
    let mut story = Story::new(Policy::default());
    story.start().expect("nothing runs");
    let (epoch, agent) = (story.session.epoch, story.process(8));
    story.see(Observation::Spawned { epoch, agent });
    story.see(Observation::AgentReady { epoch, able: Able { steer: false, resume: true } });
    story.send(hurried("with nothing to steer it is a turn", Manner::Steer)).expect("it is");
    assert_eq!(story.deliver(), 1);
    assert_eq!(story.send(hurried("and this", Manner::Steer)), Err(Refusal::CannotSteer));
}

#[test]
fn a_turn_in_a_hurry_has_the_running_one_broken_off_for_it() {
    let mut story = Story::working(&["two"]);
    story.send(hurried("now", Manner::Interrupt)).expect("there is room");
    assert!(story.owed().contains(&Effect::Interrupt { turn: 1 }));
    story.send(hurried("now, too", Manner::Interrupt)).expect("there is room");
    assert_eq!(story.queue(), [3, 4, 2]);
    story.over(1, Final::Failed);
    assert_eq!(story.state(1), TurnState::Over(Final::Interrupted));
    assert_eq!(story.deliver(), 3);
    assert!(!story.owed().contains(&Effect::Interrupt { turn: 3 }), "one that came later waits for it");
}

/// F11: `interrupted` is proven. Wanted is not proven.
#[test]
fn f11_a_turn_broken_off_for_another_is_interrupted_only_if_that_is_proven() {
    let mut story = Story::working(&[]);
    story.send(hurried("now", Manner::Interrupt)).expect("there is room");
    story.pass(PATIENCE_MS);
    story.end_run();
    assert_eq!(story.state(1), TurnState::Over(Final::Unknown));
    assert_eq!(story.session.turns.hold, None, "whoever interrupts has said that it goes on");
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
}

#[test]
fn a_paused_queue_lets_the_running_turn_finish_and_begins_no_other() {
    let mut story = Story::working(&["two"]);
    story.order(Command::Pause { by: actor(1) }).expect("it goes on");
    assert_eq!(story.order(Command::Pause { by: actor(2) }), Ok(vec![]));
    story.over(1, Final::Done);
    assert_eq!(story.session.due_turn(), None);
    assert_eq!(story.session.state(true), State::Idle);
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::Leave], "nobody starts an agent for a queue that is paused");
    story.start_ready();
    assert_eq!(story.session.due_turn(), None, "paused stays paused");
    story.order(Command::GoOn { by: actor(1) }).expect("it is held");
    assert_eq!(story.order(Command::GoOn { by: actor(1) }), Ok(vec![]));
    assert_eq!(story.deliver(), 2);
}

#[test]
fn a_queue_that_was_paused_while_something_else_held_it_stays_paused() {
    let mut story = Story::new(Policy::default());
    story.send(prompt("one")).expect("there is room");
    story.start().expect("nothing runs");
    story.see(Observation::SpawnFailed { epoch: Epoch(1), reason: "no such program".to_owned() });
    story.order(Command::Pause { by: actor(1) }).expect("it may");
    story.start_ready();
    assert_eq!(story.session.due_turn(), None);
}

#[test]
fn nothing_is_steered_while_the_queue_is_held() {
    let mut story = Story::working(&[]);
    let hold = Hold::ForeignWriter { who: "pid 5".to_owned() };
    story.see(Observation::Held { hold });
    story.send(hurried("and this", Manner::Steer)).expect("there is room");
    assert_eq!(story.session.due_turn(), None);
    story.order(Command::GoOn { by: actor(1) }).expect("it is held");
    assert_eq!(story.deliver(), 2);
}

#[test]
fn a_turn_that_waits_can_be_moved_and_others_keep_their_order() {
    let mut story = Story::working(&["two", "three", "four"]);
    let shift = |turn, to| Command::Move { turn, to };
    story.order(shift(4, 0)).expect("it waits");
    assert_eq!(story.queue(), [4, 2, 3]);
    story.order(shift(4, 1)).expect("it waits");
    assert_eq!(story.queue(), [2, 4, 3]);
    story.order(shift(2, u64::MAX)).expect("it waits");
    assert_eq!(story.queue(), [4, 3, 2]);
    assert_eq!(story.order(shift(2, 7)), Ok(vec![]), "it is the last already");
    assert_eq!(story.order(shift(1, 0)), Err(Refusal::TurnStarted { turn: 1 }));
    assert_eq!(story.order(shift(5, 0)), Err(Refusal::NoSuchTurn { turn: 5 }));
    story.over(1, Final::Done);
    assert_eq!(story.order(shift(1, 0)), Err(Refusal::TurnOver { turn: 1, end: Final::Done }));
}

#[test]
fn a_turn_that_waits_can_say_something_else_and_keeps_its_place() {
    let mut story = Story::working(&["two", "three"]);
    let edit = |turn, text: &str| Command::Edit { turn, text: text.to_owned(), by: actor(3) };
    let edited = Event::TurnEdited { turn: 2, text: "rather this".to_owned(), by: actor(3) };
    assert_eq!(story.order(edit(2, "rather this")), Ok(vec![edited]));
    assert_eq!(story.order(edit(2, "rather this")), Ok(vec![]), "it says that already");
    assert_eq!(story.queue(), [2, 3]);
    assert_eq!(story.order(edit(2, " ")), Err(Refusal::EmptyPrompt));
    let long = "x".repeat(MAX_PROMPT_BYTES + 1);
    let too_long = Refusal::PromptTooLong { bytes: long.len(), limit: MAX_PROMPT_BYTES };
    assert_eq!(story.order(edit(2, &long)), Err(too_long));
    assert_eq!(story.order(edit(1, "x")), Err(Refusal::TurnStarted { turn: 1 }), "the agent has it");
    assert_eq!(story.order(edit(9, "x")), Err(Refusal::NoSuchTurn { turn: 9 }));
    story.over(1, Final::Done);
    assert_eq!(story.order(edit(1, "x")), Err(Refusal::TurnOver { turn: 1, end: Final::Done }));
    assert_eq!(story.deliver(), 2);
    assert_eq!(&*story.session.turns.get(2).expect("there").prompt, "rather this");
    assert_eq!(story.order(edit(2, "too late")), Err(Refusal::TurnStarted { turn: 2 }));
}

/// C4: a key belongs to the call. Whoever repeats theirs gets their turn, whatever somebody made of it since.
#[test]
fn c4_a_turn_that_was_changed_is_still_what_its_key_and_first_text_mean() {
    let mut story = Story::working(&[]);
    story.send(keyed("say it", "k")).expect("new");
    let edit = Command::Edit { turn: 2, text: "say that".to_owned(), by: actor(3) };
    story.order(edit).expect("it waits");
    let check = |story: &mut Story, when: &str| {
        assert_eq!(story.send(keyed("say it", "k")), Ok(vec![]), "{when}");
        assert_eq!(story.send(keyed("say that", "k")), Err(Refusal::KeyReused { turn: 2 }), "{when}");
    };
    check(&mut story, "waiting");
    story.over(1, Final::Done);
    story.deliver();
    check(&mut story, "delivered");
    story.over(2, Final::Failed);
    story.end_run();
    story.keeper_dies();
    check(&mut story, "over");
    assert_eq!(story.session.turns.last(), 2);
}

/// An agent that never comes as far as a turn is not started over and over.
#[test]
fn an_agent_that_fails_before_its_first_turn_holds_the_queue() {
    let mut story = Story::new(Policy::default());
    story.send(prompt("one")).expect("there is room");
    story.start().expect("nothing runs");
    story.see(Observation::SpawnFailed { epoch: Epoch(1), reason: "no such program".to_owned() });
    let reason = "no such program".to_owned();
    assert_eq!(story.session.turns.hold, Some(Hold::AgentFailed { reason }));
    assert_eq!(story.owed(), vec![Effect::Leave]);

    story.start().expect("somebody tries again");
    assert_eq!(story.session.turns.hold, None, "whoever starts it again wants it tried again");
    let agent = story.process(8);
    story.see(Observation::Spawned { epoch: Epoch(2), agent });
    let reason = "not logged in".to_owned();
    story.see(Observation::Broken { epoch: Epoch(2), reason: reason.clone() });
    assert_eq!(story.see(Observation::Broken { epoch: Epoch(2), reason: "again".into() }), vec![]);
    story.end_run();
    assert_eq!(story.session.turns.hold, Some(Hold::AgentFailed { reason }));

    story.start_ready();
    assert_eq!(story.deliver(), 1, "and nothing was lost");
}

/// The same for one that says that it takes turns and then ends before it gets one.
#[test]
fn an_agent_that_ends_as_soon_as_it_is_ready_is_not_started_over_and_over() {
    let mut story = Story::new(Policy::default());
    story.send(prompt("one")).expect("there is room");
    story.start_ready();
    story.end_run();
    let reason = "it ended before it took a turn".to_owned();
    assert_eq!(story.session.turns.hold, Some(Hold::AgentFailed { reason }));
    assert_eq!(story.owed(), vec![Effect::Leave]);
}

#[test]
fn an_agent_that_ends_after_each_turn_is_started_for_the_next() {
    let mut story = Story::new(Policy::default());
    for number in 1..=3 {
        story.send(prompt("more")).expect("there is room");
        story.send(prompt("more")).expect("there is room");
        story.start_ready();
        assert_eq!(story.deliver(), number);
        story.over(number, Final::Done);
        story.end_run();
        assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(number) }]);
    }
}

#[test]
fn a_turn_that_comes_while_an_agent_without_one_is_ending_gets_another() {
    let mut story = Story::ready(Policy::default());
    let epoch = story.session.epoch;
    story.see(Observation::Exited { epoch, exit: Exit::Code(0), oom: false });
    story.send(prompt("one")).expect("nobody wanted an end");
    story.see(Observation::Empty { epoch });
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch }]);
}

#[test]
fn an_agents_question_is_answered_by_name_or_if_it_is_the_only_one() {
    let mut story = Story::working(&[]);
    let answer = |request: Option<&str>, wish| Command::Answer {
        request: request.map(str::to_owned),
        wish,
        by: actor(3),
    };
    assert_eq!(
        story.order(answer(None, Wish::Allow)),
        Err(Refusal::NoSuchRequest { request: None }),
        "nothing was asked"
    );
    story.see(Observation::Asks { ask: ask("a") });
    assert_eq!(story.see(Observation::Asks { ask: ask("a") }), vec![], "once");
    assert_eq!(story.session.state(true), State::NeedsYou);
    story.see(Observation::Asks { ask: ask("b") });
    let which = Refusal::WhichRequest { requests: vec!["a".to_owned(), "b".to_owned()] };
    assert_eq!(story.order(answer(None, Wish::Allow)), Err(which));
    let options = vec!["yes".to_owned(), "no".to_owned()];
    let wish = Wish::Option("maybe".to_owned());
    assert_eq!(story.order(answer(Some("a"), wish)), Err(Refusal::NoSuchOption { options }));
    let chosen = |request: &str, choice: &str| {
        Ok(vec![Event::Answered { request: request.to_owned(), choice: choice.to_owned(), by: actor(3) }])
    };
    assert_eq!(story.order(answer(Some("a"), Wish::Deny)), chosen("a", "no"));
    assert_eq!(story.order(answer(None, Wish::Allow)), chosen("b", "yes"));
    let gone = Refusal::NoSuchRequest { request: Some("b".to_owned()) };
    assert_eq!(story.order(answer(Some("b"), Wish::Allow)), Err(gone), "answered once");
}

#[test]
fn questions_end_with_the_turn_and_have_a_limit() {
    let mut story = Story::working(&[]);
    for number in 0..MOST_ASKS {
        assert_eq!(story.see(Observation::Asks { ask: ask(&number.to_string()) }).len(), 1);
    }
    assert_eq!(story.see(Observation::Asks { ask: ask("one more") }), vec![]);
    assert_eq!(story.see(Observation::Unasked { request: "0".to_owned() }).len(), 1);
    assert_eq!(story.see(Observation::Unasked { request: "0".to_owned() }), vec![]);
    story.over(1, Final::Done);
    assert_eq!(story.session.turns.asks, vec![]);
    assert_eq!(story.session.state(true), State::Idle);
}

#[test]
fn reports_of_turns_come_late_or_twice_and_change_nothing() {
    let mut story = Story::working(&["two"]);
    assert_eq!(story.see(Observation::TurnBegan { turn: 1 }), vec![]);
    assert_eq!(story.see(Observation::TurnBegan { turn: 2 }), vec![], "it waits");
    assert_eq!(story.over(2, Final::Done), vec![], "it waits");
    assert_eq!(story.over(3, Final::Done), vec![], "there is none");
    assert_eq!(story.over(0, Final::Done), vec![], "there is none");
    let epoch = story.session.epoch;
    assert_eq!(story.see(Observation::AgentReady { epoch, able: Able::default() }), vec![]);
    story.over(1, Final::Done);
    assert_eq!(story.see(Observation::TurnBegan { turn: 1 }), vec![]);
    story.end_run();
    story.start().expect("nothing runs");
    assert_eq!(story.see(Observation::AgentReady { epoch, able: Able::default() }), vec![], "of another run");
    assert_eq!(story.see(Observation::Broken { epoch, reason: "late".to_owned() }), vec![], "of another run");
}

#[test]
fn the_same_end_is_news_once_and_not_for_ever() {
    let mut story = Story::working(&[]);
    story.over(1, Final::Failed);
    assert_eq!(story.over(1, Final::Failed), vec![], "it is the end it has");
    assert_eq!(story.over(1, Final::Done).len(), 1);
    assert_eq!(story.over(1, Final::Failed), vec![]);
    assert_eq!(story.over(1, Final::Done), vec![], "kept once is enough");
    for number in 0..20 {
        let answer = number.to_string();
        story.see(Observation::TurnOver { turn: 1, end: TurnEnd { answer, ..end(Final::Done) } });
    }
    let late = story.events.iter().filter(|event| matches!(event, Event::TurnLate { .. })).count();
    assert_eq!(late, MOST_ENDS - 1, "an agent cannot fill the journal with what comes too late");
}

/// A run that does not end is no reason to let a turn wait longer than it may.
#[test]
fn a_turn_is_withdrawn_in_time_while_a_run_is_ending() {
    let mut story = Story::ready(Policy { idle_ms: Some(IDLE_MS), ..Policy::default() });
    story.pass(IDLE_MS);
    let start_by = story.in_ms(100);
    story.send(Prompt { start_by, ..prompt("soon") }).expect("there is room");
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms + 100));
    story.pass(100);
    assert_eq!(story.state(1), TurnState::Over(Final::Cancelled));
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms - 100 + RELEASE_GRACE.as_millis() as u64));
    story.pass(RELEASE_GRACE.as_millis() as u64);
    let start_by = story.in_ms(100);
    story.send(Prompt { start_by, ..prompt("soon") }).expect("there is room");
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms + 100), "killed, and still there");
}

/// Its time is up when one run is over and the next has not begun: nothing waits for a run that cannot come.
#[test]
fn a_session_whose_time_is_up_between_two_runs_ends_for_good() {
    let mut story = Story::ready(Policy { ttl_ms: Some(5000), ..Policy::default() });
    let epoch = story.session.epoch;
    story.see(Observation::Exited { epoch, exit: Exit::Code(0), oom: false });
    story.send(prompt("one")).expect("it has time");
    story.now.boot_ms += 5000;
    story.see(Observation::Empty { epoch });
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch }]);
    assert_eq!(story.start(), Err(Refusal::Expired));
    story.pass(0);
    assert_eq!(story.state(1), TurnState::Over(Final::Cancelled));
    assert_eq!(story.owed(), vec![Effect::Leave]);
}

/// A session's time is up once, and what it can no longer be given is not left waiting for ever.
#[test]
fn a_session_whose_time_is_up_ends_for_good() {
    let mut story = Story::ready(Policy { ttl_ms: Some(5000), ..Policy::default() });
    let expiry = Expiry { boot_id: story.boot_id(), boot_ms: story.now.boot_ms + 5000 };
    assert_eq!(story.session.expiry, Some(expiry));
    story.send(prompt("one")).expect("there is room");
    story.deliver();
    story.send(prompt("two")).expect("there is room");
    story.pass(4999);
    assert!(matches!(story.session.phase, Phase::Running { .. }));
    story.now.boot_ms += 1;
    assert_eq!(story.send(prompt("three")), Err(Refusal::Expired), "it would wait for ever");
    let events = story.pass(0);
    assert!(matches!(events.last(), Some(Event::Released { why: Release::Expired, .. })), "{events:?}");
    assert_eq!(story.state(2), TurnState::Over(Final::Cancelled));
    assert_eq!(story.send(prompt("three")), Err(Refusal::Expired), "it would wait for ever");
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::Leave]);
    assert_eq!(story.start(), Err(Refusal::Expired));
    assert_eq!(story.send(prompt("three")), Err(Refusal::Expired), "it would wait for ever");
    story.reboot();
    assert_eq!(story.start(), Err(Refusal::Expired), "for good, whatever clock there is");
    assert_eq!(story.send(prompt("three")), Err(Refusal::Expired), "it would wait for ever");
}

/// H3: a session's time is counted by the clock of the host; one that was not ended for it begins anew with that.
#[test]
fn h3_a_session_that_was_at_rest_when_its_host_was_started_again_has_its_time_anew() {
    let mut story = Story::ready(Policy { ttl_ms: Some(5000), ..Policy::default() });
    story.end_run();
    story.now.boot_ms += 5000;
    assert_eq!(story.start(), Err(Refusal::Expired));
    story.reboot();
    story.start().expect("the clock began anew");
    assert_eq!(
        story.session.expiry,
        Some(Expiry { boot_id: story.boot_id(), boot_ms: story.now.boot_ms + 5000 })
    );
}
