use super::*;
use crate::{
    AgentCapabilities, Command, Conversation, Effect, Epoch, FinalState, Observation, OnFailed, PolicyChange,
    ProcessExit, ProcessRef, QueueHold, ReleaseReason, RunOutcome, SendMode, SessionState, TerminalReport,
    TurnEnd, TurnFailure, TurnPrompt, decide, effects, observe,
};

/// A session of an agent with two interfaces that runs, with all its events.
struct InterfaceScenario {
    session: Session,
    events: Vec<Event>,
}

fn launch(driver: &str, again: &[&str]) -> InterfaceLaunch {
    InterfaceLaunch {
        driver: driver.to_owned(),
        command: vec![format!("{driver} command")],
        again: again.iter().map(|word| (*word).to_owned()).collect(),
    }
}

impl InterfaceScenario {
    fn new(interface: AgentInterface) -> Self {
        let (chat, terminal) = (launch("claude", &[]), launch("pty", &["--resume", "{id}"]));
        let (own, other) = match interface {
            AgentInterface::Chat => (chat, terminal),
            AgentInterface::Terminal => (terminal, chat),
        };
        let InterfaceLaunch { driver, command, again } = own;
        let other = Some(other);
        let conversation = "claude".to_owned();
        let spec = SessionSpec { driver, command, again, other, conversation, ..SessionSpec::default() };
        let mut play = Self { session: Session::default(), events: vec![] };
        play.order(Command::Create { spec, name: None }).expect("a session");
        play.start();
        let id = "c0ffee".to_owned();
        let conversation = Conversation { id, store: String::new() };
        play.see(Observation::Conversation { conversation });
        play
    }

    /// The next run, as far as its agent takes turns.
    fn start(&mut self) {
        let (keeper, boundary) = (ProcessRef::default(), crate::RunBoundary::default());
        let epoch = self.session.epoch.next();
        self.order(Command::Start { epoch, keeper, output_from: 0, boundary }).expect("a run");
        let epoch = self.session.epoch;
        self.see(Observation::Spawned { epoch, agent: ProcessRef::default() });
        match self.session.has_terminal() {
            true => drop(self.see(Observation::Told { epoch, told: TerminalReport::Started })),
            false => drop(self.see(Observation::AgentReady { epoch, able: AgentCapabilities::default() })),
        }
    }

    fn keep(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.session.apply(event));
        self.events.extend_from_slice(events);
        assert_eq!(Session::replay(&self.events), self.session);
    }

    fn order(&mut self, command: Command) -> Result<Vec<Event>, Refusal> {
        let events = decide(&self.session, command, ClockReading::default())?;
        self.keep(&events);
        Ok(events)
    }

    fn see(&mut self, observation: Observation) -> Vec<Event> {
        let events = observe(&self.session, &observation, ClockReading::default());
        self.keep(&events);
        events
    }

    fn switch(&mut self, to: AgentInterface, at_once: bool) -> Result<Vec<Event>, Refusal> {
        self.order(Command::SwitchInterface { to, at_once, by: Actor::default() })
    }

    fn send(&mut self, text: &str) -> Result<Vec<Event>, Refusal> {
        let (by, text) = (Actor::default(), text.to_owned());
        let prompt = TurnPrompt { by, text, key: None, start_by: None, manner: SendMode::Queue, retry: None };
        self.order(Command::Send { prompt })
    }

    /// Gives the agent a turn.
    fn work(&mut self, turn: u64) {
        self.order(Command::Deliver { turn, output_from: 0 }).expect("it is due");
        self.see(Observation::TurnBegan { turn });
    }

    fn done(&mut self, turn: u64) {
        let end = TurnEnd::without_answer(FinalState::Done, "");
        self.see(Observation::TurnOver { turn, end });
    }

    /// The next run, with an agent in a terminal that reports nothing.
    fn start_silent(&mut self) {
        let (keeper, boundary) = (ProcessRef::default(), crate::RunBoundary::default());
        let epoch = self.session.epoch.next();
        self.order(Command::Start { epoch, keeper, output_from: 0, boundary }).expect("a run");
        let epoch = self.session.epoch;
        self.see(Observation::Spawned { epoch, agent: ProcessRef::default() });
        assert!(!self.session.takes_turns());
    }

    /// Reports of the kernel at the end of a run.
    fn end_run(&mut self) {
        self.exit(0);
    }

    fn exit(&mut self, code: i32) {
        let epoch = self.session.epoch;
        self.see(Observation::Exited { epoch, exit: ProcessExit::Code(code), oom: false });
        self.see(Observation::Empty { epoch });
    }

    fn driver(&self) -> &str {
        self.session.spec.as_ref().map_or("", |spec| spec.driver.as_str())
    }
}

