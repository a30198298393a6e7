//! Turns on paper and over the wire: the accepted prompt, its outcome, the agent's questions.
//!
//! Start with [`TurnView`]; the rest mirrors `berth_core`.

use std::borrow::Cow;

use berth_core as core;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::record::{Actor, AgentInterface};
use crate::state::TurnState;
use crate::status::Timestamp;

/// Longest wait of one call for the end of a turn, in milliseconds. A caller that wants to wait longer calls again.
pub const LONGEST_WAIT_MS: u64 = 60 * 60 * 1000;

/// A turn to be sent: by `berth send`, HTTP, MCP, and to a keeper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct NewTurn {
    /// Prompt for the agent; at most a mebibyte.
    #[schemars(length(min = 1, max = 1_048_576))]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub text: String,
    /// Wait for the end; answer with the result.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(short, long))]
    pub wait: bool,
    /// Longest wait for the end in milliseconds, at most an hour. After that, the turn is returned in its current
    /// state. Default: five minutes; 50 seconds for MCP, whose clients give up after a minute.
    #[schemars(range(max = LONGEST_WAIT_MS))]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub timeout_ms: Option<u64>,
    /// Make the call repeatable: the same key with the same text means the same turn.
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "K"))]
    pub key: Option<String>,
    /// Withdraw the turn if the agent does not have it within this time; answer when that is decided.
    #[cfg_attr(feature = "clap", arg(long = "max-wait", value_name = "TIME", value_parser = crate::time::parse_milliseconds))]
    pub max_wait_ms: Option<u64>,
    /// Manner while another turn runs: `queue` waits for its end, `steer` adds the text to it, `interrupt` ends it.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub manner: SendMode,
    /// Accept the turn only if the session has this id, or its agent writes this conversation.
    #[cfg_attr(feature = "clap", arg(long = "expect", value_name = "ID"))]
    pub expected_session: Option<String>,
}

/// A page of the turns of a session.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TurnPage {
    /// Turns in the order they were accepted.
    pub turns: Vec<TurnView>,
    /// Number of turns in the session.
    pub total: u64,
    /// Number of the latest event that all turns of the page include; later events are news. Some turns may include
    /// later events already.
    pub seq: u64,
}

/// State and result of one turn: `berth turn --json`, an element of `berth turns --json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnView {
    /// Id of the turn: the session's id, a dot, the turn's number.
    pub turn: String,
    /// Id of the session.
    pub session: String,
    /// Number of the turn in the session, from 1 on.
    pub number: u64,
    /// State of the turn.
    pub state: TurnState,
    /// True while the result is still to come: the turn waits, or the agent has it.
    pub in_progress: bool,
    /// Prompt of the turn.
    pub prompt: String,
    /// Key that makes the call repeatable.
    pub key: Option<String>,
    /// Client that sent the turn.
    pub by: Actor,
    /// Manner in which the turn met a running one.
    pub manner: SendMode,
    /// Time at which the turn was accepted: it is on disk since then.
    pub accepted_at: Timestamp,
    /// Time of the last change of the text, while the turn waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Timestamp>,
    /// Client that changed the text last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_by: Option<Actor>,
    /// Time at which the turn was given to the agent.
    pub delivered_at: Option<Timestamp>,
    /// Time at which the agent confirmed the turn.
    pub began_at: Option<Timestamp>,
    /// Time at which the turn ended.
    pub ended_at: Option<Timestamp>,
    /// Number of the run that the turn belongs to; null until it is given to an agent.
    pub epoch: Option<u64>,
    /// Interface of the agent that the turn was given through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<AgentInterface>,
    /// Answer of the agent.
    pub answer: Option<String>,
    /// True if `answer` is only the beginning: the rest is in the output.
    pub cut: bool,
    /// Reason why the turn is not done.
    pub reason: Option<String>,
    /// Kind of failure, if the agent reported it and the cause is the model: a limit, an overload or the login.
    #[serde(skip_serializing_if = "TurnFailure::is_other")]
    pub failure: TurnFailure,
    /// Failed turn whose text this one repeats, with the policy `on-failed retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<TurnRetry>,
    /// Input tokens that the agent used.
    pub input_tokens: Option<u64>,
    /// Output tokens that the agent used.
    pub output_tokens: Option<u64>,
    /// Client that cancelled the turn.
    pub cancelled_by: Option<Actor>,
    /// Number of turns before this one in the queue, while it waits.
    pub position: Option<u64>,
    /// Reason why the turn does not begin, if the queue is held.
    pub held: Option<String>,
    /// Answers that were given to questions of the agent, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<GivenAnswer>,
    /// Results that the agent reported after the turn was over.
    pub late: Vec<TurnEnd>,
    /// Offset at which the output of the turn begins.
    pub output_from: Option<u64>,
    /// Present, and true, only if the session's keeper does not answer (it is suspended or stuck). All other fields then
    /// come from the files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeper_silent: bool,
}

