//! What can be typed. The help texts are the manual.

pub(crate) mod agents;
pub(crate) mod config;
mod editors;
pub(crate) mod find;
pub(crate) mod helper;
pub(crate) mod hosts;
pub(crate) mod life;
pub(crate) mod ls;
pub(crate) mod notify;
pub(crate) mod serve;
mod shell;
pub(crate) mod token;
pub(crate) mod turns;
pub(crate) mod use_session;

use std::path::PathBuf;
use std::time::Duration;

use berth_api::{Code, Problem};
use berth_core::Grant;
use clap::{FromArgMatches, Parser, Subcommand};

pub(crate) use agents::Agents;
pub(crate) use config::Config;
pub(crate) use editors::{Acp, Mcp};
pub(crate) use find::{Export, Format, Grep};
pub(crate) use hosts::{Hosts, HostsAdd, HostsLs, HostsVerb, Proxy, ProxyVerb};
pub(crate) use life::{Archive, Note, Policy, Purge, Restore, Sorting, Tag};
pub(crate) use ls::{Ls, Which};
pub(crate) use serve::{OpenApi, Serve};
pub(crate) use shell::{Completions, Man, Setup, SetupSystemd, SetupVerb};
pub(crate) use turns::{
    AgentOptions, Answer, Cancel, Fork, OnUnknown, Queue, QueueVerb, Send, Turn, TurnResult, Turns,
};

use clap::builder::TypedValueParser;

use crate::config::Color;
pub(crate) use berth_verbs::time::duration;
pub(crate) use notify::{Notify, NotifyLog, NotifyTest, NotifyVerb, occasions};
pub(crate) use token::{Link, Token, TokenLs, TokenNew, TokenRevoke, TokenVerb};
pub(crate) use use_session::Use;

pub(crate) use helper::{Ensure, Helper, HelperLs, HelperShow, HelperStop, HelperVerb, Release};

/// berth keeps AI agent sessions: one writer each, nothing said is lost, every disconnect and
/// crash is survived, and what a session started is cleaned up with it.
#[derive(Parser, Debug)]
#[command(
    name = "berth",
    version,
    mut_subcommands = with_session,
    after_help = "\
S is a session: its name, its id, the first characters (three or more) of its id, or @ for the current one.
Where S is left out: --session S, else $BERTH_SESSION, else the current session of this terminal (`berth use`).
Sessions live in $BERTH_HOME, else $XDG_STATE_HOME/berth, else ~/.local/state/berth.
The config file is $BERTH_CONFIG, else $XDG_CONFIG_HOME/berth/config.toml, else ~/.config/berth/config.toml.

Exit codes: 0 done · 1 refused or failed · 2 usage · 3 not found · 4 held by someone else
            5 keeper unreachable · 6 timed out waiting · 7 needs --yes · 11 not allowed · 70 a bug
            `run` in the foreground, `attach` and `wait --for exit` pass the command's own code through;
            `send --wait`, `wait T` and `result T`: 0 done · 1 failed · 8 cancelled · 9 interrupted · 10 unknown

`berth` alone opens the dashboard on a terminal, and lists the sessions off it.

First steps:  berth demo
              berth run --name fix -- claude      then Ctrl-\\ to leave, `berth attach fix` to return
              berth run --name bot --agent claude then `berth send bot TEXT --wait` from anywhere"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    /// The session, for a command that is about one
    #[arg(long = "session", value_name = "S")]
    pub(crate) meant: Option<String>,
    #[arg(skip)]
    session_misplaced: Option<Problem>,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// What every command understands, before the verb and after it.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Only data and errors: no remarks, no progress
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say what is being done; twice, say more (BERTH_LOG=FILTER chooses)
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Do it on this host, over ssh: one of `berth hosts`, or what ssh calls it
    #[arg(long, value_name = "HOST", global = true)]
    pub(crate) host: Option<String>,
    /// When to use colours: auto, always, never [default: the config's `ui.color`]
    #[arg(long, value_name = "WHEN", value_parser = color(), global = true, hide_possible_values = true)]
    pub(crate) color: Option<Color>,
}

fn color() -> impl clap::builder::TypedValueParser<Value = Color> {
    let named = |text: String| Color::ALL.into_iter().find(|color| color.name() == text);
    clap::builder::PossibleValuesParser::new(Color::ALL.map(Color::name))
        .try_map(move |text| named(text).ok_or("no such word"))
}

