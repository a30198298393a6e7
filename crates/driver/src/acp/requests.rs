//! Requests of the agent: passed on, refused, or answered as cancelled.

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, RequestPermissionOutcome, RequestPermissionResponse,
};
use berth_core::{AgentQuestion, MOST_ASKS, QuestionOption};
use serde_json::Value;

use super::tool_call;
use super::tool_call::MAX_ID_BYTES;
use super::{AcpDriver, MAX_SHOWN_BYTES};
use crate::rpc::{self};
use crate::{AgentUpdate, DriverOutput};

/// A request of the agent that waits for an answer.
#[derive(Debug)]
pub(super) struct AcpPendingRequest {
    pub(super) request: String,
    pub(super) id: Value,
    pub(super) options: Vec<QuestionOption>,
}

impl AcpDriver {
    /// Handles a request of the agent.
    pub(super) fn requested(&mut self, id: Value, method: &str, params: &Value, out: &mut DriverOutput) {
        if method != CLIENT_METHOD_NAMES.session_request_permission {
            let shown = tool_call::line(method, MAX_SHOWN_BYTES);
            rpc::send_error(out, &id, rpc::METHOD_NOT_FOUND, &format!("berth does not offer {shown}"));
            return self.remark(format!("the agent asked for `{shown}`, which berth does not offer"), out);
        }
        let Some(request) = name_of(&id) else {
            return rpc::send_error(out, &id, rpc::INVALID_REQUEST, "an id is a number or a short text");
        };
        if self.asked.iter().any(|asked| asked.request == request) {
            return rpc::send_error(out, &id, rpc::INVALID_REQUEST, "another request has this id");
        }
        if self.is_late {
            return;
        }
        if self.turn.as_ref().is_some_and(|turn| turn.interrupted) {
            return cancelled(&id, out);
        }
        // A reason goes into the running turn: the protocol has no field for it.
        let takes_reason = self.able.steer && self.turn.is_some();
        let ask = AgentQuestion { takes_reason, ..self.calls.ask(request.clone(), params) };
        if ask.options.is_empty() || self.asked.len() >= MOST_ASKS {
            cancelled(&id, out);
            let what = if ask.options.is_empty() { "without options" } else { "too many of them" };
            return self.remark(format!("a permission request was not passed on: {what}"), out);
        }
        self.began(out);
        self.asked.push(AcpPendingRequest { request, id, options: ask.options.clone() });
        out.update(AgentUpdate::Asks { ask });
    }

    /// The protocol demands an answer to every request, also to a withdrawn one.
    pub(super) fn unask(&mut self, at: usize, out: &mut DriverOutput) {
        let asked = self.asked.remove(at);
        cancelled(&asked.id, out);
        out.update(AgentUpdate::QuestionWithdrawn { request: asked.request });
    }

    pub(super) fn unask_all(&mut self, out: &mut DriverOutput) {
        while !self.asked.is_empty() {
            self.unask(0, out);
        }
    }
}

/// Our name for a request of the agent.
pub(super) fn name_of(id: &Value) -> Option<String> {
    match id {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if !text.is_empty() && text.len() <= MAX_ID_BYTES => Some(text.clone()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Answers that no user decided.
fn cancelled(id: &Value, out: &mut DriverOutput) {
    rpc::send_result(out, id, &RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled));
}
