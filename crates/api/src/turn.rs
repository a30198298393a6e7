//! Turns on paper and over the wire: what was accepted, what became of it, what the agent asks.
//!
//! Start with [`TurnView`]; the rest mirrors `berth_core`.

use std::borrow::Cow;

use berth_core as core;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::record::{Actor, Interface};
use crate::state::TurnState;
use crate::status::Timestamp;

/// The longest that a caller may wait for the end of a turn, in milliseconds: then ask again.
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
    /// Longest wait for the end in milliseconds, at most an hour: then the answer is the turn as it is. Usually five
    /// minutes; 50 seconds for MCP, whose clients give up after a minute.
    #[schemars(range(max = LONGEST_WAIT_MS))]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub timeout_ms: Option<u64>,
    /// Make the call repeatable: the same key with the same text means the same turn.
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "K"))]
    pub key: Option<String>,
    /// Withdraw the turn if the agent does not have it within this time; answer when the agent has it, or not.
    #[cfg_attr(feature = "clap", arg(long = "max-wait", value_name = "TIME", value_parser = crate::time::milliseconds))]
    pub max_wait_ms: Option<u64>,
    /// What happens while another turn runs: `queue` waits for its end, `steer` adds the text to it, `interrupt` ends it.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub manner: Manner,
    /// Only if the session has this id, or its agent writes this conversation.
    #[cfg_attr(feature = "clap", arg(long = "expect", value_name = "ID"))]
    pub expected_session: Option<String>,
}

/// Some turns of a session.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TurnPage {
    /// In the order they were accepted.
    pub turns: Vec<TurnView>,
    /// How many turns the session has.
    pub total: u64,
    /// The number of the last event that all of them follow from: what comes later is news. Some turns may follow from
    /// later events already.
    pub seq: u64,
}

/// Everything there is to say about one turn: `berth turn --json`, an element of `berth turns --json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnView {
    /// Its id: the session's, a dot, its number.
    pub turn: String,
    /// The session's id.
    pub session: String,
    /// Its number in the session, from 1 on.
    pub number: u64,
    /// State of the turn.
    pub state: TurnState,
    /// Whether its result is still to come: it waits, or the agent has it.
    pub in_progress: bool,
    /// The prompt.
    pub prompt: String,
    /// What makes the call repeatable.
    pub key: Option<String>,
    /// Who sent it.
    pub by: Actor,
    /// How it met a turn that was running.
    pub manner: Manner,
    /// When it was accepted: on disk.
    pub accepted_at: Timestamp,
    /// When its text was changed for the last time, while it waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Timestamp>,
    /// Who changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_by: Option<Actor>,
    /// When it went to the agent.
    pub delivered_at: Option<Timestamp>,
    /// When the agent said that it has it.
    pub began_at: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// In which run.
    pub epoch: Option<u64>,
    /// Interface of the agent that it was given through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// What the agent said.
    pub answer: Option<String>,
    /// Whether that is only the beginning of it: the rest is in the output.
    pub cut: bool,
    /// Why it is not done.
    pub reason: Option<String>,
    /// What failed, if the agent told and it is the model's: a limit, an overload or the login.
    #[serde(skip_serializing_if = "Failure::is_other")]
    pub failure: Failure,
    /// The failed turn whose text it says again, with the policy `on-failed retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What the agent read.
    pub input_tokens: Option<u64>,
    /// What the agent wrote.
    pub output_tokens: Option<u64>,
    /// The client that cancelled it.
    pub cancelled_by: Option<Actor>,
    /// How many are before it, while it waits.
    pub position: Option<u64>,
    /// Why it does not begin, if something holds the queue.
    pub held: Option<String>,
    /// Answers that were given to questions of the agent, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<AnswerGiven>,
    /// What the agent said after it was over.
    pub late: Vec<TurnEnd>,
    /// Where its output begins.
    pub output_from: Option<u64>,
    /// Present, and true, only if the session's keeper does not answer (it is suspended or stuck). All other fields then
    /// come from the files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeper_silent: bool,
}

impl TurnView {
    /// How much text it has: what of it may be long.
    pub fn text_bytes(&self) -> usize {
        let late = self.late.iter().map(|end| &end.answer);
        let texts = [&self.answer, &self.reason].into_iter().flatten().chain(late);
        self.prompt.len() + texts.map(String::len).sum::<usize>()
    }
}

