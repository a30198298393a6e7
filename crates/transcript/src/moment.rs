//! Moments as agents write them: `2026-11-16T08:57:35.614Z`.
//!
//! Promise: anything else is `None`. Not here: time zones, clocks.

/// Milliseconds since 1970.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut time = time.splitn(3, ':').map(str::parse::<u64>);
    let (hour, minute, second) = (time.next()?.ok()?, time.next()?.ok()?, time.next()?.ok()?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // A minute may have a leap second.
    if hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let fraction: u64 = fraction.get(..fraction.len().min(3))?.parse::<u64>().ok()?
        * match fraction.len() {
            1 => 100,
            2 => 10,
            _ => 1,
        };
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + (day - 1) - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn moments_are_counted_from_1970() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse("2000-02-29T12:34:56.7Z"), Some(951_827_696_700));
        assert_eq!(parse("2026-11-16T08:57:35.614Z"), Some(1_794_819_455_614));
        assert_eq!(parse("2026-11-16T08:57:35.614999Z"), Some(1_794_819_455_614));
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "Z",
            "2026-11-16",
            "2026-13-16T08:57:35Z",
            "2026-11-16T08:57Z",
            "T.Z",
            "0000-01-01T00:00:00Z",
            "2026-11-16T99999999999999999:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("2026-11-16T08:57:35.é1Z"), None);
    }
}
