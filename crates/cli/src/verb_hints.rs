//! Hints for users who type a word or an option of another program: the berth command or option for it.
//!
//! Promise: berth does nothing for an unknown word or option; the error only names the command that is probably meant.
//! Start with [`with_advice`].

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of docker, tmux, git and systemd, and the berth commands for them.
const GUESSES: &[(&[&str], &str)] = &[
    (&["kill", "end", "terminate"], "`berth stop S` ends a session; its record stays"),
    (
        &["rm", "delete", "remove", "del"],
        "`berth archive S` puts a session away; `berth purge S` deletes it for good",
    ),
    (&["status", "sessions"], "`berth ls` lists the sessions, `berth show S` shows one"),
    (&["tail", "logs", "follow"], "`berth output S --follow` shows what it prints, `berth log S` its events"),
    (
        &["new", "start", "create", "spawn"],
        "`berth run -- COMMAND` starts a session, `berth resume S` an old one",
    ),
    (
        &["exec", "type"],
        "`berth input S TEXT` types into its terminal, `berth send S TEXT` sends its agent a prompt",
    ),
    (&["open", "join", "connect", "switch"], "`berth attach S` joins a session"),
    (&["detach", "leave"], "Ctrl-\\ leaves a session that you are attached to; it goes on"),
    (&["search", "find"], "`berth grep PATTERN` finds text in all sessions"),
    (&["restart", "continue"], "`berth resume S` starts the next run; end a running one with `berth stop S`"),
    (
        &["claude", "codex", "gemini", "bash", "zsh", "sh"],
        "`berth run -- COMMAND` runs a command in a new session",
    ),
    (
        &["chat", "talk"],
        "`berth run --agent claude` is a chat in a new session, `berth attach S` goes on with an old one",
    ),
    (
        &["web", "ui", "page", "server", "gateway", "login"],
        "`berth serve` opens sessions to browsers, `berth link` prints an address that logs one in",
    ),
    (
        &["install", "init"],
        "`berth setup` connects agents and systemd, `berth doctor` says what this host offers",
    ),
    (&["version"], "`berth doctor` and `berth --version` print it"),
    (&["prompt", "ask", "tell", "say"], "`berth send S TEXT --wait` sends a prompt and prints the answer"),
    (
        &["prune", "gc", "clean"],
        "`berth sweep` clears up, `berth purge --archived` deletes archived sessions",
    ),
];

/// Arguments of other programs, by command of berth, and what to type here. An argument that is not an option is `TEXT`.
const ARGUMENT_GUESSES: &[(&str, &[&str], &str)] = &[
    (
        "send",
        &["--timeout"],
        "`--max-wait TIME` gives the turn up if it has not begun by then; `berth wait S.N --timeout TIME` stops waiting for its end",
    ),
    (
        "send",
        &["-m", "--message", "-p", "--prompt", "--text"],
        "the text is an argument: `berth send S TEXT`, or `-` to read standard input",
    ),
    (
        "send",
        &["--model"],
        "the model is chosen when the session starts: `berth run --agent claude -- --model NAME`",
    ),
    (
        "run",
        &["--model"],
        "arguments of the agent come behind `--`: `berth run --agent claude -- --model NAME`",
    ),
    (
        "serve",
        &["--port", "-p", "-l", "--host", "--bind", "--addr", "--address", "TEXT"],
        "`berth serve --listen :7070` listens on that port of this machine",
    ),
    ("serve", &["--open", "-o"], "`berth link` prints an address that logs a browser in"),
    (
        "link",
        &["--port", "-p", "--listen"],
        "`berth serve --listen ADDR` chooses the address; `berth link --base URL` names another one for it",
    ),
    ("ls", &["TEXT"], "`berth show S` shows one session, `berth ls --name TEXT` filters the list"),
];

/// Adds to a usage error the command, or the option of the command `verb`, that is probably meant.
pub(crate) fn with_advice(mut error: clap::Error, verb: Option<&str>) -> clap::Error {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let advice = match error.kind() {
        ErrorKind::InvalidSubcommand => word(ContextKind::InvalidSubcommand).and_then(advice),
        ErrorKind::UnknownArgument => {
            word(ContextKind::InvalidArg).and_then(|argument| argument_advice(verb?, argument))
        }
        _ => None,
    };
    if let Some(advice) = advice {
        // Clap's suggestions are spelled alike, but have another meaning.
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

fn advice(word: &str) -> Option<&'static str> {
    GUESSES.iter().find(|(words, _)| words.contains(&word)).map(|(_, advice)| *advice)
}

fn argument_advice(verb: &str, argument: &str) -> Option<&'static str> {
    let word = if argument.starts_with('-') { argument } else { "TEXT" };
    let is_meant = |(of, words, _): &&(&str, &[&str], &str)| *of == verb && words.contains(&word);
    ARGUMENT_GUESSES.iter().find(is_meant).map(|(_, _, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_not_commands_of_berth_and_all_suggested_commands_exist() {
        let command = crate::help::command();
        for (words, advice) in GUESSES {
            for word in *words {
                assert!(command.find_subcommand(word).is_none(), "`berth {word}` exists");
            }
            assert_commands_exist(&command, advice);
        }
    }

    #[test]
    fn guessed_options_are_not_options_of_berth_and_all_suggested_options_exist() {
        let command = crate::help::command();
        let options = |verb: &str| -> Vec<String> {
            let verb = command.find_subcommand(verb).expect("a command");
            let long = verb.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
            long.chain(verb.get_arguments().filter_map(|arg| Some(format!("-{}", arg.get_short()?))))
                .collect()
        };
        for (verb, words, advice) in ARGUMENT_GUESSES {
            for word in *words {
                assert!(!options(verb).iter().any(|option| option == word), "`berth {verb} {word}` exists");
            }
            assert_commands_exist(&command, advice);
            for said in advice.split("`berth ").skip(1) {
                let said = said.split('`').next().unwrap_or_default();
                let (verb, rest) = said.split_once(' ').unwrap_or((said, ""));
                let ours = rest.split(" -- ").next().unwrap_or_default();
                for option in ours.split(' ').filter(|word| word.starts_with("--")) {
                    assert!(options(verb).iter().any(|known| known == option), "{advice}");
                }
            }
        }
    }

    fn assert_commands_exist(command: &clap::Command, advice: &str) {
        for said in advice.split("`berth ").skip(1) {
            let verb = said.split([' ', '`']).next().unwrap_or_default();
            assert!(verb.starts_with('-') || command.find_subcommand(verb).is_some(), "{advice}");
        }
    }
}
