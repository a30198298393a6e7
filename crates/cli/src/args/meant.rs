//! `--session S`: which commands understand it, and where it would mean nothing.

use berth_api::{Code, Problem};

/// What a command that is about a session calls it.
const ABOUT_A_SESSION: [&str; 3] = ["session", "sessions", "turn"];
/// The id of --session, before and behind the command.
pub(super) const MEANT: &str = "meant";
/// Flags that say in their own way what a command is about.
const INSTEAD_OF_A_SESSION: [&str; 7] = ["all", "archived", "last", "none", "older_than", "pid", "port"];

/// Gives --session to the commands that are about a session. Its definition tells, so that none has to be listed;
/// the others refuse it.
pub(super) fn with_session(verb: clap::Command) -> clap::Command {
    let is_about = |argument: &clap::Arg| ABOUT_A_SESSION.contains(&argument.get_id().as_str());
    if !verb.get_arguments().any(is_about) {
        return verb;
    }
    let help = "The session, in place of the argument";
    verb.arg(clap::Arg::new(MEANT).long("session").value_name("S").help(help).global(true))
}

/// What was typed besides --session that says something else, if anything was.
pub(super) fn in_its_place(found: &clap::ArgMatches) -> Option<Problem> {
    let is_typed = |id: &&&str| {
        found.try_contains_id(id).is_ok_and(|is_there| is_there)
            && found.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
    };
    let flag = INSTEAD_OF_A_SESSION.iter().find(is_typed)?.replace('_', "-");
    let what = format!("--{flag} and --session do not go together");
    Some(Problem::new(Code::Usage, what).hint("leave one of them out"))
}

/// What was typed where a session is meant, in order: behind --session it is that alone, for then words follow.
pub(crate) fn named(found: &clap::ArgMatches) -> Vec<String> {
    let mut at = vec![found];
    while let Some((_, below)) = at.last().and_then(|found| found.subcommand()) {
        at.push(below);
    }
    let values = |id: &str| -> Vec<String> {
        let of = |found: &&clap::ArgMatches| -> Vec<String> {
            found.try_get_many::<String>(id).ok().flatten().into_iter().flatten().cloned().collect()
        };
        // One that is global is there at every level; the last counts.
        at.iter().rev().map(of).find(|values| !values.is_empty()).unwrap_or_default()
    };
    let meant = values(MEANT);
    if !meant.is_empty() {
        return meant;
    }
    // Behind `grep -e PATTERN` the first word is a session, too.
    let first = if values("regexps").is_empty() { Vec::new() } else { values("pattern") };
    first.into_iter().chain(ABOUT_A_SESSION.into_iter().flat_map(values)).collect()
}
