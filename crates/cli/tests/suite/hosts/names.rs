//! Sessions of other hosts by the names that `berth ls --hosts` shows: `box:fix`.

use berth_harness::{said, wait_child};
use std::io::Write;
use std::process::Stdio;

use crate::hosts::added;

#[test]
fn every_verb_takes_a_session_of_another_host_by_the_name_that_the_list_shows() {
    let hosts = added();
    let id = hosts.there.start_with(&["--name", "fix"], &["say:hello there", "echo"]);
    // A session of the same name on this host is another session.
    hosts.here.start_with(&["--name", "fix"], &["hang"]);
    hosts.there.wait_output("fix", "hello there");
    let shown: serde_json::Value =
        serde_json::from_str(&hosts.ok(&["show", "box:fix", "--json"])).expect("JSON");
    assert_eq!(shown["id"], id);
    assert!(hosts.ok(&["output", "box:fix"]).contains("hello there"));
    assert!(hosts.ok(&["screen", "--session=box:fix"]).contains("hello there"));
    assert!(hosts.ok(&["--session", "box:fix", "screen"]).contains("hello there"));
    hosts.ok(&["note", "box:fix", "box:fix"]);
    assert_eq!(hosts.there.show("fix")["note"], "box:fix", "only the session is meant, not the words");
    hosts.ok(&["note", "--session", "fix", "box:fix"]);
    assert_eq!(hosts.here.show("fix")["note"], "box:fix", "behind --session it is a word");
    let mut typing = hosts.command(&["input", "box:fix", "-"]);
    let mut child = typing.stdin(Stdio::piped()).spawn().expect("berth can be started");
    child.stdin.take().expect("piped").write_all(b"by its name\r").expect("it reads");
    assert_eq!(wait_child(child), 0);
    hosts.there.wait_output("fix", "by its name");
    hosts.there.start_with(&["--name", "two"], &["hang"]);
    hosts.ok(&["stop", "box:fix", "box:two", "--grace", "0s"]);
    assert_eq!(
        (
            &hosts.there.show("fix")["state"],
            &hosts.there.show("two")["state"],
            &hosts.here.show("fix")["state"]
        ),
        (&"stopped".into(), &"stopped".into(), &"running".into())
    );
}

#[test]
fn names_on_two_hosts_and_of_an_unknown_host_are_refused_with_a_hint() {
    let hosts = added();
    hosts.there.start_with(&["--name", "fix"], &["hang"]);
    hosts.here.start_with(&["--name", "mine"], &["hang"]);
    let mixed = hosts.berth(&["stop", "box:fix", "mine"]);
    assert_eq!(mixed.code, 2, "{mixed:?}");
    assert!(mixed.err.contains("are not on one host"), "{mixed:?}");
    assert_eq!(
        (&hosts.there.show("fix")["state"], &hosts.here.show("mine")["state"]),
        (&"running".into(), &"running".into())
    );
    let nowhere = hosts.berth(&["show", "crate:fix"]);
    assert_eq!(nowhere.code, 3, "{nowhere:?}");
    assert!(nowhere.err.contains("there is no host `crate`"), "{nowhere:?}");
    let none = hosts.berth(&["show", "box:nobody"]);
    assert_eq!(none.code, 3, "{none:?}");
    assert!(none.err.contains("no session `nobody`"), "{none:?}");
    hosts.cut();
    let away = said(hosts.command(&["show", "box:fix"]).output().expect("berth runs"));
    assert_eq!(away.code, 5, "{away:?}");
}

#[test]
fn a_client_that_detaches_from_a_session_of_another_host_is_told_the_way_back_from_here() {
    let hosts = added();
    hosts.there.start_with(&["--name", "fix"], &["say:at your service", "echo"]);
    hosts.configure();
    let mut terminal = hosts.here.terminal(["attach", "box:fix"]);
    terminal.wait_for("at your service");
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0);
    let text = terminal.text().replace(['\n', '\r'], "");
    assert!(text.contains("berth --host box attach fix"), "{text}");
}
