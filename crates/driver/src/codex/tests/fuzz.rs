//! Repeated lines, all lines of a run at once, changed lines and random bytes.

use berth_core::MOST_ASKS;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::replay::{self, ALL, CodexReplay, late, lines};
use super::{NEW, ends, hear, opened};
use crate::{AgentUpdate, Driver, DriverOutput, MAX_ANSWER_BYTES};

#[test]
fn garbage_is_remarked_on_but_not_for_ever() {
    let (mut driver, mut out) = opened();
    for number in 0..1000 {
        driver.hear(format!("garbage {number}").as_bytes(), &mut out);
        driver.hear(b"the same again", &mut out);
    }
    assert_eq!(out.updates.len(), 21);
    assert!(out.updates.iter().all(|update| matches!(update, AgentUpdate::Remark { .. })));
}

#[test]
fn every_turn_is_found_again_in_what_codex_wrote() {
    for name in ALL {
        let play = CodexReplay::run(lines(name), NEW, &replay::usual(name));
        for (turn, end) in ends(&play.updates) {
            if !play.prompted(turn) {
                continue;
            }
            for lines in [lines(name), play.since_prompt(turn)] {
                let found = ends(&late(turn, &lines));
                let [(number, again)] = found.as_slice() else { panic!("{name}, turn {turn}: {found:?}") };
                assert_eq!((*number, again.state, &again.answer), (turn, end.state, &end.answer), "{name}");
            }
        }
    }
}

#[test]
fn a_turn_that_did_not_end_is_not_found_to_have_ended() {
    let lines = lines("turns");
    let of_third = lines.iter().position(|line| line.contains("\"turn-3\"")).expect("it is there");
    let cut: Vec<String> = lines[..lines.len() - 1].to_vec();
    assert_eq!(ends(&late(3, &cut)), []);
    assert_eq!(ends(&late(3, &lines[..of_third])), []);
    let lates = late(1, &lines).into_iter().filter(|update| matches!(update, AgentUpdate::Late { .. }));
    assert_eq!(lates.count(), 0, "the later turns were asked for");
    let lates = late(13, &replay::lines("goal_joined")).into_iter();
    let lates = lates.filter(|update| matches!(update, AgentUpdate::Late { .. }));
    assert_eq!(lates.count(), 0, "one that codex began was joined by the next prompt");
}

#[test]
fn hearing_the_same_again_tells_the_same_again() {
    for name in ALL {
        let play = CodexReplay::run(lines(name), NEW, &replay::usual(name));
        let again = CodexReplay::again(&play.steps);
        assert_eq!(again.updates, play.updates, "{name}");
        assert_eq!(again.sent, play.sent, "{name}");
    }
}

#[test]
fn a_driver_stays_small_after_any_number_of_questions_changes_texts_and_steers() {
    let (mut driver, mut out) = opened();
    driver.prompt(1, "go", &mut out);
    hear(&mut driver, json!({ "id": "turn-1", "result": { "turn": { "id": "N" } } }), &mut out);
    let long = "x".repeat(40_000);
    let mut asked = 0;
    for number in 0..100_u64 {
        let of = |item: Value| json!({ "item": item, "threadId": "T", "turnId": "N" });
        let change = json!({ "type": "fileChange", "id": number.to_string(), "changes": [{ "path": long, "diff": long }] });
        hear(&mut driver, json!({ "method": "item/started", "params": of(change) }), &mut out);
        let params = json!({ "threadId": "T", "turnId": "N", "itemId": number.to_string(), "command": long });
        for method in ["item/commandExecution/requestApproval", "item/fileChange/requestApproval"] {
            hear(&mut driver, json!({ "id": number, "method": method, "params": params }), &mut out);
        }
        let message = json!({ "type": "agentMessage", "id": format!("m{number}"), "text": long });
        hear(&mut driver, json!({ "method": "item/completed", "params": of(message) }), &mut out);
        let warning = json!({ "threadId": "T", "message": format!("{number} {long}") });
        hear(&mut driver, json!({ "method": "warning", "params": warning }), &mut out);
        driver.steer(number + 2, "more", &mut out);
        asked += out.updates.iter().filter(|update| matches!(update, AgentUpdate::Asks { .. })).count();
        out = DriverOutput::default();
    }
    assert!(asked >= MOST_ASKS);
    let size = format!("{driver:?}").len();
    assert!(size < 2 * MAX_ANSWER_BYTES, "{size} bytes after 30 MB");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn any_bytes_are_survived(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)) {
        let (mut driver, mut out) = opened();
        driver.prompt(1, "go", &mut out);
        for line in lines {
            driver.hear(&line, &mut out);
        }
        prop_assert!(ends(&out.updates).is_empty());
    }

    #[test]
    fn changed_lines_and_calls_in_any_order_end_a_turn_at_most_once(steps in prop::collection::vec(replay::step(), 0..120)) {
        let play = CodexReplay::kept(&steps);
        let mut ended: Vec<u64> = ends(&play.updates).into_iter().map(|(turn, _)| turn).collect();
        ended.sort_unstable();
        let all = ended.len();
        ended.dedup();
        prop_assert_eq!(all, ended.len());
        for turn in ended {
            prop_assert!(play.was_given(turn), "turn {} was never given to it", turn);
        }
        let again = CodexReplay::again(&play.steps);
        prop_assert_eq!(again.updates, play.updates);
    }
}
