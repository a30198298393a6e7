//! Commands that run because of an event: a notifier belongs to no run, and must not be a way out of one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use berth_harness::{TestEnvironment, wait_until};

use crate::grants::{BERTH, agent, file, inside, lab};

/// A program that tries to stop the session `other`, hidden as well as it can be, and writes down the outcome.
fn stopper(lab: &TestEnvironment) -> (PathBuf, PathBuf) {
    let (script, told) = (file(lab, "stopper"), file(lab, "told"));
    let text = format!(
        "#!/bin/sh\nenv -i BERTH_HOME={} {BERTH} stop other >{1}.text 2>&1\necho $? >{1}.part\nmv {1}.part {1}\n",
        lab.home().display(),
        told.display()
    );
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("our own file");
    (script, told)
}

/// A config file that has events told to this program.
fn telling(script: &PathBuf) -> String {
    format!("[notify]\non = [\"finished\", \"failed\"]\ncommand = [{script:?}]\n")
}

/// Asserts that the notifier was refused as a process inside of this session.
fn was_refused(lab: &TestEnvironment, told: &PathBuf, session: &str) {
    wait_until("it to have tried", || told.exists());
    let text = fs::read_to_string(told.with_extension("text")).expect("the answer it got");
    assert_eq!(fs::read_to_string(told).expect("a code").trim(), "11", "{text}");
    assert!(text.contains(&format!("inside of session `{session}`")), "{text}");
    assert_ne!(lab.show("other")["state"], "stopped");
}

#[test]
fn a_command_of_a_notifier_counts_as_inside_of_the_session_it_tells_of() {
    let lab = lab();
    let (script, told) = stopper(&lab);
    agent(&lab, "other", &[]);
    let config = fs::read_to_string(lab.config()).expect("the config") + &telling(&script);
    fs::write(lab.config(), config).expect("the config");
    agent(&lab, "outer", &[]);
    lab.ok(["send", "outer", "hello"]);
    was_refused(&lab, &told, "outer");
}

#[test]
fn notifications_of_a_session_have_the_grant_of_the_session() {
    let lab = lab();
    let (script, told) = stopper(&lab);
    agent(&lab, "other", &[]);
    let config = fs::read_to_string(lab.config()).expect("the config") + &telling(&script);
    fs::write(lab.config(), config).expect("the config");
    agent(&lab, "outer", &["--grant", "control"]);
    lab.ok(["send", "outer", "hello"]);
    wait_until("it to have tried", || told.exists());
    assert_eq!(fs::read_to_string(&told).expect("a code").trim(), "0");
    assert_eq!(lab.show("other")["state"], "stopped");
}

/// An agent can name a config file of its own to a session it starts, and so choose the commands of its events.
#[test]
fn a_config_file_of_an_agents_own_is_no_way_out() {
    let lab = lab();
    let (script, told) = stopper(&lab);
    agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    let evil = file(&lab, "evil.toml");
    fs::write(&evil, telling(&script)).expect("a config");
    let start = format!("BERTH_CONFIG={} berth run -d --name child -- false", evil.display());
    inside(&lab, "outer", &start).ok();
    was_refused(&lab, &told, "child");
}
