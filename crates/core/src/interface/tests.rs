use super::*;
use crate::{
    Able, Command, Conversation, Effect, Epoch, Exit, Failure, Final, Hold, Manner, Observation, OnFailed,
    Outcome, PolicyChange, Process, Prompt, Release, State, Told, TurnEnd, decide, effects, observe,
};

/// A session of an agent with two interfaces that runs, and everything that happened in it.
struct Play {
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

impl Play {
    fn new(interface: Interface) -> Self {
        let (chat, terminal) = (launch("claude", &[]), launch("pty", &["--resume", "{id}"]));
        let (own, other) = match interface {
            Interface::Chat => (chat, terminal),
            Interface::Terminal => (terminal, chat),
        };
        let InterfaceLaunch { driver, command, again } = own;
        let other = Some(other);
        let conversation = "claude".to_owned();
        let spec = Spec { driver, command, again, other, conversation, ..Spec::default() };
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
        let (keeper, boundary) = (Process::default(), crate::Boundary::default());
        let epoch = self.session.epoch.next();
        self.order(Command::Start { epoch, keeper, output_from: 0, boundary }).expect("a run");
        let epoch = self.session.epoch;
        self.see(Observation::Spawned { epoch, agent: Process::default() });
        match self.session.has_terminal() {
            true => drop(self.see(Observation::Told { epoch, told: Told::Started })),
            false => drop(self.see(Observation::AgentReady { epoch, able: Able::default() })),
        }
    }

    fn keep(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.session.apply(event));
        self.events.extend_from_slice(events);
        assert_eq!(Session::replay(&self.events), self.session);
    }

    fn order(&mut self, command: Command) -> Result<Vec<Event>, Refusal> {
        let events = decide(&self.session, command, Now::default())?;
        self.keep(&events);
        Ok(events)
    }

    fn see(&mut self, observation: Observation) -> Vec<Event> {
        let events = observe(&self.session, &observation, Now::default());
        self.keep(&events);
        events
    }

    fn switch(&mut self, to: Interface, at_once: bool) -> Result<Vec<Event>, Refusal> {
        self.order(Command::SwitchInterface { to, at_once, by: Actor::default() })
    }

    fn send(&mut self, text: &str) -> Result<Vec<Event>, Refusal> {
        let (by, text) = (Actor::default(), text.to_owned());
        let prompt = Prompt { by, text, key: None, start_by: None, manner: Manner::Queue, retry: None };
        self.order(Command::Send { prompt })
    }

    /// Gives the agent a turn.
    fn work(&mut self, turn: u64) {
        self.order(Command::Deliver { turn, output_from: 0 }).expect("it is due");
        self.see(Observation::TurnBegan { turn });
    }

    fn done(&mut self, turn: u64) {
        let end = TurnEnd::without_answer(Final::Done, "");
        self.see(Observation::TurnOver { turn, end });
    }

    /// The next run, with an agent in a terminal that tells nothing.
    fn start_silent(&mut self) {
        let (keeper, boundary) = (Process::default(), crate::Boundary::default());
        let epoch = self.session.epoch.next();
        self.order(Command::Start { epoch, keeper, output_from: 0, boundary }).expect("a run");
        let epoch = self.session.epoch;
        self.see(Observation::Spawned { epoch, agent: Process::default() });
        assert!(!self.session.takes_turns());
    }

    /// What the kernel reports of the end of a run.
    fn end_run(&mut self) {
        self.exit(0);
    }

    fn exit(&mut self, code: i32) {
        let epoch = self.session.epoch;
        self.see(Observation::Exited { epoch, exit: Exit::Code(code), oom: false });
        self.see(Observation::Empty { epoch });
    }

    fn driver(&self) -> &str {
        self.session.spec.as_ref().map_or("", |spec| spec.driver.as_str())
    }
}

#[test]
fn a_switch_waits_for_the_turn_that_runs_and_what_waits_stays_in_the_queue() {
    let mut play = Play::new(Interface::Chat);
    for text in ["one", "two"] {
        play.send(text).expect("a turn");
    }
    play.work(1);
    play.switch(Interface::Terminal, false).expect("a choice");
    assert_eq!(play.see(Observation::Tick), []);
    assert_eq!(play.driver(), "claude", "the run that is live stays what it is");
    play.done(1);
    assert_eq!(play.session.due_turn(), None, "what waits goes to the next interface");
    assert!(effects(&play.session).contains(&Effect::WakeAt { boot_ms: 0 }));
    let released = play.see(Observation::Tick);
    assert!(matches!(&released[..], [Event::Released { why: Release::Switched, .. }]), "{released:?}");
    play.end_run();
    assert_eq!((play.driver(), play.session.state(true)), ("pty", State::Starting));
    assert_eq!(effects(&play.session), [Effect::NextRun { epoch: Epoch(1) }]);
    play.start();
    assert_eq!(play.session.due_turn(), Some(2));
    assert_eq!(play.session.spec.as_ref().expect("a spec").again, ["--resume", "{id}"]);
}

