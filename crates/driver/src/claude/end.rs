//! How a turn of Claude Code ended, from its `result` line.
//!
//! `subtype` says "success" for an error of the API, and the exit code of an interrupted process is 0: only
//! `is_error` and `terminal_reason` are believed.
//! Promise: the same line and the same text give the same end. Not here: whose end it is (see `claude`).
//! Start with [`read`].

use berth_core::{Failure, Final, TurnEnd};
use serde_json::Value;

use super::text;
use crate::common::{Gathered, failure_of_status, quote};

/// Claude Code has no credentials at all. Other credentials need another process.
const NOT_LOGGED_IN: &str = "Not logged in";

/// The end that a `result` line tells of; `said` is what came of the answer before it.
pub(super) fn read(result: &Value, said: Gathered) -> TurnEnd {
    let state = state(result);
    let answer = match state {
        // It is empty where what was said is no message of the agent, as after `/compact`.
        Final::Done => {
            Some(text(result, "result")).filter(|text| !text.is_empty()).map_or(said, Gathered::whole)
        }
        // Here `result` is missing, or it is the error.
        Final::Failed | Final::Cancelled | Final::Interrupted | Final::Unknown => said,
    };
    let reason = match state {
        Final::Done => None,
        Final::Interrupted => Some("interrupted before it was finished".to_owned()),
        Final::Failed | Final::Cancelled | Final::Unknown => Some(reason(result)),
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
        failure: if state == Final::Failed { failure(result) } else { Failure::Other },
    }
}

fn failure(result: &Value) -> Failure {
    let status = result.get("api_error_status").and_then(Value::as_u64);
    match status.map_or(Failure::Other, failure_of_status) {
        Failure::Other if not_logged_in(result).is_some() => Failure::Login,
        known => known,
    }
}

/// What was read, from the cache and for it included: people want to know how much there was.
pub(super) fn input_tokens(usage: &Value) -> Option<u64> {
    let of = |name: &str| usage.get(name).and_then(Value::as_u64);
    let cached = of("cache_read_input_tokens")
        .unwrap_or(0)
        .saturating_add(of("cache_creation_input_tokens").unwrap_or(0));
    of("input_tokens").map(|tokens| tokens.saturating_add(cached))
}

/// What one request to the model read and wrote: that is in the context afterwards.
pub(super) fn all_tokens(usage: &Value) -> Option<u64> {
    let written = usage.get("output_tokens").and_then(Value::as_u64).unwrap_or(0);
    input_tokens(usage).map(|read| read.saturating_add(written)).filter(|tokens| *tokens > 0)
}

/// Tokens that the context window of a model has room for. A `result` tells of all models that were used, those of
/// helpers included.
pub(super) fn context_window(result: &Value, model: &str) -> Option<u64> {
    let models = result.get("modelUsage")?.as_object()?;
    let only = models.values().next().filter(|_| models.len() == 1);
    models.get(model).or(only)?.get("contextWindow")?.as_u64().filter(|tokens| *tokens > 0)
}

/// Whether nobody is logged in, and what it said about that.
pub(super) fn not_logged_in(result: &Value) -> Option<String> {
    let said = text(result, "result");
    (is_error(result) && said.starts_with(NOT_LOGGED_IN)).then(|| quote(said))
}

/// What a `result` line says that went wrong, in its own words.
pub(super) fn complaint(result: &Value) -> String {
    let errors = result.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let errors: Vec<&str> = errors
        .iter()
        .filter_map(Value::as_str)
        .filter(|error| !error.starts_with("[ede_diagnostic]"))
        .take(8)
        .collect();
    match (errors.is_empty(), text(result, "result")) {
        (false, _) => quote(&errors.join("; ")),
        (true, "") => match text(result, "terminal_reason") {
            "" => "it did not say why".to_owned(),
            reason => quote(reason),
        },
        (true, said) => quote(said),
    }
}

fn is_error(result: &Value) -> bool {
    result.get("is_error").and_then(Value::as_bool).unwrap_or(false)
}

fn state(result: &Value) -> Final {
    match text(result, "terminal_reason") {
        "aborted_streaming" | "aborted_tools" => Final::Interrupted,
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
        | "turn_setup_failed" => Final::Failed,
        _ if is_error(result) => Final::Failed,
        _ => Final::Done,
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
