//! Plays recorded lines to a driver and makes calls in between, as a keeper would.

use berth_core::AgentQuestion;
use proptest::prelude::*;
use serde_json::Value;

use super::super::CodexDriver;
use crate::common::chosen;
use crate::{AgentUpdate, ConversationStart, Driver, DriverOutput};

/// All recorded runs.
pub(super) const ALL: [&str; 14] = [
    "turns",
    "approval",
    "approval_interrupted",
    "compaction",
    "edit",
    "goal",
    "goal_joined",
    "interrupt",
    "mcp",
    "permissions",
    "question",
    "retry",
    "spawn",
    "steer",
];

/// The lines of a recorded run.
pub(super) fn lines(name: &str) -> Vec<String> {
    let text = match name {
        "turns" => include_str!("../turns.jsonl"),
        "approval" => include_str!("../approval.jsonl"),
        "approval_interrupted" => include_str!("../approval_interrupted.jsonl"),
        "compaction" => include_str!("../compaction.jsonl"),
        "edit" => include_str!("../edit.jsonl"),
        "goal" => include_str!("../goal.jsonl"),
        "goal_joined" => include_str!("../goal_joined.jsonl"),
        "interrupt" => include_str!("../interrupt.jsonl"),
        "mcp" => include_str!("../mcp.jsonl"),
        "permissions" => include_str!("../permissions.jsonl"),
        "question" => include_str!("../question.jsonl"),
        "retry" => include_str!("../retry.jsonl"),
        "spawn" => include_str!("../spawn.jsonl"),
        "steer" => include_str!("../steer.jsonl"),
        other => panic!("no run is called {other}"),
    };
    text.lines().map(str::to_owned).collect()
}

/// The calls that were made when a run was recorded.
pub(super) fn usual(name: &str) -> Vec<(ReplayTrigger, DriverCall)> {
    let first = match name {
        "goal" => 5,
        "goal_joined" => 13,
        _ => 1,
    };
    let mut script = vec![(ReplayTrigger::Ready, DriverCall::Prompt(first, "first"))];
    match name {
        "approval" | "edit" | "permissions" => {
            script.push((ReplayTrigger::Asked, DriverCall::Answer("0", "accept")))
        }
        "question" => script.push((ReplayTrigger::Asked, DriverCall::Answer("0", "1"))),
        "mcp" => script.push((ReplayTrigger::Asked, DriverCall::Answer("0", "acceptForSession"))),
        "interrupt" => script.push((ReplayTrigger::Said, DriverCall::Interrupt(1))),
        "approval_interrupted" => script.push((ReplayTrigger::Asked, DriverCall::Interrupt(1))),
        "steer" => script.push((ReplayTrigger::Said, DriverCall::Steer(2, "more"))),
        _ => {}
    }
    script.push((ReplayTrigger::Ended(first), DriverCall::Prompt(first + 1, "second")));
    script.push((ReplayTrigger::Ended(first + 1), DriverCall::Prompt(first + 2, "third")));
    script
}

/// The event that a call waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReplayTrigger {
    Ready,
    Said,
    Asked,
    Ended(u64),
}

