//! What can be typed about turns.

use clap::ValueEnum;

use berth_api::life::Term;
use berth_api::turn::NewTurn;

use super::life::term;
use crate::replies::QuestionId;

/// Send a prompt to a session's agent.
///
/// Prints the turn's id once the turn is on disk; with --wait the answer, as it comes. Turns are given to the agent in
/// the order they were accepted, one at a time, each once. A session whose agent was paused, or whose keeper died, is
/// started again for it, in its conversation, with the variables of this environment.
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
  4 it waits and cannot begin by itself · 6 not begun within --max-wait")]
pub(crate) struct Send {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// The prompt; `-` for standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    #[command(flatten)]
    pub(crate) turn: NewTurn,
    /// Add it to the turn that is running
    #[arg(long, conflicts_with = "interrupt")]
    pub(crate) steer: bool,
    /// Interrupt the turn that is running for it
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
  berth turns fix
  berth turns fix --json | jq -r '.[] | select(.state == \"failed\") | .turn'")]
pub(crate) struct Turns {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// An array of objects, as `turn --json` prints them
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
pub(crate) struct Turn {
    /// The turn, as in fix.3; or a session, for its current or latest turn
    #[arg(value_name = "T")]
    pub(crate) turn: String,
    /// With what was said and done in it, one after the other (docs/gateway.md has the fields)
    #[arg(long, requires = "json")]
    pub(crate) items: bool,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the answer of a turn that is over.
///
/// The exit code tells how it ended: 0 done, 1 failed, 8 cancelled, 9 interrupted, 10 unknown, and 4 while it is not
/// over.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth result fix                 its latest turn
  berth result fix.1
  berth result fix.1 > answer.md")]
pub(crate) struct TurnResult {
    /// The turn, as in fix.3; or a session, for its current or latest turn
    #[arg(value_name = "T")]
    pub(crate) turn: String,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Cancel a queued or running turn.
///
/// Exit 0 means that it is over and will not run; 1 that it was over before.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth cancel fix                 the turn that its agent has
  berth cancel fix.3")]
pub(crate) struct Cancel {
    /// The turn, as in fix.3; or a session, for its current or latest turn
    #[arg(value_name = "T")]
    pub(crate) turn: String,
    /// As an object
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
  berth queue fix resume                 go on, whatever held it")]
pub(crate) struct Queue {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Option<QueueVerb>,
    /// As an object
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum QueueVerb {
    /// Withdraw a turn that waits
    Drop {
        /// The turn: fix.3, or 3
        #[arg(value_name = "T")]
        turn: String,
    },
    /// Put a turn that waits at another place
    Move {
        /// The turn: fix.3, or 3
        #[arg(value_name = "T")]
        turn: String,
        /// Its new place; 1 is next
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        to: u64,
    },
    /// Change the prompt of a turn that waits; its place and its key stay
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
    /// Let the queue go on, whatever held it
    Resume,
}

/// Answer a question of a session's agent.
///
/// Without an answer it prints the question. An answer other than `deny` needs to name the question, as RUN:REQUEST:
/// at a terminal berth shows it and asks first, elsewhere --request or --yes is needed.
#[derive(clap::Args, Debug)]
#[command(override_usage = "berth answer [OPTIONS] [S] [ANSWER]...")]
#[command(after_help = "\
Examples:
  berth show fix                        what it asks, in full, and the options
  berth answer fix allow --request 1:0  that question, of that run
  berth answer fix deny 'use mktemp instead'
  berth answer fix 1 3 --request 1:0    several options at once
  berth answer fix --text 'neither: use sqlite' --request 1:0
  berth answer fix allow-always --yes   whatever its only question is")]
pub(crate) struct Answer {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// allow, deny and a reason, or the ids of the chosen options
    #[arg(value_name = "ANSWER")]
    pub(crate) answer: Vec<String>,
    /// An answer in your own words; with an option that refuses, the reason
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub(crate) text: Option<String>,
    /// The question that is answered, as `show` prints it: RUN:REQUEST. For `deny` REQUEST is enough
    #[arg(long, value_name = "ID")]
    pub(crate) request: Option<QuestionId>,
    /// Answer the only question there is, whatever it is
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print what `show --json` prints
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy a session's conversation into a new session.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth fork fix --name fix-another-way")]
pub(crate) struct Fork {
    /// The session to copy [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// A name for the new session
    #[arg(long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// Print what `show --json` prints instead of the id
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a run of an agent from the table is given.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct AgentOptions {
    /// An agent from the table (`berth agents`) instead of a command; what follows `--` is for it
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The agent's own terminal interface
    #[arg(long, requires = "agent", conflicts_with = "prompt")]
    pub(crate) tui: bool,
    /// Go on with this conversation: the agent's own id of it
    #[arg(long, value_name = "ID", requires = "agent")]
    pub(crate) resume: Option<String>,
    /// End other programs that write that conversation
    #[arg(long, requires = "resume")]
    pub(crate) take: bool,
    /// The first turn
    #[arg(short, long, value_name = "TEXT", requires = "agent")]
    pub(crate) prompt: Option<String>,
    /// Pause the agent after this long idle, or `never`; the next message wakes it
    /// [default: `policy.idle` of the config]
    #[arg(long, value_name = "TIME", value_parser = term, requires = "agent")]
    pub(crate) idle: Option<Term>,
    /// End the session for good after this long, or `never` [default: `policy.ttl` of the config]
    #[arg(long, value_name = "TIME", value_parser = term, requires = "agent")]
    pub(crate) ttl: Option<Term>,
    /// What the queue does after a turn whose end is unknown [default: `policy.on_unknown` of the config]
    #[arg(long, value_name = "WHAT", value_enum, requires = "agent")]
    pub(crate) on_unknown: Option<OnUnknown>,
    /// What the queue does after a turn that failed because of the model: usage limit, overload or login
    /// [default: `policy.on_failed` of the config]
    #[arg(long, value_name = "WHAT", value_enum, requires = "agent")]
    pub(crate) on_failed: Option<OnFailed>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum OnFailed {
    /// Wait for a person
    #[default]
    Hold,
    /// Go on
    Continue,
    /// Send the turn's text again after a back-off
    Retry,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum OnUnknown {
    /// Wait for a person
    #[default]
    Hold,
    /// Go on
    Continue,
}
