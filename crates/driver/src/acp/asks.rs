//! What the agent asks for: passed on, refused, or answered by nobody.

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, RequestPermissionOutcome, RequestPermissionResponse,
};
use berth_core::{Ask, AskOption, MOST_ASKS};
use serde_json::Value;

use super::tool;
use super::tool::MAX_ID_BYTES;
use super::{Acp, MAX_SHOWN_BYTES};
use crate::rpc::{self};
use crate::{Out, Update};

/// What the agent asked, and waits for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: String,
    pub(super) id: Value,
    pub(super) options: Vec<AskOption>,
}

impl Acp {
    /// The agent wants something.
    pub(super) fn requested(&mut self, id: Value, method: &str, params: &Value, out: &mut Out) {
        if method != CLIENT_METHOD_NAMES.session_request_permission {
            let shown = tool::line(method, MAX_SHOWN_BYTES);
            rpc::refuse(out, &id, rpc::METHOD_NOT_FOUND, &format!("berth does not offer {shown}"));
            return self.remark(format!("the agent asked for `{shown}`, which berth does not offer"), out);
        }
        let Some(request) = name_of(&id) else {
            return rpc::refuse(out, &id, rpc::INVALID_REQUEST, "an id is a number or a short text");
        };
        if self.asked.iter().any(|asked| asked.request == request) {
            return rpc::refuse(out, &id, rpc::INVALID_REQUEST, "there is a request of this id");
        }
        if self.is_late {
            return;
        }
        if self.turn.as_ref().is_some_and(|turn| turn.interrupted) {
            return cancelled(&id, out);
        }
        // A reason goes into the running turn: the protocol has no field for it.
        let takes_reason = self.able.steer && self.turn.is_some();
        let ask = Ask { takes_reason, ..self.calls.ask(request.clone(), params) };
        if ask.options.is_empty() || self.asked.len() >= MOST_ASKS {
            cancelled(&id, out);
            let what = if ask.options.is_empty() { "without options" } else { "too many of them" };
            return self.remark(format!("a permission request was not passed on: {what}"), out);
        }
        self.began(out);
        self.asked.push(Asked { request, id, options: ask.options.clone() });
        out.update(Update::Asks { ask });
    }

    /// The protocol wants every request answered, also those that nobody will answer any more.
    pub(super) fn unask(&mut self, at: usize, out: &mut Out) {
        let asked = self.asked.remove(at);
        cancelled(&asked.id, out);
        out.update(Update::Unasked { request: asked.request });
    }

    pub(super) fn unask_all(&mut self, out: &mut Out) {
        while !self.asked.is_empty() {
            self.unask(0, out);
        }
    }
}

/// What a request of the agent is called by us.
pub(super) fn name_of(id: &Value) -> Option<String> {
    match id {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if !text.is_empty() && text.len() <= MAX_ID_BYTES => Some(text.clone()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Nobody decides.
fn cancelled(id: &Value, out: &mut Out) {
    rpc::answer(out, id, &RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled));
}
