//! Command-line arguments, in one file for each group of commands.
//!
//! Promise: the doc comments of arguments are the help texts and the manual pages, so each is written for users.
//! Not here: carrying a command out (see `cmd`), the first help page (see `help`).
//! Start with [`CliArgs`] and [`CliVerb`].

pub(crate) mod agents;
pub(crate) mod config;
mod doctor;
mod editors;
pub(crate) mod foreign;
pub(crate) mod helper;
mod hook;
pub(crate) mod hosts;
mod inspect;
pub(crate) mod lifecycle;
pub(crate) mod ls;
pub(crate) mod notify;
mod run;
pub(crate) mod search;
pub(crate) mod serve;
mod session_flag;
mod shell;
mod terminal;
pub(crate) mod token;
mod transcript;
pub(crate) mod turns;
pub(crate) mod use_session;
mod wait;

use berth_api::Problem;
use clap::builder::TypedValueParser;
use clap::{Args as _, Command, FromArgMatches, Parser, Subcommand};

pub(crate) use agents::AgentsArgs;
pub(crate) use berth_api::time::parse_duration;
pub(crate) use config::ConfigArgs;
pub(crate) use doctor::{DoctorArgs, SweepArgs};
pub(crate) use editors::{AcpArgs, McpArgs};
pub(crate) use foreign::{AdoptArgs, ImportArgs, TranscriptLsArgs, TranscriptShowArgs};
pub(crate) use helper::{
    HelperArgs, HelperEnsureArgs, HelperLsArgs, HelperReleaseArgs, HelperShowArgs, HelperStopArgs, HelperVerb,
};
pub(crate) use hook::HookArgs;
pub(crate) use hosts::{HostsAddArgs, HostsArgs, HostsLsArgs, HostsVerb, ProxyArgs, ProxyVerb};
pub(crate) use inspect::{LogArgs, PsArgs, ShowArgs, WhyArgs};
pub(crate) use lifecycle::{
    ArchiveArgs, HistoryArgs, NoteArgs, PolicyArgs, PurgeArgs, RenameArgs, RestoreArgs, SessionLabelArgs,
    StopArgs, TagArgs,
};
pub(crate) use ls::{LsArgs, SessionFilterArgs};
pub(crate) use notify::{CONFIGURED, NotifyArgs, NotifyLogArgs, NotifyTestArgs, NotifyVerb, occasions};
pub(crate) use run::{ResumeArgs, RunArgs};
pub(crate) use search::{ExportArgs, ExportFormatArg, GrepArgs};
pub(crate) use serve::{OpenApiArgs, ServeArgs};
pub(crate) use shell::{
    CompletionsArgs, DemoArgs, ManArgs, SetupArgs, SetupClaudeArgs, SetupCodexArgs, SetupModeArgs,
    SetupSystemdArgs, SetupVerb,
};
pub(crate) use terminal::{AttachArgs, InputArgs, InterfaceArgs, LeaveKeyArgs, OutputArgs, ScreenArgs};
pub(crate) use token::{
    AuditArgs, LinkArgs, TokenArgs, TokenLsArgs, TokenNewArgs, TokenRevokeArgs, TokenVerb,
};
pub(crate) use transcript::{
    TranscriptArgs, TranscriptCheckArgs, TranscriptRepairArgs, TranscriptTreeArgs, TranscriptVerb,
};
pub(crate) use turns::{
    AgentRunArgs, AnswerArgs, CancelArgs, ForkArgs, OnFailedArg, OnUnknownArg, QueueArgs, QueueVerb,
    ResultArgs, SendArgs, TurnArgs, TurnsArgs,
};
pub(crate) use use_session::UseArgs;
pub(crate) use wait::{WaitArgs, WaitForArg};

use crate::config::ColorMode;
pub(crate) use session_flag::named;
use session_flag::{SESSION_FLAG_ID, conflicting_argument, with_session};

