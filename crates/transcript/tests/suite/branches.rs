//! Tests of branches in copies: which stay, which go, and repeated records.

use std::fs;
use std::io::Write;

use berth_transcript::check::{FindingKind, FindingSeverity, check};
use berth_transcript::repair::{BranchChoice, RepairOptions};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::copies::{RepairFixture, mends};
use crate::common::real;
use crate::common::talk::{SESSION, answer, call, id, lines, made_up, prompt, record, result, resumed};

#[test]
fn a_branch_that_does_not_fit_after_the_other_is_set_aside_and_may_be_a_copy() {
    // Two answers to one prompt.
    let fork = [prompt(1, 0, "A"), answer(2, 1, "one"), answer(3, 1, "two"), prompt(4, 3, "B")];
    let (made, _) = mends(&fork, &["A", "two", "B"]);
    assert!(made.rest.is_some(), "{made:#?}");
    let place = RepairFixture::new(&lines(&fork));
    let made = place.repair(&RepairOptions { beside: true, ..RepairOptions::default() }).unwrap();
    assert_eq!(made.beside.len(), 1, "{made:#?}");
    let other = fs::read(&made.beside[0]).unwrap();
    assert_eq!(resumed(&other), ["A", "one"]);
    assert!(check(&made.beside[0], &mut |_| {}).unwrap().is_clean());
}

#[test]
fn a_user_who_went_back_to_the_first_prompt_is_left_alone_and_a_cold_start_race_is_not() {
    let look = |records: &[Value]| {
        let place = RepairFixture::new(&lines(records));
        (check(&place.original, &mut |_| {}).unwrap(), place)
    };
    let back = [prompt(1, 0, "A"), answer(2, 1, "a"), prompt(3, 0, "B"), answer(4, 3, "b")];
    // At any place where a resume goes on.
    let note = json!({"type": "last-prompt", "leafUuid": id(2), "sessionId": SESSION});
    for (records, lost) in [(back.to_vec(), "A"), ([&back[..], &[note]].concat(), "B")] {
        let (report, place) = look(&records);
        let found = &report.findings[0];
        assert_eq!(
            (found.what, found.weight),
            (FindingKind::SecondRoot, FindingSeverity::Note),
            "{report:#?}"
        );
        assert!(found.text.starts_with("the conversation went back to the start"), "{report:#?}");
        assert_eq!((report.is_clean(), report.lost[0].said.as_str()), (true, lost));
        let (made, copy) = place.mended();
        assert!(copy == lines(&records) && made.changes.is_empty(), "{made:#?}");
    }
    // Two simultaneous writers, of which one wrote first; and one without times.
    let mut race = back.clone();
    race[1]["timestamp"] = json!("2026-11-16T09:00:03.500Z");
    let mut unsaid = back;
    unsaid[2].as_object_mut().unwrap().remove("timestamp");
    for records in [race, unsaid] {
        let (report, _) = look(&records);
        let found = &report.findings[0];
        assert_eq!(
            (found.what, found.weight),
            (FindingKind::SecondRoot, FindingSeverity::Fault),
            "{report:#?}"
        );
        mends(&records, &["A", "a", "B", "b"]);
    }
}

#[test]
fn a_branch_can_be_chosen() {
    let fork = [
        prompt(1, 0, "A"),
        made_up(2, 1),
        prompt(3, 2, "B"),
        answer(4, 3, "b"),
        prompt(5, 4, "C"),
        answer(6, 1, "a"),
    ];
    for (keep, expected) in [
        (BranchChoice::Newest, &["A", "a"][..]),
        (BranchChoice::Longest, &["A", "No response requested.", "B", "b", "C"]),
        (BranchChoice::Leaf("3".to_owned()), &["A", "No response requested.", "B", "b", "C"]),
        (BranchChoice::Leaf(id(6)), &["A", "a"]),
    ] {
        let place = RepairFixture::new(&lines(&fork));
        let made = place.repair(&RepairOptions { keep: keep.clone(), ..RepairOptions::default() }).unwrap();
        assert_eq!(resumed(&fs::read(&place.copy).unwrap()), expected, "{keep:?}: {made:#?}");
        assert!(made.left.is_empty() && made.rest.is_some(), "{made:#?}");
    }
    let place = RepairFixture::new(&lines(&fork));
    let error = place
        .repair(&RepairOptions { keep: BranchChoice::Leaf("nobody".to_owned()), ..RepairOptions::default() })
        .unwrap_err();
    assert!(error.contains("there is no record nobody"), "{error}");
    assert_eq!(place.names(), ["talk.jsonl"]);
}

