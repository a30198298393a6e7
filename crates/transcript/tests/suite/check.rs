//! Tests of findings, and of transcripts without findings.

use std::fs;
use std::io::Write;

use berth_transcript::check::{FindingKind, FindingSeverity, TranscriptReport, check};
use berth_transcript::repair::{RepairOptions, repair};
use serde_json::{Value, json};

use crate::common::talk::{SESSION, answer, call, id, interrupted, lines, made_up, prompt, record, result};
use crate::common::{TranscriptTestHome, real};

fn look(bytes: &[u8]) -> TranscriptReport {
    look_named("talk.jsonl", bytes)
}

fn look_named(name: &str, bytes: &[u8]) -> TranscriptReport {
    let home = TranscriptTestHome::new();
    let path = home.0.join(name);
    fs::write(&path, bytes).unwrap();
    check(&path, &mut |_| {}).unwrap()
}

/// Kinds and lines of the findings.
fn found(report: &TranscriptReport) -> Vec<(FindingKind, u64)> {
    report.findings.iter().map(|one| (one.what, one.line)).collect()
}

#[track_caller]
fn finds(records: &[Value], expected: &[(FindingKind, u64)]) -> TranscriptReport {
    let report = look(&lines(records));
    assert_eq!(found(&report), expected, "{report:#?}");
    report
}

#[test]
fn transcripts_of_real_agents_are_clean_except_for_the_damage_in_them() {
    for kind in ["claude", "codex"] {
        let dir = format!("{}/tests/real/{kind}", env!("CARGO_MANIFEST_DIR"));
        for entry in fs::read_dir(dir).unwrap() {
            let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
            let report = look(&real(kind, &name));
            assert_eq!(report.agent, Some(kind));
            let expected: &[(FindingKind, u64)] = match (kind, name.as_str()) {
                ("claude", "killed-in-tool") => &[(FindingKind::CallWithoutResult, 13)],
                ("claude", "two-writers") => &[(FindingKind::Fork, 19)],
                ("codex", "killed-in-tool" | "resumed-after-kill") => &[(FindingKind::CallWithoutResult, 8)],
                (_, _) => &[],
            };
            assert_eq!(found(&report), expected, "{kind} {name}: {report:#?}");
        }
    }
}

#[test]
fn a_fork_names_its_writers_and_the_turns_that_a_resume_loses() {
    let report = look(&real("claude", "two-writers"));
    let fork = &report.findings[0];
    assert_eq!((fork.weight, report.is_clean()), (FindingSeverity::Fault, false));
    let sides: Vec<_> =
        fork.branches.iter().map(|side| (side.resumed, side.from_line, side.to_line)).collect();
    assert_eq!(sides, [(true, 27, 27), (false, 22, 24)]);
    let lost: Vec<_> = report.lost.iter().map(|turn| (turn.line, turn.kind, turn.said.as_str())).collect();
    assert_eq!(lost, [(23, "prompt", "B words")]);
    assert_eq!(report.resumes_from, 27);
}

#[test]
fn an_answer_that_was_left_behind_is_told() {
    // The other writer finished last: the first answer is lost.
    let report = finds(
        &[
            prompt(1, 0, "A"),
            made_up(2, 1),
            answer(3, 1, "A's answer"),
            prompt(4, 2, "B"),
            answer(5, 4, "B's"),
        ],
        &[(FindingKind::Fork, 1)],
    );
    assert_eq!(report.lost[0].said, "A's answer");
    assert_eq!(report.lost[0].kind, "answer");
}

#[test]
fn a_leaf_that_the_agent_noted_counts_unless_something_hangs_on_it() {
    let fork = [prompt(1, 0, "A"), made_up(2, 1), prompt(3, 2, "B"), answer(4, 3, "b"), answer(5, 1, "a")];
    let noted = |leaf: u32| {
        let note = json!({"type": "last-prompt", "leafUuid": id(leaf), "sessionId": SESSION});
        look(&lines(&[&fork[..], &[note]].concat())).resumes_from
    };
    assert_eq!((noted(5), noted(4), noted(3), noted(99)), (5, 4, 5, 5));
}

