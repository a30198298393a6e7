//! Opening a conversation: abilities of the agent, and the way to take a conversation up.

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, ForkSessionRequest, LoadSessionRequest, NewSessionRequest, ResumeSessionRequest,
};
use serde_json::Value;

use super::answer::AcpAnswer;
use super::tool_call;
use super::tool_call::MAX_ID_BYTES;
use super::{AcpCapabilities, AcpDriver, AcpPhase, MAX_SHOWN_BYTES, OPEN, REPLACEMENT_ID};
use crate::rpc::{self, RpcError};
use crate::{AgentFailure, AgentUpdate, ConversationStart, DriverOutput};

impl AcpDriver {
    pub(super) fn on_initialized(&mut self, result: Result<Value, RpcError>, out: &mut DriverOutput) {
        let AcpPhase::Introducing { begin, cwd } = &mut self.phase else { return };
        let begin = std::mem::replace(begin, ConversationStart::New { id: None });
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
        self.able = AcpCapabilities {
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
            logins.filter_map(|it| Some(tool_call::line(it["name"].as_str()?, MAX_SHOWN_BYTES))).collect();
        self.open(begin, cwd, out);
    }

    pub(super) fn open(&mut self, begin: ConversationStart, cwd: String, out: &mut DriverOutput) {
        let methods = AGENT_METHOD_NAMES;
        let name = if matches!(self.phase, AcpPhase::Gone) { REPLACEMENT_ID } else { OPEN };
        match &begin {
            ConversationStart::New { .. } => {
                rpc::send_request(out, name, methods.session_new, &NewSessionRequest::new(cwd))
            }
            ConversationStart::Resume { id } if self.able.resume => {
                let params = ResumeSessionRequest::new(id.clone(), cwd);
                rpc::send_request(out, OPEN, methods.session_resume, &params);
            }
            ConversationStart::Resume { id } if self.able.load => {
                let params = LoadSessionRequest::new(id.clone(), cwd);
                rpc::send_request(out, OPEN, methods.session_load, &params);
            }
            ConversationStart::Resume { .. } => {
                return self.protocol_trouble("the agent cannot take up a conversation again", out);
            }
            ConversationStart::Fork { of, .. } if self.able.fork => {
                rpc::send_request(out, OPEN, methods.session_fork, &ForkSessionRequest::new(of.clone(), cwd));
            }
            ConversationStart::Fork { .. } => {
                return self.protocol_trouble("the agent cannot fork a conversation", out);
            }
        }
        self.phase = AcpPhase::Opening { begin };
    }

    pub(super) fn opened(&mut self, result: Result<Value, RpcError>, out: &mut DriverOutput) {
        let begin = match &self.phase {
            AcpPhase::Opening { begin } => begin,
            AcpPhase::Gone => &ConversationStart::New { id: None },
            AcpPhase::New | AcpPhase::Introducing { .. } | AcpPhase::Ready | AcpPhase::Broken => return,
        };
        let wanted = match begin {
            ConversationStart::New { .. } => None,
            ConversationStart::Resume { id } | ConversationStart::Fork { of: id, .. } => Some(id.clone()),
        };
        let known = match begin {
            ConversationStart::Resume { id } => Some(id.clone()),
            ConversationStart::New { .. } | ConversationStart::Fork { .. } => None,
        };
        let said = match result {
            Ok(said) => said,
            Err(problem) => return self.not_opened(&problem, wanted, out),
        };
        let told = said["sessionId"].as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES);
        let Some(id) = told.map(str::to_owned).or(known) else {
            return self.protocol_trouble("the agent did not say what its session is called", out);
        };
        self.phase = AcpPhase::Ready;
        self.session = Some(id.clone());
        // Updates until now were replayed history.
        self.calls.clear();
        if let Some(turn) = &mut self.turn {
            turn.answer = AcpAnswer::default();
        }
        out.update(AgentUpdate::Conversation { id });
        out.uses(said["models"]["currentModelId"].as_str().unwrap_or_default());
        out.update(AgentUpdate::Ready);
    }

    fn not_opened(&mut self, problem: &RpcError, wanted: Option<String>, out: &mut DriverOutput) {
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
            Some(_) if is(&IN_USE) => self.broken(AgentFailure::InUse { said }, out),
            Some(id) if problem.code == rpc::NOT_FOUND || is(&GONE) => {
                self.phase = AcpPhase::Gone;
                out.update(AgentUpdate::Broken { trouble: AgentFailure::NoConversation { id } });
            }
            Some(_) | None => self.protocol_trouble(said, out),
        }
    }

    fn not_logged_in(&mut self, problem: &RpcError, out: &mut DriverOutput) {
        let mut said = problem.said();
        if !self.logins.is_empty() {
            said.push_str(&format!(" (it offers: {})", self.logins.join(", ")));
        }
        self.broken(AgentFailure::NotLoggedIn { said }, out);
    }
}
