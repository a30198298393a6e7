//! Tests of tool calls and their results: which belong together.

use berth_transcript::check::{FindingKind, check};
use serde_json::{Value, json};

use crate::common::copies::{RepairFixture, mends};
use crate::common::talk::{SESSION, answer, call, interrupted, lines, prompt, result};

#[track_caller]
fn finds(records: &[Value], expected: &[(FindingKind, u64)]) {
    let place = RepairFixture::new(&lines(records));
    let report = check(&place.original, &mut |_| {}).unwrap();
    let found: Vec<(FindingKind, u64)> = report.findings.iter().map(|one| (one.what, one.line)).collect();
    assert_eq!(found, expected, "{report:#?}");
}

const INTERRUPTED: &str = "[Tool call interrupted: the session ended before this call's result was recorded, so its \
                           outcome is unknown. Check whether it took effect before relying on it or running it again.]";

#[test]
fn a_provider_that_counts_its_calls_anew_in_every_turn_is_no_fault() {
    let records = [
        prompt(1, 0, "A"),
        call(2, 1, "call_0", "m"),
        result(3, 2, "call_0", "one"),
        call(4, 3, "call_0", "m2"),
        result(5, 4, "call_0", "two"),
        answer(6, 5, "a"),
    ];
    finds(&records, &[]);
    let (made, _) = mends(&records, &["A", "Bash", "one", "Bash", "two", "a"]);
    assert!(made.changes.is_empty() && made.rest.is_none(), "{made:#?}");
    let line = |kind: &str, payload: Value| json!({"timestamp": "2026-11-16T09:00:00.000Z", "type": kind, "payload": payload});
    let call = line("response_item", json!({"type": "function_call", "call_id": "call_0", "name": "exec"}));
    let output =
        line("response_item", json!({"type": "function_call_output", "call_id": "call_0", "output": "x"}));
    let meta = line("session_meta", json!({"id": SESSION, "cwd": "/x"}));
    finds(&[meta, call.clone(), output.clone(), call, output], &[]);
}

#[test]
fn only_the_call_that_broke_off_gets_a_result_whatever_else_had_its_id() {
    let mut both = call(2, 1, "call_0", "m");
    let other = json!({"type": "tool_use", "id": "call_1", "name": "Read", "input": {}});
    both["message"]["content"].as_array_mut().unwrap().push(other);
    let records = [
        prompt(1, 0, "A"),
        both,
        result(3, 2, "call_0", "one"),
        answer(4, 3, "a"),
        prompt(5, 4, "B"),
        call(6, 5, "call_0", "m2"),
    ];
    finds(&records, &[(FindingKind::CallWithoutResult, 2), (FindingKind::CallWithoutResult, 6)]);
    let (_, place) = mends(&records, &["A", "Bash", "one", "a", "B", "Bash", INTERRUPTED]);
    let copy = std::fs::read_to_string(&place.copy).unwrap();
    let made_up: Vec<(usize, usize)> = (1..)
        .zip(copy.lines())
        .filter(|(_, line)| line.contains(INTERRUPTED))
        .map(|(at, line)| (at, line.matches("tool_use_id").count()))
        .collect();
    assert_eq!(made_up, [(3, 1), (8, 1)], "{copy}");
}

#[test]
fn a_result_that_another_writer_made_up_is_found_if_the_id_was_used_before() {
    let records = [
        prompt(1, 0, "A"),
        call(2, 1, "call_0", "m"),
        result(3, 2, "call_0", "one"),
        call(4, 3, "call_0", "m2"),
        interrupted(5, 4, "call_0"),
        result(6, 4, "call_0", "two"),
        answer(7, 6, "a"),
    ];
    finds(&records, &[(FindingKind::SecondResult, 6)]);
    mends(&records, &["A", "Bash", "one", "Bash", "two", "a"]);
}
