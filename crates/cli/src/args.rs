//! What can be typed. The help texts are the manual.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// berth keeps AI agent sessions: one writer each, nothing said is lost, every disconnect and
/// crash is survived, and what a session started is cleaned up with it.
#[derive(Parser, Debug)]
#[command(
    name = "berth",
    version,
    after_help = "\
S is a session: its name, its id, or the first characters (three or more) of its id.
Sessions live in $BERTH_HOME, else $XDG_STATE_HOME/berth, else ~/.local/state/berth.

Exit codes: 0 done · 1 refused or failed · 2 usage · 3 not found · 4 held by someone else
            5 keeper unreachable · 6 timed out waiting · 7 needs --yes · 70 a bug
            `run` in the foreground, `attach` and `wait --for exit` pass the command's own code through.

First steps:  berth demo
              berth run --name fix -- claude      then Ctrl-\\ to leave, `berth attach fix` to return"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    Run(Run),
    Resume(Resume),
    Ls(Ls),
    Show(Show),
    Why(Why),
    Attach(Attach),
    Input(Input),
    Screen(Screen),
    Output(Output),
    Log(Log),
    Stop(Stop),
    Wait(Wait),
    Rename(Rename),
    /// Show the promise in twenty seconds, on this machine, touching nothing of yours.
    Demo,
}

/// Run a command in a new session.
///
/// On a terminal you are attached to it; leave with Ctrl-\ and it goes on. Off a terminal the
/// output is streamed and the command's exit code passed through; killing `berth run` does not
/// kill the session. With -d the id is printed alone, once the command really runs.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth run -- claude                                 an agent, attached
  berth run -d --name tests -- cargo test             in the background, by name
  id=$(berth run -d --key nightly-42 -- ./job.sh)     repeat safely: same key, same session")]
