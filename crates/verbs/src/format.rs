//! Plain words for times, sizes and commands: one wording for terminals, files and pages.
//!
//! Promise: secrets of a command line are redacted, and foreign text contains no terminal controls.
//! Not here: colours and columns (see the CLI).

use berth_api::client::CLAIMED_SUFFIX;
use berth_api::record::Actor;
use berth_api::{SessionState, SessionStatus, Timestamp, redact};

/// Age in one unit.
pub fn describe_age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Duration in the form that a user would type: exact, in as few units as possible.
pub fn exact_duration(ms: u64) -> String {
    let units = [(7 * 86_400_000, "w"), (86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let fits = units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
}

/// Age of a time before now.
pub fn age_since(then: Timestamp) -> String {
    describe_age(berth_host::clock::wall_ms().saturating_sub(then.0))
}

/// Size in one unit.
pub fn describe_size(bytes: u64) -> String {
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

/// End of a run, in a few words.
pub fn exit_summary(status: &SessionStatus) -> Option<String> {
    Some(match (status.signal, status.exit, &status.failure) {
        _ if status.oom => "killed: out of memory".to_owned(),
        (Some(_), _, _) | (None, Some(_), _) if status.stopped_by.is_some() => {
            format!("stopped by {}", status.stopped_by.as_ref().map(stopped_by).unwrap_or_default())
        }
        (Some(signal), _, _) => format!("failed · killed by {}", signal_name(signal)),
        (None, Some(0), _) => "exit 0".to_owned(),
        (None, Some(code), _) => format!("failed · exit {code}"),
        (None, None, Some(failure)) => failure.clone(),
        (None, None, None) => return None,
    })
}

/// True if the last run failed by itself: no user and no policy ended it.
pub fn is_failed(status: &SessionStatus) -> bool {
    let ended_badly = status.oom || status.exit.is_some_and(|code| code != 0);
    let was_ended = status.stopped_by.is_some() || status.released.is_some();
    matches!(status.state, SessionState::Stopped | SessionState::Archived)
        && (status.failure.is_some() || (ended_badly && (status.oom || !was_ended)))
}

/// The party that ended a run: `you`, if a client of this account did that itself, else the place that the journal has. The place of
/// a client that came through the gateway names its token or login.
fn stopped_by(by: &Actor) -> String {
    let me = rustix::process::geteuid().as_raw();
    match by.place.strip_suffix(CLAIMED_SUFFIX) {
        Some(_) if by.uid == Some(me) => "you".to_owned(),
        Some(place) => place.to_owned(),
        None => by.place.clone(),
    }
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

/// A command line in the form that a user would type, with secrets redacted, shortened.
pub fn command_line(command: &[String], limit: usize) -> String {
    truncate(&redact::redact_command_line(command), limit)
}

/// The beginning of a text that fits.
pub fn truncate(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

/// True if a terminal obeys this character or shows nothing for it: C0 (with line breaks and tabs), DEL, C1, and
/// bidirectional controls.
pub fn is_control_character(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text with its control characters escaped: C0 and DEL as their pictures (`␛`), C1 and bidi controls as `\u{9b}`. Line
/// breaks and tabs stay; a carriage return before a line break goes. Text that has been escaped stays as it is.
pub fn escape_control_characters(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\0'..='\x1f' => shown.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('?')),
            '\x7f' => shown.push('\u{2421}'),
            c if is_control_character(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// JSON with the control characters that it allows in a text (DEL, C1, bidi controls) written as `\uXXXX`, which means
/// the same to every reader: in JSON every character that is not ASCII, and DEL, is part of a text.
pub fn visible_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_control_character(c) && c != '\n' {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// The beginning of a text, on one line.
pub fn first_words(text: &str, most: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !is_control_character(*c)).collect();
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_for_an_end_name_the_failure_or_the_party_that_stopped_the_run() {
        let me = rustix::process::geteuid().as_raw();
        let over = |exit, signal, stopped_by| SessionStatus {
            state: SessionState::Stopped,
            exit: Some(exit),
            signal,
            stopped_by,
            ..SessionStatus::default()
        };
        let by = |uid, place: &str| Some(Actor { pid: 1, uid, place: place.to_owned() });
        let cases = [
            (over(0, None, None), "exit 0", false),
            (over(3, None, None), "failed · exit 3", true),
            (over(137, Some(9), None), "failed · killed by SIGKILL", true),
            (over(143, Some(15), by(Some(me), "pts/3 on host (claimed)")), "stopped by you", false),
            (
                over(143, Some(15), by(Some(me), "token ci at 10.0.0.1")),
                "stopped by token ci at 10.0.0.1",
                false,
            ),
            (
                over(143, Some(15), by(Some(me + 1), "pts/4 on host (claimed)")),
                "stopped by pts/4 on host",
                false,
            ),
            (
                over(143, Some(15), by(None, "SIGTERM to the keeper")),
                "stopped by SIGTERM to the keeper",
                false,
            ),
        ];
        for (status, words, failed) in cases {
            assert_eq!((exit_summary(&status).as_deref(), is_failed(&status)), (Some(words), failed));
        }
    }

    #[test]
    fn a_span_is_told_as_one_would_type_it() {
        let spans =
            [(0, "0ms"), (1500, "1500ms"), (90_000, "90s"), (600_000, "10m"), (86_400_000 * 30, "30d")];
        for (ms, text) in spans {
            assert_eq!(exact_duration(ms), text);
        }
    }

    #[test]
    fn sizes_have_two_or_three_digits() {
        assert_eq!(describe_size(0), "0 B");
        assert_eq!(describe_size(1023), "1023 B");
        assert_eq!(describe_size(1536), "1.5 KiB");
        assert_eq!(describe_size(10 << 20), "10 MiB");
        assert_eq!(describe_size((9 << 20) + (1 << 20) / 10 * 6), "9.6 MiB");
        assert_eq!(describe_size(180 << 20), "180 MiB");
        assert_eq!(describe_size(u64::MAX), "17179869184 GiB");
    }

    #[test]
    fn control_characters_are_shown_and_line_breaks_and_tabs_stay() {
        assert_eq!(escape_control_characters("a\tb\r\nc\rd\x1b[2J\x07\x7f\0"), "a\tb\nc␍d␛[2J␇␡␀");
        assert_eq!(escape_control_characters("\u{80}\u{9b}\u{9f}\u{a0}"), "\\u{80}\\u{9b}\\u{9f}\u{a0}");
        assert_eq!(escape_control_characters("x\u{202e}y\u{2066}日本🙂"), "x\\u{202e}y\\u{2066}日本🙂");
        assert_eq!(first_words("a\x1b[2J\n b\u{9b}\u{202e}c", 20), "a[2J bc");
    }
}
