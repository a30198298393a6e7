//! Sessions that were started in sessions, and helpers, under the ones they belong to.

use berth_harness::Lab;
use serde_json::{Value, json};

use super::lab;

/// A session in which another one and a helper were started.
fn family(lab: &Lab) -> String {
    let (berth, agent) = (env!("CARGO_BIN_EXE_berth"), lab.agent());
    let script = format!(
        "{berth} run -d --name inner -- {agent} hang && {berth} helper ensure db -- {agent} hang && echo all \
         && exec {agent} hang"
    );
    let id = lab.ok(["run", "-d", "--name", "outer", "--", "sh", "-c", &script]);
    lab.wait_output(&id, "all");
    id
}

#[test]
fn a_session_started_in_a_session_is_under_it_with_the_helpers() {
    let lab = lab();
    let outer = family(&lab);
    lab.start_with(&["--name", "alone"], &["hang"]);
    assert_eq!(lab.show("inner")["parent"], outer.as_str());
    assert_eq!(lab.show("alone")["parent"], Value::Null);
    let text = lab.ok(["ls", "--tree", "--sort", "name"]);
    let firsts: Vec<&str> = text.lines().map(|line| line.split("  ").next().unwrap_or_default()).collect();
    assert_eq!(firsts, ["SESSION", "alone", "outer", "├─ helper db", "└─ inner"], "{text}");
    let tree = lab.json(["ls", "--tree", "--json", "--sort", "name"]);
    assert_eq!(tree.as_array().map(Vec::len), Some(2), "{tree}");
    assert_eq!(tree[0]["children"], json!([]));
    assert_eq!(tree[1]["children"][0]["name"], "inner");
    assert_eq!(tree[1]["helpers"][0]["helper"]["name"], "db");
    // Without its parent it is on top, and nobody is lost.
    let some = lab.json(["ls", "--tree", "--json", "--name", "inner"]);
    assert_eq!((&some[0]["name"], some.as_array().map(Vec::len)), (&json!("inner"), Some(1)));
}

#[test]
fn a_session_that_somebody_only_means_is_no_parent() {
    let lab = lab();
    let meant = lab.start_with(&["--name", "meant"], &["hang"]);
    // Somebody's shell that means a session by default is not inside of it, nor is another session's run.
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