#[test]
fn a_user_who_went_back_is_a_note() {
    let report = finds(
        &[
            prompt(1, 0, "A"),
            answer(2, 1, "a"),
            prompt(3, 2, "B"),
            answer(4, 3, "b"),
            prompt(5, 2, "C"),
            answer(6, 5, "c"),
        ],
        &[(FindingKind::Fork, 2)],
    );
    assert!(report.is_clean() && report.findings[0].weight == FindingSeverity::Note, "{report:#?}");
    assert_eq!(report.lost[0].said, "B");
    // With a newer version, and with a note before the prompt.
    let mut later = [record(5, 2, "attachment", Value::Null), prompt(6, 5, "C"), answer(7, 6, "c")];
    later.iter_mut().for_each(|record| record["version"] = json!("3.0.0"));
    let before = [prompt(1, 0, "A"), answer(2, 1, "a"), prompt(3, 2, "B"), answer(4, 3, "b")];
    let report = finds(&[&before[..], &later].concat(), &[(FindingKind::Fork, 2)]);
    assert!(
        report.is_clean() && report.findings[0].text.starts_with("the conversation went back"),
        "{report:#?}"
    );
}

#[test]
fn tools_that_ran_side_by_side_are_no_fork() {
    // As Claude Code writes it: each result hangs on its own call, and the answer on one of them.
    for last in [7, 6] {
        finds(
            &[
                prompt(1, 0, "A"),
                call(2, 1, "t1", "msg"),
                call(3, 2, "t2", "msg"),
                call(4, 3, "t3", "msg"),
                result(5, 2, "t1", "1"),
                result(6, 3, "t2", "2"),
                result(7, 4, "t3", "3"),
                answer(8, last, "done"),
            ],
            &[],
        );
    }
}

#[test]
fn sub_agents_and_compaction_are_no_fault() {
    let mut side = [prompt(10, 0, "inner"), answer(11, 10, "x"), answer(12, 10, "y")];
    side.iter_mut().for_each(|record| record["isSidechain"] = json!(true));
    let mut boundary = record(3, 0, "system", Value::Null);
    boundary["subtype"] = json!("compact_boundary");
    boundary["logicalParentUuid"] = json!(id(77));
    let all = [&[prompt(1, 0, "A"), answer(2, 1, "a")][..], &side, &[boundary, prompt(4, 3, "B")]].concat();
    finds(&all, &[]);
    // The file of a sub-agent itself is a tree like any other.
    finds(&side, &[(FindingKind::Fork, 1)]);
}

#[test]
fn missing_repeated_and_foreign_records_are_found() {
    finds(&[prompt(1, 0, "A"), answer(2, 1, "a"), prompt(4, 3, "B")], &[(FindingKind::MissingParent, 3)]);
    let report =
        finds(&[prompt(1, 0, "A"), answer(2, 1, "a"), prompt(3, 0, "B")], &[(FindingKind::SecondRoot, 1)]);
    assert_eq!(report.lost[0].said, "A");
    finds(
        &[prompt(1, 0, "A"), answer(2, 1, "a"), answer(2, 1, "a")],
        &[(FindingKind::Fork, 1), (FindingKind::DuplicateId, 3)],
    );
    let mut other = prompt(3, 2, "B");
    other["sessionId"] = json!("bbbbbbbb-2222-4333-8444-555555555555");
    finds(&[prompt(1, 0, "A"), answer(2, 1, "a"), other.clone()], &[(FindingKind::WrongSession, 3)]);
    // The name of the file counts more than the most records.
    let named = look_named(
        "bbbbbbbb-2222-4333-8444-555555555555.jsonl",
        &lines(&[prompt(1, 0, "A"), answer(2, 1, "a"), other]),
    );
    assert_eq!(found(&named), [(FindingKind::WrongSession, 1)]);
    let ring = finds(&[prompt(1, 2, "A"), answer(2, 1, "a")], &[(FindingKind::Ring, 2)]);
    assert!(!ring.is_clean());
}

