//! What can be typed, in a file for each kind of thing. The help texts are the manual.
//!
//! Start with [`Args`] and [`Verb`].

pub(crate) mod agents;
pub(crate) mod config;
mod doctor;
mod editors;
pub(crate) mod find;
pub(crate) mod foreign;
pub(crate) mod helper;
mod hook;
pub(crate) mod hosts;
pub(crate) mod life;
mod look;
pub(crate) mod ls;
mod meant;
pub(crate) mod notify;
mod run;
pub(crate) mod serve;
mod shell;
mod terminal;
pub(crate) mod token;
mod transcript;
pub(crate) mod turns;
pub(crate) mod use_session;
mod wait;

use berth_api::{Code, Problem};
use clap::builder::TypedValueParser;
use clap::{Args as _, Command, FromArgMatches, Parser, Subcommand};

pub(crate) use agents::Agents;
pub(crate) use berth_api::time::duration;
pub(crate) use config::Config;
pub(crate) use doctor::{Doctor, Sweep};
pub(crate) use editors::{Acp, Mcp};
pub(crate) use find::{Export, Format, Grep};
pub(crate) use foreign::{Adopt, Import, TranscriptLs, TranscriptShow};
pub(crate) use helper::{Ensure, Helper, HelperLs, HelperShow, HelperStop, HelperVerb, Release};
pub(crate) use hook::Hook;
pub(crate) use hosts::{Hosts, HostsAdd, HostsLs, HostsVerb, Proxy, ProxyVerb};
pub(crate) use life::{Archive, History, Note, Policy, Purge, Rename, Restore, Sorting, Stop, Tag};
pub(crate) use look::{Log, Ps, Show, Why};
pub(crate) use ls::{Ls, Which};
pub(crate) use notify::{CONFIGURED, Notify, NotifyLog, NotifyTest, NotifyVerb, occasions};
pub(crate) use run::{Resume, Run};
pub(crate) use serve::{OpenApi, Serve};
pub(crate) use shell::{
    Completions, Demo, Man, Setup, SetupClaude, SetupCodex, SetupHow, SetupSystemd, SetupVerb,
};
pub(crate) use terminal::{Attach, Input, Leave, Output, Screen, Switch};
pub(crate) use token::{Audit, Link, Token, TokenLs, TokenNew, TokenRevoke, TokenVerb};
pub(crate) use transcript::{Transcript, TranscriptCheck, TranscriptRepair, TranscriptTree, TranscriptVerb};
pub(crate) use turns::{
    AgentOptions, Answer, Cancel, Fork, OnFailed, OnUnknown, Queue, QueueVerb, Send, Turn, TurnResult, Turns,
};
pub(crate) use use_session::Use;
pub(crate) use wait::{Wait, WaitFor};

use crate::config::Color;
pub(crate) use meant::named;
use meant::{MEANT, in_its_place, with_session};

/// berth keeps AI agent sessions: one writer each, nothing said is lost, every disconnect and
/// crash is survived, and what a session started is cleaned up with it.
#[derive(Parser, Debug)]
#[command(
    name = "berth",
    version,
    disable_help_subcommand = true,
    mut_subcommands = with_session,
    after_help = "\
S is a session: its name, its id, the first characters (three or more) of its id, or @ for the current one;
one of another host is HOST:S, as `berth ls --hosts` shows it.
Where S is left out: --session S, else $BERTH_SESSION, else the current session of this terminal (`berth use`).
Sessions live in $BERTH_HOME, else $XDG_STATE_HOME/berth, else ~/.local/state/berth.
The config file is $BERTH_CONFIG, else $XDG_CONFIG_HOME/berth/config.toml, else ~/.config/berth/config.toml.

Exit codes: 0 done · 1 refused or failed · 2 usage · 3 not found · 4 held by another client
            5 keeper unreachable · 6 timed out waiting · 7 needs --yes · 11 not allowed · 70 a bug
            `run` in the foreground, `attach` and `wait --for exit` pass the command's own code through;
            `send --wait`, `wait T` and `result T`: 0 done · 1 failed · 8 cancelled · 9 interrupted · 10 unknown
            `transcript check` and `transcript repair`: 12 something is broken

`berth` alone opens the dashboard on a terminal, and lists the sessions off it.

First steps:  berth demo
              berth run --name fix -- claude      then Ctrl-\\ to leave, `berth attach fix` to return
              berth run --name bot --agent claude then `berth send bot TEXT --wait` from anywhere"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) before: Before,
    #[arg(skip)]
    session_misplaced: Option<Problem>,
    /// What was typed where a session is meant.
    #[arg(skip)]
    pub(crate) named: Vec<String>,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// What stands before the verb.
#[derive(clap::Args, Debug)]
pub(crate) struct Before {
    #[command(flatten)]
    pub(crate) global: Global,
    /// The session of the command
    #[arg(long = "session", value_name = "S")]
    pub(crate) meant: Option<String>,
}

/// What every command understands, before the verb and after it.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print only data and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print what berth does; twice, print more (BERTH_LOG=FILTER chooses)
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Run the command on this host, over ssh: one of `berth hosts`, or an ssh name
    #[arg(long, value_name = "HOST", global = true)]
    pub(crate) host: Option<String>,
    /// What whoever asks calls this host: another berth says it, for the hints it gives them
    #[arg(long, value_name = "HOST", global = true, hide = true)]
    pub(crate) called: Option<String>,
    /// When to use colours: auto, always, never [default: the config's `ui.color`]
    #[arg(long, value_name = "WHEN", value_parser = color(), global = true, hide_possible_values = true)]
    pub(crate) color: Option<Color>,
}

