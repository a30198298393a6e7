//! Driver for the Agent Client Protocol, version 1.
//!
//! Our messages are built from the types of the official schema. Messages of the agent are read with tolerance: a new
//! kind of update, stop reason or capability must not fail a turn. The reasons against more of the official library:
//! `docs/design/acp-without-the-sdk.md`.
//! Promise: that of all drivers. ACP has no message for "I have your prompt", so [`AgentUpdate::Began`] is sent with the
//! first sign of work after the prompt; history that is replayed when a conversation is loaded is not repeated.
//! Not here: JSON-RPC (`rpc`).
//! Start with [`AcpDriver::hear`]; then `open` (taking up a conversation), `update` (notifications of the agent), `asks` (its
//! questions), `turn` (start and end of a turn), `answer` (its text), `tool` (descriptions of tools).

mod answer;
mod conversation;
mod requests;
#[cfg(test)]
mod tests;
mod tool_call;
mod turn;
mod update;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, CancelNotification, ClientCapabilities, ClientSessionCapabilities,
    CloseSessionRequest, Implementation, InitializeRequest, NoticeCapabilities, PromptRequest,
    RequestPermissionOutcome, RequestPermissionResponse, SelectedPermissionOutcome,
};
use berth_core::{ChosenReply, FinalState, QuestionOptionKind, TurnEnd};
use serde_json::{Value, json};

use crate::rpc::{self, RpcError, RpcMessage};
use crate::{
    AgentActivity, AgentFailure, AgentUpdate, ConversationStart, Driver, DriverGuarantees, DriverOutput,
};
use answer::AcpAnswer;
use requests::AcpPendingRequest;
use tool_call::OpenToolCalls;

/// Reason of a failed turn whose agent stopped with `max_tokens`.
pub const MAX_TOKENS: &str = "the answer reached the token limit";
/// Reason of a failed turn whose agent stopped with `max_turn_requests`.
pub const MAX_TURN_REQUESTS: &str = "the turn reached the agent's limit of model requests";
/// Reason of a failed turn whose agent stopped with `refusal`.
pub const REFUSAL: &str = "the agent refused to go on";

/// Number of remarks that one run can make.
const MOST_REMARKS: u32 = 20;
/// Size limit of an invalid line in a remark.
const MAX_SHOWN_BYTES: usize = 200;
/// Number of recent notices that are compared, to drop repeated ones.
const MOST_NOTICES: usize = 8;
/// Number of texts for a running turn that the agent has not answered yet.
const MOST_STEERS: usize = 64;
/// Method for text into a running turn: not in the protocol yet, but both adapters of its authors have it.
const STEER_METHOD: &str = "_session/steering";

/// Commands with which Claude Code begins a new conversation.
const RESETS: [&str; 3] = ["/clear", "/reset", "/new"];

/// Prefix of the request that carries the reason of a refusal; the name of the question follows.
const REASON: &str = "reason-";
const INIT: &str = "berth-init";
const OPEN: &str = "berth-open";
/// Request for a new conversation, when the requested one does not exist.
const REPLACEMENT_ID: &str = "berth-anew";
const CLOSE: &str = "berth-close";

/// An agent that speaks ACP.
#[derive(Debug)]
pub struct AcpDriver {
    phase: AcpPhase,
    /// True if another driver gave the prompt: the lines are a past run with other turns in it, and only the end of
    /// this turn is reported.
    is_late: bool,
    able: AcpCapabilities,
    /// Login methods of the agent, for people.
    logins: Vec<String>,
    /// Id of the session on the wire.
    session: Option<String>,
    turn: Option<AcpTurn>,
    /// Number of the last turn that ended.
    last: Option<u64>,
    /// Text of the agent since then.
    late: AcpAnswer,
    asked: Vec<AcpPendingRequest>,
    /// Texts for a running turn that the agent has not answered yet.
    steers: Vec<u64>,
    calls: OpenToolCalls,
    doing: AgentActivity,
    remarks: u32,
    /// The latest notices: agents repeat them with every turn.
    notices: Vec<String>,
}

/// Progress of opening a conversation.
#[derive(Debug)]
enum AcpPhase {
    /// Nothing was sent yet.
    New,
    /// The agent was asked for its abilities.
    Introducing { begin: ConversationStart, cwd: String },
    /// The agent was asked to open the conversation.
    Opening { begin: ConversationStart },
    /// The agent does not have the requested conversation. A new one may have been requested since.
    Gone,
    /// The agent takes prompts.
    Ready,
    /// The agent cannot be used.
    Broken,
}