impl TurnView {
    /// Size of the texts that may be long, in bytes.
    pub fn text_bytes(&self) -> usize {
        let late = self.late.iter().map(|end| &end.answer);
        let texts = [&self.answer, &self.reason].into_iter().flatten().chain(late);
        self.prompt.len() + texts.map(String::len).sum::<usize>()
    }
}

/// The receipt of an accepted turn: it is on disk.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnReceipt {
    /// Id of the turn.
    pub turn: String,
    /// Id of the session.
    pub session: String,
    /// Number of the turn in the session.
    pub number: u64,
    /// State of the turn.
    pub state: TurnState,
    /// True if the turn was accepted before: its key is known.
    pub repeated: bool,
    /// Number of turns before this one in the queue, while it waits.
    pub position: Option<u64>,
    /// Reason why the turn does not begin, if the queue is held.
    pub held: Option<String>,
    /// True if a user paused the queue, or if it resumes by itself after a back-off; false if it needs attention.
    pub paused: bool,
}

/// Makes the id of a turn: the session's id, a dot, the turn's number.
pub fn turn_id(session: &str, number: u64) -> String {
    format!("{session}.{number}")
}

/// Splits the id of a turn into the session's name or id, and the turn's number.
pub fn split_turn_id(turn: &str) -> Option<(&str, u64)> {
    let (session, number) = turn.rsplit_once('.')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (!session.is_empty()).then_some((session, number))
}

/// An answer that was given to a question of an agent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GivenAnswer {
    /// Name of the question.
    pub request: String,
    /// Tool that the agent wanted to use.
    pub tool: String,
    /// Full text of the question.
    pub detail: String,
    /// The answer.
    #[serde(flatten)]
    pub reply: ChosenReply,
    /// Client that answered.
    pub by: Actor,
    /// Time of the answer.
    pub answered_at: Timestamp,
}

/// An accepted prompt, with its sender and manner.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnPrompt {
    /// Text of the prompt.
    #[serde(rename = "prompt")]
    pub text: String,
    /// Client that sends it.
    pub by: Actor,
    /// Key that makes the call repeatable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Time by which the agent must have the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_by: Option<StartDeadline>,
    /// Manner in which it meets a running turn.
    pub manner: SendMode,
    /// Failed turn whose text it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<TurnRetry>,
}

/// Origin of a turn that repeats the text of a failed one.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnRetry {
    /// Number of the turn that failed first.
    pub of: u64,
    /// Number of this attempt, from 1 on.
    pub attempt: u32,
}

/// Time by which the agent must have a turn, on the clock of one boot; later, the turn is withdrawn.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StartDeadline {
    /// Boot that the time belongs to.
    pub boot: String,
    /// Time on the clock of that boot.
    pub boot_ms: u64,
}

/// Time at which a session's time to live ends, on the clock of one boot.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionExpiry {
    /// Boot that the time belongs to.
    pub boot: String,
    /// Time on the clock of that boot.
    pub boot_ms: u64,
}

/// Request to interrupt a turn.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CancelRequest {
    /// Client that asked.
    pub by: Actor,
    /// True if the turn is interrupted for another turn, rather than cancelled.
    pub for_another: bool,
    /// Time limit for the agent, on the boot clock.
    pub until_boot_ms: u64,
}

