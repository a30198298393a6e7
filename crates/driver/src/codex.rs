//! Driver for Codex, through `codex app-server`: JSON-RPC with one message in each line, without the member `jsonrpc`.
//!
//! The conversation is a *thread*; a prompt begins a *turn* of it, in which *items* come and go. An item belongs to a
//! turn of ours only if it has that turn's id, which the answer to our request brings. So threads of other agents, and
//! turns that Codex begins by itself, are never taken for ours.
//! Promise: a turn is over when Codex reports that for its id, and not before all text that was steered into it is
//! answered; work of Codex by itself is reported as [`AgentUpdate::Late`]; every request of Codex is answered.
//! Not here: approval policy and sandbox (the user's `config.toml` has them), Codex's rollout files.
//! Start with [`CodexDriver`], then `CodexDriver::hear`.

mod answer;
mod items;
mod questions;
#[cfg(test)]
mod tests;
mod turn;

use berth_core::{ChosenReply, FinalState, MOST_QUEUED, TurnEnd};
use serde_json::{Value, json};

use crate::{
    AgentActivity, AgentFailure, AgentUpdate, ConversationStart, Driver, DriverGuarantees, DriverOutput,
};
use items::{RecentFileChanges, line, text, within};
use questions::{CodexAnswerStep, PendingQuestions, QuestionOutcome, TurnText};
use turn::{CodexError, CodexTurn, InterruptState, TokenUsage, UnrequestedTurn, steer_failed};

/// Number of remarks that one run can make.
const MOST_REMARKS: usize = 20;
/// Longest id of a thread or a turn. Real ones have 36 bytes.
const MAX_ID_BYTES: usize = 256;
/// Size limit of Codex's text about a conversation.
const MAX_SAID_BYTES: usize = 2 << 10;
/// Error code: we do not serve this kind of request.
const NOT_SUPPORTED: i64 = -32601;
/// Notifications that Codex need not send: repeated ones, and ones that do not concern the session.
const UNWANTED: [&str; 2] = ["account/rateLimits/updated", "turn/diff/updated"];

/// The state machine for one `codex app-server`.
#[derive(Debug, Default)]
pub struct CodexDriver {
    phase: CodexPhase,
    begin: Option<ConversationStart>,
    cwd: String,
    /// Id of the conversation, once it is open.
    thread: Option<String>,
    /// The running turn of ours.
    turn: Option<CodexTurn>,
    /// A running turn of our conversation that we did not begin.
    other: Option<UnrequestedTurn>,
    /// Number of the last turn of ours that ended.
    last_over: Option<u64>,
    asks: PendingQuestions,
    changes: RecentFileChanges,
    /// Tokens that the conversation used before this turn, as far as Codex reported them.
    used: Option<TokenUsage>,
    doing: AgentActivity,
    remarks: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum CodexPhase {
    #[default]
    New,
    /// The greeting was sent.
    Greeting,
    /// The request for the conversation was sent.
    Opening,
    Ready,
    /// The agent cannot be used.
    Broken,
}

impl CodexDriver {
    /// A driver for a new process.
    pub fn new() -> Self {
        Self::default()
    }

    fn request(&self, id: &str, method: &str, params: &Value, out: &mut DriverOutput) {
        out.line(&json!({ "id": id, "method": method, "params": params }));
    }

    fn remark(&mut self, what: String, out: &mut DriverOutput) {
        // Codex repeats its warnings turn after turn.
        if self.remarks.len() > MOST_REMARKS || self.remarks.contains(&what) {
            return;
        }
        let what = if self.remarks.len() == MOST_REMARKS {
            "no more is said about this run: it gave too many remarks".to_owned()
        } else {
            what
        };
        self.remarks.push(what.clone());
        out.update(AgentUpdate::Remark { what });
    }

    fn broken(&mut self, trouble: AgentFailure, out: &mut DriverOutput) {
        if self.phase != CodexPhase::Broken {
            self.phase = CodexPhase::Broken;
            out.update(AgentUpdate::Broken { trouble });
        }
    }