#[test]
fn calls_and_results_that_do_not_pair_are_found() {
    finds(
        &[prompt(1, 0, "A"), call(2, 1, "t", "m"), prompt(3, 2, "B")],
        &[(FindingKind::CallWithoutResult, 2)],
    );
    finds(
        &[prompt(1, 0, "A"), result(2, 1, "t", "x"), answer(3, 2, "a")],
        &[(FindingKind::ResultWithoutCall, 2)],
    );
    // As in real transcripts: a second writer made a result up, and the tool went on.
    finds(
        &[
            prompt(1, 0, "A"),
            call(2, 1, "t", "m"),
            interrupted(3, 2, "t"),
            made_up(4, 3),
            prompt(5, 4, "B"),
            answer(6, 5, "b"),
            result(7, 2, "t", "real"),
            answer(8, 7, "a"),
        ],
        &[(FindingKind::Fork, 2), (FindingKind::SecondResult, 7)],
    );
    finds(
        &[
            prompt(1, 0, "A"),
            call(2, 1, "t", "m"),
            call(3, 2, "t", "m2"),
            result(4, 3, "t", "x"),
            answer(5, 4, "a"),
        ],
        &[(FindingKind::SecondCall, 3)],
    );
}

#[test]
fn broken_lines_are_found_with_their_numbers() {
    let good = lines(&[prompt(1, 0, "A"), answer(2, 1, "a")]);
    let text = String::from_utf8(good.clone()).unwrap();
    let (first, second) = text.trim_end().split_once('\n').unwrap();
    let case = |text: &str| found(&look(text.as_bytes()));
    assert_eq!(case(&format!("{first}\n{second}")), []);
    assert_eq!(case(&format!("{first}\n{}", &second[..20])), [(FindingKind::TornLine, 2)]);
    assert_eq!(case(&format!("{first}{second}\n")), [(FindingKind::FusedRecords, 1)]);
    assert_eq!(case(&format!("{first}\n{second}\n\0\0\0\0")), [(FindingKind::Zeroes, 3)]);
    assert_eq!(case(&format!("{first}\n{}\n{second}\n", &second[..30])), [(FindingKind::TornLine, 2)]);
    let mut bytes = good;
    let at = bytes.iter().position(|byte| *byte == b'A').unwrap();
    bytes[at] = 0xff;
    assert_eq!(found(&look(&bytes)), [(FindingKind::NotUtf8, 1)]);
}

#[test]
fn records_of_a_newer_version_are_not_a_finding() {
    let strange = json!({"type": "hologram", "uuid": "not a uuid", "parentUuid": 12, "sessionId": SESSION, "x": [[{}]]});
    finds(&[prompt(1, 0, "A"), strange, json!({"type": "future"}), answer(2, 1, "a")], &[]);
}

#[test]
fn a_file_that_is_not_a_transcript_is_reported_as_such() {
    assert_eq!(found(&look(b"")), [(FindingKind::Empty, 0)]);
    assert_eq!(found(&look(b"\x7fELF\x02\x01\x01\0\0\0\n\xff\xfe{}")), [(FindingKind::NotATranscript, 0)]);
    assert_eq!(found(&look(b"{\"a\":1}\n")), [(FindingKind::NotATranscript, 0)]);
    let home = TranscriptTestHome::new();
    let error = check(&home.0, &mut |_| {}).unwrap_err();
    assert!(error.contains("is not a file"), "{error}");
    let error = check(&home.0.join("nothing"), &mut |_| {}).unwrap_err();
    assert!(error.contains("cannot open"), "{error}");
}

#[test]
fn a_rollout_has_one_beginning_and_pairs_of_calls() {
    let line = |kind: &str, payload: Value| json!({"timestamp": "2026-11-16T09:00:00.000Z", "type": kind, "payload": payload});
    let meta = |id: &str| line("session_meta", json!({"id": id, "cwd": "/x"}));
    let call =
        |id: &str| line("response_item", json!({"type": "function_call", "call_id": id, "name": "exec"}));
    let output = |id: &str| {
        line("response_item", json!({"type": "function_call_output", "call_id": id, "output": "x"}))
    };
    finds(&[meta(SESSION), call("1"), output("1")], &[]);
    finds(&[meta(SESSION), meta(SESSION), call("1"), output("1")], &[(FindingKind::SecondBeginning, 2)]);
    finds(
        &[meta(SESSION), call("1"), call("1"), output("2"), output("1"), output("1")],
        &[(FindingKind::SecondCall, 3), (FindingKind::ResultWithoutCall, 4), (FindingKind::SecondResult, 6)],
    );
    let name = "rollout-2026-11-16T08-57-35-bbbbbbbb-2222-4333-8444-555555555555.jsonl";
    assert_eq!(found(&look_named(name, &lines(&[meta(SESSION)]))), [(FindingKind::WrongSession, 1)]);
    // Codex shows people other records than it gives its model.
    let shown = line("event_msg", json!({"type": "exec_call", "call_id": "9"}));
    finds(&[meta(SESSION), shown], &[]);
}

