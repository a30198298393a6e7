//! Tests with lines that are whole, torn, long or odd.

use super::*;

const ONE: &str = r#"{"type":"user","sessionId":"s","uuid":"a"}"#;

/// The reports as texts: `2 record 43..80` and so on.
fn seen(source: impl Read) -> (Vec<String>, ScanTotals) {
    let mut all = Vec::new();
    let walked = scan_records(
        source,
        u64::MAX,
        |_, _| {},
        |place, seen| {
            let what = match seen {
                ScannedItem::Record(_) => "record".to_owned(),
                ScannedItem::Flaw(flaw) => format!("{flaw:?}"),
            };
            let last = if place.is_last { " last" } else { "" };
            all.push(format!("{} {what} {}..{}{last}", place.line, place.bytes.start, place.bytes.end));
        },
    );
    (all, walked.unwrap())
}

fn all(text: &[u8]) -> Vec<String> {
    seen(text).0
}

#[test]
fn readable_records_around_a_flaw_are_read() {
    let line = |text: &str| all(text.as_bytes());
    assert_eq!(line(&format!("{ONE}\n\n{ONE}")), ["1 record 0..42", "3 record 44..86 last"]);
    assert_eq!(line(&format!("{ONE}{ONE}\n")), ["1 record 0..42", "1 Fused 42..84", "1 record 42..84"]);
    assert_eq!(
        line(&format!("{{\"type\":\"us{ONE}\n")),
        ["1 Torn 0..11", "1 Fused 11..53", "1 record 11..53"]
    );
    assert_eq!(line(&format!("\0\0{ONE}\0\n")), ["1 Zeroes 0..2", "1 record 2..44", "1 Zeroes 44..45"]);
    assert_eq!(
        line(&format!("{ONE}\n{{\"a\":\0\0")),
        ["1 record 0..42", "2 Torn 43..48", "2 Zeroes 48..50 last"]
    );
    // These bytes look like a record, but are only a part of one whose rest is missing.
    assert_eq!(line("{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"x\"}"), ["1 Torn 0..49 last"]);
    let mut bad = ONE.as_bytes().to_vec();
    bad[39] = 0xff;
    assert_eq!(all(&bad), ["1 NotUtf8 0..42 last", "1 record 0..42 last"]);
    assert_eq!(line("12\n\"text\"\n"), ["1 Torn 0..2", "2 Torn 3..9"]);
}

#[test]
fn a_line_longer_than_memory_is_walked_through_like_any_other() {
    let size = MAX_HELD_BYTES * 3 + 17;
    let begin = r#"{"type":"user","sessionId":"s","message":{"content":""#;
    let x = |count: usize| io::repeat(b'x').take(count as u64);
    let whole = || begin.as_bytes().chain(x(size)).chain(&b"\"}}"[..]);
    let length = begin.len() + size + 3;
    let (found, walked) = seen(whole().chain(&b"\n"[..]).chain(ONE.as_bytes()));
    assert_eq!(
        found,
        [format!("1 record 0..{length}"), format!("2 record {}..{} last", length + 1, length + 43)]
    );
    assert_eq!((walked.lines, walked.bytes), (2, length as u64 + 43));
    let (found, _) = seen(whole().chain(whole()));
    let fused = format!("{length}..{} last", length * 2);
    assert_eq!(
        found,
        [format!("1 record 0..{length}"), format!("1 Fused {fused}"), format!("1 record {fused}")]
    );
    let (found, _) = seen(begin.as_bytes().chain(x(size)).chain(&b"\n"[..]).chain(ONE.as_bytes()));
    assert_eq!(found[0], format!("1 Torn 0..{}", begin.len() + size));
    assert!(found[1].starts_with("2 record"), "{found:?}");
    let (found, _) = seen(io::repeat(0).take(size as u64));
    assert_eq!(found, [format!("1 Zeroes 0..{size} last")]);
    // Characters that are cut by the pieces are whole, and an invalid one is found.
    let wide = "é".repeat(size / 2);
    let (found, _) = seen(begin.as_bytes().chain(wide.as_bytes()).chain(&b"\"}}"[..]));
    assert_eq!(found.len(), 1, "{found:?}");
    let (found, _) = seen(begin.as_bytes().chain(x(size)).chain(&b"\xff\"}}"[..]));
    assert!(found[1].starts_with("1 NotUtf8"), "{found:?}");
}

#[test]
fn a_record_behind_damage_on_a_long_line_is_read() {
    let size = MAX_HELD_BYTES * 2;
    let torn = [&b"{\"type\":\"user\",\"message\":{\"content\":\"\xc3"[..], &vec![b'x'; size][..]].concat();
    let zeroes = [0; 4096];
    // A part of a record after it is not a record.
    for (part, parts) in [(&b""[..], 0), (b"{\"type\":\"text\"}\0", 2)] {
        let (found, _) =
            seen(&[&torn[..], &zeroes, part, ONE.as_bytes(), b"\n", ONE.as_bytes()].concat()[..]);
        let words: Vec<&str> = found.iter().filter_map(|one| one.split(' ').nth(1)).collect();
        let expected = ["Torn", "Zeroes", "Torn", "Zeroes", "Fused", "record", "record"];
        assert_eq!(words, [&expected[..2], &expected[4 - parts..]].concat(), "{found:?}");
        let from = torn.len() + zeroes.len() + part.len();
        assert!(found.contains(&format!("1 record {from}..{}", from + 42)), "{found:?}");
    }
}

#[test]
fn a_growing_file_is_read_to_the_end_of_the_line_that_was_the_last() {
    let text = format!("{ONE}\n{ONE}\n{ONE}\n");
    let mut count = 0;
    let walked = scan_records(text.as_bytes(), 50, |_, _| {}, |_, _| count += 1).unwrap();
    assert_eq!((count, walked.grew, walked.bytes), (2, true, 86));
    let walked = scan_records(text.as_bytes(), 129, |_, _| {}, |_, _| {}).unwrap();
    assert!(!walked.grew);
}

#[test]
fn an_odd_line_is_read_in_a_time_that_grows_with_it_and_not_faster() {
    // Many records on one line; with a scan of the whole rest for each, this would not end.
    let many = "{}".repeat(200_000);
    assert_eq!(all(many.as_bytes()).iter().filter(|one| one.contains("record")).count(), 200_000);
    // Many places at which a record may begin, none of which ends.
    let torn = format!("{}{}", "{\"a\":[".repeat(200), "1,".repeat(1 << 20));
    assert_eq!(all(torn.as_bytes()), [format!("1 Torn 0..{} last", torn.len())]);
}

#[test]
fn a_long_record_with_bytes_that_are_not_utf_8_is_found_whatever_is_behind_it() {
    for end in [&b""[..], b"  ", b"\n", b" \r\n"] {
        let words = vec![b'x'; MAX_HELD_BYTES];
        let record = [b"{\"a\":\"", &words[..], b"\xff\"}"].concat();
        let length = record.len();
        let seen: Vec<String> = all(&[&record[..], end].concat());
        let words: Vec<&str> = seen.iter().filter_map(|one| one.split(' ').nth(1)).collect();
        assert_eq!(words, ["record", "NotUtf8"], "{seen:?}");
        assert!(seen[1].contains(&format!("0..{length}")), "{seen:?}");
    }
}