#[test]
fn a_switch_waits_for_the_turn_that_runs_and_what_waits_stays_in_the_queue() {
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    for text in ["one", "two"] {
        play.send(text).expect("a turn");
    }
    play.work(1);
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    assert_eq!(play.see(Observation::Tick), []);
    assert_eq!(play.driver(), "claude", "the run that is live stays what it is");
    play.done(1);
    assert_eq!(play.session.due_turn(), None, "what waits goes to the next interface");
    assert!(effects(&play.session).contains(&Effect::WakeAt { boot_ms: 0 }));
    let released = play.see(Observation::Tick);
    assert!(
        matches!(&released[..], [Event::RunReleased { why: ReleaseReason::Switched, .. }]),
        "{released:?}"
    );
    play.end_run();
    assert_eq!((play.driver(), play.session.state(true)), ("pty", SessionState::Starting));
    assert_eq!(effects(&play.session), [Effect::NextRun { epoch: Epoch(1) }]);
    play.start();
    assert_eq!(play.session.due_turn(), Some(2));
    assert_eq!(play.session.spec.as_ref().expect("a spec").again, ["--resume", "{id}"]);
}

#[test]
fn a_switch_back_goes_on_with_the_chat_when_the_terminal_has_nothing_to_do() {
    let mut play = InterfaceScenario::new(AgentInterface::Terminal);
    let epoch = play.session.epoch;
    let told = |told: TerminalReport| Observation::Told { epoch, told };
    play.see(told(TerminalReport::Prompt { text: "typed by hand".to_owned() }));
    play.switch(AgentInterface::Chat, false).expect("a choice");
    assert_eq!(play.see(Observation::Tick), [], "a prompt that a user typed is not cut off");
    play.send("for the chat").expect("a turn");
    assert_eq!(play.session.due_turn(), None);
    play.see(told(TerminalReport::Interrupted));
    play.see(Observation::Tick);
    play.end_run();
    play.start();
    assert_eq!((play.driver(), play.session.due_turn()), ("claude", Some(1)));
}

#[test]
fn a_switch_at_once_cancels_the_turn_and_cuts_off_what_a_person_typed() {
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.send("one").expect("a turn");
    play.work(1);
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    let events = play.switch(AgentInterface::Terminal, true).expect("a choice");
    assert!(
        matches!(&events[..], [Event::InterfaceChosen { .. }, Event::CancelRequested { turn: 1, .. }]),
        "{events:?}"
    );
    assert_eq!(play.switch(AgentInterface::Terminal, true), Ok(vec![]), "asked for already");

    let mut play = InterfaceScenario::new(AgentInterface::Terminal);
    let epoch = play.session.epoch;
    play.see(Observation::Told { epoch, told: TerminalReport::Prompt { text: "typed by hand".to_owned() } });
    play.switch(AgentInterface::Chat, true).expect("a choice");
    let released = play.see(Observation::Tick);
    assert!(
        matches!(&released[..], [Event::RunReleased { why: ReleaseReason::Switched, .. }]),
        "{released:?}"
    );
}

#[test]
fn a_choice_survives_the_keeper_and_counts_for_the_next_run() {
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.send("one").expect("a turn");
    play.work(1);
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    play.see(Observation::KeeperGone { epoch: Epoch(1) });
    assert_eq!((play.driver(), play.session.state(false)), ("pty", SessionState::Lost));

    // Now between the end of one run and the start of the next.
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    play.see(Observation::Tick);
    play.end_run();
    assert_eq!((play.driver(), play.session.state(false)), ("pty", SessionState::Stopped));
    play.start();
    assert!(!play.session.switching && play.session.has_terminal());
}

#[test]
fn a_choice_can_be_taken_back_while_the_turn_runs() {
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.send("one").expect("a turn");
    play.work(1);
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    play.switch(AgentInterface::Chat, false).expect("another one");
    play.done(1);
    assert_eq!((play.see(Observation::Tick), play.session.next_interface), (vec![], None));
    assert_eq!(play.switch(AgentInterface::Chat, false), Ok(vec![]), "it has that one");
}

#[test]
fn a_session_that_was_stopped_does_not_go_on_for_its_next_interface() {
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.send("one").expect("a turn");
    play.work(1);
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    let stop = Command::Stop { by: Actor::default(), grace: std::time::Duration::ZERO };
    play.order(stop).expect("an end");
    assert_eq!(play.switch(AgentInterface::Terminal, true), Err(Refusal::BeingEnded));
    play.end_run();
    assert_eq!((effects(&play.session), play.driver()), (vec![Effect::Leave], "pty"));
}

