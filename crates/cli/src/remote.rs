//! `berth --host HOST …`, or a session that is called `HOST:S`: the same command, on another host.
//!
//! Promise: it does there what it would do here, with the same output and the same exit code; a host that cannot be
//! reached is exit 5, with what ssh said.
//! Not here: which hosts there are, and the way to them (see `berth_verbs::hosts`).
//! Start with [`elsewhere`], then [`run`].

mod relay;

use std::process::Stdio;

use berth_api::{Code, Problem};
use berth_store::Home;
use berth_verbs::hosts::{self, Host, ssh};

use crate::args::{self, Args, Verb};
use crate::tty;

/// What stands between a host and a session of it, as `berth ls --hosts` shows them. No name has one.
const OF: char = ':';

/// Where this is to be done, and what is to be said there; `None` if it is here.
pub(crate) fn elsewhere(args: &Args) -> Result<Option<(Host, Vec<String>)>, Problem> {
    if let Some(host) = &args.before.global.host {
        return Ok(Some((Host::meant(&Home::locate()?, host)?, without_host(typed()?)?)));
    }
    // Hardly anybody names another host, and nobody else shall wait for a look at the disk.
    if !args.named.iter().any(|text| text.contains(OF)) {
        return Ok(None);
    }
    let hosts = hosts::all(&Home::locate()?)?;
    let Some(host) = the_one(&hosts, &args.named)? else { return Ok(None) };
    let words = args.named.iter().try_fold(typed()?, |words, text| without_prefix(words, text, &host.name));
    Ok(Some((host.clone(), words?)))
}

/// The host that all these sessions are on, if they are on another one.
fn the_one<'h>(hosts: &'h [Host], named: &[String]) -> Result<Option<&'h Host>, Problem> {
    let of = |text: &String| {
        let (name, _) = text.split_once(OF)?;
        hosts.iter().find(|host| host.name == name)
    };
    let all: Vec<Option<&Host>> = named.iter().map(of).collect();
    let first = all.iter().find_map(|host| *host);
    if first.is_some() && all.iter().any(|host| *host != first) {
        return Err(Problem::new(Code::Usage, format!("{} are not on one host", named.join(", ")))
            .hint("a command is for one host: say it once for each"));
    }
    Ok(first)
}

/// The same words, with a session as its own host calls it. Where it stands among them is tried out: what is typed for
/// another purpose may look the same.
fn without_prefix(words: Vec<String>, text: &str, host: &str) -> Result<Vec<String>, Problem> {
    let bare = text.strip_prefix(host).and_then(|rest| rest.strip_prefix(OF)).unwrap_or(text);
    let meant = |words: &[String]| {
        let all = std::iter::once("berth").chain(words.iter().map(String::as_str));
        crate::help::command().try_get_matches_from(all).ok().map(|found| args::named(&found))
    };
    let Some(before) = meant(&words) else { return Ok(words) };
    let is_changed = |after: &[String]| {
        let changes: Vec<_> = before.iter().zip(after).filter(|(one, other)| one != other).collect();
        after.len() == before.len()
            && matches!(changes.as_slice(), [(one, other)] if *one == text && *other == bare)
    };
    for (at, word) in words.iter().enumerate() {
        let Some(front) = word.strip_suffix(text).filter(|front| front.is_empty() || front.ends_with('='))
        else {
            continue;
        };
        let mut tried = words.clone();
        tried[at] = format!("{front}{bare}");
        if meant(&tried).is_some_and(|after| is_changed(&after)) {
            return Ok(tried);
        }
    }
    Err(Problem::new(Code::Usage, format!("it cannot be told which `{text}` is the session"))
        .hint(format!("say `berth --host {host}` and `{bare}`")))
}

/// What to say of a session that is not there, if it is called as one of another host would be.
pub(crate) fn advice(home: &Home, text: &str) -> Option<String> {
    let (name, session) = text.split_once(OF)?;
    let is_there = hosts::all(home).is_ok_and(|hosts| hosts.iter().any(|host| host.name == name));
    Some(if is_there {
        format!("`{name}` is another host: put `--host {name}` before the command, and say `{session}`")
    } else {
        format!("there is no host `{}`: `berth hosts` lists them", name.escape_debug())
    })
}

