//! The Agent Client Protocol, version 1: how we talk to any agent that speaks it.
//!
//! What we send are the types of the official schema. What we hear is read with tolerance: an update, a
//! stop reason or a capability of next year must not fail a turn of today. Why there is no more of the
//! official library in it: `docs/design/acp-without-the-sdk.md`.
//! Promise: as all drivers. ACP has no word for "I have your prompt", so [`Update::Began`] comes with the
//! first thing that the agent does after it; and history replayed when a conversation is loaded is not said again.
//! Not here: JSON-RPC (`rpc`).
//! Start with [`Acp::hear`]; then `open` (how a conversation is had), `update` (what the agent tells), `asks` (what it
//! wants to know), `turn` (how one begins and ends), `answer` (its text), `tool` (words for tools).

mod answer;
mod asks;
mod open;
#[cfg(test)]
mod tests;
mod tool;
mod turn;
mod update;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, CancelNotification, ClientCapabilities, ClientSessionCapabilities,
    CloseSessionRequest, Implementation, InitializeRequest, NoticeCapabilities, PromptRequest,
    RequestPermissionOutcome, RequestPermissionResponse, SelectedPermissionOutcome,
};
use berth_core::{AskKind, Final, Reply, TurnEnd};
use serde_json::{Value, json};

use crate::rpc::{self, Incoming, Problem};
use crate::{Activity, Begin, Driver, Out, Proves, Trouble, Update};
use answer::Answer;
use asks::Asked;
use tool::Calls;

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

/// The reason of a refusal: its name is this and that of the question.
const REASON: &str = "reason-";
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
        } else if let Some(request) = id.strip_prefix(REASON) {
            self.reason_given(request, result, out);
        }
    }
}

/// Gives the agent a text for the turn that is running, under this name.
fn steer_with(session: &str, name: &str, text: &str, out: &mut Out) {
    // Without the last member an agent that is just done would begin a turn that we know nothing of.
    let params = json!({
        "sessionId": session,
        "prompt": [{"type": "text", "text": text}],
        "_meta": {"steering": {"idleBehavior": "promptRequired"}},
    });
    rpc::request(out, name, STEER_METHOD, &params);
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
                self.remark(format!("a line that is not a message: {}", String::from_utf8_lossy(shown)), out);
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
        steer_with(session, &format!("steer-{by}"), text, out);
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

    fn answer(&mut self, request: &str, reply: &Reply, out: &mut Out) {
        let [choice] = reply.chosen.as_slice() else { return };
        let wanted = |asked: &Asked| {
            asked.request == request && asked.options.iter().any(|option| option.id == choice.id)
        };
        let Some(at) = self.asked.iter().position(wanted) else { return };
        let asked = self.asked.remove(at);
        let kind = asked.options.iter().find(|option| option.id == choice.id).map(|option| option.kind);
        if let Some(turn) = &mut self.turn {
            turn.refused |= kind.is_some_and(AskKind::is_refusal);
        }
        let selected = SelectedPermissionOutcome::new(choice.id.clone());
        let outcome = RequestPermissionOutcome::Selected(selected);
        // The protocol has no field for a reason. It goes first: an agent that ends its turn for being refused has it then.
        if let (Some(reason), Some(session)) = (&reply.text, self.session.as_deref()) {
            steer_with(session, &format!("{REASON}{request}"), reason, out);
        }
        rpc::answer(out, &asked.id, &RequestPermissionResponse::new(outcome));
    }

    fn goodbye(&mut self, out: &mut Out) {
        self.tell_late(out);
        if let Some(session) = self.session.clone().filter(|_| self.able.close && self.is_ready()) {
            rpc::request(out, CLOSE, AGENT_METHOD_NAMES.session_close, &CloseSessionRequest::new(session));
        }
    }
}
