//! Events as they are stored and shown: JSON, tolerant of what older versions left out.
//!
//! `core` has its own types without serde so that the rules never bend to a file format; the two
//! are kept apart here, and the compiler notices when one of them grows.

use berth_core as core;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::helper::{Leaving, Owner, Terms};
use crate::turn::{
    Able, Ask, Cancel, Conversation, Edge, Expiry, Hold, Origin, Policy, Prompt, Release, Reply, TurnEnd,
};

/// One event with its time: a line of `berth log --json`, a payload of the journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Wall clock, milliseconds since 1970. For people.
    #[serde(default)]
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// [`core::Event`] on paper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(missing_docs, reason = "each variant and field mirrors berth_core::Event, documented there")]
pub enum Event {
    Created {
        #[serde(flatten)]
        spec: Spec,
        #[serde(default)]
        name: Option<String>,
    },
    Renamed {
        name: String,
    },
    RunStarting {
        epoch: u64,
        #[serde(default)]
        keeper: Process,
        #[serde(default)]
        output_from: u64,
        #[serde(default)]
        boundary: Boundary,
    },
    RunStarted {
        epoch: u64,
        #[serde(default)]
        agent: Process,
    },
    StopRequested {
        epoch: u64,
        #[serde(default)]
        by: Actor,
        #[serde(default)]
        kill_at_boot_ms: u64,
    },
    AgentExited {
        epoch: u64,
        exit: Exit,
        #[serde(default)]
        oom: bool,
        #[serde(default)]
        kill_at_boot_ms: u64,
    },
    OomKilled {
        epoch: u64,
        #[serde(default)]
        kills: u64,
    },
    KillOrdered {
        epoch: u64,
    },
    EndUnproven {
        epoch: u64,
        #[serde(default)]
        left: Vec<String>,
    },
    RunEnded {
        epoch: u64,
        outcome: Outcome,
    },
    WriterGranted {
        fence: u64,
        #[serde(default)]
        holder: Actor,
        #[serde(default)]
        taken_from: Option<Actor>,
    },
    WriterReleased {
        fence: u64,
    },
    Typed {
        #[serde(default)]
        by: Actor,
        #[serde(default)]
        bytes: u64,
    },
    KeeperRestarted {
        #[serde(default)]
        reason: String,
    },
    OutputDropped {
        before: u64,
    },
    Declared {
        #[serde(flatten)]
        terms: Terms,
    },
    Respecified {
        #[serde(flatten)]
        spec: Spec,
    },
    OwnerJoined {
        #[serde(flatten)]
        owner: Owner,
    },
    OwnerLeft {
        owner: String,
        #[serde(default)]
        why: Leaving,
        #[serde(default)]
        stop_at_boot_ms: Option<u64>,
    },
    BecameReady {
        epoch: u64,
        #[serde(default)]
        address: Option<String>,
    },
    NeverReady {
        epoch: u64,
        #[serde(default)]
        reason: String,
    },
    ConversationEntered {
        #[serde(flatten)]
        conversation: Conversation,
    },
    ConversationLeft {
        #[serde(default)]
        by: Actor,
    },
    InterfaceChosen {
        interface: Interface,
        #[serde(default)]
        at_once: bool,
        #[serde(default)]
        by: Actor,
    },
    AgentReady {
        epoch: u64,
        #[serde(flatten)]
        able: Able,
        #[serde(default)]
        at_boot_ms: u64,
    },
    HooksCarried {
        epoch: u64,
    },
    EdgeSeen {
        epoch: u64,
        edge: Edge,
    },
    TurnAccepted {
        turn: u64,
        #[serde(flatten)]
        prompt: Prompt,
    },
    TurnDelivered {
        turn: u64,
        #[serde(default)]
        epoch: u64,
        #[serde(default)]
        output_from: u64,
    },
    TurnBegan {
        turn: u64,
    },
    CancelRequested {
        turn: u64,
        #[serde(flatten)]
        cancel: Cancel,
    },
    TurnEnded {
        turn: u64,
        #[serde(flatten)]
        end: TurnEnd,
        #[serde(default)]
        at_boot_ms: u64,
    },
    TurnLate {
        turn: u64,
        #[serde(flatten)]
        end: TurnEnd,
    },
    Asked {
        #[serde(flatten)]
        ask: Ask,
    },
    Answered {
        request: String,
        #[serde(flatten)]
        reply: Reply,
        #[serde(default)]
        by: Actor,
    },
    Unasked {
        request: String,
    },
    QueueHeld {
        hold: Hold,
    },
    QueueResumed {
        #[serde(default)]
        by: Actor,
    },
    QueueMoved {
        turn: u64,
        #[serde(default)]
        to: u64,
    },
    TurnEdited {
        turn: u64,
        #[serde(rename = "prompt")]
        text: String,
        #[serde(default)]
        by: Actor,
    },
    Released {
        epoch: u64,
        why: Release,
        #[serde(default)]
        kill_at_boot_ms: u64,
    },
    ExpirySet {
        #[serde(flatten)]
        expiry: Expiry,
    },
    Archived {
        #[serde(default)]
        by: Actor,
    },
    Restored {
        #[serde(default)]
        by: Actor,
    },
    Tagged {
        #[serde(default)]
        tags: Vec<String>,
    },
    Noted {
        #[serde(default)]
        note: Option<String>,
    },
    Imported {
        #[serde(default)]
        file: String,
        #[serde(default)]
        bytes: u64,
        #[serde(default)]
        began_at_ms: u64,
        #[serde(default)]
        last_at_ms: u64,
    },
    PolicySet {
        #[serde(default)]
        policy: Policy,
    },
    Warned {
        what: String,
    },
}

