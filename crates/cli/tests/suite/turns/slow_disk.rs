//! Turns that arrive while the disk is busy are accepted together, each for its sender.

use std::fs;
use std::process::Child;

use berth_harness::{said, wait_until};

use crate::turns::{finish, lab, spawn, text, turns};

const SENDERS: usize = 8;

#[test]
fn turns_sent_during_a_slow_sync_are_accepted_together_and_each_sender_hears_of_its_own() {
    let lab = lab();
    let hold = lab.dir().join("hold");
    let mut command = lab.command(["run", "-d", "--agent", "fake"]);
    let told =
        said(command.env("BERTH_HOLD", format!("sync:{}", hold.display())).output().expect("berth starts"));
    assert_eq!(told.code, 0, "{told:?}");
    let id = told.out.trim().to_owned();
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
