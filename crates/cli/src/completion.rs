//! Completions: what a shell offers at Tab.
//!
//! Promise: offers come from the state directory and the config: sessions, turns, agents, helpers and tags that exist.
//! Completion creates, asks and starts nothing. On any error it offers nothing and prints nothing. An argument is
//! completed by its name in the help (`S` is a session), so a new command needs no code here.
//! Not here: the script of a shell (clap has it; see `cmd/completions`).
//! Start with [`command`].

use std::ffi::OsStr;

use berth_api::{SessionState, SessionStatus};
use berth_store::{StateDir, session_status};
use clap::{Arg, Command};
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};

use crate::agents::AgentTable;
use crate::config::registry;

/// The variable with which a shell's completion script calls berth.
pub(crate) const VARIABLE: &str = "BERTH_COMPLETE";
/// How many of a session's turns are offered: the latest.
const TURNS: u64 = 20;

/// Answers a completion request of a shell. False if there is none.
pub(crate) fn answered() -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let here = std::env::current_dir().ok();
    let asked = clap_complete::CompleteEnv::with_factory(command).var(VARIABLE);
    // An error would be printed into the line that the user types.
    asked.try_complete(std::env::args_os(), here.as_deref()).unwrap_or(true)
}

/// The definitions, with what completes each argument.
fn command() -> Command {
    with_candidates(crate::help::command(), "")
}

fn with_candidates(command: Command, verb: &str) -> Command {
    let path = verb.to_owned();
    let command = command.mut_args(|arg| completed(arg, &path));
    command.mut_subcommands(|inner| {
        let name = inner.get_name().to_owned();
        let path = if path.is_empty() { name } else { format!("{path} {name}") };
        with_candidates(inner, &path)
    })
}

fn completed(arg: Arg, verb: &str) -> Arg {
    let called = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let verb = verb.to_owned();
    match (called.as_deref(), arg.get_id().as_str()) {
        (Some("S" | "OLD"), _) => arg.add(ArgValueCandidates::new(move || sessions(&verb))),
        (Some("TAG"), _) | (_, "tag") => arg.add(ArgValueCandidates::new(tags)),
        (Some("T"), _) => arg.add(ArgValueCompleter::new(turns)),
        (Some("S|T"), _) => arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            let has_dot = current.to_str().is_some_and(|current| current.contains('.'));
            if has_dot { turns(current) } else { sessions(&verb) }
        })),
        (_, "agent") => arg.add(ArgValueCandidates::new(agents)),
        (_, "name") if verb == "agents" => arg.add(ArgValueCandidates::new(agents)),
        (_, "command") if verb == "help" => arg.add(ArgValueCandidates::new(commands)),
        (_, "explain") => arg.add(ArgValueCandidates::new(keys)),
        (_, "what") if verb == "wait" => arg.add(ArgValueCandidates::new(|| {
            ["idle", "done", "needs-you", "exit", "output:"].map(CompletionCandidate::new).into()
        })),
        // `ensure` may create a helper, but it names an existing one by this argument as well.
        (_, "name" | "names" | "session") if verb.starts_with("helper ") => {
            arg.add(ArgValueCandidates::new(helpers))
        }
        (_, _) => arg,
    }
}

/// Commands that have a help page.
fn commands() -> Vec<CompletionCandidate> {
    let whole = crate::help::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set());
    shown
        .map(|command| CompletionCandidate::new(command.get_name()).help(command.get_about().cloned()))
        .collect()
}

/// All sessions or helpers of a state directory; reads only, and repairs nothing.
fn known(folder: impl Fn(StateDir) -> Option<StateDir>) -> Vec<SessionStatus> {
    let root = StateDir::place().ok().filter(|root| StateDir::at(root.clone()).check_readable().is_ok());
    let Some(home) = root.and_then(|root| StateDir::open(root).ok()).and_then(folder) else {
        return Vec::new();
    };
    let ids = home.session_ids().unwrap_or_default();
    let mut all: Vec<SessionStatus> =
        ids.iter().filter_map(|id| session_status::status(&home, id).ok()).collect();
    all.sort_by_key(|status| std::cmp::Reverse(status.last_activity_at));
    all
}

fn sessions(verb: &str) -> Vec<CompletionCandidate> {
    let mut offered = Vec::new();
    for status in known(Some).into_iter().filter(|status| fits(verb, status)) {
        let command = crate::print::first_words(&crate::print::command_line(&status.what.command, 40), 40);
        let help = format!("{}, {command}", status.state);
        let candidate = |value: &str| CompletionCandidate::new(value).help(Some(help.clone().into()));
        offered.push(candidate(status.handle()));
        // The id completes too if its first characters are typed, although people use the name.
        if status.name.is_some() {
            offered.push(candidate(&status.id).hide(true));
        }
    }
    offered
}

/// True if a command can do something with a session.
fn fits(verb: &str, status: &SessionStatus) -> bool {
    let is_over = status.state.is_final();
    let is_archived = status.state == SessionState::Archived;
    match verb {
        "stop" | "attach" | "input" => !is_over,
        "resume" => is_over || status.keeper_pid.is_none(),
        "send" | "queue" | "turns" | "answer" | "fork" => status.turns.is_some() && !is_archived,
        "restore" => is_archived,
        "archive" => !is_archived,
        _ => true,
    }
}

fn turns(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_str().unwrap_or_default();
    let mut offered = Vec::new();
    for status in known(Some) {
        let total = status.turns.as_ref().map_or(0, |turns| turns.total);
        let first = if current.contains('.') { 1 } else { total.saturating_sub(TURNS - 1).max(1) };
        let ids = (first..=total).rev().map(|number| format!("{}.{number}", status.handle()));
        offered.extend(ids.filter(|id| id.starts_with(current)).map(CompletionCandidate::new));
    }
    offered
}

fn tags() -> Vec<CompletionCandidate> {
    let mut tags: Vec<String> = known(Some).into_iter().flat_map(|status| status.tags).collect();
    tags.sort();
    tags.dedup();
    tags.into_iter().map(CompletionCandidate::new).collect()
}

fn helpers() -> Vec<CompletionCandidate> {
    // The folder is only opened if it is there: opening makes it.
    let helpers = known(|home| home.folders().into_iter().find(StateDir::is_helpers));
    let mut names: Vec<String> = helpers.iter().map(|status| status.handle().to_owned()).collect();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn agents() -> Vec<CompletionCandidate> {
    let Ok(table) = AgentTable::load() else { return Vec::new() };
    let candidate = |agent: &crate::agents::AgentDefinition| {
        CompletionCandidate::new(&agent.name).help(agent.about.clone().map(Into::into))
    };
    table.iter().map(candidate).collect()
}

fn keys() -> Vec<CompletionCandidate> {
    let paths = registry::TABLES
        .iter()
        .flat_map(|table| table.keys.iter().map(|key| (format!("{}.{}", table.path, key.name), key.about)));
    paths.map(|(path, about)| CompletionCandidate::new(path).help(Some(about.into()))).collect()
}
