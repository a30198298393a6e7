//! Events as they are stored and shown: JSON, tolerant of what older versions left out.
//!
//! Promise: an event of any older version can be read.
//! Not here: the rules. `core` has its own types without serde; see `paper` for how the two are kept alike.
//! Start with [`EventEntry`].

use berth_core as core;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::helper::{HelperOwner, HelperTerms, LeaveReason};
use crate::mirror::{by_from, mirror};
use crate::turn::{
    ActivityChange, AgentCapabilities, AgentQuestion, CancelRequest, ChosenReply, Conversation,
    ConversationOrigin, QueueHold, ReleaseReason, SessionExpiry, SessionPolicy, TurnEnd, TurnPrompt,
};

/// One event with its time: a line of `berth log --json`, a payload of the journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventEntry {
    /// Time of the event by the wall clock, in milliseconds since 1970. For people.
    #[serde(default)]
    pub at_ms: u64,
    /// The event itself.
    #[serde(flatten)]
    pub event: Event,
}

mirror! {
    /// Event of a session. Mirrors [`core::Event`], which explains each kind.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(tag = "event", rename_all = "snake_case")]
    pub enum Event [checked] {
        Created {
            #[serde(flatten)]
            spec: SessionSpec,
            #[serde(default)]
            name: Option<String>,
        },
        Renamed {
            name: String,
        },
        RunStarting {
            epoch: u64,
            #[serde(default)]
            keeper: ProcessRef,
            #[serde(default)]
            output_from: u64,
            #[serde(default)]
            boundary: RunBoundary,
        },
        RunStarted {
            epoch: u64,
            #[serde(default)]
            agent: ProcessRef,
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
            exit: ProcessExit,
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
            outcome: RunOutcome,
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
        HelperDeclared {
            #[serde(flatten)]
            terms: HelperTerms,
        },
        CommandChanged {
            #[serde(flatten)]
            spec: SessionSpec,
        },
        OwnerJoined {
            #[serde(flatten)]
            owner: HelperOwner,
        },
        OwnerLeft {
            owner: String,
            #[serde(default)]
            why: LeaveReason,
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
            interface: AgentInterface,
            #[serde(default)]
            at_once: bool,
            #[serde(default)]
            by: Actor,
        },
        AgentReady {
            epoch: u64,
            #[serde(flatten)]
            able: AgentCapabilities,
            #[serde(default)]
            at_boot_ms: u64,
        },
        HooksInjected {
            epoch: u64,
        },
        ActivityReported {
            epoch: u64,
            edge: ActivityChange,
        },
        TurnAccepted {
            turn: u64,
            #[serde(flatten)]
            prompt: TurnPrompt,
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
            cancel: CancelRequest,
        },
        TurnEnded {
            turn: u64,
            #[serde(flatten)]
            end: TurnEnd,
            #[serde(default)]
            at_boot_ms: u64,
        },
        LateResult {
            turn: u64,
            #[serde(flatten)]
            end: TurnEnd,
        },
        QuestionAsked {
            #[serde(flatten)]
            ask: AgentQuestion,
        },
        Answered {
            request: String,
            #[serde(flatten)]
            reply: ChosenReply,
            #[serde(default)]
            by: Actor,
        },
        QuestionWithdrawn {
            request: String,
        },
        QueueHeld {
            hold: QueueHold,
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
        RunReleased {
            epoch: u64,
            why: ReleaseReason,
            #[serde(default)]
            kill_at_boot_ms: u64,
        },
        ExpirySet {
            #[serde(flatten)]
            expiry: SessionExpiry,
        },
        Archived {
            #[serde(default)]
            by: Actor,
        },
        Restored {
            #[serde(default)]
            by: Actor,
        },
        TagsChanged {
            #[serde(default)]
            tags: Vec<String>,
        },
        NoteChanged {
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
            policy: SessionPolicy,
        },
        Warned {
            what: String,
        },
    }

    /// Program of a session, and how to run it.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct SessionSpec {
        pub driver: String,
        pub command: Vec<String>,
        pub cwd: String,
        pub env: Vec<(String, String)>,
        pub key: Option<String>,
        pub limits: RunLimits,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        #[serde(rename = "conversation_kind", skip_serializing_if = "String::is_empty")]
        pub conversation: String,
        #[serde(skip_serializing_if = "is_default")]
        pub terminal: TerminalTraits,
        #[serde(skip_serializing_if = "is_default")]
        pub origin: ConversationOrigin,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub again: Vec<String>,
        #[serde(skip_serializing_if = "is_default")]
        pub policy: SessionPolicy,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub parent: Option<String>,
        #[serde(skip_serializing_if = "is_default")]
        pub grant: Grant,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub other: Option<InterfaceLaunch>,
    }

    /// Peculiarities of an agent in a terminal. The keeper of a new session sets them by the kind of the agent.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct TerminalTraits {
        pub joins_prompts: bool,
        pub hash_makes_note: bool,
    }

    /// Interface between people and an agent: `chat` (berth speaks the agent's protocol) or `terminal` (what the agent paints
    /// itself).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum AgentInterface {
        Chat,
        Terminal,
    }

    /// Driver and commands of the agent's other interface.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct InterfaceLaunch {
        pub driver: String,
        pub command: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub again: Vec<String>,
    }

    /// Resource limits of each run; null is no limit.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct RunLimits {
        pub memory_bytes: Option<u64>,
        pub processes: Option<u64>,
        pub cpu_percent: Option<u64>,
    }

    /// Means that hold the processes of a run together.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct RunBoundary {
        pub cgroup: Option<String>,
        pub missing: Option<String>,
        pub limited_in: Vec<String>,
    }

    /// Identity of a process: its pid, start time and boot.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ProcessRef {
        pub pid: u32,
        pub start_ticks: u64,
        pub boot: String,
    }

    /// Client that asked for something: its pid, user id and location.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct Actor {
        pub pid: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub uid: Option<u32>,
        pub place: String,
    }

    /// Exit of a process: its code, or the signal that ended it.
    #[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ProcessExit {
        Code(code: i32),
        Signal(signal: i32),
    }

    /// Outcome of a run.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum RunOutcome {
        Exited(exit: ProcessExit),
        OutOfMemory,
        StartFailed(reason: String),
        Lost,
    }
}

impl AgentInterface {
    /// Word that people see.
    pub fn word(self) -> &'static str {
        core::AgentInterface::from(self).word()
    }
}

/// Rights of processes in a session towards berth, in the words of scopes. A word of a later version grants nothing.
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

impl EventEntry {
    /// Converts an event for storage.
    pub fn new(at_ms: u64, event: &core::Event) -> Self {
        Self { at_ms, event: event.clone().into() }
    }

    /// Converts it back. Fails on a name or an id that no version of berth would write.
    pub fn to_core(&self) -> Result<core::Event, BadRecord> {
        self.event.clone().try_into()
    }
}

/// Reason why a stored event is rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRecord {
    /// A name that is not a valid session name.
    #[error("{0}")]
    Name(core::BadName),
    /// A text that is not a valid session id.
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

impl ProcessExit {
    /// Exit code as a shell reports it: the code, or 128 + the signal.
    pub(crate) fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}
