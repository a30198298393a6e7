//! The one table of errors: exit codes and HTTP statuses.

use std::fmt;

use berth_core::{Actor, BadAnswer, Deed, Forbidden, Grant, Interface, Refusal, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why something did not happen. The number is the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// Refused, or tried and failed.
    Refused,
    /// The request makes no sense.
    Usage,
    /// There is no such thing.
    NotFound,
    /// Another client or command holds it.
    Held,
    /// Another program writes the conversation: a retry does not help while it does.
    InUse,
    /// The keeper does not answer.
    Unreachable,
    /// It did not happen in time.
    TimedOut,
    /// It needs a yes.
    NeedsYes,
    /// The caller may not: its token or its grant does not go so far.
    NotAllowed,
    /// It is too much at this moment: a queue is full. Asking again later may help.
    Full,
    /// What has to be recorded cannot be: the journal is damaged, or its disk full. Nothing is done unrecorded.
    Unavailable,
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
            Self::Held | Self::InUse => 4,
            Self::Unreachable => 5,
            Self::TimedOut => 6,
            Self::NeedsYes => 7,
            // 8 to 10 tell how a turn ended.
            Self::NotAllowed => 11,
            Self::Full | Self::Unavailable => 1,
            Self::Bug => 70,
        }
    }

    /// The HTTP status of an answer that says this.
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

    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Refused,
        Self::Usage,
        Self::NotFound,
        Self::Held,
        Self::InUse,
        Self::Unreachable,
        Self::TimedOut,
        Self::NeedsYes,
        Self::NotAllowed,
        Self::Full,
        Self::Unavailable,
        Self::Bug,
    ];

    /// As it is written.
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

    /// Whether asking again in a moment may help: somebody starts, ends or clears up the same.
    pub fn may_pass(&self) -> bool {
        matches!(self.code, Code::Held | Code::Unreachable)
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
    let refused = |what: String| Problem::new(Code::Refused, what);
    match refusal {
        Refusal::AlreadyCreated => refused(format!("session `{session}` exists already")),
        Refusal::NotCreated => Problem::new(
            Code::NotFound,
            format!("session `{session}` was never finished being made, and nothing was ever said in it"),
        )
        .hint("make a new one with `berth run`"),
        Refusal::AlreadyRunning => {
            Problem::new(Code::Held, format!("session `{session}` is running already"))
                .hint(format!("join it with `berth attach {session}`, or end it with `berth stop {session}`"))
        }
        Refusal::NotRunning => refused(format!("session `{session}` is not running"))
            .hint(format!("start it again with `berth resume {session}`")),
        Refusal::Held { by } => Problem::new(
            Code::Held,
            format!("another client is attached to session `{session}`: {}", describe(by)),
        )
        .hint(format!(
            "watch with `berth attach {session} --observe`, or take over with `berth attach {session} --take`"
        )),
        Refusal::StaleEpoch { given, current } => Problem::new(
            Code::Held,
            format!("session `{session}` was claimed again: run {given} cannot begin after run {current}"),
        )
        .hint("try again"),
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
            format!("the owners of helper `{session}` are unknown: its record has none"),
        )
        .hint(format!("it is never stopped on a guess; end it with `berth helper stop {session}`")),
        Refusal::OtherHelper => {
            refused(format!("the record of helper `{session}` is of another helper"))
                .hint("its id is the same by chance, or the record is damaged; use another name")
        }
        Refusal::BeingEnded => Problem::new(Code::Held, format!("session `{session}` is being ended"))
            .hint(format!("when it is over, `berth resume {session}` starts it again")),
        Refusal::NotOwner { owner } => {
            refused(format!("session {owner} does not own helper `{session}`"))
                .hint(format!("`berth helper show {session}` names who does; nothing was changed"))
        }
        Refusal::TooManyOwners { limit } => {
            refused(format!("helper `{session}` has {limit} owners already"))
                .hint(format!("release some with `berth helper release {session} --owner S`"))
        }
        Refusal::Archived => refused(format!("session `{session}` is archived")).hint(
            format!("bring it back with `berth restore {session}`; `berth resume {session}` starts it, too"),
        ),
        Refusal::StillRunning => {
            Problem::new(Code::Held, format!("session `{session}` runs, and what runs is not archived"))
                .hint(format!("end it with `berth stop {session}`, or with `berth archive --stop {session}`"))
        }
        Refusal::TooManyTags { limit } => {
            refused(format!("session `{session}` would have more than {limit} tags"))
                .hint(format!("take some away with `berth tag {session} --remove TAG`; nothing was changed"))
        }
        Refusal::NoteTooLong { bytes, limit } => Problem::new(
            Code::Usage,
            format!("the note has {bytes} bytes; the longest one allowed has {limit}"),
        )
        .hint("put it into a file and name that in the note; nothing was changed"),
        Refusal::NoTurns => refused(format!(
            "session `{session}` is a terminal and takes no turns: nothing tells when what runs in it begins and ends one"
        ))
        .hint(format!(
            "type into it with `berth input {session} --enter TEXT`, or `berth attach {session}`; \
             Claude Code and Codex take turns in a terminal when they tell through hooks"
        )),
        Refusal::CannotBePasted => Problem::new(
            Code::Usage,
            format!("the prompt has control characters in it, and would be typed into the terminal of session `{session}`"),
        )
        .hint("send text without them; nothing was sent"),
        Refusal::IsInterfaceCommand { begins } => refused(format!(
            "a prompt that begins with `{begins}` is a command to the interface of the agent in session `{session}`, and would run at once"
        ))
        .hint(format!(
            "type that with `berth attach {session}`, or begin the prompt with another word; nothing was sent"
        )),
        Refusal::OnScreen { what, agent } => refused(format!(
            "the agent of session `{session}` asks on its screen, and only its terminal takes the answer ({}): {what}",
            match agent.as_str() {
                "claude" => "no hook of Claude Code waits for one",
                "codex" => "Codex shows its question only when its hooks have ended",
                _ => "it has no hook that takes one",
            }
        ))
        .hint(format!(
            "answer there with `berth attach {session}`; or look with `berth screen {session}` and press a key \
             with `berth input {session} KEY`"
        )),
        Refusal::EmptyPrompt => Problem::new(Code::Usage, "there is nothing to send: the prompt is empty"),
        Refusal::PromptTooLong { bytes, limit } => Problem::new(
            Code::Usage,
            format!("the prompt has {bytes} bytes; the longest one allowed has {limit}"),
        )
        .hint("put it into a file and name that in the prompt; nothing was sent"),
        Refusal::BadKey { bytes, limit } => {
            Problem::new(Code::Usage, format!("a key has 1 to {limit} bytes, not {bytes}"))
        }
        Refusal::KeyReused { turn } => refused(format!(
            "the key belongs to turn {session}.{turn}, which has another prompt; nothing was sent"
        ))
        .hint("use another key for another prompt"),
        Refusal::QueueFull { limit } => {
            Problem::new(Code::Full, format!("{limit} turns wait in session `{session}` already; nothing was stored"))
                .hint(format!("try again when one has begun (`berth wait {session} --for idle`), or drop some with `berth queue {session} drop T`"))
        }
        Refusal::CannotSteer => {
            refused(format!("the agent of session `{session}` takes no text into a turn that runs; nothing was sent"))
                .hint("leave --steer out to queue it, or interrupt the turn with --interrupt")
        }
        Refusal::NoSuchTurn { turn } => {
            Problem::new(Code::NotFound, format!("there is no turn {session}.{turn}"))
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
        Refusal::NotDue { turn } => refused(format!("it is not the time of turn {session}.{turn}")),
        Refusal::NoSuchRequest { request: Some(request) } => {
            Problem::new(Code::NotFound, format!("the agent of session `{session}` does not wait for an answer to `{request}`"))
                .hint(format!("it may have been answered or withdrawn; `berth show {session}` lists what is asked"))
        }
        Refusal::NoSuchRequest { request: None } => {
            Problem::new(Code::NotFound, format!("the agent of session `{session}` asks nothing"))
                .hint(format!("`berth wait {session} --for needs-you` waits until it does"))
        }
        Refusal::WhichRequest { requests } => {
            Problem::new(Code::Usage, format!("session `{session}` asks {} things: {}", requests.len(), requests.join(", ")))
                .hint("say which with --request R")
        }
        Refusal::NoSuchOption { options } => {
            Problem::new(Code::Usage, "that is not one of the answers there are; nothing was answered")
                .hint(format!("answer `allow`, `deny`, or one of: {}; own words go with --text", options.join(", ")))
        }
        Refusal::BadAnswer(why) => bad_answer(why, session),
        Refusal::OneInterface { has } => {
            let what = match has {
                Interface::Chat => "its agent has no terminal interface that can go on with a conversation",
                Interface::Terminal => "what runs in its terminal has no chat that can go on with it",
            };
            refused(format!("session `{session}` has one interface, `{}`: {what}", has.word())).hint(
                "Claude Code and Codex have both (`berth run --agent claude`); `tui` and `resume_tui` in [agents.NAME] \
                 of the config file say how another agent resumes a conversation in its own interface",
            )
        }
        Refusal::NoConversation => refused(format!(
            "nothing was said in session `{session}` yet: no other interface can go on with it"
        ))
        .hint(format!("send a prompt first (`berth send {session} TEXT`), or start with `berth run --tui`")),
        Refusal::CannotBeTyped { turn } => refused(format!(
            "turn {session}.{turn} waits, and its text cannot be typed into a terminal: it would be a command or a key"
        ))
        .hint(format!("cancel it (`berth cancel {session}.{turn}`) or change it, then try again")),
        Refusal::CannotTellWhetherItWorks => refused(format!(
            "the agent of session `{session}` does not tell whether it works: it has no hooks that berth hears"
        ))
        .hint("--now ends its run at once, whatever it does"),
        Refusal::Expired => refused(format!("the time of session `{session}` is up"))
            .hint("it was given one with --ttl; start a new session, or `berth fork` it"),
    }
}