/// A conversation in which the user went back from B, and said C.
fn went_back() -> Vec<Value> {
    vec![
        prompt(1, 0, "A"),
        answer(2, 1, "a"),
        prompt(3, 2, "B"),
        answer(4, 3, "b"),
        prompt(5, 2, "C"),
        answer(6, 5, "c"),
    ]
}

#[track_caller]
fn keeps(records: &[Value], keep: BranchChoice, expected: &[&str]) {
    let place = RepairFixture::new(&lines(records));
    let made = place.repair(&RepairOptions { keep: keep.clone(), ..RepairOptions::default() }).unwrap();
    let copy = fs::read(&place.copy).unwrap();
    let text = String::from_utf8_lossy(&copy);
    assert_eq!(resumed(&copy), expected, "{keep:?}: {made:#?}\n{text}");
    assert!(made.left.is_empty(), "{made:#?}");
    assert!(check(&place.copy, &mut |_| {}).unwrap().findings.is_empty(), "{keep:?}: {text}");
}

#[test]
fn a_branch_from_which_a_user_went_back_can_be_chosen() {
    let (left, taken): (&[&str], &[&str]) = (&["A", "a", "B", "b"], &["A", "a", "C", "c"]);
    let leaf = |word: &str| BranchChoice::Leaf(word.to_owned());
    for word in ["3", "4", &id(3), &id(4)] {
        keeps(&went_back(), leaf(word), left);
    }
    for keep in [leaf("5"), leaf(&id(6)), leaf("1"), BranchChoice::Newest] {
        keeps(&went_back(), keep, taken);
    }
    // The agent noted that it is at the first branch: then the other one is the newer one.
    let note = json!({"type": "last-prompt", "leafUuid": id(4), "sessionId": SESSION});
    let noted = [went_back(), vec![note]].concat();
    keeps(&noted, BranchChoice::Newest, taken);
    keeps(&noted, leaf("3"), left);
    // A branch of the branch.
    let more = [went_back(), vec![prompt(7, 4, "D"), answer(8, 7, "d"), prompt(9, 4, "E")]].concat();
    keeps(&more, leaf("7"), &["A", "a", "B", "b", "D", "d"]);
    keeps(&more, leaf("3"), &["A", "a", "B", "b", "E"]);
    keeps(&more, BranchChoice::Longest, &["A", "a", "B", "b", "D", "d"]);
}

#[test]
fn a_chosen_branch_stays_where_a_resume_goes_on_even_if_records_follow_it() {
    // Notes alone are not a branch; the agent would begin at the last of them.
    let notes = [record(7, 6, "attachment", Value::Null), record(8, 2, "attachment", Value::Null)];
    let all = [&went_back()[..], &notes].concat();
    keeps(&all, BranchChoice::Leaf("3".to_owned()), &["A", "a", "B", "b"]);
    keeps(&all, BranchChoice::Leaf("5".to_owned()), &["A", "a", "C", "c"]);
    // An answer alone does not fit anywhere else.
    let two = [prompt(1, 0, "A"), answer(2, 1, "one"), answer(3, 1, "two")];
    let all = [&two[..], &[record(4, 1, "attachment", Value::Null)]].concat();
    keeps(&all, BranchChoice::Leaf("2".to_owned()), &["A", "one"]);
    // The chosen line is repeated.
    let all = [went_back(), vec![went_back()[3].clone()], went_back()[4..].to_vec()].concat();
    keeps(&all, BranchChoice::Leaf("4".to_owned()), &["A", "a", "B", "b"]);
    // With lines that need repairs first.
    let place = RepairFixture::new(&[lines(&went_back()), b"{\"torn".to_vec()].concat());
    let fused = String::from_utf8(fs::read(&place.original).unwrap()).unwrap().replacen("}\n{", "}{", 1);
    fs::write(&place.original, fused).unwrap();
    place.repair(&RepairOptions { keep: BranchChoice::Leaf(id(3)), ..RepairOptions::default() }).unwrap();
    assert_eq!(resumed(&fs::read(&place.copy).unwrap()), ["A", "a", "B", "b"]);
}