/// The receipt of a turn: it is on disk.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Receipt {
    /// The turn's id.
    pub turn: String,
    /// The session's id.
    pub session: String,
    /// Its number in the session.
    pub number: u64,
    /// State of the turn.
    pub state: TurnState,
    /// Whether it was accepted before: the key is known.
    pub repeated: bool,
    /// How many are before it, while it waits.
    pub position: Option<u64>,
    /// Why it does not begin, if something holds the queue.
    pub held: Option<String>,
    /// True if a user paused the queue, or it goes on by itself after a back-off; false if it needs attention.
    pub paused: bool,
}

/// The turn ids of a session: its own id, a dot, the turn's number.
pub fn turn_id(session: &str, number: u64) -> String {
    format!("{session}.{number}")
}

/// A turn's id, taken apart: how the session is named, and the number.
pub fn split_turn_id(turn: &str) -> Option<(&str, u64)> {
    let (session, number) = turn.rsplit_once('.')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (!session.is_empty()).then_some((session, number))
}

/// An answer to a question of an agent: to what, what and by whom.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnswerGiven {
    /// The name of the question.
    pub request: String,
    /// The tool that the agent wanted to use.
    pub tool: String,
    /// The question in full.
    pub detail: String,
    /// The answer.
    #[serde(flatten)]
    pub reply: Reply,
    /// Who answered.
    pub by: Actor,
    /// When.
    pub answered_at: Timestamp,
}

/// [`core::Prompt`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Prompt")]
pub struct Prompt {
    #[serde(rename = "prompt")]
    pub text: String,
    pub by: Actor,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_by: Option<StartBy>,
    pub manner: Manner,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// [`core::Retry`] on paper.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Retry {
    /// The turn that failed first.
    pub of: u64,
    /// The number of this attempt, from 1 on.
    pub attempt: u32,
}

/// [`core::StartBy`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::StartBy")]
pub struct StartBy {
    pub boot: String,
    pub boot_ms: u64,
}

/// [`core::Expiry`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Expiry")]
pub struct Expiry {
    pub boot: String,
    pub boot_ms: u64,
}

/// [`core::Cancel`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Cancel")]
pub struct Cancel {
    pub by: Actor,
    pub for_another: bool,
    pub until_boot_ms: u64,
}

/// [`core::TurnEnd`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::TurnEnd")]
pub struct TurnEnd {
    pub state: Final,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub answer: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Failure::is_other")]
    pub failure: Failure,
}

impl Failure {
    /// Whether nothing is known of it.
    pub fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// [`core::Ask`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Ask")]
pub struct Ask {
    pub request: String,
    pub tool: String,
    pub detail: String,
    pub options: Vec<AskOption>,
    /// Several options can be chosen at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub several: bool,
    /// An answer in own words is possible, instead of an option or, with `several`, beside options.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub takes_text: bool,
    /// A refusal can carry a reason that the agent reads.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub takes_reason: bool,
}

/// [`core::Reply`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reply {
    /// The options that were chosen, in the order of the question. Empty if the answer is only a text.
    pub chosen: Vec<AskOption>,
    /// The reason of a refusal, or an answer in the answerer's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl std::fmt::Display for Reply {
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

impl AskOption {
    /// What it is called when it was chosen: its id where that is a word, its name where that is a number.
    fn word(&self) -> &str {
        let is_number = self.id.chars().all(|c| c.is_ascii_digit());
        if is_number && !self.name.is_empty() { &self.name } else { &self.id }
    }
}

/// [`core::AskOption`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::AskOption")]
pub struct AskOption {
    pub id: String,
    pub name: String,
    pub kind: AskKind,
}

/// [`core::Conversation`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Conversation")]
pub struct Conversation {
    pub id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub store: String,
}

/// [`core::Able`] on paper.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Able")]
pub struct Able {
    pub steer: bool,
    pub resume: bool,
}

/// [`core::Policy`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Policy")]
pub struct Policy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_after_ms: Option<u64>,
    pub on_unknown: OnUnknown,
    pub on_failed: OnFailed,
    #[serde(skip_serializing_if = "Notify::is_as_configured")]
    pub notify: Notify,
}

/// [`core::Notify`] on paper: nothing, or a list of words. A word of a newer version is left out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Option<Vec<String>>", into = "Option<Vec<String>>")]
pub struct Notify(pub core::Notify);

