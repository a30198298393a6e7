//! Claude Code, in print mode with streams of JSON lines.
//!
//! One process takes many prompts. Each of our messages has an id (see `message`), and a `result` says which messages
//! it answers. What Claude Code does by itself (a background task came back) ends with a `result` that names no
//! message, and an `init` that names none began it. Versions that name nothing (2.1.197) at least echo a message when
//! they take it, and say of a turn that they began themselves where it came from.
//!
//! A prompt is given with the priority `later`, which makes it a turn of its own with a `result` of its own, even if
//! Claude Code has just begun something by itself. Text for a running turn is given with `next`: it is taken
//! in with the next tool's result, and then the turn has one `result` for all. If no tool comes any more, it becomes
//! a turn that follows at once: then the turn it was for counts as running until that is over, too, because
//! the agent has not finished what it was asked, and both get their own `result`.
//!
//! Promise: a turn gets the one `result` that answers it, or none; see [`Driver`].
//! Not here: stderr and the end of the process (the keeper sees both; a refused option or an id that
//! is in use is said only there). Start with [`Claude`].

mod ask;
mod end;
mod message;
mod said;
#[cfg(test)]
mod tests;

use berth_core::{Final, MOST_ASKS, Reply, TurnEnd};
use serde_json::{Value, json};

use crate::common::{Remarks, quote, within};
use crate::{Begin, Context, Driver, Interruption, Out, Proves, Trouble, Update};
use ask::{Question, Then, Unanswerable, declined, denied};
use message::Ids;
use said::Said;

/// How many messages may be with the agent: the prompt, and text that was added.
const MOST_MESSAGES: usize = 128;
/// How many messages an interrupt can name.
const MOST_NAMED: usize = 8;
/// How many messages a result can name.
const MOST_NAMED_BY_RESULT: usize = 64;
/// How often an interrupt that met no turn is tried again.
const MOST_TRIES: u32 = 8;
/// The longest id of a message or a conversation.
const MAX_ID_BYTES: usize = 256;

const INIT: &str = "berth-init";
const GOODBYE: &str = "berth-goodbye";
const WITHDRAWN: &str = "withdrawn before the agent began it";

/// A conversation with one process of Claude Code.
#[derive(Clone, Debug)]
pub struct Claude {
    ids: Ids,
    begin: Option<Begin>,
    ready: bool,
    conversation: Option<String>,
    /// Messages that were given and are not over, in the order they were given.
    open: Vec<Message>,
    /// The end of a turn whose added text is not over yet.
    held: Option<(u64, TurnEnd)>,
    /// The turn that was over last.
    last_over: Option<u64>,
    round: Round,
    /// How many rounds there were, this one included.
    rounds: u64,
    said: Said,
    /// The model that it named last.
    model: String,
    context: Context,
    questions: Vec<Question>,
    interrupt: Option<Interrupt>,
    remarks: Remarks,
}

/// A message that was given and is not over.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Message {
    turn: u64,
    /// Added to a turn, rather than a turn of its own.
    added: bool,
    /// Claude Code said that it has it.
    known: bool,
    /// It works on it, since this round.
    began: Option<u64>,
    /// It took it into something that was running.
    absorbed: bool,
}

/// What Claude Code works on, from an `init` to a `result`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Round {
    /// Nothing.
    Idle,
    /// Messages of ours.
    Ours,
    /// Something else: it began by itself, or it is a turn that we were not told of.
    Other,
}

/// We asked it to break off.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Interrupt {
    turn: u64,
    tries: u32,
    /// What it said: whether that met a turn.
    met: Option<bool>,
}

impl Claude {
    /// A driver for a session of ours. Its id goes into the ids of messages: Claude Code does not run a
    /// message whose id is in the conversation already, and other sessions may have written that.
    pub fn new(session: &str) -> Self {
        Self {
            ids: Ids::of(session),
            begin: None,
            ready: false,
            conversation: None,
            open: Vec::new(),
            held: None,
            last_over: None,
            round: Round::Idle,
            rounds: 0,
            said: Said::default(),
            model: String::new(),
            context: Context::default(),
            questions: Vec::new(),
            interrupt: None,
            remarks: Remarks::default(),
        }
    }
}

impl Driver for Claude {
    fn proves(&self) -> Proves {
        Proves { accepted: true, ended: true, resume: true, steer: true }
    }

    fn mints(&self) -> bool {
        true
    }

