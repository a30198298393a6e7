//! The Agent Client Protocol, version 1: how we talk to any agent that speaks it.
//!
//! What we send are the types of the official schema. What we hear is read with tolerance: an update, a
//! stop reason or a capability of next year must not fail a turn of today. Why there is no more of the
//! official library in it: `docs/design/acp-without-the-sdk.md`.
//! Promise: as all drivers. ACP has no word for "I have your prompt", so [`Update::Began`] comes with the
//! first thing that the agent does after it; and history replayed when a conversation is loaded is not said again.
//! Not here: JSON-RPC (`rpc`), words for tools (`tool`), the text of a turn (`answer`).
//! Start with [`Acp::hear`].

mod answer;
#[cfg(test)]
mod tests;
mod tool;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, CLIENT_METHOD_NAMES, CancelNotification, ClientCapabilities,
    ClientSessionCapabilities, CloseSessionRequest, ForkSessionRequest, Implementation, InitializeRequest,
    LoadSessionRequest, NewSessionRequest, NoticeCapabilities, PROTOCOL_LEVEL_METHOD_NAMES, PromptRequest,
    RequestPermissionOutcome, RequestPermissionResponse, ResumeSessionRequest, SelectedPermissionOutcome,
};
use berth_core::{AskKind, AskOption, Final, MOST_ASKS, TurnEnd};
use serde_json::{Value, json};

use crate::rpc::{self, Incoming, Problem};
use crate::{Activity, Begin, Driver, Out, Proves, Trouble, Update};
use answer::{Answer, MAX_NOTICE_BYTES};
use tool::{Calls, MAX_ID_BYTES};

/// Why a turn failed whose agent stopped with `max_tokens`.
pub const MAX_TOKENS: &str = "the answer came to the limit of tokens";
/// The same with `max_turn_requests`.
pub const MAX_TURN_REQUESTS: &str = "the turn came to the agent's limit of requests to its model";
/// The same with `refusal`.
pub const REFUSAL: &str = "the agent refused to go on";

/// How many remarks a run may give.
const MOST_REMARKS: u32 = 20;
/// How much of a line that nobody understands is shown.
const MAX_SHOWN_BYTES: usize = 200;
/// How many notices are known again.
const MOST_NOTICES: usize = 8;
/// How many texts for a running turn may be without an answer of the agent.
const MOST_STEERS: usize = 64;
/// Text for a running turn: no part of the protocol yet, but what both adapters of its authors offer.
const STEER_METHOD: &str = "_session/steering";

/// What Claude Code begins a new conversation with.
const RESETS: [&str; 3] = ["/clear", "/reset", "/new"];

const INIT: &str = "berth-init";
const OPEN: &str = "berth-open";
/// A new conversation, because the one asked for is not there.
const ANEW: &str = "berth-anew";
const CLOSE: &str = "berth-close";

/// An agent that speaks ACP.
#[derive(Debug)]
pub struct Acp {
    phase: Phase,
    /// The prompt was given by another driver: what is heard is a run of the past, with other turns in it, and only
    /// the end of this one is to be told.
    is_late: bool,
    able: Able,
    /// How one may log in, for people.
    logins: Vec<String>,
    /// What the agent calls the session on the wire.
    session: Option<String>,
    turn: Option<Running>,
    /// The turn that was over last.
    last: Option<u64>,
    /// What it said since then.
    late: Answer,
    asked: Vec<Asked>,
    /// Texts for a running turn that the agent has not said anything about.
    steers: Vec<u64>,
    calls: Calls,
    doing: Activity,
    remarks: u32,
    /// The last few things it wanted people to know: agents say the same with every turn.
    notices: Vec<String>,
}

/// How far it is.
#[derive(Debug)]
enum Phase {
    /// Nothing was said.
    New,
    /// It was asked what it is able to do.
    Introducing { begin: Begin, cwd: String },
    /// It was asked for the conversation.
    Opening { begin: Begin },
    /// It does not have the conversation it was asked for. It may have been asked for a new one since.
    Gone,
    /// It takes prompts.
    Ready,
    /// It is of no use.
    Broken,
}

