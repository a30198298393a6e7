//! What is known about a session, in one object: `status.json`, `berth show --json`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::helper::HelperStatus;
use crate::record::{Actor, Boundary, Exit, Grant, Interface, Limits, Outcome, Spec};
use crate::state::SessionState;
use crate::turn::{Ask, Policy};

/// The signal the kernel frees memory with.
const SIGKILL: i32 = 9;

/// A moment for people: RFC 3339 in UTC on paper, milliseconds since 1970 inside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Timestamp(pub u64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_millisecond(self.0.cast_signed()).unwrap_or_default();
        write!(f, "{moment:.3}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Self(moment.as_millisecond().max(0).cast_unsigned()))
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// Everything a list or a page shows about one session. Derived, never the truth.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Status {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// State of the session.
    pub state: SessionState,
    /// What people sort it by, in order.
    pub tags: Vec<String>,
    /// The note about the session.
    pub note: Option<String>,
    /// Since when it is archived.
    pub archived_at: Option<Timestamp>,
    /// What it runs (without the values of `env`).
    #[serde(flatten)]
    pub what: What,
    /// The number of its current or last run; 0 if it never ran.
    pub epoch: u64,
    /// The agent's process, while it runs.
    pub pid: Option<u32>,
    /// The keeper's process, while there is one.
    pub keeper_pid: Option<u32>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its current or last run began; null if it never ran.
    pub started_at: Option<Timestamp>,
    /// When its last run ended.
    pub ended_at: Option<Timestamp>,
    /// When something last happened: an event or a byte of output.
    pub last_activity_at: Timestamp,
    /// How the last run ended, as a shell reports it: the code, or 128 + the signal.
    pub exit: Option<i32>,
    /// By which signal the last run ended, if by one.
    pub signal: Option<i32>,
    /// Whether the last run ended because memory ran out.
    pub oom: bool,
    /// How many processes of the current or last run the kernel killed because memory ran out.
    pub oom_kills: u64,
    /// Why the last run has no exit: `lost`, or why it could not start.
    pub failure: Option<String>,
    /// Who asked for the end of the last run.
    pub stopped_by: Option<Actor>,
    /// The attached client that types.
    pub writer: Option<WriterStatus>,
    /// How many are attached.
    pub clients: usize,
    /// Who is attached, those who have been for longest first.
    pub attached: Vec<AttachedStatus>,
    /// What holds the current or last run together, besides adoption, lock and mark.
    pub boundary: Boundary,
    /// What could not be ended, and why.
    pub left: Vec<String>,
    /// How many bytes the agent has written in all.
    pub output_bytes: u64,
    /// Where the output of the current or last run begins.
    pub output_from: u64,
    /// The output file in use; its modification time is the last sign of life.
    pub output_file: Option<String>,
    /// The terminal's height.
    pub rows: u16,
    /// The terminal's width.
    pub cols: u16,
    /// Who shares it, if it is a helper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helper: Option<HelperStatus>,
    /// What the agent has to do, if it takes turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<TurnsStatus>,
    /// Interface of the agent in the current run, or in the next one if none is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// Interface that the session changes to when the turn that runs is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_interface: Option<Interface>,
    /// Other interfaces of the agent that can go on with the conversation.
    pub other_interfaces: Vec<Interface>,
    /// The agent's own id of the conversation it writes, or wrote last.
    pub conversation_id: Option<String>,
    /// First words of the latest prompt that the agent was given, on one line of at most 200 characters. For an agent in
    /// a terminal: as its hooks report it; null if it has none.
    pub last_prompt: Option<String>,
    /// First line of the agent's answer to `last_prompt`, of at most 200 characters; null until there is an answer.
    pub last_answer: Option<String>,
    /// Git branch of the session's directory, or the short hash of a detached commit; after a run, as it was at its end.
    /// Null outside of a work tree and on network file systems.
    pub branch: Option<String>,
    /// Model that the agent reported last.
    pub model: Option<String>,
    /// Context window of the agent after its latest request to the model. Null if the agent does not report it, and for
    /// an agent in a terminal.
    pub context: Option<ContextStatus>,
    /// Why berth itself ended the current or last run.
    pub released: Option<String>,
    /// When the session's time is up, in milliseconds from now.
    pub expires_in_ms: Option<u64>,
    /// The number of the last event this was computed from.
    pub seq: u64,
    /// Present, and true, only if the session's keeper does not answer (it is suspended or stuck). All other fields then
    /// come from the files, and `attached` may be out of date.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeper_silent: bool,
}

/// What an agent that takes turns has to do.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnsStatus {
    /// The turn it has: the id.
    pub current: Option<String>,
    /// The turns that wait, the next one first: their ids.
    pub queued: Vec<String>,
    /// How many turns there ever were.
    pub total: u64,
    /// Why the queue does not go on, and what to do about it.
    pub held: Option<String>,
    /// Questions of the agent.
    pub asks: Vec<Ask>,
    /// How what it was asked to do begins, on one line.
    pub prompt: Option<String>,
    /// What it does at the moment.
    pub activity: Option<String>,
    /// What the agent in a terminal told last of its turns, if it did in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<ToldStatus>,
    /// When the idle agent will be paused to save memory, in milliseconds from now.
    pub releases_in_ms: Option<u64>,
}

