//! The one table of errors: exit codes, HTTP statuses, and the texts of refusals.
//!
//! Promise: every refusal has a text that says what happened, and almost every one a hint that says what to do next.
//! Not here: deciding what is refused (`berth_core`), and printing.
//! Start with [`Problem`] and [`ProblemCode`].

use std::fmt;

use berth_core::{
    ActionForbidden, ActionTarget, Actor, AgentInterface, BadReply, CallerAction, Grant, Refusal,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of an error. The number is the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemCode {
    /// The request was refused, or it was tried and failed.
    Refused,
    /// The request is malformed or contradicts itself.
    Usage,
    /// The requested object does not exist.
    NotFound,
    /// Another client or command holds the object.
    Held,
    /// Another program writes the conversation. A retry does not help while that program runs.
    InUse,
    /// The keeper does not answer.
    Unreachable,
    /// The time limit passed first.
    TimedOut,
    /// The command needs a confirmation.
    NeedsYes,
    /// The caller lacks the right: its token or its grant does not include it.
    NotAllowed,
    /// A queue or another limited resource is full. A retry later may help.
    Full,
    /// The journal cannot record the change: it is damaged, or the disk is full. Nothing was done, because nothing is
    /// done unrecorded.
    Unavailable,
    /// A bug in berth.
    Bug,
}

impl ProblemCode {
    /// Exit code of a command that fails with this error.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Refused => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Held | Self::InUse => 4,
            Self::Unreachable => 5,
            Self::TimedOut => 6,
            Self::NeedsYes => 7,
            // Codes 8 to 10 report how a turn ended.
            Self::NotAllowed => 11,
            Self::Full | Self::Unavailable => 1,
            Self::Bug => 70,
        }
    }

    /// HTTP status of an answer with this error.
    pub fn http_status(self) -> u16 {
        match self {
            Self::Refused | Self::Held | Self::InUse => 409,
            Self::Usage => 400,
            Self::NotFound => 404,
            Self::Unreachable | Self::Unavailable => 503,
            Self::TimedOut => 504,
            Self::NeedsYes => 428,
            Self::NotAllowed => 403,
            Self::Full => 429,
            Self::Bug => 500,
        }
    }

    /// Word that stands for the code in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Usage => "usage",
            Self::NotFound => "not-found",
            Self::Held => "held",
            Self::InUse => "in-use",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed-out",
            Self::NeedsYes => "needs-yes",
            Self::NotAllowed => "not-allowed",
            Self::Full => "full",
            Self::Unavailable => "unavailable",
            Self::Bug => "bug",
        }
    }
}

/// An error, for people and programs: what happened, and what to do next.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// Kind of the error.
    pub code: ProblemCode,
    /// Text of the error: what happened, and to which object.
    pub what: String,
    /// Next step for the user, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

macro_rules! constructors {
    ($($name:ident: $code:ident,)*) => {
        impl Problem {$(
            #[doc = concat!("An error of kind [`ProblemCode::", stringify!($code), "`], without a hint.")]
            pub fn $name(what: impl Into<String>) -> Self {
                Self::new(ProblemCode::$code, what)
            }
        )*}
    };
}

constructors! {
    refused: Refused,
    usage: Usage,
    not_found: NotFound,
    held: Held,
    unreachable: Unreachable,
    full: Full,
    timed_out: TimedOut,
    not_allowed: NotAllowed,
    bug: Bug,
    needs_yes: NeedsYes,
    in_use: InUse,
    unavailable: Unavailable,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(code: ProblemCode, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), hint: None }
    }

    /// True if a retry in a moment may help: another command starts, ends or clears up the session at the moment.
    pub fn is_transient(&self) -> bool {
        matches!(self.code, ProblemCode::Held | ProblemCode::Unreachable)
    }

    /// Adds a hint.
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