fn color() -> impl clap::builder::TypedValueParser<Value = Color> {
    let named = |text: String| Color::ALL.into_iter().find(|color| color.name() == text);
    clap::builder::PossibleValuesParser::new(Color::ALL.map(Color::name))
        .try_map(move |text| named(text).ok_or("no such word"))
}

impl Args {
    /// What was typed.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let words: Vec<_> = std::env::args_os().skip(1).collect();
        let command = if crate::help::is_all_typed(&words) {
            crate::help::command_with_groups()
        } else {
            words.first().and_then(|word| only(word.to_str()?)).unwrap_or_else(crate::help::command)
        };
        let found = command.try_get_matches().map_err(crate::guess::with_advice)?;
        if let Some(page) = crate::help::asked(&found) {
            return Err(crate::guess::with_advice(page));
        }
        let mut args = Self::from_arg_matches(&found)?;
        args.named = named(&found);
        let below = found.subcommand().map(|(verb, found)| (verb, found, found.try_get_one::<String>(MEANT)));
        let nothing = |verb: &str| {
            Problem::new(Code::Usage, format!("--session means nothing to `berth {verb}`"))
                .hint(format!("leave it out; `berth {verb} --help` tells what it takes"))
        };
        match below {
            Some((_, found, Ok(meant))) => {
                args.before.meant = meant.cloned().or(args.before.meant);
                args.session_misplaced = args.before.meant.as_ref().and_then(|_| in_its_place(found));
            }
            Some((verb, _, Err(_))) if args.before.meant.is_some() => {
                args.session_misplaced = Some(nothing(verb))
            }
            None if args.before.meant.is_some() => args.session_misplaced = Some(nothing("ls")),
            Some((_, _, Err(_))) | None => {}
        }
        Ok(args)
    }

    /// Refuses --session where it would mean nothing: whoever gives it wants it to count.
    pub(crate) fn check_session(&self) -> Result<(), Problem> {
        self.session_misplaced.clone().map_or(Ok(()), Err)
    }
}

/// The command with this verb alone.
fn only(verb: &str) -> Option<Command> {
    let verb = with_session(Verb::definition(verb)?);
    let whole = Command::new("berth").version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    Some(Before::augment_args(whole).subcommand(verb))
}

/// Makes [`Verb`], and a way to define one verb alone: to define all of them for one that was typed is a good part of
/// what a short command takes.
macro_rules! verbs {
    ($($(#[$attribute:meta])* $name:literal $variant:ident($arguments:ty),)*) => {
        /// What can be done.
        #[derive(Subcommand, Debug)]
        pub(crate) enum Verb {
            $($(#[$attribute])* #[command(name = $name)] $variant($arguments),)*
        }

        impl Verb {
            /// How the verb of this name is typed.
            fn definition(name: &str) -> Option<Command> {
                match name {
                    $($name => Some(<$arguments as clap::Args>::augment_args(Command::new($name))),)*
                    _ => None,
                }
            }
        }
    };
}

verbs! {
    "run" Run(Box<Run>),
    "resume" Resume(Resume),
    "ls" Ls(Ls),
    "show" Show(Show),
    "why" Why(Why),
    "ps" Ps(Ps),
    "attach" Attach(Attach),
    "input" Input(Input),
    "screen" Screen(Screen),
    "output" Output(Output),
    "log" Log(Log),
    "grep" Grep(Grep),
    "export" Export(Export),
    "stop" Stop(Stop),
    "wait" Wait(Wait),
    "send" Send(Send),
    "turns" Turns(Turns),
    "turn" Turn(Turn),
    "result" Result(TurnResult),
    "cancel" Cancel(Cancel),
    "queue" Queue(Queue),
    "answer" Answer(Answer),
    "fork" Fork(Fork),
    "adopt" Adopt(Adopt),
    "import" Import(Import),
    "rename" Rename(Rename),
    "use" Use(Use),
    "tag" Tag(Tag),
    "note" Note(Note),
    "policy" Policy(Policy),
    "archive" Archive(Archive),
    "restore" Restore(Restore),
    "history" History(History),
    "purge" Purge(Purge),
    "helper" Helper(Helper),
    "sweep" Sweep(Sweep),
    "agents" Agents(Agents),
    "notify" Notify(Notify),
    "config" Config(Config),
    "completions" Completions(Completions),
    "man" Man(Man),
    "setup" Setup(Setup),
    #[command(hide = true)]
    "hook" Hook(Hook),
    "serve" Serve(Serve),
    "hosts" Hosts(Hosts),
    "proxy" Proxy(Proxy),
    "token" Token(Token),
    "transcript" Transcript(Transcript),
    "link" Link(Link),
    "audit" Audit(Audit),
    "acp" Acp(Acp),
    "mcp" Mcp(Mcp),
    "openapi" OpenApi(OpenApi),
    "doctor" Doctor(Doctor),
    "demo" Demo(Demo),
}

#[cfg(test)]
mod parity;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_arguments_holds_together() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_verb_that_is_defined_alone_is_the_same_as_among_all_others() {
        let mut whole = <Args as clap::CommandFactory>::command();
        whole.build();
        for verb in whole.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
            let name = verb.get_name().to_owned();
            let mut alone = only(&name).unwrap_or_else(|| panic!("`{name}` is not known alone"));
            alone.build();
            let alone = alone.find_subcommand_mut(&name).expect("it is the only one");
            assert_eq!(alone.render_long_help().to_string(), verb.render_long_help().to_string());
            let options = |verb: &Command| format!("{:?}", verb.get_arguments().collect::<Vec<_>>());
            assert_eq!(options(alone), options(verb), "{name}");
        }
    }
}
