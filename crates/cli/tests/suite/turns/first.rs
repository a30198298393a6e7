//! C1: two first turns at once, in a session that never had one: with a keeper, and without.

use berth_harness::{SeededRng, TestEnvironment};

use crate::turns::{
    PromptRecord, did, finish, lab, rounds, spawn, start, text, transcripts, turns, wait_unkept,
};

/// Two clients send at once. Both get the answer to their own prompt, in the order of acceptance, and the agent
/// has one conversation with two turns in it.
fn two_first_sends(lab: &TestEnvironment, seed: &mut SeededRng, id: &str, round: u64) {
    let prompts = ["a", "b"].map(|who| format!("{who} {round}"));
    let first = spawn(lab, ["send", "--wait", id, &prompts[0]]);
    seed.dawdle(8_000);
    let second = spawn(lab, ["send", "--wait", id, &prompts[1]]);
    for (prompt, child) in prompts.iter().zip([first, second]) {
        let said = finish(child);
        assert_eq!((said.code, said.out), (0, format!("ECHO: {prompt}\n")), "round {round}: {}", said.err);
    }
    let told = turns(lab, id);
    assert_eq!(told.len(), 2, "round {round}: {told:?}");
    let done: Vec<_> = did(lab, id)
        .into_iter()
        .map(|PromptRecord { prompt, over, .. }| (prompt, over.expect("it is over").1))
        .collect();
    let expected: Vec<_> = told.iter().map(|turn| (text(turn, "prompt"), text(turn, "answer"))).collect();
    assert_eq!(done, expected, "round {round}: in the order they were accepted");
    // The agent was told to enter one conversation, and never another.
    let entered = lab.events(id, "conversation_entered");
    assert_eq!(transcripts(lab).len() as u64, round + 1, "round {round}: one transcript each: {entered:?}");
}

#[test]
fn c1_two_first_turns_run_one_after_the_other() {
    let mut seed = SeededRng::announce("c1");
    let lab = lab();
    for round in 0..rounds(100) {
        let id = start(&lab, &[]);
        two_first_sends(&lab, &mut seed, &id, round);
        assert_eq!(lab.number(&id, "epoch"), 1);
        lab.ok(["stop", "--grace", "0s", &id]);
    }
}

/// The session has no keeper: the two senders also race for starting it.
fn without_a_keeper(name: &str, options: &[&str], leave: impl Fn(&TestEnvironment, &str)) {
    let mut seed = SeededRng::announce(name);
    let lab = lab();
    for round in 0..rounds(20) {
        let id = start(&lab, options);
        leave(&lab, &id);
        two_first_sends(&lab, &mut seed, &id, round);
        lab.ok(["stop", "--grace", "0s", &id]);
    }
}

#[test]
fn c1_two_first_turns_of_a_stopped_session_start_it_once() {
    without_a_keeper("c1 stopped", &[], |lab, id| drop(lab.ok(["stop", "--grace", "0s", id])));
}

#[test]
fn c1_two_first_turns_of_a_session_whose_keeper_died_start_it_once() {
    without_a_keeper("c1 lost", &[], |lab, id| lab.kill_keeper(id));
}

#[test]
fn c1_two_first_turns_of_a_session_whose_agent_was_released_bring_it_back() {
    // The agent is released again whenever it has nothing to do, also between the two.
    without_a_keeper("c1 idle", &["--idle", "1ms"], wait_unkept);
}
