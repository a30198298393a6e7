//! The rules of turns, as sentences, in a file for each kind. Properties of any life are in `tests/lives.rs`.
//!
//! Start with [`TurnsScenario`], which all of them tell.

mod accept;
mod asks;
mod cancel;
mod ends;
mod failed;
mod life;
mod lives;
mod queue;
mod runs;
mod steer;
mod time;
mod window;

use std::time::Duration;

use super::{
    AgentCapabilities, AgentQuestion, CANCEL_PATIENCE, FinalState, QuestionOption, QuestionOptionKind,
    SendMode, StartDeadline, TurnEnd, TurnLookup, TurnProgress, TurnPrompt,
};
use crate::{
    Actor, BootId, ClockReading, Command, Effect, Event, Observation, ProcessExit, ProcessRef, Refusal,
    RunBoundary, Session, SessionPolicy, SessionSpec, decide, effects, observe,
};

const IDLE_MS: u64 = 60_000;
const PATIENCE_MS: u64 = CANCEL_PATIENCE.as_millis() as u64;

fn actor(pid: u32) -> Actor {
    Actor { pid, uid: Some(0), place: format!("pts/{pid}") }
}

fn prompt(text: &str) -> TurnPrompt {
    TurnPrompt {
        by: actor(1),
        text: text.to_owned(),
        key: None,
        start_by: None,
        manner: SendMode::Queue,
        retry: None,
    }
}

fn keyed(text: &str, key: &str) -> TurnPrompt {
    TurnPrompt { key: Some(key.to_owned()), ..prompt(text) }
}

fn hurried(text: &str, manner: SendMode) -> TurnPrompt {
    TurnPrompt { manner, ..prompt(text) }
}

fn end(state: FinalState) -> TurnEnd {
    let answer = format!("it is {state:?}");
    let (input_tokens, output_tokens) = (Some(1), Some(2));
    TurnEnd { input_tokens, output_tokens, reason: None, answer, ..TurnEnd::without_answer(state, "") }
}

fn ask(request: &str) -> AgentQuestion {
    let option = |id: &str, kind| QuestionOption { id: id.to_owned(), name: id.to_owned(), kind };
    AgentQuestion {
        request: request.to_owned(),
        tool: "Bash".to_owned(),
        detail: "rm -r build".to_owned(),
        options: vec![
            option("yes", QuestionOptionKind::AllowOnce),
            option("no", QuestionOptionKind::RejectOnce),
        ],
        takes_reason: true,
        ..AgentQuestion::default()
    }
}

/// The life of a session whose agent takes turns.
struct TurnsScenario {
    session: Session,
    events: Vec<Event>,
    now: ClockReading,
    boot: u32,
}

impl TurnsScenario {
    /// A session that was just made.
    fn new(policy: SessionPolicy) -> Self {
        let now = ClockReading { wall_ms: 1_000_000, boot_ms: 1000 };
        let mut story = Self { session: Session::default(), events: Vec::new(), now, boot: 1 };
        let spec = SessionSpec { driver: "acp".to_owned(), policy, ..SessionSpec::default() };
        story.order(Command::Create { spec, name: None }).expect("a new session");
        story
    }

    /// A session whose agent waits for turns.
    fn ready(policy: SessionPolicy) -> Self {
        let mut story = Self::new(policy);
        story.start_ready();
        story
    }

    /// A session whose agent works on turn 1, while the turns after it wait.
    fn working(waiting: &[&str]) -> Self {
        let mut story = Self::ready(SessionPolicy::default());
        story.send(prompt("the first")).expect("there is room");
        story.deliver();
        story.see(Observation::TurnBegan { turn: 1 });
        for text in waiting {
            story.send(prompt(text)).expect("there is room");
        }
        story
    }

    fn process(&self, pid: u32) -> ProcessRef {
        ProcessRef { pid, start_ticks: 1, boot: self.boot() }
    }

    fn boot(&self) -> BootId {
        BootId(format!("boot {}", self.boot))
    }

    fn in_ms(&self, ms: u64) -> Option<StartDeadline> {
        Some(StartDeadline { boot: self.boot(), boot_ms: self.now.boot_ms + ms })
    }

    fn start(&mut self) -> Result<Vec<Event>, Refusal> {
        let keeper = self.process(7);
        self.order(Command::Start {
            epoch: self.session.epoch.next(),
            keeper,
            output_from: 0,
            boundary: RunBoundary::default(),
        })
    }

    fn start_ready(&mut self) {
        self.start().expect("nothing runs");
        let (epoch, agent) = (self.session.epoch, self.process(8));
        self.see(Observation::Spawned { epoch, agent });
        self.see(Observation::AgentReady { epoch, able: AgentCapabilities { steer: true, resume: true } });
    }

    /// The agent ends by itself, and nothing of it is left.
    fn end_run(&mut self) {
        let epoch = self.session.epoch;
        self.see(Observation::Exited { epoch, exit: ProcessExit::Code(1), oom: false });
        self.see(Observation::Empty { epoch });
    }

    /// The keeper dies; another one replays the journal, and reports that.
    fn keeper_dies(&mut self) {
        self.session = Session::replay(&self.events);
        let epoch = self.session.epoch;
        self.see(Observation::KeeperGone { epoch });
    }

    /// The host starts again, and its clock as well.
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

    fn send(&mut self, prompt: TurnPrompt) -> Result<Vec<Event>, Refusal> {
        self.order(Command::Send { prompt })
    }

    fn cancel(&mut self, turn: u64) -> Result<Vec<Event>, Refusal> {
        self.order(Command::Cancel { turn, by: actor(2) })
    }

    fn go_on(&mut self) {
        self.order(Command::GoOn { by: actor(4) }).expect("it takes turns");
    }

    fn stop(&mut self) {
        self.order(Command::Stop { by: actor(9), grace: Duration::ZERO }).expect("stopping is never refused");
    }

    /// Performs [`Effect::Deliver`], and returns the number of that turn.
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

    fn over(&mut self, turn: u64, state: FinalState) -> Vec<Event> {
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

    fn state(&self, turn: u64) -> TurnProgress {
        let ended = self.events.iter().find_map(|event| match event {
            Event::TurnEnded { turn: over, end, .. } if *over == turn => Some(TurnProgress::Over(end.state)),
            _ => None,
        });
        match self.session.turns.find(turn) {
            TurnLookup::Here(turn) => turn.state,
            TurnLookup::Past => ended.expect("only a turn that is over is no longer in memory"),
            TurnLookup::Absent => panic!("there is no turn {turn}"),
        }
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
