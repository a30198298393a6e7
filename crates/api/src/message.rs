//! Requests of clients, and the answers and notices of keepers.
//!
//! Promise: a message of an older version can be read; a change that an old side could misunderstand raises
//! [`PROTOCOL`].
//! Not here: the bytes on the socket (see [`crate::frame`]), and the rules that accept or refuse a request
//! (`berth_core`).
//! Start with [`KeeperRequest`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::helper::{HelperOwner, HelperRequirements, HelperTerms};
use crate::hook::HookReport;
use crate::policy_change::PolicyChange;
use crate::record::{AgentInterface, EventEntry, SessionSpec};
use crate::status::SessionStatus;
use crate::turn::{NewTurn, QuestionReply, TurnPage, TurnReceipt, TurnView};

/// Version of this protocol. It grows only when an old side could misunderstand a new one.
pub const PROTOCOL: u32 = 1;

/// A request with the facts every request carries.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KeeperCall {
    /// [`PROTOCOL`] of the client.
    pub protocol: u32,
    /// Location of the client, for people: a terminal, an SSH connection, a script.
    pub place: String,
    /// Id of the session whose agent the client acts for. Set by a gateway. It can only take rights away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Ids of further sessions that the caller runs inside of. The caller may do only what all of them allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Id of the gateway request that caused this call, for the logs. Clients of earlier versions leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The request itself.
    pub request: KeeperRequest,
}

/// A caller of a keeper, as it describes itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimedCaller {
    /// See [`KeeperCall::place`].
    pub place: String,
    /// See [`KeeperCall::agent`].
    pub agent: Option<String>,
    /// See [`KeeperCall::also`].
    pub also: Vec<String>,
}

impl From<String> for ClaimedCaller {
    fn from(place: String) -> Self {
        Self { place, ..Self::default() }
    }
}

/// Choice of the foreign writers of a conversation that a run ends before it takes the conversation over.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriterTakeover {
    /// Ends no process: the writers are named, and no run starts.
    #[default]
    None,
    /// Ends the processes with these pids. If any other process writes the conversation, no process is ended: the
    /// caller did not know of that one when it listed the pids.
    Only(Vec<u32>),
    /// Ends every foreign writer.
    All,
}

impl WriterTakeover {
    /// True if the process `pid` may be ended.
    pub fn includes(&self, pid: u32) -> bool {
        match self {
            Self::None => false,
            Self::Only(pids) => pids.contains(&pid),
            Self::All => true,
        }
    }

    /// True if any process may be ended.
    pub fn takes(&self) -> bool {
        *self != Self::None
    }
}

impl From<bool> for WriterTakeover {
    fn from(anybody: bool) -> Self {
        if anybody { Self::All } else { Self::None }
    }
}