/// [`core::Spec`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Spec")]
pub struct Spec {
    pub driver: String,
    pub command: Vec<String>,
    pub cwd: String,
    pub env: Vec<(String, String)>,
    pub key: Option<String>,
    pub limits: Limits,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(rename = "conversation_kind", skip_serializing_if = "String::is_empty")]
    pub conversation: String,
    #[serde(skip_serializing_if = "is_default")]
    pub terminal: TerminalTraits,
    #[serde(skip_serializing_if = "is_default")]
    pub origin: Origin,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub policy: Policy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub grant: Grant,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<InterfaceLaunch>,
}

/// [`core::TerminalTraits`] on paper: the keeper of a new session sets it by the kind of the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::TerminalTraits")]
pub struct TerminalTraits {
    pub joins_prompts: bool,
    pub hash_makes_note: bool,
}

/// How people and berth reach an agent: `chat` (berth speaks the agent's protocol) or `terminal` (what the agent paints
/// itself).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Interface")]
pub enum Interface {
    Chat,
    Terminal,
}

impl Interface {
    /// The word people see.
    pub fn word(self) -> &'static str {
        core::Interface::from(self).word()
    }
}

impl From<core::Interface> for Interface {
    fn from(interface: core::Interface) -> Self {
        match interface {
            core::Interface::Chat => Self::Chat,
            core::Interface::Terminal => Self::Terminal,
        }
    }
}

impl From<Interface> for core::Interface {
    fn from(interface: Interface) -> Self {
        match interface {
            Interface::Chat => Self::Chat,
            Interface::Terminal => Self::Terminal,
        }
    }
}

/// [`core::InterfaceLaunch`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::InterfaceLaunch")]
pub struct InterfaceLaunch {
    pub driver: String,
    pub command: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
}

/// [`core::Grant`] on paper, in the words of [`crate::Scope`]. A word of a later version grants nothing here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Grant")]
pub enum Grant {
    Send,
    Control,
    Admin,
    #[default]
    #[serde(other)]
    None,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// [`core::Limits`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Limits")]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub cpu_percent: Option<u64>,
}

/// [`core::Boundary`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Boundary")]
pub struct Boundary {
    pub cgroup: Option<String>,
    pub missing: Option<String>,
    pub limited_in: Vec<String>,
}

/// [`core::Process`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Process")]
pub struct Process {
    pub pid: u32,
    pub start_ticks: u64,
    pub boot_id: String,
}

