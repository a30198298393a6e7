//! Events: facts about a session, in the past tense. The journal numbers them, and none is ever taken back.
//!
//! Promise: an event alone, without the command that caused it, says what changed.
//! Not here: how events change the state (see [`crate::Session::apply`]), and their stored form (`berth-api`).
//! Start with [`Event`].

use crate::turns::{
    AgentCapabilities, AgentQuestion, CancelRequest, ChosenReply, OnFailed, OnUnknown, QueueHold,
    ReleaseReason, SessionExpiry, TurnEnd, TurnPrompt,
};
use crate::{
    ActivityChange, AgentInterface, Epoch, Fence, Grant, HelperOwner, HelperTerms, InterfaceLaunch,
    LeaveReason, NotificationPolicy, SafeName, SessionId,
};

/// A fact about a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The session was created.
    Created {
        /** Program to run, and how to run it. */
        spec: SessionSpec,
        /** First name, if it got one. */
        name: Option<SafeName>,
    },
    /// The session was renamed.
    Renamed {
        /** The new name. */
        name: SafeName,
    },
    /// A run is about to be spawned. On disk before the process exists.
    RunStarting {
        /** Number of the run. */
        epoch: Epoch,
        /** Keeper that will hold the run. */
        keeper: ProcessRef,
        /** Offset at which its output begins. */
        output_from: u64,
        /** Means that hold its processes together. */
        boundary: RunBoundary,
    },
    /// The agent's process exists.
    RunStarted {
        /** Number of the run. */
        epoch: Epoch,
        /** First process of the agent. */
        agent: ProcessRef,
    },
    /// A client asked for the end of the run.
    StopRequested {
        /** Number of the run. */
        epoch: Epoch,
        /** Client that asked. */
        by: Actor,
        /** Time of the kill, on the boot clock. */
        kill_at_boot_ms: u64,
    },
    /// The agent's first process ended; its other processes are being ended.
    AgentExited {
        /** Number of the run. */
        epoch: Epoch,
        /** Exit of that process. */
        exit: ProcessExit,
        /** True if the kernel killed it because memory ran out. */
        oom: bool,
        /** Time at which the other processes are killed, on the boot clock. */
        kill_at_boot_ms: u64,
    },
    /// The kernel killed processes of the run because memory ran out.
    OomKilled {
        /** Number of the run. */
        epoch: Epoch,
        /** Number of killed processes so far. */
        kills: u64,
    },
    /// The grace period is over: everything left of the run is killed.
    KillOrdered {
        /** Number of the run. */
        epoch: Epoch,
    },
    /// A process survived the kill, or could not be signalled.
    EndUnproven {
        /** Number of the run. */
        epoch: Epoch,
        /** Processes that are left, each with the reason, for people. */
        left: Vec<String>,
    },
    /// The run is over and nothing of it remains.
    RunEnded {
        /** Number of the run. */
        epoch: Epoch,
        /** Outcome of the run. */
        outcome: RunOutcome,
    },
    /// A client got the right to type.
    WriterGranted {
        /** Fence of the client. */
        fence: Fence,
        /** Client that may type now. */
        holder: Actor,
        /** Client that lost the right. */
        taken_from: Option<Actor>,
    },
    /// The writer gave up the right to type.
    WriterReleased {
        /** Fence of the client. */
        fence: Fence,
    },
    /// A command typed into the terminal. (Keys of an attached client are not journalled.)
    Typed {
        /** Client that typed. */
        by: Actor,
        /** Number of bytes. */
        bytes: u64,
    },
    /// The keeper replaced its own program in place; the run went on.
    KeeperRestarted {
        /** Reason, for people. */
        reason: String,
    },
    /// Old output was deleted to stay within the limit.
    OutputDropped {
        /** Offset of the first byte that is still there. */
        before: u64,
    },
    /// A helper was declared: its name, and how it is shared from its next run on.
    HelperDeclared {
        /** Terms on which sessions share it. */
        terms: HelperTerms,
    },
    /// The helper's next run has another command.
    CommandChanged {
        /** The new program, and how to run it. */
        spec: SessionSpec,
    },
    /// A session became an owner of this helper, or changed whether it keeps it.
    OwnerJoined {
        /** The owner, and whether it keeps the helper. */
        owner: HelperOwner,
    },
    /// A session stopped being an owner of this helper.
    OwnerLeft {
        /** Id of the owner. */
        owner: SessionId,
        /** Reason. */
        why: LeaveReason,
        /** Time of the stop if it was the last owner, on the boot clock. */
        stop_at_boot_ms: Option<u64>,
    },
    /// The helper became ready.
    BecameReady {
        /** Number of the run. */
        epoch: Epoch,
        /** Address of the helper, if it has one. */
        address: Option<String>,
    },
    /// The helper did not become ready in time.
    NeverReady {
        /** Number of the run. */
        epoch: Epoch,
        /** Reason, for people. */
        reason: String,
    },
    /// The agent writes this conversation from now on.
    ConversationEntered {
        /** Id of the conversation, and where it is stored. */
        conversation: Conversation,
    },
    /// The conversation was given up: the next run begins a new one.
    ConversationLeft {
        /** Client that asked. */
        by: Actor,
    },
    /// The runs after this one talk to the agent through another interface. If no run is live, the next one does.
    InterfaceChosen {
        /** The chosen interface. */
        interface: AgentInterface,
        /** True if the run is ended without waiting for the end of the turn. */
        at_once: bool,
        /** Client that asked. */
        by: Actor,
    },
    /// The agent is ready to take turns.
    AgentReady {
        /** Number of the run. */
        epoch: Epoch,
        /** Abilities of the agent. */
        able: AgentCapabilities,
        /** Time of the event, on the boot clock. */
        at_boot_ms: u64,
    },
    /// The agent in the terminal was started with our hooks: it will report its turn edges.
    HooksInjected {
        /** Number of the run. */
        epoch: Epoch,
    },
    /// The agent in the terminal reported that it works, or no longer does.
    ActivityReported {
        /** Number of the run. */
        epoch: Epoch,
        /** The reported edge. */
        edge: ActivityChange,
    },
    /// A prompt was accepted. On disk before its sender gets the receipt.
    TurnAccepted {
        /** Number of the turn. */
        turn: u64,
        /** Text and sender. */
        prompt: TurnPrompt,
    },
    /// The prompt is about to be given to the agent. On disk before the agent gets it.
    TurnDelivered {
        /** Number of the turn. */
        turn: u64,
        /** Number of the run. */
        epoch: Epoch,
        /** Offset at which its output begins. */
        output_from: u64,
    },
    /// The agent confirmed that it has the prompt.
    TurnBegan {
        /** Number of the turn. */
        turn: u64,
    },
    /// A client, or a newer turn, wants a turn interrupted.
    CancelRequested {
        /** Number of the turn. */
        turn: u64,
        /** Sender, and the time limit for the agent. */
        cancel: CancelRequest,
    },
    /// A turn is over.
    TurnEnded {
        /** Number of the turn. */
        turn: u64,
        /** Final state and answer. */
        end: TurnEnd,
        /** Time of the event, on the boot clock. */
        at_boot_ms: u64,
    },
    /// The agent reported more about a turn that was over. Nothing changes.
    LateResult {
        /** Number of the turn. */
        turn: u64,
        /** Final state and answer, as reported late. */
        end: TurnEnd,
    },
    /// The agent asked a question and waits for the answer.
    QuestionAsked {
        /** The question. */
        ask: AgentQuestion,
    },
    /// A client answered a question.
    Answered {
        /** Name of the question. */
        request: String,
        /** The answer. */
        reply: ChosenReply,
        /** Client that answered. */
        by: Actor,
    },
    /// A question no longer waits for an answer.
    QuestionWithdrawn {
        /** Name of the question. */
        request: String,
    },
    /// The queue is on hold.
    QueueHeld {
        /** Reason. */
        hold: QueueHold,
    },
    /// The queue was resumed.
    QueueResumed {
        /** Client that asked. */
        by: Actor,
    },
    /// A waiting turn was moved to another place.
    QueueMoved {
        /** Number of the turn. */
        turn: u64,
        /** Number of turns before it. */
        to: u64,
    },
    /// The text of a waiting turn was replaced.
    TurnEdited {
        /** Number of the turn. */
        turn: u64,
        /** The new text. */
        text: String,
        /** Client that asked. */
        by: Actor,
    },
    /// berth itself ends the run.
    RunReleased {
        /** Number of the run. */
        epoch: Epoch,
        /** Reason. */
        why: ReleaseReason,
        /** Time of the kill, on the boot clock. */
        kill_at_boot_ms: u64,
    },
    /// A time was set at which the session's time to live ends.
    ExpirySet {
        /** End of the time to live. */
        expiry: SessionExpiry,
    },
    /// The session was archived. It does not run again before it is restored.
    Archived {
        /** Client that asked. */
        by: Actor,
    },
    /// The session was restored from the archive.
    Restored {
        /** Client that asked. */
        by: Actor,
    },
    /// A client changed the tags of the session.
    TagsChanged {
        /** All tags, in order. */
        tags: Vec<SafeName>,
    },
    /// A client changed the note of the session, or removed it.
    NoteChanged {
        /** The new note; `None` if it was removed. */
        note: Option<String>,
    },
    /// The policy changed.
    PolicySet {
        /** The whole policy. */
        policy: SessionPolicy,
    },
    /// The session goes on with a conversation that was had without berth. Times are those of the agent's own
    /// record, for people.
    Imported {
        /** Path of the agent's transcript. */
        file: String,
        /** Length of the transcript at the import: later bytes come from this session. */
        bytes: u64,
        /** Time of its beginning, in milliseconds since 1970. */
        began_at_ms: u64,
        /** Time of its latest message, in milliseconds since 1970. */
        last_at_ms: u64,
    },
    /// A warning for people. Nothing else changes.
    Warned {
        /** Text of the warning. */
        what: String,
    },
}