    fn open(&mut self, out: &mut DriverOutput) {
        let (method, params) = match &self.begin {
            None | Some(ConversationStart::New { .. }) => ("thread/start", json!({ "cwd": self.cwd })),
            Some(ConversationStart::Resume { id }) => {
                ("thread/resume", json!({ "threadId": id, "cwd": self.cwd, "excludeTurns": true }))
            }
            Some(ConversationStart::Fork { of, .. }) => {
                ("thread/fork", json!({ "threadId": of, "cwd": self.cwd, "excludeTurns": true }))
            }
        };
        self.phase = CodexPhase::Opening;
        self.request("berth-open", method, &params, out);
    }

    fn opened(&mut self, result: &Value, out: &mut DriverOutput) {
        let id = result.pointer("/thread/id").and_then(Value::as_str).filter(|id| is_id(id));
        let Some(id) = id else {
            let said = "codex opened a conversation without an id".to_owned();
            return self.broken(AgentFailure::Protocol { said }, out);
        };
        self.thread = Some(id.to_owned());
        self.phase = CodexPhase::Ready;
        out.update(AgentUpdate::Conversation { id: id.to_owned() });
        out.uses(text(result, "model"));
        out.update(AgentUpdate::Ready);
        self.start_turn(out);
    }

    /// The reason that the conversation could not be opened. All errors have the same code: only the text differs.
    fn not_opened(&mut self, error: &Value, out: &mut DriverOutput) {
        let said = within(text(error, "message"), MAX_SAID_BYTES);
        let has = |words: &[&str]| words.iter().any(|word| said.to_ascii_lowercase().contains(word));
        let wanted = match &self.begin {
            Some(ConversationStart::Resume { id } | ConversationStart::Fork { of: id, .. }) => {
                Some(id.clone())
            }
            Some(ConversationStart::New { .. }) | None => None,
        };
        let gone = has(&["no rollout found", "invalid session id", "thread not found"]);
        let trouble = match wanted {
            Some(id) if gone => AgentFailure::NoConversation { id },
            _ if has(&["active writer"]) => AgentFailure::InUse { said },
            _ if has(&["not logged in", "log in", "login", "unauthorized"]) => {
                AgentFailure::NotLoggedIn { said }
            }
            _ => AgentFailure::Protocol { said: format!("codex could not open the conversation: {said}") },
        };
        self.broken(trouble, out);
    }

    /// Sends the waiting prompt, if it can be sent.
    fn start_turn(&mut self, out: &mut DriverOutput) {
        let (Some(thread), Some(turn)) = (&self.thread, &mut self.turn) else { return };
        let Some(text) = turn.unsent.take() else { return };
        let id = format!("turn-{}", turn.number);
        let input = json!([{ "type": "text", "text": text }]);
        let params = json!({ "threadId": thread, "clientUserMessageId": id, "input": input });
        self.request(&id, "turn/start", &params, out);
    }

    /// Sends the waiting texts and the interrupt of the running turn.
    fn send_pending(&mut self, out: &mut DriverOutput) {
        let (Some(thread), Some(turn)) = (&self.thread, &mut self.turn) else { return };
        let Some(id) = &turn.id else { return };
        if turn.over.is_some() {
            return;
        }
        let mut requests = Vec::new();
        for (by, text) in &mut turn.steers {
            if let Some(text) = text.take() {
                let input = json!([{ "type": "text", "text": text }]);
                let name = format!("steer-{by}");
                let params = json!({
                    "threadId": thread, "expectedTurnId": id, "clientUserMessageId": name, "input": input,
                });
                requests.push((name, "turn/steer", params));
            }
        }
        if turn.runs && turn.interrupt == InterruptState::Wanted {
            turn.interrupt = InterruptState::Sent;
            let params = json!({ "threadId": thread, "turnId": id });
            requests.push((format!("interrupt-{}", turn.number), "turn/interrupt", params));
        }
        for (name, method, params) in requests {
            self.request(&name, method, &params, out);
        }
    }