/// What the agent says that it is able to do.
#[derive(Debug, Default)]
struct Able {
    load: bool,
    resume: bool,
    fork: bool,
    close: bool,
    steer: bool,
    /// Begin a new conversation without a word about what it is called.
    move_in_silence: bool,
}

/// The turn that is running.
#[derive(Debug)]
struct Running {
    turn: u64,
    began: bool,
    /// We asked for its end.
    interrupted: bool,
    /// Somebody said no to what the agent asked.
    refused: bool,
    /// The agent said that something failed, and nothing since that would take it back.
    failing: bool,
    answer: Answer,
}

/// What the agent asked, and waits for.
#[derive(Debug)]
struct Asked {
    request: String,
    id: Value,
    options: Vec<AskOption>,
}

impl Acp {
    /// A driver that has heard nothing yet.
    pub fn new() -> Self {
        Self {
            phase: Phase::New,
            is_late: false,
            able: Able::default(),
            logins: Vec::new(),
            session: None,
            turn: None,
            last: None,
            late: Answer::default(),
            asked: Vec::new(),
            steers: Vec::new(),
            calls: Calls::default(),
            doing: Activity::default(),
            remarks: 0,
            notices: Vec::new(),
        }
    }

    fn is_ready(&self) -> bool {
        match self.phase {
            Phase::Ready => true,
            Phase::New | Phase::Introducing { .. } | Phase::Opening { .. } | Phase::Gone | Phase::Broken => {
                false
            }
        }
    }

    /// Whether what the agent does now is done now, and not history.
    fn is_live(&self) -> bool {
        self.is_ready() && !self.is_late
    }

    fn remark(&mut self, what: String, out: &mut Out) {
        self.remarks = self.remarks.saturating_add(1);
        match self.remarks {
            ..=MOST_REMARKS => out.update(Update::Remark { what }),
            n if n == MOST_REMARKS + 1 => {
                out.update(Update::Remark { what: "there is more to remark, which is left out".to_owned() });
            }
            _ => {}
        }
    }

    fn broken(&mut self, trouble: Trouble, out: &mut Out) {
        self.phase = Phase::Broken;
        out.update(Update::Broken { trouble });
    }

    fn protocol_trouble(&mut self, said: impl Into<String>, out: &mut Out) {
        self.broken(Trouble::Protocol { said: said.into() }, out);
    }

    /// The answer to one of our requests.
    fn answered(&mut self, id: &str, result: Result<Value, Problem>, out: &mut Out) {
        let number = |prefix| id.strip_prefix(prefix).and_then(|number| number.parse::<u64>().ok());
        if id == INIT {
            self.introduced(result, out);
        } else if (id == OPEN && !matches!(self.phase, Phase::Gone)) || id == ANEW {
            self.opened(result, out);
        } else if let Some(turn) = number("turn-") {
            self.over(turn, result, out);
        } else if let Some(by) = number("steer-") {
            self.steered(by, result, out);
        }
    }

    fn introduced(&mut self, result: Result<Value, Problem>, out: &mut Out) {
        let Phase::Introducing { begin, cwd } = &mut self.phase else { return };
        let begin = std::mem::replace(begin, Begin::New { id: None });
        let cwd = std::mem::take(cwd);
        let said = match result {
            Ok(said) => said,
            Err(problem) if problem.code == rpc::AUTH_REQUIRED => return self.not_logged_in(&problem, out),
            Err(problem) => return self.protocol_trouble(problem.said(), out),
        };
        let version = said["protocolVersion"].as_u64();
        if version.is_some_and(|version| version != 1) {
            let what =
                format!("the agent speaks version {} of ACP, and not version 1", said["protocolVersion"]);
            return self.protocol_trouble(what, out);
        }
        let offered = &said["agentCapabilities"];
        let has =
            |name: &str| !matches!(offered["sessionCapabilities"][name], Value::Null | Value::Bool(false));
        self.able = Able {
            load: offered["loadSession"].as_bool().unwrap_or(false),
            resume: has("resume"),
            fork: has("fork"),
            close: has("close"),
            steer: said["_meta"]["steering"]["supported"].as_bool().unwrap_or(false),
            move_in_silence: said["agentInfo"]["name"]
                .as_str()
                .is_some_and(|it| it.contains("claude-agent-acp")),
        };
        let logins = said["authMethods"].as_array().into_iter().flatten().take(8);
        self.logins =
            logins.filter_map(|it| Some(tool::line(it["name"].as_str()?, MAX_SHOWN_BYTES))).collect();
        self.open(begin, cwd, out);
    }

