//! What happened. Past tense, numbered by the journal, never taken back.

use crate::{Epoch, Fence, Name};

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
        /** When patience with the rest ends, on the boot clock. */
        kill_at_boot_ms: u64,
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
}

/// A process that cannot be confused with another one, even after its number was used again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Since which boot.
    pub boot_id: String,
}

/// Who asked for something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Actor {
    /// The asking process.
    pub pid: u32,
    /// The account.
    pub uid: u32,
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
    /// The agent could not be started.
    StartFailed(String),
    /// The keeper died first, so nobody saw the end.
    Lost,
}
