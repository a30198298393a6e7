use super::*;
use crate::{
    Actor, Command, Effect, NotificationKind, Observation, ProcessRef, Refusal, RunOutcome, SendMode,
    SessionSpec, SessionState, TurnLookup, TurnPrompt, decide, effects, observe, occasions,
};

/// A session in a terminal that runs, with all its events.
struct ActivityScenario {
    session: Session,
    events: Vec<Event>,
    boot_ms: u64,
}

impl ActivityScenario {
    fn new(driver: &str) -> Self {
        Self::new_of(driver, TerminalTraits::default())
    }

    fn new_of(driver: &str, terminal: TerminalTraits) -> Self {
        let spec = SessionSpec { driver: driver.to_owned(), terminal, ..SessionSpec::default() };
        let mut play = Self { session: Session::default(), events: vec![], boot_ms: 0 };
        let (keeper, boundary) = (ProcessRef::default(), crate::RunBoundary::default());
        play.order(Command::Create { spec, name: None }).expect("a session");
        play.order(Command::Start { epoch: Epoch(1), keeper, output_from: 0, boundary }).expect("a run");
        play.see(Observation::Spawned { epoch: Epoch(1), agent: ProcessRef::default() });
        play
    }

    /// A session whose agent reported that it is there.
    fn told() -> Self {
        let mut play = Self::new("pty");
        play.tell(TerminalReport::Started);
        play
    }

    fn now(&self) -> ClockReading {
        ClockReading { wall_ms: 0, boot_ms: self.boot_ms }
    }

    fn keep(&mut self, events: &[Event]) {
        for event in events {
            self.session.apply(event);
        }
        self.events.extend_from_slice(events);
        // A keeper that is replaced, or an observer, has only the journal to derive the state from.
        assert_eq!(Session::replay(&self.events), self.session);
    }

    fn order(&mut self, command: Command) -> Result<Vec<Event>, Refusal> {
        let events = decide(&self.session, command, self.now())?;
        self.keep(&events);
        Ok(events)
    }

    fn see(&mut self, observation: Observation) -> Vec<Event> {
        let events = observe(&self.session, &observation, self.now());
        self.keep(&events);
        events
    }

    fn tell(&mut self, told: TerminalReport) -> Vec<Event> {
        self.see(Observation::Told { epoch: self.session.epoch, told })
    }

    fn send(&mut self, text: &str) -> Result<Vec<Event>, Refusal> {
        let prompt = TurnPrompt {
            by: Actor::default(),
            text: text.to_owned(),
            key: None,
            start_by: None,
            manner: SendMode::Queue,
            retry: None,
        };
        self.order(Command::Send { prompt })
    }

    /// Types the due turn, as the keeper does.
    fn deliver(&mut self, turn: u64) {
        assert_eq!(self.session.due_turn(), Some(turn));
        self.order(Command::Deliver { turn, output_from: 0 }).expect("it is due");
    }

    fn turn(&self, turn: u64) -> TurnProgress {
        match self.session.turns.find(turn) {
            TurnLookup::Here(turn) => turn.state,
            TurnLookup::Past | TurnLookup::Absent => panic!("turn {turn} is not in memory"),
        }
    }

    fn state(&self) -> SessionState {
        self.session.state(true)
    }
}

fn prompt(text: &str) -> TerminalReport {
    TerminalReport::Prompt { text: text.to_owned() }
}

fn stopped(answer: &str) -> TerminalReport {
    TerminalReport::Stopped { answer: Some(answer.to_owned()), cut: false, proof: EndProof::Recorded }
}

fn asks(request: &str, what: &str) -> TerminalReport {
    TerminalReport::NeedsYou { request: request.to_owned(), what: what.to_owned(), answerable: false }
}

#[test]
fn a_terminal_that_tells_nothing_is_as_it_was() {
    let mut play = ActivityScenario::new("pty");
    assert_eq!(play.state(), SessionState::Running);
    assert_eq!(play.send("hello"), Err(Refusal::NoTurns));
    assert!(!play.session.takes_turns());
}

#[test]
fn one_that_was_started_with_hooks_is_sent_to_before_it_told_anything() {
    let mut play = ActivityScenario::new("pty");
    assert_eq!(play.see(Observation::HooksInjected { epoch: Epoch(1) }).len(), 1);
    assert_eq!(play.see(Observation::HooksInjected { epoch: Epoch(1) }), []);
    play.send("hello").expect("it will tell");
    assert_eq!((play.session.due_turn(), play.state()), (None, SessionState::Running));
    play.tell(TerminalReport::Started);
    assert_eq!((play.session.due_turn(), play.state()), (Some(1), SessionState::Working));
}

