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
    /// Event of a session. The field `event` names its kind.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(tag = "event", rename_all = "snake_case")]
    pub enum Event [checked] {
        /// The session was created.
        Created {
            /// Program to run, and how to run it.
            #[serde(flatten)]
            spec: SessionSpec,
            /// First name, if it has one.
            #[serde(default)]
            name: Option<String>,
        },
        /// The session was renamed.
        Renamed {
            /// The new name.
            name: String,
        },
        /// A run is about to be started. The event is on disk before the process exists.
        RunStarting {
            /// Number of the run.
            epoch: u64,
            /// Keeper that will hold the run.
            #[serde(default)]
            keeper: ProcessRef,
            /// Offset at which its output begins.
            #[serde(default)]
            output_from: u64,
            /// Means that hold its processes together.
            #[serde(default)]
            boundary: RunBoundary,
        },
        /// The agent's process exists.
        RunStarted {
            /// Number of the run.
            epoch: u64,
            /// First process of the agent.
            #[serde(default)]
            agent: ProcessRef,
        },
        /// A client asked for the end of the run.
        StopRequested {
            /// Number of the run.
            epoch: u64,
            /// Client that asked.
            #[serde(default)]
            by: Actor,
            /// Time of the kill, on the boot clock.
            #[serde(default)]
            kill_at_boot_ms: u64,
        },
        /// The agent's first process ended; its other processes are being ended.
        AgentExited {
            /// Number of the run.
            epoch: u64,
            /// Exit of that process.
            exit: ProcessExit,
            /// True if the kernel killed it because memory ran out.
            #[serde(default)]
            oom: bool,
            /// Time at which the other processes are killed, on the boot clock.
            #[serde(default)]
            kill_at_boot_ms: u64,
        },
        /// The kernel killed processes of the run because memory ran out.
        OomKilled {
            /// Number of the run.
            epoch: u64,
            /// Number of killed processes so far.
            #[serde(default)]
            kills: u64,
        },
        /// The grace period is over: everything left of the run is killed.
        KillOrdered {
            /// Number of the run.
            epoch: u64,
        },
        /// A process survived the kill, or could not be signalled.
        EndUnproven {
            /// Number of the run.
            epoch: u64,
            /// Processes that are left, each with the reason, for people.
            #[serde(default)]
            left: Vec<String>,
        },
        /// The run is over and nothing of it remains.
        RunEnded {
            /// Number of the run.
            epoch: u64,
            /// Outcome of the run.
            outcome: RunOutcome,
        },
        /// A client got the right to type.
        WriterGranted {
            /// Fence of the client.
            fence: u64,
            /// Client that may type now.
            #[serde(default)]
            holder: Actor,
            /// Client that lost the right.
            #[serde(default)]
            taken_from: Option<Actor>,
        },
        /// The writer gave up the right to type.
        WriterReleased {
            /// Fence of the client.
            fence: u64,
        },
        /// A command typed into the terminal. (Keys of an attached client are not journalled.)
        Typed {
            /// Client that typed.
            #[serde(default)]
            by: Actor,
            /// Number of bytes.
            #[serde(default)]
            bytes: u64,
        },
        /// The keeper replaced its own program in place; the run went on.
        KeeperRestarted {
            /// Reason, for people.
            #[serde(default)]
            reason: String,
        },
        /// Old output was deleted to stay within the limit.
        OutputDropped {
            /// Offset of the first byte that is still there.
            before: u64,
        },
        /// A helper was declared: its name, and how it is shared from its next run on.
        HelperDeclared {
            /// Terms on which sessions share it.
            #[serde(flatten)]
            terms: HelperTerms,
        },
        /// The helper's next run has another command.
        CommandChanged {
            /// The new program, and how to run it.
            #[serde(flatten)]
            spec: SessionSpec,
        },
        /// A session became an owner of this helper, or changed whether it keeps it.
        OwnerJoined {
            /// The owner, and whether it keeps the helper.
            #[serde(flatten)]
            owner: HelperOwner,
        },
        /// A session stopped being an owner of this helper.
        OwnerLeft {
            /// Id of the owner.
            owner: String,
            /// Reason.
            #[serde(default)]
            why: LeaveReason,
            /// Time of the stop if it was the last owner, on the boot clock.
            #[serde(default)]
            stop_at_boot_ms: Option<u64>,
        },
        /// The helper became ready.
        BecameReady {
            /// Number of the run.
            epoch: u64,
            /// Address of the helper, if it has one.
            #[serde(default)]
            address: Option<String>,
        },
        /// The helper did not become ready in time.
        NeverReady {
            /// Number of the run.
            epoch: u64,
            /// Reason, for people.
            #[serde(default)]
            reason: String,
        },
        /// The agent writes this conversation from now on.
        ConversationEntered {
            /// Id of the conversation, and where it is stored.
            #[serde(flatten)]
            conversation: Conversation,
        },
        /// The conversation was given up: the next run begins a new one.
        ConversationLeft {
            /// Client that asked.
            #[serde(default)]
            by: Actor,
        },
        /// The runs after this one talk to the agent through another interface. If no run is live, the next one does.
        InterfaceChosen {
            /// The chosen interface.
            interface: AgentInterface,
            /// True if the run is ended without waiting for the end of the turn.
            #[serde(default)]
            at_once: bool,
            /// Client that asked.
            #[serde(default)]
            by: Actor,
        },
        /// The agent is ready to take turns.
        AgentReady {
            /// Number of the run.
            epoch: u64,
            /// Abilities of the agent.
            #[serde(flatten)]
            able: AgentCapabilities,
            /// Time of the event, on the boot clock.
            #[serde(default)]
            at_boot_ms: u64,
        },
        /// The agent in the terminal was started with berth's hooks: it reports the begin and the end of its turns.
        HooksInjected {
            /// Number of the run.
            epoch: u64,
        },
        /// The agent in the terminal reported that it works, or no longer does.
        ActivityReported {
            /// Number of the run.
            epoch: u64,
            /// The reported change.
            edge: ActivityChange,
        },
        /// A prompt was accepted. The event is on disk before its sender gets the receipt.
        TurnAccepted {
            /// Number of the turn.
            turn: u64,
            /// Text and sender.
            #[serde(flatten)]
            prompt: TurnPrompt,
        },
        /// The prompt is about to be given to the agent. The event is on disk before the agent gets it.
        TurnDelivered {
            /// Number of the turn.
            turn: u64,
            /// Number of the run.
            #[serde(default)]
            epoch: u64,
            /// Offset at which its output begins.
            #[serde(default)]
            output_from: u64,
        },
        /// The agent confirmed that it has the prompt.
        TurnBegan {
            /// Number of the turn.
            turn: u64,
        },
        /// A client, or a newer turn, wants a turn interrupted.
        CancelRequested {
            /// Number of the turn.
            turn: u64,
            /// Sender, and the time limit for the agent.
            #[serde(flatten)]
            cancel: CancelRequest,
        },
        /// A turn is over.
        TurnEnded {
            /// Number of the turn.
            turn: u64,
            /// Final state and answer.
            #[serde(flatten)]
            end: TurnEnd,
            /// Time of the event, on the boot clock.
            #[serde(default)]
            at_boot_ms: u64,
        },
        /// The agent reported more about a turn that was over. Nothing changes.
        LateResult {
            /// Number of the turn.
            turn: u64,
            /// Final state and answer, as reported late.
            #[serde(flatten)]
            end: TurnEnd,
        },
        /// The agent asked a question and waits for the answer.
        QuestionAsked {
            /// The question.
            #[serde(flatten)]
            ask: AgentQuestion,
        },
        /// A client answered a question.
        Answered {
            /// Name of the question.
            request: String,
            /// The answer.
            #[serde(flatten)]
            reply: ChosenReply,
            /// Client that answered.
            #[serde(default)]
            by: Actor,
        },
        /// A question no longer waits for an answer.
        QuestionWithdrawn {
            /// Name of the question.
            request: String,
        },
        /// The queue is on hold.
        QueueHeld {
            /// Reason.
            hold: QueueHold,
        },
        /// The queue was resumed.
        QueueResumed {
            /// Client that asked.
            #[serde(default)]
            by: Actor,
        },
        /// A waiting turn was moved to another place.
        QueueMoved {
            /// Number of the turn.
            turn: u64,
            /// Number of turns before it.
            #[serde(default)]
            to: u64,
        },
        /// The text of a waiting turn was replaced.
        TurnEdited {
            /// Number of the turn.
            turn: u64,
            /// The new text.
            #[serde(rename = "prompt")]
            text: String,
            /// Client that asked.
            #[serde(default)]
            by: Actor,
        },
        /// berth itself ends the run.
        RunReleased {
            /// Number of the run.
            epoch: u64,
            /// Reason.
            why: ReleaseReason,
            /// Time of the kill, on the boot clock.
            #[serde(default)]
            kill_at_boot_ms: u64,
        },
        /// A time was set at which the session's time to live ends.
        ExpirySet {
            /// End of the time to live.
            #[serde(flatten)]
            expiry: SessionExpiry,
        },
        /// The session was archived. It does not run again before it is restored.
        Archived {
            /// Client that asked.
            #[serde(default)]
            by: Actor,
        },
        /// The session was restored from the archive.
        Restored {
            /// Client that asked.
            #[serde(default)]
            by: Actor,
        },
        /// A client changed the tags of the session.
        TagsChanged {
            /// All tags, in order.
            #[serde(default)]
            tags: Vec<String>,
        },
        /// A client changed the note of the session, or removed it.
        NoteChanged {
            /// The new note; null if it was removed.
            #[serde(default)]
            note: Option<String>,
        },
        /// The session goes on with a conversation that began outside of berth. Times are those of the agent's
        /// own transcript, for people.
        Imported {
            /// Path of the agent's transcript.
            #[serde(default)]
            file: String,
            /// Length of the transcript at the import: later bytes come from this session.
            #[serde(default)]
            bytes: u64,
            /// Time of its beginning, in milliseconds since 1970.
            #[serde(default)]
            began_at_ms: u64,
            /// Time of its latest message, in milliseconds since 1970.
            #[serde(default)]
            last_at_ms: u64,
        },
        /// The policy changed.
        PolicySet {
            /// The whole policy.
            #[serde(default)]
            policy: SessionPolicy,
        },
        /// A warning for people. Nothing else changes.
        Warned {
            /// Text of the warning.
            what: String,
        },
    }

    /// Program of a session, and how to run it.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct SessionSpec {
        /// Name of the driver that talks to the agent.
        pub driver: String,
        /// Program and its arguments.
        pub command: Vec<String>,
        /// Working directory.
        pub cwd: String,
        /// Environment variables set on top of the caller's environment.
        pub env: Vec<(String, String)>,
        /// Key of the caller: a repeated `run` with it means this session.
        pub key: Option<String>,
        /// Resource limits of each run.
        pub limits: RunLimits,
        /// Name of the agent in the table of agents, if it is from there.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        /// Kind of conversation that the agent writes; empty if it is unknown.
        #[serde(rename = "conversation_kind", skip_serializing_if = "String::is_empty")]
        pub conversation: String,
        /// Traits of the agent's terminal interface.
        #[serde(skip_serializing_if = "is_default")]
        pub terminal: TerminalTraits,
        /// Origin of the conversation of the first run.
        #[serde(skip_serializing_if = "is_default")]
        pub origin: ConversationOrigin,
        /// Command of runs that resume a conversation, if it differs from `command`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub again: Vec<String>,
        /// Policy: when the session ends by itself, and how its queue goes on after failures.
        #[serde(skip_serializing_if = "is_default")]
        pub policy: SessionPolicy,
        /// Id of the session that this one was started in: processes inside of that one may manage this one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub parent: Option<String>,
        /// Rights of processes in the session towards berth, beyond those of every agent.
        #[serde(skip_serializing_if = "is_default")]
        pub grant: Grant,
        /// Launch of the agent's other interface, if it has two for one conversation.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub other: Option<InterfaceLaunch>,
    }

    /// Peculiarities of an agent in a terminal. The keeper of a new session sets them by the kind of the agent.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct TerminalTraits {
        /// True if text that is typed while the agent works joins the running turn, and gets no end of its own.
        pub joins_prompts: bool,
        /// True if a text that begins with `#` is a note for the agent to remember, not a prompt.
        pub hash_makes_note: bool,
    }

    /// Interface between people and an agent: `chat` (berth speaks the agent's protocol) or `terminal` (what the agent paints
    /// itself).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum AgentInterface {
        /// The agent's protocol: berth shows the messages and asks the agent's questions.
        Chat,
        /// A terminal with the agent's own interface.
        Terminal,
    }

    /// Driver and commands of the agent's other interface.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct InterfaceLaunch {
        /// As `driver` of the session.
        pub driver: String,
        /// As `command` of the session.
        pub command: Vec<String>,
        /// As `again` of the session.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub again: Vec<String>,
    }

    /// Resource limits of each run; null is no limit.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct RunLimits {
        /// Memory, in bytes.
        pub memory_bytes: Option<u64>,
        /// Processes and their threads.
        pub processes: Option<u64>,
        /// Processor time, in per cent of one core.
        pub cpu_percent: Option<u64>,
    }

    /// Means that hold the processes of a run together.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct RunBoundary {
        /// Control group that every process of the run is born in.
        pub cgroup: Option<String>,
        /// Reason why there is no control group, for people.
        pub missing: Option<String>,
        /// Further groups that hold the limits of the run.
        pub limited_in: Vec<String>,
    }

    /// Identity of a process: its pid, start time and boot.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ProcessRef {
        /// Process id.
        pub pid: u32,
        /// Start time of the process, in clock ticks since boot.
        pub start_ticks: u64,
        /// Boot that the process belongs to.
        pub boot: String,
    }

    /// Client that asked for something: its pid, user id and location.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct Actor {
        /// Process id of the client.
        pub pid: u32,
        /// User id of the client; absent if no client asked, such as for a policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub uid: Option<u32>,
        /// Location of the client, for people: a terminal, an SSH connection, a script.
        pub place: String,
    }

    /// Exit of a process: its code, or the signal that ended it.
    #[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ProcessExit {
        /// The process ended by itself, with this code.
        Code(code: i32),
        /// The process was ended by this signal.
        Signal(signal: i32),
    }

    /// Outcome of a run.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum RunOutcome {
        /// The agent's process ended with this exit.
        Exited(exit: ProcessExit),
        /// The kernel killed the agent's process because memory ran out.
        OutOfMemory,
        /// The agent could not be started.
        StartFailed(reason: String),
        /// The keeper died first, so the end was not observed.
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
pub enum Grant {
    /// Send turns to any session, its own included.
    Send,
    /// Control any session: end it, type into it, answer its agent's questions.
    Control,
    /// Everything that the user may do.
    Admin,
    /// No further rights.
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

#[cfg(test)]
mod tests;
