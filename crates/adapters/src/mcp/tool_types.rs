//! Inputs and results of the MCP tools. Every field is explained in its schema, because agents read nothing else.

use berth_api::turn::{LONGEST_WAIT_MS, NewTurn, TurnView};
use berth_api::{SessionState, SessionStatus, TurnState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tool result as plain text.
pub(super) trait PlainTextResult {
    fn words(&self) -> String;
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListToolParams {
    /// Also list archived sessions, and sessions that stopped over a day ago.
    #[serde(default)]
    pub(super) all: bool,
    /// List only sessions in these states.
    #[serde(default)]
    pub(super) states: Vec<SessionState>,
    /// Most sessions to list; 50 if absent.
    #[serde(default)]
    pub(super) limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionToolParams {
    /// Session, by name or id.
    pub(super) session: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartToolParams {
    /// Agent to start: claude, codex, or another one from `berth agents`.
    pub(super) agent: String,
    /// Directory that the agent works in; that of this server if absent.
    #[serde(default)]
    pub(super) cwd: Option<String>,
    /// Name of the new session, for people; without a name only the id is used.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// Prompt of the first turn; no turn if absent.
    #[serde(default)]
    pub(super) prompt: Option<String>,
    /// Makes the call repeatable: a repeated key gives the same session and the same first turn.
    #[serde(default)]
    pub(super) key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendToolParams {
    /// Session, by name or id.
    pub(super) session: String,
    #[serde(flatten)]
    pub(super) turn: NewTurn,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum McpWaitFor {
    /// The session has nothing to do.
    #[default]
    Idle,
    /// The session's agent waits for a person's answer.
    NeedsYou,
    /// The session's run is over.
    Exit,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitToolParams {
    /// Turn to wait for, like k3v9x2.4. Give either a turn or a session.
    #[serde(default)]
    pub(super) turn: Option<String>,
    /// Session to wait for, by name or id. Give either a turn or a session.
    #[serde(default)]
    pub(super) session: Option<String>,
    /// Condition of the session to wait for; idle if absent. Ignored with a turn.
    #[serde(default, rename = "for")]
    pub(super) what: McpWaitFor,
    /// Longest wait in milliseconds, at most an hour; 50 seconds if absent.
    #[schemars(range(max = LONGEST_WAIT_MS))]
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnToolParams {
    /// Turn to show, like k3v9x2.4.
    pub(super) turn: String,
}

/// Sessions that match, and how many were left out.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ListToolResult {
    /// Sessions, those that need an answer first.
    pub(super) sessions: Vec<McpSession>,
    /// Number of sessions that were left out.
    pub(super) more: u64,
}

/// A session and its state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct McpSession {
    /// Id of the session; never changes.
    pub(super) id: String,
    /// Name of the session, for people; absent if it has none.
    pub(super) name: Option<String>,
    /// State of the session.
    pub(super) state: SessionState,
    /// Agent of the session; absent for a plain command.
    pub(super) agent: Option<String>,
    /// True if the session takes turns; false if it has a terminal.
    pub(super) takes_turns: bool,
    /// Directory that the session works in.
    pub(super) cwd: String,
    /// Id of the turn that the agent has now; absent if it has none.
    pub(super) current_turn: Option<String>,
    /// Present activity of the agent.
    pub(super) activity: Option<String>,
    /// Ids of the waiting turns, the next one first.
    pub(super) queued: Vec<String>,
    /// Reason why the queue does not go on; absent if it does.
    pub(super) held: Option<String>,
    /// Open questions of the agent, which a person must answer.
    pub(super) asks: Vec<String>,
    /// Exit code of the last run, as a shell would report it.
    pub(super) exit: Option<i32>,
    /// Time of the last activity, RFC 3339.
    pub(super) last_activity_at: String,
}

impl From<&SessionStatus> for McpSession {
    fn from(status: &SessionStatus) -> Self {
        let turns = status.turns.clone().unwrap_or_default();
        Self {
            id: status.id.clone(),
            name: status.name.clone(),
            state: status.state.clone(),
            agent: status.what.agent.clone(),
            takes_turns: status.turns.is_some(),
            cwd: status.what.cwd.clone(),
            current_turn: turns.current,
            activity: turns.activity,
            queued: turns.queued,
            held: turns.held,
            asks: turns.asks.iter().map(|ask| format!("{}: {}", ask.tool, ask.detail)).collect(),
            exit: status.exit,
            last_activity_at: status.last_activity_at.to_string(),
        }
    }
}

/// A turn and its state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct McpTurn {
    /// Id of the turn, for `wait` and `result`.
    pub(super) turn: String,
    /// Id of the turn's session.
    pub(super) session: String,
    /// State of the turn.
    pub(super) state: TurnState,
    /// True until the turn has reached a final state.
    pub(super) in_progress: bool,
    /// Answer of the agent, once there is one.
    pub(super) answer: Option<String>,
    /// True if `answer` is only the beginning of the answer.
    pub(super) cut: bool,
    /// Reason why the turn is not done.
    pub(super) reason: Option<String>,
    /// Number of turns that come before this one.
    pub(super) position: Option<u64>,
    /// Reason why the turn does not begin.
    pub(super) held: Option<String>,
}

impl From<&TurnView> for McpTurn {
    fn from(view: &TurnView) -> Self {
        Self {
            turn: view.turn.clone(),
            session: view.session.clone(),
            state: view.state,
            in_progress: !view.state.is_final(),
            answer: view.answer.clone(),
            cut: view.cut,
            reason: view.reason.clone(),
            position: view.position,
            held: view.held.clone(),
        }
    }
}

/// The new session, or the one that an earlier call with this key started.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StartToolResult {
    /// Session that was started.
    pub(super) session: McpSession,
    /// True if an earlier call with this key had started the session.
    pub(super) repeated: bool,
    /// First turn of the session; absent without a prompt.
    pub(super) turn: Option<McpTurn>,
}

/// Result of a wait.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WaitToolResult {
    /// True if the condition holds; false if the time was up, or if the condition needs help from outside first.
    pub(super) reached: bool,
    /// Present state of the session.
    pub(super) session: McpSession,
    /// Turn that was waited for; absent if it was a session.
    pub(super) turn: Option<McpTurn>,
}

/// Screen of a terminal session.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ScreenToolResult {
    /// Lines of the screen, as plain text.
    pub(super) text: String,
}

impl PlainTextResult for ListToolResult {
    fn words(&self) -> String {
        let mut lines: Vec<String> = self.sessions.iter().map(PlainTextResult::words).collect();
        if self.more > 0 {
            lines.push(format!("and {} more", self.more));
        }
        if lines.is_empty() { "there are no sessions".to_owned() } else { lines.join("\n") }
    }
}

impl PlainTextResult for McpSession {
    fn words(&self) -> String {
        let name = self.name.as_deref().unwrap_or(&self.id);
        let agent = self.agent.as_deref().unwrap_or("a command");
        let mut words = format!("{name} ({}): {}, {agent} in {}", self.id, self.state, self.cwd);
        if let Some(turn) = &self.current_turn {
            words.push_str(&format!(", has turn {turn}"));
        }
        if !self.queued.is_empty() {
            words.push_str(&format!(", {} wait", self.queued.len()));
        }
        for more in self.held.iter().chain(&self.asks) {
            words.push_str(&format!("; {more}"));
        }
        words
    }
}

impl PlainTextResult for McpTurn {
    fn words(&self) -> String {
        let mut words = format!("turn {} is {}", self.turn, self.state);
        for more in self.reason.iter().chain(&self.held) {
            words.push_str(&format!(": {more}"));
        }
        if let Some(answer) = self.answer.as_deref().filter(|answer| !answer.is_empty()) {
            words.push_str(&format!("\n\n{answer}"));
        }
        words
    }
}

impl PlainTextResult for StartToolResult {
    fn words(&self) -> String {
        let turn = self.turn.as_ref().map(|turn| format!("\n{}", turn.words())).unwrap_or_default();
        self.session.words() + &turn
    }
}

impl PlainTextResult for WaitToolResult {
    fn words(&self) -> String {
        let what = self.turn.as_ref().map_or_else(|| self.session.words(), PlainTextResult::words);
        if self.reached { what } else { format!("not reached yet: {what}") }
    }
}

impl PlainTextResult for ScreenToolResult {
    fn words(&self) -> String {
        self.text.clone()
    }
}
