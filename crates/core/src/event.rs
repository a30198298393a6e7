//! What happened. Past tense, numbered by the journal, never taken back.

use crate::turns::{Able, Ask, Cancel, Expiry, Hold, OnFailed, OnUnknown, Prompt, Release, Reply, TurnEnd};
use crate::{
    Edge, Epoch, Fence, Grant, Interface, InterfaceLaunch, Leaving, Name, Notify, Owner, SessionId, Terms,
};

/// One thing that happened in a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The session came to be.
    Created {
        /** What it runs. */
        spec: Spec,
        /** Its first name. */
        name: Option<Name>,
    },
    /// A person gave it another name.
    Renamed {
        /** The new one. */
        name: Name,
    },
    /// A run is about to be spawned. On disk before the process exists.
    RunStarting {
        /** Which run. */
        epoch: Epoch,
        /** Who will hold it. */
        keeper: Process,
        /** Where its output begins. */
        output_from: u64,
        /** What holds it together. */
        boundary: Boundary,
    },
    /// The agent's process exists.
    RunStarted {
        /** Which run. */
        epoch: Epoch,
        /** Its first process. */
        agent: Process,
    },
    /// Somebody asked for the end of the run.
    StopRequested {
        /** Which run. */
        epoch: Epoch,
        /** Who asked. */
        by: Actor,
        /** When patience ends, on the boot clock. */
        kill_at_boot_ms: u64,
    },
    /// The agent's first process ended; what else it started is being ended.
    AgentExited {
        /** Which run. */
        epoch: Epoch,
        /** How it ended. */
        exit: Exit,
        /** Whether the kernel killed it because memory ran out. */
        oom: bool,
        /** When patience with the rest ends, on the boot clock. */
        kill_at_boot_ms: u64,
    },
    /// The kernel killed processes of the run because memory ran out.
    OomKilled {
        /** Which run. */
        epoch: Epoch,
        /** How many so far. */
        kills: u64,
    },
    /// Patience is over: everything left of the run is killed.
    KillOrdered {
        /** Which run. */
        epoch: Epoch,
    },
    /// Something survived being killed, or could not be signalled.
    EndUnproven {
        /** Which run. */
        epoch: Epoch,
        /** What is left, and why, for people. */
        left: Vec<String>,
    },
    /// The run is over and nothing of it remains.
    RunEnded {
        /** Which run. */
        epoch: Epoch,
        /** How. */
        outcome: Outcome,
    },
    /// Somebody may type now.
    WriterGranted {
        /** Their number. */
        fence: Fence,
        /** Who. */
        holder: Actor,
        /** Who lost the right by this. */
        taken_from: Option<Actor>,
    },
    /// The writer left.
    WriterReleased {
        /** Whose number it was. */
        fence: Fence,
    },
    /// A command typed into the terminal. (Keys of an attached person are not journalled.)
    Typed {
        /** By whom. */
        by: Actor,
        /** How much. */
        bytes: u64,
    },
    /// The keeper replaced its own program in place; the run went on.
    KeeperRestarted {
        /** Why. */
        reason: String,
    },
    /// Old output was dropped to keep within the limit.
    OutputDropped {
        /** Everything before this offset is gone. */
        before: u64,
    },
    /// What a helper is, and how it is shared, from its next run on.
    Declared {
        /** How. */
        terms: Terms,
    },
    /// The next run of a helper is of another command.
    Respecified {
        /** What it runs now. */
        spec: Spec,
    },
    /// A session owns this helper now, or owns it in another way.
    OwnerJoined {
        /** Which, and how. */
        owner: Owner,
    },
    /// A session no longer owns this helper.
    OwnerLeft {
        /** Which. */
        owner: SessionId,
        /** Why. */
        why: Leaving,
        /** It was the last: when the run is stopped for that, on the boot clock. */
        stop_at_boot_ms: Option<u64>,
    },
    /// The helper can be used.
    BecameReady {
        /** Which run. */
        epoch: Epoch,
        /** Where it is reached, if it has an address. */
        address: Option<String>,
    },
    /// The helper could not be used in time.
    NeverReady {
        /** Which run. */
        epoch: Epoch,
        /** Why, for people. */
        reason: String,
    },
    /// The agent writes this conversation from now on.
    ConversationEntered {
        /** Which. */
        conversation: Conversation,
    },
    /// The conversation to go on with is given up: the next run begins a new one.
    ConversationLeft {
        /** Who wanted that. */
        by: Actor,
    },
    /// The runs after this one talk to the agent through another interface. If no run is live, the next one does.
    InterfaceChosen {
        /** Which. */
        interface: Interface,
        /** Whether the run is ended without waiting for the turn's end. */
        at_once: bool,
        /** Who wanted that. */
        by: Actor,
    },
    /// The agent takes turns.
    AgentReady {
        /** Which run. */
        epoch: Epoch,
        /** What it is able to do. */
        able: Able,
        /** When, on the boot clock. */
        at_boot_ms: u64,
    },
    /// The agent in the terminal was started with our hooks: it will tell its edges.
    HooksCarried {
        /** Which run. */
        epoch: Epoch,
    },
    /// The agent in the terminal told that it works, or no longer does.
    EdgeSeen {
        /** Which run. */
        epoch: Epoch,
        /** What it told. */
        edge: Edge,
    },
    /// An input was accepted. On disk before whoever sent it hears of it.
    TurnAccepted {
        /** Its number. */
        turn: u64,
        /** What, and by whom. */
        prompt: Prompt,
    },
    /// The agent is about to be given the prompt. On disk before it hears of it.
    TurnDelivered {
        /** Which. */
        turn: u64,
        /** In which run. */
        epoch: Epoch,
        /** Where its output begins. */
        output_from: u64,
    },
    /// The agent said that it has the prompt.
    TurnBegan {
        /** Which. */
        turn: u64,
    },
    /// Somebody wants a turn broken off.
    CancelRequested {
        /** Which. */
        turn: u64,
        /** Who, and how long the agent may take. */
        cancel: Cancel,
    },
    /// A turn is over.
    TurnEnded {
        /** Which. */
        turn: u64,
        /** How. */
        end: TurnEnd,
        /** When, on the boot clock. */
        at_boot_ms: u64,
    },
    /// The agent said more about a turn that was over. It changes nothing.
    TurnLate {
        /** Which. */
        turn: u64,
        /** What it said. */
        end: TurnEnd,
    },
    /// The agent wants to know something before it goes on.
    Asked {
        /** What. */
        ask: Ask,
    },
    /// Somebody answered.
    Answered {
        /** Which question. */
        request: String,
        /** What was answered. */
        reply: Reply,
        /** Who. */
        by: Actor,
    },
    /// A question no longer waits for an answer.
    Unasked {
        /** Which. */
        request: String,
    },
    /// The queue does not go on by itself.
    QueueHeld {
        /** Why. */
        hold: Hold,
    },
    /// The queue goes on.
    QueueResumed {
        /** Who wanted that. */
        by: Actor,
    },
    /// A turn that waits got another place.
    QueueMoved {
        /** Which. */
        turn: u64,
        /** How many are before it. */
        to: u64,
    },
    /// A turn that waits says something else from now on.
    TurnEdited {
        /** Which. */
        turn: u64,
        /** What it says now. */
        text: String,
        /** Who wanted that. */
        by: Actor,
    },
    /// berth ends the run by itself.
    Released {
        /** Which run. */
        epoch: Epoch,
        /** Why. */
        why: Release,
        /** When patience ends, on the boot clock. */
        kill_at_boot_ms: u64,
    },
    /// When the session's time is up.
    ExpirySet {
        /** It. */
        expiry: Expiry,
    },
    /// Somebody put it away. It does not run, and will not before it is brought back.
    Archived {
        /** Who. */
        by: Actor,
    },
    /// Somebody brought it back.
    Restored {
        /** Who. */
        by: Actor,
    },
    /// What people sort it by changed.
    Tagged {
        /** All of it, in order. */
        tags: Vec<Name>,
    },
    /// Somebody wrote something about it.
    Noted {
        /** What; nothing if it was taken away. */
        note: Option<String>,
    },
    /// When it ends by itself, and what waits for what, from now on.
    PolicySet {
        /** All of it. */
        policy: Policy,
    },
    /// It is of a conversation that was had without us. Times are those of the agent's own record, for people.
    Imported {
        /** The agent's record. */
        file: String,
        /** How long that was then: what is behind it was said here. */
        bytes: u64,
        /** When it began, in milliseconds since 1970. */
        began_at_ms: u64,
        /** When something was last said in it. */
        last_at_ms: u64,
    },
    /// Something a person should know and that changes nothing else.
    Warned {
        /** What. */
        what: String,
    },
}

