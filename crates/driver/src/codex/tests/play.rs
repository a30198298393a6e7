//! Plays recorded lines to a driver and makes calls in between, as a keeper would.

use berth_core::Ask;
use proptest::prelude::*;
use serde_json::Value;

use super::super::Codex;
use crate::common::chosen;
use crate::{Begin, Driver, Out, Update};

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

/// What was called when a run was recorded.
pub(super) fn usual(name: &str) -> Vec<(When, Call)> {
    let first = match name {
        "goal" => 5,
        "goal_joined" => 13,
        _ => 1,
    };
    let mut script = vec![(When::Ready, Call::Prompt(first, "first"))];
    match name {
        "approval" | "edit" | "permissions" => script.push((When::Asked, Call::Answer("0", "accept"))),
        "question" => script.push((When::Asked, Call::Answer("0", "1"))),
        "mcp" => script.push((When::Asked, Call::Answer("0", "acceptForSession"))),
        "interrupt" => script.push((When::Said, Call::Interrupt(1))),
        "approval_interrupted" => script.push((When::Asked, Call::Interrupt(1))),
        "steer" => script.push((When::Said, Call::Steer(2, "more"))),
        _ => {}
    }
    script.push((When::Ended(first), Call::Prompt(first + 1, "second")));
    script.push((When::Ended(first + 1), Call::Prompt(first + 2, "third")));
    script
}

/// What a call waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Ready,
    Said,
    Asked,
    Ended(u64),
}

impl When {
    fn is(self, update: &Update) -> bool {
        match self {
            Self::Ready => *update == Update::Ready,
            Self::Said => matches!(update, Update::Said { .. }),
            Self::Asked => matches!(update, Update::Asks { .. }),
            Self::Ended(number) => matches!(update, Update::Ended { turn, .. } if *turn == number),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Prompt(u64, &'static str),
    Steer(u64, &'static str),
    Interrupt(u64),
    Answer(&'static str, &'static str),
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Begin(Begin),
    Hear(String),
    Call(Call),
}

/// A driver, and all that went in and came out.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) driver: Codex,
    pub(super) steps: Vec<Step>,
    pub(super) updates: Vec<Update>,
    pub(super) sent: Vec<Value>,
}

impl Play {
    /// Plays lines; each call is made as soon as what it waits for has come, in the order given.
    pub(super) fn run(lines: Vec<String>, begin: Begin, script: &[(When, Call)]) -> Self {
        let mut play = Self { driver: Codex::new(), steps: vec![], updates: vec![], sent: vec![] };
        let mut script = script.iter().copied().peekable();
        let mut looked_at = 0;
        play.step(Step::Begin(begin));
        for line in lines {
            play.step(Step::Hear(line));
            while looked_at < play.updates.len() {
                looked_at += 1;
                if let Some((_, call)) = script.next_if(|(when, _)| when.is(&play.updates[looked_at - 1])) {
                    play.step(Step::Call(call));
                }
            }
        }
        play
    }

    /// Makes the same steps with a new driver.
    pub(super) fn again(steps: &[Step]) -> Self {
        let mut play = Self { driver: Codex::new(), steps: vec![], updates: vec![], sent: vec![] };
        for step in steps {
            play.step(step.clone());
        }
        play
    }

    /// Makes steps as a keeper would: prompts only when no turn runs, texts for a turn only when one does,
    /// each under a number of its own.
    pub(super) fn kept(steps: &[Step]) -> Self {
        let mut play = Self::again(&[Step::Begin(Begin::New { id: None })]);
        let (mut last, mut running) = (0, None);
        for step in steps {
            let step = match (step, running) {
                (Step::Call(Call::Prompt(_, text)), None) => {
                    last += 1;
                    running = Some(last);
                    Step::Call(Call::Prompt(last, text))
                }
                (Step::Call(Call::Steer(_, text)), Some(_)) => {
                    last += 1;
                    Step::Call(Call::Steer(last, text))
                }
                (Step::Call(Call::Interrupt(_)), Some(turn)) => Step::Call(Call::Interrupt(turn)),
                (Step::Call(Call::Prompt(..) | Call::Steer(..) | Call::Interrupt(_)), _) => continue,
                (Step::Begin(_) | Step::Hear(_) | Step::Call(Call::Answer(..)), _) => step.clone(),
            };
            let before = play.updates.len();
            play.step(step);
            let ended = |update: &Update| running.is_some_and(|turn| When::Ended(turn).is(update));
            if play.updates[before..].iter().any(ended) {
                running = None;
            }
        }
        play
    }

    fn step(&mut self, step: Step) {
        let mut out = Out::default();
        let driver = &mut self.driver;
        match &step {
            Step::Begin(begin) => driver.begin(begin, "/home/me/project", &mut out),
            Step::Hear(line) => driver.hear(line.as_bytes(), &mut out),
            Step::Call(Call::Prompt(turn, text)) => driver.prompt(*turn, text, &mut out),
            Step::Call(Call::Steer(by, text)) => driver.steer(*by, text, &mut out),
            Step::Call(Call::Interrupt(turn)) => driver.interrupt(*turn, &mut out),
            Step::Call(Call::Answer(request, choice)) => driver.answer(request, &chosen(choice), &mut out),
        }
        self.steps.push(step);
        self.updates.append(&mut out.updates);
        self.sent.extend(super::sent(&mut out));
    }

    /// The only question.
    pub(super) fn ask(&self) -> &Ask {
        let asks = self.updates.iter();
        let asks = asks.filter_map(|update| if let Update::Asks { ask } = update { Some(ask) } else { None });
        let asks: Vec<&Ask> = asks.collect();
        assert_eq!(asks.len(), 1, "{:?}", self.updates);
        asks[0]
    }

    pub(super) fn prompted(&self, turn: u64) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Call(Call::Prompt(it, _)) if *it == turn))
    }