/// Describes a refusal. `session` is the name that the user gave for it.
pub fn refusal(refusal: &Refusal, session: &str) -> Problem {
    let refused = |what: String| Problem::refused(what);
    match refusal {
        Refusal::AlreadyCreated => refused(format!("session `{session}` exists already")),
        Refusal::NotCreated => Problem::not_found(format!("session `{session}` was never completely created, and is empty"))
        .hint("make a new one with `berth run`"),
        Refusal::AlreadyRunning => {
            Problem::held(format!("session `{session}` is running already"))
                .hint(format!("join it with `berth attach {session}`, or end it with `berth stop {session}`"))
        }
        Refusal::NotRunning => refused(format!("session `{session}` is not running"))
            .hint(format!("start it again with `berth resume {session}`")),
        Refusal::Held { by } => Problem::held(format!("another client is attached to session `{session}`: {}", describe(by)))
        .hint(format!(
            "watch with `berth attach {session} --observe`, or take over with `berth attach {session} --take`"
        )),
        Refusal::StaleEpoch { given, current } => Problem::held(format!("session `{session}` was claimed again: run {given} cannot begin after run {current}"))
        .hint("try again"),
        Refusal::StaleFence { given, current } => Problem::held(format!(
                "another writer took session `{session}` over (you were writer {}, now it is writer {})",
                given.0, current.0
            ))
        .hint(format!("take it back with `berth attach {session} --take`")),
        Refusal::NotShared => Problem::refused(format!("the owners of helper `{session}` are unknown: its record has none"))
        .hint(format!("berth does not guess the owners of a helper; end it with `berth helper stop {session}`")),
        Refusal::OtherHelper => {
            refused(format!("the record of helper `{session}` is of another helper"))
                .hint("its id is the same by chance, or the record is damaged; use another name")
        }
        Refusal::BeingEnded => Problem::held(format!("session `{session}` is being ended"))
            .hint(format!("when it is over, `berth resume {session}` starts it again")),
        Refusal::NotOwner { owner } => {
            refused(format!("session {owner} does not own helper `{session}`"))
                .hint(format!("`berth helper show {session}` lists the owners; nothing was changed"))
        }
        Refusal::TooManyOwners { limit } => {
            refused(format!("helper `{session}` has {limit} owners already"))
                .hint(format!("release some with `berth helper release {session} --owner S`"))
        }
        Refusal::Archived => refused(format!("session `{session}` is archived")).hint(
            format!("restore it with `berth restore {session}`, or restore and start it with `berth resume {session}`"),
        ),
        Refusal::StillRunning => {
            Problem::held(format!("session `{session}` runs, and a running session is not archived"))
                .hint(format!("end it with `berth stop {session}`, or with `berth archive --stop {session}`"))
        }
        Refusal::TooManyTags { limit } => {
            refused(format!("session `{session}` would have more than {limit} tags"))
                .hint(format!("remove some with `berth tag {session} --remove TAG`; nothing was changed"))
        }
        Refusal::NoteTooLong { bytes, limit } => Problem::usage(format!("the note has {bytes} bytes; the longest one allowed has {limit}"))
        .hint("put it into a file and name that in the note; nothing was changed"),
        Refusal::NoTurns => refused(format!(
            "session `{session}` is a terminal and takes no turns: its program does not report when one begins and ends"
        ))
        .hint(format!(
            "type into it with `berth input {session} --enter TEXT`, or `berth attach {session}`; \
             Claude Code and Codex take turns in a terminal when their hooks report to berth"
        )),
        Refusal::CannotBePasted => Problem::usage(format!("the prompt contains control characters, and would be typed into the terminal of session `{session}`"))
        .hint("send text without them; nothing was sent"),
        Refusal::IsInterfaceCommand { begins } => refused(format!(
            "a prompt that begins with `{begins}` is a command to the interface of the agent in session `{session}`, and would run at once"
        ))
        .hint(format!(
            "type that with `berth attach {session}`, or begin the prompt with another word; nothing was sent"
        )),
        Refusal::OnScreen { what, agent } => refused(format!(
            "the agent of session `{session}` shows a question that only its terminal can answer ({}): {what}",
            match agent.as_str() {
                "claude" => "no Claude Code hook is waiting for an answer",
                "codex" => "Codex shows its question only when its hooks have ended",
                _ => "this agent has no hook for answers",
            }
        ))
        .hint(format!(
            "answer there with `berth attach {session}`; or look with `berth screen {session}` and press a key \
             with `berth input {session} KEY`"
        )),
        Refusal::EmptyPrompt => Problem::usage("there is nothing to send: the prompt is empty"),
        Refusal::PromptTooLong { bytes, limit } => Problem::usage(format!("the prompt has {bytes} bytes; the longest one allowed has {limit}"))
        .hint("put it into a file and name that in the prompt; nothing was sent"),
        Refusal::BadKey { bytes, limit } => {
            Problem::usage(format!("a key has 1 to {limit} bytes, not {bytes}"))
        }
        Refusal::KeyReused { turn } => refused(format!(
            "the key belongs to turn {session}.{turn}, which has another prompt; nothing was sent"
        ))
        .hint("use another key for another prompt"),
        Refusal::QueueFull { limit } => {
            Problem::full(format!("{limit} turns wait in session `{session}` already; nothing was stored"))
                .hint(format!("try again when one has begun (`berth wait {session} --for idle`), or drop some with `berth queue {session} drop T`"))
        }
        Refusal::CannotSteer => {
            refused(format!("the agent of session `{session}` takes no text into a running turn; nothing was sent"))
                .hint("leave --steer out to queue it, or interrupt the turn with --interrupt")
        }
        Refusal::NoSuchTurn { turn } => {
            Problem::not_found(format!("there is no turn {session}.{turn}"))
                .hint(format!("`berth turns {session}` lists them"))
        }
        Refusal::TurnOver { turn, end } => {
            let state = end.map(|end| format!(": {}", crate::TurnState::from(end)));
            refused(format!("turn {session}.{turn} is over already{}", state.unwrap_or_default()))
                .hint(format!("`berth turn {session}.{turn}` shows it"))
        }
        Refusal::TurnStarted { turn } => refused(format!("the agent has turn {session}.{turn} already"))
            .hint(format!("cancel it with `berth cancel {session}.{turn}`")),
        Refusal::PartOf { turn, whole } => {
            refused(format!("the text of turn {session}.{turn} went into turn {session}.{whole}"))
                .hint(format!("cancel that with `berth cancel {session}.{whole}`"))
        }
        Refusal::NotDue { turn } => refused(format!("turn {session}.{turn} is not the next turn of the queue")),
        Refusal::NoSuchRequest { request: Some(request) } => {
            Problem::not_found(format!("the agent of session `{session}` does not wait for an answer to `{request}`"))
                .hint(format!("it may have been answered or withdrawn; `berth show {session}` lists the open questions"))
        }
        Refusal::NoSuchRequest { request: None } => {
            Problem::not_found(format!("the agent of session `{session}` has no open question"))
                .hint(format!("`berth wait {session} --for needs-you` waits until it does"))
        }
        Refusal::WhichRequest { requests } => {
            Problem::usage(format!("session `{session}` has {} open questions: {}", requests.len(), requests.join(", ")))
                .hint("choose one with --request R")
        }
        Refusal::NoSuchOption { options } => {
            Problem::usage("the answer is not valid for this question; the question is still open")
                .hint(format!("answer `allow`, `deny`, or one of: {}; own words go with --text", options.join(", ")))
        }
        Refusal::BadAnswer(why) => bad_answer(why, session),
        Refusal::OneInterface { has } => {
            let what = match has {
                AgentInterface::Chat => "its agent has no terminal interface that can resume a conversation",
                AgentInterface::Terminal => "the program in its terminal has no chat interface that can resume it",
            };
            refused(format!("session `{session}` has one interface, `{}`: {what}", has.word())).hint(
                "Claude Code and Codex have both (`berth run --agent claude`); `tui` and `resume_tui` in [agents.NAME] \
                 of the config file say how another agent resumes a conversation in its own interface",
            )
        }
        Refusal::NoConversation => refused(format!(
            "session `{session}` has no conversation yet, so it cannot change its interface"
        ))
        .hint(format!("send a prompt first (`berth send {session} TEXT`), or start with `berth run --agent NAME --tui`")),
        Refusal::CannotBeTyped { turn } => refused(format!(
            "turn {session}.{turn} waits, and its text cannot be typed into a terminal: it would be a command or a key"
        ))
        .hint(format!("cancel it (`berth cancel {session}.{turn}`) or change it, then try again")),
        Refusal::CannotTellWhetherItWorks => refused(format!(
            "the agent of session `{session}` does not report whether it works: it has no hooks that report to berth"
        ))
        .hint("--now ends its run at once, also if it works"),
        Refusal::Expired => refused(format!("the time to live of session `{session}` has expired"))
            .hint("--ttl limited it; start a new session, or `berth fork` it"),
    }
}