/// Tokens in the context window of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContextStatus {
    /// Tokens in use, as the agent reported them last.
    pub used_tokens: u64,
    /// Tokens that the window has room for; null if the agent does not report it.
    pub window_tokens: Option<u64>,
}

impl fmt::Display for ContextStatus {
    /// `45,210 of 200,000 tokens (23 %)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = in_thousands(self.used_tokens);
        match self.window_tokens.filter(|window| *window > 0) {
            Some(window) => {
                let percent =
                    (u128::from(self.used_tokens) * 100 + u128::from(window) / 2) / u128::from(window);
                write!(f, "{used} of {} tokens ({percent} %)", in_thousands(window))
            }
            None => write!(f, "{used} tokens"),
        }
    }
}

/// A number with a comma before each three digits.
fn in_thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// What an agent in a terminal told last of its turns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToldStatus {
    /// How: the agent's own name of the hook, or what else it was seen in.
    pub how: String,
    /// When.
    pub at: Timestamp,
}

/// The part of a [`Spec`] that is shown.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct What {
    /// How we talk to the agent.
    pub driver: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub cwd: String,
    /// Names of the variables set on top of the caller's environment. Values may be secrets.
    pub env_names: Vec<String>,
    /// The caller's key.
    pub key: Option<String>,
    /// What its runs may use.
    pub limits: Limits,
    /// What the agent is called in the table of agents.
    pub agent: Option<String>,
    /// Kind of conversations that the agent writes: `claude`, `codex`, or what the config says.
    #[serde(rename = "conversation_kind", skip_serializing_if = "String::is_empty")]
    pub conversation: String,
    /// When it ends by itself, and what waits for what.
    pub policy: Policy,
    /// The session it was started in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What processes in the session may ask of berth, beyond what every agent may.
    pub grant: Grant,
}

/// One who is attached.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttachedStatus {
    /// Where they are, for people: a terminal, an SSH connection, a browser.
    pub place: String,
    /// Since when.
    pub since: Timestamp,
    /// True if the client types; false if it observes.
    pub writes: bool,
}

/// The attached client that types, and since when.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WriterStatus {
    /// Who.
    #[serde(flatten)]
    pub holder: Actor,
    /// Since when.
    pub since: Timestamp,
}

impl What {
    /// Whether the agent has a terminal, whether or not it takes turns there.
    pub fn has_terminal(&self) -> bool {
        matches!(self.driver.as_str(), "" | "pty")
    }
}

impl From<&Spec> for What {
    fn from(spec: &Spec) -> Self {
        Self {
            driver: spec.driver.clone(),
            command: spec.command.clone(),
            cwd: spec.cwd.clone(),
            env_names: spec.env.iter().map(|(name, _)| name.clone()).collect(),
            key: spec.key.clone(),
            limits: spec.limits.clone(),
            agent: spec.agent.clone(),
            conversation: spec.conversation.clone(),
            policy: spec.policy.clone(),
            parent: spec.parent.clone(),
            grant: spec.grant,
        }
    }
}

impl Status {
    /// Fills in how a run ended.
    pub fn set_outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Exited(exit) => {
                self.exit = Some(exit.shell_code());
                self.signal = match exit {
                    Exit::Code(_) => None,
                    Exit::Signal(signal) => Some(*signal),
                };
            }
            Outcome::OutOfMemory => {
                self.oom = true;
                self.set_outcome(&Outcome::Exited(Exit::Signal(SIGKILL)));
            }
            Outcome::StartFailed(reason) => self.failure = Some(reason.clone()),
            Outcome::Lost => self.failure = Some("lost: its keeper died before the end was seen".to_owned()),
        }
    }

    /// Whether the agent was paused because it had nothing to do: the next turn starts it again.
    pub fn is_released(&self) -> bool {
        self.state == SessionState::Idle && self.keeper_pid.is_none()
    }

    /// Whether nothing of the session runs, and that is recorded. A session whose first run never began is stopped
    /// without an end.
    pub fn is_over(&self) -> bool {
        (self.is_released() || self.state.is_final()) && !self.is_unrecorded_loss()
    }

    /// Whether nothing of the session runs, that is recorded, and it is not archived.
    pub fn is_at_rest(&self) -> bool {
        self.is_over() && self.state != SessionState::Archived
    }

    /// Whether the last run is lost, and nothing has cleared up after it yet.
    pub fn is_unrecorded_loss(&self) -> bool {
        self.state == SessionState::Lost && self.ended_at.is_none()
    }

    /// How people address it: the name, else the id.
    pub fn handle(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::ContextStatus;

    #[test]
    fn a_context_is_told_with_its_share_of_the_window_where_that_is_known() {
        let text = |used_tokens, window_tokens| ContextStatus { used_tokens, window_tokens }.to_string();
        assert_eq!(text(45_210, Some(200_000)), "45,210 of 200,000 tokens (23 %)");
        assert_eq!(text(999, Some(1_000_000)), "999 of 1,000,000 tokens (0 %)");
        assert_eq!(text(1000, None), "1,000 tokens");
        assert_eq!(text(210, Some(100)), "210 of 100 tokens (210 %)");
        assert_eq!(text(u64::MAX, Some(0)), "18,446,744,073,709,551,615 tokens");
    }
}