/// An answer that does not fit its question.
fn bad_answer(why: &BadAnswer, session: &str) -> Problem {
    let usage = |what: &str| Problem::new(Code::Usage, format!("{what}; nothing was answered"));
    match why {
        BadAnswer::Empty => usage("the text of the answer is empty"),
        BadAnswer::TooLong { bytes, limit } => {
            usage(&format!("the text of an answer has at most {limit} bytes, and this one has {bytes}"))
        }
        BadAnswer::NoText => usage("this question takes one of its options, and no text")
            .hint(format!("`berth answer {session}` lists the options")),
        BadAnswer::NoReason => Problem::new(
            Code::Refused,
            format!(
                "the agent of session `{session}` cannot take a reason with a refusal; nothing was answered"
            ),
        )
        .hint(format!("answer `deny` without a reason, and `berth send {session}` what it is to do instead")),
        BadAnswer::TextBesideOption => usage("a text goes with a refusal, or is an answer by itself")
            .hint("leave the text out, or the option"),
        BadAnswer::OnlyOne => usage("this question takes one answer").hint("choose one option"),
    }
}

/// A refusal about a helper, which has commands of its own.
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
            format!("another client is attached to helper `{helper}`: {}", describe(by)),
        ),
        Refusal::StaleEpoch { given, current } => Problem::new(
            Code::Held,
            format!("helper `{helper}` was claimed again: run {given} cannot begin after run {current}"),
        )
        .hint("try again"),
        Refusal::StaleFence { .. } => {
            Problem::new(Code::Held, format!("another writer took helper `{helper}` over"))
        }
        Refusal::BeingEnded => Problem::new(Code::Held, format!("helper `{helper}` is being ended"))
            .hint("`berth helper ensure` waits for that and starts it again"),
        said_of_a_session => refusal(said_of_a_session, helper),
    }
}