#[test]
fn an_agent_on_pipes_is_not_spoken_for_by_hooks() {
    let mut play = ActivityScenario::new("acp");
    assert_eq!(play.tell(prompt("hello")), []);
    assert_eq!(play.see(Observation::HooksInjected { epoch: Epoch(1) }), []);
}

#[test]
fn an_agent_that_tells_only_of_ends_takes_no_turns() {
    let mut play = ActivityScenario::new("pty");
    assert_eq!(play.tell(stopped("done")), []);
    assert_eq!(play.tell(TerminalReport::Tool), []);
    assert_eq!(play.send("hello"), Err(Refusal::NoTurns));
    // A missed beginning heals at the next prompt.
    play.tell(prompt("theirs"));
    assert_eq!((play.state(), play.session.takes_turns()), (SessionState::Working, true));
}

#[test]
fn hooks_of_an_earlier_run_count_for_nothing() {
    let mut play = ActivityScenario::told();
    assert_eq!(play.see(Observation::Told { epoch: Epoch(0), told: prompt("late") }), []);
    assert_eq!(play.state(), SessionState::Idle);
}

#[test]
fn text_that_a_person_types_is_not_our_turn_and_makes_the_agent_busy() {
    let mut play = ActivityScenario::told();
    assert_eq!(play.state(), SessionState::Idle);
    play.tell(prompt("theirs"));
    assert_eq!((play.state(), play.session.turns.last()), (SessionState::Working, 0));
    play.send("mine").expect("it waits");
    assert_eq!(play.session.due_turn(), None);
    play.tell(stopped("theirs is done"));
    assert_eq!(play.turn(1), TurnProgress::Queued);
    play.deliver(1);
}

#[test]
fn a_turn_is_confirmed_by_its_own_prompt_and_done_with_the_answer() {
    let mut play = ActivityScenario::told();
    play.send("first line\nsecond\tline\n").expect("accepted");
    play.deliver(1);
    assert_eq!(effects(&play.session), [Effect::Say { turn: 1 }]);
    // Terminals change tabs and line ends in their own way.
    play.tell(prompt("first line\r\nsecond    line"));
    assert_eq!((play.turn(1), play.state()), (TurnProgress::Working, SessionState::Working));
    let events = play.tell(stopped("the answer"));
    let answer = events.iter().find_map(|event| match event {
        Event::TurnEnded { turn: 1, end, .. } => Some(end.answer.as_str()),
        _ => None,
    });
    assert_eq!(answer, Some("the answer"));
    assert_eq!((play.turn(1), play.state()), (TurnProgress::Over(FinalState::Done), SessionState::Idle));
}

#[test]
fn an_end_before_the_prompt_was_confirmed_is_not_this_turns_end() {
    let mut play = ActivityScenario::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("theirs"));
    play.tell(stopped("theirs is done"));
    assert_eq!(play.turn(1), TurnProgress::Delivered);
    play.tell(prompt("mine"));
    assert_eq!(play.turn(1), TurnProgress::Working);
}

#[test]
fn a_turn_whose_text_was_joined_with_other_text_is_unknown_and_holds_the_queue() {
    let mut play = ActivityScenario::told();
    play.send("run the tests").expect("accepted");
    play.send("next").expect("accepted");
    play.deliver(1);
    play.tell(prompt("half a line run the tests"));
    assert_eq!(play.turn(1), TurnProgress::Over(FinalState::Unknown));
    assert_eq!(play.session.turns.hold, Some(QueueHold::Unknown { turn: 1 }));
    play.tell(stopped("of both"));
    assert_eq!((play.session.due_turn(), play.state()), (None, SessionState::NeedsYou));
}

#[test]
fn turns_run_one_after_the_other() {
    let mut play = ActivityScenario::told();
    for text in ["one", "two"] {
        play.send(text).expect("accepted");
    }
    play.deliver(1);
    play.tell(prompt("one"));
    assert_eq!(play.session.due_turn(), None);
    play.tell(stopped("1"));
    play.deliver(2);
    play.tell(prompt("two"));
    play.tell(stopped("2"));
    assert_eq!([play.turn(1), play.turn(2)], [TurnProgress::Over(FinalState::Done); 2]);
}

