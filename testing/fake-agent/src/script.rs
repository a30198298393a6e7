//! The script: words in, steps out.
//!
//! Promise: a script is understood as a whole or refused with the word that is wrong.
//! Not here: doing anything (see `agent`).
//! Start with [`parse`].

use std::path::PathBuf;

/// One thing to do. Each is explained in `--help`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScriptStep {
    Say(Vec<u8>),
    Flood {
        bytes: u64,
        coloured: bool,
    },
    Report {
        variables: Vec<String>,
    },
    Winch,
    Close,
    CloseAll,
    ExpectLine,
    Expect(Vec<u8>),
    Raw,
    Echo {
        until: Option<Vec<u8>>,
    },
    Ignore(Vec<SignalNumber>),
    Sleep {
        ms: u64,
    },
    Hang,
    Exit(u8),
    Die(SignalNumber),
    Witness(PathBuf),
    Hog {
        bytes: u64,
    },
    OwnUid,
    Child(Vec<ScriptStep>),
    Setsid,
    Orphan,
    Daemonise,
    /// Carries the words that are left, because the process executes itself with them.
    EmptyEnvironment {
        rest: Vec<String>,
    },
    Loop {
        times: Option<u64>,
        steps: Vec<ScriptStep>,
    },
    Pidfile(PathBuf),
    Touch(PathBuf),
    WaitFile(PathBuf),
    Record {
        path: PathBuf,
        times: Option<u64>,
    },
    Tear(PathBuf),
    ListenTcp {
        port: u16,
    },
    ListenUnix(PathBuf),
}

impl ScriptStep {
    /// True if a child doing this is still on its way to its final form. Its parent waits for the end of these, so that
    /// a test need not.
    pub(crate) fn settles(&self) -> bool {
        matches!(
            self,
            Self::Setsid
                | Self::Orphan
                | Self::Daemonise
                | Self::EmptyEnvironment { .. }
                | Self::Ignore(_)
                | Self::Close
                | Self::CloseAll
                | Self::Witness(_)
                | Self::OwnUid
                | Self::Pidfile(_)
                | Self::ListenTcp { .. }
                | Self::ListenUnix(_)
        )
    }
}

/// A signal number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SignalNumber(pub(crate) i32);

/// Understands a whole script.
pub(crate) fn parse(words: &[String]) -> Result<Vec<ScriptStep>, String> {
    if words.is_empty() {
        return Err("no steps given".to_owned());
    }
    let mut rest = words;
    let steps = block(&mut rest)?;
    if rest.is_empty() { Ok(steps) } else { Err("`]` without `[`".to_owned()) }
}

/// Reads steps until the words end or a `]` is next.
fn block(words: &mut &[String]) -> Result<Vec<ScriptStep>, String> {
    let mut steps = Vec::new();
    while let Some((word, rest)) = words.split_first() {
        if word == "]" {
            break;
        }
        *words = rest;
        steps.push(step(word, words)?);
    }
    Ok(steps)
}

fn bracketed(word: &str, words: &mut &[String]) -> Result<Vec<ScriptStep>, String> {
    *words = words.strip_prefix(&["[".to_owned()]).ok_or(format!("`{word}` needs `[ STEP… ]` after it"))?;
    let steps = block(words)?;
    *words =
        words.strip_prefix(&["]".to_owned()]).ok_or(format!("the `[` after `{word}` is never closed"))?;
    Ok(steps)
}

fn step(word: &str, words: &mut &[String]) -> Result<ScriptStep, String> {
    let (verb, argument) = match word.split_once(':') {
        Some((verb, argument)) => (verb, Some(argument)),
        None => (word, None),
    };
    Ok(match (verb, argument) {
        ("say", Some(text)) => ScriptStep::Say(unescape(text)?),
        ("nl", None) => ScriptStep::Say(b"\n".to_vec()),
        ("flood", Some(size)) => ScriptStep::Flood { bytes: bytes(size)?, coloured: false },
        ("flood-colour", Some(size)) => ScriptStep::Flood { bytes: bytes(size)?, coloured: true },
        ("report", None) => ScriptStep::Report { variables: Vec::new() },
        ("report", Some(names)) => {
            ScriptStep::Report { variables: names.split(',').map(str::to_owned).collect() }
        }
        ("winch", None) => ScriptStep::Winch,
        ("close", None) => ScriptStep::Close,
        ("close-all", None) => ScriptStep::CloseAll,
        ("expect", None) => ScriptStep::ExpectLine,
        ("expect", Some(text)) if !text.is_empty() => ScriptStep::Expect(unescape(text)?),
        ("raw", None) => ScriptStep::Raw,
        ("echo", None) => ScriptStep::Echo { until: None },
        ("echo", Some(text)) if !text.is_empty() => ScriptStep::Echo { until: Some(unescape(text)?) },
        ("ignore", Some(names)) => {
            ScriptStep::Ignore(names.split(',').map(signal).collect::<Result<_, _>>()?)
        }
        ("sleep", Some(ms)) => ScriptStep::Sleep { ms: number(ms)? },
        ("hang", None) => ScriptStep::Hang,
        ("exit", Some(code)) => ScriptStep::Exit(number(code)?),
        ("die", Some(name)) => ScriptStep::Die(signal(name)?),
        ("witness", Some(path)) if !path.is_empty() => ScriptStep::Witness(path.into()),
        ("hog", Some(size)) => ScriptStep::Hog { bytes: bytes(size)? },
        ("own-uid", None) => ScriptStep::OwnUid,
        ("child", None) => ScriptStep::Child(bracketed(word, words)?),
        ("setsid", None) => ScriptStep::Setsid,
        ("orphan", None) => ScriptStep::Orphan,
        ("daemonise", None) => ScriptStep::Daemonise,
        ("env-i", None) => ScriptStep::EmptyEnvironment { rest: rest_of_block(words) },
        ("loop", None) => ScriptStep::Loop { times: None, steps: bracketed(word, words)? },
        ("loop", Some(times)) => {
            ScriptStep::Loop { times: Some(number(times)?), steps: bracketed(word, words)? }
        }
        ("pidfile", Some(path)) => ScriptStep::Pidfile(path.into()),
        ("touch", Some(path)) => ScriptStep::Touch(path.into()),
        ("wait-file", Some(path)) => ScriptStep::WaitFile(path.into()),
        ("record", Some(argument)) => {
            let (path, times) = argument.rsplit_once(':').ok_or(format!("`{word}` needs PATH:N"))?;
            ScriptStep::Record { path: path.into(), times: Some(number(times)?) }
        }
        ("records", Some(path)) => ScriptStep::Record { path: path.into(), times: None },
        ("tear", Some(path)) => ScriptStep::Tear(path.into()),
        ("listen-tcp", Some(port)) => ScriptStep::ListenTcp { port: number(port)? },
        ("listen-unix", Some(path)) if !path.is_empty() => ScriptStep::ListenUnix(path.into()),
        (_, _) => return Err(format!("`{word}` is not a step")),
    })
}

