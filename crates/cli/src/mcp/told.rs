//! What the tools take and give. Every field is explained in its schema: that is all an agent reads.

use berth_api::turn::{LONGEST_WAIT_MS, NewTurn, TurnView};
use berth_api::{SessionState, Status, TurnState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a result reads as plain text.
pub(super) trait Words {
    fn words(&self) -> String;
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSessions {
    /// Also those that stopped over a day ago, and archived ones.
    #[serde(default)]
    pub(super) all: bool,
    /// Only in these states.
    #[serde(default)]
    pub(super) states: Vec<SessionState>,
    /// At most so many; 50 if not said.
    #[serde(default)]
    pub(super) limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionWanted {
    /// The session: its name or id.
    pub(super) session: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartSession {
    /// Which agent: claude, codex, or another one of `berth agents`.
    pub(super) agent: String,
    /// The directory it works in; the one this server was started in if not said.
    #[serde(default)]
    pub(super) cwd: Option<String>,
    /// What to call it.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// Its first turn.
    #[serde(default)]
    pub(super) prompt: Option<String>,
    /// Makes the call repeatable: the same key means the same session, and the same first turn.
    #[serde(default)]
    pub(super) key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendTurn {
    /// The session: its name or id.
    pub(super) session: String,
    #[serde(flatten)]
    pub(super) turn: NewTurn,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WaitFor {
    /// It has nothing to do.
    #[default]
    Idle,
    /// Its agent waits for a person's yes.
    NeedsYou,
    /// Its run is over.
    Exit,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    /// The turn to wait for, like k3v9x2.4. Either this or a session.
    #[serde(default)]
    pub(super) turn: Option<String>,
    /// The session to wait for: its name or id.
    #[serde(default)]
    pub(super) session: Option<String>,
    /// What a session is waited for; idle if not said.
    #[serde(default, rename = "for")]
    pub(super) what: WaitFor,
    /// Longest wait in milliseconds, at most an hour; 50 seconds if not said.
    #[schemars(range(max = LONGEST_WAIT_MS))]
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ByTurn {
    /// The turn, like k3v9x2.4.
    pub(super) turn: String,
}

/// The sessions there are.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct List {
    /// Those that need an answer first.
    pub(super) sessions: Vec<SessionTold>,
    /// How many more there are.
    pub(super) more: u64,
}

/// What is known about a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct SessionTold {
    /// Its id.
    pub(super) id: String,
    /// What people call it.
    pub(super) name: Option<String>,
    /// State of the session.
    pub(super) state: SessionState,
    /// Its agent, if it has one.
    pub(super) agent: Option<String>,
    /// Whether it takes turns; else it has a terminal.
    pub(super) takes_turns: bool,
    /// Where it works.
    pub(super) cwd: String,
    /// The turn its agent has.
    pub(super) current_turn: Option<String>,
    /// What its agent does at the moment.
    pub(super) activity: Option<String>,
    /// Turns that wait, the next one first.
    pub(super) queued: Vec<String>,
    /// Why its queue does not go on.
    pub(super) held: Option<String>,
    /// What its agent asks a person.
    pub(super) asks: Vec<String>,
    /// How its last run ended, as a shell has it.
    pub(super) exit: Option<i32>,
    /// When something last happened.
    pub(super) last_activity_at: String,
}

impl From<&Status> for SessionTold {
    fn from(status: &Status) -> Self {
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

/// A turn.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct TurnTold {
    /// Its id, for `wait` and `result`.
    pub(super) turn: String,
    /// Its session's id.
    pub(super) session: String,
    /// State of the turn.
    pub(super) state: TurnState,
    /// Whether it is not over yet.
    pub(super) in_progress: bool,
    /// What the agent said.
    pub(super) answer: Option<String>,
    /// Whether that is only the beginning of it.
    pub(super) cut: bool,
    /// Why it is not done.
    pub(super) reason: Option<String>,
    /// How many turns come before it.
    pub(super) position: Option<u64>,
    /// Why it does not begin.
    pub(super) held: Option<String>,
}

impl From<&TurnView> for TurnTold {
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

/// A session that was started, or that the key meant already.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Started {
    /// It.
    pub(super) session: SessionTold,
    /// Whether the key meant it already.
    pub(super) repeated: bool,
    /// Its first turn, if there was a prompt.
    pub(super) turn: Option<TurnTold>,
}

/// What was waited for.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Waited {
    /// Whether it is so; else the time was up, or it will not be so by itself.
    pub(super) reached: bool,
    /// The session as it is now.
    pub(super) session: SessionTold,
    /// The turn that was waited for.
    pub(super) turn: Option<TurnTold>,
}

/// What is on a screen.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Screen {
    /// Its lines.
    pub(super) text: String,
}

impl Words for List {
    fn words(&self) -> String {
        let mut lines: Vec<String> = self.sessions.iter().map(Words::words).collect();
        if self.more > 0 {
            lines.push(format!("and {} more", self.more));
        }
        if lines.is_empty() { "there are no sessions".to_owned() } else { lines.join("\n") }
    }
}

impl Words for SessionTold {
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

impl Words for TurnTold {
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

impl Words for Started {
    fn words(&self) -> String {
        let turn = self.turn.as_ref().map(|turn| format!("\n{}", turn.words())).unwrap_or_default();
        self.session.words() + &turn
    }
}

impl Words for Waited {
    fn words(&self) -> String {
        let what = self.turn.as_ref().map_or_else(|| self.session.words(), Words::words);
        if self.reached { what } else { format!("not reached yet: {what}") }
    }
}

impl Words for Screen {
    fn words(&self) -> String {
        self.text.clone()
    }
}
