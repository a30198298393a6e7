//! Sessions started inside sessions: below each other in the process tree, independent in life.

use berth_harness::{TestEnvironment, signal, wait_gone};
use rustix::process::Signal;

/// A session whose agent starts another session, then waits.
fn outer_and_inner() -> (TestEnvironment, String) {
    let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
    let berth = env!("CARGO_BIN_EXE_berth");
    let agent = lab.agent();
    let script =
        format!("{berth} run -d --name inner -- {agent} say:inner hang && echo both && exec {agent} hang");
    let outer = lab.ok(["run", "-d", "--name", "outer", "--", "sh", "-c", &script]);
    lab.wait_output(&outer, "both");
    (lab, outer)
}

#[test]
fn stopping_a_session_leaves_one_that_was_started_inside_it_alone() {
    let (lab, _) = outer_and_inner();
    let inner = lab.process("inner", "pid");
    let said = lab.berth(["stop", "outer"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(lab.show("outer")["state"], "stopped");
    assert_eq!(lab.show("inner")["state"], "running");
    assert_eq!(lab.process("inner", "pid"), inner);
    assert_eq!(lab.berth(["stop", "inner"]).code, 0);
    wait_gone(&inner);
}

#[test]
fn a_session_whose_agent_ends_is_over_although_one_started_inside_it_goes_on() {
    let (lab, _) = outer_and_inner();
    signal(&lab.process("outer", "pid"), Signal::KILL);
    assert_eq!(lab.berth(["wait", "outer", "--timeout", "60s"]).code, 137);
    assert_eq!(lab.show("inner")["state"], "running");
}

#[test]
fn killing_the_outer_keeper_with_9_leaves_the_inner_session_alone() {
    let (lab, _) = outer_and_inner();
    let inner = lab.process("inner", "pid");
    let keeper = lab.process("outer", "keeper_pid");
    signal(&keeper, Signal::KILL);
    wait_gone(&keeper);
    assert_eq!(lab.show("outer")["state"], "lost");
    assert_eq!(lab.show("inner")["state"], "running");
    assert_eq!(lab.process("inner", "pid"), inner);
}

#[test]
fn an_outer_agent_that_must_be_killed_has_the_exit_it_had_although_an_inner_session_goes_on() {
    let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
    let berth = env!("CARGO_BIN_EXE_berth");
    let agent = lab.agent();
    let script =
        format!("{berth} run -d --name inner -- {agent} hang && exec {agent} ignore:TERM,HUP say:deaf hang");
    let outer = lab.ok(["run", "-d", "--name", "outer", "--", "sh", "-c", &script]);
    lab.wait_output(&outer, "deaf");
    assert_eq!(lab.berth(["stop", "outer", "--grace", "50ms"]).code, 0);
    let shown = lab.show("outer");
    assert_eq!((&shown["state"], &shown["exit"]), (&"stopped".into(), &137.into()), "{shown}");
    assert_eq!(lab.show("inner")["state"], "running");
}
