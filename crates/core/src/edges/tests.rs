use super::*;
use crate::{
    Actor, Command, Effect, Manner, Observation, Occasion, Outcome, Process, Prompt, Refusal, Spec, State,
    TurnLookup, decide, effects, observe, occasions,
};

/// A session in a terminal that runs, and everything that happened in it.
struct Play {
    session: Session,
    events: Vec<Event>,
    boot_ms: u64,
}

impl Play {
    fn new(driver: &str) -> Self {
        Self::new_of(driver, TerminalTraits::default())
    }

    fn new_of(driver: &str, terminal: TerminalTraits) -> Self {
        let spec = Spec { driver: driver.to_owned(), terminal, ..Spec::default() };
        let mut play = Self { session: Session::default(), events: vec![], boot_ms: 0 };
        let (keeper, boundary) = (Process::default(), crate::Boundary::default());
        play.order(Command::Create { spec, name: None }).expect("a session");
        play.order(Command::Start { epoch: Epoch(1), keeper, output_from: 0, boundary }).expect("a run");
        play.see(Observation::Spawned { epoch: Epoch(1), agent: Process::default() });
        play
    }

    /// One whose agent told that it is there.
    fn told() -> Self {
        let mut play = Self::new("pty");
        play.tell(Told::Started);
        play
    }

    fn now(&self) -> Now {
        Now { wall_ms: 0, boot_ms: self.boot_ms }
    }

