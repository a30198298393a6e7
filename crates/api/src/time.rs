//! Durations as people write them.

use std::time::Duration;

/// Parses `500ms`, `5s`, `2m`, `1h`, `30d`, `2w`, or plain seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
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
        unit => return Err(format!("`{unit}` is not a unit of time; use ms, s, m, h, d or w")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} is not a possible time"))
}

/// Parses a [`parse_duration`] into milliseconds.
pub fn parse_milliseconds(text: &str) -> Result<u64, String> {
    parse_duration(text).map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("7"), Ok(Duration::from_secs(7)));
        assert_eq!(parse_duration("30d"), Ok(Duration::from_secs(30 * 24 * 3600)));
        assert_eq!(parse_duration("2w"), parse_duration("14d"));
        for bad in ["", "s", "-1s", "5 parsecs", "nan", "inf"] {
            assert!(parse_duration(bad).is_err(), "{bad} was taken for a time");
        }
    }
}