    /// Codex has our prompt, in the turn with this id.
    fn began(&mut self, id: &str, out: &mut DriverOutput) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.id.is_none() && is_id(id)) else { return };
        turn.id = Some(id.to_owned());
        if let Some(other) = self.other.take_if(|other| other.id == id) {
            turn.runs = other.runs;
            turn.until_prompt = other.runs && !other.prompted;
        }
        out.update(AgentUpdate::Began { turn: turn.number });
        self.send_pending(out);
    }

    /// The running turn of ours, if this is its id.
    fn own(&mut self, id: &str) -> Option<&mut CodexTurn> {
        self.turn.as_mut().filter(|turn| turn.id.as_deref() == Some(id) && turn.over.is_none())
    }

    /// Ends the turn of ours.
    fn over(&mut self, end: TurnEnd, out: &mut DriverOutput) {
        let Some(turn) = &mut self.turn else { return };
        // The arrival of a steered text is unknown before Codex answers: the text may have crossed the end. Codex
        // answers at once.
        if turn.steers.iter().any(|(_, text)| text.is_none()) {
            turn.over = Some(end);
            return;
        }
        let (number, unsent) = (turn.number, std::mem::take(&mut turn.steers));
        self.turn = None;
        self.last_over = Some(number);
        self.doing = AgentActivity::default();
        for (by, _) in unsent {
            out.update(AgentUpdate::Ended { turn: by, end: steer_failed("the turn was over before") });
        }
        for (request, id, refusal) in self.asks.end() {
            out.update(AgentUpdate::QuestionWithdrawn { request });
            out.line(&json!({ "id": id, "result": refusal }));
        }
        out.update(AgentUpdate::Ended { turn: number, end });
    }

    fn heard_answer(&mut self, id: &str, answer: Result<&Value, &Value>, out: &mut DriverOutput) {
        match (id, self.phase) {
            ("berth-init", CodexPhase::Greeting) => match answer {
                Ok(_) => {
                    out.line(&json!({ "method": "initialized" }));
                    self.open(out);
                }
                Err(error) => {
                    let said = format!("codex refused to begin: {}", items::reason(error));
                    self.broken(AgentFailure::Protocol { said }, out);
                }
            },
            ("berth-open", CodexPhase::Opening) => match answer {
                Ok(result) => self.opened(result, out),
                Err(error) => self.not_opened(error, out),
            },
            _ if id.starts_with("reason-") => {
                if let Err(error) = answer {
                    let why = items::reason(error);
                    self.remark(format!("the reason of an answer did not reach codex: {why}"), out);
                }
            }
            _ => match id.rsplit_once('-').map(|(what, number)| (what, number.parse())) {
                Some(("turn", Ok(number))) => self.heard_turn(number, answer, out),
                Some(("steer", Ok(by))) => self.heard_steer(by, answer, out),
                Some(("interrupt", Ok(number))) => self.heard_interrupt(number, answer),
                Some(_) | None => {}
            },
        }
    }

    fn heard_turn(&mut self, number: u64, answer: Result<&Value, &Value>, out: &mut DriverOutput) {
        let id = answer.ok().and_then(|result| result.pointer("/turn/id")).and_then(Value::as_str);
        let is_own = self.turn.as_ref().is_some_and(|turn| turn.number == number);
        match (answer, id) {
            (Ok(_), Some(id)) if is_own => self.began(id, out),
            (Ok(_), Some(id)) if is_id(id) => match &mut self.other {
                Some(other) if other.id == id => other.prompted = true,
                Some(_) | None => {
                    let id = id.to_owned();
                    self.other = Some(UnrequestedTurn { prompted: true, ..UnrequestedTurn::new(id) });
                }
            },
            (Ok(_), _) => {}
            (Err(error), _) if is_own && self.turn.as_ref().is_some_and(|turn| turn.id.is_none()) => {
                let reason = format!("codex did not take the prompt: {}", items::reason(error));
                self.over(TurnEnd::without_answer(FinalState::Failed, reason), out);
            }
            (Err(_), _) => {}
        }
    }

    fn heard_steer(&mut self, by: u64, answer: Result<&Value, &Value>, out: &mut DriverOutput) {
        let Some(turn) = &mut self.turn else { return };
        let Some(at) = turn.steers.iter().position(|(it, text)| *it == by && text.is_none()) else { return };
        turn.steers.remove(at);
        match answer {
            Ok(_) => out.update(AgentUpdate::Began { turn: by }),
            Err(error) => {
                let end = steer_failed(&items::reason(error));
                out.update(AgentUpdate::Ended { turn: by, end });
            }
        }
        if let Some(end) = self.turn.as_mut().and_then(|turn| turn.over.take()) {
            self.over(end, out);
        }
    }

    fn heard_interrupt(&mut self, number: u64, answer: Result<&Value, &Value>) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.number == number) else { return };
        // The interrupt was refused, and the turn goes on: it is sent again at the next sign of work.
        if answer.is_err() && turn.interrupt == InterruptState::Sent {
            turn.interrupt = InterruptState::Wanted;
        }
    }

    fn heard_request(&mut self, id: &Value, method: &str, params: &Value, out: &mut DriverOutput) {
        if !(id.is_number() || id.as_str().is_some_and(is_id)) {
            return self
                .remark(format!("codex asked for `{}` in a request without a valid id", line(method)), out);
        }
        let of_ours = self.thread.is_none() || self.thread.as_deref() == Some(text(params, "threadId"));
        match self.asks.ask(id, method, params, &self.changes, of_ours) {
            QuestionOutcome::Waits(ask) => out.update(AgentUpdate::Asks { ask }),
            QuestionOutcome::TooMany(refusal) => {
                out.line(&json!({ "id": id, "result": refusal }));
                self.remark("too many open questions: one was denied automatically".into(), out);
            }
            QuestionOutcome::Unknown => {
                let message = format!("berth does not support `{}`", line(method));
                out.line(&json!({ "id": id, "error": { "code": NOT_SUPPORTED, "message": message } }));
                self.remark(format!("codex asked for `{}`, which berth does not support", line(method)), out);
            }
        }
    }

    fn heard_notification(&mut self, method: &str, params: &Value, out: &mut DriverOutput) {
        let is_own_thread = self.thread.is_some() && self.thread.as_deref() == Some(text(params, "threadId"));
        match method {
            "turn/started" => self.heard_turn_started(params, is_own_thread, out),
            "turn/completed" => self.heard_turn_completed(params, is_own_thread, out),
            "item/started" | "item/completed" => {
                let is_whole = method == "item/completed";
                self.heard_item(params.get("item").unwrap_or(&Value::Null), is_whole, params, out);
            }
            "item/fileChange/patchUpdated" => self.changes.note(text(params, "itemId"), params),
            "item/agentMessage/delta" => {
                let (id, piece) = (text(params, "itemId"), text(params, "delta"));
                let turn = self.own(text(params, "turnId")).filter(|turn| !turn.until_prompt);
                if let Some(text) = turn.and_then(|turn| turn.answer.piece(id, piece)) {
                    self.doing("writing", String::new(), out);
                    out.update(AgentUpdate::Said { text });
                }
            }
            "item/reasoning/textDelta" | "item/reasoning/summaryTextDelta"
                if self.own(text(params, "turnId")).is_some() =>
            {
                self.doing("thinking", String::new(), out);
            }
            "thread/tokenUsage/updated" => self.heard_usage(params, is_own_thread, out),
            "error" => self.heard_error(params, out),
            "serverRequest/resolved" => {
                let request = params.get("requestId").and_then(|id| self.asks.resolved(id));
                out.updates.extend(request.map(|request| AgentUpdate::QuestionWithdrawn { request }));
            }
            "thread/closed" | "thread/deleted" if is_own_thread => {
                let said = format!("codex closed the conversation ({method})");
                self.broken(AgentFailure::Protocol { said }, out);
            }
            "warning" | "guardianWarning"
                if is_own_thread || params.get("threadId").is_none_or(Value::is_null) =>
            {
                self.remark(format!("codex warns: {}", line(text(params, "message"))), out);
            }
            "configWarning" => {
                let (what, more) = (line(text(params, "summary")), line(text(params, "details")));
                let more = if more.is_empty() { more } else { format!(" ({more})") };
                self.remark(format!("codex warns of its configuration: {what}{more}"), out);
            }
            // All other notifications concern other clients.
            _ => {}
        }
    }

    fn heard_turn_started(&mut self, params: &Value, is_own_thread: bool, out: &mut DriverOutput) {
        let id = params.get("turn").map_or("", |turn| text(turn, "id"));
        if let Some(turn) = self.own(id) {
            turn.runs = true;
            self.doing("thinking", String::new(), out);
            self.send_pending(out);
        } else if is_own_thread && is_id(id) {
            match &mut self.other {
                Some(other) if other.id == id => other.runs = true,
                Some(_) | None => {
                    let id = id.to_owned();
                    self.other = Some(UnrequestedTurn { runs: true, ..UnrequestedTurn::new(id) });
                }
            }
        }
    }

    fn heard_turn_completed(&mut self, params: &Value, is_own_thread: bool, out: &mut DriverOutput) {
        let over = params.get("turn").unwrap_or(&Value::Null);
        let id = text(over, "id");
        if let Some(turn) = self.own(id) {
            let end = turn.ended(over);
            return self.over(end, out);
        }
        let Some(mut other) = self.other.take_if(|other| other.id == id) else { return };
        if other.prompted || !is_own_thread {
            return;
        }
        let end = other.ended(over);
        match self.last_over {
            Some(turn) => out.update(AgentUpdate::Late { turn, end }),
            None => self.remark(format!("codex went on by itself: {}", line(&end.answer)), out),
        }
    }

    fn heard_item(&mut self, item: &Value, is_whole: bool, params: &Value, out: &mut DriverOutput) {
        let (id, kind, turn_id) = (text(item, "id"), text(item, "type"), text(params, "turnId"));
        if kind == "fileChange" {
            self.changes.note(id, item);
        }
        let number = self.turn.as_ref().map(|turn| turn.number);
        let is_prompt = kind == "userMessage"
            && number.is_some_and(|number| text(item, "clientId") == format!("turn-{number}"));
        if is_prompt {
            self.began(turn_id, out);
        }
        let is_message = kind == "agentMessage" || kind == "plan";
        if let Some(turn) = self.own(turn_id) {
            // Any item of a turn proves that the turn runs.
            turn.runs = true;
            turn.until_prompt &= !is_prompt;
            let counts = is_message && is_whole && !turn.until_prompt;
            let said = counts.then(|| turn.answer.whole(id, text(item, "text"))).flatten();
            match items::activity(item) {
                Some(_) if is_whole && !is_message => self.doing("thinking", String::new(), out),
                Some((what, detail)) => self.doing(&what, detail, out),
                None => {}
            }
            out.updates.extend(said.map(|text| AgentUpdate::Said { text }));
            self.send_pending(out);
        } else if let Some(other) = self.other.as_mut().filter(|other| other.id == turn_id)
            && is_message
            && is_whole
        {
            other.answer.whole(id, text(item, "text"));
        }
    }

    /// Usage comes as the sum of the conversation and the tokens of the last request. A value may come twice.
    fn heard_usage(&mut self, params: &Value, is_own_thread: bool, out: &mut DriverOutput) {
        let tokens = |of: &str| {
            let usage = params.pointer(of)?;
            let count = |member: &str| usage.get(member).and_then(Value::as_u64);
            Some(TokenUsage { input: count("inputTokens")?, output: count("outputTokens")? })
        };
        let Some(total) = tokens("/tokenUsage/total") else { return };
        let last = tokens("/tokenUsage/last").unwrap_or_default();
        let known = self.used;
        if let Some(turn) = self.own(text(params, "turnId")) {
            let before = turn.used.map(|(_, before)| before).or(known).unwrap_or_else(|| total.since(last));
            turn.used = Some((total.since(before), before));
            let AgentActivity { what, detail, .. } = self.doing.clone();
            self.doing(&what, detail, out);
        }
        if is_own_thread {
            self.used = Some(total);
            let count = |of: &str| params.pointer(of).and_then(Value::as_u64);
            out.holds(count("/tokenUsage/last/totalTokens"), count("/tokenUsage/modelContextWindow"));
        }
    }

    fn heard_error(&mut self, params: &Value, out: &mut DriverOutput) {
        let error = params.get("error").unwrap_or(&Value::Null);
        let will_retry = params.get("willRetry").and_then(Value::as_bool) == Some(true);
        let Some(turn) = self.own(text(params, "turnId")) else { return };
        if will_retry {
            turn.answer.discard_open();
            self.doing("retrying", line(&items::reason(error)), out);
        } else {
            turn.error = Some(CodexError::read(error));
        }
    }

    fn doing(&mut self, what: &str, detail: String, out: &mut DriverOutput) {
        let used = self.turn.as_ref().and_then(|turn| turn.used);
        let tokens =
            used.map(|(used, _)| used.input.saturating_add(used.output)).filter(|tokens| *tokens > 0);
        let activity = AgentActivity { what: what.to_owned(), detail, tokens };
        if activity != self.doing && !activity.what.is_empty() {
            self.doing = activity.clone();
            out.update(AgentUpdate::Doing { activity });
        }
    }
}

