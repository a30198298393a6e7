//! Tests of transcripts that a process writes while they are read.

use std::fs;
use std::io::Write;

use berth_transcript::check::{FindingKind, FindingSeverity, TranscriptReport, check};
use berth_transcript::repair::RepairOptions;
use serde_json::{Value, json};

use crate::common::copies::RepairFixture;
use crate::common::talk::{answer, call, lines, prompt, result, resumed};

/// Checks a file that `meanwhile` changes during the check.
fn look(bytes: &[u8], meanwhile: impl FnOnce(&mut fs::File)) -> TranscriptReport {
    let place = RepairFixture::new(bytes);
    let mut meanwhile = Some(meanwhile);
    check(&place.original, &mut |_| {
        if let Some(meanwhile) = meanwhile.take() {
            meanwhile(&mut fs::File::options().append(true).open(&place.original).unwrap());
        }
    })
    .unwrap()
}

fn found(report: &TranscriptReport) -> Vec<(FindingKind, u64, FindingSeverity)> {
    report.findings.iter().map(|one| (one.what, one.line, one.weight)).collect()
}

/// Two parallel tools, one of which still runs, after one that was interrupted long ago.
fn at_work() -> Vec<Value> {
    vec![
        prompt(1, 0, "A"),
        call(2, 1, "lost", "m"),
        prompt(3, 2, "B"),
        call(4, 3, "t1", "m2"),
        call(5, 4, "t2", "m2"),
        result(6, 5, "t2", "x"),
    ]
}

#[test]
fn a_call_at_the_end_of_a_file_that_grows_is_a_note_and_an_earlier_one_is_not() {
    let note = json!({"type": "queue-operation", "sessionId": crate::common::talk::SESSION});
    let report = look(&lines(&at_work()), |file| file.write_all(&lines(&[note])).unwrap());
    assert_eq!(
        found(&report),
        [
            (FindingKind::Growing, 0, FindingSeverity::Note),
            (FindingKind::CallWithoutResult, 2, FindingSeverity::Fault),
            (FindingKind::CallWithoutResult, 4, FindingSeverity::Note)
        ],
        "{report:#?}"
    );
}

#[test]
fn a_call_at_the_end_of_a_file_that_a_process_has_open_is_a_note_that_names_the_process() {
    let mut report = look(&lines(&at_work()), |_| {});
    assert!(report.may_be_at_work() && report.faults() == 2, "{report:#?}");
    report.is_held_by("claude, pid 7");
    assert_eq!(report.faults(), 1, "{report:#?}");
    let note = report.findings.iter().find(|one| one.line == 4).unwrap();
    assert_eq!(note.text, "Bash was called and there is no result yet: claude, pid 7 has it open");
    // An answer after a call proves that the call is over.
    let over = [at_work(), vec![answer(7, 6, "b")]].concat();
    assert!(!look(&lines(&over), |_| {}).may_be_at_work());
}

#[test]
fn a_record_that_is_being_written_is_a_note() {
    let bytes = [&lines(&[prompt(1, 0, "A")])[..], b"{\"type\":\"assis"].concat();
    let report = look(&bytes, |file| file.write_all(b"tant\"").unwrap());
    assert!(report.is_clean(), "{report:#?}");
    assert!(!look(&bytes, |_| {}).is_clean());
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_not_clean() {
    let bytes = lines(&[prompt(1, 0, "A"), answer(2, 1, "a")]);
    let report = look(&bytes, |file| file.set_len(20).unwrap());
    assert_eq!(found(&report), [(FindingKind::Shrinking, 0, FindingSeverity::Fault)]);
    // And where the end of it was not read at all.
    let long: Vec<Value> = (1..2000).map(|at| prompt(at, at - 1, &"words ".repeat(200))).collect();
    let report = look(&lines(&long), |file| file.set_len(1 << 20).unwrap());
    assert!(found(&report).contains(&(FindingKind::Shrinking, 0, FindingSeverity::Fault)), "{report:#?}");
}

#[test]
fn no_result_is_made_up_for_a_tool_of_a_running_agent() {
    let place = RepairFixture::new(&lines(&at_work()));
    let held = RepairOptions { is_held: true, ..RepairOptions::default() };
    let made = place.repair(&held).unwrap();
    let left: Vec<FindingKind> = made.left.iter().map(|one| one.what).collect();
    assert_eq!(left, [FindingKind::CallWithoutResult], "{made:#?}");
    let copy = fs::read_to_string(&place.copy).unwrap();
    let results: Vec<Value> = copy
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|record| record["toolDenialKind"] == "interrupted")
        .map(|record| record["message"]["content"][0]["tool_use_id"].clone())
        .collect();
    assert_eq!(results, ["lost"], "{copy}");
    // Even if another writer's turn comes after it in the copy.
    let fork = [
        prompt(1, 0, "0"),
        answer(2, 1, "0"),
        prompt(3, 2, "A"),
        prompt(4, 2, "B"),
        answer(5, 4, "b"),
        call(6, 3, "t", "m"),
    ];
    let place = RepairFixture::new(&lines(&fork));
    let made = place.repair(&held).unwrap();
    let copy = fs::read(&place.copy).unwrap();
    assert!(!String::from_utf8_lossy(&copy).contains("toolDenialKind"), "{made:#?}");
    assert_eq!(resumed(&copy), ["0", "0", "A", "Bash", "B", "b"]);
}