impl JsonSchema for Notify {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Notify".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<_> = core::Occasion::ALL.iter().map(|occasion| occasion.word()).collect();
        json_schema!({"type": ["array", "null"], "items": {"type": "string", "enum": words}})
    }
}

impl Notify {
    fn is_as_configured(&self) -> bool {
        self.0 == core::Notify::AsConfigured
    }
}

impl From<Option<Vec<String>>> for Notify {
    fn from(words: Option<Vec<String>>) -> Self {
        let named =
            |words: Vec<String>| words.iter().filter_map(|word| core::Occasion::named(word)).collect();
        Self(words.map_or(core::Notify::AsConfigured, |words| core::Notify::Only(named(words))))
    }
}

impl From<Notify> for Option<Vec<String>> {
    fn from(notify: Notify) -> Self {
        match notify.0 {
            core::Notify::AsConfigured => None,
            core::Notify::Only(occasions) => {
                Some(occasions.into_iter().map(|occasion| occasion.word().to_owned()).collect())
            }
        }
    }
}

impl From<core::Notify> for Notify {
    fn from(notify: core::Notify) -> Self {
        Self(notify)
    }
}

impl From<Notify> for core::Notify {
    fn from(notify: Notify) -> Self {
        notify.0
    }
}

/// [`core::Hold`] on paper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Hold")]
pub enum Hold {
    Paused(Actor),
    Unknown(u64),
    ForeignWriter(String),
    AgentFailed(String),
    Draft,
    ModelFailed(ModelFailure),
    Retrying(BackOff),
}

/// A turn that the model refused. A type of its own, so that generated clients have a name for it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelFailure {
    /// The number of the turn that failed.
    pub turn: u64,
    /// What the model refused.
    pub failure: Failure,
    /// The agent's own words.
    pub reason: String,
}

/// A turn that the model refused and whose text is sent again later.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BackOff {
    /// The number of the turn that failed.
    pub turn: u64,
    /// What the model refused.
    pub failure: Failure,
    /// The agent's own words.
    pub reason: String,
    /// The number of the turn that has the text again.
    pub by: u64,
    /// How often the text was sent again, this time included.
    pub attempt: u32,
    /// The boot that the time below belongs to.
    pub boot: String,
    /// When the queue goes on, on the boot clock.
    pub until_boot_ms: u64,
}

/// [`core::Release`] on paper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Release")]
pub enum Release {
    Idle,
    Expired,
    Unresponsive,
    Switched,
    Broken(String),
}

/// [`core::Origin`] on paper.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Origin")]
pub enum Origin {
    #[default]
    New,
    Named(String),
    Resumed(String),
    Forked(String),
}

/// [`core::Wish`] over the wire.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Wish")]
pub enum Wish {
    Allow,
    Deny { reason: Option<String> },
    Options { ids: Vec<String>, text: Option<String> },
}

impl Wish {
    /// No, without a reason.
    pub const DENY: Self = Self::Deny { reason: None };

    /// The option of this id, and nothing else.
    pub fn option(id: impl Into<String>) -> Self {
        Self::Options { ids: vec![id.into()], text: None }
    }
}

impl From<core::Hold> for Hold {
    fn from(hold: core::Hold) -> Self {
        match hold {
            core::Hold::Paused { by } => Self::Paused(by.into()),
            core::Hold::Unknown { turn } => Self::Unknown(turn),
            core::Hold::ForeignWriter { who } => Self::ForeignWriter(who),
            core::Hold::AgentFailed { reason } => Self::AgentFailed(reason),
            core::Hold::Draft => Self::Draft,
            core::Hold::ModelFailed { turn, failure, reason } => {
                Self::ModelFailed(ModelFailure { turn, failure: failure.into(), reason })
            }
            core::Hold::Retrying { turn, failure, reason, by, attempt, boot, until_boot_ms } => {
                let failure = failure.into();
                let boot = boot.into();
                Self::Retrying(BackOff { turn, failure, reason, by, attempt, boot, until_boot_ms })
            }
        }
    }
}

impl From<Hold> for core::Hold {
    fn from(hold: Hold) -> Self {
        match hold {
            Hold::Paused(by) => Self::Paused { by: by.into() },
            Hold::Unknown(turn) => Self::Unknown { turn },
            Hold::ForeignWriter(who) => Self::ForeignWriter { who },
            Hold::AgentFailed(reason) => Self::AgentFailed { reason },
            Hold::Draft => Self::Draft,
            Hold::ModelFailed(ModelFailure { turn, failure, reason }) => {
                Self::ModelFailed { turn, failure: failure.into(), reason }
            }
            Hold::Retrying(BackOff { turn, failure, reason, by, attempt, boot, until_boot_ms }) => {
                let failure = failure.into();
                let boot = boot.into();
                Self::Retrying { turn, failure, reason, by, attempt, boot, until_boot_ms }
            }
        }
    }
}