/// berth keeps AI agent sessions: one writer each, nothing said is lost, every disconnect and
/// crash is survived, and what a session started is cleaned up with it.
#[derive(Parser, Debug)]
#[command(
    name = "berth",
    version,
    disable_help_subcommand = true,
    mut_subcommands = with_session,
    after_help = "\
S names a session: its name, its id, three or more first characters of the id, or @ (current).
On another host: HOST:S, as `berth ls --hosts` shows it.
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
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) before: LeadingArgs,
    #[arg(skip)]
    session_misplaced: Option<Problem>,
    /// Arguments that name sessions, as typed and in order.
    #[arg(skip)]
    pub(crate) named: Vec<String>,
    #[command(subcommand)]
    pub(crate) verb: Option<CliVerb>,
}

/// Options before the verb.
#[derive(clap::Args, Debug)]
pub(crate) struct LeadingArgs {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// The session of the command
    #[arg(long = "session", value_name = "S")]
    pub(crate) meant: Option<String>,
}

/// Options that every command accepts, before and after the verb.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct GlobalArgs {
    /// Print only data and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print what berth does; twice, print more (BERTH_LOG=FILTER chooses)
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Run the command on this host, over ssh: one of `berth hosts`, or an ssh name
    #[arg(long, value_name = "HOST", global = true)]
    pub(crate) host: Option<String>,
    /// Name of this host on the calling host; set by the calling berth, and used in hints
    #[arg(long, value_name = "HOST", global = true, hide = true)]
    pub(crate) called: Option<String>,
    /// When to use colours: auto, always, never [default: the config's `ui.color`]
    #[arg(long, value_name = "WHEN", value_parser = color(), global = true, hide_possible_values = true)]
    pub(crate) color: Option<ColorMode>,
}

fn color() -> impl clap::builder::TypedValueParser<Value = ColorMode> {
    let named = |text: String| ColorMode::ALL.into_iter().find(|color| color.name() == text);
    clap::builder::PossibleValuesParser::new(ColorMode::ALL.map(ColorMode::name))
        .try_map(move |text| named(text).ok_or("no such word"))
}

impl CliArgs {
    /// Parses the arguments of this process.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let words: Vec<_> = std::env::args_os().skip(1).collect();
        let command = if crate::help::is_all_typed(&words) {
            crate::help::command_with_groups()
        } else {
            words.first().and_then(|word| only(word.to_str()?)).unwrap_or_else(crate::help::command)
        };
        let advised = |error| {
            let known = crate::help::command();
            let is_verb = |word: &&str| known.find_subcommand(word).is_some();
            let verb = words.iter().filter_map(|word| word.to_str()).find(is_verb);
            crate::verb_hints::with_advice(error, verb)
        };
        let found = command.try_get_matches().map_err(advised)?;
        if let Some(page) = crate::help::asked(&found) {
            return Err(advised(page));
        }
        let mut args = Self::from_arg_matches(&found)?;
        args.named = named(&found);
        let below = found
            .subcommand()
            .map(|(verb, found)| (verb, found, found.try_get_one::<String>(SESSION_FLAG_ID)));
        let nothing = |verb: &str| {
            Problem::usage(format!("`berth {verb}` does not take --session"))
                .hint(format!("leave --session out; `berth {verb} --help` lists its options"))
        };
        match below {
            Some((_, found, Ok(meant))) => {
                args.before.meant = meant.cloned().or(args.before.meant);
                args.session_misplaced = args.before.meant.as_ref().and_then(|_| conflicting_argument(found));
            }
            Some((verb, _, Err(_))) if args.before.meant.is_some() => {
                args.session_misplaced = Some(nothing(verb))
            }
            None if args.before.meant.is_some() => args.session_misplaced = Some(nothing("ls")),
            Some((_, _, Err(_))) | None => {}
        }
        Ok(args)
    }

    /// Rejects --session for a command that would ignore it: the caller expects it to have an effect.
    pub(crate) fn check_session(&self) -> Result<(), Problem> {
        self.session_misplaced.clone().map_or(Ok(()), Err)
    }
}

