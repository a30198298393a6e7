//! Hints for users who type a word of another program: the berth command for it.
//!
//! Promise: berth does nothing for an unknown word; the error only names the command that is probably meant.
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
    (&["prompt", "ask", "tell", "say"], "`berth send S TEXT --wait` sends a prompt and prints the answer"),
    (
        &["prune", "gc", "clean"],
        "`berth sweep` clears up, `berth purge --archived` deletes archived sessions",
    ),
];

/// Adds to a usage error the command that is probably meant.
pub(crate) fn with_advice(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if let Some(advice) = advice(word) {
        // Clap's suggestion is spelled alike, but has another meaning.
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

fn advice(word: &str) -> Option<&'static str> {
    GUESSES.iter().find(|(words, _)| words.contains(&word)).map(|(_, advice)| *advice)
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
            for said in advice.split("`berth ").skip(1) {
                let verb = said.split([' ', '`']).next().unwrap_or_default();
                assert!(command.find_subcommand(verb).is_some(), "{advice}");
            }
        }
    }
}
