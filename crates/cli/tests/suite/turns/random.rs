//! F2, C10: the keeper is killed with -9 at a random instant of a life with turns, again and again; and lives in which
//! clients do anything at any time.

use std::collections::BTreeMap;

use berth_harness::{SeededRng, TestEnvironment, signal, wait_gone, wait_until};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

use crate::turns::{PromptRecord, did, finish, lab, rounds, spawn, start, text, turns};

/// How many crashes one session goes through.
const CRASHES: u64 = 10;

#[test]
fn f2_a_keeper_killed_at_any_instant_loses_no_turn_and_runs_none_twice() {
    let mut seed = SeededRng::announce("f2");
    for life in 0..rounds(100).div_ceil(CRASHES) {
        let lab = lab();
        a_life(&lab, &mut seed, life);
    }
}

fn a_life(lab: &TestEnvironment, seed: &mut SeededRng, life: u64) {
    let id = start(lab, &["--on-unknown", "continue"]);
    let mut accepted: BTreeMap<u64, String> = BTreeMap::new();
    for crash in 0..CRASHES {
        let keeper = lab.show(&id)["keeper_pid"]
            .as_u64()
            .and_then(|pid| ProcessIdentity::of(u32::try_from(pid).ok()?).ok());
        let senders: Vec<_> = (0..1 + seed.below(3))
            .map(|at| {
                let prompt = format!("sleep:{} {life}-{crash}-{at}", seed.below(25));
                let child = spawn(lab, ["send", "--json", &id, &prompt]);
                seed.dawdle(3_000);
                (prompt, child)
            })
            .collect();
        seed.dawdle(40_000);
        if let Some(keeper) = keeper {
            signal(&keeper, Signal::KILL);
            wait_gone(&keeper);
        }
        for (prompt, child) in senders {
            // Every send gets its receipt: if need be from the next keeper.
            let said = finish(child);
            assert_eq!(said.code, 0, "{life}-{crash}: {said:?}");
            let receipt: serde_json::Value = serde_json::from_str(&said.out).expect("a receipt");
            let number = receipt["number"].as_u64().expect("a number");
            assert_eq!(accepted.insert(number, prompt), None, "{life}-{crash}: a number twice");
        }
    }
    let last = lab.berth(["send", "--wait", &id, "the last"]);
    assert_eq!((last.code, last.out.as_str()), (0, "ECHO: the last\n"), "{life}: {last:?}");
    check(lab, &id, &accepted);
}

/// Each accepted turn has one end, in the journal and in the agent's transcript.
fn check(lab: &TestEnvironment, id: &str, accepted: &BTreeMap<u64, String>) {
    let all = turns(lab, id);
    assert_eq!(all.len(), accepted.len() + 1, "{all:?}");
    let ran = did(lab, id);
    let ends = lab.events(id, "turn_ended");
    for turn in &all {
        let (number, prompt, state) =
            (turn["number"].as_u64().expect("a number"), text(turn, "prompt"), text(turn, "state"));
        if let Some(expected) = accepted.get(&number) {
            assert_eq!(&prompt, expected);
        }
        assert_eq!(ends.iter().filter(|end| end["turn"] == number).count(), 1, "one end: {turn}");
        let mine: Vec<&PromptRecord> = ran.iter().filter(|did| did.prompt == prompt).collect();
        match state.as_str() {
            "done" => assert!(mine.len() == 1 && mine[0].is_done(), "{turn}: {mine:?}"),
            "unknown" | "interrupted" => assert!(mine.len() <= 1, "{turn}: {mine:?}"),
            other => panic!("a turn is {other}: {turn}"),
        }
    }
    let known: Vec<String> = all.iter().map(|turn| text(turn, "prompt")).collect();
    let order: Vec<_> = ran.iter().map(|did| known.iter().position(|prompt| *prompt == did.prompt)).collect();
    assert!(order.is_sorted() && order.iter().all(Option::is_some), "in the order of acceptance: {order:?}");
    let seqs: Vec<_> = lab.log(id).iter().map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).map(Some).collect::<Vec<_>>());
}

/// How many things happen in one life.
const DEEDS: u64 = 16;

