//! Driver for Claude Code, in print mode with streams of JSON lines.
//!
//! One process takes many prompts. Each of our messages has an id (see `message`), and a `result` names the messages
//! that it answers. When Claude Code works by itself (a background task came back), that ends with a `result` that
//! names no message, and began with an `init` that names none. Versions that name nothing (2.1.197) at least echo a
//! message when they take it, and give the origin of a turn that they began themselves.
//!
//! A prompt is given with the priority `later`, which makes it a turn of its own with a `result` of its own, even if
//! Claude Code has just begun something by itself. Text for a running turn is given with `next`: it is taken in with
//! the next tool's result, and then the turn has one `result` for all. If no tool follows, the text becomes a turn that
//! follows at once. Then the turn that it was meant for counts as running until that one is over as well, because the
//! agent has not finished its work, and both get their own `result`.
//!
//! Promise: a turn gets the one `result` that answers it, or none; see [`Driver`].
//! Not here: stderr and the end of the process (the keeper sees both; a refused option or an id in use is reported only
//! there). Start with [`ClaudeDriver`].

mod message_ids;
mod questions;
mod round_output;
#[cfg(test)]
mod tests;
mod turn_end;

use berth_core::{ChosenReply, FinalState, MOST_ASKS, TurnEnd};
use serde_json::{Value, json};

use crate::common::{RemarkLimiter, excerpt, truncated};
use crate::{
    AgentFailure, AgentUpdate, ContextUsage, ConversationStart, Driver, DriverGuarantees, DriverOutput,
    InterruptionReason,
};
use message_ids::MessageIds;
use questions::{ClaudeAnswerStep, ClaudeQuestion, UnanswerableReason, decline_response, deny_response};
use round_output::RoundOutput;

/// Number of messages that the agent may have: the prompt, and added texts.
const MOST_MESSAGES: usize = 128;
/// Number of messages that an interrupt can name.
const MOST_NAMED: usize = 8;
/// Number of messages that a result can name.
const MOST_NAMED_BY_RESULT: usize = 64;
/// Number of retries of an interrupt that met no turn.
const MOST_TRIES: u32 = 8;
/// Longest id of a message or a conversation.
const MAX_ID_BYTES: usize = 256;

const INIT: &str = "berth-init";
const GOODBYE: &str = "berth-goodbye";
const WITHDRAWN: &str = "withdrawn before the agent began it";

/// A conversation with one process of Claude Code.
#[derive(Clone, Debug)]
pub struct ClaudeDriver {
    ids: MessageIds,
    begin: Option<ConversationStart>,
    ready: bool,
    conversation: Option<String>,
    /// Messages that were given and are not over, in the order they were given.
    open: Vec<ClaudeMessage>,
    /// End of a turn whose added text is not over yet.
    held: Option<(u64, TurnEnd)>,
    /// Number of the last turn that ended.
    last_over: Option<u64>,
    round: ClaudeRound,
    /// Number of rounds, including this one.
    rounds: u64,
    said: RoundOutput,
    /// The model that the agent named last.
    model: String,
    context: ContextUsage,
    questions: Vec<ClaudeQuestion>,
    interrupt: Option<ClaudeInterrupt>,
    remarks: RemarkLimiter,
}

/// A message that was given and is not over.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ClaudeMessage {
    turn: u64,
    /// True if the message was added to a turn and is not a turn of its own.
    added: bool,
    /// True once Claude Code confirmed the message.
    known: bool,
    /// Number of the round in which Claude Code began the message.
    began: Option<u64>,
    /// True if Claude Code took the message into a running turn.
    absorbed: bool,
}

/// Work of Claude Code, from an `init` to a `result`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClaudeRound {
    /// No work.
    Idle,
    /// Work on messages of ours.
    Ours,
    /// Other work: begun by the agent itself, or a turn that this driver does not know.
    Other,
}

/// Our request to interrupt a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ClaudeInterrupt {
    turn: u64,
    tries: u32,
    /// Answer of the agent: whether the request met a turn.
    met: Option<bool>,
}

