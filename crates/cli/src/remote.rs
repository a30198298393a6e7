//! Runs a command on another host: `berth --host HOST …`, or a session that is called `HOST:S`.
//!
//! Promise: a command does there what it would do here, with its output and its exit code. A host that cannot be
//! reached gives exit code 5 and the error of ssh.
//! Not here: the list of hosts, and how to reach them (see `berth_verbs::hosts`).
//! Start with [`elsewhere`], then [`run`].

mod relay;

use std::process::Stdio;

use berth_api::Problem;
use berth_store::StateDir;
use berth_verbs::hosts::{self, RemoteHost, ssh};

use crate::args::{self, CliArgs, CliVerb};
use crate::tty;

/// The character between a host and its session, as `berth ls --hosts` shows them. No name contains it.
const OF: char = ':';

/// The host to run on, and the arguments there; `None` to run here.
pub(crate) fn elsewhere(args: &CliArgs) -> Result<Option<(RemoteHost, Vec<String>)>, Problem> {
    if let Some(host) = &args.before.global.host {
        return Ok(Some((RemoteHost::resolve(&StateDir::locate()?, host)?, without_host(typed()?)?)));
    }
    // Few commands name another host, and the others must not wait for a read of the disk.
    if !args.named.iter().any(|text| text.contains(OF)) {
        return Ok(None);
    }
    let hosts = hosts::all_hosts(&StateDir::locate()?)?;
    let Some(host) = the_one(&hosts, &args.named)? else { return Ok(None) };
    let words = args.named.iter().try_fold(typed()?, |words, text| without_prefix(words, text, &host.name));
    Ok(Some((host.clone(), words?)))
}

/// The other host that all these sessions are on; none if they are here.
fn the_one<'h>(hosts: &'h [RemoteHost], named: &[String]) -> Result<Option<&'h RemoteHost>, Problem> {
    let of = |text: &String| {
        let (name, _) = text.split_once(OF)?;
        hosts.iter().find(|host| host.name == name)
    };
    let all: Vec<Option<&RemoteHost>> = named.iter().map(of).collect();
    let first = all.iter().find_map(|host| *host);
    if first.is_some() && all.iter().any(|host| *host != first) {
        return Err(Problem::usage(format!("{} are not on one host", named.join(", ")))
            .hint("run the command once for each host"));
    }
    Ok(first)
}

/// The arguments, with a session under its name on its own host. Candidates are tried in turn, because an argument with
/// another purpose may look like the session.
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
    Err(Problem::usage(format!("cannot tell which `{text}` is the session"))
        .hint(format!("use `berth --host {host}` and `{bare}`")))
}

/// A hint for a session that was not found, if its name looks like one on another host.
pub(crate) fn advice(home: &StateDir, text: &str) -> Option<String> {
    let (name, session) = text.split_once(OF)?;
    let is_there = hosts::all_hosts(home).is_ok_and(|hosts| hosts.iter().any(|host| host.name == name));
    Some(if is_there {
        format!("`{name}` is another host: put `--host {name}` before the command, and use `{session}`")
    } else {
        format!("there is no host `{}`: `berth hosts` lists them", name.escape_debug())
    })
}