/// A request of a client to a keeper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum KeeperRequest {
    /// Create the session and begin its first run. Only the process that started the keeper may.
    Create {
        /// Agent to run, and how to run it.
        spec: SessionSpec,
        /// Name of the session; absent if it has only its id.
        name: Option<String>,
        /// Size of the terminal.
        size: WindowSize,
        /// Foreign writers of the conversation to end first.
        #[serde(default)]
        take: WriterTakeover,
        /// Tags of the session, in order.
        #[serde(default)]
        tags: Vec<String>,
        /// Note about the session.
        #[serde(default)]
        note: Option<String>,
    },
    /// Begin the next run. Only the process that started the keeper may.
    Resume {
        /// Size of the terminal.
        size: WindowSize,
        /// Begin a new conversation instead of the earlier one.
        #[serde(default)]
        fresh: bool,
        /// Foreign writers of the conversation to end first.
        #[serde(default)]
        take: WriterTakeover,
        /// Restore the session if it is archived; if false, an archived session is refused.
        #[serde(default)]
        restore: bool,
        /// Interface of the agent, from this run on. Absent: as before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<AgentInterface>,
    },
    /// Change the agent's interface in the same conversation, once the running turn is over. Answered when the change
    /// is on disk.
    SwitchInterface {
        /// The new interface.
        to: AgentInterface,
        /// Interrupt the running turn.
        at_once: bool,
    },
    /// Create the helper, or begin its next run. Only the process that started the keeper may. Answered twice: when
    /// the helper runs, and when it is ready or has failed to become ready.
    StartHelper {
        /// Program to run, and how to run it.
        spec: SessionSpec,
        /// How sessions share the helper.
        terms: HelperTerms,
        /// The first owner.
        owner: HelperOwner,
    },
    /// Become an owner of this helper. Answered when the helper is ready or has failed to become ready; while its run
    /// is being ended, answered when that run is over.
    Join {
        /// The new owner.
        owner: HelperOwner,
        /// The helper that the owner expects here; a difference is refused.
        wanted: HelperRequirements,
    },
    /// Stop being an owner of this helper. Answered when that is recorded.
    Leave {
        /// Id of the session that leaves.
        owner: String,
    },
    /// Report the status of the session.
    Status,
    /// End the run. Answered when the run is over, or when it is proven that it cannot be ended.
    Stop {
        /// Time between the polite signal and the kill, in milliseconds.
        grace_ms: u64,
    },
    /// Rename the session.
    Rename {
        /// The new name.
        name: String,
    },
    /// Add and remove tags.
    Tag {
        /// Tags to add.
        add: Vec<String>,
        /// Tags to remove.
        remove: Vec<String>,
    },
    /// Replace the note about the session.
    Note {
        /// The new note; absent to remove the note.
        note: Option<String>,
    },
    /// Change the policy of the session: when it ends by itself, and how its queue goes on after failures.
    SetPolicy {
        /// The settings to change.
        change: PolicyChange,
    },
    /// Show the terminal, and let the client type into it if its role allows.
    Attach {
        /// Rights of the client: observe, write, or take over.
        role: AttachMode,
        /// Size of the client's terminal.
        size: WindowSize,
    },
    /// Report a new size of the client's terminal. Counts for the writer only.
    Resize {
        /// The new size.
        size: WindowSize,
    },
    /// Type a text once, without attaching.
    Type {
        /// Text to type.
        text: String,
        /// Take the right to type from the attached writer.
        take: bool,
    },
    /// Return the screen as text.
    Screen {
        /// Include colours, as ANSI escape sequences.
        ansi: bool,
    },
    /// Return one turn.
    Turn {
        /// Number of the turn.
        turn: u64,
    },
    /// Return turns, as many as fit into one answer.
    Turns {
        /// Number of the first turn wanted.
        from: u64,
        /// Limit of the number of turns.
        limit: u64,
    },
    /// Subscribe to new events and to notices of new output. Past events are on disk.
    Watch,
    /// Wait until the agent takes turns, or until it is certain that it will not. If the session changes its
    /// interface: wait for the new one.
    AwaitAgent,
    /// Send a prompt to the agent. Answered with a receipt once the turn is on disk.
    Send {
        /// The turn to accept.
        #[serde(flatten)]
        submit: NewTurn,
    },
    /// Subscribe to one turn: what the agent says and does in it, and how it ends. Answered with a receipt.
    Follow {
        /// Number of the turn.
        turn: u64,
    },
    /// Withdraw a waiting turn. Answered when that is on disk.
    Withdraw {
        /// Number of the turn.
        turn: u64,
    },
    /// Withdraw a waiting turn, or have the agent interrupt a running one. Answered when that is on disk.
    Cancel {
        /// Number of the turn.
        turn: u64,
    },
    /// Move a waiting turn to another place in the queue.
    Move {
        /// Number of the turn.
        turn: u64,
        /// How many turns wait before it after the move.
        to: u64,
    },
    /// Replace the text of a waiting turn.
    Edit {
        /// Number of the turn.
        turn: u64,
        /// The new text.
        text: String,
    },
    /// Pause the queue: no further turn begins.
    Pause,
    /// Resume the queue after any hold.
    GoOn,
    /// Answer a question of the agent.
    AnswerAsk {
        /// Name of the question. It may be absent if the agent asks only one.
        request: Option<String>,
        /// The answer.
        reply: QuestionReply,
        /// Run that the question belongs to; an answer to another run is refused. Agents number their questions anew
        /// in each run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
    },
    /// Report an event of the agent, from a hook. Rejected unless the caller belongs to the current run.
    Hook {
        /// The reported event.
        report: HookReport,
    },
    /// Replace the keeper's program in place; the run goes on.
    Restart,
}

