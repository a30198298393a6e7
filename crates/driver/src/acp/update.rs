//! Notifications of the agent: pieces of its answer, its tools, notices.

use agent_client_protocol_schema::v1::{CLIENT_METHOD_NAMES, PROTOCOL_LEVEL_METHOD_NAMES};
use serde_json::Value;

use super::answer::MAX_NOTICE_BYTES;
use super::requests::name_of;
use super::tool_call;
use super::tool_call::MAX_ID_BYTES;
use super::{AcpDriver, MAX_SHOWN_BYTES, MOST_NOTICES};
use crate::{AgentUpdate, DriverOutput};

impl AcpDriver {
    /// Handles a notification.
    pub(super) fn told(&mut self, method: &str, params: &Value, out: &mut DriverOutput) {
        if method == CLIENT_METHOD_NAMES.session_update {
            self.on_session_update(params, out);
        } else if method == PROTOCOL_LEVEL_METHOD_NAMES.cancel_request {
            let request = name_of(&params["requestId"]);
            let at = self.asked.iter().position(|asked| Some(&asked.request) == request.as_ref());
            if let Some(at) = at {
                self.unask(at, out);
            }
        } else if method == "_auth/status_update" && params["authStatus"]["kind"] == "none" {
            let said = params["authStatus"]["label"].as_str().unwrap_or("not logged in");
            self.remark(format!("the agent says: {}", tool_call::line(said, MAX_SHOWN_BYTES)), out);
        }
    }

    fn on_session_update(&mut self, params: &Value, out: &mut DriverOutput) {
        // Agents with sub-agents also send updates of their sessions.
        let of = params["sessionId"].as_str();
        if self.session.as_deref().is_some_and(|session| of != Some(session)) {
            return;
        }
        let update = &params["update"];
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => self.said(update, out),
            "agent_thought_chunk" => {
                self.began(out);
                self.set_activity("thinking", "", out);
            }
            "tool_call" | "tool_call_update" => {
                self.began(out);
                if let Some(turn) = &mut self.turn {
                    turn.answer.apart();
                }
                if let Some(call) = self.calls.hear(update) {
                    self.set_activity(&call.tool(), &tool_call::line(call.detail(), MAX_SHOWN_BYTES), out);
                }
            }
            "plan" => self.began(out),
            "notice" => self.noticed(update, out),
            "session_info_update" => self.informed(&update["_meta"], out),
            "usage_update" => {
                // A late driver reads a past run with other turns in it.
                if !self.is_late {
                    out.holds(update["used"].as_u64(), update["size"].as_u64());
                }
                if !update["_meta"]["_claude/origin"].is_null() {
                    self.report_late_output(out);
                }
            }
            // Commands, modes, settings, and new kinds of updates: a turn needs none of them.
            _ => {}
        }
    }

    /// A piece of the answer, or of later text.
    fn said(&mut self, update: &Value, out: &mut DriverOutput) {
        let Some(piece) = update["content"]["text"].as_str().filter(|piece| !piece.is_empty()) else {
            return;
        };
        let message = update["messageId"].as_str();
        let is_live = self.is_live();
        self.began(out);
        match &mut self.turn {
            Some(turn) => {
                let text = turn.answer.piece(message, piece);
                if is_live {
                    self.set_activity("writing", "", out);
                    out.update(AgentUpdate::Said { text });
                }
            }
            None if is_live && self.last.is_some() => drop(self.late.piece(message, piece)),
            None => {}
        }
    }

    /// A notice for the user, which is not part of the conversation.
    fn noticed(&mut self, update: &Value, out: &mut DriverOutput) {
        let title = update["title"].as_str().unwrap_or_default();
        let said = match update["description"].as_str() {
            Some(description) => format!("{title}: {description}"),
            None => title.to_owned(),
        };
        let said = tool_call::line(&said, MAX_NOTICE_BYTES);
        if let Some(turn) = &mut self.turn
            && update["severity"] == "error"
        {
            turn.answer.notice.clone_from(&said);
        }
        if said.is_empty() || self.notices.contains(&said) {
            return;
        }
        self.notices.push(said.clone());
        if self.notices.len() > MOST_NOTICES {
            self.notices.remove(0);
        }
        self.remark(format!("the agent says: {said}"), out);
    }

    fn informed(&mut self, meta: &Value, out: &mut DriverOutput) {
        if let Some(status) = meta["codex"]["threadStatus"]["type"].as_str()
            && let Some(turn) = &mut self.turn
        {
            turn.failing = status == "systemError";
            if status == "active" {
                self.began(out);
            }
        }
        // The conversation has a new id, by which it can be taken up later: agents report that in no other way.
        if let Some(id) =
            meta["berth"]["sessionId"].as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES)
        {
            out.update(AgentUpdate::Conversation { id: id.to_owned() });
        }
    }
}