    fn keep(&mut self, events: &[Event]) {
        for event in events {
            self.session.apply(event);
        }
        self.events.extend_from_slice(events);
        // A keeper that is replaced, or an onlooker, knows the same from the journal alone.
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

    fn tell(&mut self, told: Told) -> Vec<Event> {
        self.see(Observation::Told { epoch: self.session.epoch, told })
    }

    fn send(&mut self, text: &str) -> Result<Vec<Event>, Refusal> {
        let prompt = Prompt {
            by: Actor::default(),
            text: text.to_owned(),
            key: None,
            start_by: None,
            manner: Manner::Queue,
            retry: None,
        };
        self.order(Command::Send { prompt })
    }

    /// Types the turn that is due, as the keeper does.
    fn deliver(&mut self, turn: u64) {
        assert_eq!(self.session.due_turn(), Some(turn));
        self.order(Command::Deliver { turn, output_from: 0 }).expect("it is due");
    }

    fn turn(&self, turn: u64) -> TurnState {
        match self.session.turns.find(turn) {
            TurnLookup::Here(turn) => turn.state,
            TurnLookup::Past | TurnLookup::Absent => panic!("turn {turn} is not in memory"),
        }
    }

    fn state(&self) -> State {
        self.session.state(true)
    }
}

fn prompt(text: &str) -> Told {
    Told::Prompt { text: text.to_owned() }
}

fn stopped(answer: &str) -> Told {
    Told::Stopped { answer: Some(answer.to_owned()), cut: false, proof: EndProof::Recorded }
}

fn asks(request: &str, what: &str) -> Told {
    Told::NeedsYou { request: request.to_owned(), what: what.to_owned(), answerable: false }
}

#[test]
fn a_terminal_that_tells_nothing_is_as_it_was() {
    let mut play = Play::new("pty");
    assert_eq!(play.state(), State::Running);
    assert_eq!(play.send("hello"), Err(Refusal::NoTurns));
    assert!(!play.session.takes_turns());
}

#[test]
fn one_that_was_started_with_hooks_is_sent_to_before_it_told_anything() {
    let mut play = Play::new("pty");
    assert_eq!(play.see(Observation::HooksCarried { epoch: Epoch(1) }).len(), 1);
    assert_eq!(play.see(Observation::HooksCarried { epoch: Epoch(1) }), []);
    play.send("hello").expect("it will tell");
    assert_eq!((play.session.due_turn(), play.state()), (None, State::Running));
    play.tell(Told::Started);
    assert_eq!((play.session.due_turn(), play.state()), (Some(1), State::Working));
}

#[test]
fn an_agent_on_pipes_is_not_spoken_for_by_hooks() {
    let mut play = Play::new("acp");
    assert_eq!(play.tell(prompt("hello")), []);
    assert_eq!(play.see(Observation::HooksCarried { epoch: Epoch(1) }), []);
}

#[test]
fn an_agent_that_tells_only_of_ends_takes_no_turns() {
    let mut play = Play::new("pty");
    assert_eq!(play.tell(stopped("done")), []);
    assert_eq!(play.tell(Told::Tool), []);
    assert_eq!(play.send("hello"), Err(Refusal::NoTurns));
    // A missed beginning heals at the next prompt.
    play.tell(prompt("theirs"));
    assert_eq!((play.state(), play.session.takes_turns()), (State::Working, true));
}

#[test]
fn hooks_of_an_earlier_run_count_for_nothing() {
    let mut play = Play::told();
    assert_eq!(play.see(Observation::Told { epoch: Epoch(0), told: prompt("late") }), []);
    assert_eq!(play.state(), State::Idle);
}

#[test]
fn what_somebody_types_is_no_turn_of_ours_and_makes_the_agent_busy() {
    let mut play = Play::told();
    assert_eq!(play.state(), State::Idle);
    play.tell(prompt("theirs"));
    assert_eq!((play.state(), play.session.turns.last()), (State::Working, 0));
    play.send("mine").expect("it waits");
    assert_eq!(play.session.due_turn(), None);
    play.tell(stopped("theirs is done"));
    assert_eq!(play.turn(1), TurnState::Queued);
    play.deliver(1);
}

#[test]
fn a_turn_is_confirmed_by_its_own_prompt_and_done_with_the_answer() {
    let mut play = Play::told();
    play.send("first line\nsecond\tline\n").expect("accepted");
    play.deliver(1);
    assert_eq!(effects(&play.session), [Effect::Say { turn: 1 }]);
    // A terminal has its own way with tabs and line ends.
    play.tell(prompt("first line\r\nsecond    line"));
    assert_eq!((play.turn(1), play.state()), (TurnState::Working, State::Working));
    let events = play.tell(stopped("the answer"));
    let answer = events.iter().find_map(|event| match event {
        Event::TurnEnded { turn: 1, end, .. } => Some(end.answer.as_str()),
        _ => None,
    });
    assert_eq!(answer, Some("the answer"));
    assert_eq!((play.turn(1), play.state()), (TurnState::Over(Final::Done), State::Idle));
}

#[test]
fn an_end_before_the_prompt_was_confirmed_is_not_this_turns_end() {
    let mut play = Play::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("theirs"));
    play.tell(stopped("theirs is done"));
    assert_eq!(play.turn(1), TurnState::Delivered);
    play.tell(prompt("mine"));
    assert_eq!(play.turn(1), TurnState::Working);
}

#[test]
fn a_turn_whose_text_was_joined_with_other_text_is_unknown_and_holds_the_queue() {
    let mut play = Play::told();
    play.send("run the tests").expect("accepted");
    play.send("next").expect("accepted");
    play.deliver(1);
    play.tell(prompt("half a line run the tests"));
    assert_eq!(play.turn(1), TurnState::Over(Final::Unknown));
    assert_eq!(play.session.turns.hold, Some(Hold::Unknown { turn: 1 }));
    play.tell(stopped("of both"));
    assert_eq!((play.session.due_turn(), play.state()), (None, State::NeedsYou));
}

#[test]
fn turns_run_one_after_the_other() {
    let mut play = Play::told();
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
    assert_eq!([play.turn(1), play.turn(2)], [TurnState::Over(Final::Done); 2]);
}

#[test]
fn what_was_typed_ahead_keeps_the_agent_busy_until_its_own_end() {
    let mut play = Play::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("mine"));
    play.tell(prompt("typed ahead"));
    play.tell(stopped("mine is done"));
    assert_eq!((play.turn(1), play.state()), (TurnState::Over(Final::Done), State::Working));
    play.tell(stopped("and that as well"));
    assert_eq!(play.state(), State::Idle);
}

