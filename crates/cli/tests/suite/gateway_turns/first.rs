//! C1: two first turns at once, from two tabs, in a session that never had one: with a keeper, and without.

use berth_harness::{GatewayProcess, SeededRng, TestEnvironment};
use serde_json::json;

use crate::gateway_turns::{PromptRecord, at, did, lab, rounds, send, start, text, transcripts, wait_unkept};

/// Both get the answer to their own prompt, in the order of acceptance, and the agent has one conversation.
fn two_first_sends(
    lab: &TestEnvironment,
    gateway: &GatewayProcess,
    seed: &mut SeededRng,
    id: &str,
    round: u64,
) {
    let prompts = ["a", "b"].map(|who| format!("{who} {round}"));
    let mut dawdle = seed.fork();
    std::thread::scope(|scope| {
        let tabs = prompts.each_ref().map(|prompt| {
            let tab = scope.spawn(move || send(gateway, id, &json!({"text": prompt, "wait": true})));
            dawdle.dawdle(8_000);
            tab
        });
        for (prompt, tab) in prompts.iter().zip(tabs) {
            let reply = tab.join().expect("a reply");
            assert_eq!(reply.status, 200, "round {round}: {}", reply.text());
            let turn = reply.json();
            assert_eq!(
                (text(&turn, "state"), text(&turn, "answer")),
                ("done".into(), format!("ECHO: {prompt}"))
            );
            assert_eq!(turn["in_progress"], false, "{turn}");
        }
    });
    let told = gateway.get(&at(id, "turns")).ok()["turns"].as_array().expect("an array").clone();
    assert_eq!(told.len(), 2, "round {round}: {told:?}");
    let done: Vec<_> = did(lab, id)
        .into_iter()
        .map(|PromptRecord { prompt, over, .. }| (prompt, over.expect("it is over").1))
        .collect();
    let expected: Vec<_> = told.iter().map(|turn| (text(turn, "prompt"), text(turn, "answer"))).collect();
    assert_eq!(done, expected, "round {round}: in the order they were accepted");
    let entered = lab.events(id, "conversation_entered");
    assert_eq!(transcripts(lab).len() as u64, round + 1, "round {round}: one transcript each: {entered:?}");
}

fn tabs_of(name: &str, usually: u64, options: &[&str], leave: impl Fn(&TestEnvironment, &str)) {
    let mut seed = SeededRng::announce(name);
    let lab = lab();
    let gateway = lab.serve();
    for round in 0..rounds(usually) {
        let id = start(&lab, options);
        leave(&lab, &id);
        two_first_sends(&lab, &gateway, &mut seed, &id, round);
        lab.ok(["stop", "--grace", "0s", &id]);
    }
}

#[test]
fn c1_two_first_turns_of_two_tabs_run_one_after_the_other() {
    tabs_of("c1 http", 40, &[], |_, _| {});
}

#[test]
fn c1_two_first_turns_of_two_tabs_start_a_stopped_session_once() {
    tabs_of("c1 http stopped", 12, &[], |lab, id| drop(lab.ok(["stop", "--grace", "0s", id])));
}

#[test]
fn c1_two_first_turns_of_two_tabs_start_a_session_whose_keeper_died_once() {
    tabs_of("c1 http lost", 12, &[], |lab, id| lab.kill_keeper(id));
}

#[test]
fn c1_two_first_turns_of_two_tabs_bring_back_an_agent_that_was_released() {
    tabs_of("c1 http idle", 12, &["--idle", "1ms"], wait_unkept);
}
