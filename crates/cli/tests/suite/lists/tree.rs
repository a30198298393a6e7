//! Sessions that were started in sessions, and helpers, under the ones they belong to.

use berth_harness::TestEnvironment;
use serde_json::{Value, json};

use super::lab;
use crate::common::screen_settings;

/// A session in which another one and a helper were started.
fn family(lab: &TestEnvironment) -> String {
    let (berth, agent) = (env!("CARGO_BIN_EXE_berth"), lab.agent());
    let script = format!(
        "{berth} run -d --name inner -- {agent} hang && {berth} helper ensure db -- {agent} hang && echo all \
         && exec {agent} hang"
    );
    let id = lab.ok(["run", "-d", "--name", "outer", "--cwd", "/", "--", "sh", "-c", &script]);
    lab.wait_output(&id, "all");
    id
}

#[test]
fn a_session_started_in_a_session_is_under_it_with_the_helpers() {
    let lab = lab();
    let outer = family(&lab);
    lab.start_with(&["--name", "alone", "--cwd", "/"], &["hang"]);
    assert_eq!(lab.show("inner")["parent"], outer.as_str());
    assert_eq!(lab.show("alone")["parent"], Value::Null);
    let mut terminal = lab.terminal(["ls", "--tree", "--sort", "name"]);
    assert_eq!(terminal.wait_exit(), 0);
    screen_settings().bind(|| insta::assert_snapshot!("tree", terminal.text()));
    let text = lab.ok(["ls", "--tree", "--sort", "name"]);
    let firsts: Vec<&str> = text.lines().map(|line| line.split("  ").next().unwrap_or_default()).collect();
    assert_eq!(firsts, ["SESSION", "alone", "outer", "├─ helper db", "└─ inner"], "{text}");
    let tree = lab.json(["ls", "--tree", "--json", "--sort", "name"]);
    assert_eq!(tree.as_array().map(Vec::len), Some(2), "{tree}");
    assert_eq!(tree[0]["children"], json!([]));
    assert_eq!(tree[1]["children"][0]["name"], "inner");
    assert_eq!(tree[1]["helpers"][0]["helper"]["name"], "db");
    // Without its parent in the list the session is on top, and no session is left out.
    let some = lab.json(["ls", "--tree", "--json", "--name", "inner"]);
    assert_eq!((&some[0]["name"], some.as_array().map(Vec::len)), (&json!("inner"), Some(1)));
}

#[test]
fn a_session_that_is_only_the_default_is_not_a_parent() {
    let lab = lab();
    let meant = lab.start_with(&["--name", "meant"], &["hang"]);
    // A user's shell that names a session by default is not inside of it, nor is another session's run.
    for (name, run) in
        [("nobody", None), ("other", Some("0123456789ab:1")), ("child", Some(&*format!("{meant}:1")))]
    {
        let mut command = lab.command(["run", "-d", "--name", name, "--", &lab.agent(), "hang"]);
        command.env("BERTH_SESSION", &meant).envs(run.map(|run| ("BERTH_RUN", run)));
        let made = command.output().expect("berth");
        assert!(made.status.success(), "{made:?}");
    }
    assert_eq!(lab.show("nobody")["parent"], Value::Null);
    assert_eq!(lab.show("other")["parent"], Value::Null);
    assert_eq!(lab.show("child")["parent"], meant.as_str());
}