#[test]
fn a_command_that_failed_is_not_typed_into_the_next_interface_as_a_retry() {
    for (text, is_retried) in [("!deploy", false), ("/compact", false), ("deploy", true)] {
        let mut play = InterfaceScenario::new(AgentInterface::Chat);
        let change = PolicyChange { on_failed: Some(OnFailed::Retry), ..PolicyChange::default() };
        play.order(Command::SetPolicy { change }).expect("a policy");
        play.send(text).expect("a turn");
        play.send("what waits").expect("a turn");
        play.work(1);
        play.switch(AgentInterface::Terminal, false).expect("a choice");
        let end =
            TurnEnd { failure: TurnFailure::Limit, ..TurnEnd::without_answer(FinalState::Failed, "429") };
        play.see(Observation::TurnOver { turn: 1, end });
        let is_held = matches!(play.session.turns.hold, Some(QueueHold::ModelFailed { turn: 1, .. }));
        assert_eq!((play.session.turns.last() == 3, is_held), (is_retried, !is_retried), "{text}");
    }
}

#[test]
fn a_silent_terminal_that_is_stopped_while_it_ends_for_a_switch_does_not_go_on() {
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    play.see(Observation::Tick);
    play.end_run();
    play.start_silent();
    play.switch(AgentInterface::Chat, true).expect("a choice");
    play.see(Observation::Tick);
    let stop = Command::Stop { by: Actor::default(), grace: std::time::Duration::from_secs(3600) };
    play.order(stop).expect("an end");
    play.end_run();
    assert_eq!(
        (effects(&play.session), play.session.stopped_by),
        (vec![Effect::Leave], Some(Actor::default()))
    );
}

#[test]
fn a_silent_terminal_that_ends_holds_what_waits_instead_of_starting_over_and_over() {
    for code in [0, 1] {
        let mut play = InterfaceScenario::new(AgentInterface::Chat);
        play.send("one").expect("a turn");
        play.switch(AgentInterface::Terminal, false).expect("a choice");
        play.see(Observation::Tick);
        play.end_run();
        play.start_silent();
        play.exit(code);
        assert_eq!(effects(&play.session), [Effect::Leave]);
        let reason = "it ended before it took a turn".to_owned();
        assert_eq!(play.session.turns.hold, Some(QueueHold::AgentFailed { reason }));
        play.switch(AgentInterface::Chat, false).expect("a choice");
        play.start();
        assert_eq!(play.session.due_turn(), Some(1), "nothing was lost");
    }
}

#[test]
fn a_paused_queue_is_no_reason_against_another_interface() {
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.send("one").expect("a turn");
    play.order(Command::Pause { by: Actor::default() }).expect("a pause");
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    play.see(Observation::Tick);
    play.end_run();
    play.start();
    assert!(matches!(play.session.turns.hold, Some(QueueHold::Paused { .. })));
    assert_eq!((play.driver(), play.session.due_turn()), ("pty", None));
}

#[test]
fn a_switch_between_two_runs_counts_at_once() {
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.end_run();
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    assert_eq!((play.driver(), play.session.switching), ("pty", false));
    assert_eq!(effects(&play.session), [Effect::Leave]);
}

#[test]
fn a_switch_without_an_interface_that_can_resume_is_refused() {
    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.send("/compact").expect("a turn");
    assert_eq!(play.switch(AgentInterface::Terminal, false), Err(Refusal::CannotBeTyped { turn: 1 }));
    play.order(Command::Withdraw { turn: 1, by: Actor::default() }).expect("withdrawn");
    play.send("go on").expect("a turn");
    play.work(2);
    play.switch(AgentInterface::Terminal, false).expect("a choice");
    assert_eq!(play.send("!rm -rf x"), Err(Refusal::IsInterfaceCommand { begins: '!' }));

    let mut play = InterfaceScenario::new(AgentInterface::Terminal);
    (play.session.tells, play.session.edges) = (false, None);
    let refused = decide(
        &play.session,
        Command::SwitchInterface { to: AgentInterface::Chat, at_once: false, by: Actor::default() },
        ClockReading::default(),
    );
    assert_eq!(refused, Err(Refusal::CannotTellWhetherItWorks));

    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.session.conversation = None;
    let switch = |session: &Session| {
        let to = AgentInterface::Terminal;
        decide(
            session,
            Command::SwitchInterface { to, at_once: false, by: Actor::default() },
            ClockReading::default(),
        )
    };
    assert_eq!(switch(&play.session), Err(Refusal::NoConversation));
    if let Some(spec) = &mut play.session.spec {
        spec.other = None;
    }
    assert_eq!(switch(&play.session), Err(Refusal::OneInterface { has: AgentInterface::Chat }));

    let mut play = InterfaceScenario::new(AgentInterface::Chat);
    play.end_run();
    play.order(Command::Archive { by: Actor::default() }).expect("archived");
    assert_eq!(play.switch(AgentInterface::Terminal, false), Err(Refusal::Archived));
    assert_eq!(play.session.outcome(), Some(&RunOutcome::Exited(ProcessExit::Code(0))));
}
