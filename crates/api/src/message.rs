//! What clients ask and keepers answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::helper::{Owner, Terms, Wanted};
use crate::hook::Report;
use crate::life::PolicyChange;
use crate::record::{Entry, Interface, Spec};
use crate::status::Status;
use crate::turn::{NewTurn, Receipt, TurnPage, TurnView, Wish};

/// The version of this protocol. Grows only when an old side could misunderstand a new one.
pub const PROTOCOL: u32 = 1;

/// A request with the facts every request carries.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// [`PROTOCOL`] of the client.
    pub protocol: u32,
    /// Where the client is, for people: a terminal, an SSH connection, a script.
    pub place: String,
    /// The session whose agent this is asked for, by id: a gateway tells. It can only take rights away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// More sessions that whoever it is asked for is inside of: they may do what all of them allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The request of the gateway it belongs to, for the logs. A client of an earlier version does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// What is asked.
    pub request: Request,
}

/// Who asks a keeper for something, as far as they say so themselves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asker {
    /// See [`Call::place`].
    pub place: String,
    /// See [`Call::agent`].
    pub agent: Option<String>,
    /// See [`Call::also`].
    pub also: Vec<String>,
}

impl From<String> for Asker {
    fn from(place: String) -> Self {
        Self { place, ..Self::default() }
    }
}

/// Who is ended, of those who write the conversation that a run takes up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// Nobody: they are named, and nothing is started.
    #[default]
    Nobody,
    /// These, by their pids. If somebody else writes it, too, nobody is ended: who they are was not known to
    /// whoever wrote these down.
    Only(Vec<u32>),
    /// Whoever it is.
    Anybody,
}

impl Take {
    /// Whether this process is one of those.
    pub fn means(&self, pid: u32) -> bool {
        match self {
            Self::Nobody => false,
            Self::Only(pids) => pids.contains(&pid),
            Self::Anybody => true,
        }
    }

    /// Whether anybody may be ended at all.
    pub fn takes(&self) -> bool {
        *self != Self::Nobody
    }
}

impl From<bool> for Take {
    fn from(anybody: bool) -> Self {
        if anybody { Self::Anybody } else { Self::Nobody }
    }
}

/// What a client asks of a keeper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// Make the session and begin its first run. Only the process that started the keeper may.
    Create {
        /// What to run.
        spec: Spec,
        /// What people call it.
        name: Option<String>,
        /// The terminal's size.
        size: Size,
        /// Who is ended, of those who write the conversation to take up.
        #[serde(default)]
        take: Take,
        /// What people sort it by.
        #[serde(default)]
        tags: Vec<String>,
        /// The note about the session.
        #[serde(default)]
        note: Option<String>,
    },
    /// Begin the next run. Only the process that started the keeper may.
    Resume {
        /// The terminal's size.
        size: Size,
        /// Begin a new conversation instead of going on with the one there was.
        #[serde(default)]
        fresh: bool,
        /// Who is ended, of those who write the conversation.
        #[serde(default)]
        take: Take,
        /// Bring it back if it was put away; else that is refused.
        #[serde(default)]
        restore: bool,
        /// With this interface, from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<Interface>,
    },
    /// Go on with another interface of the agent, in the same conversation, once the turn that runs is over. Answered
    /// when that is on disk.
    SwitchInterface {
        /// Which.
        to: Interface,
        /// Interrupt the turn that runs.
        at_once: bool,
    },
    /// Make the helper, or begin its next run. Only the process that started the keeper may. Answered
    /// twice: when it runs, and when it is ready or will not be.
    StartHelper {
        /// What to run.
        spec: Spec,
        /// How it is shared.
        terms: Terms,
        /// Who asks for it.
        owner: Owner,
    },
    /// Own this helper; answered when it is ready, or will not be. While it is being ended: answered when
    /// that is over.
    Join {
        /// Who asks for it.
        owner: Owner,
        /// What it is taken for.
        wanted: Wanted,
    },
    /// Own this helper no longer; answered when that is recorded.
    Leave {
        /// Who.
        owner: String,
    },
    /// What is known.
    Status,
    /// End the run; answered when it is over, or proven not to be.
    Stop {
        /// How long to be patient.
        grace_ms: u64,
    },
    /// Give it another name.
    Rename {
        /// The new one.
        name: String,
    },
    /// Add tags, and take others away.
    Tag {
        /// Which to add.
        add: Vec<String>,
        /// Which to take away.
        remove: Vec<String>,
    },
    /// Write something about it, in place of what was written before.
    Note {
        /// What; nothing to take it away.
        note: Option<String>,
    },
    /// Say when it ends by itself, and what waits for what.
    SetPolicy {
        /// What is to be different.
        change: PolicyChange,
    },
    /// See the terminal, and type into it.
    Attach {
        /// How.
        role: Role,
        /// The client's terminal.
        size: Size,
    },
    /// The client's terminal changed. Counts for the writer only.
    Resize {
        /// The new size.
        size: Size,
    },
    /// Type, once.
    Type {
        /// What.
        text: String,
        /// Whether to take the right to type from somebody.
        take: bool,
    },
    /// The screen as text.
    Screen {
        /// With colours.
        ansi: bool,
    },
    /// One turn.
    Turn {
        /// Its number.
        turn: u64,
    },
    /// Turns, as many as fit into one answer.
    Turns {
        /// The number of the first turn wanted.
        from: u64,
        /// How many turns at most.
        limit: u64,
    },
    /// Events that happened, as many as fit into one answer.
    Events {
        /// The number of the first event wanted.
        from: u64,
        /// How many events at most.
        limit: u64,
    },
    /// Be told of events from this number on, and of new output.
    Watch {
        /// The first event wanted.
        from: u64,
    },
    /// Answered when the agent takes turns, or will not; if the session changes its interface, when it does with the new one.
    AwaitAgent,
    /// Have something said to the agent; answered with a receipt once it is on disk.
    Send {
        /// What, and how.
        #[serde(flatten)]
        submit: NewTurn,
    },
    /// Be told what becomes of a turn: what the agent says and does, and how it ends. Answered with a
    /// receipt.
    Follow {
        /// Its number.
        turn: u64,
    },
    /// Withdraw a turn that waits; answered when that is on disk.
    Withdraw {
        /// Its number.
        turn: u64,
    },
    /// Withdraw a turn, or have the agent break it off; answered when that is on disk.
    Cancel {
        /// Its number.
        turn: u64,
    },
    /// Put a turn that waits at another place.
    Move {
        /// Its number.
        turn: u64,
        /// How many shall be before it.
        to: u64,
    },
    /// Have a turn that waits say something else.
    Edit {
        /// Its number.
        turn: u64,
        /// What it shall say.
        text: String,
    },
    /// Let no further turn begin.
    Pause,
    /// Let the queue go on, whatever held it.
    GoOn,
    /// Answer what the agent asked.
    AnswerAsk {
        /// Which question; the only one if none is named.
        request: Option<String>,
        /// What.
        wish: Wish,
        /// Only if it is a question of this run: agents number their questions anew in each.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
    },
    /// The agent of this run tells what happened, through a hook. Of anybody else it is not taken.
    Hook {
        /// What.
        report: Report,
    },
    /// Replace the keeper's program in place; the run goes on.
    Restart,
}