/// Final state of a turn with its answer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnEnd {
    /// Final state of the turn.
    pub state: FinalState,
    /// Reason why it is not done, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Answer of the agent.
    pub answer: String,
    /// True if `answer` is only the beginning: the rest is in the output.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Input tokens that the agent used, if it reported them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Output tokens that the agent used, if it reported them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Kind of failure, if the turn failed.
    #[serde(skip_serializing_if = "TurnFailure::is_other")]
    pub failure: TurnFailure,
}

impl TurnFailure {
    /// True if the kind of the failure is unknown.
    pub fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// Question of an agent that waits for an answer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentQuestion {
    /// Name of the question, unique within a run.
    pub request: String,
    /// Tool that the agent wants to use.
    pub tool: String,
    /// Full text: the command, the file and the change.
    pub detail: String,
    /// Options of the question.
    pub options: Vec<QuestionOption>,
    /// True if several options can be chosen at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub several: bool,
    /// True if a free text can answer the question, instead of an option or, with `several`, beside options.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub takes_text: bool,
    /// True if a refusal can carry a reason that the agent reads.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub takes_reason: bool,
}

/// Answer to a question of an agent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChosenReply {
    /// Chosen options, in the order of the question. Empty if the answer is only a text.
    pub chosen: Vec<QuestionOption>,
    /// Reason of a refusal, or an answer in free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl std::fmt::Display for ChosenReply {
    /// For people: `deny: use mktemp instead`, `Red, Blue`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, option) in self.chosen.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{}", option.word())?;
        }
        match &self.text {
            Some(text) if self.chosen.is_empty() => f.write_str(text),
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

impl QuestionOption {
    /// Text for a chosen option: its id where that is a word, its name where the id is a number.
    fn word(&self) -> &str {
        let is_number = self.id.chars().all(|c| c.is_ascii_digit());
        if is_number && !self.name.is_empty() { &self.name } else { &self.id }
    }
}

/// Option of a question.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuestionOption {
    /// Id of the option.
    pub id: String,
    /// Text of the option, for people.
    pub name: String,
    /// Meaning of the option.
    pub kind: QuestionOptionKind,
}

/// Conversation that the agent writes: its own id, and the place where it is stored.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Conversation {
    /// Agent's own id of the conversation.
    pub id: String,
    /// Directory in which the agent stores it; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub store: String,
}

/// Abilities that the agent reported.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentCapabilities {
    /// True if the agent takes text into a running turn.
    pub steer: bool,
    /// True if the agent can resume its conversation after it was ended.
    pub resume: bool,
}

/// Policy of a session: when it ends by itself, how its queue goes on after failures, and its notifications.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionPolicy {
    /// Idle time after which the agent is released, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// Time to live of the session, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Time at rest after which the session is archived, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_after_ms: Option<u64>,
    /// Queue behind a turn whose end is unknown.
    pub on_unknown: OnUnknown,
    /// Queue behind a turn that failed because of the model.
    pub on_failed: OnFailed,
    /// Notifications for the session's users while none of them is attached.
    #[serde(skip_serializing_if = "NotificationPolicy::is_as_configured")]
    pub notify: NotificationPolicy,
}

/// Occasions for notifications: a list of words, or null for those of the config file. A word of a newer version is
/// left out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Option<Vec<String>>", into = "Option<Vec<String>>")]
pub struct NotificationPolicy(pub core::NotificationPolicy);

impl JsonSchema for NotificationPolicy {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NotificationPolicy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<_> = core::NotificationKind::ALL.iter().map(|occasion| occasion.word()).collect();
        json_schema!({"type": ["array", "null"], "items": {"type": "string", "enum": words}})
    }
}

impl NotificationPolicy {
    fn is_as_configured(&self) -> bool {
        self.0 == core::NotificationPolicy::AsConfigured
    }
}

impl From<Option<Vec<String>>> for NotificationPolicy {
    fn from(words: Option<Vec<String>>) -> Self {
        let named = |words: Vec<String>| {
            words.iter().filter_map(|word| core::NotificationKind::named(word)).collect()
        };
        Self(words.map_or(core::NotificationPolicy::AsConfigured, |words| {
            core::NotificationPolicy::Only(named(words))
        }))
    }
}