/// What a command that is about a session calls it.
const ABOUT_A_SESSION: [&str; 3] = ["session", "sessions", "turn"];
/// The id of --session, before and behind the command.
const MEANT: &str = "meant";
/// Flags that say in their own way what a command is about.
const INSTEAD_OF_A_SESSION: [&str; 7] = ["all", "archived", "last", "none", "older_than", "pid", "port"];

/// Gives --session to the commands that are about a session. Its definition tells, so that none has to be listed;
/// the others refuse it.
fn with_session(verb: clap::Command) -> clap::Command {
    let is_about = |argument: &clap::Arg| ABOUT_A_SESSION.contains(&argument.get_id().as_str());
    if !verb.get_arguments().any(is_about) {
        return verb;
    }
    let help = "The session, in place of the argument";
    verb.arg(clap::Arg::new(MEANT).long("session").value_name("S").help(help).global(true))
}

impl Args {
    /// What was typed.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let found = crate::help::command().try_get_matches().map_err(crate::guess::with_advice)?;
        let mut args = Self::from_arg_matches(&found)?;
        let below = found.subcommand().map(|(verb, found)| (verb, found, found.try_get_one::<String>(MEANT)));
        let nothing = |verb: &str| {
            Problem::new(Code::Usage, format!("--session means nothing to `berth {verb}`"))
                .hint(format!("leave it out; `berth {verb} --help` tells what it takes"))
        };
        match below {
            Some((_, found, Ok(meant))) => {
                args.meant = meant.cloned().or(args.meant);
                args.session_misplaced = args.meant.as_ref().and_then(|_| in_its_place(found));
            }
            Some((verb, _, Err(_))) if args.meant.is_some() => args.session_misplaced = Some(nothing(verb)),
            None if args.meant.is_some() => args.session_misplaced = Some(nothing("ls")),
            Some((_, _, Err(_))) | None => {}
        }
        Ok(args)
    }

    /// Refuses --session where it would mean nothing: whoever gives it wants it to count.
    pub(crate) fn check_session(&self) -> Result<(), Problem> {
        self.session_misplaced.clone().map_or(Ok(()), Err)
    }
}

/// What was typed besides --session that says something else, if anything was.
fn in_its_place(found: &clap::ArgMatches) -> Option<Problem> {
    let is_typed = |id: &&&str| {
        found.try_contains_id(id).is_ok_and(|is_there| is_there)
            && found.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
    };
    let flag = INSTEAD_OF_A_SESSION.iter().find(is_typed)?.replace('_', "-");
    let what = format!("--{flag} and --session do not go together");
    Some(Problem::new(Code::Usage, what).hint("leave one of them out"))
}

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    Run(Box<Run>),
    Resume(Resume),
    Ls(Ls),
    Show(Show),
    Why(Why),
    Ps(Ps),
    Attach(Attach),
    Input(Input),
    Screen(Screen),
    Output(Output),
    Log(Log),
    Grep(Grep),
    Export(Export),
    Stop(Stop),
    Wait(Wait),
    Send(Send),
    Turns(Turns),
    Turn(Turn),
    Result(TurnResult),
    Cancel(Cancel),
    Queue(Queue),
    Answer(Answer),
    Fork(Fork),
    Rename(Rename),
    Use(Use),
    Tag(Tag),
    Note(Note),
    Policy(Policy),
    Archive(Archive),
    Restore(Restore),
    Purge(Purge),
    Helper(Helper),
    Sweep(Sweep),
    Agents(Agents),
    Notify(Notify),
    Config(Config),
    Completions(Completions),
    Man(Man),
    Setup(Setup),
    Serve(Serve),
    Hosts(Hosts),
    Proxy(Proxy),
    Token(Token),
    Link(Link),
    Acp(Acp),
    Mcp(Mcp),
    #[command(name = "openapi")]
    OpenApi(OpenApi),
    Doctor(Doctor),
    /// Show the promise in twenty seconds, on this machine, touching nothing of yours.
    #[command(after_help = "Examples:\n  berth demo")]
    Demo,
}

/// Run a command, or an agent, in a new session.
///
/// With --agent it is one that takes turns (see `berth send`): the id is printed once it does; with --prompt the
/// answer is. With a command, or with --tui: on a terminal you are attached to it; leave with Ctrl-\ and it goes on. Off a terminal the
/// output is streamed and the command's exit code passed through; killing `berth run` does not
/// kill the session. With -d the id is printed alone, once the command really runs.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth run --agent claude --name fix                 then `berth send fix TEXT`
  berth run --agent codex --prompt 'why is it slow?'  prints its answer
  berth run --agent claude --tui                      its own interface
  berth run -- claude                                 any command, attached
  berth run -d --name tests -- cargo test             in the background
  id=$(berth run -d --key nightly-42 -- ./job.sh)     same key, same session
  berth run --replace fix --name fix -- claude        the new one, then no old
  berth run --max-memory 4G --max-procs 500 -- claude  see `berth doctor`
  berth run --grant control --agent claude            it may stop and answer others")]