    fn open(&mut self, begin: Begin, cwd: String, out: &mut Out) {
        let methods = AGENT_METHOD_NAMES;
        let name = if matches!(self.phase, Phase::Gone) { ANEW } else { OPEN };
        match &begin {
            Begin::New { .. } => rpc::request(out, name, methods.session_new, &NewSessionRequest::new(cwd)),
            Begin::Resume { id } if self.able.resume => {
                let params = ResumeSessionRequest::new(id.clone(), cwd);
                rpc::request(out, OPEN, methods.session_resume, &params);
            }
            Begin::Resume { id } if self.able.load => {
                let params = LoadSessionRequest::new(id.clone(), cwd);
                rpc::request(out, OPEN, methods.session_load, &params);
            }
            Begin::Resume { .. } => {
                return self.protocol_trouble("the agent cannot take up a conversation again", out);
            }
            Begin::Fork { of, .. } if self.able.fork => {
                rpc::request(out, OPEN, methods.session_fork, &ForkSessionRequest::new(of.clone(), cwd));
            }
            Begin::Fork { .. } => return self.protocol_trouble("the agent cannot fork a conversation", out),
        }
        self.phase = Phase::Opening { begin };
    }

    fn opened(&mut self, result: Result<Value, Problem>, out: &mut Out) {
        let begin = match &self.phase {
            Phase::Opening { begin } => begin,
            Phase::Gone => &Begin::New { id: None },
            Phase::New | Phase::Introducing { .. } | Phase::Ready | Phase::Broken => return,
        };
        let wanted = match begin {
            Begin::New { .. } => None,
            Begin::Resume { id } | Begin::Fork { of: id, .. } => Some(id.clone()),
        };
        let known = match begin {
            Begin::Resume { id } => Some(id.clone()),
            Begin::New { .. } | Begin::Fork { .. } => None,
        };
        let said = match result {
            Ok(said) => said,
            Err(problem) => return self.not_opened(&problem, wanted, out),
        };
        let told = said["sessionId"].as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES);
        let Some(id) = told.map(str::to_owned).or(known) else {
            return self.protocol_trouble("the agent did not say what its session is called", out);
        };
        self.phase = Phase::Ready;
        self.session = Some(id.clone());
        // What came until now was history.
        self.calls.clear();
        if let Some(turn) = &mut self.turn {
            turn.answer = Answer::default();
        }
        out.update(Update::Conversation { id });
        out.update(Update::Ready);
    }

    fn not_opened(&mut self, problem: &Problem, wanted: Option<String>, out: &mut Out) {
        const GONE: [&str; 8] = [
            "not found",
            "no rollout",
            "unknown session",
            "no such session",
            "does not exist",
            "does not match any session",
            "no conversation",
            "invalid session id",
        ];
        const IN_USE: [&str; 2] = ["in use by", "active writer"];
        let said = problem.said();
        let small = said.to_lowercase();
        let is = |words: &[&str]| words.iter().any(|word| small.contains(word));
        match wanted {
            _ if problem.code == rpc::AUTH_REQUIRED => self.not_logged_in(problem, out),
            Some(_) if is(&IN_USE) => self.broken(Trouble::InUse { said }, out),
            Some(id) if problem.code == rpc::NOT_FOUND || is(&GONE) => {
                self.phase = Phase::Gone;
                out.update(Update::Broken { trouble: Trouble::NoConversation { id } });
            }
            Some(_) | None => self.protocol_trouble(said, out),
        }
    }

    fn not_logged_in(&mut self, problem: &Problem, out: &mut Out) {
        let mut said = problem.said();
        if !self.logins.is_empty() {
            said.push_str(&format!(" (it offers: {})", self.logins.join(", ")));
        }
        self.broken(Trouble::NotLoggedIn { said }, out);
    }

    /// A prompt was answered.
    fn over(&mut self, turn: u64, result: Result<Value, Problem>, out: &mut Out) {
        let Some(running) = self.turn.take_if(|running| running.turn == turn) else {
            if let Some(running) = self.turn.as_mut().filter(|_| self.is_late) {
                running.answer = Answer::default();
                running.failing = false;
            }
            return;
        };
        self.unask_all(out);
        for by in std::mem::take(&mut self.steers) {
            let why = "the turn was over before the agent said whether it took the text";
            out.update(Update::Ended { turn: by, end: TurnEnd::without_answer(Final::Unknown, why) });
            self.steers.push(by);
        }
        self.calls.clear();
        self.doing = Activity::default();
        self.late = Answer::default();
        self.last = Some(turn);
        let end = self.end(running, result, out);
        out.update(Update::Ended { turn, end });
    }

    fn end(&mut self, running: Running, result: Result<Value, Problem>, out: &mut Out) -> TurnEnd {
        let (said, (state, reason)) = match result {
            Ok(said) => {
                let stop = said["stopReason"].as_str().unwrap_or_default();
                let how = self.stopped(stop, &running, out);
                (said, how)
            }
            Err(problem) => {
                let reason = match problem.code {
                    rpc::AUTH_REQUIRED => format!("not logged in or wrong key: {}", problem.said()),
                    _ => problem.said(),
                };
                let state = if running.interrupted { Final::Interrupted } else { Final::Failed };
                (Value::Null, (state, Some(reason)))
            }
        };
        let count = |name: &str| said["usage"][name].as_u64();
        let output_tokens = count("outputTokens");
        // Some count what came from a cache as input, some beside it. The sum has it in any case.
        let input_tokens = match (count("totalTokens"), output_tokens) {
            (Some(total), Some(output)) => total.checked_sub(output),
            _ => count("inputTokens"),
        };
        let Answer { text: answer, cut, .. } = running.answer;
        TurnEnd { state, reason, answer, cut, input_tokens, output_tokens }
    }

    fn stopped(&mut self, stop: &str, running: &Running, out: &mut Out) -> (Final, Option<String>) {
        let why = match stop {
            // codex-acp says so after errors of its model, too. What it calls the state of its thread does not lie.
            "end_turn" if running.failing => {
                let notice = running.answer.notice.trim();
                let why = if notice.is_empty() { "the agent reports an error" } else { notice };
                return (Final::Failed, Some(why.to_owned()));
            }
            "end_turn" => return (Final::Done, None),
            "cancelled" => {
                let why = match (running.interrupted, running.refused) {
                    (true, _) => "broken off",
                    (false, true) => "the agent broke it off after it was refused a permission",
                    (false, false) => "the agent broke it off",
                };
                return (Final::Interrupted, Some(why.to_owned()));
            }
            "max_tokens" => MAX_TOKENS,
            "max_turn_requests" => MAX_TURN_REQUESTS,
            "refusal" => REFUSAL,
            _ => {
                let stop = tool::line(stop, MAX_SHOWN_BYTES);
                self.remark(
                    format!("turn {} ended for a reason we do not know: `{stop}`", running.turn),
                    out,
                );
                return (Final::Done, None);
            }
        };
        (Final::Failed, Some(why.to_owned()))
    }

    /// The agent said what it did with a text for a running turn.
    fn steered(&mut self, by: u64, result: Result<Value, Problem>, out: &mut Out) {
        let Some(at) = self.steers.iter().position(|steer| *steer == by) else { return };
        self.steers.remove(at);
        let why = match result {
            Ok(said) if said["outcome"] != "promptRequired" => {
                if self.turn.is_some() {
                    out.update(Update::Began { turn: by });
                }
                return;
            }
            Ok(_) => "the turn it was meant for was over: the agent did nothing with it".to_owned(),
            Err(problem) => format!("the agent did not take it: {}", problem.said()),
        };
        out.update(Update::Ended { turn: by, end: TurnEnd::without_answer(Final::Failed, why) });
    }

    /// The agent wants something.
    fn requested(&mut self, id: Value, method: &str, params: &Value, out: &mut Out) {
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
        let ask = self.calls.ask(request.clone(), params);
        if ask.options.is_empty() || self.asked.len() >= MOST_ASKS {
            cancelled(&id, out);
            let what = if ask.options.is_empty() { "without options" } else { "too many of them" };
            return self.remark(format!("a permission request was not passed on: {what}"), out);
        }
        self.began(out);
        self.asked.push(Asked { request, id, options: ask.options.clone() });
        out.update(Update::Asks { ask });
    }

    /// The agent tells something.
    fn told(&mut self, method: &str, params: &Value, out: &mut Out) {
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
            "usage_update" if !update["_meta"]["_claude/origin"].is_null() => self.tell_late(out),
            // Commands, modes, settings, usage, and what there will be next year: nothing that a turn needs.
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

    /// The agent does something that it does for a prompt.
    fn began(&mut self, out: &mut Out) {
        let is_live = self.is_live();
        if let Some(turn) = &mut self.turn
            && is_live
            && !turn.began
        {
            turn.began = true;
            out.update(Update::Began { turn: turn.turn });
        }
    }

    fn does(&mut self, what: &str, detail: &str, out: &mut Out) {
        let is_news = self.doing.what != what || self.doing.detail != detail;
        if is_news && self.turn.is_some() && self.is_live() {
            self.doing = Activity { what: what.to_owned(), detail: detail.to_owned(), tokens: None };
            out.update(Update::Doing { activity: self.doing.clone() });
        }
    }

    /// What was said after the last turn is complete, as far as one can know.
    fn tell_late(&mut self, out: &mut Out) {
        let Answer { text: answer, cut, .. } = std::mem::take(&mut self.late);
        if let Some(turn) = self.last.filter(|_| !answer.is_empty()) {
            let (state, reason) = (Final::Done, None);
            let end = TurnEnd { state, reason, answer, cut, input_tokens: None, output_tokens: None };
            out.update(Update::Late { turn, end });
        }
    }

    /// The protocol wants every request answered, also those that nobody will answer any more.
    fn unask(&mut self, at: usize, out: &mut Out) {
        let asked = self.asked.remove(at);
        cancelled(&asked.id, out);
        out.update(Update::Unasked { request: asked.request });
    }

    fn unask_all(&mut self, out: &mut Out) {
        while !self.asked.is_empty() {
            self.unask(0, out);
        }
    }
}

