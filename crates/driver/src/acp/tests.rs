//! The driver against lines of real agents (recorded: claude-agent-acp 0.99.1, codex-acp 2.6.0), against possible
//! lines, and against nonsense.
//!
//! Start with [`AcpTestRun`], which all of these tests use.

mod conversation;
mod fuzz;
mod recorded;
mod requests;
mod turn;

use berth_core::AgentQuestion;

use super::*;
use crate::ContextUsage;
use crate::common::chosen;

const CLAUDE: &str = include_str!("claude.jsonl");
const CLAUDE_LATE: &str = include_str!("claude-late.jsonl");
const CODEX: &str = include_str!("codex.jsonl");
const CODEX_ASKS: &str = include_str!("codex-asks.jsonl");
const CODEX_LOAD: &str = include_str!("codex-load.jsonl");

const SESSION: &str = "00000001-1111-4111-8111-111111111111";

/// A driver, its output and its updates.
struct AcpTestRun {
    driver: AcpDriver,
    sent: Vec<Value>,
    updates: Vec<AgentUpdate>,
}

impl AcpTestRun {
    fn new(begin: &ConversationStart) -> Self {
        let mut talk = Self { driver: AcpDriver::new(), sent: Vec::new(), updates: Vec::new() };
        talk.with(|driver, out| driver.begin(begin, "/project", out));
        talk
    }

    /// A talk with an agent that offers everything, in an open conversation.
    fn ready() -> Self {
        let mut talk = Self::new(&ConversationStart::New { id: None });
        talk.hear_json(introduction());
        talk.hear_json(json!({"id": "berth-open", "result": {"sessionId": SESSION}}));
        talk.updates.clear();
        talk.sent.clear();
        talk
    }

    fn with(&mut self, call: impl FnOnce(&mut AcpDriver, &mut DriverOutput)) {
        let mut out = DriverOutput::default();
        call(&mut self.driver, &mut out);
        self.updates.extend(out.updates);
        for line in out.bytes.split_inclusive(|byte| *byte == b'\n') {
            assert_eq!(line.last(), Some(&b'\n'), "a line has an end");
            self.sent.push(serde_json::from_slice(line).expect("we write JSON"));
        }
    }

    fn hear(&mut self, line: &[u8]) {
        self.with(|driver, out| driver.hear(line, out));
    }

    fn hear_json(&mut self, message: Value) {
        self.hear(message.to_string().as_bytes());
    }

    fn update(&mut self, update: Value) {
        self.hear_json(
            json!({"method": "session/update", "params": {"sessionId": SESSION, "update": update}}),
        );
    }

    fn says(&mut self, message: Option<&str>, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(
            json!({"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message}),
        );
    }

    fn prompt(&mut self, turn: u64, text: &str) {
        self.with(|driver, out| driver.prompt(turn, text, out));
    }

    fn asks(&mut self, id: Value) {
        let options = json!([
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]);
        let call = json!({"toolCallId": "c", "name": "Bash", "rawInput": {"command": "rm x"}});
        let params = json!({"sessionId": SESSION, "toolCall": call, "options": options});
        self.hear_json(json!({"id": id, "method": "session/request_permission", "params": params}));
    }

    /// Reads the agent's side of a recording, and acts as a keeper would: gives the next prompt when there is room, and
    /// answers questions. `None` for an answer is an interrupt.
    fn play(&mut self, recording: &str, prompts: &[&str], mut answers: &[Option<QuestionOptionKind>]) {
        let mut prompts = (1..).zip(prompts);
        let mut running = 0;
        let mut seen = self.updates.len();
        for line in recording.lines().filter_map(|line| line.strip_prefix("<-- ")) {
            self.hear(line.as_bytes());
            while seen < self.updates.len() {
                let update = self.updates[seen].clone();
                seen += 1;
                let is_free = match &update {
                    AgentUpdate::Ready => true,
                    AgentUpdate::Ended { turn, .. } => *turn == running,
                    AgentUpdate::Asks { ask } => {
                        let (answer, rest) = answers.split_first().expect("an answer");
                        answers = rest;
                        match answer {
                            Some(kind) => self.choose(ask, *kind),
                            None => self.with(|driver, out| driver.interrupt(running, out)),
                        }
                        false
                    }
                    _ => false,
                };
                if is_free && let Some((turn, prompt)) = prompts.next() {
                    running = turn;
                    self.prompt(turn, prompt);
                }
            }
        }
    }

    fn choose(&mut self, ask: &AgentQuestion, kind: QuestionOptionKind) {
        let option = ask.options.iter().find(|option| option.kind == kind).expect("an option");
        self.with(|driver, out| driver.answer(&ask.request, &chosen(&option.id), out));
    }

    fn said(&self) -> String {
        let said = self.updates.iter().filter_map(|update| match update {
            AgentUpdate::Said { text } => Some(text.as_str()),
            _ => None,
        });
        said.collect()
    }

    fn ends(&self) -> Vec<(u64, &TurnEnd)> {
        let ends = self.updates.iter().filter_map(|update| match update {
            AgentUpdate::Ended { turn, end } => Some((*turn, end)),
            _ => None,
        });
        ends.collect()
    }

    fn contexts(&self) -> Vec<ContextUsage> {
        let contexts = self.updates.iter().filter_map(|update| match update {
            AgentUpdate::Context { context } => Some(*context),
            _ => None,
        });
        contexts.collect()
    }

    fn end(&self) -> &TurnEnd {
        self.ends().last().expect("an end").1
    }

    fn remarks(&self) -> Vec<&str> {
        let remarks = self.updates.iter().filter_map(|update| match update {
            AgentUpdate::Remark { what } => Some(what.as_str()),
            _ => None,
        });
        remarks.collect()
    }
}

fn introduction() -> Value {
    let session = json!({"resume": {}, "fork": {}, "close": {}});
    let able = json!({"loadSession": true, "sessionCapabilities": session});
    let meta = json!({"steering": {"supported": true}});
    json!({"id": "berth-init", "result": {"protocolVersion": 1, "agentCapabilities": able, "_meta": meta}})
}

fn sent_in(recording: &str) -> Vec<Value> {
    let sent = recording.lines().filter_map(|line| line.strip_prefix("--> "));
    sent.map(|line| serde_json::from_str(line).expect("a recording is JSON")).collect()
}

/// All lines that real agents wrote.
fn real_lines() -> Vec<&'static str> {
    let all = [CLAUDE, CLAUDE_LATE, CODEX, CODEX_ASKS, CODEX_LOAD];
    all.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("<-- ")).collect()
}
