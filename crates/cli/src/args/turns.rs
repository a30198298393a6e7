//! Arguments of the commands about turns: `send`, `turns`, `turn`, `result`, `cancel`, `queue`, `answer`, `fork`.

use clap::ValueEnum;

use berth_api::policy_change::TimeoutChange;
use berth_api::turn::NewTurn;
use berth_verbs::answer::QuestionId;

use super::lifecycle::term;

/// Send a prompt to a session's agent.
///
/// Prints the turn's id once the turn is on disk; with --wait the answer, as it comes. Turns are given to the agent in
/// the order they were accepted, one at a time, each once. A session whose agent was paused, or whose keeper died, is
/// started again for the turn, in its conversation, with the variables of this environment.
#[derive(clap::Args, Debug)]
#[command(override_usage = "berth send [OPTIONS] <S> <TEXT>...")]
#[command(after_help = "\
Examples:
  berth send fix 'run the tests and mend what fails' --wait
  git diff | berth send review - --wait > review.md
  berth send fix --key ci-$JOB 'build it' --json     same key, same turn
  berth send fix --interrupt 'stop that, do this'

Exit codes with --wait:
  0 done · 1 failed · 8 cancelled · 9 interrupted
  10 unknown: given to the agent, outcome unproven
  4 queued and cannot begin by itself · 6 not begun within --max-wait")]
pub(crate) struct SendArgs {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// The prompt; `-` for standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    #[command(flatten)]
    pub(crate) turn: NewTurn,
    /// Add the prompt to the running turn
    #[arg(long, conflicts_with = "interrupt")]
    pub(crate) steer: bool,
    /// Interrupt the running turn, and send the prompt next
    #[arg(long)]
    pub(crate) interrupt: bool,
    /// Print an object: the receipt, or with --wait the whole turn
    #[arg(long)]
    pub(crate) json: bool,
}

/// List a session's turns.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth turns fix --last 20
  berth turns fix --from 300             turn 300 and all after it
  berth turns fix --json | jq -r '.[] | select(.state == \"failed\") | .turn'")]
pub(crate) struct TurnsArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// List only the N latest turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "from")]
    pub(crate) last: Option<u64>,
    /// List only turn N and the turns after it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) from: Option<u64>,
    /// Print an array of objects, as `turn --json` prints them
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the details of a turn.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth turn fix.1
  berth turn fix.1 --json | jq -r .prompt
  berth turn fix.1 --items --json | jq -r '.items[].kind'")]