impl Driver for CodexDriver {
    fn proves(&self) -> DriverGuarantees {
        DriverGuarantees { accepted: true, ended: true, resume: true, steer: true }
    }

    fn mints(&self) -> bool {
        false
    }

    fn command_line(&self, command: &[String], _begin: &ConversationStart) -> Vec<String> {
        command.to_vec()
    }

    fn begin(&mut self, begin: &ConversationStart, cwd: &str, out: &mut DriverOutput) {
        self.begin = Some(begin.clone());
        self.cwd = cwd.to_owned();
        self.phase = CodexPhase::Greeting;
        let client = json!({ "name": "berth", "title": "berth", "version": env!("CARGO_PKG_VERSION") });
        let params =
            json!({ "clientInfo": client, "capabilities": { "optOutNotificationMethods": UNWANTED } });
        self.request("berth-init", "initialize", &params, out);
    }

    fn hear(&mut self, line: &[u8], out: &mut DriverOutput) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let Ok(Value::Object(message)) = serde_json::from_slice(line) else {
            let start = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
            return self.remark(format!("codex wrote a line that is not a message: {start}"), out);
        };
        let null = Value::Null;
        let params = message.get("params").unwrap_or(&null);
        let id = message.get("id").filter(|id| !id.is_null());
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) => self.heard_request(id, method, params, out),
            (Some(method), None) => self.heard_notification(method, params, out),
            (None, Some(Value::String(id))) => {
                let answer = match message.get("error").filter(|error| !error.is_null()) {
                    Some(error) => Err(error),
                    None => Ok(message.get("result").unwrap_or(&null)),
                };
                self.heard_answer(id, answer, out);
            }
            (None, _) => {
                self.remark("codex wrote a message that is neither a request nor a response".into(), out)
            }
        }
    }

    fn prompt(&mut self, turn: u64, text: &str, out: &mut DriverOutput) {
        self.turn = Some(CodexTurn::new(turn, text));
        self.start_turn(out);
    }

    fn steer(&mut self, by: u64, text: &str, out: &mut DriverOutput) {
        match &mut self.turn {
            Some(turn) if turn.over.is_none() && turn.steers.len() < MOST_QUEUED => {
                turn.steers.push((by, Some(text.to_owned())));
                self.send_pending(out);
            }
            Some(_) | None => {
                out.update(AgentUpdate::Ended { turn: by, end: steer_failed("no turn takes it") });
            }
        }
    }

    fn interrupt(&mut self, turn: u64, out: &mut DriverOutput) {
        if let Some(current) = self.turn.as_mut().filter(|current| current.number == turn)
            && current.interrupt == InterruptState::No
        {
            current.interrupt = InterruptState::Wanted;
            self.send_pending(out);
        }
    }

    fn answer(&mut self, request: &str, reply: &ChosenReply, out: &mut DriverOutput) {
        match self.asks.answer(request, reply) {
            CodexAnswerStep::Respond { id, result, reason } => {
                // The reason goes first: the next request to the model then has it beside the refusal.
                if let (Some(TurnText { turn, text }), Some(thread)) = (reason, &self.thread) {
                    let name = format!("reason-{request}");
                    let input = json!([{ "type": "text", "text": text }]);
                    let params = json!({ "threadId": thread, "expectedTurnId": turn, "input": input });
                    self.request(&name, "turn/steer", &params, out);
                }
                out.line(&json!({ "id": id, "result": result }));
            }
            CodexAnswerStep::AskNext(ask) => out.update(AgentUpdate::Asks { ask }),
            CodexAnswerStep::Nothing => {}
        }
    }

    fn goodbye(&mut self, _out: &mut DriverOutput) {
        // Codex exits in order when its input is closed.
    }
}

fn is_id(id: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len())
}