    fn command_line(&self, command: &[String], begin: &Begin) -> Vec<String> {
        // Behind the options that were given, so that ours win; the first of ours ends a list of values.
        let end = command.iter().position(|arg| arg == "--").unwrap_or(command.len());
        let mut line = command[..end].to_vec();
        let protocol = "-p --input-format stream-json --output-format stream-json --verbose \
            --include-partial-messages --replay-user-messages --permission-prompt-tool stdio";
        line.extend(protocol.split_whitespace().map(str::to_owned));
        let mut option = |name: &str, value: &str| line.extend([name.to_owned(), value.to_owned()]);
        let id = match begin {
            Begin::New { id } => id.as_deref(),
            Begin::Resume { id } => {
                option("--resume", id);
                None
            }
            Begin::Fork { of, id } => {
                option("--resume", of);
                line.push("--fork-session".to_owned());
                id.as_deref()
            }
        };
        line.extend(id.into_iter().flat_map(|id| ["--session-id".to_owned(), id.to_owned()]));
        line.extend_from_slice(&command[end..]);
        line
    }

    fn begin(&mut self, begin: &Begin, _cwd: &str, out: &mut Out) {
        self.begin = Some(begin.clone());
        // It says nothing by itself. It answers this when it has read the conversation and takes prompts.
        request(INIT, json!({"subtype": "initialize"}), out);
    }

    fn hear(&mut self, line: &[u8], out: &mut Out) {
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
            // There are many more, and new ones in every version. None of them ends a turn.
            _ => {}
        }
    }

    fn prompt(&mut self, turn: u64, text: &str, out: &mut Out) {
        self.give(turn, text, false, out);
    }

    fn steer(&mut self, by: u64, text: &str, out: &mut Out) {
        self.give(by, text, true, out);
    }

    fn interrupt(&mut self, turn: u64, out: &mut Out) {
        if self.open.is_empty() {
            return;
        }
        // An interrupt does not reach what it has not begun yet, so that is withdrawn first. Both miss nothing:
        // whichever comes too late for one is in time for the other.
        for message in self.open.iter().filter(|message| message.began.is_none()) {
            let id = self.ids.message(message.turn);
            let withdrawal = json!({"subtype": "cancel_async_message", "message_uuid": id});
            request(&format!("withdraw-{}", message.turn), withdrawal, out);
        }
        self.interrupt = Some(Interrupt { turn, tries: 0, met: None });
        self.try_interrupt(out);
    }

    fn answer(&mut self, request: &str, reply: &Reply, out: &mut Out) {
        let Some(at) = self.questions.iter().position(|question| question.ask.request == request) else {
            return;
        };
        match self.questions[at].answer(reply) {
            Then::Respond(response) => {
                let question = self.questions.remove(at);
                respond(&question.id, response, out);
            }
            Then::AskNext => out.update(Update::Asks { ask: self.questions[at].ask.clone() }),
            Then::Nothing => {}
        }
    }

    fn message_id(&self, turn: u64) -> Option<String> {
        Some(self.ids.message(turn))
    }

    fn prints_record_ids(&self) -> bool {
        true
    }

    fn goodbye(&mut self, out: &mut Out) {
        // Without this it would stay for as long as something runs in the background.
        request(GOODBYE, json!({"subtype": "end_session"}), out);
    }
}

/// Our side.
impl Claude {
    fn give(&mut self, turn: u64, text: &str, added: bool, out: &mut Out) {
        if self.open.iter().any(|message| message.turn == turn) {
            return;
        }
        if self.open.len() >= MOST_MESSAGES {
            let reason = format!("more than {MOST_MESSAGES} messages are with the agent");
            out.update(Update::Ended { turn, end: TurnEnd::without_answer(Final::Failed, reason) });
            return;
        }
        self.open.push(Message { turn, added, known: false, began: None, absorbed: false });
        out.line(&json!({
            "type": "user",
            "uuid": self.ids.message(turn),
            "priority": if added { "next" } else { "later" },
            "message": {"role": "user", "content": text},
        }));
    }

    fn try_interrupt(&mut self, out: &mut Out) {
        let Some(interrupt) = self.interrupt.as_mut().filter(|interrupt| interrupt.tries < MOST_TRIES) else {
            return;
        };
        interrupt.tries += 1;
        interrupt.met = None;
        let id = match interrupt.tries {
            1 => format!("interrupt-{}", interrupt.turn),
            again => format!("interrupt-{}-{again}", interrupt.turn),
        };
        // Named, so that one that crosses the end of the turn on its way breaks off nothing else.
        let open = self.open.iter().map(|message| message.turn);
        let turns: Vec<u64> = self.held.iter().map(|(turn, _)| *turn).chain(open).collect();
        let first = turns.first().copied();
        let others = turns.iter().skip(1).rev().take(MOST_NAMED - 1).copied();
        let named: Vec<String> = first.into_iter().chain(others).map(|turn| self.ids.message(turn)).collect();
        request(&id, json!({"subtype": "interrupt", "for_user_message_uuids": named}), out);
    }