#[test]
fn a_prompt_typed_ahead_keeps_the_agent_busy_until_its_own_end() {
    let mut play = ActivityScenario::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("mine"));
    play.tell(prompt("typed ahead"));
    play.tell(stopped("mine is done"));
    assert_eq!((play.turn(1), play.state()), (TurnProgress::Over(FinalState::Done), SessionState::Working));
    play.tell(stopped("and that as well"));
    assert_eq!(play.state(), SessionState::Idle);
}

#[test]
fn a_turn_that_began_behind_another_prompt_waits_for_its_own_end() {
    let mut play = ActivityScenario::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("<task-notification>"));
    play.tell(prompt("mine"));
    play.tell(prompt("typed ahead"));
    play.tell(stopped("of the task"));
    assert_eq!((play.turn(1), play.state()), (TurnProgress::Working, SessionState::Working));
    let events = play.tell(stopped("of mine"));
    let answer = events.iter().find_map(|event| match event {
        Event::TurnEnded { turn: 1, end, .. } => Some(end.answer.as_str()),
        _ => None,
    });
    assert_eq!((answer, play.state()), (Some("of mine"), SessionState::Working));
    play.tell(stopped("of what was typed ahead"));
    assert_eq!(play.state(), SessionState::Idle);
}

#[test]
fn an_agent_that_joins_prompts_takes_text_typed_ahead_into_its_turn_and_tells_one_end() {
    let terminal = TerminalTraits { joins_prompts: true, ..TerminalTraits::default() };
    let mut play = ActivityScenario::new_of("pty", terminal);
    play.tell(prompt("theirs"));
    play.tell(prompt("typed ahead"));
    play.tell(stopped("both"));
    assert_eq!(play.state(), SessionState::Idle);
}

#[test]
fn a_reminder_without_a_tool_asks_nothing_of_an_agent_that_is_idle() {
    let mut play = ActivityScenario::told();
    assert_eq!(play.tell(asks("screen-1", "Claude is waiting for your input")), []);
    assert_eq!(play.state(), SessionState::Idle);
    // An agent whose prompt was missed and that is about to use a tool works.
    play.tell(asks("screen-2", "Bash: touch x"));
    assert_eq!(play.state(), SessionState::NeedsYou);
    play.tell(TerminalReport::Quiet { end: None });
    assert_eq!(play.state(), SessionState::Idle);
}

#[test]
fn an_agent_that_took_what_was_typed_ahead_into_its_turn_is_quiet_by_its_own_word() {
    let mut play = ActivityScenario::told();
    play.tell(prompt("theirs"));
    play.tell(prompt("typed ahead"));
    play.tell(stopped("both"));
    assert_eq!(play.state(), SessionState::Working);
    play.tell(TerminalReport::Quiet { end: None });
    assert_eq!(play.state(), SessionState::Idle);
    assert_eq!(play.tell(TerminalReport::Quiet { end: None }), []);
}

#[test]
fn a_question_on_the_screen_needs_somebody_until_the_agent_goes_on() {
    let mut play = ActivityScenario::told();
    play.tell(prompt("theirs"));
    let events = play.tell(asks("screen-1", "Bash: touch x"));
    assert_eq!(occasions(&play.session, &events), [(0, NotificationKind::NeedsYou)]);
    assert_eq!(play.state(), SessionState::NeedsYou);
    // A second report of the same question, in fewer words.
    assert_eq!(play.tell(asks("screen-2", "Claude needs your permission")), []);
    assert_eq!(play.session.turns.asks[0].detail, "touch x");
    play.send("mine").expect("it waits");
    assert_eq!(play.session.due_turn(), None);
    // Another question replaces it.
    play.tell(asks("screen-3", "Bash: rm x"));
    assert_eq!(play.session.turns.asks.len(), 1);
    assert_eq!(play.session.turns.asks[0].request, "screen-3");
    play.tell(TerminalReport::Tool);
    assert_eq!(play.state(), SessionState::Working);
}

