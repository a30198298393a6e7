//! `berth --host HOST …`: the same command, on another host.
//!
//! Promise: it does there what it would do here, with the same output and the same exit code; a host that cannot be
//! reached is exit 5, with what ssh said.
//! Not here: which hosts there are, and the way to them (see `berth_verbs::hosts`).
//! Start with [`run`].

use std::process::Stdio;

use berth_api::{Code, Problem};
use berth_keeper::Home;
use berth_verbs::hosts::{Host, ssh};

use crate::tty;

/// Runs what was typed on the host.
pub(crate) fn run(host: &str) -> Result<u8, Problem> {
    let host = Host::meant(&Home::locate()?, host)?;
    let mut words: Vec<String> =
        ["proxy", "exec", "--from", env!("CARGO_PKG_VERSION"), "--"].map(str::to_owned).into();
    words.extend(typed()?);
    let asking = if tty::is_interactive() {
        ssh::Asking::Terminal
    } else if tty::can_ask() {
        ssh::Asking::Person
    } else {
        ssh::Asking::Nobody
    };
    let status = ssh::command(&host, asking, &words)?.status().map_err(|error| ssh::no_ssh(&error))?;
    match status.code() {
        Some(code @ (ssh::SSH_FAILED | ssh::NOT_THERE)) => {
            // A command that runs there may end so, too: whoever answers now was there.
            if answers(&host) {
                Ok(u8::try_from(code).unwrap_or(u8::MAX))
            } else {
                Err(ssh::failure(&host, Some(code), ""))
            }
        }
        Some(code) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        None => Err(Problem::new(Code::Unreachable, format!("ssh to {} was ended", host.target))
            .hint("what was begun there goes on; ask again")),
    }
}

fn answers(host: &Host) -> bool {
    let asked = ssh::command(host, ssh::Asking::Nobody, &["--version".to_owned()]);
    let quiet = asked
        .map(|mut command| command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
    quiet.is_ok_and(|ended| ended.is_ok_and(|status| status.success()))
}

/// What was typed, but for --host.
fn typed() -> Result<Vec<String>, Problem> {
    let words = std::env::args_os().skip(1).map(|word| {
        word.into_string().map_err(|word| Problem::new(Code::Usage, format!("{word:?} is not UTF-8")))
    });
    without_host(words.collect::<Result<_, _>>()?)
}

fn without_host(words: Vec<String>) -> Result<Vec<String>, Problem> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let is_host = |word: &String| word == "--host" || word.starts_with("--host=");
    let at: Vec<usize> = (0..end).filter(|at| is_host(&words[*at])).collect();
    let &[at] = at.as_slice() else {
        return Err(Problem::new(Code::Usage, "--host is there more than once, and only one can be meant")
            .hint("put ours before the verb, and what is for the command behind `--`"));
    };
    let width = if words[at] == "--host" { 2 } else { 1 };
    let mut words = words;
    words.drain(at..(at + width).min(words.len()));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_there_is_what_was_typed_but_for_the_host() {
        let said = |line: &str| without_host(line.split(' ').map(str::to_owned).collect());
        let same = |line: &str, there: &str| {
            assert_eq!(said(line).expect(line).join(" "), there, "{line}");
        };
        same("--host box ls --all", "ls --all");
        same("ls --host=box --all", "ls --all");
        same("ls --host box", "ls");
        same("--host box run -- curl --host x", "run -- curl --host x");
        assert_eq!(said("--host box run curl --host x").expect_err("two").code, Code::Usage);
    }
}