#[test]
fn a_fork_of_a_thread_is_clean_and_its_copy_identical() {
    let other = "bbbbbbbb-2222-4333-8444-555555555555";
    let line = |kind: &str, payload: Value| json!({"timestamp": "2026-11-16T09:00:00.000Z", "type": kind, "payload": payload});
    let said = line("response_item", json!({"type": "message", "role": "user", "content": []}));
    let fork = lines(&[
        line("session_meta", json!({"id": SESSION, "forked_from_id": other, "cwd": "/x"})),
        line("session_meta", json!({"id": other, "cwd": "/x"})),
        said,
    ]);
    for name in ["talk.jsonl".to_owned(), format!("rollout-2026-11-16T08-57-35-{SESSION}.jsonl")] {
        let home = TranscriptTestHome::new();
        let (path, copy) = (home.0.join(&name), home.0.join("copy.jsonl"));
        fs::write(&path, &fork).unwrap();
        let report = check(&path, &mut |_| {}).unwrap();
        assert_eq!(found(&report), [(FindingKind::SecondBeginning, 2)], "{name}: {report:#?}");
        assert!(report.is_clean() && report.conversation.as_deref() == Some(SESSION), "{report:#?}");
        let made = repair(&path, &copy, &RepairOptions::default()).unwrap();
        assert!(fs::read(&copy).unwrap() == fork && made.changes.is_empty(), "{name}: {made:#?}");
        // With an id of its own, only its own beginning has that id.
        let new = "cccccccc-2222-4333-8444-555555555555";
        let wish = RepairOptions { new_id: Some(new.to_owned()), force: true, ..RepairOptions::default() };
        repair(&path, &copy, &wish).unwrap();
        let text = String::from_utf8(fork.clone()).unwrap().replace(SESSION, new);
        assert_eq!(fs::read_to_string(&copy).unwrap(), text);
    }
}

#[test]
fn a_sub_agent_of_codex_is_the_thread_of_its_own_id_and_not_of_its_root() {
    let [root, parent, new] =
        ["bbbbbbbb", "cccccccc", "dddddddd"].map(|start| SESSION.replace("aaaaaaaa", start));
    let meta = format!(
        "{{\"timestamp\":\"2026-11-16T09:00:00.000Z\",\"type\":\"session_meta\",\"payload\":{{\"session_id\":\"{root}\",\
         \"parent_thread_id\":\"{parent}\",\"id\":\"{SESSION}\",\"cwd\":\"/x\"}}}}\n"
    );
    let home = TranscriptTestHome::new();
    let (path, copy) =
        (home.0.join(format!("rollout-2026-11-16T08-57-35-{SESSION}.jsonl")), home.0.join("copy.jsonl"));
    fs::write(&path, &meta).unwrap();
    let report = check(&path, &mut |_| {}).unwrap();
    assert_eq!((found(&report), report.conversation.as_deref()), (vec![], Some(SESSION)), "{report:#?}");
    let made = repair(&path, &copy, &RepairOptions::default()).unwrap();
    assert!(fs::read_to_string(&copy).unwrap() == meta && made.changes.is_empty(), "{made:#?}");
    // With an id of its own it still has the same root; only a thread that is its own root is renamed in both fields.
    let wish = RepairOptions { new_id: Some(new.clone()), force: true, ..RepairOptions::default() };
    for meta in [meta.clone(), meta.replace(&root, SESSION)] {
        fs::write(&path, &meta).unwrap();
        repair(&path, &copy, &wish).unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), meta.replace(SESSION, &new));
    }
    // Without an `id`, the `session_id` is the only id.
    let old = meta.replace("\"id\"", "\"was\"");
    assert_eq!(found(&look_named(&format!("rollout-x-{root}.jsonl"), old.as_bytes())), []);
}

