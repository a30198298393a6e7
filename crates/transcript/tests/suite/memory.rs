//! Tests of memory use: it stays small, however large a transcript is.

use std::fs;
use std::io::Write;
use std::path::Path;

use berth_transcript::check::{FindingKind, check};
use berth_transcript::repair::{RepairOptions, repair};
use berth_transcript::tree::tree;
use serde_json::json;

use crate::common::TranscriptTestHome;
use crate::common::talk::{SESSION, answer, call, id, lines, prompt};

/// Peak memory of this process.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[test]
fn a_line_of_200_mb_and_many_records_take_little_memory() {
    let home = TranscriptTestHome::new();
    let path = home.0.join("talk.jsonl");
    let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    file.write_all(&lines(&[prompt(1, 0, "A")])).unwrap();
    let long = answer(2, 1, "@@").to_string();
    let (begin, end) = long.split_once("@@").unwrap();
    file.write_all(begin.as_bytes()).unwrap();
    for _ in 0..200 {
        file.write_all(&[b'x'; 1 << 20]).unwrap();
    }
    file.write_all(format!("{end}\n").as_bytes()).unwrap();
    for number in 3..100_000 {
        let (kind, parent) = (if number % 2 == 0 { "assistant" } else { "user" }, number - 1);
        let (uuid, parent) = (id(number), id(parent));
        writeln!(
            file,
            "{{\"parentUuid\":\"{parent}\",\"type\":\"{kind}\",\"uuid\":\"{uuid}\",\"sessionId\":\"{SESSION}\",\"message\":{{\"content\":\"x\"}}}}"
        )
        .unwrap();
    }
    file.flush().unwrap();
    let before = peak_kib();
    let report = check(&path, &mut |_| {}).unwrap();
    let grew = peak_kib() - before;
    assert_eq!((report.records, report.findings), (99_999, Vec::new()));
    assert!(grew < 24 << 10, "it took {grew} KiB");
}

#[test]
fn large_records_that_are_looked_up_take_little_memory() {
    let home = TranscriptTestHome::new();
    let path = home.0.join("talk.jsonl");
    let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    file.write_all(&lines(&[prompt(1, 0, "A")])).unwrap();
    let many = vec![r#"{"a":1}"#; 400_000].join(",");
    for number in 2..12 {
        let mut open = call(number, number - 1, &format!("t{number}"), "m");
        open["message"]["content"][0]["input"] = json!("@@");
        writeln!(file, "{}", open.to_string().replace("\"@@\"", &format!("[{many}]"))).unwrap();
    }
    file.flush().unwrap();
    drop(many);
    let before = peak_kib();
    let report = check(&path, &mut |_| {}).unwrap();
    let grew = peak_kib() - before;
    assert_eq!(
        (report.findings.len(), report.findings[9].text.as_str()),
        (10, "Bash was called and there is no result")
    );
    assert!(grew < 24 << 10, "it took {grew} KiB");
}

/// A transcript whose second line is `begin`, then `piece` again and again, then `end`.
fn long_line(path: &Path, begin: &str, piece: &str, bytes: usize, end: &str) {
    let mut file = std::io::BufWriter::new(fs::File::create(path).unwrap());
    file.write_all(&lines(&[prompt(1, 0, "A")])).unwrap();
    file.write_all(begin.as_bytes()).unwrap();
    for _ in 0..bytes / piece.len() {
        file.write_all(piece.as_bytes()).unwrap();
    }
    file.write_all(format!("{end}\n").as_bytes()).unwrap();
    file.flush().unwrap();
}

#[test]
fn one_record_that_repeats_itself_takes_little_memory() {
    let home = TranscriptTestHome::new();
    let path = home.0.join("talk.jsonl");
    let session = format!("\"sessionId\":\"{SESSION}\",");
    let ids = format!("\"uuid\":\"{}\",\"parentUuid\":\"{}\",\"type\":\"assistant\"", id(2), id(1));
    long_line(&path, "{", &session, 60 << 20, &format!("{ids}}}"));
    let before = peak_kib();
    assert_eq!(check(&path, &mut |_| {}).unwrap().findings, []);
    let content = format!("{{{session}{ids},\"message\":{{\"content\":[");
    let calls = "{\"type\":\"tool_use\",\"id\":\"t\"},";
    long_line(&path, &content, calls, 60 << 20, "0]}}");
    check(&path, &mut |_| {}).unwrap();
    let grew = peak_kib() - before;
    assert!(grew < 16 << 10, "it took {grew} KiB");
}

#[test]
fn a_file_of_2_gb_takes_little_memory() {
    let home = TranscriptTestHome::new();
    let path = home.0.join("talk.jsonl");
    fs::write(&path, [&lines(&[prompt(1, 0, "A"), answer(2, 1, "a")])[..], b"{\"x\":\""].concat()).unwrap();
    // A hole: zeroes that take no room.
    fs::File::options().append(true).open(&path).unwrap().set_len(2 << 30).unwrap();
    fs::File::options().append(true).open(&path).unwrap().write_all(b"\n").unwrap();
    let before = peak_kib();
    let report = check(&path, &mut |_| {}).unwrap();
    let grew = peak_kib() - before;
    assert_eq!(
        (report.findings[0].what, report.findings[0].line, report.bytes),
        (FindingKind::TornLine, 3, (2 << 30) + 1)
    );
    assert!(grew < 16 << 10, "it took {grew} KiB");
}

#[test]
fn a_long_line_is_copied_and_drawn_in_little_memory() {
    let home = TranscriptTestHome::new();
    let (path, copy) = (home.0.join("talk.jsonl"), home.0.join("copy.jsonl"));
    let long = answer(2, 1, "@@").to_string();
    let (begin, end) = long.split_once("@@").unwrap();
    long_line(&path, begin, "many words ", 64 << 20, end);
    let more = lines(&[prompt(4, 3, "B")]);
    fs::File::options().append(true).open(&path).unwrap().write_all(&more).unwrap();
    let before = peak_kib();
    let made = repair(&path, &copy, &RepairOptions::default()).unwrap();
    assert_eq!((made.changes.len(), made.left.len()), (1, 0), "{made:#?}");
    let drawn = tree(&copy, &mut |_| {}).unwrap();
    let grew = peak_kib() - before;
    assert_eq!(drawn.turns.len(), 2, "{drawn:#?}");
    assert!(grew < 24 << 10, "it took {grew} KiB");
}