impl From<NotificationPolicy> for Option<Vec<String>> {
    fn from(notify: NotificationPolicy) -> Self {
        match notify.0 {
            core::NotificationPolicy::AsConfigured => None,
            core::NotificationPolicy::Only(occasions) => {
                Some(occasions.into_iter().map(|occasion| occasion.word().to_owned()).collect())
            }
        }
    }
}

impl From<core::NotificationPolicy> for NotificationPolicy {
    fn from(notify: core::NotificationPolicy) -> Self {
        Self(notify)
    }
}

impl From<NotificationPolicy> for core::NotificationPolicy {
    fn from(notify: NotificationPolicy) -> Self {
        notify.0
    }
}

/// Reason why a queue does not go on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueHold {
    /// A user paused the queue.
    Paused(Actor),
    /// The end of a turn is unknown, and waiting turns may build on it.
    Unknown(u64),
    /// A process outside of berth writes the conversation.
    ForeignWriter(String),
    /// The agent ended or failed before it took a turn.
    AgentFailed(String),
    /// A user typed text into the terminal and did not send it: the next turn would be joined with it.
    Draft,
    /// A turn failed because of the model: waiting turns would fail as well.
    ModelFailed(ModelFailure),
    /// A turn failed because of the model, which may pass: its text is sent again after a back-off.
    Retrying(BackOff),
}

/// A turn that failed because the model refused it. A type of its own, so that generated clients have a name for it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelFailure {
    /// Number of the turn that failed.
    pub turn: u64,
    /// Kind of failure.
    pub failure: TurnFailure,
    /// Reason in the agent's own words.
    pub reason: String,
}

/// A turn that failed because the model refused it, and whose text is sent again later.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BackOff {
    /// Number of the turn that failed.
    pub turn: u64,
    /// Kind of failure.
    pub failure: TurnFailure,
    /// Reason in the agent's own words.
    pub reason: String,
    /// Number of the turn that repeats the text.
    pub by: u64,
    /// Number of retries of this text, the coming one included.
    pub attempt: u32,
    /// Boot that `until_boot_ms` belongs to.
    pub boot: String,
    /// Time at which the queue goes on, on the boot clock in milliseconds.
    pub until_boot_ms: u64,
}

/// Reason why berth itself ended a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseReason {
    /// The agent was idle for the time that the policy gives.
    Idle,
    /// The session's time to live has ended.
    Expired,
    /// The agent did not interrupt a turn when asked to.
    Unresponsive,
    /// A client chose another interface of the agent.
    Switched,
    /// The agent cannot be used.
    Broken(String),
}

/// Origin of a session's conversation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConversationOrigin {
    /// A new conversation.
    #[default]
    New,
    /// A new conversation with this id, which the command gives it.
    Named(String),
    /// An existing conversation, resumed.
    Resumed(String),
    /// A new conversation that begins with a copy of this existing one.
    Forked(String),
}

/// Answer that a client gives to a question of an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionReply {
    /// Allow this time.
    Allow,
    /// Refuse this time.
    Deny {
        /// Reason, which the agent reads.
        reason: Option<String>,
    },
    /// Choose the options of these ids, answer with a free text, or both.
    Options {
        /// Ids of the chosen options.
        ids: Vec<String>,
        /// The free text.
        text: Option<String>,
    },
}

impl QuestionReply {
    /// A refusal without a reason.
    pub const DENY: Self = Self::Deny { reason: None };

    /// The choice of exactly this option.
    pub fn option(id: impl Into<String>) -> Self {
        Self::Options { ids: vec![id.into()], text: None }
    }
}

impl From<core::QueueHold> for QueueHold {
    fn from(hold: core::QueueHold) -> Self {
        match hold {
            core::QueueHold::Paused { by } => Self::Paused(by.into()),
            core::QueueHold::Unknown { turn } => Self::Unknown(turn),
            core::QueueHold::ForeignWriter { who } => Self::ForeignWriter(who),
            core::QueueHold::AgentFailed { reason } => Self::AgentFailed(reason),
            core::QueueHold::Draft => Self::Draft,
            core::QueueHold::ModelFailed { turn, failure, reason } => {
                Self::ModelFailed(ModelFailure { turn, failure: failure.into(), reason })
            }
            core::QueueHold::Retrying { turn, failure, reason, by, attempt, boot, until_boot_ms } => {
                let failure = failure.into();
                let boot = boot.into();
                Self::Retrying(BackOff { turn, failure, reason, by, attempt, boot, until_boot_ms })
            }
        }
    }
}

