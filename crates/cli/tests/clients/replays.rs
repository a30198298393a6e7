//! The replays in `examples/` that need Python, and packages of it.

use berth_harness::{ReplayReport, TestEnvironment};

use crate::tools;

const BERTH: &str = env!("CARGO_BIN_EXE_berth");

#[test]
fn two_first_messages_are_two_turns_in_order_and_one_that_waits_too_long_is_a_429() {
    tools();
    let lab = TestEnvironment::new(BERTH);
    ReplayReport::run(&lab, "session-api", &[]).check(
        &["they are two turns in order, in one transcript (here: 2"],
        &[
            "both are answered (here: 200 200)",
            "they are two turns in order, in one transcript (here: 1, with begin end begin end)",
            "a message that waits for longer than the ceiling is a 429, with Retry-After",
            "the next message runs",
            "and the one that was refused never did",
            "GET /chats/cold/messages",
            "GET /chats",
            "GET /chats/cold",
            "POST /chats/cold/stop",
            "DELETE /chats/cold",
        ],
    );
    assert_eq!(lab.ok(["ls", "--all", "--ids"]).lines().count(), 1, "one chat is one session");
    let status = lab.show("cold");
    assert_eq!((&status["state"], &status["epoch"]), (&"archived".into(), &1.into()), "{status:#}");
}

#[test]
fn a_bot_that_is_killed_loses_and_doubles_nothing_and_archived_means_dead() {
    tools();
    let lab = TestEnvironment::new(BERTH);
    ReplayReport::run(&lab, "chat-bot", &[]).check(
        &[
            "`archived` means that the old run is dead",
            "one transcript has one writer",
            "the message is answered once",
        ],
        &[
            "`archived` means that the old run is dead",
            "one transcript has one writer at a time (here: 2 processes, 2 changes)",
            "the message is answered once (here: 1 times)",
            "the agent was asked once (here: 1 times)",
        ],
    );
    assert_eq!(
        lab.show("red")["epoch"],
        2,
        "its agent was started once before `/archive` and once behind `/restore`"
    );
}