#[test]
fn a_turn_that_began_behind_another_prompt_waits_for_its_own_end() {
    let mut play = Play::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("<task-notification>"));
    play.tell(prompt("mine"));
    play.tell(prompt("typed ahead"));
    play.tell(stopped("of the task"));
    assert_eq!((play.turn(1), play.state()), (TurnState::Working, State::Working));
    let events = play.tell(stopped("of mine"));
    let answer = events.iter().find_map(|event| match event {
        Event::TurnEnded { turn: 1, end, .. } => Some(end.answer.as_str()),
        _ => None,
    });
    assert_eq!((answer, play.state()), (Some("of mine"), State::Working));
    play.tell(stopped("of what was typed ahead"));
    assert_eq!(play.state(), State::Idle);
}

#[test]
fn an_agent_that_joins_prompts_takes_text_typed_ahead_into_its_turn_and_tells_one_end() {
    let terminal = TerminalTraits { joins_prompts: true, ..TerminalTraits::default() };
    let mut play = Play::new_of("pty", terminal);
    play.tell(prompt("theirs"));
    play.tell(prompt("typed ahead"));
    play.tell(stopped("both"));
    assert_eq!(play.state(), State::Idle);
}

#[test]
fn a_reminder_without_a_tool_asks_nothing_of_an_agent_that_is_idle() {
    let mut play = Play::told();
    assert_eq!(play.tell(asks("screen-1", "Claude is waiting for your input")), []);
    assert_eq!(play.state(), State::Idle);
    // Whose prompt was missed, and who is about to use a tool, works.
    play.tell(asks("screen-2", "Bash: touch x"));
    assert_eq!(play.state(), State::NeedsYou);
    play.tell(Told::Quiet { end: None });
    assert_eq!(play.state(), State::Idle);
}

#[test]
fn an_agent_that_took_what_was_typed_ahead_into_its_turn_is_quiet_by_its_own_word() {
    let mut play = Play::told();
    play.tell(prompt("theirs"));
    play.tell(prompt("typed ahead"));
    play.tell(stopped("both"));
    assert_eq!(play.state(), State::Working);
    play.tell(Told::Quiet { end: None });
    assert_eq!(play.state(), State::Idle);
    assert_eq!(play.tell(Told::Quiet { end: None }), []);
}

#[test]
fn a_question_on_the_screen_needs_somebody_until_the_agent_goes_on() {
    let mut play = Play::told();
    play.tell(prompt("theirs"));
    let events = play.tell(asks("screen-1", "Bash: touch x"));
    assert_eq!(occasions(&play.session, &events), [(0, Occasion::NeedsYou)]);
    assert_eq!(play.state(), State::NeedsYou);
    // The same once more, in fewer words.
    assert_eq!(play.tell(asks("screen-2", "Claude needs your permission")), []);
    assert_eq!(play.session.turns.asks[0].detail, "touch x");
    play.send("mine").expect("it waits");
    assert_eq!(play.session.due_turn(), None);
    // Another one takes its place.
    play.tell(asks("screen-3", "Bash: rm x"));
    assert_eq!(play.session.turns.asks.len(), 1);
    assert_eq!(play.session.turns.asks[0].request, "screen-3");
    play.tell(Told::Tool);
    assert_eq!(play.state(), State::Working);
}

#[test]
fn a_question_on_the_screen_is_answered_there_and_nowhere_else() {
    let mut play = Play::told();
    let answer = |request: Option<&str>| Command::Answer {
        request: request.map(str::to_owned),
        wish: crate::Wish::Allow,
        by: Actor::default(),
    };
    assert_eq!(play.order(answer(None)), Err(Refusal::NoSuchRequest { request: None }));
    play.tell(prompt("theirs"));
    play.tell(asks("screen-1", "Bash: touch x"));
    let on_screen = Err(Refusal::OnScreen { what: "Bash: touch x".to_owned(), agent: String::new() });
    assert_eq!(play.order(answer(None)), on_screen);
    assert_eq!(play.order(answer(Some("screen-1"))), on_screen);
    assert_eq!(play.state(), State::NeedsYou);
}

