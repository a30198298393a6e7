//! F2: the keeper is killed with -9 at a random instant, again and again.

use std::collections::BTreeSet;
use std::path::Path;

use berth_harness::{SeededRng, TestEnvironment, signal, wait_gone, wait_until};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;
use serde_json::Value;

use crate::crash::{endings, lab};

/// How many crashes a normal test run takes.
const RUNS: u64 = 40;

fn runs() -> u64 {
    std::env::var("BERTH_CRASH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS)
}

#[test]
fn f2_a_keeper_killed_at_any_instant_loses_nothing_and_leaves_no_process() {
    let mut seed = SeededRng::announce("f2");
    for run in 1..=runs() {
        let lab = lab();
        crash(&lab, &mut seed, run);
    }
}

fn crash(lab: &TestEnvironment, seed: &mut SeededRng, run: u64) {
    let transcript = lab.dir().join("transcript");
    let (records, exit) = (format!("records:{}", transcript.display()), "exit:0");
    // Some end by themselves around the time they are killed.
    let ends = seed.below(4) == 0;
    let flood = if ends { "flood:300K" } else { "flood:1G" };
    // Raw, so that typed keys are not echoed into the numbers.
    let script = ["raw", "child", "[", &records, "]", flood, exit];
    let agent = lab.agent();
    let mut args = vec!["run", "-d", "--json", "--", &agent];
    args.extend(script);
    let started = lab.json(args);
    let id = started["id"].as_str().expect("an id").to_owned();
    let keeper = started["keeper_pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a keeper");
    // A short run may be over already; then its keeper is gone, which is an instant like any other.
    let keeper = ProcessIdentity::of(keeper).ok();
    let mut watcher = (seed.below(3) > 0).then(|| lab.terminal(["attach", "--observe", &id]));
    seed.dawdle(60_000);
    let typing =
        (seed.below(3) == 0).then(|| lab.command(["input", &id, "x"]).spawn().expect("berth starts"));
    seed.dawdle(3_000);
    if let Some(keeper) = keeper {
        signal(&keeper, Signal::KILL);
        wait_gone(&keeper);
    }
    if let Some(mut typing) = typing {
        typing.wait().expect("our own child");
    }
    // The watching client is told of the end, and saw nothing that is not on disk.
    let seen = watcher.as_mut().map(|watcher| {
        watcher.wait_exit();
        numbers(&watcher.raw)
    });

    // The journal can be read before anything has cleaned up, and after.
    assert!(!lab.log(&id).is_empty());
    let shown = lab.show(&id);
    let state = shown["state"].as_str().expect("a state").to_owned();
    let ended = endings(lab, &id);
    match state.as_str() {
        "lost" => assert_eq!(ended, [(1, "\"lost\"".to_owned())], "run {run}"),
        "stopped" => assert_eq!(ended.len(), 1, "run {run}: {shown}"),
        other => panic!("run {run}: a session whose keeper died is {other}"),
    }
    assert!(lab.processes().is_empty(), "run {run}: {:?} are left", lab.processes());
    let first = check_transcript(&transcript, run);
    let told = numbers(&lab.output(&id));
    for (at, number) in told.iter().enumerate() {
        assert_eq!(*number, at as u64 + 1, "run {run}: the output jumps");
    }
    if let Some(most) = seen.and_then(|seen| seen.last().copied()) {
        assert!(told.len() as u64 >= most, "run {run}: a client saw line {most}, {} are kept", told.len());
    }

    // B2: the next one needs no cleaning up by hand, and is the only one.
    let resumed = lab.json(["resume", "-d", "--json", &id]);
    assert_eq!((&resumed["epoch"], &resumed["state"]), (&2.into(), &"running".into()), "run {run}");
    wait_until("the next run to write", || !check_transcript(&transcript, run).is_subset(&first) || ends);
    lab.ok(["stop", "--grace", "0s", &id]);
    check_transcript(&transcript, run);
    assert_eq!(endings(lab, &id).len(), 2, "run {run}: {:?}", lab.log(&id));
    let seqs: Vec<_> = lab.log(&id).iter().map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).map(Some).collect::<Vec<_>>(), "run {run}");
}

/// Each process wrote 1, 2, 3, … and never again once another one had begun: one writer at a time. Returns the writers.
/// The last line of a process may be torn: it was killed in the middle of it.
fn check_transcript(path: &Path, run: u64) -> BTreeSet<u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut writers = BTreeSet::new();
    let mut current = None;
    let mut expected = 1;
    for line in text.split_inclusive('\n') {
        // A torn record is followed by the next process's first one on the same line.
        let whole = line.strip_suffix('\n').map(|line| &line[line.rfind("{\"n\"").unwrap_or(0)..]);
        let Some(whole) = whole else { continue };
        let record: Value = serde_json::from_str(whole)
            .unwrap_or_else(|error| panic!("run {run}: a broken record ({error}): {line:?}"));
        let pid = record["pid"].as_u64().expect("a pid");
        if current != Some(pid) {
            assert!(writers.insert(pid), "run {run}: {pid} went on after another one had begun");
            (current, expected) = (Some(pid), 1);
        }
        assert_eq!(record["n"], expected, "run {run}: a record of {pid} is missing or twice");
        expected += 1;
    }
    writers
}

/// The numbers of whole flood lines.
fn numbers(output: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(output);
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with("naps\n"));
    let number = |line: &str| {
        let (before, _) = line.split_once(" the quick")?;
        // On a terminal something else may stand before the number.
        before.get(before.len().checked_sub(12)?..)?.parse().ok()
    };
    whole.filter_map(number).collect()
}
