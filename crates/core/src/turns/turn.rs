//! One turn: what was asked for, where it stands, how it ended.
//!
//! Start with [`Turn`] and [`TurnState`]; [`Prompt`] is what a caller brings, [`TurnEnd`] what is left.

use std::sync::Arc;

use crate::{Actor, Boot};

/// One accepted input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Where it stands.
    pub state: TurnState,
    /// What to say, until that is no longer needed.
    pub prompt: Arc<str>,
    /// It is withdrawn if the agent does not have it by then, on the boot clock.
    pub start_by: Option<StartBy>,
    /// How it meets a turn that is running.
    pub manner: Manner,
    /// The failed turn whose text it says again.
    pub retry: Option<Retry>,
    /// What makes every end that was told of it known again.
    pub ends: Vec<u64>,
}

/// A moment until which a turn has to be with the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartBy {
    /// Of which boot.
    pub boot: Boot,
    /// On its clock.
    pub boot_ms: u64,
}

/// The turn an agent has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Current {
    /// Which.
    pub turn: u64,
    /// Where its output begins.
    pub output_from: u64,
    /// Turns whose text was added to it.
    pub steered: Vec<u64>,
    /// Somebody wants it broken off.
    pub cancel: Option<Cancel>,
}

/// Somebody wants a turn broken off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cancel {
    /// Who.
    pub by: Actor,
    /// For another turn, rather than for its own sake.
    pub for_another: bool,
    /// When patience with the agent ends, on the boot clock.
    pub until_boot_ms: u64,
}

/// Where a turn stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnState {
    /// On disk, and waiting.
    Queued,
    /// On its way to the agent, or there.
    Delivered,
    /// The agent said that it has it.
    Working,
    /// Over, in this way.
    Over(Final),
}

/// How a turn ended. Once, and for good.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Final {
    /// The agent said so.
    Done,
    /// The agent, or its end, said so.
    Failed,
    /// Somebody wanted that.
    Cancelled,
    /// Cut off, and proven not to have been finished.
    Interrupted,
    /// With the agent, and nobody can prove how it ended.
    Unknown,
}

impl TurnState {
    /// Whether it will not change any more.
    pub fn is_over(self) -> bool {
        match self {
            Self::Over(_) => true,
            Self::Queued | Self::Delivered | Self::Working => false,
        }
    }
}

/// How a turn meets one that is running.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Manner {
    /// It waits.
    #[default]
    Queue,
    /// Its text is added to the running turn.
    Steer,
    /// The running turn is broken off for it.
    Interrupt,
}

/// How a turn ended, in full.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TurnEnd {
    /// How.
    pub state: Final,
    /// Why it is not done, for people.
    pub reason: Option<String>,
    /// What the agent said.
    pub answer: String,
    /// Whether that is only the beginning of it: the rest is in the output.
    pub cut: bool,
    /// What it read and wrote, if it said so.
    pub input_tokens: Option<u64>,
    /// The same for what it wrote.
    pub output_tokens: Option<u64>,
    /// What failed, of a turn that did.
    pub failure: Failure,
}

/// What made a turn fail, as far as its agent told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Failure {
    /// Anything else, or nothing: the next turn may do better.
    #[default]
    Other,
    /// The model's server refused: a rate limit or a usage limit.
    Limit,
    /// The model's server has too much to do.
    Overloaded,
    /// The model's server did not accept the login or the key.
    Login,
}

impl Failure {
    /// The words people see.
    pub fn words(self) -> &'static str {
        match self {
            Self::Other => "failure",
            Self::Limit => "usage limit",
            Self::Overloaded => "overloaded model",
            Self::Login => "login",
        }
    }

    /// Whether the model refused, rather than the turn: what waits would fail as well.
    pub fn is_of_model(self) -> bool {
        match self {
            Self::Limit | Self::Overloaded | Self::Login => true,
            Self::Other => false,
        }
    }

    /// Whether it may pass by itself. A login does not.
    pub fn may_pass(self) -> bool {
        match self {
            Self::Limit | Self::Overloaded => true,
            Self::Login | Self::Other => false,
        }
    }
}

impl TurnEnd {
    /// An end without an answer.
    pub fn without_answer(state: Final, reason: impl Into<String>) -> Self {
        let (answer, reason) = (String::new(), Some(reason.into()));
        let failure = Failure::Other;
        Self { state, reason, answer, cut: false, input_tokens: None, output_tokens: None, failure }
    }
}

/// What a caller wants said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prompt {
    /// Who wants it.
    pub by: Actor,
    /// What.
    pub text: String,
    /// What makes the call repeatable.
    pub key: Option<String>,
    /// It has to be with the agent by then.
    pub start_by: Option<StartBy>,
    /// How it meets a turn that is running.
    pub manner: Manner,
    /// The failed turn whose text it says again.
    pub retry: Option<Retry>,
}

/// A turn that says the text of a failed one again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// The turn that failed first.
    pub of: u64,
    /// The number of this attempt, from 1 on.
    pub attempt: u32,
}
