//! A session on a host and a disk that fail, many times over: the real owner, rules and journal in a simulated loop.
//!
//! Its agent has a terminal, or takes turns. Everything follows from a seed. A broken promise prints the seed
//! and the last steps; `BERTH_SEED=N` repeats that life, `BERTH_SIM_SEEDS=100000` lives as many. What is
//! promised is in `simulation/ledger.rs` (against the disk), `simulation/rules.rs` and
//! `simulation/turn_rules.rs` (within the journal) and `simulation/agent.rs` (against what the agent really
//! did); the bugs that must be noticed are in `simulation/bug.rs`.
//! Not here: the kernel, sockets and files of the real keeper. Those have tests of their own.

mod agent;
mod bug;
mod clients;
mod forgetful_session;
mod host;
mod keeper;
mod ledger;
mod life;
mod rules;
mod starts;
mod store;
mod turn_rules;
mod turns;
mod world;

use std::ops::Range;

use berth_journal::PlantedBugs;
use bug::{ForgettableEvent, KeeperBug};
use life::{OccurrenceCounts, SimulatedBackend, live};

/// A bug that is not noticed within so many lives is not noticed.
const LIVES_PER_BUG: u64 = 100;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number")))
}

fn seeds(usual: u64) -> Range<u64> {
    match number("BERTH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("BERTH_SIM_SEEDS").unwrap_or(usual),
    }
}

/// Events that must have happened often enough that a life without errors means something.
const HAPPENS: [&str; 23] = [
    "before an effect",
    "between append and publish",
    "between publish and effects",
    "between spawn and its record",
    "dies at a call to the disk",
    "does not end",
    "half made",
    "input",
    "input refused",
    "killed",
    "keys during a sync",
    "kills",
    "left",
    "leftovers do not end",
    "power cut",
    "put away or brought back",
    "put away, and not started",
    "restarts in place",
    "the disk fails",
    "torn",
    "while a batch is on its way",
    "writer granted",
    "writer refused",
];

/// The events for lives with turns.
const HAPPENS_TO_TURNS: [&str; 24] = [
    "accepted",
    "accepted at once",
    "before an effect",
    "between append and publish",
    "between publish and effects",
    "cancelled",
    "dies at a call to the disk",
    "done",
    "failed",
    "interrupted",
    "interrupted by us",
    "key reused",
    "killed",
    "next run",
    "power cut",
    "put away or brought back",
    "restarts in place",
    "retried",
    "said",
    "send refused",
    "steered",
    "the disk fails",
    "unknown",
    "unsure whether it was said",
];

#[test]
fn no_promise_is_broken_in_many_lives() {
    live_many(false, SimulatedBackend::InFiles, 300, &HAPPENS);
}

#[test]
fn no_promise_is_broken_by_keepers_that_are_superseded_while_they_stand_still() {
    let happens = ["a superseded keeper is rejected", "killed", "restarts in place", "left"];
    live_many(false, SimulatedBackend::InMemory, 120, &happens);
    live_many(true, SimulatedBackend::InMemory, 40, &happens);
}

#[test]
fn no_promise_about_turns_is_broken_in_many_lives() {
    live_many(true, SimulatedBackend::InFiles, 120, &HAPPENS_TO_TURNS);
}

fn live_many(takes_turns: bool, kept: SimulatedBackend, usual: u64, happens: &[&str]) {
    let mut counts = OccurrenceCounts::new();
    let seeds = seeds(usual);
    for seed in seeds.clone() {
        match live(seed, takes_turns, kept, KeeperBug::None, false) {
            Ok(more) => more.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count),
            Err(failure) => {
                panic!("BERTH_SEED={seed}: {}\nthe last steps:\n{}", failure.broken, failure.trace)
            }
        }
    }
    println!("{} lives: {counts:#?}", seeds.count());
    if number("BERTH_SEED").is_none() && number("BERTH_SIM_SEEDS").is_none() {
        let never: Vec<_> = happens.iter().filter(|what| !counts.contains_key(*what)).collect();
        assert!(never.is_empty(), "a simulation in which this never happens proves little: {never:?}");
    }
}

