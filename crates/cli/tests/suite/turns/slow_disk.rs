//! While the disk is busy, turns that arrive are accepted together, each for its sender, and the agent is heard.

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use berth_harness::{TestEnvironment, said, signal, wait_gone, wait_until};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

use crate::turns::{finish, gate, lab, mark, open, spawn, state, text, turns, wait_mark, wait_working};

const SENDERS: usize = 8;

/// A session whose syncs end only while the file that is returned does not exist.
fn start_with_hold(lab: &TestEnvironment) -> (String, PathBuf) {
    let hold = lab.dir().join("hold");
    let mut command = lab.command(["run", "-d", "--agent", "fake"]);
    let told =
        said(command.env("BERTH_HOLD", format!("sync:{}", hold.display())).output().expect("berth starts"));
    assert_eq!(told.code, 0, "{told:?}");
    (told.out.trim().to_owned(), hold)
}

#[test]
fn text_of_an_agent_reaches_its_readers_during_a_slow_sync_and_the_end_of_its_turn_waits_for_the_sync() {
    let lab = lab();
    let (id, hold) = start_with_hold(&lab);
    let (go, wait) = gate(&lab, "go");
    let (said_all, touch) = mark(&lab, "said");
    let prompt = format!("say:first\n{wait} say:second\n{touch}");
    let mut reader = lab.terminal(["send", "--wait", &id, &prompt]);
    reader.wait_for("first");
    wait_working(&lab, &id, 1);
    fs::write(&hold, "").expect("a file");
    let tag = spawn(&lab, ["tag", &id, "slow"]);
    wait_until("the sync to begin", || hold.with_extension("held").exists());
    open(&go);
    reader.wait_for("second");
    wait_mark(&said_all);
    assert!(String::from_utf8_lossy(&lab.output(&id)).contains("second"), "it is in the output files");
    assert!(lab.events(&id, "tags_changed").is_empty() && lab.events(&id, "turn_ended").is_empty());
    assert_eq!(state(&lab, &id, 1), "working");
    fs::remove_file(&hold).expect("our own file");
    assert_eq!(finish(tag).code, 0);
    assert_eq!(reader.wait_exit(), 0);
    assert_eq!(state(&lab, &id, 1), "done");
}

#[test]
fn an_answer_that_came_during_a_slow_sync_counts_although_the_agent_died_before_the_sync_ended() {
    let lab = lab();
    let (id, hold) = start_with_hold(&lab);
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let reader = spawn(&lab, ["send", "--wait", &id, &format!("say:first\\n\n{touch} {wait} the answer")]);
    wait_mark(&begun);
    wait_working(&lab, &id, 1);
    fs::write(&hold, "").expect("a file");
    let tag = spawn(&lab, ["tag", &id, "slow"]);
    wait_until("the sync to begin", || hold.with_extension("held").exists());
    open(&go);
    wait_until("the end of the turn", || String::from_utf8_lossy(&lab.output(&id)).contains("stopReason"));
    let agent = ProcessIdentity::of(lab.number(&id, "pid")).expect("it runs");
    signal(&agent, Signal::KILL);
    wait_gone(&agent);
    fs::remove_file(&hold).expect("our own file");
    let told = finish(reader);
    assert_eq!((told.code, told.out.as_str()), (0, "first\nECHO: the answer\n"), "{told:?}");
    assert_eq!(finish(tag).code, 0);
    assert_eq!(state(&lab, &id, 1), "done");
}

#[test]
fn turns_sent_during_a_slow_sync_are_accepted_together_and_each_sender_hears_of_its_own() {
    let lab = lab();
    let (id, hold) = start_with_hold(&lab);
    lab.ok(["queue", &id, "pause"]);
    fs::write(&hold, "").expect("a file");
    let first = spawn(&lab, ["send", "--json", &id, "prompt 0"]);
    wait_until("the sync to begin", || hold.with_extension("held").exists());
    // Two of them have the same key: they are one turn.
    let others: Vec<Child> = (1..SENDERS)
        .map(|n| {
            let (prompt, key) =
                (format!("prompt {}", n.min(SENDERS - 2)), format!("key {}", n.min(SENDERS - 2)));
            spawn(&lab, ["send", "--json", "--key", &key, &id, &prompt])
        })
        .collect();
    fs::remove_file(&hold).expect("our own file");
    let receipts: Vec<serde_json::Value> = [first]
        .into_iter()
        .chain(others)
        .map(|child| {
            let told = finish(child);
            assert_eq!(told.code, 0, "{told:?}");
            serde_json::from_str(&told.out).expect("a receipt")
        })
        .collect();
    let turns = turns(&lab, &id);
    assert_eq!(turns.len(), SENDERS - 1);
    for (n, receipt) in receipts.iter().enumerate() {
        let number = receipt["number"].as_u64().expect("a number") as usize;
        assert_eq!(text(&turns[number - 1], "prompt"), format!("prompt {}", n.min(SENDERS - 2)), "{receipt}");
    }
    let repeated: Vec<bool> = receipts.iter().map(|receipt| receipt["repeated"] == true).collect();
    assert_eq!(repeated.iter().filter(|repeated| **repeated).count(), 1, "{repeated:?}");
}