#[test]
fn a_tool_is_told_once_and_not_with_every_use() {
    let mut play = Play::told();
    assert_eq!(play.tell(Told::Tool).len(), 1);
    assert_eq!(play.tell(Told::Tool), []);
    assert_eq!(play.state(), State::Working);
}

#[test]
fn a_turn_that_is_cancelled_and_said_to_be_broken_off_is_cancelled() {
    let mut play = Play::told();
    play.send("long").expect("accepted");
    play.deliver(1);
    play.tell(prompt("long"));
    play.order(Command::Cancel { turn: 1, by: Actor::default() }).expect("it runs");
    assert!(effects(&play.session).contains(&Effect::Interrupt { turn: 1 }));
    play.tell(Told::Interrupted);
    assert_eq!((play.turn(1), play.state()), (TurnState::Over(Final::Cancelled), State::Idle));
}

#[test]
fn one_that_nobody_confirms_to_be_broken_off_is_unknown_and_holds_the_queue() {
    let mut play = Play::told();
    play.send("long").expect("accepted");
    play.deliver(1);
    play.tell(prompt("long"));
    play.send("behind").expect("accepted");
    play.order(Command::Cancel { turn: 1, by: Actor::default() }).expect("it runs");
    play.boot_ms = turns::CANCEL_PATIENCE.as_millis() as u64;
    play.see(Observation::Tick);
    assert_eq!(play.turn(1), TurnState::Over(Final::Unknown));
    assert_eq!((play.state(), play.session.released.clone()), (State::NeedsYou, None));
    assert_eq!(play.session.due_turn(), None);
    // Whoever looked says that it goes on; nothing else would ever tell.
    play.order(Command::GoOn { by: Actor::default() }).expect("it is held");
    assert_eq!(play.session.due_turn(), Some(2));
    play.tell(Told::Tool);
    assert_eq!(play.session.due_turn(), None, "it works after all");
}

#[test]
fn a_turn_that_was_broken_off_by_hand_is_interrupted() {
    let mut play = Play::told();
    play.send("long").expect("accepted");
    play.deliver(1);
    play.tell(prompt("long"));
    let end = TurnEnd::without_answer(Final::Interrupted, "its record says so");
    play.tell(Told::Quiet { end: Some(end) });
    assert_eq!(play.turn(1), TurnState::Over(Final::Interrupted));
}

#[test]
fn a_quiet_agent_whose_record_tells_nothing_leaves_its_turn_unknown() {
    let mut play = Play::told();
    play.send("long").expect("accepted");
    play.deliver(1);
    play.tell(prompt("long"));
    play.tell(Told::Quiet { end: None });
    assert_eq!(play.turn(1), TurnState::Over(Final::Unknown));
}

#[test]
fn a_second_end_of_a_turn_is_kept_beside_the_first() {
    let mut play = Play::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("mine"));
    play.tell(stopped("first"));
    assert_eq!(play.tell(stopped("second")), []);
    assert_eq!(play.turn(1), TurnState::Over(Final::Done));
}

#[test]
fn text_with_keys_in_it_is_refused_where_it_would_be_typed() {
    let mut play = Play::told();
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
    let mut play = Play::told();
    for text in ["!rm -rf x", "/clear", " \n\t!ls", "\u{feff}!ls", "\u{200b}/quit"] {
        let begins = if text.contains('!') { '!' } else { '/' };
        assert_eq!(play.send(text), Err(Refusal::IsInterfaceCommand { begins }), "{text:?}");
    }
    play.send("look at /etc and # that!").expect("that is text");
    play.send("# a heading").expect("so is that, but for one agent");
    let edit = Command::Edit { turn: 2, text: "!ls".to_owned(), by: Actor::default() };
    assert_eq!(play.order(edit), Err(Refusal::IsInterfaceCommand { begins: '!' }));
    let takes_notes = TerminalTraits { hash_makes_note: true, ..TerminalTraits::default() };
    assert_eq!(commands_with(takes_notes, "# note"), Some('#'));
    // On pipes nothing is typed.
    let mut pipes = Play::new("acp");
    pipes.send("/compact").expect("its protocol has it");
}