pub(crate) struct Run {
    /// Do not attach; print the id once the command runs
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// A name for the session
    #[arg(long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// Where to run it [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Set a variable, on top of this environment (kept in the session's record, but for what is called
    /// a key, token, secret or password: that has to be in the environment when the session is resumed)
    #[arg(long = "env", value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// Make this call repeatable: a second `run` with the same key means the same session
    #[arg(long, value_name = "K")]
    pub(crate) key: Option<String>,
    /// End this session, after asking, once the new one runs. With its name as --name, the new one takes that over
    #[arg(long, value_name = "OLD")]
    pub(crate) replace: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) agent: AgentOptions,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) sorting: Sorting,
    /// What to tell people of while nobody looks, over what the config file says: needs-you, finished, failed
    /// (with commas between), or none
    #[arg(long, value_name = "WHAT", value_parser = occasions)]
    pub(crate) notify: Option<berth_core::Notify>,
    /// What is inside of it may ask this much of berth, beyond what every agent may: send, control, admin
    /// (docs/grants.md)
    #[arg(long, value_name = "HOW-FAR", value_parser = grant())]
    pub(crate) grant: Option<berth_api::record::Grant>,
    /// Print what `show --json` prints instead of the id or the output
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments; with --agent, more arguments for the agent
    #[arg(
        required_unless_present = "agent",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<std::ffi::OsString>,
}

fn grant() -> impl clap::builder::TypedValueParser<Value = berth_api::record::Grant> {
    let words = [Grant::Send, Grant::Control, Grant::Admin];
    let named = move |text: String| words.into_iter().find(|grant| grant.word() == text);
    clap::builder::PossibleValuesParser::new(words.map(Grant::word))
        .try_map(move |text| named(text).map(Into::into).ok_or("no such word"))
}

/// What a run may use, all its processes together.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Limits {
    /// The most memory, swap included, as in 512M or 4G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_memory: Option<u64>,
    /// The most processes and threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_procs: Option<u64>,
    /// The most processor time, in cores (1.5) or in hundredths of one (150%)
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub(crate) max_cpu: Option<u64>,
}

impl From<&Limits> for berth_api::record::Limits {
    fn from(limits: &Limits) -> Self {
        Self { memory_bytes: limits.max_memory, processes: limits.max_procs, cpu_percent: limits.max_cpu }
    }
}

/// Start the next run of a session that stopped or was lost.
///
/// The same command, in the same directory, with the same record. If the last keeper died, what
/// it left behind is ended and proven gone first. --last takes the current session of this terminal if it is
/// at rest, else the one that was lost last in this directory, else the one lost last anywhere, else the one
/// that stopped last, here or anywhere; never a command that ended by itself with 0: its work is done.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth resume old                      attached; in a script, streamed
  berth resume old --detach
  berth resume --last                   the one that was interrupted last")]