    pub(super) fn was_given(&self, turn: u64) -> bool {
        let steered = |step: &Step| matches!(step, Step::Call(Call::Steer(it, _)) if *it == turn);
        self.prompted(turn) || self.steps.iter().any(steered)
    }

    /// What was heard after the prompt of a turn was given.
    pub(super) fn since_prompt(&self, turn: u64) -> Vec<String> {
        let after = self
            .steps
            .iter()
            .skip_while(|step| !matches!(step, Step::Call(Call::Prompt(it, _)) if *it == turn));
        let heard = after.filter_map(|step| match step {
            Step::Hear(line) => Some(line.clone()),
            Step::Begin(_) | Step::Call(_) => None,
        });
        heard.collect()
    }
}

/// What a driver tells that is only told to begin and to give a prompt, and then hears everything at once.
pub(super) fn late(turn: u64, lines: &[String]) -> Vec<Update> {
    let begin = [Step::Begin(Begin::New { id: None }), Step::Call(Call::Prompt(turn, "again"))];
    let heard = lines.iter().cloned().map(Step::Hear);
    Play::again(&begin.into_iter().chain(heard).collect::<Vec<_>>()).updates
}

/// A recorded line, changed or not, or a call.
pub(super) fn step() -> impl Strategy<Value = Step> {
    let all: Vec<String> = ALL.iter().flat_map(|name| lines(name)).collect();
    let line = prop::sample::select(all);
    let swapped = (line.clone(), line.clone(), any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let texts = prop::sample::select(vec!["", "T", "turn-1", "steer-2", "decline", "𝄞é", "{}", "completed"]);
    prop_oneof![
        8 => line.clone().prop_map(Step::Hear),
        4 => (line.clone(), any::<prop::sample::Index>(), texts).prop_map(|(line, at, text)| Step::Hear(with(&line, at, text))),
        2 => (line, any::<prop::sample::Index>()).prop_map(|(line, at)| {
            let at = line.floor_char_boundary(at.index(line.len() + 1));
            Step::Hear(line[..at].to_owned())
        }),
        2 => swapped.prop_map(|(one, other, from, to)| {
            let (from, to) = (one.floor_char_boundary(from.index(one.len())), other.floor_char_boundary(to.index(other.len())));
            Step::Hear(format!("{}{}", &one[..from], &other[to..]))
        }),
        3 => Just(Step::Call(Call::Prompt(1, "go"))),
        1 => Just(Step::Call(Call::Steer(2, "more"))),
        1 => Just(Step::Call(Call::Interrupt(1))),
        1 => Just(Step::Call(Call::Answer("0", "accept"))),
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
