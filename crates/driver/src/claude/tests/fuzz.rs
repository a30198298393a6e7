//! The driver against any lines, and against real lines that were changed, lost, repeated or moved.
//!
//! Promise: every run that is tried follows from the printed seed. Not here: the meaning of the lines (see `tests`).
//! Start with [`LineMutation`].

use berth_core::MOST_ASKS;
use proptest::prelude::*;
use serde_json::Value;

use super::{RECORDED, ends, lines, play, play_lines};
use crate::claude::{ClaudeDriver, MOST_MESSAGES};
use crate::{Driver, DriverOutput, MAX_ANSWER_BYTES};

/// One change to a run.
#[derive(Clone, Debug)]
enum LineMutation {
    Drop,
    Twice,
    Earlier,
    /// One value in the line is replaced.
    Field(usize, Value),
    Bytes(Vec<u8>),
}

fn any_json() -> impl Strategy<Value = Value> {
    const KNOWN: &[&str] =
        &["completed", "cancelled", "started", "queued", "init", "user", "result", "text", "tool_use"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        proptest::sample::select(KNOWN).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z_]{1,8}", inner, 0..4)
                .prop_map(|map| Value::from(serde_json::Map::from_iter(map))),
        ]
    })
}

fn change() -> impl Strategy<Value = LineMutation> {
    prop_oneof![
        Just(LineMutation::Drop),
        Just(LineMutation::Twice),
        Just(LineMutation::Earlier),
        (any::<usize>(), any_json()).prop_map(|(at, value)| LineMutation::Field(at, value)),
        proptest::collection::vec(any::<u8>(), 0..64).prop_map(LineMutation::Bytes),
    ]
}

/// Replaces the value at the place with this number, counting all places.
fn put(value: &mut Value, at: &mut usize, new: &Value) -> bool {
    if *at == 0 {
        *value = new.clone();
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(all) => all.iter_mut().any(|one| put(one, at, new)),
        Value::Object(all) => all.values_mut().any(|one| put(one, at, new)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn changed(name: &str, changes: &[(usize, LineMutation)]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = lines(name).iter().map(|line| line.as_bytes().to_vec()).collect();
    for (at, change) in changes {
        let at = at % all.len().max(1);
        let Some(line) = all.get(at).cloned() else { continue };
        match change {
            LineMutation::Drop => drop(all.remove(at)),
            LineMutation::Twice => all.insert(at, line),
            LineMutation::Earlier => all.swap(at, at / 2),
            LineMutation::Bytes(bytes) => all[at] = bytes.clone(),
            LineMutation::Field(place, new) => {
                if let Ok(mut value) = serde_json::from_slice::<Value>(&line) {
                    let places = line.iter().filter(|byte| matches!(byte, b':' | b',')).count().max(1);
                    put(&mut value, &mut (place % places), new);
                    all[at] = value.to_string().into_bytes();
                }
            }
        }
    }
    all
}

fn is_within_limits(driver: &ClaudeDriver) -> bool {
    driver.open.len() <= MOST_MESSAGES
        && driver.questions.len() <= MOST_ASKS
        && driver.said.all.text().len() <= MAX_ANSWER_BYTES
        && driver.said.streamed.len() <= 256
}

proptest! {
    #[test]
    fn a_driver_survives_any_lines(all in proptest::collection::vec(any::<Vec<u8>>(), 0..32)) {
        let play = play_lines("plain", all);
        prop_assert!(is_within_limits(&play.driver));
    }

    #[test]
    fn in_a_changed_run_no_turn_ends_twice_or_without_having_been_given(
        name in proptest::sample::select(RECORDED).prop_map(|(name, _)| name),
        changes in proptest::collection::vec((any::<usize>(), change()), 0..12),
    ) {
        let play = play_lines(name, changed(name, &changes));
        prop_assert!(is_within_limits(&play.driver));
        prop_assert!(play.ends().keys().all(|turn| (1..=play.turn).contains(turn)));
    }

    #[test]
    fn the_same_lines_again_give_the_same_updates(
        name in proptest::sample::select(RECORDED).prop_map(|(name, _)| name),
        changes in proptest::collection::vec((any::<usize>(), change()), 0..6),
    ) {
        let lines = changed(name, &changes);
        let (one, other) = (play_lines(name, &lines), play_lines(name, &lines));
        prop_assert_eq!(one.updates, other.updates);
        prop_assert_eq!(one.written, other.written);
    }

    /// A driver that loses lines may miss an answer, but never takes another turn's. This cannot hold for versions that
    /// name nothing.
    #[test]
    fn an_answer_is_never_given_to_another_turn(
        name in proptest::sample::select(RECORDED).prop_map(|(name, _)| name)
            .prop_filter("names its messages", |name| !name.starts_with("old")),
        lost in proptest::collection::vec(any::<usize>(), 0..8),
    ) {
        let whole = play(name).ends();
        let lost: Vec<(usize, LineMutation)> = lost.into_iter().map(|at| (at, LineMutation::Drop)).collect();
        let lines = changed(name, &lost);
        for (turn, end) in &whole {
            let (mut driver, mut out) = (ClaudeDriver::new("talk"), DriverOutput::default());
            driver.prompt(*turn, "…", &mut out);
            for line in &lines {
                driver.hear(line, &mut out);
            }
            let found = ends(&out.updates).remove(turn);
            let result = found.filter(|found| found.input_tokens.is_some());
            prop_assert!(result.is_none_or(|found| found.input_tokens == end.input_tokens), "{} {}", name, turn);
        }
    }
}