/// What a session runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spec {
    /// How we talk to the agent.
    pub driver: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub cwd: String,
    /// Variables set on top of the caller's environment.
    pub env: Vec<(String, String)>,
    /// The caller's key: a repeated `run` with it means this session.
    pub key: Option<String>,
    /// What its runs may use.
    pub limits: Limits,
    /// What the agent is called in the table of agents, if it is from there.
    pub agent: Option<String>,
    /// Whose conversations the agent writes; empty if nobody knows.
    pub conversation: String,
    /// Traits of the agent's terminal interface.
    pub terminal: TerminalTraits,
    /// How the first run takes its conversation up.
    pub origin: Origin,
    /// The command of every run that goes on with a conversation, if it is another one.
    pub again: Vec<String>,
    /// When it ends by itself, and what waits for what.
    pub policy: Policy,
    /// The id of the session it was started in: whoever is inside of that one may see to this one.
    pub parent: Option<String>,
    /// What processes in the session may ask of berth, beyond what every agent may.
    pub grant: Grant,
    /// How the agent is started with its other interface, if it has two for one conversation.
    pub other: Option<InterfaceLaunch>,
}

impl Spec {
    /// Whether the agent takes turns. One in a terminal does not.
    pub fn takes_turns(&self) -> bool {
        !matches!(self.driver.as_str(), "" | "pty")
    }
}