impl Default for Acp {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver for Acp {
    fn proves(&self) -> Proves {
        let resume = self.able.resume || self.able.load;
        Proves { accepted: false, ended: true, resume, steer: self.able.steer }
    }

    fn mints(&self) -> bool {
        false
    }

    fn command_line(&self, command: &[String], _begin: &Begin) -> Vec<String> {
        command.to_vec()
    }

    fn begin(&mut self, begin: &Begin, cwd: &str, out: &mut Out) {
        // Without the word for notices, agents put their warnings into the answer.
        let session = ClientSessionCapabilities::new().notices(NoticeCapabilities::new());
        let params = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new().session(session))
            .client_info(Implementation::new("berth", env!("CARGO_PKG_VERSION")));
        rpc::request(out, INIT, AGENT_METHOD_NAMES.initialize, &params);
        self.phase = Phase::Introducing { begin: begin.clone(), cwd: cwd.to_owned() };
        // History that is replayed comes under this name; a fork's name is not known yet.
        self.session = match begin {
            Begin::Resume { id } => Some(id.clone()),
            Begin::New { .. } | Begin::Fork { .. } => None,
        };
    }

    fn begin_anew(&mut self, cwd: &str, out: &mut Out) -> bool {
        let is_gone = matches!(self.phase, Phase::Gone);
        if is_gone {
            self.session = None;
            self.open(Begin::New { id: None }, cwd.to_owned(), out);
        }
        is_gone
    }

