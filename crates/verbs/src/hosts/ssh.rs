//! The way to another host: `ssh TARGET berth proxy …`.
//!
//! Promise: what is said to the other side's shell means there what it means here, whatever is in it; whoever has
//! no terminal is never asked for a password.
//! Start with [`command`].

use std::process::Command;

use berth_api::{Code, Problem};

use super::Host;
use crate::config::Config;

/// What ssh exits with when it did not get there.
pub const SSH_FAILED: i32 = 255;
/// What a shell exits with when there is no such program.
pub const NOT_THERE: i32 = 127;

/// Who may be asked for a password or a passphrase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asking {
    /// A person at a terminal, who also gets one on the other side.
    Terminal,
    /// A person, who needs no terminal on the other side.
    Person,
    /// Nobody.
    Nobody,
}

/// ssh with everything but where its ends go. `words` is what berth is told there.
pub fn command(host: &Host, asking: Asking, words: &[String]) -> Result<Command, Problem> {
    let ssh = &Config::load()?.hosts.ssh;
    let (program, options) = ssh.split_first().ok_or_else(|| Problem::new(Code::Bug, "no ssh is named"))?;
    let mut command = Command::new(program);
    command.args(options);
    match asking {
        Asking::Terminal => command.arg("-t"),
        Asking::Person => command.arg("-T"),
        Asking::Nobody => command.args(["-T", "-o", "BatchMode=yes"]),
    };
    // A link that is dead is noticed, by the one who waits at its end.
    command.args(["-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"]);
    let said = std::iter::once(&host.berth).chain(words).map(|word| quoted(word));
    command.args(["--", &host.target, &said.collect::<Vec<_>>().join(" ")]);
    tracing::debug!(host = host.name, "asking over ssh");
    Ok(command)
}

/// A word as every shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    // A word that begins with `=` or contains `~` first is special to some shells.
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('=') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// ssh could not be started at all.
pub fn no_ssh(error: &std::io::Error) -> Problem {
    Problem::new(Code::Refused, format!("ssh cannot be started: {error}"))
        .hint("install an OpenSSH client, or name another one with `hosts.ssh` in the config")
}

/// What it means that ssh ended with this, if it was not berth that did.
pub fn failure(host: &Host, exit: Option<i32>, said: &str) -> Problem {
    let said = said.trim();
    let why = if said.is_empty() { String::new() } else { format!(": {said}") };
    match exit {
        Some(NOT_THERE) => {
            Problem::new(Code::Unreachable, format!("there is no `{}` on {}{why}", host.berth, host.target))
                .hint(format!(
                    "put it there (`scp $(command -v berth) {}:.local/bin/`), or say where it is: \
             `berth hosts add {} --replace --berth PATH`",
                    host.target, host.target
                ))
        }
        Some(_) | None => Problem::new(Code::Unreachable, format!("{} cannot be reached{why}", host.target))
            .hint(format!("`ssh {} true` has to work", host.target)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_the_other_shell_arrives_as_it_is() {
        let odd =
            ["", "a b", "it's", "$(id)", "`id`", "a\nb", "!x", "*", "~", "=ls", "\\", "\"", "日本 🙂", "-x"];
        for word in odd {
            let line = format!("printf %s {}", quoted(word));
            for shell in ["sh", "bash"] {
                let said = Command::new(shell).args(["-c", &line]).output().expect("a shell");
                assert_eq!(String::from_utf8_lossy(&said.stdout), word, "{shell}: {line}");
            }
        }
    }
}