    /// Something of ours is being worked on. If it was to be broken off and was missed, try again.
    fn is_at_work(&mut self, out: &mut Out) {
        let missed = self.interrupt.as_ref().is_some_and(|interrupt| interrupt.met == Some(false));
        if missed && self.round == Round::Ours {
            self.try_interrupt(out);
        }
    }
}

/// What is answered and asked beside the turns.
impl Claude {
    fn response(&mut self, line: &Value, out: &mut Out) {
        let Some(response) = line.get("response") else { return };
        let succeeded = text(response, "subtype") == "success";
        match text(response, "request_id") {
            INIT if self.ready => {}
            INIT if succeeded => {
                self.ready = true;
                // A new conversation is there when its first prompt is.
                if let Some(Begin::Resume { id }) = self.begin.clone() {
                    self.is_in(&id, out);
                }
                out.update(Update::Ready);
            }
            INIT => {
                let said = quote(text(response, "error"));
                out.update(Update::Broken { trouble: Trouble::Protocol { said } });
            }
            id if id.starts_with("interrupt-") => {
                let turn = response.get("response").map(|response| text(response, "turn"));
                if let Some(interrupt) = &mut self.interrupt {
                    // Versions that do not say met whatever there was.
                    interrupt.met = Some(!matches!(turn, Some("idle" | "spared")));
                }
            }
            id => {
                // Versions without `command_lifecycle` say it only here. Our answers come back as an echo, too.
                let turn = id.strip_prefix("withdraw-").and_then(|turn| turn.parse().ok());
                let done = response.get("response").and_then(|response| response.get("cancelled")?.as_bool());
                let open = |turn: &u64| self.open.iter().any(|one| one.turn == *turn && one.began.is_none());
                if let Some(turn) = turn.filter(open).filter(|_| done == Some(true)) {
                    self.over(&[turn], TurnEnd::without_answer(Final::Interrupted, WITHDRAWN), out);
                }
            }
        }
    }

    fn request(&mut self, line: &Value, out: &mut Out) {
        let (id, Some(asked)) = (text(line, "request_id"), line.get("request")) else { return };
        if id.is_empty() || self.questions.iter().any(|question| question.id == id) {
            return;
        }
        match Question::read(id, asked) {
            Ok(_) if self.questions.len() >= MOST_ASKS => {
                let answer = if text(asked, "subtype") == "elicitation" { declined() } else { denied(None) };
                respond(id, answer, out);
                self.remarks.make("too many questions at once: one was answered with no", out);
            }
            Ok(question) => {
                out.update(Update::Asks { ask: question.ask.clone() });
                self.questions.push(question);
            }
            Err(Unanswerable::Decline) => {
                respond(id, declined(), out);
                let server = quote(text(asked, "mcp_server_name"));
                self.remarks.make(format!("the MCP server {server} wanted input: declined"), out);
            }
            Err(Unanswerable::Leave) => {}
            Err(Unanswerable::NotSupported) => {
                let error = json!({"subtype": "error", "request_id": id, "error": "not supported"});
                out.line(&json!({"type": "control_response", "response": error}));
                let what = quote(text(asked, "subtype"));
                self.remarks.make(format!("it asked for something that berth does not know: {what}"), out);
            }
        }
    }

    fn withdrawn(&mut self, id: &str, out: &mut Out) {
        if let Some(at) = self.questions.iter().position(|question| question.id == id) {
            let request = self.questions.remove(at).ask.request;
            out.update(Update::Unasked { request });
        }
    }

    fn is_in(&mut self, id: &str, out: &mut Out) {
        if id.is_empty() || id.len() > MAX_ID_BYTES || self.conversation.as_deref() == Some(id) {
            return;
        }
        self.conversation = Some(id.to_owned());
        self.context.used = None;
        out.update(Update::Conversation { id: id.to_owned() });
    }
}