/// A terminal's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "rows and columns")]
pub struct Size {
    pub rows: u16,
    pub cols: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// How to attach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// See and type.
    Writer,
    /// See and type, and take over from the client that types.
    Take,
    /// See.
    Observer,
}

/// What a keeper answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Done, and on disk. The state it left.
    Done {
        /// What is known now.
        status: Box<Status>,
    },
    /// It was heard, and that is all there is to know.
    Heard,
    /// The question that a hook waits on was answered.
    Decided {
        /// Whether the agent may.
        allows: bool,
        /// Why not, or what to do instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Attached; the screen follows.
    Attached {
        /// The number to type with; `None` for an observer.
        fence: Option<u64>,
        /// The size of the session's terminal.
        size: Size,
        /// True if an application shows the alternate screen.
        alternate: bool,
        /// The offset of the output up to which the screen that follows has it.
        output_end: u64,
    },
    /// The screen as text.
    Screen {
        /// It.
        text: String,
        /// The line of it the cursor is on, from zero. A keeper of an earlier version does not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor_row: Option<u16>,
    },
    /// A turn is on disk, and stands there.
    Receipt {
        /// Which, and where.
        receipt: Box<Receipt>,
    },
    /// One turn.
    Turn {
        /// It.
        turn: Box<TurnView>,
        /// True if something holds the queue that only a user can mend.
        needs_someone: bool,
    },
    /// Turns. There are more if the last of them is not the last turn; a turn that is too long for a frame is left out,
    /// and is only in the files.
    Turns(TurnPage),
    /// Events, in order. There are more if the last of them is not the last event; an event that is too long for a frame
    /// is left out, and is only in the files.
    Events {
        /// Them.
        events: Vec<Numbered>,
        /// The number of the last event there is.
        seq: u64,
    },
    /// It did not happen.
    Problem {
        /// Why.
        problem: crate::Problem,
    },
}

/// An event with its number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Numbered {
    /// The event's number.
    pub seq: u64,
    /// What happened, and when.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What a keeper tells without being asked again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// Something happened.
    Event {
        /// Its number.
        seq: u64,
        /// It.
        #[serde(flatten)]
        entry: Box<Entry>,
    },
    /// The agent wrote: output now reaches this far.
    Output {
        /// The offset behind the last byte.
        end: u64,
    },
    /// A piece of the answer to the turn you follow.
    Said {
        /// The turn's number.
        turn: u64,
        /// It.
        text: String,
    },
    /// What the agent does about the turn you follow.
    Doing {
        /// The turn's number.
        turn: u64,
        /// `thinking`, `writing`, or the name of a tool.
        what: String,
        /// The tool's command or file, one line.
        detail: String,
        /// Tokens used in this turn so far.
        tokens: Option<u64>,
    },
    /// Another client types now; you observe.
    Replaced {
        /// Who, for people.
        by: String,
        /// The size of the session's terminal. A whole screen follows.
        size: Size,
    },
    /// The session's terminal has another size; for observers, and a whole screen follows.
    Resized {
        /// The size of the writer's terminal.
        size: Size,
    },
}