impl ReplayTrigger {
    fn is(self, update: &AgentUpdate) -> bool {
        match self {
            Self::Ready => *update == AgentUpdate::Ready,
            Self::Said => matches!(update, AgentUpdate::Said { .. }),
            Self::Asked => matches!(update, AgentUpdate::Asks { .. }),
            Self::Ended(number) => matches!(update, AgentUpdate::Ended { turn, .. } if *turn == number),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum DriverCall {
    Prompt(u64, &'static str),
    Steer(u64, &'static str),
    Interrupt(u64),
    Answer(&'static str, &'static str),
}

#[derive(Clone, Debug)]
pub(super) enum ReplayStep {
    Begin(ConversationStart),
    Hear(String),
    Call(DriverCall),
}

/// A driver with all of its input and output.
#[derive(Debug)]
pub(super) struct CodexReplay {
    pub(super) driver: CodexDriver,
    pub(super) steps: Vec<ReplayStep>,
    pub(super) updates: Vec<AgentUpdate>,
    pub(super) sent: Vec<Value>,
}

impl CodexReplay {
    /// Plays lines; each call is made as soon as the event it waits for has come, in the given order.
    pub(super) fn run(
        lines: Vec<String>,
        begin: ConversationStart,
        script: &[(ReplayTrigger, DriverCall)],
    ) -> Self {
        let mut play = Self { driver: CodexDriver::new(), steps: vec![], updates: vec![], sent: vec![] };
        let mut script = script.iter().copied().peekable();
        let mut looked_at = 0;
        play.step(ReplayStep::Begin(begin));
        for line in lines {
            play.step(ReplayStep::Hear(line));
            while looked_at < play.updates.len() {
                looked_at += 1;
                if let Some((_, call)) = script.next_if(|(when, _)| when.is(&play.updates[looked_at - 1])) {
                    play.step(ReplayStep::Call(call));
                }
            }
        }
        play
    }

    /// Makes these steps with a new driver.
    pub(super) fn again(steps: &[ReplayStep]) -> Self {
        let mut play = Self { driver: CodexDriver::new(), steps: vec![], updates: vec![], sent: vec![] };
        for step in steps {
            play.step(step.clone());
        }
        play
    }

    /// Makes steps as a keeper would: prompts only when no turn runs, texts for a turn only when one does,
    /// each under a number of its own.
    pub(super) fn kept(steps: &[ReplayStep]) -> Self {
        let mut play = Self::again(&[ReplayStep::Begin(ConversationStart::New { id: None })]);
        let (mut last, mut running) = (0, None);
        for step in steps {
            let step = match (step, running) {
                (ReplayStep::Call(DriverCall::Prompt(_, text)), None) => {
                    last += 1;
                    running = Some(last);
                    ReplayStep::Call(DriverCall::Prompt(last, text))
                }
                (ReplayStep::Call(DriverCall::Steer(_, text)), Some(_)) => {
                    last += 1;
                    ReplayStep::Call(DriverCall::Steer(last, text))
                }
                (ReplayStep::Call(DriverCall::Interrupt(_)), Some(turn)) => {
                    ReplayStep::Call(DriverCall::Interrupt(turn))
                }
                (
                    ReplayStep::Call(
                        DriverCall::Prompt(..) | DriverCall::Steer(..) | DriverCall::Interrupt(_),
                    ),
                    _,
                ) => continue,
                (
                    ReplayStep::Begin(_) | ReplayStep::Hear(_) | ReplayStep::Call(DriverCall::Answer(..)),
                    _,
                ) => step.clone(),
            };
            let before = play.updates.len();
            play.step(step);
            let ended =
                |update: &AgentUpdate| running.is_some_and(|turn| ReplayTrigger::Ended(turn).is(update));
            if play.updates[before..].iter().any(ended) {
                running = None;
            }
        }
        play
    }

    fn step(&mut self, step: ReplayStep) {
        let mut out = DriverOutput::default();
        let driver = &mut self.driver;
        match &step {
            ReplayStep::Begin(begin) => driver.begin(begin, "/home/me/project", &mut out),
            ReplayStep::Hear(line) => driver.hear(line.as_bytes(), &mut out),
            ReplayStep::Call(DriverCall::Prompt(turn, text)) => driver.prompt(*turn, text, &mut out),
            ReplayStep::Call(DriverCall::Steer(by, text)) => driver.steer(*by, text, &mut out),
            ReplayStep::Call(DriverCall::Interrupt(turn)) => driver.interrupt(*turn, &mut out),
            ReplayStep::Call(DriverCall::Answer(request, choice)) => {
                driver.answer(request, &chosen(choice), &mut out)
            }
        }
        self.steps.push(step);
        self.updates.append(&mut out.updates);
        self.sent.extend(super::sent(&mut out));
    }

    /// The only question.
    pub(super) fn ask(&self) -> &AgentQuestion {
        let asks = self.updates.iter();
        let asks =
            asks.filter_map(|update| if let AgentUpdate::Asks { ask } = update { Some(ask) } else { None });
        let asks: Vec<&AgentQuestion> = asks.collect();
        assert_eq!(asks.len(), 1, "{:?}", self.updates);
        asks[0]
    }

    pub(super) fn prompted(&self, turn: u64) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, ReplayStep::Call(DriverCall::Prompt(it, _)) if *it == turn))
    }

    pub(super) fn was_given(&self, turn: u64) -> bool {
        let steered =
            |step: &ReplayStep| matches!(step, ReplayStep::Call(DriverCall::Steer(it, _)) if *it == turn);
        self.prompted(turn) || self.steps.iter().any(steered)
    }

    /// The lines after the prompt of a turn.
    pub(super) fn since_prompt(&self, turn: u64) -> Vec<String> {
        let after = self
            .steps
            .iter()
            .skip_while(|step| !matches!(step, ReplayStep::Call(DriverCall::Prompt(it, _)) if *it == turn));
        let heard = after.filter_map(|step| match step {
            ReplayStep::Hear(line) => Some(line.clone()),
            ReplayStep::Begin(_) | ReplayStep::Call(_) => None,
        });
        heard.collect()
    }
}

/// The updates of a driver that begins, gives a prompt, and then reads all lines at once.
pub(super) fn late(turn: u64, lines: &[String]) -> Vec<AgentUpdate> {
    let begin = [
        ReplayStep::Begin(ConversationStart::New { id: None }),
        ReplayStep::Call(DriverCall::Prompt(turn, "again")),
    ];
    let heard = lines.iter().cloned().map(ReplayStep::Hear);
    CodexReplay::again(&begin.into_iter().chain(heard).collect::<Vec<_>>()).updates
}

/// A recorded line, changed or not, or a call.
pub(super) fn step() -> impl Strategy<Value = ReplayStep> {
    let all: Vec<String> = ALL.iter().flat_map(|name| lines(name)).collect();
    let line = prop::sample::select(all);
    let swapped = (line.clone(), line.clone(), any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let texts = prop::sample::select(vec!["", "T", "turn-1", "steer-2", "decline", "𝄞é", "{}", "completed"]);
    prop_oneof![
        8 => line.clone().prop_map(ReplayStep::Hear),
        4 => (line.clone(), any::<prop::sample::Index>(), texts).prop_map(|(line, at, text)| ReplayStep::Hear(with(&line, at, text))),
        2 => (line, any::<prop::sample::Index>()).prop_map(|(line, at)| {
            let at = line.floor_char_boundary(at.index(line.len() + 1));
            ReplayStep::Hear(line[..at].to_owned())
        }),
        2 => swapped.prop_map(|(one, other, from, to)| {
            let (from, to) = (one.floor_char_boundary(from.index(one.len())), other.floor_char_boundary(to.index(other.len())));
            ReplayStep::Hear(format!("{}{}", &one[..from], &other[to..]))
        }),
        3 => Just(ReplayStep::Call(DriverCall::Prompt(1, "go"))),
        1 => Just(ReplayStep::Call(DriverCall::Steer(2, "more"))),
        1 => Just(ReplayStep::Call(DriverCall::Interrupt(1))),
        1 => Just(ReplayStep::Call(DriverCall::Answer("0", "accept"))),
    ]
}

/// The line with one of its texts or numbers changed.
fn with(line: &str, at: prop::sample::Index, text: &str) -> String {
    fn leaves(value: &mut Value) -> Vec<&mut Value> {
        match value {
            Value::Array(all) => all.iter_mut().flat_map(leaves).collect(),
            Value::Object(all) => all.values_mut().flat_map(leaves).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![value],
        }
    }
    let mut value: Value = serde_json::from_str(line).expect("a recorded line is JSON");
    let mut leaves = leaves(&mut value);
    if !leaves.is_empty() {
        let at = at.index(leaves.len());
        *leaves[at] = Value::from(text);
    }
    value.to_string()
}