/// [`core::Actor`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::Actor")]
pub struct Actor {
    pub pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    pub place: String,
}

/// [`core::Exit`] on paper.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Exit")]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

/// [`core::Outcome`] on paper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Outcome")]
pub enum Outcome {
    Exited(Exit),
    OutOfMemory,
    StartFailed(String),
    Lost,
}

impl Entry {
    /// Puts an event on paper.
    pub fn new(at_ms: u64, event: &core::Event) -> Self {
        Self { at_ms, event: event.into() }
    }

    /// Reads it back. Fails on a name or an id no version of ours would write.
    pub fn to_core(&self) -> Result<core::Event, BadRecord> {
        (&self.event).try_into()
    }
}

/// Why an event cannot be one of ours.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRecord {
    /// A name nobody could have given.
    #[error("{0}")]
    Name(core::BadName),
    /// An id nobody could have.
    #[error("`{0}` is not the id of a session")]
    Id(String),
}

impl From<core::BadName> for BadRecord {
    fn from(bad: core::BadName) -> Self {
        Self::Name(bad)
    }
}

impl From<&core::Event> for Event {
    fn from(event: &core::Event) -> Self {
        use core::Event as E;
        match event.clone() {
            E::Created { spec, name } => {
                Self::Created { spec: spec.into(), name: name.map(|name| name.as_str().to_owned()) }
            }
            E::Renamed { name } => Self::Renamed { name: name.as_str().to_owned() },
            E::RunStarting { epoch, keeper, output_from, boundary } => Self::RunStarting {
                epoch: epoch.0,
                keeper: keeper.into(),
                output_from,
                boundary: boundary.into(),
            },
            E::RunStarted { epoch, agent } => Self::RunStarted { epoch: epoch.0, agent: agent.into() },
            E::StopRequested { epoch, by, kill_at_boot_ms } => {
                Self::StopRequested { epoch: epoch.0, by: by.into(), kill_at_boot_ms }
            }
            E::AgentExited { epoch, exit, oom, kill_at_boot_ms } => {
                Self::AgentExited { epoch: epoch.0, exit: exit.into(), oom, kill_at_boot_ms }
            }
            E::OomKilled { epoch, kills } => Self::OomKilled { epoch: epoch.0, kills },
            E::KillOrdered { epoch } => Self::KillOrdered { epoch: epoch.0 },
            E::EndUnproven { epoch, left } => Self::EndUnproven { epoch: epoch.0, left },
            E::RunEnded { epoch, outcome } => Self::RunEnded { epoch: epoch.0, outcome: outcome.into() },
            E::WriterGranted { fence, holder, taken_from } => Self::WriterGranted {
                fence: fence.0,
                holder: holder.into(),
                taken_from: taken_from.map(Into::into),
            },
            E::WriterReleased { fence } => Self::WriterReleased { fence: fence.0 },
            E::Typed { by, bytes } => Self::Typed { by: by.into(), bytes },
            E::KeeperRestarted { reason } => Self::KeeperRestarted { reason },
            E::OutputDropped { before } => Self::OutputDropped { before },
            E::Declared { terms } => Self::Declared { terms: terms.into() },
            E::Respecified { spec } => Self::Respecified { spec: spec.into() },
            E::OwnerJoined { owner } => Self::OwnerJoined { owner: owner.into() },
            E::OwnerLeft { owner, why, stop_at_boot_ms } => {
                Self::OwnerLeft { owner: owner.to_string(), why: why.into(), stop_at_boot_ms }
            }
            E::BecameReady { epoch, address } => Self::BecameReady { epoch: epoch.0, address },
            E::NeverReady { epoch, reason } => Self::NeverReady { epoch: epoch.0, reason },
            E::ConversationEntered { conversation } => {
                Self::ConversationEntered { conversation: conversation.into() }
            }
            E::ConversationLeft { by } => Self::ConversationLeft { by: by.into() },
            E::InterfaceChosen { interface, at_once, by } => {
                Self::InterfaceChosen { interface: interface.into(), at_once, by: by.into() }
            }
            E::AgentReady { epoch, able, at_boot_ms } => {
                Self::AgentReady { epoch: epoch.0, able: able.into(), at_boot_ms }
            }
            E::HooksCarried { epoch } => Self::HooksCarried { epoch: epoch.0 },
            E::EdgeSeen { epoch, edge } => Self::EdgeSeen { epoch: epoch.0, edge: edge.into() },
            E::TurnAccepted { turn, prompt } => Self::TurnAccepted { turn, prompt: prompt.into() },
            E::TurnDelivered { turn, epoch, output_from } => {
                Self::TurnDelivered { turn, epoch: epoch.0, output_from }
            }
            E::TurnBegan { turn } => Self::TurnBegan { turn },
            E::CancelRequested { turn, cancel } => Self::CancelRequested { turn, cancel: cancel.into() },
            E::TurnEnded { turn, end, at_boot_ms } => Self::TurnEnded { turn, end: end.into(), at_boot_ms },
            E::TurnLate { turn, end } => Self::TurnLate { turn, end: end.into() },
            E::Asked { ask } => Self::Asked { ask: ask.into() },
            E::Answered { request, reply, by } => {
                Self::Answered { request, reply: reply.into(), by: by.into() }
            }
            E::Unasked { request } => Self::Unasked { request },
            E::QueueHeld { hold } => Self::QueueHeld { hold: hold.into() },
            E::QueueResumed { by } => Self::QueueResumed { by: by.into() },
            E::QueueMoved { turn, to } => Self::QueueMoved { turn, to },
            E::TurnEdited { turn, text, by } => Self::TurnEdited { turn, text, by: by.into() },
            E::Released { epoch, why, kill_at_boot_ms } => {
                Self::Released { epoch: epoch.0, why: why.into(), kill_at_boot_ms }
            }
            E::ExpirySet { expiry } => Self::ExpirySet { expiry: expiry.into() },
            E::Archived { by } => Self::Archived { by: by.into() },
            E::Restored { by } => Self::Restored { by: by.into() },
            E::Tagged { tags } => Self::Tagged { tags: tags.iter().map(ToString::to_string).collect() },
            E::Noted { note } => Self::Noted { note },
            E::PolicySet { policy } => Self::PolicySet { policy: policy.into() },
            E::Imported { file, bytes, began_at_ms, last_at_ms } => {
                Self::Imported { file, bytes, began_at_ms, last_at_ms }
            }
            E::Warned { what } => Self::Warned { what },
        }
    }
}

