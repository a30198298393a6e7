//! Status of a session, in one object: `status.json`, `berth show --json`.
//!
//! Promise: derived from the journal and the running processes, never the source of truth.
//! Not here: computing it (see the keeper and `verbs`).
//! Start with [`SessionStatus`].

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::helper::HelperStatus;
use crate::record::{
    Actor, AgentInterface, Grant, ProcessExit, RunBoundary, RunLimits, RunOutcome, SessionSpec,
};
use crate::state::SessionState;
use crate::turn::{AgentQuestion, SessionPolicy};

/// Signal that the kernel kills processes with when memory runs out.
const SIGKILL: i32 = 9;

/// A time for people: RFC 3339 in UTC on paper, milliseconds since 1970 inside.
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

/// Everything a list or a page shows about one session. Derived, never the source of truth.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionStatus {
    /// Id of the session.
    pub id: String,
    /// Name of the session; null if it has only its id.
    pub name: Option<String>,
    /// State of the session.
    pub state: SessionState,
    /// Tags of the session, in order.
    pub tags: Vec<String>,
    /// Note about the session.
    pub note: Option<String>,
    /// Time at which the session was archived; null if it is not.
    pub archived_at: Option<Timestamp>,
    /// Agent of the session and how it is run, without the values of `env`.
    #[serde(flatten)]
    pub what: SpecView,
    /// Number of the current or last run; 0 if the session never ran.
    pub epoch: u64,
    /// Process id of the agent; null while none runs.
    pub pid: Option<u32>,
    /// Process id of the keeper; null while none runs.
    pub keeper_pid: Option<u32>,
    /// Time at which the session was created.
    pub created_at: Timestamp,
    /// Time at which the current or last run began; null if the session never ran.
    pub started_at: Option<Timestamp>,
    /// Time at which the last run ended; null while a run is live.
    pub ended_at: Option<Timestamp>,
    /// Time of the latest event or byte of output.
    pub last_activity_at: Timestamp,
    /// Exit code of the last run, as a shell reports it: the code, or 128 + the signal.
    pub exit: Option<i32>,
    /// Signal that ended the last run; null if none did.
    pub signal: Option<i32>,
    /// True if the last run ended because memory ran out.
    pub oom: bool,
    /// Number of processes of the current or last run that the kernel killed because memory ran out.
    pub oom_kills: u64,
    /// Reason why the last run has no exit code: `lost`, or why it could not start.
    pub failure: Option<String>,
    /// Client that asked for the end of the last run.
    pub stopped_by: Option<Actor>,
    /// Attached client that may type.
    pub writer: Option<WriterStatus>,
    /// Number of attached clients.
    pub clients: usize,
    /// Attached clients, those attached the longest first.
    pub attached: Vec<AttachedStatus>,
    /// Means that hold the processes of the current or last run together, besides adoption, lock and mark.
    pub boundary: RunBoundary,
    /// Processes of the last run that could not be ended, each with the reason.
    pub left: Vec<String>,
    /// Bytes of output that the agent has written in all runs.
    pub output_bytes: u64,
    /// Offset at which the output of the current or last run begins.
    pub output_from: u64,
    /// Path of the output file in use; its modification time is the last sign of life.
    pub output_file: Option<String>,
    /// Height of the terminal, in rows.
    pub rows: u16,
    /// Width of the terminal, in columns.
    pub cols: u16,
    /// Owners and readiness, if the session is a helper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helper: Option<HelperStatus>,
    /// Turns and queue of the session, if its agent takes turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<TurnsStatus>,
    /// Interface of the agent in the current run, or in the next one if none is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<AgentInterface>,
    /// Interface that the session changes to when the turn that runs is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_interface: Option<AgentInterface>,
    /// Other interfaces of the agent that can go on with the conversation.
    pub other_interfaces: Vec<AgentInterface>,
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
    /// Reason why berth itself ended the current or last run; null if it did not.
    pub released: Option<String>,
    /// Time to live that the session has left, in milliseconds; null if it has no limit.
    pub expires_in_ms: Option<u64>,
    /// Number of the last event that this status was computed from.
    pub seq: u64,
    /// Present, and true, only if the session's keeper does not answer (it is suspended or stuck). All other fields then
    /// come from the files, and `attached` may be out of date.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeper_silent: bool,
}