/// Size of a terminal, in cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "rows and columns")]
pub struct WindowSize {
    pub rows: u16,
    pub cols: u16,
}

impl Default for WindowSize {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// Role of an attached client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttachMode {
    /// See the terminal and type into it. Refused while another client types.
    Writer,
    /// See the terminal and type into it; the client that typed before becomes an observer.
    Take,
    /// See the terminal only.
    Observer,
}

/// Answer of a keeper to a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum KeeperAnswer {
    /// The request was carried out, and that is on disk.
    Done {
        /// Status of the session after it.
        status: Box<SessionStatus>,
    },
    /// The report of a hook was received. No further answer follows.
    Heard,
    /// The question that a waiting hook asked was answered.
    Decided {
        /// True if the agent may go on.
        allows: bool,
        /// Reason of a refusal, or what the agent is to do instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Attached; the screen follows.
    Attached {
        /// Fence that the client sends with its keys; absent for an observer.
        fence: Option<u64>,
        /// Size of the session's terminal.
        size: WindowSize,
        /// True if an application shows the alternate screen.
        alternate: bool,
        /// Offset in the output that the following screen includes everything up to.
        output_end: u64,
    },
    /// The screen as text.
    Screen {
        /// Text of the screen.
        text: String,
        /// Line that the cursor is on, from zero. Keepers of earlier versions leave it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor_row: Option<u16>,
    },
    /// The turn is on disk.
    Receipt {
        /// The receipt of the turn, with its place in the queue.
        receipt: Box<TurnReceipt>,
    },
    /// The requested turn.
    Turn {
        /// The turn itself.
        turn: Box<TurnView>,
        /// True if the queue has a hold that only a user can clear.
        needs_someone: bool,
    },
    /// Turns, in order. There are more if the last one here is not the last turn of the session. A turn that is too
    /// long for a frame is left out, and is only in the files.
    Turns(TurnPage),
    /// The request was refused or failed.
    Problem {
        /// The error, with a hint.
        problem: crate::Problem,
    },
}

/// News that a keeper sends to a subscribed client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum KeeperNotice {
    /// An event happened.
    Event {
        /// Number of the event.
        seq: u64,
        /// The event and its time.
        #[serde(flatten)]
        entry: Box<EventEntry>,
    },
    /// The agent wrote output.
    Output {
        /// Offset behind the last byte of the output.
        end: u64,
    },
    /// A piece of the agent's answer to the followed turn.
    Said {
        /// Number of the turn.
        turn: u64,
        /// The piece of text.
        text: String,
    },
    /// Activity of the agent in the followed turn.
    Doing {
        /// Number of the turn.
        turn: u64,
        /// `thinking`, `writing`, or the name of a tool.
        activity: String,
        /// Command or file of the tool, on one line.
        detail: String,
        /// Tokens used in this turn so far; absent if the agent does not report it.
        tokens: Option<u64>,
    },
    /// Another client took the right to type; this client observes from now on.
    Replaced {
        /// Location of the other client, for people.
        by: String,
        /// Size of the session's terminal. A whole screen follows.
        size: WindowSize,
    },
    /// The session's terminal has a new size. Sent to observers; a whole screen follows.
    Resized {
        /// Size of the writer's terminal.
        size: WindowSize,
    },
}