/// Describes an answer that does not fit its question.
fn bad_answer(why: &BadReply, session: &str) -> Problem {
    let usage = |what: &str| Problem::usage(format!("{what}; nothing was answered"));
    match why {
        BadReply::Empty => usage("the text of the answer is empty"),
        BadReply::TooLong { bytes, limit } => {
            usage(&format!("the text of an answer has at most {limit} bytes, and this one has {bytes}"))
        }
        BadReply::NoText => usage("this question takes one of its options, and no text")
            .hint(format!("`berth answer {session}` lists the options")),
        BadReply::NoReason => Problem::refused(format!(
            "the agent of session `{session}` cannot take a reason with a refusal; nothing was answered"
        ))
        .hint(format!("answer `deny` without a reason, and `berth send {session}` what it is to do instead")),
        BadReply::TextBesideOption => usage("a text goes with a refusal, or is an answer by itself")
            .hint("leave the text out, or the option"),
        BadReply::OnlyOne => usage("this question takes one answer").hint("choose one option"),
    }
}

/// Describes a refusal about a helper: helpers have commands of their own.
pub fn helper_refusal(what: &Refusal, helper: &str) -> Problem {
    match what {
        Refusal::AlreadyCreated => Problem::refused(format!("helper `{helper}` exists already")),
        Refusal::NotCreated => Problem::not_found(format!("helper `{helper}` was never completely created"))
            .hint("`berth helper ensure` makes it anew"),
        Refusal::AlreadyRunning => Problem::held(format!("helper `{helper}` is running already"))
            .hint("join it with `berth helper ensure`"),
        Refusal::NotRunning => Problem::refused(format!("helper `{helper}` is not running"))
            .hint("start it again with `berth helper ensure`"),
        Refusal::Held { by } => {
            Problem::held(format!("another client is attached to helper `{helper}`: {}", describe(by)))
        }
        Refusal::StaleEpoch { given, current } => Problem::held(format!(
            "helper `{helper}` was claimed again: run {given} cannot begin after run {current}"
        ))
        .hint("try again"),
        Refusal::StaleFence { .. } => Problem::held(format!("another writer took helper `{helper}` over")),
        Refusal::BeingEnded => Problem::held(format!("helper `{helper}` is being ended"))
            .hint("`berth helper ensure` waits for that and starts it again"),
        said_of_a_session => refusal(said_of_a_session, helper),
    }
}