/// Abilities that the agent reports.
#[derive(Debug, Default)]
struct AcpCapabilities {
    load: bool,
    resume: bool,
    fork: bool,
    close: bool,
    steer: bool,
    /// True if the agent may begin a new conversation without reporting its id.
    move_in_silence: bool,
}

/// The running turn.
#[derive(Debug)]
struct AcpTurn {
    turn: u64,
    began: bool,
    /// True once we asked the agent to end the turn.
    interrupted: bool,
    /// True once a permission of this turn was refused.
    refused: bool,
    /// True after an error of the agent that no later message took back.
    failing: bool,
    answer: AcpAnswer,
}

impl AcpDriver {
    /// A driver before its first message.
    pub fn new() -> Self {
        Self {
            phase: AcpPhase::New,
            is_late: false,
            able: AcpCapabilities::default(),
            logins: Vec::new(),
            session: None,
            turn: None,
            last: None,
            late: AcpAnswer::default(),
            asked: Vec::new(),
            steers: Vec::new(),
            calls: OpenToolCalls::default(),
            doing: AgentActivity::default(),
            remarks: 0,
            notices: Vec::new(),
        }
    }

    fn is_ready(&self) -> bool {
        match self.phase {
            AcpPhase::Ready => true,
            AcpPhase::New
            | AcpPhase::Introducing { .. }
            | AcpPhase::Opening { .. }
            | AcpPhase::Gone
            | AcpPhase::Broken => false,
        }
    }

    /// True if messages of the agent are live, not history.
    fn is_live(&self) -> bool {
        self.is_ready() && !self.is_late
    }

    fn remark(&mut self, what: String, out: &mut DriverOutput) {
        self.remarks = self.remarks.saturating_add(1);
        match self.remarks {
            ..=MOST_REMARKS => out.update(AgentUpdate::Remark { what }),
            n if n == MOST_REMARKS + 1 => {
                out.update(AgentUpdate::Remark {
                    what: "there is more to remark, which is left out".to_owned(),
                });
            }
            _ => {}
        }
    }

    fn broken(&mut self, trouble: AgentFailure, out: &mut DriverOutput) {
        self.phase = AcpPhase::Broken;
        out.update(AgentUpdate::Broken { trouble });
    }

    fn protocol_trouble(&mut self, said: impl Into<String>, out: &mut DriverOutput) {
        self.broken(AgentFailure::Protocol { said: said.into() }, out);
    }

