//! Ssh command for another host: `ssh TARGET berth proxy …`.
//!
//! Promise: the shell on the other side passes every argument on unchanged, whatever is in it; without a terminal ssh
//! never asks for a password.
//! Start with [`ssh_command`].

use std::process::Command;

use berth_api::Problem;

use super::RemoteHost;
use crate::config::Config;

/// Exit code of ssh if it did not reach the host.
pub const SSH_FAILED: i32 = 255;
/// Exit code of a shell if the program does not exist.
pub const NOT_THERE: i32 = 127;

/// Party that ssh may ask for a password or a passphrase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PasswordPrompt {
    /// A user at a terminal, who also gets a terminal on the other side.
    Terminal,
    /// A user, who needs no terminal on the other side.
    Person,
    /// No party: ssh runs in batch mode.
    Never,
}

/// The ssh command without its input and output. `words` are the arguments of berth on the other side.
pub fn ssh_command(host: &RemoteHost, asking: PasswordPrompt, words: &[String]) -> Result<Command, Problem> {
    let ssh = &Config::load()?.hosts.ssh;
    let (program, options) = ssh.split_first().ok_or_else(|| Problem::bug("no ssh program is configured"))?;
    let mut command = Command::new(program);
    command.args(options);
    match asking {
        PasswordPrompt::Terminal => command.arg("-t"),
        PasswordPrompt::Person => command.arg("-T"),
        PasswordPrompt::Never => command.args(["-T", "-o", "BatchMode=yes"]),
    };
    // Keep-alives end a dead connection, so that the waiting side notices.
    command.args(["-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"]);
    let said = std::iter::once(&host.berth).chain(words).map(|word| quoted(word));
    command.args(["--", &host.target, &said.collect::<Vec<_>>().join(" ")]);
    tracing::debug!(host = host.name, "asking over ssh");
    Ok(command)
}

/// A quoted argument that every shell reads unchanged.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    // A word that begins with `=` or contains `~` first is special to some shells.
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('=') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The error of an ssh that could not be started.
pub fn no_ssh(error: &std::io::Error) -> Problem {
    Problem::refused(format!("ssh cannot be started: {error}"))
        .hint("install an OpenSSH client, or name another one with `hosts.ssh` in the config")
}

/// The error for an exit code of ssh, if it is not an exit code of berth.
pub fn ssh_failure(host: &RemoteHost, exit: Option<i32>, said: &str) -> Problem {
    let said = said.trim();
    let why = if said.is_empty() { String::new() } else { format!(": {said}") };
    match exit {
        Some(NOT_THERE) => {
            Problem::unreachable(format!("there is no `{}` on {}{why}", host.berth, host.target)).hint(
                format!(
                    "put it there (`scp $(command -v berth) {}:.local/bin/`), or say where it is: \
             `berth hosts add {} --replace --berth PATH`",
                    host.target, host.target
                ),
            )
        }
        Some(_) | None => Problem::unreachable(format!("{} cannot be reached{why}", host.target))
            .hint(format!("check that `ssh {} true` works", host.target)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_arrive_unchanged_at_the_other_shell() {
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