/// Describes why an agent lacks a right. `session` is the target of its request, `inside` the session that it runs in.
pub fn not_allowed(no: &ActionForbidden, session: &str, inside: &str) -> Problem {
    let (what, by_hand) = action_texts(no.action, session);
    let why = match (no.action, no.target) {
        (CallerAction::Start { grant, .. }, _) if grant > Grant::Nothing && no.needs == grant => {
            let has = no.has.unwrap_or_default();
            format!("a session cannot give a grant above its own, which is `{has}`")
        }
        (
            CallerAction::Answer | CallerAction::Type { answers: true },
            ActionTarget::Itself | ActionTarget::Child,
        ) => "an agent cannot approve its own requests, or those of sessions it started".to_owned(),
        (_, ActionTarget::Itself) => "an agent may not do this to its own session".to_owned(),
        (_, ActionTarget::Stranger) => "that session did not start it".to_owned(),
        (_, ActionTarget::Child | ActionTarget::NoSession) => format!("this needs the grant `{}`", no.needs),
    };
    Problem::not_allowed(format!("a process inside of session `{inside}` may not {what}: {why}"))
    .hint(format!(
        "ask a person outside of the session for {by_hand}, or let them start `{inside}` with --grant {}. \
             A shell in a session counts as inside",
        no.needs
    ))
}