/// Where a message stands.
impl Claude {
    fn system(&mut self, line: &Value, out: &mut Out) {
        match text(line, "subtype") {
            "init" => {
                self.is_in(text(line, "session_id"), out);
                self.uses(text(line, "model"), out);
                self.said = Said::default();
                self.round = Round::Other;
                self.rounds += 1;
                let named: Vec<u64> = named(line).into_iter().filter_map(|id| self.ids.turn(id)).collect();
                for turn in named {
                    self.took(turn, false, out);
                }
                self.is_at_work(out);
            }
            "status" => {
                if text(line, "status") == "compacting" {
                    self.does("compacting", "", out);
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
                self.does("retrying", &detail, out);
            }
            _ => {}
        }
    }

    fn lifecycle(&mut self, line: &Value, out: &mut Out) {
        let Some(turn) = self.ids.turn(text(line, "command_uuid")) else { return };
        let Some(message) = self.open.iter_mut().find(|message| message.turn == turn) else { return };
        let state = text(line, "state");
        match state {
            "queued" => message.known = true,
            "started" => {
                message.known = true;
                let absorbed = self.round != Round::Idle;
                self.took(turn, absorbed, out);
            }
            "completed" | "cancelled" | "discarded" | "refused" => {
                // The result of what took it in is still to come. A message of its own has had it by now.
                if message.absorbed && message.known {
                    return;
                }
                let (state, reason) = match (state, message.known, message.began.is_some()) {
                    ("completed", false, _) => (
                        Final::Failed,
                        "Claude Code had a message of this id before, and did not run it again",
                    ),
                    ("completed", true, _) => (Final::Done, ""),
                    ("cancelled" | "discarded", _, false) => (Final::Interrupted, WITHDRAWN),
                    ("cancelled" | "discarded", _, true) => {
                        (Final::Interrupted, Interruption::WithoutResult.reason())
                    }
                    _ => (Final::Failed, "refused by the agent"),
                };
                let mut end = TurnEnd::without_answer(state, reason);
                if message.began.is_some() && self.round == Round::Ours {
                    (end.answer, end.cut) = std::mem::take(&mut self.said.all).into_parts();
                    self.round = Round::Idle;
                }
                end.reason = end.reason.filter(|reason| !reason.is_empty());
                self.over(&[turn], end, out);
            }
            _ => {}
        }
    }

    /// A message of ours comes back when it is taken. Where that is all there is, it has to do.
    fn echo(&mut self, line: &Value, out: &mut Out) {
        let is_echo = line.get("isReplay").and_then(Value::as_bool).unwrap_or(false);
        // One that is not run at all, because its id is known, comes back too: but then nothing is running.
        if is_echo && self.round != Round::Idle {
            if let Some(turn) = self.ids.turn(text(line, "uuid")) {
                self.took(turn, true, out);
            } else {
                self.local_output(line, out);
            }
            self.is_at_work(out);
        }
    }

    /// It works on this message now.
    fn took(&mut self, turn: u64, absorbed: bool, out: &mut Out) {
        let Some(message) = self.open.iter_mut().find(|message| message.turn == turn) else { return };
        let round = std::mem::replace(&mut self.round, Round::Ours);
        if message.began.is_none() {
            // One that it starts in between begins the round that is about to be announced.
            message.began = Some(self.rounds + u64::from(round == Round::Idle));
            message.absorbed = absorbed;
            out.update(Update::Began { turn });
        }
        if round == Round::Other && !self.said.all.is_empty() {
            // Versions that name nothing echo a message only after the first of the answer.
            out.update(Update::Said { text: self.said.all.text().to_owned() });
        }
    }

    fn result(&mut self, line: &Value, out: &mut Out) {
        let round = std::mem::replace(&mut self.round, Round::Idle);
        let said = std::mem::take(&mut self.said).all;
        // Who reads only what was written since a prompt has not heard that it was ready.
        if !self.ready && self.rounds == 0 && self.begin.is_some() && named(line).is_empty() {
            let trouble = self.trouble(line);
            out.update(Update::Broken { trouble });
            return;
        }
        let window = end::context_window(line, &self.model).filter(|_| self.context.used.is_some());
        if window.is_some_and(|window| self.context.window != Some(window)) {
            self.context.window = window;
            self.holds(self.context.used, out);
        }
        let not_logged_in = end::not_logged_in(line);
        let end = end::read(line, said);
        if end.state == Final::Interrupted {
            // What its helpers asked may still be open: they are not broken off with the turn.
            let (open, gone) = std::mem::take(&mut self.questions).into_iter().partition(|one| one.of_helper);
            self.questions = open;
            let gone: Vec<Question> = gone;
            out.updates.extend(gone.into_iter().map(|one| Update::Unasked { request: one.ask.request }));
        }
        let named = named(line);
        let ours: Vec<u64> = named.iter().filter_map(|id| self.ids.turn(id)).collect();
        let by_itself =
            line.get("origin").is_some_and(|origin| !matches!(text(origin, "kind"), "" | "human"));
        let rounds = self.rounds;
        let answers = |message: &&Message| {
            let took = message.began == Some(rounds) && round == Round::Ours;
            if named.is_empty() {
                took && (message.absorbed || !by_itself)
            } else {
                // It has room for so many names: some that it took in may be missing.
                let is_full = named.len() >= MOST_NAMED_BY_RESULT;
                ours.contains(&message.turn) || (took && message.absorbed && is_full)
            }
        };
        let answered: Vec<u64> = self.open.iter().filter(answers).map(|message| message.turn).collect();
        if !answered.is_empty() {
            self.over(&answered, end, out);
        } else if let Some(turn) = ours.last() {
            // Of a turn that this driver was not told of: it is reading what an earlier one heard.
            self.last_over = Some(*turn);
        } else if let Some(turn) = self.last_over {
            out.update(Update::Late { turn, end });
        } else {
            self.remarks.make("it did something without having been asked", out);
        }
        if let Some(said) = not_logged_in {
            out.update(Update::Broken { trouble: Trouble::NotLoggedIn { said } });
        }
    }

    fn uses(&mut self, model: &str, out: &mut Out) {
        let model = within(model, MAX_ID_BYTES);
        if model != self.model {
            // The next result tells how large the window of this one is.
            self.context.window = None;
            model.clone_into(&mut self.model);
        }
        out.uses(model);
    }

    /// What it has in its context now.
    fn holds(&mut self, used: Option<u64>, out: &mut Out) {
        self.context.used = used;
        out.holds(used, self.context.window);
    }

    /// Why it ends instead of becoming ready.
    fn trouble(&self, result: &Value) -> Trouble {
        let said = end::complaint(result);
        let wanted = match &self.begin {
            Some(Begin::Resume { id }) => Some(id),
            Some(Begin::Fork { of, .. }) => Some(of),
            Some(Begin::New { .. }) | None => None,
        };
        let missing = said.contains("No conversation found") || said.contains("does not match any session");
        let held = text(result, "startup_failure_reason") == "session_held_by_background"
            || said.contains("is running in the background");
        match wanted {
            Some(id) if missing => Trouble::NoConversation { id: id.clone() },
            Some(_) | None if held => Trouble::InUse { said },
            Some(_) | None => Trouble::Protocol { said },
        }
    }

    /// These messages are over, and this is the answer to them.
    fn over(&mut self, turns: &[u64], end: TurnEnd, out: &mut Out) {
        let (done, open) =
            std::mem::take(&mut self.open).into_iter().partition(|message| turns.contains(&message.turn));
        self.open = open;
        let done: Vec<Message> = done;
        if let Some(whole) = done.iter().find(|message| !message.added) {
            // What was added to it has no end of its own.
            self.held = Some((whole.turn, end));
        } else if let Some((last, others)) = done.split_last() {
            let reason = format!("answered together with turn {}", last.turn);
            for message in others {
                let end = TurnEnd::without_answer(end.state, reason.clone());
                out.update(Update::Ended { turn: message.turn, end });
            }
            out.update(Update::Ended { turn: last.turn, end });
        }
        if self.open.is_empty() {
            if let Some((turn, end)) = self.held.take() {
                out.update(Update::Ended { turn, end });
                self.last_over = Some(turn);
            }
            self.interrupt = None;
        } else if let Some(interrupt) = &mut self.interrupt {
            interrupt.met = Some(false);
        }
    }
}

fn request(id: &str, request: Value, out: &mut Out) {
    out.line(&json!({"type": "control_request", "request_id": id, "request": request}));
}

fn respond(id: &str, response: Value, out: &mut Out) {
    let response = json!({"subtype": "success", "request_id": id, "response": response});
    out.line(&json!({"type": "control_response", "response": response}));
}

/// The text of a field; empty if there is none.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The messages that a line says it belongs to.
fn named(line: &Value) -> Vec<&str> {
    let all = line.get("user_message_uuids").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match (all, text(line, "user_message_uuid")) {
        ([], "") => Vec::new(),
        ([], only) => vec![only],
        (all, _) => all.iter().filter_map(Value::as_str).collect(),
    }
}