    fn hear(&mut self, line: &[u8], out: &mut Out) {
        match rpc::read(line) {
            Incoming::Answer { id, result } => self.answered(&id, result, out),
            Incoming::Request { id, method, params } => self.requested(id, &method, &params, out),
            Incoming::Notification { method, params } => self.told(&method, &params, out),
            Incoming::Garbage => {
                let shown = &line[..line.len().min(MAX_SHOWN_BYTES)];
                self.remark(format!("a line that is no message: {}", String::from_utf8_lossy(shown)), out);
            }
            Incoming::Stray | Incoming::Nothing => {}
        }
    }

    fn prompt(&mut self, turn: u64, text: &str, out: &mut Out) {
        self.tell_late(out);
        if let Some(session) = self.session.as_deref().filter(|_| self.is_ready()) {
            let params = PromptRequest::new(session.to_owned(), vec![text.into()]);
            rpc::request(out, &format!("turn-{turn}"), AGENT_METHOD_NAMES.session_prompt, &params);
        }
        let command = text.split_whitespace().next().unwrap_or_default();
        if self.able.move_in_silence && RESETS.contains(&command) {
            let what = "this agent does not say what a conversation is called that begins with";
            self.remark(format!("{what} {command}: a later run will take up the one before it"), out);
        }
        let answer = Answer::default();
        self.is_late |= !self.is_ready();
        let (began, interrupted, refused, failing) = (false, false, false, false);
        self.turn = Some(Running { turn, began, interrupted, refused, failing, answer });
    }