impl ClaudeDriver {
    /// A driver for a session of ours. The id of the session goes into the ids of messages: Claude Code does not run a
    /// message whose id is in the conversation already, and another session may have written that.
    pub fn new(session: &str) -> Self {
        Self {
            ids: MessageIds::of(session),
            begin: None,
            ready: false,
            conversation: None,
            open: Vec::new(),
            held: None,
            last_over: None,
            round: ClaudeRound::Idle,
            rounds: 0,
            said: RoundOutput::default(),
            model: String::new(),
            context: ContextUsage::default(),
            questions: Vec::new(),
            interrupt: None,
            remarks: RemarkLimiter::default(),
        }
    }
}

impl Driver for ClaudeDriver {
    fn proves(&self) -> DriverGuarantees {
        DriverGuarantees { accepted: true, ended: true, resume: true, steer: true }
    }

    fn mints(&self) -> bool {
        true
    }

    fn command_line(&self, command: &[String], begin: &ConversationStart) -> Vec<String> {
        // Our options come after the given ones, so that ours win; the first of ours ends a list of values.
        let end = command.iter().position(|arg| arg == "--").unwrap_or(command.len());
        let mut line = command[..end].to_vec();
        let protocol = "-p --input-format stream-json --output-format stream-json --verbose \
            --include-partial-messages --replay-user-messages --permission-prompt-tool stdio";
        line.extend(protocol.split_whitespace().map(str::to_owned));
        let mut option = |name: &str, value: &str| line.extend([name.to_owned(), value.to_owned()]);
        let id = match begin {
            ConversationStart::New { id } => id.as_deref(),
            ConversationStart::Resume { id } => {
                option("--resume", id);
                None
            }
            ConversationStart::Fork { of, id } => {
                option("--resume", of);
                line.push("--fork-session".to_owned());
                id.as_deref()
            }
        };
        line.extend(id.into_iter().flat_map(|id| ["--session-id".to_owned(), id.to_owned()]));
        line.extend_from_slice(&command[end..]);
        line
    }

    fn begin(&mut self, begin: &ConversationStart, _cwd: &str, out: &mut DriverOutput) {
        self.begin = Some(begin.clone());
        // Claude Code sends nothing by itself. It answers this request when it has read the conversation and takes
        // prompts.
        request(INIT, json!({"subtype": "initialize"}), out);
    }

    fn hear(&mut self, line: &[u8], out: &mut DriverOutput) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let Ok(line) = serde_json::from_slice::<Value>(line) else {
            let what = String::from_utf8_lossy(&line[..line.len().min(200)]);
            self.remarks.make(format!("not JSON: {}", what.trim_end()), out);
            return;
        };
        match text(&line, "type") {
            "system" => self.system(&line, out),
            "command_lifecycle" => self.lifecycle(&line, out),
            "user" => self.echo(&line, out),
            "stream_event" => self.stream(&line, out),
            "assistant" => self.assistant(&line, out),
            "result" => self.result(&line, out),
            "control_request" => self.request(&line, out),
            "control_cancel_request" => self.withdrawn(text(&line, "request_id"), out),
            "control_response" => self.response(&line, out),
            // There are many other kinds, and new ones in every version. None of them ends a turn.
            _ => {}
        }
    }

    fn prompt(&mut self, turn: u64, text: &str, out: &mut DriverOutput) {
        self.give(turn, text, false, out);
    }

    fn steer(&mut self, by: u64, text: &str, out: &mut DriverOutput) {
        self.give(by, text, true, out);
    }

    fn interrupt(&mut self, turn: u64, out: &mut DriverOutput) {
        if self.open.is_empty() {
            return;
        }
        // An interrupt does not reach a message that was not begun yet, so those are withdrawn first. Together the two
        // miss nothing: a message that is too late for one is in time for the other.
        for message in self.open.iter().filter(|message| message.began.is_none()) {
            let id = self.ids.message(message.turn);
            let withdrawal = json!({"subtype": "cancel_async_message", "message_uuid": id});
            request(&format!("withdraw-{}", message.turn), withdrawal, out);
        }
        self.interrupt = Some(ClaudeInterrupt { turn, tries: 0, met: None });
        self.try_interrupt(out);
    }

    fn answer(&mut self, request: &str, reply: &ChosenReply, out: &mut DriverOutput) {
        let Some(at) = self.questions.iter().position(|question| question.ask.request == request) else {
            return;
        };
        match self.questions[at].answer(reply) {
            ClaudeAnswerStep::Respond(response) => {
                let question = self.questions.remove(at);
                respond(&question.id, response, out);
            }
            ClaudeAnswerStep::AskNext => {
                out.update(AgentUpdate::Asks { ask: self.questions[at].ask.clone() })
            }
            ClaudeAnswerStep::Nothing => {}
        }
    }

    fn message_id(&self, turn: u64) -> Option<String> {
        Some(self.ids.message(turn))
    }

    fn prints_record_ids(&self) -> bool {
        true
    }

    fn goodbye(&mut self, out: &mut DriverOutput) {
        // Without this the process would stay for as long as a background task runs.
        request(GOODBYE, json!({"subtype": "end_session"}), out);
    }
}

