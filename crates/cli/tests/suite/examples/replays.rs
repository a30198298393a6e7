//! The replays in `examples/` that need bash and an ssh daemon: the failure of the naive tool, and the scene with berth.
//!
//! Not here: those that need Python packages (`clients`), and the one that needs Node (`real`).

use std::fs;

use berth_harness::{ReplayReport, TestEnvironment};

use crate::examples::BERTH;

#[test]
fn every_example_has_a_page_a_replay_and_a_line_in_the_index() {
    let index = fs::read_to_string(ReplayReport::examples().join("README.md")).expect("an index");
    let all =
        fs::read_dir(ReplayReport::examples()).expect("the examples").flatten().map(|entry| entry.path());
    let examples: Vec<_> = all.filter(|path| path.is_dir()).collect();
    assert_eq!(examples.len(), 5, "{examples:?}");
    for example in examples {
        let name = example.file_name().expect("a name").to_string_lossy();
        let page = fs::read_to_string(example.join("README.md")).expect("a page");
        for part in [format!("examples/{name}/replay"), "## The bug".into(), "## Lines to delete".into()] {
            assert!(page.contains(&part), "{name}: there is no `{part}` in its page");
        }
        assert!(example.join("replay").exists() && index.contains(&format!("({name}/README.md)")), "{name}");
    }
}

#[test]
fn twenty_workers_without_a_terminal_end_only_their_own_sessions() {
    let lab = TestEnvironment::new(BERTH);
    ReplayReport::run(&lab, "workers-without-a-terminal", &[]).check(
        &["twenty workers are at work at once", "each of twenty gets its answer", "exit 0 means"],
        &[
            "twenty workers are at work at once (here: 20)",
            "when the first has ended, the others are at work (here: 19)",
            "each of twenty gets its answer (here: 20)",
            "each has stopped its own session, and no other",
            "a session that is not named is not stopped, and the exit code says so (here: 7)",
            "a session that is named is stopped (here: 0)",
            "exit 0 means that it is stopped",
            "a session that is not there is not said to be stopped (here: 3)",
        ],
    );
    // The journals agree.
    let ids = lab.ok(["ls", "--all", "--ids"]);
    assert_eq!(ids.lines().count(), 21);
    for id in ids.lines() {
        assert_eq!(lab.events(id, "stop_requested").len(), 1, "{id}");
    }
}

#[test]
fn the_naive_tool_alone_fails_its_replay() {
    let lab = TestEnvironment::new(BERTH);
    let replay = ReplayReport::run(&lab, "workers-without-a-terminal", &["naive"]);
    assert_eq!(replay.said.code, 1, "{replay:#?}");
}

#[test]
fn a_turn_goes_on_when_ssh_drops_and_resume_last_finds_its_session() {
    let lab = TestEnvironment::new(BERTH);
    ReplayReport::run(&lab, "ssh-drop", &[]).check(
        &["the turn goes on without the connection", "the output on the screen is saved (here: nothing)"],
        &[
            "the turn goes on without the connection (here: working)",
            "all of it is saved (here: step 1, step 2, step 3, step 4, step 5, step 6)",
            "the session that was cut off is back",
            "earlier messages are there",
            "the turn is not run twice",
            "it goes on in the same conversation",
        ],
    );
    let turns = lab.json(["turns", "long", "--json"]);
    let states: Vec<_> = turns.as_array().into_iter().flatten().map(|turn| turn["state"].clone()).collect();
    assert_eq!(states, ["done", "unknown", "done"], "{turns:#}");
}