#[test]
fn a_half_typed_line_holds_the_queue_until_it_is_gone() {
    let mut play = Play::told();
    play.send("mine").expect("accepted");
    let held = play.see(Observation::Held { hold: Hold::Draft });
    assert_eq!(occasions(&play.session, &held), [(0, Occasion::NeedsYou)]);
    assert_eq!((play.session.due_turn(), play.state()), (None, State::NeedsYou));
    play.see(Observation::DraftGone);
    assert_eq!(play.session.due_turn(), Some(1));
    assert_eq!(play.see(Observation::DraftGone), []);
    // Sent, it was a prompt of its own.
    play.see(Observation::Held { hold: Hold::Draft });
    play.tell(prompt("theirs"));
    assert_eq!((play.session.turns.hold.clone(), play.session.due_turn()), (None, None));
}

#[test]
fn whoever_paused_the_queue_is_not_overruled_by_what_was_typed() {
    let mut play = Play::told();
    play.send("mine").expect("accepted");
    play.order(Command::Pause { by: Actor::default() }).expect("it may");
    assert_eq!(play.see(Observation::Held { hold: Hold::Draft }), []);
    assert_eq!(play.see(Observation::DraftGone), []);
    assert_eq!(play.session.turns.hold, Some(Hold::Paused { by: Actor::default() }));
}

#[test]
fn an_agent_that_was_given_up_and_came_after_all_takes_its_turn() {
    let mut play = Play::new("pty");
    play.see(Observation::HooksCarried { epoch: Epoch(1) });
    play.send("mine").expect("it will tell");
    play.see(Observation::Held { hold: Hold::AgentFailed { reason: "it told nothing".to_owned() } });
    assert_eq!(play.state(), State::NeedsYou);
    play.tell(Told::Started);
    assert_eq!(play.session.due_turn(), Some(1));
}

#[test]
fn the_end_of_a_run_ends_what_its_hooks_told() {
    let mut play = Play::told();
    play.send("mine").expect("accepted");
    play.deliver(1);
    play.tell(prompt("mine"));
    play.tell(asks("screen-1", "Bash: touch x"));
    play.see(Observation::KeeperGone { epoch: Epoch(1) });
    assert_eq!(play.turn(1), TurnState::Over(Final::Unknown));
    assert_eq!((play.session.edges, play.session.asks_on_screen()), (None, false));
    assert_eq!(play.session.outcome(), Some(&Outcome::Lost));
    assert_eq!(play.tell(prompt("late")), []);
    // What it told once it is expected to tell again.
    assert!(play.session.takes_turns());
}

#[test]
fn a_terminal_is_never_ended_for_having_nothing_to_do() {
    let mut play = Play::told();
    let change = crate::PolicyChange { idle: crate::Term::After(1), ..Default::default() };
    play.order(Command::SetPolicy { change }).expect("a policy");
    play.boot_ms = 1_000_000;
    assert_eq!(play.see(Observation::Tick), []);
    assert_eq!(play.state(), State::Idle);
}

/// A turn that the agent has, and whose end a hook tells with this proof; the turn's state and the event of its end.
fn ended_by_hook(proof: EndProof) -> (TurnState, TurnEnd) {
    let mut play = Play::new("pty");
    play.tell(Told::Started);
    play.send("hello").expect("it takes turns");
    play.deliver(1);
    play.tell(prompt("hello"));
    let events = play.tell(Told::Stopped { answer: Some("yes".to_owned()), cut: false, proof });
    let end = events.iter().find_map(|event| match event {
        Event::TurnEnded { end, .. } => Some(end.clone()),
        _ => None,
    });
    (play.turn(1), end.expect("its turn is over"))
}