/// Messages to the agent.
impl ClaudeDriver {
    fn give(&mut self, turn: u64, text: &str, added: bool, out: &mut DriverOutput) {
        if self.open.iter().any(|message| message.turn == turn) {
            return;
        }
        if self.open.len() >= MOST_MESSAGES {
            let reason = format!("more than {MOST_MESSAGES} messages are with the agent");
            out.update(AgentUpdate::Ended { turn, end: TurnEnd::without_answer(FinalState::Failed, reason) });
            return;
        }
        self.open.push(ClaudeMessage { turn, added, known: false, began: None, absorbed: false });
        out.line(&json!({
            "type": "user",
            "uuid": self.ids.message(turn),
            "priority": if added { "next" } else { "later" },
            "message": {"role": "user", "content": text},
        }));
    }

    fn try_interrupt(&mut self, out: &mut DriverOutput) {
        let Some(interrupt) = self.interrupt.as_mut().filter(|interrupt| interrupt.tries < MOST_TRIES) else {
            return;
        };
        interrupt.tries += 1;
        interrupt.met = None;
        let id = match interrupt.tries {
            1 => format!("interrupt-{}", interrupt.turn),
            again => format!("interrupt-{}-{again}", interrupt.turn),
        };
        // The messages are named, so that an interrupt that crosses the end of the turn does not interrupt another one.
        let open = self.open.iter().map(|message| message.turn);
        let turns: Vec<u64> = self.held.iter().map(|(turn, _)| *turn).chain(open).collect();
        let first = turns.first().copied();
        let others = turns.iter().skip(1).rev().take(MOST_NAMED - 1).copied();
        let named: Vec<String> = first.into_iter().chain(others).map(|turn| self.ids.message(turn)).collect();
        request(&id, json!({"subtype": "interrupt", "for_user_message_uuids": named}), out);
    }

    /// Notes that a message of ours is being worked on. An interrupt that missed it is sent again.
    fn is_at_work(&mut self, out: &mut DriverOutput) {
        let missed = self.interrupt.as_ref().is_some_and(|interrupt| interrupt.met == Some(false));
        if missed && self.round == ClaudeRound::Ours {
            self.try_interrupt(out);
        }
    }
}

/// Requests and answers beside the turns.
impl ClaudeDriver {
    fn response(&mut self, line: &Value, out: &mut DriverOutput) {
        let Some(response) = line.get("response") else { return };
        let succeeded = text(response, "subtype") == "success";
        match text(response, "request_id") {
            INIT if self.ready => {}
            INIT if succeeded => {
                self.ready = true;
                // A new conversation exists once its first prompt does.
                if let Some(ConversationStart::Resume { id }) = self.begin.clone() {
                    self.is_in(&id, out);
                }
                out.update(AgentUpdate::Ready);
            }
            INIT => {
                let said = excerpt(text(response, "error"));
                out.update(AgentUpdate::Broken { trouble: AgentFailure::Protocol { said } });
            }
            id if id.starts_with("interrupt-") => {
                let turn = response.get("response").map(|response| text(response, "turn"));
                if let Some(interrupt) = &mut self.interrupt {
                    // Versions without this field met any running turn.
                    interrupt.met = Some(!matches!(turn, Some("idle" | "spared")));
                }
            }
            id => {
                // Versions without `command_lifecycle` report it only here. Our own answers are also echoed.
                let turn = id.strip_prefix("withdraw-").and_then(|turn| turn.parse().ok());
                let done = response.get("response").and_then(|response| response.get("cancelled")?.as_bool());
                let open = |turn: &u64| self.open.iter().any(|one| one.turn == *turn && one.began.is_none());
                if let Some(turn) = turn.filter(open).filter(|_| done == Some(true)) {
                    self.over(&[turn], TurnEnd::without_answer(FinalState::Interrupted, WITHDRAWN), out);
                }
            }
        }
    }