impl From<QueueHold> for core::QueueHold {
    fn from(hold: QueueHold) -> Self {
        match hold {
            QueueHold::Paused(by) => Self::Paused { by: by.into() },
            QueueHold::Unknown(turn) => Self::Unknown { turn },
            QueueHold::ForeignWriter(who) => Self::ForeignWriter { who },
            QueueHold::AgentFailed(reason) => Self::AgentFailed { reason },
            QueueHold::Draft => Self::Draft,
            QueueHold::ModelFailed(ModelFailure { turn, failure, reason }) => {
                Self::ModelFailed { turn, failure: failure.into(), reason }
            }
            QueueHold::Retrying(BackOff { turn, failure, reason, by, attempt, boot, until_boot_ms }) => {
                let failure = failure.into();
                let boot = boot.into();
                Self::Retrying { turn, failure, reason, by, attempt, boot, until_boot_ms }
            }
        }
    }
}

impl QueueHold {
    /// Describes why a queue does not go on, and what to do about it.
    pub fn describe(&self, session: &str) -> String {
        match self {
            Self::Paused(by) => {
                format!("paused by {}; `berth queue {session} resume` resumes it", by.place)
            }
            Self::Unknown(turn) => format!(
                "the end of turn {session}.{turn} is unknown; check it, then `berth queue {session} resume`"
            ),
            Self::ForeignWriter(who) => format!(
                "another program writes this conversation: {who}; end it, then `berth queue {session} resume`, \
                 or `berth fork {session}`"
            ),
            Self::Draft => format!(
                "its terminal has text that was typed and not sent, and the next turn would be joined with it; \
                 send or clear it there (`berth attach {session}`), or `berth queue {session} resume`"
            ),
            Self::AgentFailed(reason) => {
                // The other lines are output of the agent; the log has them.
                let reason = reason.lines().next().unwrap_or_default();
                let reason = reason.strip_suffix("; it printed last:").unwrap_or(reason);
                format!(
                    "the agent cannot be used: {reason}; fix that (`berth screen {session}` shows its screen), then \
                     `berth resume {session}`, or `berth queue {session} resume` if it still runs"
                )
            }
            Self::ModelFailed(ModelFailure { turn, failure, reason }) => {
                let what = core::TurnFailure::from(*failure).words();
                let reason = reason.lines().next().unwrap_or_default();
                format!(
                    "turn {session}.{turn} failed ({what}): {reason}; `berth queue {session} resume` goes on with the waiting turns"
                )
            }
            Self::Retrying(BackOff { turn, failure, reason, by, attempt, .. }) => {
                let what = core::TurnFailure::from(*failure).words();
                let reason = reason.lines().next().unwrap_or_default();
                let most = core::MOST_RETRIES;
                let minutes = core::FIRST_BACK_OFF.as_secs() / 60 * (1 << attempt.saturating_sub(1).min(16));
                format!(
                    "turn {session}.{turn} failed ({what}): {reason}; its text is sent again as {session}.{by} (retry {attempt} \
                     of {most}) {minutes} min after that; `berth queue {session} resume` sends it now"
                )
            }
        }
    }
}

impl From<core::ReleaseReason> for ReleaseReason {
    fn from(release: core::ReleaseReason) -> Self {
        match release {
            core::ReleaseReason::Idle => Self::Idle,
            core::ReleaseReason::Expired => Self::Expired,
            core::ReleaseReason::Unresponsive => Self::Unresponsive,
            core::ReleaseReason::Switched => Self::Switched,
            core::ReleaseReason::Broken { reason } => Self::Broken(reason),
        }
    }
}

