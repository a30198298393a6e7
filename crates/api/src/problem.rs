//! The one table of errors: exit codes now, HTTP statuses later.

use std::fmt;

use berth_core::{Actor, Refusal};
use serde::{Deserialize, Serialize};

/// Why something did not happen. The number is the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// Refused, or tried and failed.
    Refused,
    /// The request makes no sense.
    Usage,
    /// There is no such thing.
    NotFound,
    /// Somebody else has it.
    Held,
    /// The keeper does not answer.
    Unreachable,
    /// It did not happen in time.
    TimedOut,
    /// It needs a yes.
    NeedsYes,
    /// Our fault.
    Bug,
}

impl Code {
    /// The exit code of a command that ends with this.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Refused => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Held => 4,
            Self::Unreachable => 5,
            Self::TimedOut => 6,
            Self::NeedsYes => 7,
            Self::Bug => 70,
        }
    }
}

/// What went wrong, for people and programs: what happened, and what to do next.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// Which kind.
    pub code: Code,
    /// What happened, to what.
    pub what: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), hint: None }
    }

    /// The same problem with advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}

/// A refusal in words. `session` is how the person named it.
pub fn refusal(refusal: &Refusal, session: &str) -> Problem {
    match refusal {
        Refusal::AlreadyCreated => Problem::new(Code::Refused, format!("session `{session}` exists already")),
        Refusal::NotCreated => Problem::new(
            Code::NotFound,
            format!("session `{session}` was never finished being made, and nothing was ever said in it"),
        )
        .hint("make a new one with `berth run`"),
        Refusal::AlreadyRunning => {
            Problem::new(Code::Held, format!("session `{session}` is running already"))
                .hint(format!("join it with `berth attach {session}`, or end it with `berth stop {session}`"))
        }
        Refusal::NotRunning => Problem::new(Code::Refused, format!("session `{session}` is not running"))
            .hint(format!("start it again with `berth resume {session}`")),
        Refusal::Held { by } => Problem::new(
            Code::Held,
            format!("somebody else is typing in session `{session}`: {}", describe(by)),
        )
        .hint(format!(
            "watch with `berth attach {session} --observe`, or take over with `berth attach {session} --take`"
        )),
        Refusal::StaleFence { given, current } => Problem::new(
            Code::Held,
            format!(
                "another writer took session `{session}` over (you were writer {}, now it is writer {})",
                given.0, current.0
            ),
        )
        .hint(format!("take it back with `berth attach {session} --take`")),
        Refusal::NotShared => Problem::new(
            Code::Refused,
            format!("nobody knows who uses `{session}`: its record has no owners"),
        )
        .hint(format!("it is never stopped on a guess; end it with `berth helper stop {session}`")),
        Refusal::OtherHelper => {
            Problem::new(Code::Refused, format!("the record of helper `{session}` is of another helper"))
                .hint("its id is the same by chance, or the record is damaged; use another name")
        }
        Refusal::BeingEnded => Problem::new(Code::Held, format!("helper `{session}` is being ended"))
            .hint("`berth helper ensure` waits for that and starts it again"),
        Refusal::NotOwner { owner } => {
            Problem::new(Code::Refused, format!("session {owner} does not own helper `{session}`"))
                .hint(format!("`berth helper show {session}` names who does; nothing was changed"))
        }
        Refusal::TooManyOwners { limit } => {
            Problem::new(Code::Refused, format!("helper `{session}` has {limit} owners already"))
                .hint(format!("release some with `berth helper release {session} --owner S`"))
        }
    }
}

/// The same about a helper, which has commands of its own.
pub fn helper_refusal(what: &Refusal, helper: &str) -> Problem {
    match what {
        Refusal::AlreadyCreated => Problem::new(Code::Refused, format!("helper `{helper}` exists already")),
        Refusal::NotCreated => {
            Problem::new(Code::NotFound, format!("helper `{helper}` was never finished being made"))
                .hint("`berth helper ensure` makes it anew")
        }
        Refusal::AlreadyRunning => Problem::new(Code::Held, format!("helper `{helper}` is running already"))
            .hint("join it with `berth helper ensure`"),
        Refusal::NotRunning => Problem::new(Code::Refused, format!("helper `{helper}` is not running"))
            .hint("start it again with `berth helper ensure`"),
        Refusal::Held { by } => Problem::new(
            Code::Held,
            format!("somebody else is typing in helper `{helper}`: {}", describe(by)),
        ),
        Refusal::StaleFence { .. } => {
            Problem::new(Code::Held, format!("another writer took helper `{helper}` over"))
        }
        Refusal::NotShared
        | Refusal::OtherHelper
        | Refusal::BeingEnded
        | Refusal::NotOwner { .. }
        | Refusal::TooManyOwners { .. } => refusal(what, helper),
    }
}

/// An actor in words.
pub fn describe(actor: &Actor) -> String {
    let uid = actor.uid.map(|uid| format!("uid {uid}, ")).unwrap_or_default();
    format!("pid {} ({uid}{})", actor.pid, actor.place)
}
