//! Turns as Codex runs them: ours, and those it begins by itself.
//!
//! Promise: what Codex says at the end of a turn becomes one of three ends, with a reason unless it is done.
//! Not here: which of what is heard belongs to which turn (see the parent).
//! Start with [`Turn`].

use berth_core::{Failure, Final, TurnEnd};
use serde_json::Value;

use super::answer::Answer;
use super::items::{self, line, text};

/// A turn of ours.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    /// Its prompt, until the conversation is open.
    pub(super) unsent: Option<String>,
    /// What Codex calls it, once it said so.
    pub(super) id: Option<String>,
    /// Codex said that it runs. Before that it refuses to break it off, and forgets that it was asked to.
    pub(super) runs: bool,
    /// Our prompt went into a turn that Codex had begun by itself: what came before it is not ours.
    pub(super) until_prompt: bool,
    pub(super) interrupt: Interrupt,
    /// Turns whose text goes into this one: with the text until that was sent, then until it is answered.
    pub(super) steers: Vec<(u64, Option<String>)>,
    pub(super) answer: Answer,
    /// Used by it so far, and by the conversation before it.
    pub(super) used: Option<(Tokens, Tokens)>,
    /// What Codex said went wrong.
    pub(super) error: Option<Fault>,
    /// It is over, and a steer is not answered yet.
    pub(super) over: Option<TurnEnd>,
}

/// An error that Codex told of.
#[derive(Debug)]
pub(super) struct Fault {
    reason: String,
    failure: Failure,
}

impl Fault {
    pub(super) fn read(error: &Value) -> Self {
        Self { reason: items::reason(error), failure: items::failure(error) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Interrupt {
    No,
    Wanted,
    Sent,
}

/// A turn of our conversation that this machine did not ask for.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) id: String,
    /// It answers a prompt of ours all the same: one that another life of this machine gave.
    pub(super) prompted: bool,
    pub(super) runs: bool,
    pub(super) answer: Answer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Turn {
    /// A turn whose prompt was not sent yet.
    pub(super) fn new(number: u64, prompt: &str) -> Self {
        Self {
            number,
            unsent: Some(prompt.to_owned()),
            id: None,
            runs: false,
            until_prompt: false,
            interrupt: Interrupt::No,
            steers: Vec::new(),
            answer: Answer::default(),
            used: None,
            error: None,
            over: None,
        }
    }

    /// How it ended, as Codex says it in `over`.
    pub(super) fn ended(&mut self, over: &Value) -> TurnEnd {
        let used = self.used.map(|(used, _)| used);
        let asked_to = self.interrupt != Interrupt::No;
        ended(over, &mut self.answer, used, self.error.take(), asked_to)
    }
}

impl Other {
    /// A turn that was not heard of before.
    pub(super) fn new(id: String) -> Self {
        Self { id, prompted: false, runs: false, answer: Answer::default() }
    }

    /// How it ended, as Codex says it in `over`.
    pub(super) fn ended(&mut self, over: &Value) -> TurnEnd {
        ended(over, &mut self.answer, None, None, false)
    }
}

impl Tokens {
    /// What came on top of `other`.
    pub(super) fn without(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
        }
    }
}

/// The end of a turn whose text did not get into another one.
pub(super) fn not_steered(reason: &str) -> TurnEnd {
    TurnEnd::without_answer(Final::Failed, format!("codex did not take it into the turn: {reason}"))
}

fn ended(
    over: &Value,
    answer: &mut Answer,
    used: Option<Tokens>,
    error: Option<Fault>,
    asked_to: bool,
) -> TurnEnd {
    if answer.is_empty() {
        // Of a turn whose beginning was not heard at least the last message is known.
        for item in over.get("items").and_then(Value::as_array).into_iter().flatten() {
            if text(item, "type") == "agentMessage" {
                answer.whole(text(item, "id"), text(item, "text"));
            }
        }
    }
    let fault = over.get("error").filter(|error| !error.is_null()).map(Fault::read).or(error);
    let failure = fault.as_ref().map(|fault| fault.failure).unwrap_or_default();
    let said = fault.map(|fault| fault.reason);
    let (state, reason) = match text(over, "status") {
        "completed" => (Final::Done, None),
        "interrupted" if asked_to => (Final::Interrupted, Some("interrupted".to_owned())),
        "interrupted" => (Final::Interrupted, Some(said.unwrap_or_else(|| "codex interrupted it".into()))),
        "failed" => (Final::Failed, Some(said.unwrap_or_else(|| "codex did not say why".into()))),
        other => (Final::Failed, Some(format!("codex ended it as `{}`", line(other)))),
    };
    let (answer, cut) = answer.take();
    TurnEnd {
        state,
        reason,
        answer,
        cut,
        input_tokens: used.map(|used| used.input),
        output_tokens: used.map(|used| used.output),
        failure: if state == Final::Failed { failure } else { Failure::Other },
    }
}
