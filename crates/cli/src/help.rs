//! The first page of the help: forty verbs, sorted by what somebody wants to do.
//!
//! Promise: every verb is there once, with the words of its own help. One that nobody sorted in is listed at the end,
//! and fails a test.
//! Not here: the help of each verb (its definition in `args`).
//! Start with [`GROUPS`].

use std::fmt::Write;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

use crate::args::Args;

/// Which verb is where.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Start and talk to agents",
        &["run", "send", "wait", "answer", "cancel", "queue", "turns", "turn", "result", "fork", "adopt"],
    ),
    ("Use terminals", &["attach", "input", "screen", "output"]),
    ("Look", &["ls", "show", "why", "ps", "log", "grep", "export", "transcript"]),
    (
        "End, keep and bring back",
        &["stop", "resume", "import", "archive", "restore", "history", "purge", "policy", "sweep"],
    ),
    ("Name and sort", &["use", "rename", "tag", "note"]),
    ("Share processes between sessions", &["helper"]),
    ("Open to others", &["serve", "token", "link", "audit", "hosts", "acp", "mcp", "openapi", "proxy"]),
    ("Set up", &["agents", "config", "notify", "doctor", "completions", "man", "setup", "demo", "help"]),
];

/// Where what a verb does begins.
const COLUMN: usize = 13;
/// As wide as a line gets, as clap has it.
const WIDEST: usize = 100;

/// The definitions of everything that can be typed, with the verbs in groups.
pub(crate) fn command() -> Command {
    let command = Args::command();
    let template = template(&command);
    command.help_template(template)
}

fn template(command: &Command) -> StyledStr {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let width = crate::tty::size().map_or(WIDEST, |size| usize::from(size.cols).min(WIDEST));
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

/// Every verb that is not hidden, with what it does.
fn grouped(command: &Command) -> Vec<(&'static str, Vec<(String, String)>)> {
    let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
    let mut left: Vec<(String, String)> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(|verb| (verb.get_name().to_owned(), about(verb)))
        .collect();
    // Clap adds this one when it is built, which costs more than all the rest.
    left.push(("help".to_owned(), "Print this help, or that of a command".to_owned()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_verb_does_stays_behind_its_column_however_narrow_it_is() {
        let text = wrapped("Print a script that makes a shell complete berth", 40);
        assert_eq!(text, "Print a script that makes\n               a shell complete berth");
        assert_eq!(wrapped("extraordinarily long", 10), "extraordinarily\n               long");
    }

    /// As wide as most terminals are: what wraps stands under its own command and looks like another one.
    const ORDINARY: usize = 80;

    #[test]
    fn every_example_fits_an_ordinary_terminal() {
        fn check(command: &Command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines().skip_while(|line| *line != "Examples:") {
                let wide = crate::width::width(line);
                assert!(wide <= ORDINARY, "{}: {wide} columns: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        Args::command().get_subcommands().for_each(check);
    }

    #[test]
    fn every_verb_is_in_one_group_and_explained_there() {
        let command = Args::command();
        let groups = grouped(&command);
        for verb in GROUPS.iter().flat_map(|(_, verbs)| verbs.iter()).filter(|verb| **verb != "help") {
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
