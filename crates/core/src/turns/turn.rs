//! A single turn: its prompt, its state, its end.
//!
//! Start with [`Turn`] and [`TurnProgress`]. A caller brings a [`TurnPrompt`], and a [`TurnEnd`] is the result.

use std::sync::Arc;

use crate::{Actor, BootId};

/// One accepted input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// State of the turn.
    pub state: TurnProgress,
    /// Text of the prompt, until it is no longer needed.
    pub prompt: Arc<str>,
    /// Time limit: the turn is withdrawn if the agent does not have it by then.
    pub start_by: Option<StartDeadline>,
    /// Manner in which it meets a running turn.
    pub manner: SendMode,
    /// Failed turn whose text it repeats.
    pub retry: Option<TurnRetry>,
    /// Digests of all its reported ends, for recognising repeated reports.
    pub ends: Vec<u64>,
}

/// Time by which the agent must have a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartDeadline {
    /// Boot that the time belongs to.
    pub boot: BootId,
    /// Time on the clock of that boot.
    pub boot_ms: u64,
}

/// Turn that an agent has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CurrentTurn {
    /// Number of the turn.
    pub turn: u64,
    /// Offset at which its output begins.
    pub output_from: u64,
    /// Turns whose text was added to it.
    pub steered: Vec<u64>,
    /// Request to interrupt it, if there is one.
    pub cancel: Option<CancelRequest>,
}

/// Request to interrupt a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancelRequest {
    /// Client that asked.
    pub by: Actor,
    /// True if the turn is interrupted for another turn, rather than cancelled.
    pub for_another: bool,
    /// Time at which patience with the agent ends, on the boot clock.
    pub until_boot_ms: u64,
}

/// State of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnProgress {
    /// The turn is on disk, and waits.
    Queued,
    /// The turn was given to the agent, or is on its way there.
    Delivered,
    /// The agent confirmed the turn.
    Working,
    /// The turn is over, with this final state.
    Over(FinalState),
}

/// Final state of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FinalState {
    /// The agent reported success.
    Done,
    /// The agent, or its end, reported a failure.
    Failed,
    /// A client cancelled the turn.
    Cancelled,
    /// The turn was interrupted, and is proven not to have been finished.
    Interrupted,
    /// The agent had the turn, and nothing proves how it ended.
    Unknown,
}

impl TurnProgress {
    /// True if the state does not change any more.
    pub fn is_over(self) -> bool {
        match self {
            Self::Over(_) => true,
            Self::Queued | Self::Delivered | Self::Working => false,
        }
    }
}

/// Manner of a turn that arrives while another one runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SendMode {
    /// Wait for the end of the running turn.
    #[default]
    Queue,
    /// Add the text to the running turn.
    Steer,
    /// Interrupt the running turn.
    Interrupt,
}

/// End of a turn, with its answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TurnEnd {
    /// Final state of the turn.
    pub state: FinalState,
    /// Reason why it is not done, for people.
    pub reason: Option<String>,
    /// Answer of the agent.
    pub answer: String,
    /// True if `answer` is only the beginning: the rest is in the output.
    pub cut: bool,
    /// Input tokens that the agent used, if it reported them.
    pub input_tokens: Option<u64>,
    /// Output tokens that the agent used, if it reported them.
    pub output_tokens: Option<u64>,
    /// Kind of failure, if the turn failed.
    pub failure: TurnFailure,
}

/// Kind of failure of a turn, as far as its agent reported it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TurnFailure {
    /// Any other failure, or none: the next turn may succeed.
    #[default]
    Other,
    /// The model's server refused: a rate limit or a usage limit.
    Limit,
    /// The model's server is overloaded.
    Overloaded,
    /// The model's server did not accept the login or the key.
    Login,
}

impl TurnFailure {
    /// Words that people see.
    pub fn words(self) -> &'static str {
        match self {
            Self::Other => "failure",
            Self::Limit => "usage limit",
            Self::Overloaded => "overloaded model",
            Self::Login => "login",
        }
    }

    /// True if the model refused the turn: waiting turns would fail as well.
    pub fn is_model_failure(self) -> bool {
        match self {
            Self::Limit | Self::Overloaded | Self::Login => true,
            Self::Other => false,
        }
    }

    /// True if the failure may pass by itself. A rejected login does not.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Limit | Self::Overloaded => true,
            Self::Login | Self::Other => false,
        }
    }
}

impl TurnEnd {
    /// Makes an end without an answer.
    pub fn without_answer(state: FinalState, reason: impl Into<String>) -> Self {
        let (answer, reason) = (String::new(), Some(reason.into()));
        let failure = TurnFailure::Other;
        Self { state, reason, answer, cut: false, input_tokens: None, output_tokens: None, failure }
    }
}

/// A prompt of a client, with its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TurnPrompt {
    /// Client that sends it.
    pub by: Actor,
    /// Text of the prompt.
    pub text: String,
    /// Key that makes the call repeatable.
    pub key: Option<String>,
    /// Time by which the agent must have the turn.
    pub start_by: Option<StartDeadline>,
    /// Manner in which it meets a running turn.
    pub manner: SendMode,
    /// Failed turn whose text it repeats.
    pub retry: Option<TurnRetry>,
}

/// Origin of a turn that repeats the text of a failed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnRetry {
    /// Number of the turn that failed first.
    pub of: u64,
    /// Number of this attempt, from 1 on.
    pub attempt: u32,
}