/// The words up to the `]` that ends the block they are in.
fn rest_of_block(words: &[String]) -> Vec<String> {
    let mut depth = 0;
    let mut rest = Vec::new();
    for word in words {
        match word.as_str() {
            "[" => depth += 1,
            "]" if depth == 0 => break,
            "]" => depth -= 1,
            _ => {}
        }
        rest.push(word.clone());
    }
    rest
}

pub(crate) fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that fits here"))
}

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let units = [("K", 1_u64 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    for (unit, factor) in units {
        if let Some(count) = text.strip_suffix(unit) {
            return Ok(number::<u64>(count)? * factor);
        }
    }
    number(text)
}

pub(crate) fn signal(name: &str) -> Result<SignalNumber, String> {
    let number = match name.strip_prefix("SIG").unwrap_or(name) {
        "HUP" => libc::SIGHUP,
        "INT" => libc::SIGINT,
        "QUIT" => libc::SIGQUIT,
        "ABRT" => libc::SIGABRT,
        "KILL" => libc::SIGKILL,
        "SEGV" => libc::SIGSEGV,
        "PIPE" => libc::SIGPIPE,
        "TERM" => libc::SIGTERM,
        "USR1" => libc::SIGUSR1,
        "USR2" => libc::SIGUSR2,
        "STOP" => libc::SIGSTOP,
        "TSTP" => libc::SIGTSTP,
        "TTIN" => libc::SIGTTIN,
        "TTOU" => libc::SIGTTOU,
        other => other.parse().map_err(|_| format!("`{name}` is not a signal"))?,
    };
    Ok(SignalNumber(number))
}

pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let wrong = || format!("`{text}` has an escape that is not one of \\n \\r \\t \\e \\\\ \\xNN");
        let (&letter, tail) = rest.split_first().ok_or_else(wrong)?;
        rest = tail;
        bytes.push(match letter {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'e' => 0x1b,
            b'\\' => b'\\',
            b'x' => {
                let (digits, tail) = rest.split_at_checked(2).ok_or_else(wrong)?;
                rest = tail;
                let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
                u8::from_str_radix(digits, 16).map_err(|_| wrong())?
            }
            _ => return Err(wrong()),
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(script: &str) -> Result<Vec<ScriptStep>, String> {
        parse(&script.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn half_a_character_and_an_escape_sequence_can_be_said() {
        assert_eq!(parsed(r"say:a\xc3\e[0m\\:\n"), Ok(vec![ScriptStep::Say(b"a\xc3\x1b[0m\\:\n".to_vec())]));
    }

    #[test]
    fn blocks_nest_and_env_i_takes_only_the_words_of_its_own_block() {
        let rest = ["loop:2", "[", "nl", "]"].map(str::to_owned).to_vec();
        let repeated = ScriptStep::Loop { times: Some(2), steps: vec![ScriptStep::Say(b"\n".to_vec())] };
        let child = ScriptStep::Child(vec![ScriptStep::EmptyEnvironment { rest }, repeated]);
        assert_eq!(parsed("child [ env-i loop:2 [ nl ] ] hang"), Ok(vec![child, ScriptStep::Hang]));
    }

    #[test]
    fn a_record_path_may_contain_a_colon() {
        let record = ScriptStep::Record { path: "/tmp/a:b".into(), times: Some(3) };
        assert_eq!(parsed("record:/tmp/a:b:3"), Ok(vec![record]));
    }

    #[test]
    fn a_wrong_script_is_refused_with_the_word_that_is_wrong() {
        let wrong = [
            "",
            "dance",
            "exit:300",
            "child",
            "child [ hang",
            "hang ]",
            r"say:\q",
            r"say:\x1",
            "flood:1T",
            "nl:1",
            "listen-tcp:70000",
            "listen-unix:",
        ];
        for script in wrong {
            assert!(parsed(script).is_err(), "`{script}` was accepted");
        }
        assert_eq!(parsed("nl dance"), Err("`dance` is not a step".to_owned()));
    }
}