/// Program of a session, and how to run it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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
    pub agent: Option<String>,
    /// Kind of conversation that the agent writes; empty if it is unknown.
    pub conversation: String,
    /// Traits of the agent's terminal interface.
    pub terminal: TerminalTraits,
    /// Origin of the conversation of the first run.
    pub origin: ConversationOrigin,
    /// Command of runs that resume a conversation, if it differs from `command`.
    pub again: Vec<String>,
    /// When the session ends by itself, and how its queue goes on after failures.
    pub policy: SessionPolicy,
    /// Id of the session that this one was started in: processes inside of that one may manage this one.
    pub parent: Option<String>,
    /// Rights of processes in the session towards berth, beyond those of every agent.
    pub grant: Grant,
    /// Launch of the agent's other interface, if it has two for one conversation.
    pub other: Option<InterfaceLaunch>,
}

impl SessionSpec {
    /// True if the agent takes turns by its protocol. An agent in a terminal does not.
    pub fn takes_turns(&self) -> bool {
        !matches!(self.driver.as_str(), "" | "pty")
    }
}

/// Peculiarities of an agent's terminal interface with text that is typed into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TerminalTraits {
    /// True if text that is typed while the agent works joins the running turn, and gets no end of its own.
    pub joins_prompts: bool,
    /// True if a text that begins with `#` is a note for the agent to remember, not a prompt.
    pub hash_makes_note: bool,
}

