//! Drivers: the protocols of agents that take turns.
//!
//! A driver speaks one protocol of lines over pipes, as a state machine behind one trait, [`Driver`]. Its input is what
//! the agent wrote, line by line. Its output is lines for the agent, and [`AgentUpdate`]s for the keeper. Everything an
//! agent wrote is in the output files, and our own request ids follow from turn numbers. So a driver that reads the
//! same lines again comes to the same state: after the keeper replaced its program in place, or to find the end of a
//! turn.
//! Promise: for any input, a driver never panics, never grows without limit, and never claims more than its agent
//! proved.
//! Not here: I/O, clocks, randomness; processes and pipes (the keeper has them); queue and states of turns
//! (`berth_core` has them).
//! Start with [`Driver`], then [`AgentUpdate`]; [`AgentTraits`] has other differences between agents.

#![forbid(unsafe_code)]

pub mod acp;
mod agent_traits;
pub mod claude;
pub mod codex;
mod common;
pub mod hooks;
mod interruption;
pub mod output;
pub mod rpc;

pub use agent_traits::{AgentTraits, ChildEnvVars, WriterSign};
use berth_core::{AgentQuestion, ChosenReply, TurnEnd};
pub use common::failure_in_error_text;
pub use interruption::InterruptionReason;

/// Size limit of the answer that a driver keeps. The output files have all of it.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The way a run takes up its conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConversationStart {
    /// A new conversation. We choose its id if the agent supports that; see [`Driver::mints`].
    New {
        /** The id that we chose, if the agent supports that. */
        id: Option<String>,
    },
    /// An existing conversation, with everything said in it.
    Resume {
        /** Id of the conversation. */
        id: String,
    },
    /// A new conversation that begins with everything said in another one.
    Fork {
        /** Id of the existing conversation. */
        of: String,
        /** The id that we chose for the new one, if the agent supports that. */
        id: Option<String>,
    },
}

/// The statements of an agent that count as proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriverGuarantees {
    /// The agent confirms that it has a prompt.
    pub accepted: bool,
    /// The agent reports the end of a turn, and its outcome.
    pub ended: bool,
    /// The agent can take up a conversation again.
    pub resume: bool,
    /// The agent accepts text for a running turn.
    pub steer: bool,
}

/// The driver of this name for a session; `None` for an agent in a terminal, and for an unknown name.
pub fn driver_named(driver: &str, session: &str) -> Option<Box<dyn Driver>> {
    match driver {
        "acp" => Some(Box::new(acp::AcpDriver::new())),
        "claude" => Some(Box::new(claude::ClaudeDriver::new(session))),
        "codex" => Some(Box::new(codex::CodexDriver::new())),
        _ => None,
    }
}

/// Driver for the protocol of one kind of agent.
pub trait Driver: std::fmt::Debug {
    /// The statements of the agent that count as proof. The result may change once the agent has reported its
    /// abilities.
    fn proves(&self) -> DriverGuarantees;

    /// True if we choose the id of a new conversation.
    fn mints(&self) -> bool;

    /// The whole command line: the user's own arguments, and those that the protocol needs.
    fn command_line(&self, command: &[String], begin: &ConversationStart) -> Vec<String>;

    /// Begins to talk to a new process. [`AgentUpdate::Ready`] follows when the agent takes prompts, or [`AgentUpdate::Broken`].
    /// `cwd` is absolute.
    fn begin(&mut self, begin: &ConversationStart, cwd: &str, out: &mut DriverOutput);

    /// Begins a new conversation with the same process after [`AgentFailure::NoConversation`], and continues as after
    /// [`Driver::begin`]. Returns `false` if the agent cannot do that.
    fn begin_anew(&mut self, _cwd: &str, _out: &mut DriverOutput) -> bool {
        false
    }

    /// Takes a line that the agent wrote, without its end. It is bytes, because an agent may write anything.
    fn hear(&mut self, line: &[u8], out: &mut DriverOutput);

    /// Gives the agent the prompt of a turn. Only when the agent is ready and no turn is running.
    fn prompt(&mut self, turn: u64, text: &str, out: &mut DriverOutput);

    /// Adds the text of turn `by` to the running turn. [`AgentUpdate::Began`] of `by` follows if the agent takes the text;
    /// [`AgentUpdate::Ended`] of `by` if its end is known before the end of the running turn.
    fn steer(&mut self, by: u64, text: &str, out: &mut DriverOutput);

    /// Asks the agent to interrupt the running turn. [`AgentUpdate::Ended`] follows.
    fn interrupt(&mut self, turn: u64, out: &mut DriverOutput);

    /// Answers a question of the agent with a reply that fits it. No [`AgentUpdate::QuestionWithdrawn`] follows, because the caller
    /// knows. [`AgentUpdate::Asks`] follows if the agent asked several things at once: they are asked one after the other.
    fn answer(&mut self, request: &str, reply: &ChosenReply, out: &mut DriverOutput);