    fn request(&mut self, line: &Value, out: &mut DriverOutput) {
        let (id, Some(asked)) = (text(line, "request_id"), line.get("request")) else { return };
        if id.is_empty() || self.questions.iter().any(|question| question.id == id) {
            return;
        }
        match ClaudeQuestion::read(id, asked) {
            Ok(_) if self.questions.len() >= MOST_ASKS => {
                let answer = if text(asked, "subtype") == "elicitation" {
                    decline_response()
                } else {
                    deny_response(None)
                };
                respond(id, answer, out);
                self.remarks.make("too many open questions: one was denied automatically", out);
            }
            Ok(question) => {
                out.update(AgentUpdate::Asks { ask: question.ask.clone() });
                self.questions.push(question);
            }
            Err(UnanswerableReason::Decline) => {
                respond(id, decline_response(), out);
                let server = excerpt(text(asked, "mcp_server_name"));
                self.remarks.make(format!("the MCP server {server} wanted input: declined"), out);
            }
            Err(UnanswerableReason::Leave) => {}
            Err(UnanswerableReason::NotSupported) => {
                let error = json!({"subtype": "error", "request_id": id, "error": "not supported"});
                out.line(&json!({"type": "control_response", "response": error}));
                let what = excerpt(text(asked, "subtype"));
                self.remarks
                    .make(format!("the agent sent a request that berth does not support: {what}"), out);
            }
        }
    }

    fn withdrawn(&mut self, id: &str, out: &mut DriverOutput) {
        if let Some(at) = self.questions.iter().position(|question| question.id == id) {
            let request = self.questions.remove(at).ask.request;
            out.update(AgentUpdate::QuestionWithdrawn { request });
        }
    }

    fn is_in(&mut self, id: &str, out: &mut DriverOutput) {
        if id.is_empty() || id.len() > MAX_ID_BYTES || self.conversation.as_deref() == Some(id) {
            return;
        }
        self.conversation = Some(id.to_owned());
        self.context.used = None;
        out.update(AgentUpdate::Conversation { id: id.to_owned() });
    }
}

/// State of the messages.
impl ClaudeDriver {
    fn system(&mut self, line: &Value, out: &mut DriverOutput) {
        match text(line, "subtype") {
            "init" => {
                self.is_in(text(line, "session_id"), out);
                self.uses(text(line, "model"), out);
                self.said = RoundOutput::default();
                self.round = ClaudeRound::Other;
                self.rounds += 1;
                let named: Vec<u64> =
                    message_ids(line).into_iter().filter_map(|id| self.ids.turn(id)).collect();
                for turn in named {
                    self.took(turn, false, out);
                }
                self.is_at_work(out);
            }
            "status" => {
                if text(line, "status") == "compacting" {
                    self.set_activity("compacting", "", out);
                }
                self.is_at_work(out);
            }
            "compact_boundary" => {
                self.said.is_compacted = true;
                let left = line.get("compact_metadata").and_then(|about| about.get("post_tokens")?.as_u64());
                self.holds(left, out);
            }
            "api_retry" => {
                let number = |name| line.get(name).and_then(Value::as_u64).unwrap_or(0);
                let (attempt, most, status) =
                    (number("attempt"), number("max_retries"), number("error_status"));
                let detail = format!("the API answered {status}: retry {attempt} of {most}");
                self.set_activity("retrying", &detail, out);
            }
            _ => {}
        }
    }

