//! Turns of Codex: ours, and those that it begins by itself.
//!
//! Promise: every end of a turn that Codex reports becomes one of three outcomes, with a reason unless it is done.
//! Not here: the turn that an item belongs to (see the parent).
//! Start with [`CodexTurn`].

use berth_core::{FinalState, TurnEnd, TurnFailure};
use serde_json::Value;

use super::answer::CodexAnswer;
use super::items::{self, line, text};

/// A turn of ours.
#[derive(Debug)]
pub(super) struct CodexTurn {
    pub(super) number: u64,
    /// Prompt of the turn, until the conversation is open.
    pub(super) unsent: Option<String>,
    /// Id of the turn, once Codex reported it.
    pub(super) id: Option<String>,
    /// True once Codex reported that the turn runs. Before that Codex refuses an interrupt, and forgets it.
    pub(super) runs: bool,
    /// True if our prompt went into a turn that Codex had begun by itself: earlier items are not ours.
    pub(super) until_prompt: bool,
    pub(super) interrupt: InterruptState,
    /// Turns whose text goes into this one: with the text until it is sent, then without it until it is answered.
    pub(super) steers: Vec<(u64, Option<String>)>,
    pub(super) answer: CodexAnswer,
    /// Tokens of this turn so far, and of the conversation before it.
    pub(super) used: Option<(TokenUsage, TokenUsage)>,
    /// The last error that Codex reported.
    pub(super) error: Option<CodexError>,
    /// Outcome of a turn that is over, but has an unanswered steer.
    pub(super) over: Option<TurnEnd>,
}

/// An error that Codex reported.
#[derive(Debug)]
pub(super) struct CodexError {
    reason: String,
    failure: TurnFailure,
}

impl CodexError {
    pub(super) fn read(error: &Value) -> Self {
        Self { reason: items::reason(error), failure: items::failure(error) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InterruptState {
    No,
    Wanted,
    Sent,
}

/// A turn of our conversation that this driver did not begin.
#[derive(Debug)]
pub(super) struct UnrequestedTurn {
    pub(super) id: String,
    /// True if the turn answers a prompt of ours that another life of this driver gave.
    pub(super) prompted: bool,
    pub(super) runs: bool,
    pub(super) answer: CodexAnswer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TokenUsage {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl CodexTurn {
    /// A turn whose prompt was not sent yet.
    pub(super) fn new(number: u64, prompt: &str) -> Self {
        Self {
            number,
            unsent: Some(prompt.to_owned()),
            id: None,
            runs: false,
            until_prompt: false,
            interrupt: InterruptState::No,
            steers: Vec::new(),
            answer: CodexAnswer::default(),
            used: None,
            error: None,
            over: None,
        }
    }

    /// The outcome of the turn, which Codex reports in `over`.
    pub(super) fn ended(&mut self, over: &Value) -> TurnEnd {
        let used = self.used.map(|(used, _)| used);
        let asked_to = self.interrupt != InterruptState::No;
        ended(over, &mut self.answer, used, self.error.take(), asked_to)
    }
}

impl UnrequestedTurn {
    /// A turn that was unknown before.
    pub(super) fn new(id: String) -> Self {
        Self { id, prompted: false, runs: false, answer: CodexAnswer::default() }
    }

    /// The outcome of the turn, which Codex reports in `over`.
    pub(super) fn ended(&mut self, over: &Value) -> TurnEnd {
        ended(over, &mut self.answer, None, None, false)
    }
}

impl TokenUsage {
    /// The tokens in addition to `other`.
    pub(super) fn since(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
        }
    }
}

/// The end of a turn whose text did not get into another one.
pub(super) fn steer_failed(reason: &str) -> TurnEnd {
    TurnEnd::without_answer(FinalState::Failed, format!("codex did not take it into the turn: {reason}"))
}

fn ended(
    over: &Value,
    answer: &mut CodexAnswer,
    used: Option<TokenUsage>,
    error: Option<CodexError>,
    asked_to: bool,
) -> TurnEnd {
    if answer.is_empty() {
        // For a turn whose start was not read, at least the last message is known.
        for item in over.get("items").and_then(Value::as_array).into_iter().flatten() {
            if text(item, "type") == "agentMessage" {
                answer.whole(text(item, "id"), text(item, "text"));
            }
        }
    }
    let fault = over.get("error").filter(|error| !error.is_null()).map(CodexError::read).or(error);
    let failure = fault.as_ref().map(|fault| fault.failure).unwrap_or_default();
    let said = fault.map(|fault| fault.reason);
    let (state, reason) = match text(over, "status") {
        "completed" => (FinalState::Done, None),
        "interrupted" if asked_to => (FinalState::Interrupted, Some("interrupted".to_owned())),
        "interrupted" => {
            (FinalState::Interrupted, Some(said.unwrap_or_else(|| "codex interrupted it".into())))
        }
        "failed" => (FinalState::Failed, Some(said.unwrap_or_else(|| "codex did not say why".into()))),
        other => (FinalState::Failed, Some(format!("codex ended it as `{}`", line(other)))),
    };
    let (answer, cut) = answer.take();
    TurnEnd {
        state,
        reason,
        answer,
        cut,
        input_tokens: used.map(|used| used.input),
        output_tokens: used.map(|used| used.output),
        failure: if state == FinalState::Failed { failure } else { TurnFailure::Other },
    }
}