pub(crate) struct TurnArgs {
    /// The turn, as in fix.3; or a session, for its current or latest turn
    #[arg(value_name = "T")]
    pub(crate) turn: String,
    /// Include the messages and actions of the turn, in order (docs/gateway.md has the fields)
    #[arg(long, requires = "json")]
    pub(crate) items: bool,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the answer of a turn that is over.
///
/// The exit code tells how the turn ended: 0 done, 1 failed, 8 cancelled, 9 interrupted, 10 unknown, and 4 while the
/// turn is not over.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth result fix                 the latest turn of fix
  berth result fix.1
  berth result fix.1 > answer.md")]
pub(crate) struct ResultArgs {
    /// The turn, as in fix.3; or a session, for its current or latest turn
    #[arg(value_name = "T")]
    pub(crate) turn: String,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Cancel a queued or running turn.
///
/// Exit 0 means that the turn is over and will not run; 1 that it was over before.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth cancel fix                 the turn that the agent works on
  berth cancel fix.3")]
pub(crate) struct CancelArgs {
    /// The turn, as in fix.3; or a session, for its current or latest turn
    #[arg(value_name = "T")]
    pub(crate) turn: String,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show and change the queue of a session.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth queue fix
  berth queue fix move fix.7 --to 1      next
  berth queue fix edit fix.7 'only the unit tests'
  berth queue fix resume                 go on after a hold or a pause")]
pub(crate) struct QueueArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Option<QueueVerb>,
    /// Print an object
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum QueueVerb {
    /// Withdraw a queued turn
    Drop {
        /// The turn: fix.3, or 3
        #[arg(value_name = "T")]
        turn: String,
    },
    /// Move a queued turn to another place
    Move {
        /// The turn: fix.3, or 3
        #[arg(value_name = "T")]
        turn: String,
        /// The new place in the queue; 1 is next
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        to: u64,
    },
    /// Change the prompt of a queued turn; its place and its key stay
    Edit {
        /// The turn: fix.3, or 3
        #[arg(value_name = "T")]
        turn: String,
        /// The new prompt; `-` for standard input
        #[arg(value_name = "TEXT", required = true)]
        text: Vec<String>,
    },
    /// Let no further turn begin
    Pause,
    /// Let the queue go on after a hold or a pause
    Resume,
}

/// Answer a question of a session's agent.
///
/// Without an answer, prints the question. An answer other than `deny` has to name the question, as RUN:REQUEST: at a
/// terminal berth shows the question and asks first, elsewhere --request or --yes is needed.
#[derive(clap::Args, Debug)]
#[command(override_usage = "berth answer [OPTIONS] [S] [ANSWER]...")]
#[command(after_help = "\
Examples:
  berth show fix                        its question in full, and the options
  berth answer fix allow --request 1:0  question 0 of run 1
  berth answer fix deny 'use mktemp instead'
  berth answer fix 1 3 --request 1:0    several options at once
  berth answer fix --text 'neither: use sqlite' --request 1:0
  berth answer fix allow-always --yes   its only question, unread")]
pub(crate) struct AnswerArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// The answer: allow, deny and a reason, or the ids of the chosen options
    #[arg(value_name = "ANSWER")]
    pub(crate) answer: Vec<String>,
    /// An answer in your own words; with an option that refuses, the reason
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub(crate) text: Option<String>,
    /// The question to answer, as `show` prints it: RUN:REQUEST. For `deny` REQUEST is enough
    #[arg(long, value_name = "ID")]
    pub(crate) request: Option<QuestionId>,
    /// Answer the only open question without showing it first
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print JSON, as `show --json` does
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy a session's conversation into a new session.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth fork fix --name fix-another-way")]
pub(crate) struct ForkArgs {
    /// The session to copy [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// A name for the new session
    #[arg(long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// Print JSON, as `show --json` does, and not only the id
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options for a run of an agent from the table.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct AgentRunArgs {
    /// An agent from the table (`berth agents`) instead of a command; arguments after `--` are for the agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Run the agent's own terminal interface
    #[arg(long, requires = "agent", conflicts_with = "prompt")]
    pub(crate) tui: bool,
    /// Continue the conversation with this id, which is the agent's own
    #[arg(long, value_name = "ID", requires = "agent")]
    pub(crate) resume: Option<String>,
    /// End other programs that write that conversation
    #[arg(long, requires = "resume")]
    pub(crate) take: bool,
    /// The prompt of the first turn
    #[arg(short, long, value_name = "TEXT", requires = "agent")]
    pub(crate) prompt: Option<String>,
    /// Pause the agent after this long idle, or `never`; the next message wakes it
    /// [default: `policy.idle` of the config]
    #[arg(long, value_name = "TIME", value_parser = term, requires = "agent")]
    pub(crate) idle: Option<TimeoutChange>,
    /// End the session for good after this long, or `never` [default: `policy.ttl` of the config]
    #[arg(long, value_name = "TIME", value_parser = term, requires = "agent")]
    pub(crate) ttl: Option<TimeoutChange>,
    /// Reaction of the queue to a turn whose outcome is unknown [default: `policy.on_unknown` of the config]
    #[arg(long, value_name = "ACTION", value_enum, requires = "agent")]
    pub(crate) on_unknown: Option<OnUnknownArg>,
    /// Reaction of the queue to a turn that failed because of the model: usage limit, overload or login
    /// [default: `policy.on_failed` of the config]
    #[arg(long, value_name = "ACTION", value_enum, requires = "agent")]
    pub(crate) on_failed: Option<OnFailedArg>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum OnFailedArg {
    /// Hold the queue until a user resumes it
    #[default]
    Hold,
    /// Go on with the next turn
    Continue,
    /// Send the turn's text again after a back-off
    Retry,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum OnUnknownArg {
    /// Hold the queue until a user resumes it
    #[default]
    Hold,
    /// Go on with the next turn
    Continue,
}