/// Clients send, steer, interrupt, cancel, pause, stop, kill and replace at random: every accepted turn has one end,
/// and the agent had none of them twice.
#[test]
fn f2_whatever_is_done_to_a_session_every_accepted_turn_has_one_end_and_ran_at_most_once() {
    let mut seed = SeededRng::announce("any life");
    for life in 0..rounds(160).div_ceil(DEEDS) {
        any_life(&lab(), &mut seed, life);
    }
}

fn any_life(lab: &TestEnvironment, seed: &mut SeededRng, life: u64) {
    let id = start(lab, &["--on-unknown", "continue"]);
    let (mut senders, mut others) = (Vec::new(), Vec::new());
    for deed in 0..DEEDS {
        let prompt = format!("sleep:{} {life}-{deed}", seed.below(20));
        let turn = format!("{id}.{}", 1 + seed.below(DEEDS));
        let process = |field: &str| {
            let pid = lab.show(&id)[field].as_u64();
            pid.and_then(|pid| ProcessIdentity::of(u32::try_from(pid).ok()?).ok())
        };
        match seed.below(16) {
            0..=6 => senders.push((prompt.clone(), spawn(lab, ["send", "--json", &id, &prompt]))),
            7 => senders.push((prompt.clone(), spawn(lab, ["send", "--json", "--interrupt", &id, &prompt]))),
            8 => senders.push((prompt.clone(), spawn(lab, ["send", "--json", "--steer", &id, &prompt]))),
            9 => others.push(spawn(lab, ["cancel", &turn])),
            10 => others.push(spawn(lab, ["queue", &id, "pause"])),
            11 => others.push(spawn(lab, ["queue", &id, "resume"])),
            12 => others.push(spawn(lab, ["stop", "--grace", "0s", &id])),
            13 => process("keeper_pid").iter().for_each(|keeper| signal(keeper, Signal::KILL)),
            14 => process("pid").iter().for_each(|agent| signal(agent, Signal::KILL)),
            _ => {
                let keeper = berth_api::KeeperConnection::open(&lab.session_dir(&id), "a test".into());
                // The keeper may be gone by now.
                let _ = keeper.map(|mut keeper| keeper.send(berth_api::message::KeeperRequest::Restart));
            }
        }
        seed.dawdle(25_000);
    }
    let mut accepted = Vec::new();
    for (prompt, child) in senders {
        let said = finish(child);
        if said.code == 0 {
            let receipt: serde_json::Value = serde_json::from_str(&said.out).expect("a receipt");
            accepted.push((receipt["number"].as_u64().expect("a number"), prompt));
        } else {
            let stored = turns(lab, &id).iter().any(|turn| text(turn, "prompt") == prompt);
            assert!(!stored, "{life}: refused and stored: {said:?}");
        }
    }
    others.into_iter().for_each(|child| drop(finish(child)));
    // The test puts everything right, and all turns come to their end.
    wait_until("everything to come to its end", || {
        lab.berth(["queue", &id, "resume"]);
        lab.berth(["send", "--wait", "--key", "last", &id, "the last"]);
        turns(lab, &id)
            .iter()
            .all(|turn| !["queued", "delivered", "working"].contains(&text(turn, "state").as_str()))
    });
    let (all, ran, ends) = (turns(lab, &id), did(lab, &id), lab.events(&id, "turn_ended"));
    assert_eq!(all.len(), accepted.len() + 1, "{life}: {all:?}");
    for (number, prompt) in &accepted {
        assert!(
            all.iter().any(|turn| turn["number"] == *number && text(turn, "prompt") == *prompt),
            "{life}: {prompt}"
        );
    }
    for turn in &all {
        assert_eq!(
            ends.iter().filter(|end| end["turn"] == turn["number"]).count(),
            1,
            "{life}: one end: {turn}"
        );
        let mine: Vec<&PromptRecord> = ran.iter().filter(|did| did.prompt == text(turn, "prompt")).collect();
        assert!(mine.len() <= 1, "{life}: {turn}: {mine:?}");
        let was_given = !turn["delivered_at"].is_null();
        assert!(was_given || mine.is_empty(), "{life}: never given, and it ran: {turn}");
        if text(turn, "state") == "done" && text(turn, "manner") == "queue" {
            assert!(mine.len() == 1 && mine[0].is_done(), "{life}: {turn}: {mine:?}");
        }
    }
}