/// Turns, queue and questions of an agent that takes turns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnsStatus {
    /// Id of the turn that the agent has; null if it has none.
    pub current: Option<String>,
    /// Ids of the waiting turns, the next one first.
    pub queued: Vec<String>,
    /// Number of turns ever accepted in the session.
    pub total: u64,
    /// Reason why the queue does not go on, with what to do about it; null if it does.
    pub held: Option<String>,
    /// Questions of the agent that wait for an answer.
    pub asks: Vec<AgentQuestion>,
    /// Beginning of the prompt of the current turn, on one line.
    pub prompt: Option<String>,
    /// Activity of the agent at the moment, for people.
    pub activity: Option<String>,
    /// Latest report of an agent in a terminal about its turns; absent if there was none in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_report: Option<ActivityStatus>,
    /// Time until the idle agent is paused to save memory, in milliseconds.
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

/// Formats a number with a comma before each three digits.
fn in_thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Latest report of an agent in a terminal about its turns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ActivityStatus {
    /// Source of the report: the agent's own name of the hook, or another place where it was observed.
    pub how: String,
    /// Time of the report.
    pub at: Timestamp,
}

/// Agent of a session and how it is run: the part of a [`SessionSpec`] that is shown.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SpecView {
    /// Driver that talks to the agent: `pty`, `acp`, `claude` or `codex`.
    pub driver: String,
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Names of the variables set on top of the caller's environment. Values may be secrets.
    pub env_names: Vec<String>,
    /// Key that the caller gave to make the creation repeatable.
    pub key: Option<String>,
    /// Resource limits of each run.
    pub limits: RunLimits,
    /// Name of the agent in the table of agents; null for any other command.
    pub agent: Option<String>,
    /// Kind of conversations that the agent writes: `claude`, `codex`, or what the config says.
    #[serde(rename = "conversation_kind", skip_serializing_if = "String::is_empty")]
    pub conversation: String,
    /// When the session ends by itself, and how its queue goes on after failures.
    pub policy: SessionPolicy,
    /// Id of the session that this one was started in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Rights of processes in the session towards berth, beyond those of every agent.
    pub grant: Grant,
}

/// An attached client.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttachedStatus {
    /// Location of the client, for people: a terminal, an SSH connection, a browser.
    pub place: String,
    /// Time at which the client attached.
    pub since: Timestamp,
    /// True if the client types; false if it observes.
    pub writes: bool,
}

/// Attached client that may type.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WriterStatus {
    /// The client.
    #[serde(flatten)]
    pub holder: Actor,
    /// Time since which the client may type.
    pub since: Timestamp,
}

impl SpecView {
    /// True if the agent has a terminal, also if it takes turns there.
    pub fn has_terminal(&self) -> bool {
        matches!(self.driver.as_str(), "" | "pty")
    }
}

impl From<&SessionSpec> for SpecView {
    fn from(spec: &SessionSpec) -> Self {
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

impl SessionStatus {
    /// Fills in how a run ended.
    pub fn set_outcome(&mut self, outcome: &RunOutcome) {
        match outcome {
            RunOutcome::Exited(exit) => {
                self.exit = Some(exit.shell_code());
                self.signal = match exit {
                    ProcessExit::Code(_) => None,
                    ProcessExit::Signal(signal) => Some(*signal),
                };
            }
            RunOutcome::OutOfMemory => {
                self.oom = true;
                self.set_outcome(&RunOutcome::Exited(ProcessExit::Signal(SIGKILL)));
            }
            RunOutcome::StartFailed(reason) => self.failure = Some(reason.clone()),
            RunOutcome::Lost => {
                self.failure = Some("lost: its keeper died before the end was seen".to_owned())
            }
        }
    }

    /// True if the agent was paused because it was idle: the next turn starts it again.
    pub fn is_released(&self) -> bool {
        self.state == SessionState::Idle && self.keeper_pid.is_none()
    }

    /// True if nothing of the session runs, and that is recorded. A session whose first run never began is stopped
    /// without an end.
    pub fn is_over(&self) -> bool {
        (self.is_released() || self.state.is_final()) && !self.is_unrecorded_loss()
    }

    /// True if nothing of the session runs, that is recorded, and the session is not archived.
    pub fn is_at_rest(&self) -> bool {
        self.is_over() && self.state != SessionState::Archived
    }

    /// True if the last run is lost, and no sweep has recorded that yet.
    pub fn is_unrecorded_loss(&self) -> bool {
        self.state == SessionState::Lost && self.ended_at.is_none()
    }

    /// Text that people address the session by: the name, else the id.
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
