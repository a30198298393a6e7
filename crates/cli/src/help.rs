//! Pages of help above the single verbs: a first page for every day, and one that lists every verb in groups.
//!
//! Promise: the first page fits a terminal of 80 columns and 24 lines; `help --all` has every verb once, with the words
//! of its own help. A verb without a group is listed at the end and fails a test.
//! Not here: the help of each verb (its definition in `args`).
//! Start with [`EVERYDAY`] and [`GROUPS`].

use std::fmt::Write;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};

use crate::args::CliArgs;

/// Verbs of the first page, in the order in which a newcomer needs them, each with a line of its own.
const EVERYDAY: &[(&str, &str)] = &[
    ("run", "Start a session with a command, or with an agent (--agent claude)"),
    ("ls", "List sessions, those that need you first"),
    ("attach", "Join a session in this terminal; Ctrl-\\ leaves it, and it goes on"),
    ("send", "Send a prompt to a session's agent; --wait prints the answer"),
    ("answer", "Answer the question that an agent asks"),
    ("wait", "Wait for a turn, an agent or the end of a run"),
    ("result", "Print the answer of a turn that is over"),
    ("show", "Show the details of a session"),
    ("stop", "Stop sessions; their records stay"),
    ("resume", "Start a stopped session again, with the same conversation"),
    ("archive", "Hide sessions from the list; nothing is deleted"),
    ("serve", "Serve a web page for browsers and phones, and an HTTP API"),
    ("doctor", "Check this host and berth's state, and say how to fix what is wrong"),
];

/// Groups of `help --all`.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start and talk to agents", &["run", "send", "wait", "answer", "fork"]),
    ("Turns of an agent", &["turns", "turn", "result", "cancel", "queue"]),
    ("Use terminals", &["attach", "input", "screen", "output"]),
    ("Inspect sessions", &["ls", "show", "why", "ps", "log", "grep", "export"]),
    (
        "Stop, resume and archive",
        &["stop", "resume", "archive", "restore", "history", "purge", "policy", "sweep"],
    ),
    ("Name and label", &["use", "rename", "tag", "note"]),
    ("Conversations from outside berth", &["adopt", "import", "transcript"]),
    ("Share processes between sessions", &["helper"]),
    ("Connect other programs and hosts", &["serve", "token", "link", "audit", "hosts", "acp", "mcp"]),
    ("Set up", &["agents", "config", "notify", "doctor", "setup", "demo", "help"]),
    ("For programs and packagers", &["openapi", "proxy", "completions", "man"]),
];

/// Column in which the description of a verb begins.
const COLUMN: usize = 13;
/// Widest line, as in clap.
const WIDEST: usize = 100;
/// Name of the verb that prints help, and of its arguments.
const HELP: &str = "help";
const COMMAND: &str = "command";
const ALL: &str = "all";

/// The definitions of everything that can be typed, with the first page as help.
pub(crate) fn command() -> Command {
    let command = CliArgs::command().subcommand(help_verb());
    let template = everyday(&command);
    command.help_template(template)
}

/// The definitions of everything that can be typed, with all verbs in groups as help.
pub(crate) fn command_with_groups() -> Command {
    let command = CliArgs::command().subcommand(help_verb());
    let template = all(&command);
    command.help_template(template)
}

fn help_verb() -> Command {
    Command::new(HELP)
        .about("Print the help of berth or of a command; --all lists every command")
        .arg(
            Arg::new(COMMAND)
                .value_name("COMMAND")
                .num_args(0..)
                .conflicts_with(ALL)
                .help("The command, as in `helper ensure` [default: berth itself]"),
        )
        .arg(
            Arg::new(ALL)
                .short('a')
                .long(ALL)
                .action(ArgAction::SetTrue)
                .help("List every command, in groups"),
        )
        .after_help("Examples:\n  berth help --all\n  berth help helper ensure")
}

/// The page that `berth help …` asks for, as clap's own `--help` gives it; `None` if another verb was typed.
pub(crate) fn asked(found: &ArgMatches) -> Option<clap::Error> {
    let (HELP, found) = found.subcommand()? else { return None };
    let command = if found.get_flag(ALL) { command_with_groups() } else { command() };
    let words = found.get_many::<String>(COMMAND).into_iter().flatten();
    // A verb without commands of its own may take every word behind it as an argument, `--help` as well.
    let mut path = vec!["berth".to_owned()];
    let mut at = Some(&command);
    for word in words {
        let Some(above) = at.filter(|above| above.has_subcommands()) else { break };
        path.push(word.clone());
        at = above.find_subcommand(word);
    }
    path.push("--help".to_owned());
    command.try_get_matches_from(path).err()
}