#[test]
fn a_question_on_the_screen_is_answered_there_and_nowhere_else() {
    let mut play = ActivityScenario::told();
    let answer = |request: Option<&str>| Command::Answer {
        request: request.map(str::to_owned),
        reply: crate::QuestionReply::Allow,
        by: Actor::default(),
    };
    assert_eq!(play.order(answer(None)), Err(Refusal::NoSuchRequest { request: None }));
    play.tell(prompt("theirs"));
    play.tell(asks("screen-1", "Bash: touch x"));
    let on_screen = Err(Refusal::OnScreen { what: "Bash: touch x".to_owned(), agent: String::new() });
    assert_eq!(play.order(answer(None)), on_screen);
    assert_eq!(play.order(answer(Some("screen-1"))), on_screen);
    assert_eq!(play.state(), SessionState::NeedsYou);
}

#[test]
fn a_tool_is_told_once_and_not_with_every_use() {
    let mut play = ActivityScenario::told();
    assert_eq!(play.tell(TerminalReport::Tool).len(), 1);
    assert_eq!(play.tell(TerminalReport::Tool), []);
    assert_eq!(play.state(), SessionState::Working);
}

#[test]
fn a_turn_that_is_cancelled_and_said_to_be_broken_off_is_cancelled() {
    let mut play = ActivityScenario::told();
    play.send("long").expect("accepted");
    play.deliver(1);
    play.tell(prompt("long"));
    play.order(Command::Cancel { turn: 1, by: Actor::default() }).expect("it runs");
    assert!(effects(&play.session).contains(&Effect::Interrupt { turn: 1 }));
    play.tell(TerminalReport::Interrupted);
    assert_eq!((play.turn(1), play.state()), (TurnProgress::Over(FinalState::Cancelled), SessionState::Idle));
}

#[test]
fn one_that_nobody_confirms_to_be_broken_off_is_unknown_and_holds_the_queue() {
    let mut play = ActivityScenario::told();
    play.send("long").expect("accepted");
    play.deliver(1);
    play.tell(prompt("long"));
    play.send("behind").expect("accepted");
    play.order(Command::Cancel { turn: 1, by: Actor::default() }).expect("it runs");
    play.boot_ms = turns::CANCEL_PATIENCE.as_millis() as u64;
    play.see(Observation::Tick);
    assert_eq!(play.turn(1), TurnProgress::Over(FinalState::Unknown));
    assert_eq!((play.state(), play.session.released.clone()), (SessionState::NeedsYou, None));
    assert_eq!(play.session.due_turn(), None);
    // A user who looked resumes the queue; no report would ever do it.
    play.order(Command::GoOn { by: Actor::default() }).expect("it is held");
    assert_eq!(play.session.due_turn(), Some(2));
    play.tell(TerminalReport::Tool);
    assert_eq!(play.session.due_turn(), None, "it works after all");
}

#[test]
fn a_turn_that_was_broken_off_by_hand_is_interrupted() {
    let mut play = ActivityScenario::told();
    play.send("long").expect("accepted");
    play.deliver(1);
    play.tell(prompt("long"));
    let end = TurnEnd::without_answer(FinalState::Interrupted, "its record says so");
    play.tell(TerminalReport::Quiet { end: Some(end) });
    assert_eq!(play.turn(1), TurnProgress::Over(FinalState::Interrupted));
}

#[test]
fn a_quiet_agent_whose_record_tells_nothing_leaves_its_turn_unknown() {
    let mut play = ActivityScenario::told();
    play.send("long").expect("accepted");
    play.deliver(1);
    play.tell(prompt("long"));
    play.tell(TerminalReport::Quiet { end: None });
    assert_eq!(play.turn(1), TurnProgress::Over(FinalState::Unknown));
}

#[test]
fn a_second_end_of_a_turn_is_kept_beside_the_first() {
    let mut play = ActivityScenario::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("mine"));
    play.tell(stopped("first"));
    assert_eq!(play.tell(stopped("second")), []);
    assert_eq!(play.turn(1), TurnProgress::Over(FinalState::Done));
}

#[test]
fn text_with_keys_in_it_is_refused_where_it_would_be_typed() {
    let mut play = ActivityScenario::told();
    for text in ["a\x1b[201~\rrm -rf", "a\x03", "a\u{9b}201~", "a\x7f", "\x00a"] {
        assert_eq!(play.send(text), Err(Refusal::CannotBePasted), "{text:?}");
    }
    play.send("tabs\tand\r\nlines\né").expect("that is text");
    let edit = Command::Edit { turn: 1, text: "\x1b".to_owned(), by: Actor::default() };
    assert_eq!(play.order(edit), Err(Refusal::CannotBePasted));
    assert_eq!(play.session.turns.last(), 1);
}

