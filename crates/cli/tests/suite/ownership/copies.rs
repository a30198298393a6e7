//! A copy of a state directory names the same sessions, processes and groups as the original, and owns none.

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_harness::{CommandOutput, TestEnvironment, signal, wait_gone};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

use crate::ownership::namespace::{WITHOUT_GROUPS, can_unshare, changed};
use crate::ownership::{done, is_alive, lab};

fn copy_of(lab: &TestEnvironment) -> PathBuf {
    let copy = lab.dir().join("copy");
    let status = Command::new("cp").arg("-a").args([lab.home(), copy.clone()]).status().expect("cp");
    assert!(status.success());
    copy
}

fn on(copy: &Path, lab: &TestEnvironment, args: &[&str]) -> CommandOutput {
    let mut command = lab.command(args);
    command.env("BERTH_HOME", copy);
    done(command)
}

fn processes(lab: &TestEnvironment, id: &str) -> [ProcessIdentity; 2] {
    [lab.process(id, "keeper_pid"), lab.process(id, "pid")]
}

#[test]
fn no_command_on_a_copy_ends_anything_of_the_original_that_runs() {
    let lab = lab();
    let id = lab.start(&["ignore:HUP,TERM", "say:ready", "hang"]);
    nothing_ends_by_a_copy(&lab, &id);
}

/// The group that both records name cannot tell them apart here.
#[test]
fn no_command_on_a_copy_ends_anything_of_the_original_that_runs_without_a_group() {
    if !can_unshare() {
        return;
    }
    let lab = lab();
    let run = ["run", "-d", "--", &lab.agent(), "ignore:HUP,TERM", "say:ready", "hang"];
    let started = done(changed(&lab, WITHOUT_GROUPS, &run));
    nothing_ends_by_a_copy(&lab, started.out.trim());
}

fn nothing_ends_by_a_copy(lab: &TestEnvironment, id: &str) {
    lab.wait_output(id, "ready");
    let original = processes(lab, id);
    let log = lab.log(id);
    let copy = copy_of(lab);
    for args in [
        &["ls"][..],
        &["show", id],
        &["why", id],
        &["wait", id, "--timeout", "1ms"],
        &["stop", "--grace", "0s", id],
        &["resume", "-d", id],
        &["sweep"],
    ] {
        let said = on(&copy, lab, args);
        assert!(original.iter().all(is_alive), "{args:?} on a copy: {said:?}");
        if ["stop", "resume", "sweep"].contains(&args[0]) {
            assert_ne!(said.code, 0, "{args:?}: it did not happen: {said:?}");
            assert!(format!("{said:?}").contains("this directory is a copy"), "{args:?}: {said:?}");
        }
    }
    assert_eq!(lab.log(id), log, "nothing happened to the original");
    assert_eq!(lab.show(id)["state"], "running");
}

/// Both go on from the same record, and so their runs have the same numbers, marks and group names.
#[test]
fn a_copy_that_went_its_own_way_ends_nothing_of_the_original() {
    let lab = lab();
    let id = lab.start(&["ignore:HUP,TERM", "say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    lab.ok(["stop", "--grace", "0s", &id]);
    berth_harness::wait_until("its keeper to leave", || lab.processes().is_empty());
    let copy = copy_of(&lab);
    lab.ok(["resume", "-d", &id]);
    lab.wait_output(&id, "ready");
    let original = processes(&lab, &id);
    let of_copy = |field: &str| {
        let said = on(&copy, &lab, &["show", &id, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&said.out).expect("a status");
        shown[field].clone()
    };
    let resumed = on(&copy, &lab, &["resume", "-d", &id]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(of_copy("epoch"), 2);

    // Judged by its mark, the original's agent could be a leftover of the copy's dead keeper.
    let keeper = ProcessIdentity::of(of_copy("keeper_pid").as_u64().expect("a pid") as u32).expect("it runs");
    signal(&keeper, Signal::KILL);
    wait_gone(&keeper);
    assert_eq!(of_copy("state"), "lost");
    assert!(original.iter().all(is_alive), "the copy took the original's agent for its own leftover");

    // Judged by its name, the original's group could be that of the copy's run that is over.
    for args in
        [&["sweep"][..], &["resume", "-d", &id], &["sweep"], &["stop", "--grace", "0s", &id], &["sweep"]]
    {
        let said = on(&copy, &lab, args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        assert!(original.iter().all(is_alive), "{args:?} on the copy ended the original: {said:?}");
    }
    assert_eq!(of_copy("state"), "stopped");
    assert_eq!(lab.show(&id)["state"], "running");
    lab.ok(["stop", "--grace", "0s", &id]);
}