#[test]
fn an_end_that_only_a_hook_told_says_so_and_one_that_the_record_contradicts_is_unknown() {
    let (state, end) = ended_by_hook(EndProof::Recorded);
    assert_eq!((state, end.answer.as_str(), end.reason), (TurnState::Over(Final::Done), "yes", None));
    let (state, end) = ended_by_hook(EndProof::HookOnly);
    assert_eq!((state, end.answer.as_str()), (TurnState::Over(Final::Done), "yes"));
    assert_eq!(end.reason.as_deref(), Some(TOLD_BY_HOOK));
    let (state, end) = ended_by_hook(EndProof::Contradicted);
    assert_eq!(
        (state, end.answer.as_str()),
        (TurnState::Over(Final::Unknown), ""),
        "the answer is not the agent's"
    );
    assert_eq!(end.reason.as_deref(), Some(TOLD_BY_HOOK));
}

fn answerable(request: &str, what: &str) -> Told {
    Told::NeedsYou { request: request.to_owned(), what: what.to_owned(), answerable: true }
}

fn answer(request: Option<&str>, wish: crate::Wish) -> Command {
    Command::Answer { request: request.map(str::to_owned), wish, by: Actor::default() }
}

#[test]
fn a_question_whose_hook_waits_is_answered_from_elsewhere_and_another_stays_beside_it() {
    let mut play = Play::told();
    play.tell(Told::Prompt { text: "typed".to_owned() });
    play.tell(answerable("screen-1", "Bash: touch x"));
    assert_eq!(play.tell(asks("screen-2", "Claude needs your permission")), [], "told twice");
    play.tell(answerable("screen-3", "Bash: touch y"));
    let two = play.order(answer(None, crate::Wish::Allow));
    assert!(matches!(two, Err(Refusal::WhichRequest { requests }) if requests.len() == 2));
    let deny = crate::Wish::Deny { reason: Some("use mktemp".to_owned()) };
    let events = play.order(answer(Some("screen-1"), deny)).expect("an answer");
    let [Event::Answered { reply, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(reply.is_refusal() && reply.text.as_deref() == Some("use mktemp"));
    play.order(answer(None, crate::Wish::Allow)).expect("the other one");
    assert_eq!((play.session.turns.asks.len(), play.session.state(true)), (0, State::Working));
}

#[test]
fn a_question_whose_hook_waits_stays_open_while_another_tool_runs() {
    let mut play = Play::told();
    play.tell(Told::Prompt { text: "typed".to_owned() });
    play.tell(answerable("screen-1", "Bash: touch x"));
    assert_eq!(play.tell(Told::Tool), [], "a tool of a sub-agent");
    assert_eq!(play.session.state(true), State::NeedsYou);
    play.tell(Told::GoesOn);
    assert_eq!((play.session.turns.asks.len(), play.session.state(true)), (0, State::Working));
    assert_eq!(play.tell(Told::GoesOn), [], "once");
}

#[test]
fn a_question_whose_hook_left_waits_at_the_terminal_alone() {
    let mut play = Play::told();
    play.tell(Told::Prompt { text: "typed".to_owned() });
    play.tell(answerable("screen-1", "Bash: touch x"));
    play.tell(Told::HookLeft { request: "screen-1".to_owned() });
    assert_eq!(play.tell(Told::HookLeft { request: "screen-1".to_owned() }), [], "once");
    assert_eq!(play.session.state(true), State::NeedsYou);
    let refused = play.order(answer(None, crate::Wish::Allow));
    assert!(matches!(refused, Err(Refusal::OnScreen { .. })), "{refused:?}");
    play.tell(Told::Tool);
    assert_eq!(play.session.state(true), State::Working, "answered there");
}