/// Runs this command on the host. A command that draws gets a terminal there if there is one here, and the host draws
/// on it. The output of every other command is escaped here, because the host may be hostile.
pub(crate) fn run(host: &RemoteHost, typed: Vec<String>, verb: Option<&CliVerb>) -> Result<u8, Problem> {
    let mut words: Vec<String> =
        ["proxy", "exec", "--from", env!("CARGO_PKG_VERSION"), "--called", &host.name, "--"]
            .map(str::to_owned)
            .into();
    words.extend(typed);
    let asking = if tty::is_interactive() && verb.is_none_or(draws) {
        ssh::PasswordPrompt::Terminal
    } else if tty::can_ask() {
        ssh::PasswordPrompt::Person
    } else {
        ssh::PasswordPrompt::Never
    };
    let mut command = ssh::ssh_command(host, asking, &words)?;
    let status = match asking {
        ssh::PasswordPrompt::Terminal => command.status().map_err(|error| ssh::no_ssh(&error))?,
        ssh::PasswordPrompt::Person | ssh::PasswordPrompt::Never => {
            relay::run(command, verb.is_some_and(is_exact))?
        }
    };
    match status.code() {
        Some(code @ (ssh::SSH_FAILED | ssh::NOT_THERE)) => {
            // A command that runs there may end with this code too: if the host answers now, it was reachable.
            if answers(host) {
                Ok(u8::try_from(code).unwrap_or(u8::MAX))
            } else {
                Err(ssh::ssh_failure(host, Some(code), ""))
            }
        }
        Some(code) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        None => Err(Problem::unreachable(format!("ssh to {} was ended", host.target))
            .hint("commands that began there go on; run this one again")),
    }
}

/// True for verbs that draw on a terminal, or pass one on to a program.
fn draws(verb: &CliVerb) -> bool {
    match verb {
        CliVerb::Run(args) => !args.detach,
        CliVerb::Resume(args) => !args.detach,
        CliVerb::Adopt(args) => !args.detach,
        CliVerb::Attach(_) => true,
        CliVerb::Ls(args) => args.watch && !args.json,
        CliVerb::Config(args) => args.edit,
        _ => false,
    }
}

/// True if the verb's standard output is raw bytes by design (see [`crate::print::raw`]).
fn is_exact(verb: &CliVerb) -> bool {
    match verb {
        CliVerb::Run(args) => !args.detach,
        CliVerb::Resume(args) => !args.detach,
        CliVerb::Adopt(args) => !args.detach,
        CliVerb::Screen(args) => args.ansi,
        CliVerb::Attach(_)
        | CliVerb::Output(_)
        | CliVerb::Export(_)
        | CliVerb::Completions(_)
        | CliVerb::Man(_)
        | CliVerb::Proxy(_)
        | CliVerb::Acp(_)
        | CliVerb::Mcp(_) => true,
        _ => false,
    }
}

fn answers(host: &RemoteHost) -> bool {
    let asked = ssh::ssh_command(host, ssh::PasswordPrompt::Never, &["--version".to_owned()]);
    let quiet = asked
        .map(|mut command| command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
    quiet.is_ok_and(|ended| ended.is_ok_and(|status| status.success()))
}

/// The arguments as they were typed.
fn typed() -> Result<Vec<String>, Problem> {
    let words = std::env::args_os()
        .skip(1)
        .map(|word| word.into_string().map_err(|word| Problem::usage(format!("{word:?} is not UTF-8"))));
    words.collect()
}

/// The arguments as they were typed, without --host.
fn without_host(words: Vec<String>) -> Result<Vec<String>, Problem> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let is_host = |word: &String| word == "--host" || word.starts_with("--host=");
    let at: Vec<usize> = (0..end).filter(|at| is_host(&words[*at])).collect();
    let &[at] = at.as_slice() else {
        return Err(Problem::usage("--host is given more than once")
            .hint("put the one for berth before the verb, and that of the command behind `--`"));
    };
    let width = if words[at] == "--host" { 2 } else { 1 };
    let mut words = words;
    words.drain(at..(at + width).min(words.len()));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use berth_api::ProblemCode;

    use super::*;

    #[test]
    fn the_host_gets_the_typed_arguments_without_the_host_option() {
        let said = |line: &str| without_host(line.split(' ').map(str::to_owned).collect());
        let same = |line: &str, there: &str| {
            assert_eq!(said(line).expect(line).join(" "), there, "{line}");
        };
        same("--host box ls --all", "ls --all");
        same("ls --host=box --all", "ls --all");
        same("ls --host box", "ls");
        same("--host box run -- curl --host x", "run -- curl --host x");
        assert_eq!(said("--host box run curl --host x").expect_err("two").code, ProblemCode::Usage);
    }

    #[test]
    fn only_the_session_argument_loses_its_host_prefix() {
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