/// True for `berth --help --all`: clap prints the first page at `--help` and reads no further.
pub(crate) fn is_all_typed(words: &[std::ffi::OsString]) -> bool {
    matches!(words, [help, all] if (help == "--help" || help == "-h") && all == "--all")
}

/// The first page. A small terminal has room for the command, this page and the next prompt, so each line is
/// written here.
fn everyday(command: &Command) -> StyledStr {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let mut text = String::from(
        "berth keeps AI agent sessions: one writer each, nothing lost, crashes survived.\n\n\
         {usage-heading} {usage}\n\n",
    );
    for (verb, about) in EVERYDAY {
        let _ = writeln!(text, "  {literal}{verb:9}{literal:#}{about}");
    }
    let _ = write!(
        text,
        "\n{header}Options:{header:#} --session S, -q, -v, --host HOST, --color WHEN, -h, -V\n\
         S is a session: its name, its id (3 characters do), or @ for the current one.\n\
         {literal}berth help --all{literal:#} lists every command, {literal}berth help COMMAND{literal:#} explains \
         one.\n{literal}berth{literal:#} alone opens the dashboard, {literal}berth demo{literal:#} shows berth at work."
    );
    text.into()
}

/// The page with every verb, all options, exit codes and places of files.
fn all(command: &Command) -> StyledStr {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let width = crate::tty::terminal_size().map_or(WIDEST, |size| usize::from(size.cols).min(WIDEST));
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, verbs) in grouped(command) {
        let _ = write!(text, "\n{header}{title}:{header:#}\n");
        for (verb, about) in verbs {
            let about = wrapped(&about, width);
            let _ = writeln!(text, "  {literal}{verb:COLUMN$}{literal:#}{about}");
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text.into()
}

/// Words on lines that fit behind the column of verbs.
fn wrapped(text: &str, width: usize) -> String {
    let mut wrapped = String::new();
    let mut used = COLUMN + 2;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if wrapped.is_empty() {
            used += length;
        } else if used + 1 + length > width {
            let _ = write!(wrapped, "\n{:1$}", "", COLUMN + 2);
            used = COLUMN + 2 + length;
        } else {
            wrapped.push(' ');
            used += 1 + length;
        }
        wrapped.push_str(word);
    }
    wrapped
}

/// Every verb that is not hidden, with its description.
fn grouped(command: &Command) -> Vec<(&'static str, Vec<(String, String)>)> {
    let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
    let mut left: Vec<(String, String)> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(|verb| (verb.get_name().to_owned(), about(verb)))
        .collect();
    let mut groups = Vec::new();
    for (title, names) in GROUPS {
        let take = |name: &&str| left.iter().position(|(verb, _)| verb == name).map(|at| left.remove(at));
        let verbs: Vec<_> = names.iter().filter_map(take).collect();
        if !verbs.is_empty() {
            groups.push((*title, verbs));
        }
    }
    if !left.is_empty() {
        groups.push(("More", left));
    }
    groups
}

/// The command that was typed.
pub(crate) fn typed_verb() -> Option<String> {
    let known = command();
    std::env::args().skip(1).find(|word| known.find_subcommand(word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_stays_behind_the_column_of_verbs_in_any_width() {
        let text = wrapped("Print a script that makes a shell complete berth", 40);
        assert_eq!(text, "Print a script that makes\n               a shell complete berth");
        assert_eq!(wrapped("extraordinarily long", 10), "extraordinarily\n               long");
    }

    /// The width of most terminals: in a narrower one an example wraps, and its second line looks like another command.
    const ORDINARY: usize = 80;

    #[test]
    fn every_example_fits_an_ordinary_terminal() {
        fn check(command: &Command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines().skip_while(|line| *line != "Examples:") {
                let wide = crate::text_width::column_width(line);
                assert!(wide <= ORDINARY, "{}: {wide} columns: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        command().get_subcommands().for_each(check);
    }

    #[test]
    fn every_verb_of_the_first_page_exists() {
        let command = command();
        for (verb, about) in EVERYDAY {
            assert!(command.find_subcommand(verb).is_some_and(|verb| !verb.is_hide_set()), "{verb}");
            assert!(verb.len() < 9 && !about.is_empty(), "{verb}");
        }
    }

    #[test]
    fn every_verb_is_in_one_group_and_explained_there() {
        let command = command();
        let groups = grouped(&command);
        for verb in GROUPS.iter().flat_map(|(_, verbs)| verbs.iter()) {
            assert!(command.find_subcommand(verb).is_some(), "there is no `berth {verb}`");
        }
        assert!(groups.iter().all(|(title, _)| *title != "More"), "not sorted in: {:?}", groups.last());
        for (_, verbs) in &groups {
            for (verb, about) in verbs {
                assert!(verb.len() < COLUMN && !about.is_empty(), "{verb}");
            }
        }
        let mut all: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a verb is in two groups");
    }
}