#[test]
fn text_that_an_interface_takes_for_a_command_is_not_typed() {
    let mut play = ActivityScenario::told();
    for text in ["!rm -rf x", "/clear", " \n\t!ls", "\u{feff}!ls", "\u{200b}/quit"] {
        let begins = if text.contains('!') { '!' } else { '/' };
        assert_eq!(play.send(text), Err(Refusal::IsInterfaceCommand { begins }), "{text:?}");
    }
    play.send("look at /etc and # that!").expect("that is text");
    play.send("# a heading").expect("so is that, but for one agent");
    let edit = Command::Edit { turn: 2, text: "!ls".to_owned(), by: Actor::default() };
    assert_eq!(play.order(edit), Err(Refusal::IsInterfaceCommand { begins: '!' }));
    let takes_notes = TerminalTraits { hash_makes_note: true, ..TerminalTraits::default() };
    assert_eq!(command_prefix(takes_notes, "# note"), Some('#'));
    // Nothing is typed into an agent on pipes.
    let mut pipes = ActivityScenario::new("acp");
    pipes.send("/compact").expect("its protocol has it");
}

#[test]
fn a_half_typed_line_holds_the_queue_until_it_is_gone() {
    let mut play = ActivityScenario::told();
    play.send("mine").expect("accepted");
    let held = play.see(Observation::Held { hold: QueueHold::Draft });
    assert_eq!(occasions(&play.session, &held), [(0, NotificationKind::NeedsYou)]);
    assert_eq!((play.session.due_turn(), play.state()), (None, SessionState::NeedsYou));
    play.see(Observation::DraftGone);
    assert_eq!(play.session.due_turn(), Some(1));
    assert_eq!(play.see(Observation::DraftGone), []);
    // Once sent, the text was a prompt of its own.
    play.see(Observation::Held { hold: QueueHold::Draft });
    play.tell(prompt("theirs"));
    assert_eq!((play.session.turns.hold.clone(), play.session.due_turn()), (None, None));
}

#[test]
fn a_pause_by_a_user_is_not_lifted_by_text_that_was_typed() {
    let mut play = ActivityScenario::told();
    play.send("mine").expect("accepted");
    play.order(Command::Pause { by: Actor::default() }).expect("it may");
    assert_eq!(play.see(Observation::Held { hold: QueueHold::Draft }), []);
    assert_eq!(play.see(Observation::DraftGone), []);
    assert_eq!(play.session.turns.hold, Some(QueueHold::Paused { by: Actor::default() }));
}

#[test]
fn an_agent_that_was_given_up_and_came_after_all_takes_its_turn() {
    let mut play = ActivityScenario::new("pty");
    play.see(Observation::HooksInjected { epoch: Epoch(1) });
    play.send("mine").expect("it will tell");
    play.see(Observation::Held { hold: QueueHold::AgentFailed { reason: "it told nothing".to_owned() } });
    assert_eq!(play.state(), SessionState::NeedsYou);
    play.tell(TerminalReport::Started);
    assert_eq!(play.session.due_turn(), Some(1));
}

#[test]
fn the_end_of_a_run_ends_what_its_hooks_told() {
    let mut play = ActivityScenario::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("mine"));
    play.tell(asks("screen-1", "Bash: touch x"));
    play.see(Observation::KeeperGone { epoch: Epoch(1) });
    assert_eq!(play.turn(1), TurnProgress::Over(FinalState::Unknown));
    assert_eq!((play.session.edges, play.session.asks_on_screen()), (None, false));
    assert_eq!(play.session.outcome(), Some(&RunOutcome::Lost));
    assert_eq!(play.tell(prompt("late")), []);
    // The reports count once they are expected again.
    assert!(play.session.takes_turns());
}

#[test]
fn a_terminal_is_never_ended_for_having_nothing_to_do() {
    let mut play = ActivityScenario::told();
    let change = crate::PolicyChange { idle: crate::TimeoutChange::After(1), ..Default::default() };
    play.order(Command::SetPolicy { change }).expect("a policy");
    play.boot_ms = 1_000_000;
    assert_eq!(play.see(Observation::Tick), []);
    assert_eq!(play.state(), SessionState::Idle);
}