#[test]
fn a_switch_back_goes_on_with_the_chat_when_the_terminal_has_nothing_to_do() {
    let mut play = Play::new(Interface::Terminal);
    let epoch = play.session.epoch;
    let told = |told: Told| Observation::Told { epoch, told };
    play.see(told(Told::Prompt { text: "typed by hand".to_owned() }));
    play.switch(Interface::Chat, false).expect("a choice");
    assert_eq!(play.see(Observation::Tick), [], "somebody's own prompt is not cut off");
    play.send("for the chat").expect("a turn");
    assert_eq!(play.session.due_turn(), None);
    play.see(told(Told::Interrupted));
    play.see(Observation::Tick);
    play.end_run();
    play.start();
    assert_eq!((play.driver(), play.session.due_turn()), ("claude", Some(1)));
}

#[test]
fn a_switch_at_once_cancels_the_turn_and_cuts_off_what_a_person_typed() {
    let mut play = Play::new(Interface::Chat);
    play.send("one").expect("a turn");
    play.work(1);
    play.switch(Interface::Terminal, false).expect("a choice");
    let events = play.switch(Interface::Terminal, true).expect("a choice");
    assert!(
        matches!(&events[..], [Event::InterfaceChosen { .. }, Event::CancelRequested { turn: 1, .. }]),
        "{events:?}"
    );
    assert_eq!(play.switch(Interface::Terminal, true), Ok(vec![]), "asked for already");

    let mut play = Play::new(Interface::Terminal);
    let epoch = play.session.epoch;
    play.see(Observation::Told { epoch, told: Told::Prompt { text: "typed by hand".to_owned() } });
    play.switch(Interface::Chat, true).expect("a choice");
    let released = play.see(Observation::Tick);
    assert!(matches!(&released[..], [Event::Released { why: Release::Switched, .. }]), "{released:?}");
}

#[test]
fn a_choice_survives_the_keeper_and_counts_for_the_next_run() {
    let mut play = Play::new(Interface::Chat);
    play.send("one").expect("a turn");
    play.work(1);
    play.switch(Interface::Terminal, false).expect("a choice");
    play.see(Observation::KeeperGone { epoch: Epoch(1) });
    assert_eq!((play.driver(), play.session.state(false)), ("pty", State::Lost));

    // The same between the end of one run and the start of the next.
    let mut play = Play::new(Interface::Chat);
    play.switch(Interface::Terminal, false).expect("a choice");
    play.see(Observation::Tick);
    play.end_run();
    assert_eq!((play.driver(), play.session.state(false)), ("pty", State::Stopped));
    play.start();
    assert!(!play.session.switching && play.session.has_terminal());
}

#[test]
fn a_choice_can_be_taken_back_while_the_turn_runs() {
    let mut play = Play::new(Interface::Chat);
    play.send("one").expect("a turn");
    play.work(1);
    play.switch(Interface::Terminal, false).expect("a choice");
    play.switch(Interface::Chat, false).expect("another one");
    play.done(1);
    assert_eq!((play.see(Observation::Tick), play.session.next_interface), (vec![], None));
    assert_eq!(play.switch(Interface::Chat, false), Ok(vec![]), "it has that one");
}

#[test]
fn a_session_that_was_stopped_does_not_go_on_for_its_next_interface() {
    let mut play = Play::new(Interface::Chat);
    play.send("one").expect("a turn");
    play.work(1);
    play.switch(Interface::Terminal, false).expect("a choice");
    let stop = Command::Stop { by: Actor::default(), grace: std::time::Duration::ZERO };
    play.order(stop).expect("an end");
    assert_eq!(play.switch(Interface::Terminal, true), Err(Refusal::BeingEnded));
    play.end_run();
    assert_eq!((effects(&play.session), play.driver()), (vec![Effect::Leave], "pty"));
}