/// The denied action, and the command with which a person does it.
fn action_texts(action: CallerAction, session: &str) -> (String, String) {
    let typed = |verb: &str| format!("`berth {verb} {session}`");
    match action {
        CallerAction::Look => (format!("look at `{session}`"), typed("show")),
        CallerAction::Start { grant: Grant::Nothing, takes: true } => {
            ("end another writer of a conversation".to_owned(), "`berth run --take`".to_owned())
        }
        CallerAction::Start { grant, .. } => {
            (format!("start a session with the grant `{grant}`"), format!("`berth run --grant {grant}`"))
        }
        CallerAction::Resume { takes: false } => (format!("resume session `{session}`"), typed("resume")),
        CallerAction::Resume { takes: true } => {
            ("end another writer of a conversation".to_owned(), typed("resume --take"))
        }
        CallerAction::Fork => (format!("fork session `{session}`"), typed("fork")),
        CallerAction::Send => (format!("change what session `{session}` is to do"), typed("send")),
        CallerAction::Describe => (format!("tag session `{session}`, or write about it"), typed("note")),
        CallerAction::Rename => (format!("rename session `{session}`"), typed("rename")),
        CallerAction::SetPolicy => (format!("set the policy of session `{session}`"), typed("policy")),
        CallerAction::Stop => (format!("stop session `{session}`"), typed("stop")),
        CallerAction::Archive => (format!("archive or restore session `{session}`"), typed("archive")),
        CallerAction::Type { .. } => (format!("type into session `{session}`"), typed("attach")),
        CallerAction::Answer => (format!("answer what session `{session}` asks"), typed("answer")),
        CallerAction::Share => {
            (format!("own a helper for session `{session}`"), "`berth helper ensure`".to_owned())
        }
        CallerAction::Release => {
            (format!("release a helper of session `{session}`"), "`berth helper release`".to_owned())
        }
        CallerAction::StopHelper => (format!("stop helper `{session}`"), typed("helper stop")),
        CallerAction::Restart => (format!("restart the keeper of session `{session}`"), "that".to_owned()),
        CallerAction::Sweep => ("sweep".to_owned(), "`berth sweep`".to_owned()),
        CallerAction::Purge => (format!("purge {session}"), "`berth purge`".to_owned()),
        CallerAction::Tokens => ("make or revoke tokens".to_owned(), "`berth token`".to_owned()),
        CallerAction::Serve => ("run a gateway".to_owned(), "`berth serve`".to_owned()),
        CallerAction::Hosts => ("add or take away hosts".to_owned(), "`berth hosts`".to_owned()),
        CallerAction::SetUp => {
            ("set up what runs beside the commands".to_owned(), "`berth setup`".to_owned())
        }
    }
}

/// Describes an actor for people.
pub fn describe(actor: &Actor) -> String {
    let uid = actor.uid.map(|uid| format!("uid {uid}, ")).unwrap_or_default();
    format!("pid {} ({uid}{})", actor.pid, actor.place)
}