/// What an agent's terminal interface does in its own way with text that is typed into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TerminalTraits {
    /// Text that is typed while the agent works joins the running turn, and gets no end of its own.
    pub joins_prompts: bool,
    /// A text that begins with `#` is a note for the agent to remember, not a prompt.
    pub hash_makes_note: bool,
}

/// Where a session's conversation comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// It is new.
    #[default]
    New,
    /// It is new, and the command gives it this id.
    Named(String),
    /// It is one there is already.
    Resumed(String),
    /// It begins with a copy of one there is already.
    Forked(String),
}

/// A conversation as its agent knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conversation {
    /// The agent's own id of it.
    pub id: String,
    /// The directory the agent keeps it in; empty if nobody knows.
    pub store: String,
}

/// When a session ends by itself, and what waits for what.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// How long the agent may have nothing to do before it is released.
    pub idle_ms: Option<u64>,
    /// How long the session may live.
    pub ttl_ms: Option<u64>,
    /// How long it may be at rest before it is archived.
    pub archive_after_ms: Option<u64>,
    /// Whether the queue goes on after a turn whose end is unknown.
    pub on_unknown: OnUnknown,
    /// What the queue does behind a turn that failed for a reason that is the model's.
    pub on_failed: OnFailed,
    /// What its people are told of while nobody looks.
    pub notify: Notify,
}

/// What a run may use. Nothing set: whatever the host gives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and their threads.
    pub processes: Option<u64>,
    /// Processor time, in hundredths of one core.
    pub cpu_percent: Option<u64>,
}

/// What holds a run together, besides what always does: the keeper adopts every orphan of it, and what
/// it starts inherits a lock and a mark.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Boundary {
    /// The control group everything of it is born in.
    pub cgroup: Option<String>,
    /// Why there is none, for people.
    pub missing: Option<String>,
    /// Further groups that hold its limits.
    pub limited_in: Vec<String>,
}

/// A process that cannot be confused with another one, even after its number was used again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Since which boot.
    pub boot: Boot,
}

/// One boot of one host: two hosts never have the same. Numbers of processes and times of the boot clock mean something
/// only there. How it is written is for the host to say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Boot(pub String);

impl From<String> for Boot {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<Boot> for String {
    fn from(boot: Boot) -> Self {
        boot.0
    }
}

/// Who asked for something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Actor {
    /// The asking process.
    pub pid: u32,
    /// The account; `None` if it was nobody's order.
    pub uid: Option<u32>,
    /// Where that is, for people: a terminal, an SSH connection, a script.
    pub place: String,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The agent's process ended like this.
    Exited(Exit),
    /// The kernel killed the agent's process because memory ran out.
    OutOfMemory,
    /// The agent could not be started.
    StartFailed(String),
    /// The keeper died first, so nobody saw the end.
    Lost,
}