    fn lifecycle(&mut self, line: &Value, out: &mut DriverOutput) {
        let Some(turn) = self.ids.turn(text(line, "command_uuid")) else { return };
        let Some(message) = self.open.iter_mut().find(|message| message.turn == turn) else { return };
        let state = text(line, "state");
        match state {
            "queued" => message.known = true,
            "started" => {
                message.known = true;
                let absorbed = self.round != ClaudeRound::Idle;
                self.took(turn, absorbed, out);
            }
            "completed" | "cancelled" | "discarded" | "refused" => {
                // The result of the turn that absorbed it is still to come. A message of its own has had its result by
                // now.
                if message.absorbed && message.known {
                    return;
                }
                let (state, reason) = match (state, message.known, message.began.is_some()) {
                    ("completed", false, _) => (
                        FinalState::Failed,
                        "Claude Code had a message of this id before, and did not run it again",
                    ),
                    ("completed", true, _) => (FinalState::Done, ""),
                    ("cancelled" | "discarded", _, false) => (FinalState::Interrupted, WITHDRAWN),
                    ("cancelled" | "discarded", _, true) => {
                        (FinalState::Interrupted, InterruptionReason::WithoutResult.reason())
                    }
                    _ => (FinalState::Failed, "refused by the agent"),
                };
                let mut end = TurnEnd::without_answer(state, reason);
                if message.began.is_some() && self.round == ClaudeRound::Ours {
                    (end.answer, end.cut) = std::mem::take(&mut self.said.all).into_parts();
                    self.round = ClaudeRound::Idle;
                }
                end.reason = end.reason.filter(|reason| !reason.is_empty());
                self.over(&[turn], end, out);
            }
            _ => {}
        }
    }

    /// Echo of a message of ours when it is taken. It is the only sign in versions that name nothing.
    fn echo(&mut self, line: &Value, out: &mut DriverOutput) {
        let is_echo = line.get("isReplay").and_then(Value::as_bool).unwrap_or(false);
        // A message that is not run because its id is known is echoed as well, but then no turn is running.
        if is_echo && self.round != ClaudeRound::Idle {
            if let Some(turn) = self.ids.turn(text(line, "uuid")) {
                self.took(turn, true, out);
            } else {
                self.local_output(line, out);
            }
            self.is_at_work(out);
        }
    }

    /// Notes that the agent works on this message now.
    fn took(&mut self, turn: u64, absorbed: bool, out: &mut DriverOutput) {
        let Some(message) = self.open.iter_mut().find(|message| message.turn == turn) else { return };
        let round = std::mem::replace(&mut self.round, ClaudeRound::Ours);
        if message.began.is_none() {
            // A message that starts between rounds begins the round that is announced next.
            message.began = Some(self.rounds + u64::from(round == ClaudeRound::Idle));
            message.absorbed = absorbed;
            out.update(AgentUpdate::Began { turn });
        }
        if round == ClaudeRound::Other && !self.said.all.is_empty() {
            // Versions that name nothing echo a message only after the first piece of the answer.
            out.update(AgentUpdate::Said { text: self.said.all.text().to_owned() });
        }
    }

    fn result(&mut self, line: &Value, out: &mut DriverOutput) {
        let round = std::mem::replace(&mut self.round, ClaudeRound::Idle);
        let said = std::mem::take(&mut self.said).all;
        // A driver that reads only the lines since a prompt has not seen that the agent was ready.
        if !self.ready && self.rounds == 0 && self.begin.is_some() && message_ids(line).is_empty() {
            let trouble = self.trouble(line);
            out.update(AgentUpdate::Broken { trouble });
            return;
        }
        let window = turn_end::context_window(line, &self.model).filter(|_| self.context.used.is_some());
        if window.is_some_and(|window| self.context.window != Some(window)) {
            self.context.window = window;
            self.holds(self.context.used, out);
        }
        let not_logged_in = turn_end::not_logged_in(line);
        let end = turn_end::read(line, said);
        if end.state == FinalState::Interrupted {
            // Questions of helpers may still be open: helpers go on after the turn.
            let (open, gone) = std::mem::take(&mut self.questions).into_iter().partition(|one| one.of_helper);
            self.questions = open;
            let gone: Vec<ClaudeQuestion> = gone;
            out.updates.extend(
                gone.into_iter().map(|one| AgentUpdate::QuestionWithdrawn { request: one.ask.request }),
            );
        }
        let named = message_ids(line);
        let ours: Vec<u64> = named.iter().filter_map(|id| self.ids.turn(id)).collect();
        let by_itself =
            line.get("origin").is_some_and(|origin| !matches!(text(origin, "kind"), "" | "human"));
        let rounds = self.rounds;
        let answers = |message: &&ClaudeMessage| {
            let took = message.began == Some(rounds) && round == ClaudeRound::Ours;
            if named.is_empty() {
                took && (message.absorbed || !by_itself)
            } else {
                // The list of names has a limit: some absorbed messages may be missing.
                let is_full = named.len() >= MOST_NAMED_BY_RESULT;
                ours.contains(&message.turn) || (took && message.absorbed && is_full)
            }
        };
        let answered: Vec<u64> = self.open.iter().filter(answers).map(|message| message.turn).collect();
        if !answered.is_empty() {
            self.over(&answered, end, out);
        } else if let Some(turn) = ours.last() {
            // A turn that this driver does not know: it reads the lines of an earlier driver.
            self.last_over = Some(*turn);
        } else if let Some(turn) = self.last_over {
            out.update(AgentUpdate::Late { turn, end });
        } else {
            self.remarks.make("the agent worked without having been asked", out);
        }
        if let Some(said) = not_logged_in {
            out.update(AgentUpdate::Broken { trouble: AgentFailure::NotLoggedIn { said } });
        }
    }