impl TryFrom<&Event> for core::Event {
    type Error = BadRecord;

    fn try_from(event: &Event) -> Result<Self, BadRecord> {
        use core::{Epoch, Fence, Name};
        Ok(match event.clone() {
            Event::Created { spec, name } => {
                Self::Created { spec: spec.into(), name: name.map(|name| Name::parse(&name)).transpose()? }
            }
            Event::Renamed { name } => Self::Renamed { name: Name::parse(&name)? },
            Event::RunStarting { epoch, keeper, output_from, boundary } => Self::RunStarting {
                epoch: Epoch(epoch),
                keeper: keeper.into(),
                output_from,
                boundary: boundary.into(),
            },
            Event::RunStarted { epoch, agent } => {
                Self::RunStarted { epoch: Epoch(epoch), agent: agent.into() }
            }
            Event::StopRequested { epoch, by, kill_at_boot_ms } => {
                Self::StopRequested { epoch: Epoch(epoch), by: by.into(), kill_at_boot_ms }
            }
            Event::AgentExited { epoch, exit, oom, kill_at_boot_ms } => {
                Self::AgentExited { epoch: Epoch(epoch), exit: exit.into(), oom, kill_at_boot_ms }
            }
            Event::OomKilled { epoch, kills } => Self::OomKilled { epoch: Epoch(epoch), kills },
            Event::KillOrdered { epoch } => Self::KillOrdered { epoch: Epoch(epoch) },
            Event::EndUnproven { epoch, left } => Self::EndUnproven { epoch: Epoch(epoch), left },
            Event::RunEnded { epoch, outcome } => {
                Self::RunEnded { epoch: Epoch(epoch), outcome: outcome.into() }
            }
            Event::WriterGranted { fence, holder, taken_from } => Self::WriterGranted {
                fence: Fence(fence),
                holder: holder.into(),
                taken_from: taken_from.map(Into::into),
            },
            Event::WriterReleased { fence } => Self::WriterReleased { fence: Fence(fence) },
            Event::Typed { by, bytes } => Self::Typed { by: by.into(), bytes },
            Event::KeeperRestarted { reason } => Self::KeeperRestarted { reason },
            Event::OutputDropped { before } => Self::OutputDropped { before },
            Event::Declared { terms } => Self::Declared { terms: terms.try_into()? },
            Event::Respecified { spec } => Self::Respecified { spec: spec.into() },
            Event::OwnerJoined { owner } => Self::OwnerJoined { owner: owner.try_into()? },
            Event::OwnerLeft { owner, why, stop_at_boot_ms } => {
                Self::OwnerLeft { owner: crate::helper::session_id(owner)?, why: why.into(), stop_at_boot_ms }
            }
            Event::BecameReady { epoch, address } => Self::BecameReady { epoch: Epoch(epoch), address },
            Event::NeverReady { epoch, reason } => Self::NeverReady { epoch: Epoch(epoch), reason },
            Event::ConversationEntered { conversation } => {
                Self::ConversationEntered { conversation: conversation.into() }
            }
            Event::ConversationLeft { by } => Self::ConversationLeft { by: by.into() },
            Event::InterfaceChosen { interface, at_once, by } => {
                Self::InterfaceChosen { interface: interface.into(), at_once, by: by.into() }
            }
            Event::AgentReady { epoch, able, at_boot_ms } => {
                Self::AgentReady { epoch: Epoch(epoch), able: able.into(), at_boot_ms }
            }
            Event::HooksCarried { epoch } => Self::HooksCarried { epoch: Epoch(epoch) },
            Event::EdgeSeen { epoch, edge } => Self::EdgeSeen { epoch: Epoch(epoch), edge: edge.into() },
            Event::TurnAccepted { turn, prompt } => Self::TurnAccepted { turn, prompt: prompt.into() },
            Event::TurnDelivered { turn, epoch, output_from } => {
                Self::TurnDelivered { turn, epoch: Epoch(epoch), output_from }
            }
            Event::TurnBegan { turn } => Self::TurnBegan { turn },
            Event::CancelRequested { turn, cancel } => Self::CancelRequested { turn, cancel: cancel.into() },
            Event::TurnEnded { turn, end, at_boot_ms } => {
                Self::TurnEnded { turn, end: end.into(), at_boot_ms }
            }
            Event::TurnLate { turn, end } => Self::TurnLate { turn, end: end.into() },
            Event::Asked { ask } => Self::Asked { ask: ask.into() },
            Event::Answered { request, reply, by } => {
                Self::Answered { request, reply: reply.into(), by: by.into() }
            }
            Event::Unasked { request } => Self::Unasked { request },
            Event::QueueHeld { hold } => Self::QueueHeld { hold: hold.into() },
            Event::QueueResumed { by } => Self::QueueResumed { by: by.into() },
            Event::QueueMoved { turn, to } => Self::QueueMoved { turn, to },
            Event::TurnEdited { turn, text, by } => Self::TurnEdited { turn, text, by: by.into() },
            Event::Released { epoch, why, kill_at_boot_ms } => {
                Self::Released { epoch: Epoch(epoch), why: why.into(), kill_at_boot_ms }
            }
            Event::ExpirySet { expiry } => Self::ExpirySet { expiry: expiry.into() },
            Event::Archived { by } => Self::Archived { by: by.into() },
            Event::Restored { by } => Self::Restored { by: by.into() },
            Event::Tagged { tags } => {
                Self::Tagged { tags: tags.iter().map(|tag| Name::parse(tag)).collect::<Result<_, _>>()? }
            }
            Event::Noted { note } => Self::Noted { note },
            Event::PolicySet { policy } => Self::PolicySet { policy: policy.into() },
            Event::Imported { file, bytes, began_at_ms, last_at_ms } => {
                Self::Imported { file, bytes, began_at_ms, last_at_ms }
            }
            Event::Warned { what } => Self::Warned { what },
        })
    }
}

