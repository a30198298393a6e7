//! End of a turn of Claude Code, from its `result` line.
//!
//! `subtype` says "success" for an error of the API, and the exit code of an interrupted process is 0: only
//! `is_error` and `terminal_reason` are believed.
//! Promise: the end depends only on the line and the text. Not here: the turn that ends (see `claude`).
//! Start with [`read`].

use berth_core::{FinalState, TurnEnd, TurnFailure};
use serde_json::Value;

use super::text;
use crate::common::{AnswerBuffer, excerpt, failure_of_status};

/// Claude Code has no credentials at all. New credentials need a new process.
const NOT_LOGGED_IN: &str = "Not logged in";

/// The end in a `result` line; `said` is the answer before it.
pub(super) fn read(result: &Value, said: AnswerBuffer) -> TurnEnd {
    let state = state(result);
    let answer = match state {
        // `result` is empty where the answer is not a message of the agent, as after `/compact`.
        FinalState::Done => {
            Some(text(result, "result")).filter(|text| !text.is_empty()).map_or(said, AnswerBuffer::whole)
        }
        // In these cases `result` is missing, or has the error.
        FinalState::Failed | FinalState::Cancelled | FinalState::Interrupted | FinalState::Unknown => said,
    };
    let reason = match state {
        FinalState::Done => None,
        FinalState::Interrupted => Some("interrupted before it was finished".to_owned()),
        FinalState::Failed | FinalState::Cancelled | FinalState::Unknown => Some(reason(result)),
    };
    let (answer, cut) = answer.into_parts();
    let usage = result.get("usage");
    TurnEnd {
        state,
        reason,
        answer,
        cut,
        input_tokens: usage.and_then(input_tokens),
        output_tokens: usage.and_then(|usage| usage.get("output_tokens")?.as_u64()),
        failure: if state == FinalState::Failed { failure(result) } else { TurnFailure::Other },
    }
}

fn failure(result: &Value) -> TurnFailure {
    let status = result.get("api_error_status").and_then(Value::as_u64);
    match status.map_or(TurnFailure::Other, failure_of_status) {
        TurnFailure::Other if not_logged_in(result).is_some() => TurnFailure::Login,
        known => known,
    }
}

/// Tokens of the input, including those read from the cache and written to it: people want to know the total.
pub(super) fn input_tokens(usage: &Value) -> Option<u64> {
    let of = |name: &str| usage.get(name).and_then(Value::as_u64);
    let cached = of("cache_read_input_tokens")
        .unwrap_or(0)
        .saturating_add(of("cache_creation_input_tokens").unwrap_or(0));
    of("input_tokens").map(|tokens| tokens.saturating_add(cached))
}

/// Tokens that one request to the model read and wrote: they are in the context afterwards.
pub(super) fn all_tokens(usage: &Value) -> Option<u64> {
    let written = usage.get("output_tokens").and_then(Value::as_u64).unwrap_or(0);
    input_tokens(usage).map(|read| read.saturating_add(written)).filter(|tokens| *tokens > 0)
}

/// Size of a model's context window, in tokens. A `result` lists all models that were used, including those of helpers.
pub(super) fn context_window(result: &Value, model: &str) -> Option<u64> {
    let models = result.get("modelUsage")?.as_object()?;
    let only = models.values().next().filter(|_| models.len() == 1);
    models.get(model).or(only)?.get("contextWindow")?.as_u64().filter(|tokens| *tokens > 0)
}

/// The message of an agent without a login.
pub(super) fn not_logged_in(result: &Value) -> Option<String> {
    let said = text(result, "result");
    (is_error(result) && said.starts_with(NOT_LOGGED_IN)).then(|| excerpt(said))
}

/// The error in a `result` line, in the agent's own words.
pub(super) fn complaint(result: &Value) -> String {
    let errors = result.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let errors: Vec<&str> = errors
        .iter()
        .filter_map(Value::as_str)
        .filter(|error| !error.starts_with("[ede_diagnostic]"))
        .take(8)
        .collect();
    match (errors.is_empty(), text(result, "result")) {
        (false, _) => excerpt(&errors.join("; ")),
        (true, "") => match text(result, "terminal_reason") {
            "" => "the agent gave no reason".to_owned(),
            reason => excerpt(reason),
        },
        (true, said) => excerpt(said),
    }
}

fn is_error(result: &Value) -> bool {
    result.get("is_error").and_then(Value::as_bool).unwrap_or(false)
}

fn state(result: &Value) -> FinalState {
    match text(result, "terminal_reason") {
        "aborted_streaming" | "aborted_tools" => FinalState::Interrupted,
        "blocking_limit"
        | "rapid_refill_breaker"
        | "prompt_too_long"
        | "image_error"
        | "model_error"
        | "api_error"
        | "malformed_tool_use_exhausted"
        | "budget_exhausted"
        | "structured_output_retry_exhausted"
        | "tool_deferred_unavailable"
        | "turn_setup_failed" => FinalState::Failed,
        _ if is_error(result) => FinalState::Failed,
        _ => FinalState::Done,
    }
}

fn reason(result: &Value) -> String {
    let complaint = complaint(result);
    let refused = matches!(result.get("api_error_status").and_then(Value::as_u64), Some(401 | 403));
    if refused || not_logged_in(result).is_some() {
        format!("not logged in, or with a wrong key: {complaint}")
    } else {
        complaint
    }
}