pub(crate) struct Resume {
    /// The session [default: the current one]
    #[arg(value_name = "S", conflicts_with = "last")]
    pub(crate) session: Option<String>,
    /// The one that was interrupted last
    #[arg(long)]
    pub(crate) last: bool,
    /// Begin a new conversation in the same session: the old one is gone, or not wanted
    #[arg(long)]
    pub(crate) fresh: bool,
    /// End whoever else writes the conversation
    #[arg(long)]
    pub(crate) take: bool,
    /// Attach to it (what happens on a terminal anyway)
    #[arg(long, conflicts_with_all = ["detach", "json"])]
    pub(crate) attach: bool,
    /// Do not attach; print the id once the command runs
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Print what `show --json` prints instead of the id or the output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show everything known about a session.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth show fix
  berth show fix --json | jq -r .state")]
pub(crate) struct Show {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show why a session is said to be in its state, or whose a process is: the evidence, and how old it is.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth why fix
  berth why --pid 4711      whose is it, and what would happen to it")]
pub(crate) struct Why {
    /// The session [default: the current one]
    #[arg(value_name = "S", conflicts_with = "pid")]
    pub(crate) session: Option<String>,
    /// A process instead
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the processes of sessions: memory, processor time, age, and the ports they listen on.
///
/// The keeper is on top, what it keeps below it. Memory is each process's share, so the sum is what the
/// session costs. Secrets on command lines are shown as ***. With --port, whose port that is: exit 3 if
/// nobody listens there.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth ps                                       every session that runs
  berth ps --port 3000                           who has port 3000
  berth ps fix --json | jq '.[0].memory_bytes'")]
pub(crate) struct Ps {
    /// The session [default: all that run]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Who listens on this port, of berth or not
    #[arg(long, value_name = "N", conflicts_with = "session", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// An array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// See a session's terminal and type into it. Ctrl-\ leaves it running.
///
/// One party types, the others watch. If somebody else is typing this is refused (exit 4); watch
/// with --observe, or take over with --take, which turns the other one into an observer.
///
/// An agent that takes turns has no terminal and is talked to: Enter sends what you wrote, Alt-Enter makes a line, Ctrl-C cancels,
/// Ctrl-D leaves. docs/terminal.md has all keys.
///
/// Leaving is exit 0. When the command ends while you are attached, its exit code is passed through
/// (128+N for a signal; 1 if the run was lost).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth attach fix                      Ctrl-\\ leaves it running
  berth attach fix --observe            only watch, while somebody else types
  berth attach fix --take")]
pub(crate) struct Attach {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Only watch
    #[arg(short, long, conflicts_with = "take")]
    pub(crate) observe: bool,
    /// Take over from whoever is typing
    #[arg(short, long)]
    pub(crate) take: bool,
}

/// Type into a session's terminal, from a script.
///
/// Refused (exit 4) while somebody is attached and may type; --take types anyway and turns them
/// into an observer. `-` types what comes on standard input; text that begins with a dash follows `--`.
#[derive(clap::Args, Debug)]
#[command(override_usage = "berth input [OPTIONS] <S> <TEXT>...")]
#[command(after_help = "\
Examples:
  berth input fix --enter 'run the tests again'
  berth input fix $'\\x03'              Ctrl-C
  berth input fix --enter -- --help     text that begins with a dash
  git diff | berth input fix -")]
pub(crate) struct Input {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// Press Enter afterwards
    #[arg(short, long)]
    pub(crate) enter: bool,
    /// Type even though somebody else may
    #[arg(short, long)]
    pub(crate) take: bool,
    /// What to type; `-` for standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
}

/// Print what is on a session's screen now, or was when it ended.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth screen fix
  berth screen fix --ansi | less -R")]
pub(crate) struct Screen {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Plain text (the default)
    #[arg(long, conflicts_with = "ansi")]
    pub(crate) text: bool,
    /// With colours
    #[arg(long)]
    pub(crate) ansi: bool,
}

/// Print a session's raw output, from the beginning or from an offset.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth output tests
  berth output tests --follow | grep error
  berth output tests --from 1000")]
pub(crate) struct Output {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Go on until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Begin at this byte
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    pub(crate) from: u64,
}

/// Print what happened in a session: its journal.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth log fix
  berth log fix --follow --json | jq -r .event")]
pub(crate) struct Log {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Go on until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// One object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Begin at this event
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) from: u64,
}

/// End sessions, and wait until each is proven over.
///
/// Everything a session started is asked to end, then killed after the grace time. Exit 0 means
/// that nothing of it is left. The record stays; `berth resume` starts it again.
///
/// A session that is named is not asked about. Without a name, or with --all, a yes is needed: typed at a
/// terminal, or given with --yes. Without one nothing is done, and the exit is 7.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth stop fix
  berth stop                     the current one, after asking
  berth stop --all --yes         all that run, from a script")]
pub(crate) struct Stop {
    /// The sessions [default: the current one, after asking]
    #[arg(value_name = "S", conflicts_with = "all")]
    pub(crate) sessions: Vec<String>,
    /// All that run, after asking
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// How long to wait before killing
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// Print what `show --json` prints, as an array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Wait for a turn, for an agent, for the end of a run, or for something to appear in its output.
///
/// A turn (fix.3) is waited for until it is over; the exit code tells how it ended, as for `send --wait`. For a
/// session: `idle` (nothing to do; the default where the agent takes turns), `done` (the latest turn is over,
/// exit code as above), `needs-you` (it asks something, or its queue is held), `exit` (the run is over), or
/// `output:REGEX`. For `exit` the command's own code is passed through (128+N for a signal; 1 if the run was
/// lost). For `output:REGEX` the output of the current run is searched from its beginning, without
/// colours. Exit 6 when the time is up.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth wait fix.1                       the exit code says how that turn ended
  berth wait fix --timeout 10m           until it has nothing to do
  berth wait tests --for exit
  berth wait tests --for 'output:test result: .*'")]
pub(crate) struct Wait {
    /// The session, or a turn [default: the current session]
    #[arg(value_name = "S|T")]
    pub(crate) session: Option<String>,
    /// What to wait for: idle, done, needs-you, exit, or output:REGEX
    #[arg(long = "for", value_name = "WHAT", value_parser = wait_for)]
    pub(crate) what: Option<WaitFor>,
    /// Give up after this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print what `show --json` prints
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compare records with reality, and clear up what is proven ours.
///
/// Runs whose keeper died are ended and recorded as lost; groups and files that nobody can be using are
/// removed; sessions at rest for as long as their policy says are archived (`berth policy`). A process that carries a claim of ours without a record is told, with its age, its command and
/// a guess, and left alone. If anything needed to know better cannot be read, nothing is cleared up and
/// the exit is 1. Other commands do this, too, once a minute at most.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth sweep --dry-run
  berth sweep --json | jq '.no_record'")]
pub(crate) struct Sweep {
    /// Only say what would be done
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give a session another name.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "\
Examples:
  berth rename fix login-bug",
    override_usage = "berth rename [OPTIONS] <S> <NAME>"
)]
pub(crate) struct Rename {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// The new name
    pub(crate) name: Option<String>,
}

/// Show what this host offers to berth, what each missing piece costs, and how to get it.
///
/// Everything is tried, and nothing stays of the trying. Exit 0 unless berth cannot work here at all.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth doctor
  berth doctor --json | jq -r '.rows[] | select(.state != \"ok\") | .name'")]
pub(crate) struct Doctor {
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum WaitFor {
    Idle,
    Done,
    NeedsYou,
    Exit,
    Output(regex::bytes::Regex),
}

fn wait_for(text: &str) -> Result<WaitFor, String> {
    match text.split_once(':') {
        None if text == "exit" => Ok(WaitFor::Exit),
        None if text == "idle" => Ok(WaitFor::Idle),
        None if text == "done" => Ok(WaitFor::Done),
        None if text == "needs-you" => Ok(WaitFor::NeedsYou),
        Some(("output", pattern)) => {
            let regex = regex::bytes::RegexBuilder::new(pattern).multi_line(true).build();
            Ok(WaitFor::Output(regex.map_err(|error| error.to_string())?))
        }
        Some(_) | None => Err("wait for idle, done, needs-you, exit, or output:REGEX".to_owned()),
    }
}

/// `512M`, `4G`, `1.5GiB`, or plain bytes; always in powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    const LEAST: f64 = 1024.0 * 1024.0;
    let odd = || format!("`{text}` is no size; write one as 512M or 4G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| odd())?;
    let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return Err(odd()),
    };
    let bytes = number * 1024_f64.powi(power);
    if !bytes.is_finite() || bytes >= i64::MAX as f64 {
        return Err(odd());
    }
    if bytes < LEAST {
        return Err(format!("{text} is less than any program needs; 1M is the least"));
    }
    Ok(bytes as u64)
}

/// `1.5` or `150%`: hundredths of one core.
fn cores(text: &str) -> Result<u64, String> {
    let odd = || format!("`{text}` is no number of cores; write one as 1.5 or 150%");
    let (digits, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 1.0),
        None => (text, 100.0),
    };
    let percent = digits.parse::<f64>().map_err(|_| odd())? * scale;
    if (1.0..=1_000_000.0).contains(&percent) { Ok(percent as u64) } else { Err(odd()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_arguments_holds_together() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn sizes_and_cores_are_read_as_people_write_them() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("1.5GiB"), Ok(3 << 29));
        assert_eq!(size("2097152"), Ok(2 << 20));
        for bad in ["", "G", "-1G", "4X", "12", "nan", "inf", "99999999T"] {
            assert!(size(bad).is_err(), "{bad} was taken for a size");
        }
        assert_eq!((cores("1.5"), cores("150%"), cores("0.5")), (Ok(150), Ok(150), Ok(50)));
        for bad in ["", "%", "0", "-1", "x", "nan", "1e9"] {
            assert!(cores(bad).is_err(), "{bad} was taken for cores");
        }
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 24 * 3600)));
        assert_eq!(duration("2w"), duration("14d"));
        for bad in ["", "s", "-1s", "5 parsecs", "nan", "inf"] {
            assert!(duration(bad).is_err(), "{bad} was taken for a time");
        }
    }
}
