//! Times as people write them.

use std::time::Duration;

/// `500ms`, `5s`, `2m`, `1h`, `30d`, `2w`, or plain seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 =
        digits.parse().map_err(|_| "a time is a number and ms, s, m, h, d or w, as in 5s".to_owned())?;
    let seconds = match &text[digits.len()..] {
        "ms" => number / 1000.0,
        "s" | "" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        "w" => number * 7.0 * 86_400.0,
        unit => return Err(format!("`{unit}` is no unit of time; use ms, s, m, h, d or w")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} is no possible time"))
}