    fn steer(&mut self, by: u64, text: &str, out: &mut Out) {
        let room = self.steers.len() < MOST_STEERS;
        let Some(session) =
            self.session.as_deref().filter(|_| self.able.steer && self.turn.is_some() && room)
        else {
            let why = "the agent takes no text into a turn that is running";
            return out.update(Update::Ended { turn: by, end: TurnEnd::without_answer(Final::Failed, why) });
        };
        // Without the last member an agent that is just done would begin a turn that we know nothing of.
        let params = json!({
            "sessionId": session,
            "prompt": [{"type": "text", "text": text}],
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        });
        rpc::request(out, &format!("steer-{by}"), STEER_METHOD, &params);
        self.steers.push(by);
    }

    fn interrupt(&mut self, turn: u64, out: &mut Out) {
        let Some(running) = self.turn.as_mut().filter(|running| running.turn == turn) else { return };
        running.interrupted = true;
        if let Some(session) = self.session.clone().filter(|_| self.is_ready()) {
            rpc::notify(out, AGENT_METHOD_NAMES.session_cancel, &CancelNotification::new(session));
        }
        self.unask_all(out);
    }

    fn answer(&mut self, request: &str, choice: &str, out: &mut Out) {
        let wanted = |asked: &Asked| {
            asked.request == request && asked.options.iter().any(|option| option.id == choice)
        };
        let Some(at) = self.asked.iter().position(wanted) else { return };
        let asked = self.asked.remove(at);
        let kind = asked.options.iter().find(|option| option.id == choice).map(|option| option.kind);
        let is_no = match kind {
            Some(AskKind::RejectOnce | AskKind::RejectAlways) => true,
            Some(AskKind::AllowOnce | AskKind::AllowAlways | AskKind::Other) | None => false,
        };
        if let Some(turn) = &mut self.turn {
            turn.refused |= is_no;
        }
        let selected = SelectedPermissionOutcome::new(choice.to_owned());
        let outcome = RequestPermissionOutcome::Selected(selected);
        rpc::answer(out, &asked.id, &RequestPermissionResponse::new(outcome));
    }

    fn goodbye(&mut self, out: &mut Out) {
        self.tell_late(out);
        if let Some(session) = self.session.clone().filter(|_| self.able.close && self.is_ready()) {
            rpc::request(out, CLOSE, AGENT_METHOD_NAMES.session_close, &CloseSessionRequest::new(session));
        }
    }
}

/// What a request of the agent is called by us.
fn name_of(id: &Value) -> Option<String> {
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