#[test]
fn a_command_that_failed_is_not_typed_into_the_next_interface_as_a_retry() {
    for (text, is_retried) in [("!deploy", false), ("/compact", false), ("deploy", true)] {
        let mut play = Play::new(Interface::Chat);
        let change = PolicyChange { on_failed: Some(OnFailed::Retry), ..PolicyChange::default() };
        play.order(Command::SetPolicy { change }).expect("a policy");
        play.send(text).expect("a turn");
        play.send("what waits").expect("a turn");
        play.work(1);
        play.switch(Interface::Terminal, false).expect("a choice");
        let end = TurnEnd { failure: Failure::Limit, ..TurnEnd::without_answer(Final::Failed, "429") };
        play.see(Observation::TurnOver { turn: 1, end });
        let is_held = matches!(play.session.turns.hold, Some(Hold::ModelFailed { turn: 1, .. }));
        assert_eq!((play.session.turns.last() == 3, is_held), (is_retried, !is_retried), "{text}");
    }
}

#[test]
fn a_silent_terminal_that_is_stopped_while_it_ends_for_a_switch_does_not_go_on() {
    let mut play = Play::new(Interface::Chat);
    play.switch(Interface::Terminal, false).expect("a choice");
    play.see(Observation::Tick);
    play.end_run();
    play.start_silent();
    play.switch(Interface::Chat, true).expect("a choice");
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
        let mut play = Play::new(Interface::Chat);
        play.send("one").expect("a turn");
        play.switch(Interface::Terminal, false).expect("a choice");
        play.see(Observation::Tick);
        play.end_run();
        play.start_silent();
        play.exit(code);
        assert_eq!(effects(&play.session), [Effect::Leave]);
        let reason = "it ended before it took a turn".to_owned();
        assert_eq!(play.session.turns.hold, Some(Hold::AgentFailed { reason }));
        play.switch(Interface::Chat, false).expect("a choice");
        play.start();
        assert_eq!(play.session.due_turn(), Some(1), "nothing was lost");
    }
}

#[test]
fn a_paused_queue_is_no_reason_against_another_interface() {
    let mut play = Play::new(Interface::Chat);
    play.send("one").expect("a turn");
    play.order(Command::Pause { by: Actor::default() }).expect("a pause");
    play.switch(Interface::Terminal, false).expect("a choice");
    play.see(Observation::Tick);
    play.end_run();
    play.start();
    assert!(matches!(play.session.turns.hold, Some(Hold::Paused { .. })));
    assert_eq!((play.driver(), play.session.due_turn()), ("pty", None));
}

#[test]
fn a_switch_between_two_runs_counts_at_once() {
    let mut play = Play::new(Interface::Chat);
    play.end_run();
    play.switch(Interface::Terminal, false).expect("a choice");
    assert_eq!((play.driver(), play.session.switching), ("pty", false));
    assert_eq!(effects(&play.session), [Effect::Leave]);
}

#[test]
fn what_cannot_go_on_with_another_interface_is_refused() {
    let mut play = Play::new(Interface::Chat);
    play.send("/compact").expect("a turn");
    assert_eq!(play.switch(Interface::Terminal, false), Err(Refusal::CannotBeTyped { turn: 1 }));
    play.order(Command::Withdraw { turn: 1, by: Actor::default() }).expect("withdrawn");
    play.send("go on").expect("a turn");
    play.work(2);
    play.switch(Interface::Terminal, false).expect("a choice");
    assert_eq!(play.send("!rm -rf x"), Err(Refusal::IsInterfaceCommand { begins: '!' }));

    let mut play = Play::new(Interface::Terminal);
    (play.session.tells, play.session.edges) = (false, None);
    let refused = decide(
        &play.session,
        Command::SwitchInterface { to: Interface::Chat, at_once: false, by: Actor::default() },
        Now::default(),
    );
    assert_eq!(refused, Err(Refusal::CannotTellWhetherItWorks));

    let mut play = Play::new(Interface::Chat);
    play.session.conversation = None;
    let switch = |session: &Session| {
        let to = Interface::Terminal;
        decide(session, Command::SwitchInterface { to, at_once: false, by: Actor::default() }, Now::default())
    };
    assert_eq!(switch(&play.session), Err(Refusal::NoConversation));
    if let Some(spec) = &mut play.session.spec {
        spec.other = None;
    }
    assert_eq!(switch(&play.session), Err(Refusal::OneInterface { has: Interface::Chat }));

    let mut play = Play::new(Interface::Chat);
    play.end_run();
    play.order(Command::Archive { by: Actor::default() }).expect("archived");
    assert_eq!(play.switch(Interface::Terminal, false), Err(Refusal::Archived));
    assert_eq!(play.session.outcome(), Some(&Outcome::Exited(Exit::Code(0))));
}