/// Two answers to one prompt, twice.
fn two_forks() -> Vec<Value> {
    vec![
        prompt(1, 0, "A"),
        answer(2, 1, "one"),
        answer(3, 1, "two"),
        prompt(4, 3, "B"),
        answer(5, 4, "three"),
        answer(6, 4, "four"),
        prompt(7, 6, "C"),
    ]
}

#[test]
fn copies_of_branches_are_there_with_the_copy_or_nothing_is() {
    let beside = RepairOptions { beside: true, ..RepairOptions::default() };
    let place = RepairFixture::new(&lines(&two_forks()));
    let made = place.repair(&beside).unwrap();
    let said: Vec<_> = made.beside.iter().map(|path| resumed(&fs::read(path).unwrap())).collect();
    assert_eq!(said, [vec!["A", "one"], vec!["A", "two", "B", "three"]]);
    // The name of the second copy is taken.
    for path in [&made.copy, &made.beside[0]].into_iter().chain(&made.rest) {
        fs::remove_file(path).unwrap();
    }
    let rests: Vec<_> = place.names().into_iter().filter(|name| name.ends_with(".rest")).collect();
    rests.iter().for_each(|name| fs::remove_file(place.home.0.join(name)).unwrap());
    let names = place.names();
    assert_eq!(names.len(), 2, "{names:?}");
    let error = place.repair(&beside).unwrap_err();
    assert!(error.contains("exists already"), "{error}");
    assert_eq!(place.names(), names);
}

#[test]
fn a_doubled_line_is_there_once_and_its_tools_stay() {
    let (asked, called) = (prompt(1, 0, "A"), call(2, 1, "t", "m"));
    let (got, said) = (result(3, 2, "t", "real"), answer(4, 3, "a"));
    let all = ["A", "Bash", "real", "a"];
    for doubled in 0..4 {
        let mut records = vec![asked.clone(), called.clone(), got.clone(), said.clone()];
        records.insert(doubled, records[doubled].clone());
        mends(&records, &all);
    }
    let once = [asked, called, got, said];
    mends(&[&once[..], &once].concat(), &all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn doubled_lines_change_nothing_of_what_a_resume_has(
        name in prop::sample::select(vec!["tool", "blocks", "compacted", "two-writers", "resumed-after-kill", "sub-agent"]),
        doubled in proptest::collection::vec(any::<prop::sample::Index>(), 1..20),
        whole: bool,
    ) {
        let bytes = real("claude", name);
        let expected = resumed(&RepairFixture::new(&bytes).mended().1);
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        for at in doubled {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
        }
        let mut doubled = lines.concat();
        if whole {
            doubled.extend_from_slice(&bytes);
        }
        prop_assert_eq!(resumed(&RepairFixture::new(&doubled).mended().1), expected);
    }
}

#[test]
fn more_branches_than_the_limit_are_a_fault_and_all_can_be_set_aside() {
    let mut records = vec![prompt(1, 0, "A"), answer(2, 1, "a")];
    for number in 0..300 {
        records.extend([prompt(3 + number * 2, 2, "B"), answer(4 + number * 2, 3 + number * 2, "b")]);
    }
    let place = RepairFixture::new(&lines(&records));
    let report = check(&place.original, &mut |_| {}).unwrap();
    let more = report.findings.iter().find(|one| one.text.contains("49 more branches"));
    assert!(more.is_some_and(|one| one.line == 503) && !report.is_clean(), "{:#?}", report.findings.last());
    keeps(&records, BranchChoice::Leaf("3".to_owned()), &["A", "a", "B", "b"]);
}

#[test]
fn a_transcript_that_is_written_meanwhile_has_no_copy() {
    let place = RepairFixture::new(&real("claude", "two-writers"));
    let (begun, stop) = (std::sync::Barrier::new(2), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = fs::File::options().append(true).open(&place.original).unwrap();
            writeln!(file, "{{}}").unwrap();
            begun.wait();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                writeln!(file, "{{}}").unwrap();
            }
        });
        begun.wait();
        let made = berth_transcript::repair::repair(&place.original, &place.copy, &RepairOptions::default());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let error = made.unwrap_err();
        assert!(error.contains("was written meanwhile"), "{error}");
    });
    assert_eq!(place.names(), ["talk.jsonl"]);
}