impl From<ReleaseReason> for core::ReleaseReason {
    fn from(release: ReleaseReason) -> Self {
        match release {
            ReleaseReason::Idle => Self::Idle,
            ReleaseReason::Expired => Self::Expired,
            ReleaseReason::Unresponsive => Self::Unresponsive,
            ReleaseReason::Switched => Self::Switched,
            ReleaseReason::Broken(reason) => Self::Broken { reason },
        }
    }
}

impl ReleaseReason {
    /// Describes why berth ended a run.
    pub fn describe(&self) -> String {
        match self {
            Self::Idle => "paused to save memory; the next message wakes it".to_owned(),
            Self::Expired => "the session's time was up".to_owned(),
            Self::Unresponsive => "the agent did not interrupt its turn".to_owned(),
            Self::Switched => "it goes on with another interface".to_owned(),
            Self::Broken(reason) => format!("the agent cannot be used: {reason}"),
        }
    }
}

/// Declares enums without data that are equal on both sides of the border. The first variant is the default for
/// records of older versions, which lack the field.
macro_rules! same_words {
    ($($(#[$doc:meta])* $name:ident { $first:ident, $($word:ident),* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "mirrors the type of the same name in berth_core")]
        pub enum $name { #[default] $first, $($word),* }

        crate::mirror::both_ways! { enum $name { $first, $($word),* } }
    )*};
}

same_words! {
    /// Manner of a turn that arrives while another one runs. `queue`: it waits for the end of that one. `steer`: its text
    /// is added to that one. `interrupt`: that one is interrupted.
    SendMode { Queue, Steer, Interrupt }
    /// Final state of a turn. `unknown`: the agent was given the turn, and nothing proves how it ended. `done`: the agent
    /// reported success. `failed`: the agent, or its end, reported a failure. `cancelled`: a client cancelled the turn.
    /// `interrupted`: the turn was interrupted, and is proven unfinished.
    FinalState { Unknown, Done, Failed, Cancelled, Interrupted }
    /// Meaning of an option of a question.
    QuestionOptionKind { Other, AllowOnce, AllowAlways, RejectOnce, RejectAlways }
    /// Policy of a queue after a turn whose end is unknown. `hold`: the queue is held until a user resumes it. `continue`:
    /// the next turn begins.
    OnUnknown { Hold, Continue }
    /// Policy of a queue after a turn that failed because of the model. `hold`: the queue is held until a user resumes it.
    /// `continue`: the next turn begins. `retry`: the text of the turn is sent again after a back-off.
    OnFailed { Hold, Continue, Retry }
    /// Kind of failure of a turn, as far as its agent reported it. `limit`: a rate limit or a usage limit.
    /// `overloaded`: the model's server is overloaded. `login`: the login or the key was rejected. `other`: any other failure.
    TurnFailure { Other, Limit, Overloaded, Login }
    /// Latest report of an agent in a terminal about its turn. `quiet`: it is idle. `prompt`: it got a prompt. `tool`:
    /// it uses a tool. `stopped`: its turn ended. `interrupted`: its turn was interrupted.
    ActivityChange { Quiet, Prompt, Tool, Stopped, Interrupted }
}

impl OnFailed {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Hold, Self::Continue, Self::Retry];

    /// Word that people type.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Continue => "continue",
            Self::Retry => "retry",
        }
    }
}

crate::mirror::by_from!(NotificationPolicy, QueueHold, ReleaseReason);

crate::mirror::both_ways! {
    enum QuestionReply { Allow, Deny { reason }, Options { ids, text } }
    enum ConversationOrigin { New, Named(id), Resumed(id), Forked(id) }
    struct AgentQuestion { request, tool, detail, options, several, takes_text, takes_reason }
    struct ChosenReply { chosen, text }
    struct TurnPrompt { by, text, key, start_by, manner, retry }
    struct StartDeadline { boot, boot_ms }
    struct TurnRetry { of, attempt }
    struct Conversation { id, store }
    struct SessionExpiry { boot, boot_ms }
    struct CancelRequest { by, for_another, until_boot_ms }
    struct TurnEnd { state, reason, answer, cut, input_tokens, output_tokens, failure }
    struct QuestionOption { id, name, kind }
    struct AgentCapabilities { steer, resume }
    struct SessionPolicy { idle_ms, ttl_ms, archive_after_ms, on_unknown, on_failed, notify }
}