#[test]
fn one_seed_gives_one_life() {
    for (seed, takes_turns) in [(0, false), (1, false), (2, true), (3, true)] {
        let told = || {
            live(seed, takes_turns, SimulatedBackend::InFiles, KeeperBug::EpochReset, true)
                .map_err(|failure| (failure.broken, failure.trace))
        };
        assert_eq!(told(), told());
    }
}

/// Some life must show the bug. `blind`: judged by the keeper's actions only, without a look into its state.
fn assert_caught(bug: KeeperBug, blind: bool) {
    assert_caught_in(false, bug, blind);
}

fn assert_caught_in(takes_turns: bool, bug: KeeperBug, blind: bool) {
    assert_caught_kept(SimulatedBackend::InFiles, takes_turns, bug, blind);
}

fn assert_caught_kept(kept: SimulatedBackend, takes_turns: bool, bug: KeeperBug, blind: bool) {
    let mut lives = (0..LIVES_PER_BUG).map(|seed| (seed, live(seed, takes_turns, kept, bug, blind)));
    match lives.find_map(|(seed, life)| Some((seed, life.err()?))) {
        Some((seed, failure)) => println!("{bug:?} is caught in life {seed}: {}", failure.broken),
        None => panic!("{bug:?} (blind: {blind}) went unnoticed for {LIVES_PER_BUG} lives"),
    }
}

#[test]
fn the_simulation_catches_publish_before_append() {
    assert_caught(KeeperBug::PublishBeforeAppend, false);
}

#[test]
fn the_simulation_catches_a_batch_that_is_answered_before_its_commit() {
    assert_caught_in(true, KeeperBug::AnswersBeforeCommit, false);
    assert_caught_in(true, KeeperBug::AnswersBeforeCommit, true);
}

#[test]
fn the_simulation_catches_no_checksum_check() {
    assert_caught(KeeperBug::Journal(PlantedBugs { skip_checksum: true, ..PlantedBugs::default() }), false);
}

#[test]
fn the_simulation_catches_torn_tail_kept() {
    assert_caught(KeeperBug::Journal(PlantedBugs { keep_torn_tail: true, ..PlantedBugs::default() }), false);
}

#[test]
fn the_simulation_catches_sync_error_ignored() {
    assert_caught(
        KeeperBug::Journal(PlantedBugs { ignore_sync_error: true, ..PlantedBugs::default() }),
        false,
    );
}

#[test]
fn the_simulation_catches_effect_before_commit() {
    assert_caught(KeeperBug::EffectBeforeCommit, false);
}

#[test]
fn the_simulation_catches_a_snapshot_ahead_of_the_journal_that_is_believed() {
    assert_caught(KeeperBug::SnapshotAhead, false);
    assert_caught_in(true, KeeperBug::SnapshotAhead, false);
}

#[test]
fn the_simulation_catches_epoch_reset() {
    assert_caught(KeeperBug::EpochReset, false);
}

#[test]
fn the_simulation_catches_an_append_with_an_old_epoch_that_is_accepted() {
    assert_caught_kept(SimulatedBackend::InMemory, false, KeeperBug::OldEpochAccepted, false);
    assert_caught_kept(SimulatedBackend::InMemory, true, KeeperBug::OldEpochAccepted, true);
}

#[test]
fn the_simulation_catches_missing_transition() {
    for kind in ForgettableEvent::ALL {
        assert_caught(KeeperBug::Forgets(kind), false);
        assert_caught(KeeperBug::Forgets(kind), true);
    }
}

#[test]
fn the_simulation_catches_a_prompt_that_is_said_again() {
    assert_caught_in(true, KeeperBug::SaysAgain, false);
    assert_caught_in(true, KeeperBug::SaysAgain, true);
}

#[test]
fn the_simulation_catches_a_retry_of_an_unknown_turn_and_a_second_one() {
    assert_caught_in(true, KeeperBug::RetriesUnknown, false);
    assert_caught_in(true, KeeperBug::RetriesTwice, false);
}

#[test]
fn the_simulation_catches_a_missing_transition_of_turns() {
    for kind in ForgettableEvent::OF_TURNS {
        assert_caught_in(true, KeeperBug::Forgets(kind), false);
        assert_caught_in(true, KeeperBug::Forgets(kind), true);
    }
}