/// Two structs with the same fields on both sides of the border.
macro_rules! same_fields {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl From<berth_core::$name> for $name {
            fn from(it: berth_core::$name) -> Self { Self { $($field: it.$field.into()),* } }
        }
        impl From<$name> for berth_core::$name {
            fn from(it: $name) -> Self { Self { $($field: it.$field.into()),* } }
        }
    )*};
}

pub(crate) use same_fields;

same_fields! {
    InterfaceLaunch { driver, command, again }
    TerminalTraits { joins_prompts, hash_makes_note }
    Limits { memory_bytes, processes, cpu_percent }
    Boundary { cgroup, missing, limited_in }
    Process { pid, start_ticks, boot_id }
    Actor { pid, uid, place }
}

impl From<core::Spec> for Spec {
    fn from(it: core::Spec) -> Self {
        Self {
            driver: it.driver,
            command: it.command,
            cwd: it.cwd,
            env: it.env,
            key: it.key,
            limits: it.limits.into(),
            agent: it.agent,
            conversation: it.conversation,
            terminal: it.terminal.into(),
            origin: it.origin.into(),
            again: it.again,
            policy: it.policy.into(),
            parent: it.parent,
            grant: it.grant.into(),
            other: it.other.map(Into::into),
        }
    }
}

impl From<Spec> for core::Spec {
    fn from(it: Spec) -> Self {
        Self {
            driver: it.driver,
            command: it.command,
            cwd: it.cwd,
            env: it.env,
            key: it.key,
            limits: it.limits.into(),
            agent: it.agent,
            conversation: it.conversation,
            terminal: it.terminal.into(),
            origin: it.origin.into(),
            again: it.again,
            policy: it.policy.into(),
            parent: it.parent,
            grant: it.grant.into(),
            other: it.other.map(Into::into),
        }
    }
}

