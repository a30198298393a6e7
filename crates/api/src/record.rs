//! Events as they are stored and shown: JSON, tolerant of what older versions left out.
//!
//! `core` has its own types without serde; see `paper` for how the two are kept alike.

use berth_core as core;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::helper::{Leaving, Owner, Terms};
use crate::paper::{by_from, mirror};
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

mirror! {
    /// [`core::Event`] on paper.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(tag = "event", rename_all = "snake_case")]
    pub enum Event [checked] {
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
    pub struct TerminalTraits {
        pub joins_prompts: bool,
        pub hash_makes_note: bool,
    }

    /// How people and berth reach an agent: `chat` (berth speaks the agent's protocol) or `terminal` (what the agent paints
    /// itself).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Interface {
        Chat,
        Terminal,
    }

    /// [`core::InterfaceLaunch`] on paper.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct InterfaceLaunch {
        pub driver: String,
        pub command: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub again: Vec<String>,
    }

    /// [`core::Limits`] on paper.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct Limits {
        pub memory_bytes: Option<u64>,
        pub processes: Option<u64>,
        pub cpu_percent: Option<u64>,
    }

    /// [`core::Boundary`] on paper.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct Boundary {
        pub cgroup: Option<String>,
        pub missing: Option<String>,
        pub limited_in: Vec<String>,
    }

    /// [`core::Process`] on paper.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct Process {
        pub pid: u32,
        pub start_ticks: u64,
        pub boot: String,
    }

    /// [`core::Actor`] on paper.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct Actor {
        pub pid: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub uid: Option<u32>,
        pub place: String,
    }

    /// [`core::Exit`] on paper.
    #[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Exit {
        Code(code: i32),
        Signal(signal: i32),
    }

    /// [`core::Outcome`] on paper.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Outcome {
        Exited(exit: Exit),
        OutOfMemory,
        StartFailed(reason: String),
        Lost,
    }
}

impl Interface {
    /// The word people see.
    pub fn word(self) -> &'static str {
        core::Interface::from(self).word()
    }
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

impl Entry {
    /// Puts an event on paper.
    pub fn new(at_ms: u64, event: &core::Event) -> Self {
        Self { at_ms, event: event.clone().into() }
    }

    /// Reads it back. Fails on a name or an id no version of ours would write.
    pub fn to_core(&self) -> Result<core::Event, BadRecord> {
        self.event.clone().try_into()
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

by_from!(Grant);

impl Exit {
    /// As a shell reports it: the code, or 128 + the signal.
    pub(crate) fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}
