//! Words and tables for people. Data for programs is JSON, printed with [`json`].

use std::io::{self, IsTerminal, Write};

use berth_api::{Code, Problem, Status, Timestamp, redact};
use serde::Serialize;

/// Says what went wrong and what to do next.
pub(crate) fn problem(problem: &Problem) {
    let mut err = io::stderr().lock();
    let colour = crate::ui::colours_on(&err);
    let (error, hint, end) = if colour { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
    let _ = writeln!(err, "{error}error:{end} {}", problem.what);
    if let Some(advice) = problem.hint.clone().or_else(|| next_step(problem, verb().as_deref())) {
        let _ = writeln!(err, "{hint}hint:{end} {advice}");
    }
}

/// What to do next where whoever found the problem had nothing better to say.
fn next_step(problem: &Problem, verb: Option<&str>) -> Option<String> {
    match problem.code {
        Code::Usage => match verb {
            Some(verb) => Some(format!("`berth {verb} --help` says what it takes")),
            None => Some("`berth help` lists the commands".to_owned()),
        },
        Code::NotFound => Some("`berth ls --all` lists what there is".to_owned()),
        Code::Unreachable => Some("`berth why S` shows what is known".to_owned()),
        Code::Held | Code::InUse | Code::TimedOut | Code::Full => Some("try again in a moment".to_owned()),
        Code::NeedsYes => Some("say so with --yes".to_owned()),
        Code::Bug => Some(
            "this is a mistake in berth: report it, with what `berth -vv` and `berth doctor` say".to_owned(),
        ),
        // The host would not let us; a polite no says itself what can be done.
        Code::Refused if problem.what.starts_with("cannot ") => {
            Some("`berth doctor` looks at the state directory, the disk and this host".to_owned())
        }
        Code::NotAllowed => Some("somebody outside of the session can do it, or grant it".to_owned()),
        Code::Refused | Code::Unavailable => None,
    }
}

/// The command that was typed.
fn verb() -> Option<String> {
    let known = crate::help::command();
    std::env::args().skip(1).find(|word| known.find_subcommand(word).is_some())
}

/// A remark that is neither data nor an error: not for somebody who wants it quiet.
pub(crate) fn note(text: &str) {
    if crate::ui::is_quiet() {
        return;
    }
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints text to standard output, and admits it when that fails.
pub(crate) fn text(text: &str) -> Result<(), Problem> {
    bytes(text.as_bytes())
}

/// Prints what an agent said. To a terminal nothing of it is a command; a file and a pipe get what was said.
pub(crate) fn said(words: &str) -> Result<(), Problem> {
    if io::stdout().is_terminal() { text(&visible(words)) } else { text(words) }
}

/// Prints bytes to standard output, and admits it when that fails.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // The reader has had enough, as in `berth log S | head`: end as any filter does.
            std::process::exit(128 + rustix::process::Signal::PIPE.as_raw());
        }
        Problem::new(Code::Refused, format!("cannot write to standard output: {error}"))
    })
}

/// Prints data for programs.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Problem> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Problem::new(Code::Bug, format!("cannot print as JSON: {error}")))?;
    text(&(json + "\n"))
}

/// How long ago, in one unit.
pub(crate) fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// A length of time as one would type it: exact, in as few units as it takes.
pub(crate) fn span(ms: u64) -> String {
    let units = [(7 * 86_400_000, "w"), (86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let fits = units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
}

/// How long before now.
pub(crate) fn ago(then: Timestamp) -> String {
    age(berth_host::clock::wall_ms().saturating_sub(then.0))
}

/// How many bytes, in one unit.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    // Tenths, rounded: people compare 1.5 with 1.6, and 150 with 160.
    let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
    match tenths {
        0..100 => format!("{}.{} {name}", tenths / 10, tenths % 10),
        _ => format!("{} {name}", (tenths + 5) / 10),
    }
}

/// How a run ended, in a few words.
pub(crate) fn ending(status: &Status) -> Option<String> {
    let how = match (status.signal, status.exit, &status.failure) {
        _ if status.oom => "killed: out of memory".to_owned(),
        (Some(signal), _, _) => format!("killed by {}", signal_name(signal)),
        (None, Some(code), _) => format!("exit {code}"),
        (None, None, Some(failure)) => failure.clone(),
        (None, None, None) => return None,
    };
    let stopped = status.stopped_by.as_ref().map(|by| format!(", stopped by {}", by.place));
    Some(how + &stopped.unwrap_or_default())
}

fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        6 => "SIGABRT",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}

/// The colour of a state.
pub(crate) fn painted(state: &str, width: usize) -> String {
    let padded = format!("{state:width$}");
    if !crate::tty::wants_colour() {
        return padded;
    }
    let colour = match state {
        "running" | "working" | "ok" | "done" => "32",
        "needs-you" | "unknown" => "35",
        "starting" | "stopping" | "limited" | "queued" | "delivered" | "interrupted" => "33",
        "lost" | "missing" | "failed" => "31",
        _ => "2",
    };
    format!("\x1b[{colour}m{padded}\x1b[0m")
}

/// A command line as one would type it, without its secrets, shortened.
pub(crate) fn command_line(command: &[String], limit: usize) -> String {
    cut(&redact::command_line(command), limit)
}

/// The beginning of a text that fits.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

/// A text of somebody else, as it is: what a terminal would obey is made visible.
pub(crate) fn visible(text: &str) -> String {
    let show = |c: char| match c {
        '\n' | '\t' => c,
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or('?'),
        '\x7f' => '\u{2421}',
        c if c.is_control() => '?',
        c => c,
    };
    text.chars().map(show).collect()
}

/// The beginning of a text, on one line.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_advice_of_its_own_gets_the_next_step_of_its_kind() {
        let step = |code, what: &str| next_step(&Problem::new(code, what), Some("run"));
        assert_eq!(step(Code::Usage, "x").as_deref(), Some("`berth run --help` says what it takes"));
        assert!(step(Code::Refused, "cannot write /x: no space").is_some_and(|step| step.contains("doctor")));
        assert_eq!(step(Code::Refused, "cancelled; nothing was done"), None);
        for code in [
            Code::NotFound,
            Code::Held,
            Code::InUse,
            Code::Unreachable,
            Code::TimedOut,
            Code::NeedsYes,
            Code::NotAllowed,
            Code::Full,
            Code::Bug,
        ] {
            assert!(step(code, "x").is_some(), "{code:?}");
        }
    }

    #[test]
    fn a_span_is_told_as_one_would_type_it() {
        let spans =
            [(0, "0ms"), (1500, "1500ms"), (90_000, "90s"), (600_000, "10m"), (86_400_000 * 30, "30d")];
        for (ms, text) in spans {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn sizes_have_two_or_three_digits() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(10 << 20), "10 MiB");
        assert_eq!(size((9 << 20) + (1 << 20) / 10 * 6), "9.6 MiB");
        assert_eq!(size(180 << 20), "180 MiB");
        assert_eq!(size(u64::MAX), "17179869184 GiB");
    }
}