/// A no to an agent, in words: `session` is what it wanted to do that to, `inside` the session it is inside of.
pub fn not_allowed(no: &Forbidden, session: &str, inside: &str) -> Problem {
    let (what, by_hand) = deed(no.deed, session);
    let why = match (no.deed, no.target) {
        (Deed::Start { grant, .. }, _) if grant > Grant::Nothing && no.needs == grant => {
            let has = no.has.unwrap_or_default();
            format!("a session cannot give more than it has, and its own grant is `{has}`")
        }
        (Deed::Answer | Deed::Type { answers: true }, Target::Itself | Target::Child) => {
            "an agent cannot approve its own requests, or those of sessions it started".to_owned()
        }
        (_, Target::Itself) => "it is its own session".to_owned(),
        (_, Target::Stranger) => "it is not one that session started".to_owned(),
        (_, Target::Child | Target::Nobody) => format!("that takes the grant `{}`", no.needs),
    };
    Problem::new(Code::NotAllowed, format!("what is inside of session `{inside}` may not {what}: {why}")).hint(
        format!(
            "ask a person, who is outside of it, for {by_hand}; or let them start `{inside}` with --grant {}. \
             A shell in a session is inside, too",
            no.needs
        ),
    )
}

/// What somebody wanted to do, and what a person types for it.
fn deed(deed: Deed, session: &str) -> (String, String) {
    let typed = |verb: &str| format!("`berth {verb} {session}`");
    match deed {
        Deed::Look => (format!("look at `{session}`"), typed("show")),
        Deed::Start { grant: Grant::Nothing, takes: true } => {
            ("end another writer of a conversation".to_owned(), "`berth run --take`".to_owned())
        }
        Deed::Start { grant, .. } => {
            (format!("start a session with the grant `{grant}`"), format!("`berth run --grant {grant}`"))
        }
        Deed::Resume { takes: false } => (format!("resume session `{session}`"), typed("resume")),
        Deed::Resume { takes: true } => {
            ("end another writer of a conversation".to_owned(), typed("resume --take"))
        }
        Deed::Fork => (format!("fork session `{session}`"), typed("fork")),
        Deed::Send => (format!("change what session `{session}` is to do"), typed("send")),
        Deed::Describe => (format!("tag session `{session}`, or write about it"), typed("note")),
        Deed::Rename => (format!("rename session `{session}`"), typed("rename")),
        Deed::SetPolicy => (format!("set the policy of session `{session}`"), typed("policy")),
        Deed::Stop => (format!("stop session `{session}`"), typed("stop")),
        Deed::Archive => (format!("archive or restore session `{session}`"), typed("archive")),
        Deed::Type { .. } => (format!("type into session `{session}`"), typed("attach")),
        Deed::Answer => (format!("answer what session `{session}` asks"), typed("answer")),
        Deed::Share => (format!("own a helper for session `{session}`"), "`berth helper ensure`".to_owned()),
        Deed::Release => {
            (format!("release a helper of session `{session}`"), "`berth helper release`".to_owned())
        }
        Deed::StopHelper => (format!("stop helper `{session}`"), typed("helper stop")),
        Deed::Restart => (format!("restart the keeper of session `{session}`"), "that".to_owned()),
        Deed::Sweep => ("sweep".to_owned(), "`berth sweep`".to_owned()),
        Deed::Purge => (format!("purge {session}"), "`berth purge`".to_owned()),
        Deed::Tokens => ("make or revoke tokens".to_owned(), "`berth token`".to_owned()),
        Deed::Serve => ("run a gateway".to_owned(), "`berth serve`".to_owned()),
        Deed::Hosts => ("add or take away hosts".to_owned(), "`berth hosts`".to_owned()),
        Deed::SetUp => ("set up what runs beside the commands".to_owned(), "`berth setup`".to_owned()),
    }
}

/// An actor in words.
pub fn describe(actor: &Actor) -> String {
    let uid = actor.uid.map(|uid| format!("uid {uid}, ")).unwrap_or_default();
    format!("pid {} ({uid}{})", actor.pid, actor.place)
}