/// The definition of berth with this one verb.
fn only(verb: &str) -> Option<Command> {
    let verb = with_session(CliVerb::definition(verb)?);
    let whole = Command::new("berth").version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    Some(LeadingArgs::augment_args(whole).subcommand(verb))
}

/// Makes [`CliVerb`], and a way to define one verb alone. Defining every verb to parse one of them takes a good part of
/// the run time of a short command.
macro_rules! verbs {
    ($($(#[$attribute:meta])* $name:literal $variant:ident($arguments:ty),)*) => {
        /// A command with its arguments.
        #[derive(Subcommand, Debug)]
        pub(crate) enum CliVerb {
            $($(#[$attribute])* #[command(name = $name)] $variant($arguments),)*
        }

        impl CliVerb {
            /// The definition of the verb with this name; `None` for an unknown verb.
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
    "run" Run(Box<RunArgs>),
    "resume" Resume(ResumeArgs),
    "ls" Ls(LsArgs),
    "show" Show(ShowArgs),
    "why" Why(WhyArgs),
    "ps" Ps(PsArgs),
    "attach" Attach(AttachArgs),
    "input" Input(InputArgs),
    "screen" Screen(ScreenArgs),
    "output" Output(OutputArgs),
    "log" Log(LogArgs),
    "grep" Grep(GrepArgs),
    "export" Export(ExportArgs),
    "stop" Stop(StopArgs),
    "wait" Wait(WaitArgs),
    "send" Send(SendArgs),
    "turns" Turns(TurnsArgs),
    "turn" Turn(TurnArgs),
    "result" Result(ResultArgs),
    "cancel" Cancel(CancelArgs),
    "queue" Queue(QueueArgs),
    "answer" Answer(AnswerArgs),
    "fork" Fork(ForkArgs),
    "adopt" Adopt(AdoptArgs),
    "import" Import(ImportArgs),
    "rename" Rename(RenameArgs),
    "use" Use(UseArgs),
    "tag" Tag(TagArgs),
    "note" Note(NoteArgs),
    "policy" Policy(PolicyArgs),
    "archive" Archive(ArchiveArgs),
    "restore" Restore(RestoreArgs),
    "history" History(HistoryArgs),
    "purge" Purge(PurgeArgs),
    "helper" Helper(HelperArgs),
    "sweep" Sweep(SweepArgs),
    "agents" Agents(AgentsArgs),
    "notify" Notify(NotifyArgs),
    "config" Config(ConfigArgs),
    "completions" Completions(CompletionsArgs),
    "man" Man(ManArgs),
    "setup" Setup(SetupArgs),
    #[command(hide = true)]
    "hook" Hook(HookArgs),
    "serve" Serve(ServeArgs),
    "hosts" Hosts(HostsArgs),
    "proxy" Proxy(ProxyArgs),
    "token" Token(TokenArgs),
    "transcript" Transcript(TranscriptArgs),
    "link" Link(LinkArgs),
    "audit" Audit(AuditArgs),
    "acp" Acp(AcpArgs),
    "mcp" Mcp(McpArgs),
    "openapi" OpenApi(OpenApiArgs),
    "doctor" Doctor(DoctorArgs),
    "demo" Demo(DemoArgs),
}

#[cfg(test)]
mod api_parity;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_arguments_holds_together() {
        <CliArgs as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_verb_that_is_defined_alone_is_the_same_as_among_all_others() {
        let mut whole = <CliArgs as clap::CommandFactory>::command();
        whole.build();
        for verb in whole.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
            let name = verb.get_name().to_owned();
            let mut alone = only(&name).unwrap_or_else(|| panic!("`{name}` is not known alone"));
            alone.build();
            let alone = alone.find_subcommand_mut(&name).expect("the verb is defined");
            assert_eq!(alone.render_long_help().to_string(), verb.render_long_help().to_string());
            let options = |verb: &Command| format!("{:?}", verb.get_arguments().collect::<Vec<_>>());
            assert_eq!(options(alone), options(verb), "{name}");
        }
    }
}