    /// The unique id under which the agent records the prompt of a turn, if we can choose that id.
    fn message_id(&self, _turn: u64) -> Option<String> {
        None
    }

    /// True if the agent prints the ids of all messages that it writes into its own record.
    fn prints_record_ids(&self) -> bool {
        false
    }

    /// Says goodbye to the agent, before its input is closed.
    fn goodbye(&mut self, out: &mut DriverOutput);
}

/// Output of a driver.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DriverOutput {
    /// Bytes for the agent's standard input, whole lines with their ends.
    pub bytes: Vec<u8>,
    /// Updates for the keeper, in order.
    pub updates: Vec<AgentUpdate>,
}

impl DriverOutput {
    /// Adds a line for the agent.
    pub fn line(&mut self, value: &impl serde::Serialize) {
        serde_json::to_writer(&mut self.bytes, value)
            .expect("a message is plain data and a Vec takes any write");
        self.bytes.push(b'\n');
    }

    /// Adds an update for the keeper.
    pub fn update(&mut self, update: AgentUpdate) {
        self.updates.push(update);
    }

    /// Adds the name of the model, unless it is empty.
    fn uses(&mut self, model: &str) {
        if !model.is_empty() {
            self.update(AgentUpdate::Model { model: model.to_owned() });
        }
    }

    /// Adds the use of the context window. Agents report zero tokens when they do not know.
    fn holds(&mut self, used: Option<u64>, window: Option<u64>) {
        let context =
            ContextUsage { used: used.filter(|used| *used > 0), window: window.filter(|size| *size > 0) };
        self.update(AgentUpdate::Context { context });
    }
}

/// Update from an agent.
#[derive(Clone, PartialEq, Debug)]
pub enum AgentUpdate {
    /// The agent takes prompts now.
    Ready,
    /// The agent writes this conversation now. Sent at the beginning (before [`AgentUpdate::Ready`] where the id is known by
    /// then), and whenever the conversation changes.
    Conversation {
        /** Id of the conversation, as the agent names it. */
        id: String,
    },
    /// The agent uses this model.
    Model {
        /** Name of the model, as the agent writes it. */
        model: String,
    },
    /// Use of the context window after the latest request to the model. Each update replaces the one before.
    Context {
        /** Size and use of the window. */
        context: ContextUsage,
    },
    /// The agent confirms that it has the prompt of this turn.
    Began {
        /** Number of the turn. */
        turn: u64,
    },
    /// Piece of the answer, as text for people.
    Said {
        /** The text. */
        text: String,
    },
    /// The current activity of the agent.
    Doing {
        /** The activity, for people. */
        activity: AgentActivity,
    },
    /// The agent needs an answer before it goes on.
    Asks {
        /** The question. */
        ask: AgentQuestion,
    },
    /// A question no longer waits for an answer.
    QuestionWithdrawn {
        /** Name of the question, as [`AgentQuestion`] has it. */
        request: String,
    },
    /// A turn is over.
    Ended {
        /** Number of the turn. */
        turn: u64,
        /** Outcome of the turn. */
        end: TurnEnd,
    },
    /// The agent did more after the end of a turn without having been asked (a background task came back).
    Late {
        /** Number of the last turn that ended. */
        turn: u64,
        /** Text that the agent added. */
        end: TurnEnd,
    },
    /// A remark for the journal: garbage in the output, or a request that the driver does not know.
    Remark {
        /** Text for people. */
        what: String,
    },
    /// The agent cannot be used: this run has to end.
    Broken {
        /** The reason. */
        trouble: AgentFailure,
    },
}

/// How much of its context window an agent uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ContextUsage {
    /// Tokens in the window; `None` if the agent no longer reports them, as after some compactions.
    pub used: Option<u64>,
    /// Tokens that the window has room for, if the agent reported that since its process began.
    pub window: Option<u64>,
}

/// Current activity of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentActivity {
    /// `thinking`, `writing`, or the name of a tool.
    pub what: String,
    /// The tool's command or file, one line.
    pub detail: String,
    /// Tokens used in this turn so far, in and out together, if the agent reports them.
    pub tokens: Option<u64>,
}

/// Reason that an agent cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentFailure {
    /// The conversation to take up does not exist.
    NoConversation {
        /** Id of the conversation. */
        id: String,
    },
    /// Another client writes the conversation, as the agent reports.
    InUse {
        /** Message of the agent. */
        said: String,
    },
    /// The agent needs a login.
    NotLoggedIn {
        /** Message of the agent. */
        said: String,
    },
    /// The agent does not speak its protocol, or reports that it cannot go on.
    Protocol {
        /** Message of the agent, or a description of the error. */
        said: String,
    },
}
