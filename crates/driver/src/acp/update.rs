//! What the agent tells by itself: pieces of its answer, its tools, notices.

use agent_client_protocol_schema::v1::{CLIENT_METHOD_NAMES, PROTOCOL_LEVEL_METHOD_NAMES};
use serde_json::Value;

use super::answer::MAX_NOTICE_BYTES;
use super::asks::name_of;
use super::tool;
use super::tool::MAX_ID_BYTES;
use super::{Acp, MAX_SHOWN_BYTES, MOST_NOTICES};
use crate::{Out, Update};

impl Acp {
    /// The agent tells something.
    pub(super) fn told(&mut self, method: &str, params: &Value, out: &mut Out) {
        if method == CLIENT_METHOD_NAMES.session_update {
            self.updated(params, out);
        } else if method == PROTOCOL_LEVEL_METHOD_NAMES.cancel_request {
            let request = name_of(&params["requestId"]);
            let at = self.asked.iter().position(|asked| Some(&asked.request) == request.as_ref());
            if let Some(at) = at {
                self.unask(at, out);
            }
        } else if method == "_auth/status_update" && params["authStatus"]["kind"] == "none" {
            let said = params["authStatus"]["label"].as_str().unwrap_or("not logged in");
            self.remark(format!("the agent says: {}", tool::line(said, MAX_SHOWN_BYTES)), out);
        }
    }

    fn updated(&mut self, params: &Value, out: &mut Out) {
        // Agents that have agents of their own tell of their sessions, too.
        let of = params["sessionId"].as_str();
        if self.session.as_deref().is_some_and(|session| of != Some(session)) {
            return;
        }
        let update = &params["update"];
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => self.said(update, out),
            "agent_thought_chunk" => {
                self.began(out);
                self.does("thinking", "", out);
            }
            "tool_call" | "tool_call_update" => {
                self.began(out);
                if let Some(turn) = &mut self.turn {
                    turn.answer.apart();
                }
                if let Some(call) = self.calls.hear(update) {
                    self.does(&call.tool(), &tool::line(call.detail(), MAX_SHOWN_BYTES), out);
                }
            }
            "plan" => self.began(out),
            "notice" => self.noticed(update, out),
            "session_info_update" => self.informed(&update["_meta"], out),
            "usage_update" => {
                // What is heard late is a run of the past, with other turns in it.
                if !self.is_late {
                    out.holds(update["used"].as_u64(), update["size"].as_u64());
                }
                if !update["_meta"]["_claude/origin"].is_null() {
                    self.tell_late(out);
                }
            }
            // Commands, modes, settings, and what there will be next year: nothing that a turn needs.
            _ => {}
        }
    }

    /// A piece of the answer, or of what comes after one.
    fn said(&mut self, update: &Value, out: &mut Out) {
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
                    self.does("writing", "", out);
                    out.update(Update::Said { text });
                }
            }
            None if is_live && self.last.is_some() => drop(self.late.piece(message, piece)),
            None => {}
        }
    }

    /// Something for people that is no part of the conversation.
    fn noticed(&mut self, update: &Value, out: &mut Out) {
        let title = update["title"].as_str().unwrap_or_default();
        let said = match update["description"].as_str() {
            Some(description) => format!("{title}: {description}"),
            None => title.to_owned(),
        };
        let said = tool::line(&said, MAX_NOTICE_BYTES);
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

    fn informed(&mut self, meta: &Value, out: &mut Out) {
        if let Some(status) = meta["codex"]["threadStatus"]["type"].as_str()
            && let Some(turn) = &mut self.turn
        {
            turn.failing = status == "systemError";
            if status == "active" {
                self.began(out);
            }
        }
        // What can be taken up again later is no longer what was: agents have no other word for it.
        if let Some(id) =
            meta["berth"]["sessionId"].as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES)
        {
            out.update(Update::Conversation { id: id.to_owned() });
        }
    }
}