#[test]
fn findings_have_no_escapes_and_an_invalid_id_is_not_copied() {
    let odd = "x\u{1b}[31m\"\u{7}";
    let mut records = [prompt(1, 0, "A"), answer(2, 1, "a"), prompt(3, 2, "B")];
    records[0]["sessionId"] = json!(odd);
    let report = look(&lines(&records));
    assert_eq!(found(&report), [(FindingKind::WrongSession, 1)]);
    assert!(report.findings[0].text.ends_with("of session x[31m\""), "{:?}", report.findings[0].text);
    records.iter_mut().for_each(|record| record["sessionId"] = json!(odd));
    let home = TranscriptTestHome::new();
    let (path, copy) = (home.0.join("talk.jsonl"), home.0.join("copy.jsonl"));
    fs::write(&path, lines(&records)).unwrap();
    let made = repair(&path, &copy, &RepairOptions::default()).unwrap();
    assert!(fs::read(&copy).unwrap() == lines(&records), "{made:#?}");
    assert_eq!(made.conversation, "");
}

#[test]
fn a_writer_during_the_check_is_a_note() {
    let home = TranscriptTestHome::new();
    let path = home.0.join("talk.jsonl");
    fs::write(&path, lines(&[prompt(1, 0, "A"), answer(2, 1, "a")])).unwrap();
    let mut is_first = true;
    let report = check(&path, &mut |_| {
        if std::mem::take(&mut is_first) {
            let mut file = fs::File::options().append(true).open(&path).unwrap();
            file.write_all(&lines(&[prompt(3, 2, "B")])).unwrap();
        }
    })
    .unwrap();
    assert_eq!(found(&report), [(FindingKind::Growing, 0)]);
    assert!(report.is_clean());
}

#[test]
fn where_not_all_could_be_compared_nothing_is_said_to_be_missing() {
    let many = |kind: &str, key: &str| {
        let block = |at: u32| json!({"type": kind, key: format!("t{at}"), "name": "Bash"});
        Value::Array((0..5000).map(block).collect())
    };
    let calls =
        record(2, 1, "assistant", json!({"id": "m", "model": "m", "content": many("tool_use", "id")}));
    let results = record(3, 2, "user", json!({"content": many("tool_result", "tool_use_id")}));
    let report = finds(&[prompt(1, 0, "A"), calls.clone(), results], &[(FindingKind::TooManyRecords, 0)]);
    assert!(report.is_clean());
    finds(&[prompt(1, 0, "A"), calls], &[(FindingKind::TooManyRecords, 0)]);
}

#[test]
fn of_more_findings_than_are_told_there_is_the_number() {
    let orphans: Vec<Value> = (0..1500).map(|number| answer(number + 1, number + 5000, "x")).collect();
    let report = look(&lines(&orphans));
    let missing = report.findings.iter().filter(|one| one.what == FindingKind::MissingParent).count() as u64;
    assert_eq!((missing, report.faults()), (1000, 1500), "{:#?}", report.findings.last());
}

#[test]
fn findings_beyond_the_limit_are_counted_by_their_weight() {
    let line = |kind: &str, payload: Value| json!({"timestamp": "2026-11-16T09:00:00.000Z", "type": kind, "payload": payload});
    let meta = line("session_meta", json!({"id": SESSION, "cwd": "/x"}));
    let fork = line("session_meta", json!({"id": SESSION, "forked_from_id": SESSION, "cwd": "/x"}));
    let many = |first: &Value, count: usize| {
        let report = look(&lines(&[vec![first.clone()], vec![meta.clone(); count]].concat()));
        (report.findings.len(), report.faults(), report.notes())
    };
    assert_eq!(many(&fork, 1500), (1000, 0, 1500));
    assert_eq!(many(&meta, 1500), (1000, 1500, 0));
    assert_eq!(many(&fork, 10_500), (1000, 0, 10_500));
    assert_eq!(many(&meta, 10_500), (1000, 10_500, 0));
    let call = line("response_item", json!({"type": "function_call", "call_id": "c", "name": "exec"}));
    let report = look(&lines(&[vec![meta], vec![call; 10_502]].concat()));
    assert_eq!(
        (report.faults(), report.notes()),
        (10_502, 0),
        "a call without a result, and all that came again"
    );
}