    fn uses(&mut self, model: &str, out: &mut DriverOutput) {
        let model = truncated(model, MAX_ID_BYTES);
        if model != self.model {
            // The next result reports the window of the new model.
            self.context.window = None;
            model.clone_into(&mut self.model);
        }
        out.uses(model);
    }

    /// Reports the tokens in the context now.
    fn holds(&mut self, used: Option<u64>, out: &mut DriverOutput) {
        self.context.used = used;
        out.holds(used, self.context.window);
    }

    /// The reason that the agent ends instead of becoming ready.
    fn trouble(&self, result: &Value) -> AgentFailure {
        let said = turn_end::complaint(result);
        let wanted = match &self.begin {
            Some(ConversationStart::Resume { id }) => Some(id),
            Some(ConversationStart::Fork { of, .. }) => Some(of),
            Some(ConversationStart::New { .. }) | None => None,
        };
        let missing = said.contains("No conversation found") || said.contains("does not match any session");
        let held = text(result, "startup_failure_reason") == "session_held_by_background"
            || said.contains("is running in the background");
        match wanted {
            Some(id) if missing => AgentFailure::NoConversation { id: id.clone() },
            Some(_) | None if held => AgentFailure::InUse { said },
            Some(_) | None => AgentFailure::Protocol { said },
        }
    }

    /// Ends these messages with this answer.
    fn over(&mut self, turns: &[u64], end: TurnEnd, out: &mut DriverOutput) {
        let (done, open) =
            std::mem::take(&mut self.open).into_iter().partition(|message| turns.contains(&message.turn));
        self.open = open;
        let done: Vec<ClaudeMessage> = done;
        if let Some(whole) = done.iter().find(|message| !message.added) {
            // Text that was added to it has no end yet.
            self.held = Some((whole.turn, end));
        } else if let Some((last, others)) = done.split_last() {
            let reason = format!("answered together with turn {}", last.turn);
            for message in others {
                let end = TurnEnd::without_answer(end.state, reason.clone());
                out.update(AgentUpdate::Ended { turn: message.turn, end });
            }
            out.update(AgentUpdate::Ended { turn: last.turn, end });
        }
        if self.open.is_empty() {
            if let Some((turn, end)) = self.held.take() {
                out.update(AgentUpdate::Ended { turn, end });
                self.last_over = Some(turn);
            }
            self.interrupt = None;
        } else if let Some(interrupt) = &mut self.interrupt {
            interrupt.met = Some(false);
        }
    }
}

fn request(id: &str, request: Value, out: &mut DriverOutput) {
    out.line(&json!({"type": "control_request", "request_id": id, "request": request}));
}

fn respond(id: &str, response: Value, out: &mut DriverOutput) {
    let response = json!({"subtype": "success", "request_id": id, "response": response});
    out.line(&json!({"type": "control_response", "response": response}));
}

/// The text of a field; empty if absent.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The messages that a line names.
fn message_ids(line: &Value) -> Vec<&str> {
    let all = line.get("user_message_uuids").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match (all, text(line, "user_message_uuid")) {
        ([], "") => Vec::new(),
        ([], only) => vec![only],
        (all, _) => all.iter().filter_map(Value::as_str).collect(),
    }
}