/// Plays a turn whose end a hook reports with this proof; returns the turn's state and the event of its end.
fn ended_by_hook(proof: EndProof) -> (TurnProgress, TurnEnd) {
    let mut play = ActivityScenario::new("pty");
    play.tell(TerminalReport::Started);
    play.send("hello").expect("it takes turns");
    play.deliver(1);
    play.tell(prompt("hello"));
    let events = play.tell(TerminalReport::Stopped { answer: Some("yes".to_owned()), cut: false, proof });
    let end = events.iter().find_map(|event| match event {
        Event::TurnEnded { end, .. } => Some(end.clone()),
        _ => None,
    });
    (play.turn(1), end.expect("its turn is over"))
}

#[test]
fn an_end_that_only_a_hook_told_says_so_and_one_that_the_record_contradicts_is_unknown() {
    let (state, end) = ended_by_hook(EndProof::Recorded);
    assert_eq!((state, end.answer.as_str(), end.reason), (TurnProgress::Over(FinalState::Done), "yes", None));
    let (state, end) = ended_by_hook(EndProof::HookOnly);
    assert_eq!((state, end.answer.as_str()), (TurnProgress::Over(FinalState::Done), "yes"));
    assert_eq!(end.reason.as_deref(), Some(TOLD_BY_HOOK));
    let (state, end) = ended_by_hook(EndProof::Contradicted);
    assert_eq!(
        (state, end.answer.as_str()),
        (TurnProgress::Over(FinalState::Unknown), ""),
        "the answer is not the agent's"
    );
    assert_eq!(end.reason.as_deref(), Some(TOLD_BY_HOOK));
}

fn answerable(request: &str, what: &str) -> TerminalReport {
    TerminalReport::NeedsYou { request: request.to_owned(), what: what.to_owned(), answerable: true }
}

fn answer(request: Option<&str>, reply: crate::QuestionReply) -> Command {
    Command::Answer { request: request.map(str::to_owned), reply, by: Actor::default() }
}

#[test]
fn a_question_whose_hook_waits_is_answered_from_elsewhere_and_another_stays_beside_it() {
    let mut play = ActivityScenario::told();
    play.tell(TerminalReport::Prompt { text: "typed".to_owned() });
    play.tell(answerable("screen-1", "Bash: touch x"));
    assert_eq!(play.tell(asks("screen-2", "Claude needs your permission")), [], "told twice");
    play.tell(answerable("screen-3", "Bash: touch y"));
    let two = play.order(answer(None, crate::QuestionReply::Allow));
    assert!(matches!(two, Err(Refusal::WhichRequest { requests }) if requests.len() == 2));
    let deny = crate::QuestionReply::Deny { reason: Some("use mktemp".to_owned()) };
    let events = play.order(answer(Some("screen-1"), deny)).expect("an answer");
    let [Event::Answered { reply, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(reply.is_refusal() && reply.text.as_deref() == Some("use mktemp"));
    play.order(answer(None, crate::QuestionReply::Allow)).expect("the other one");
    assert_eq!((play.session.turns.asks.len(), play.session.state(true)), (0, SessionState::Working));
}

#[test]
fn a_question_whose_hook_waits_stays_open_while_another_tool_runs() {
    let mut play = ActivityScenario::told();
    play.tell(TerminalReport::Prompt { text: "typed".to_owned() });
    play.tell(answerable("screen-1", "Bash: touch x"));
    assert_eq!(play.tell(TerminalReport::Tool), [], "a tool of a sub-agent");
    assert_eq!(play.session.state(true), SessionState::NeedsYou);
    play.tell(TerminalReport::GoesOn);
    assert_eq!((play.session.turns.asks.len(), play.session.state(true)), (0, SessionState::Working));
    assert_eq!(play.tell(TerminalReport::GoesOn), [], "once");
}

#[test]
fn a_question_whose_hook_left_waits_at_the_terminal_alone() {
    let mut play = ActivityScenario::told();
    play.tell(TerminalReport::Prompt { text: "typed".to_owned() });
    play.tell(answerable("screen-1", "Bash: touch x"));
    play.tell(TerminalReport::HookLeft { request: "screen-1".to_owned() });
    assert_eq!(play.tell(TerminalReport::HookLeft { request: "screen-1".to_owned() }), [], "once");
    assert_eq!(play.session.state(true), SessionState::NeedsYou);
    let refused = play.order(answer(None, crate::QuestionReply::Allow));
    assert!(matches!(refused, Err(Refusal::OnScreen { .. })), "{refused:?}");
    play.tell(TerminalReport::Tool);
    assert_eq!(play.session.state(true), SessionState::Working, "answered there");
}