/// Origin of a session's conversation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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

/// A conversation as its agent knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conversation {
    /// Agent's own id of the conversation.
    pub id: String,
    /// Directory in which the agent stores it; empty if unknown.
    pub store: String,
}

/// Policy of a session: when it ends by itself, and how its queue goes on after failures.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionPolicy {
    /// Idle time after which the agent is released, in milliseconds.
    pub idle_ms: Option<u64>,
    /// Time to live of the session, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Time at rest after which the session is archived, in milliseconds.
    pub archive_after_ms: Option<u64>,
    /// Queue behind a turn whose end is unknown.
    pub on_unknown: OnUnknown,
    /// Queue behind a turn that failed because of the model.
    pub on_failed: OnFailed,
    /// Notifications for the session's users while none of them is attached.
    pub notify: NotificationPolicy,
}

/// Resource limits of a run. `None`: no limit but those of the host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunLimits {
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and their threads.
    pub processes: Option<u64>,
    /// Processor time, in per cent of one core.
    pub cpu_percent: Option<u64>,
}

/// Means that hold the processes of a run together, besides those that are always there: the keeper adopts every
/// orphan of the run, and every process inherits a lock and a mark.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunBoundary {
    /// Control group that every process of the run is born in.
    pub cgroup: Option<String>,
    /// Reason why there is no control group, for people.
    pub missing: Option<String>,
    /// Further groups that hold the limits of the run.
    pub limited_in: Vec<String>,
}

/// A process that cannot be confused with another one, even after its number was used again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessRef {
    /// Process id.
    pub pid: u32,
    /// Start time of the process, in clock ticks since boot.
    pub start_ticks: u64,
    /// Boot that the process belongs to.
    pub boot: BootId,
}

/// One boot of one host; no two hosts share one. Process ids and times of the boot clock mean something only within
/// a boot. The host crate decides how it is written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BootId(pub String);

impl From<String> for BootId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<BootId> for String {
    fn from(boot: BootId) -> Self {
        boot.0
    }
}

/// A client that asked for something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Actor {
    /// Process id of the client.
    pub pid: u32,
    /// User id of the client; `None` if no client asked, such as for a policy.
    pub uid: Option<u32>,
    /// Location of the client, for people: a terminal, an SSH connection, a script.
    pub place: String,
}

/// Exit of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessExit {
    /// The process ended by itself, with this code.
    Code(i32),
    /// The process was ended by this signal.
    Signal(i32),
}

/// Outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunOutcome {
    /// The agent's process ended with this exit.
    Exited(ProcessExit),
    /// The kernel killed the agent's process because memory ran out.
    OutOfMemory,
    /// The agent could not be started.
    StartFailed(String),
    /// The keeper died first, so the end was not observed.
    Lost,
}