impl From<core::Grant> for Grant {
    fn from(grant: core::Grant) -> Self {
        match grant {
            core::Grant::Nothing => Self::None,
            core::Grant::Send => Self::Send,
            core::Grant::Control => Self::Control,
            core::Grant::Admin => Self::Admin,
        }
    }
}

impl From<Grant> for core::Grant {
    fn from(grant: Grant) -> Self {
        match grant {
            Grant::None => Self::Nothing,
            Grant::Send => Self::Send,
            Grant::Control => Self::Control,
            Grant::Admin => Self::Admin,
        }
    }
}

impl From<core::Exit> for Exit {
    fn from(exit: core::Exit) -> Self {
        match exit {
            core::Exit::Code(code) => Self::Code(code),
            core::Exit::Signal(signal) => Self::Signal(signal),
        }
    }
}

impl From<Exit> for core::Exit {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Code(code) => Self::Code(code),
            Exit::Signal(signal) => Self::Signal(signal),
        }
    }
}

impl From<core::Outcome> for Outcome {
    fn from(outcome: core::Outcome) -> Self {
        match outcome {
            core::Outcome::Exited(exit) => Self::Exited(exit.into()),
            core::Outcome::OutOfMemory => Self::OutOfMemory,
            core::Outcome::StartFailed(reason) => Self::StartFailed(reason),
            core::Outcome::Lost => Self::Lost,
        }
    }
}

impl From<Outcome> for core::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Exited(exit) => Self::Exited(exit.into()),
            Outcome::OutOfMemory => Self::OutOfMemory,
            Outcome::StartFailed(reason) => Self::StartFailed(reason),
            Outcome::Lost => Self::Lost,
        }
    }
}

impl Exit {
    /// As a shell reports it: the code, or 128 + the signal.
    pub(crate) fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}
