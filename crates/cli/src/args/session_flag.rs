//! `--session S`: the commands that accept it, and the sessions that the arguments name.
//!
//! Promise: a command gets this option exactly if its definition has an argument that names a session or a turn.
//! Not here: finding the session with that name (see `crate::target_session`).
//! Start with [`with_session`] and [`named`].

use berth_api::Problem;

/// Ids of the arguments that name a session or a turn.
const ABOUT_A_SESSION: [&str; 3] = ["session", "sessions", "turn"];
/// The id of --session, before and after the command.
pub(super) const SESSION_FLAG_ID: &str = "meant";
/// Flags that choose the subject of a command and exclude --session.
const INSTEAD_OF_A_SESSION: [&str; 7] = ["all", "archived", "last", "none", "older_than", "pid", "port"];

/// Adds --session to a command that is about a session. The command's definition decides, so no list of commands has
/// to be kept; the other commands reject --session.
pub(super) fn with_session(verb: clap::Command) -> clap::Command {
    let is_about = |argument: &clap::Arg| ABOUT_A_SESSION.contains(&argument.get_id().as_str());
    if !verb.get_arguments().any(is_about) {
        return verb;
    }
    let help = "The session, in place of the argument";
    verb.arg(clap::Arg::new(SESSION_FLAG_ID).long("session").value_name("S").help(help).global(true))
}

/// The conflict between --session and a flag that names another subject, if such a flag was typed.
pub(super) fn conflicting_argument(found: &clap::ArgMatches) -> Option<Problem> {
    let is_typed = |id: &&&str| {
        found.try_contains_id(id).is_ok_and(|is_there| is_there)
            && found.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
    };
    let flag = INSTEAD_OF_A_SESSION.iter().find(is_typed)?.replace('_', "-");
    let what = format!("--{flag} and --session do not go together");
    Some(Problem::usage(what).hint("leave one of them out"))
}

/// The words that name sessions, as typed and in order. With --session that is its value alone: the other words are
/// then not sessions.
pub(crate) fn named(found: &clap::ArgMatches) -> Vec<String> {
    let mut at = vec![found];
    while let Some((_, below)) = at.last().and_then(|found| found.subcommand()) {
        at.push(below);
    }
    let values = |id: &str| -> Vec<String> {
        let of = |found: &&clap::ArgMatches| -> Vec<String> {
            found.try_get_many::<String>(id).ok().flatten().into_iter().flatten().cloned().collect()
        };
        // A global argument is present at every level; the innermost value counts.
        at.iter().rev().map(of).find(|values| !values.is_empty()).unwrap_or_default()
    };
    let meant = values(SESSION_FLAG_ID);
    if !meant.is_empty() {
        return meant;
    }
    // After `grep -e PATTERN` the first word is a session, not the pattern.
    let first = if values("regexps").is_empty() { Vec::new() } else { values("pattern") };
    first.into_iter().chain(ABOUT_A_SESSION.into_iter().flat_map(values)).collect()
}
