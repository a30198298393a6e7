//! What people type who know other programs: the word berth has for it.
//!
//! Promise: nothing is done for a word berth does not have; it only says which one is meant.
//! Start with [`with_advice`].

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of docker, tmux, git and systemd, and what does that here.
const GUESSES: &[(&[&str], &str)] = &[
    (&["kill", "end", "terminate"], "`berth stop S` ends a session; its record stays"),
    (
        &["rm", "delete", "remove", "del"],
        "`berth archive S` puts a session away; `berth purge S` deletes it for good",
    ),
    (&["status", "sessions"], "`berth ls` lists the sessions, `berth show S` shows one"),
    (
        &["tail", "logs", "follow"],
        "`berth output S --follow` shows what it prints, `berth log S` what happened",
    ),
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
    (
        &["restart", "continue"],
        "`berth resume S` starts the next run; one that runs is ended with `berth stop S`",
    ),
    (&["prompt", "ask", "tell", "say"], "`berth send S TEXT --wait` sends a prompt and prints the answer"),
    (
        &["prune", "gc", "clean"],
        "`berth sweep` clears up, `berth purge --archived` deletes what was put away",
    ),
];

/// The same error, with the word that is probably meant.
pub(crate) fn with_advice(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if let Some(advice) = advice(word) {
        // What is spelled alike is not what is meant.
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
    fn no_word_that_berth_has_is_called_a_guess_and_every_advice_can_be_followed() {
        let command = crate::help::command();
        for (words, advice) in GUESSES {
            for word in *words {
                assert!(command.find_subcommand(word).is_none(), "`berth {word}` is there");
            }
            for said in advice.split("`berth ").skip(1) {
                let verb = said.split([' ', '`']).next().unwrap_or_default();
                assert!(command.find_subcommand(verb).is_some(), "{advice}");
            }
        }
    }
}