/// Runs this command on the host. A command that draws gets a terminal there when there is one here, and the host draws on
/// it; the output of every other command is escaped here, because the host may be hostile.
pub(crate) fn run(host: &Host, typed: Vec<String>, verb: Option<&Verb>) -> Result<u8, Problem> {
    let mut words: Vec<String> =
        ["proxy", "exec", "--from", env!("CARGO_PKG_VERSION"), "--called", &host.name, "--"]
            .map(str::to_owned)
            .into();
    words.extend(typed);
    let asking = if tty::is_interactive() && verb.is_none_or(draws) {
        ssh::Asking::Terminal
    } else if tty::can_ask() {
        ssh::Asking::Person
    } else {
        ssh::Asking::Nobody
    };
    let mut command = ssh::command(host, asking, &words)?;
    let status = match asking {
        ssh::Asking::Terminal => command.status().map_err(|error| ssh::no_ssh(&error))?,
        ssh::Asking::Person | ssh::Asking::Nobody => relay::run(command, verb.is_some_and(is_exact))?,
    };
    match status.code() {
        Some(code @ (ssh::SSH_FAILED | ssh::NOT_THERE)) => {
            // A command that runs there may end so, too: whoever answers now was there.
            if answers(host) {
                Ok(u8::try_from(code).unwrap_or(u8::MAX))
            } else {
                Err(ssh::failure(host, Some(code), ""))
            }
        }
        Some(code) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        None => Err(Problem::new(Code::Unreachable, format!("ssh to {} was ended", host.target))
            .hint("what was begun there goes on; ask again")),
    }
}

/// True for verbs that draw on a terminal, or pass one on to a program.
fn draws(verb: &Verb) -> bool {
    match verb {
        Verb::Run(args) => !args.detach,
        Verb::Resume(args) => !args.detach,
        Verb::Adopt(args) => !args.detach,
        Verb::Attach(_) => true,
        Verb::Ls(args) => args.watch && !args.json,
        Verb::Config(args) => args.edit,
        _ => false,
    }
}

/// Whether the verb's standard output is bytes that are raw by design (see [`crate::print::raw`]).
fn is_exact(verb: &Verb) -> bool {
    match verb {
        Verb::Run(args) => !args.detach,
        Verb::Resume(args) => !args.detach,
        Verb::Adopt(args) => !args.detach,
        Verb::Screen(args) => args.ansi,
        Verb::Attach(_)
        | Verb::Output(_)
        | Verb::Export(_)
        | Verb::Completions(_)
        | Verb::Man(_)
        | Verb::Proxy(_)
        | Verb::Acp(_)
        | Verb::Mcp(_) => true,
        _ => false,
    }
}

fn answers(host: &Host) -> bool {
    let asked = ssh::command(host, ssh::Asking::Nobody, &["--version".to_owned()]);
    let quiet = asked
        .map(|mut command| command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
    quiet.is_ok_and(|ended| ended.is_ok_and(|status| status.success()))
}

/// What was typed.
fn typed() -> Result<Vec<String>, Problem> {
    let words = std::env::args_os().skip(1).map(|word| {
        word.into_string().map_err(|word| Problem::new(Code::Usage, format!("{word:?} is not UTF-8")))
    });
    words.collect()
}

/// What was typed, but for --host.
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

    #[test]
    fn only_what_is_meant_as_a_session_loses_its_host() {
        let same = |line: &str, there: &str| {
            let words = line.split(' ').map(str::to_owned).collect();
            assert_eq!(without_prefix(words, "box:fix", "box").expect(line).join(" "), there, "{line}");
        };
        same("show box:fix --json", "show fix --json");
        same("send box:fix box:fix", "send fix box:fix");
        same("grep -e box:fix box:fix", "grep -e box:fix fix");
        same("screen --session=box:fix", "screen --session=fix");
        same("--session box:fix note box:fix", "--session fix note box:fix");
    }
}