    /// Handles the answer to one of our requests.
    fn answered(&mut self, id: &str, result: Result<Value, RpcError>, out: &mut DriverOutput) {
        let number = |prefix| id.strip_prefix(prefix).and_then(|number| number.parse::<u64>().ok());
        if id == INIT {
            self.on_initialized(result, out);
        } else if (id == OPEN && !matches!(self.phase, AcpPhase::Gone)) || id == REPLACEMENT_ID {
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

/// Sends text for the running turn, as a request with this name.
fn steer_with(session: &str, name: &str, text: &str, out: &mut DriverOutput) {
    // Without the last member an agent that has just finished would begin a turn that is unknown to us.
    let params = json!({
        "sessionId": session,
        "prompt": [{"type": "text", "text": text}],
        "_meta": {"steering": {"idleBehavior": "promptRequired"}},
    });
    rpc::send_request(out, name, STEER_METHOD, &params);
}

impl Default for AcpDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver for AcpDriver {
    fn proves(&self) -> DriverGuarantees {
        let resume = self.able.resume || self.able.load;
        DriverGuarantees { accepted: false, ended: true, resume, steer: self.able.steer }
    }

    fn mints(&self) -> bool {
        false
    }

    fn command_line(&self, command: &[String], _begin: &ConversationStart) -> Vec<String> {
        command.to_vec()
    }

    fn begin(&mut self, begin: &ConversationStart, cwd: &str, out: &mut DriverOutput) {
        // Without the capability for notices, agents put their warnings into the answer.
        let session = ClientSessionCapabilities::new().notices(NoticeCapabilities::new());
        let params = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new().session(session))
            .client_info(Implementation::new("berth", env!("CARGO_PKG_VERSION")));
        rpc::send_request(out, INIT, AGENT_METHOD_NAMES.initialize, &params);
        self.phase = AcpPhase::Introducing { begin: begin.clone(), cwd: cwd.to_owned() };
        // Replayed history has this id; the id of a fork is not known yet.
        self.session = match begin {
            ConversationStart::Resume { id } => Some(id.clone()),
            ConversationStart::New { .. } | ConversationStart::Fork { .. } => None,
        };
    }

    fn begin_anew(&mut self, cwd: &str, out: &mut DriverOutput) -> bool {
        let is_gone = matches!(self.phase, AcpPhase::Gone);
        if is_gone {
            self.session = None;
            self.open(ConversationStart::New { id: None }, cwd.to_owned(), out);
        }
        is_gone
    }

    fn hear(&mut self, line: &[u8], out: &mut DriverOutput) {
        match rpc::read_rpc(line) {
            RpcMessage::Answer { id, result } => self.answered(&id, result, out),
            RpcMessage::Request { id, method, params } => self.requested(id, &method, &params, out),
            RpcMessage::Notification { method, params } => self.told(&method, &params, out),
            RpcMessage::Garbage => {
                let shown = &line[..line.len().min(MAX_SHOWN_BYTES)];
                self.remark(format!("a line that is not a message: {}", String::from_utf8_lossy(shown)), out);
            }
            RpcMessage::Stray | RpcMessage::Nothing => {}
        }
    }

    fn prompt(&mut self, turn: u64, text: &str, out: &mut DriverOutput) {
        self.report_late_output(out);
        if let Some(session) = self.session.as_deref().filter(|_| self.is_ready()) {
            let params = PromptRequest::new(session.to_owned(), vec![text.into()]);
            rpc::send_request(out, &format!("turn-{turn}"), AGENT_METHOD_NAMES.session_prompt, &params);
        }
        let command = text.split_whitespace().next().unwrap_or_default();
        if self.able.move_in_silence && RESETS.contains(&command) {
            let what = "this agent does not say what a conversation is called that begins with";
            self.remark(format!("{what} {command}: a later run will take up the one before it"), out);
        }
        let answer = AcpAnswer::default();
        self.is_late |= !self.is_ready();
        let (began, interrupted, refused, failing) = (false, false, false, false);
        self.turn = Some(AcpTurn { turn, began, interrupted, refused, failing, answer });
    }

    fn steer(&mut self, by: u64, text: &str, out: &mut DriverOutput) {
        let room = self.steers.len() < MOST_STEERS;
        let Some(session) =
            self.session.as_deref().filter(|_| self.able.steer && self.turn.is_some() && room)
        else {
            let why = "the agent takes no text into a turn that is running";
            return out.update(AgentUpdate::Ended {
                turn: by,
                end: TurnEnd::without_answer(FinalState::Failed, why),
            });
        };
        steer_with(session, &format!("steer-{by}"), text, out);
        self.steers.push(by);
    }

    fn interrupt(&mut self, turn: u64, out: &mut DriverOutput) {
        let Some(running) = self.turn.as_mut().filter(|running| running.turn == turn) else { return };
        running.interrupted = true;
        if let Some(session) = self.session.clone().filter(|_| self.is_ready()) {
            rpc::send_notification(out, AGENT_METHOD_NAMES.session_cancel, &CancelNotification::new(session));
        }
        self.unask_all(out);
    }

    fn answer(&mut self, request: &str, reply: &ChosenReply, out: &mut DriverOutput) {
        let [choice] = reply.chosen.as_slice() else { return };
        let wanted = |asked: &AcpPendingRequest| {
            asked.request == request && asked.options.iter().any(|option| option.id == choice.id)
        };
        let Some(at) = self.asked.iter().position(wanted) else { return };
        let asked = self.asked.remove(at);
        let kind = asked.options.iter().find(|option| option.id == choice.id).map(|option| option.kind);
        if let Some(turn) = &mut self.turn {
            turn.refused |= kind.is_some_and(QuestionOptionKind::is_refusal);
        }
        let selected = SelectedPermissionOutcome::new(choice.id.clone());
        let outcome = RequestPermissionOutcome::Selected(selected);
        // The protocol has no field for a reason. The reason goes first, so that an agent that ends its turn after a
        // refusal has it.
        if let (Some(reason), Some(session)) = (&reply.text, self.session.as_deref()) {
            steer_with(session, &format!("{REASON}{request}"), reason, out);
        }
        rpc::send_result(out, &asked.id, &RequestPermissionResponse::new(outcome));
    }

    fn goodbye(&mut self, out: &mut DriverOutput) {
        self.report_late_output(out);
        if let Some(session) = self.session.clone().filter(|_| self.able.close && self.is_ready()) {
            rpc::send_request(
                out,
                CLOSE,
                AGENT_METHOD_NAMES.session_close,
                &CloseSessionRequest::new(session),
            );
        }
    }
}