impl Hold {
    /// Why a queue does not go on, and what to do about it.
    pub fn describe(&self, session: &str) -> String {
        match self {
            Self::Paused(by) => {
                format!("paused by {}; `berth queue {session} resume` lets it go on", by.place)
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
                // The rest of it is what the agent printed; the log has it.
                let reason = reason.lines().next().unwrap_or_default();
                let reason = reason.strip_suffix("; it printed last:").unwrap_or(reason);
                format!("the agent cannot be used: {reason}; mend that, then `berth resume {session}`")
            }
            Self::ModelFailed(ModelFailure { turn, failure, reason }) => {
                let what = core::Failure::from(*failure).words();
                let reason = reason.lines().next().unwrap_or_default();
                format!(
                    "turn {session}.{turn} failed ({what}): {reason}; `berth queue {session} resume` goes on with what waits"
                )
            }
            Self::Retrying(BackOff { turn, failure, reason, by, attempt, .. }) => {
                let what = core::Failure::from(*failure).words();
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

impl From<core::Release> for Release {
    fn from(release: core::Release) -> Self {
        match release {
            core::Release::Idle => Self::Idle,
            core::Release::Expired => Self::Expired,
            core::Release::Unresponsive => Self::Unresponsive,
            core::Release::Switched => Self::Switched,
            core::Release::Broken { reason } => Self::Broken(reason),
        }
    }
}

impl From<Release> for core::Release {
    fn from(release: Release) -> Self {
        match release {
            Release::Idle => Self::Idle,
            Release::Expired => Self::Expired,
            Release::Unresponsive => Self::Unresponsive,
            Release::Switched => Self::Switched,
            Release::Broken(reason) => Self::Broken { reason },
        }
    }
}

impl Release {
    /// Why berth ended a run.
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

/// Enums without data that are the same on both sides of the border. The first is the default of what an
/// older version did not write.
macro_rules! same_words {
    ($($(#[$doc:meta])* $name:ident { $first:ident, $($word:ident),* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "mirrors the type of the same name in berth_core")]
        pub enum $name { #[default] $first, $($word),* }

        crate::paper::both_ways! { enum $name { $first, $($word),* } }
    )*};
}

same_words! {
    /// How a turn meets one that is running.
    Manner { Queue, Steer, Interrupt }
    /// How a turn ended.
    Final { Unknown, Done, Failed, Cancelled, Interrupted }
    /// What an answer means.
    AskKind { Other, AllowOnce, AllowAlways, RejectOnce, RejectAlways }
    /// Whether a queue goes on after a turn whose end is unknown.
    OnUnknown { Hold, Continue }
    /// What a queue does behind a turn that failed for a reason that is the model's.
    OnFailed { Hold, Continue, Retry }
    /// What made a turn fail, as far as its agent told.
    Failure { Other, Limit, Overloaded, Login }
    /// What an agent in a terminal told.
    Edge { Quiet, Prompt, Tool, Stopped, Interrupted }
}

impl OnFailed {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Hold, Self::Continue, Self::Retry];

    /// The word people type.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Continue => "continue",
            Self::Retry => "retry",
        }
    }
}

crate::paper::by_from!(Notify, Hold, Release);

crate::paper::both_ways! {
    enum Wish { Allow, Deny { reason }, Options { ids, text } }
    enum Origin { New, Named(id), Resumed(id), Forked(id) }
    struct Ask { request, tool, detail, options, several, takes_text, takes_reason }
    struct Reply { chosen, text }
    struct Prompt { by, text, key, start_by, manner, retry }
    struct StartBy { boot, boot_ms }
    struct Retry { of, attempt }
    struct Conversation { id, store }
    struct Expiry { boot, boot_ms }
    struct Cancel { by, for_another, until_boot_ms }
    struct TurnEnd { state, reason, answer, cut, input_tokens, output_tokens, failure }
    struct AskOption { id, name, kind }
    struct Able { steer, resume }
    struct Policy { idle_ms, ttl_ms, archive_after_ms, on_unknown, on_failed, notify }
}