pub(crate) struct Run {
    /// Do not attach; print the id once the command runs
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// A name for the session
    #[arg(long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// Where to run it [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Set a variable, on top of this environment (kept in the session's record)
    #[arg(long = "env", value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// Make this call repeatable: a second `run` with the same key means the same session
    #[arg(long, value_name = "K")]
    pub(crate) key: Option<String>,
    /// Print what `show --json` prints instead of the id or the output
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Start the next run of a session that stopped or was lost.
///
/// The same command, in the same directory, with the same record. If the last keeper died, what
/// it left behind is ended and proven gone first. --last takes the session that was lost last in
/// this directory, else the one lost last anywhere, else the one that stopped last, here or anywhere.
#[derive(clap::Args, Debug)]
pub(crate) struct Resume {
    /// The session
    #[arg(value_name = "S", required_unless_present = "last", conflicts_with = "last")]
    pub(crate) session: Option<String>,
    /// The one that was interrupted last
    #[arg(long)]
    pub(crate) last: bool,
    /// Do not attach; print the id once the command runs
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Print what `show --json` prints instead of the id or the output
    #[arg(long)]
    pub(crate) json: bool,
}

/// List sessions: what runs, what was lost, what stopped in the last day.
#[derive(clap::Args, Debug, Default)]
#[command(
    alias = "list",
    after_help = "\
Examples:
  berth ls --all
  berth ls --json | jq -r '.[] | select(.state == \"running\") | .id'"
)]
pub(crate) struct Ls {
    /// Also what stopped long ago
    #[arg(short, long)]
    pub(crate) all: bool,
    /// An array of objects, as `show --json` prints them
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show everything known about a session.
#[derive(clap::Args, Debug)]
pub(crate) struct Show {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show why a session is said to be in its state: the evidence, and how old it is.
#[derive(clap::Args, Debug)]
pub(crate) struct Why {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// As an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// See a session's terminal and type into it. Ctrl-\ leaves it running.
///
/// One party types, the others watch. If somebody else is typing this is refused (exit 4); watch
/// with --observe, or take over with --take, which turns the other one into an observer.
///
/// Leaving is exit 0. When the command ends while you are attached, its exit code is passed through
/// (128+N for a signal; 1 if the run was lost).
#[derive(clap::Args, Debug)]
pub(crate) struct Attach {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// Only watch
    #[arg(short, long, conflicts_with = "take")]
    pub(crate) observe: bool,
    /// Take over from whoever is typing
    #[arg(short, long)]
    pub(crate) take: bool,
}

/// Type into a session's terminal, from a script.
///
/// Refused (exit 4) while somebody is attached and may type; --take types anyway and turns them
/// into an observer. `-` types what comes on standard input; text that begins with a dash follows `--`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth input fix --enter 'run the tests again'
  berth input fix $'\\x03'              Ctrl-C
  berth input fix --enter -- --help     text that begins with a dash
  git diff | berth input fix -")]
pub(crate) struct Input {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// Press Enter afterwards
    #[arg(short, long)]
    pub(crate) enter: bool,
    /// Type even though somebody else may
    #[arg(short, long)]
    pub(crate) take: bool,
    /// What to type; `-` for standard input
    #[arg(required = true, value_name = "TEXT")]
    pub(crate) text: Vec<String>,
}

/// Print what is on a session's screen now, or was when it ended.
#[derive(clap::Args, Debug)]
pub(crate) struct Screen {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// Plain text (the default)
    #[arg(long, conflicts_with = "ansi")]
    pub(crate) text: bool,
    /// With colours
    #[arg(long)]
    pub(crate) ansi: bool,
}

/// Print a session's raw output, from the beginning or from an offset.
#[derive(clap::Args, Debug)]
pub(crate) struct Output {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// Go on until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Begin at this byte
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    pub(crate) from: u64,
}

/// Print what happened in a session: its journal.
#[derive(clap::Args, Debug)]
pub(crate) struct Log {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// Go on until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// One object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Begin at this event
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) from: u64,
}

/// End sessions, and wait until each is proven over.
///
/// Everything a session started is asked to end, then killed after the grace time. Exit 0 means
/// that nothing of it is left. The record stays; `berth resume` starts it again.
#[derive(clap::Args, Debug)]
pub(crate) struct Stop {
    /// The sessions
    #[arg(required = true, value_name = "S")]
    pub(crate) sessions: Vec<String>,
    /// How long to wait before killing
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// Print what `show --json` prints, as an array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Wait for the end of a run, or for something to appear in its output.
///
/// For `exit` the command's own code is passed through (128+N for a signal; 1 if the run was
/// lost). For `output:REGEX` the output of the current run is searched from its beginning, without
/// colours. Exit 6 when the time is up.
#[derive(clap::Args, Debug)]
pub(crate) struct Wait {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// What to wait for: exit, or output:REGEX
    #[arg(long = "for", value_name = "WHAT", default_value = "exit", value_parser = wait_for)]
    pub(crate) what: WaitFor,
    /// Give up after this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print what `show --json` prints
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give a session another name.
#[derive(clap::Args, Debug)]
pub(crate) struct Rename {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// The new name
    pub(crate) name: String,
}

#[derive(Clone, Debug)]
pub(crate) enum WaitFor {
    Exit,
    Output(regex::bytes::Regex),
}

fn wait_for(text: &str) -> Result<WaitFor, String> {
    match text.split_once(':') {
        None if text == "exit" => Ok(WaitFor::Exit),
        Some(("output", pattern)) => {
            let regex = regex::bytes::RegexBuilder::new(pattern).multi_line(true).build();
            Ok(WaitFor::Output(regex.map_err(|error| error.to_string())?))
        }
        Some(_) | None => Err("wait for `exit` or for `output:REGEX`".to_owned()),
    }
}

/// `500ms`, `5s`, `2m`, `1h`, or plain seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 =
        digits.parse().map_err(|_| "a time is a number and ms, s, m or h, as in 5s".to_owned())?;
    let seconds = match &text[digits.len()..] {
        "ms" => number / 1000.0,
        "s" | "" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        unit => return Err(format!("`{unit}` is no unit of time; use ms, s, m or h")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} is no possible time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_arguments_holds_together() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for bad in ["", "s", "-1s", "5 parsecs", "nan", "inf"] {
            assert!(duration(bad).is_err(), "{bad} was taken for a time");
        }
    }
}
