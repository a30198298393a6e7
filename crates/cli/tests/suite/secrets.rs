//! Secrets on command lines: in no list, log or error, and unchanged in the session's own record.

use berth_harness::TestEnvironment;

const SECRET: &str = "hunter2-not-to-be-seen";

#[test]
fn e13_a_secret_in_a_command_is_in_no_table_log_or_error() {
    let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
    let agent = lab.agent();
    let script = format!("exec {agent} say:up hang --api-key {SECRET}");
    // The shell passes its positional arguments on to no process, so the agent never sees them.
    let id = lab.ok([
        "run",
        "-d",
        "--name",
        "quiet",
        "--key",
        "k",
        "--",
        "sh",
        "-c",
        &format!("exec {agent} say:up hang"),
        "sh",
        "--token",
        SECRET,
        &format!("PASSWORD={SECRET} and more"),
        &format!("https://ada:{SECRET}@host/"),
    ]);
    lab.wait_output(&id, "up");
    for args in [&["ls"][..], &["show", "quiet"], &["log", "quiet"], &["why", "quiet"]] {
        let said = lab.berth(args);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(!format!("{said:?}").contains(SECRET), "{args:?} shows the secret: {said:?}");
    }
    assert!(lab.ok(["show", "quiet"]).contains("--token *** PASSWORD=*** https://ada:***@host/"));

    let refused = lab.berth(["run", "-d", "--key", "k", "--", "sh", "-c", &script]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(!format!("{refused:?}").contains(SECRET), "{refused:?}");

    let shown = lab.show("quiet");
    assert_eq!(shown["command"][5], SECRET, "the record is the user's own, as it was given");
}
