//! `berth --host`, `berth hosts`, `berth ls --hosts`.

use std::io::Write;
use std::process::Stdio;

use berth_harness::{TestEnvironment, TestHostPair, said, wait_child};

use crate::hosts::{added, strangers};

#[test]
fn a_command_works_on_another_host_as_on_this_one() {
    let hosts = added();
    let id = hosts.there.start_with(&["--name", "fix"], &["say:hello there", "hang"]);
    let mine = hosts.here.start_with(&["--name", "mine"], &["hang"]);
    let listed = hosts.ok(&["--host", "box", "ls", "--ids"]);
    assert_eq!(listed, id, "the sessions of the other host, and only those");
    assert_eq!(hosts.ok(&["ls", "--ids"]), mine);
    assert_eq!(hosts.ok(&["ls", "--ids", "--host=box"]), id, "behind the verb, too");
    hosts.there.wait_output("fix", "hello there");
    assert!(hosts.ok(&["--host", "box", "output", "fix"]).contains("hello there"));
    // Characters that are special to a shell arrive as they are.
    hosts.ok(&["--host", "box", "note", "fix", "it's $(id) `x` \\ \"q\" 日本\nnext"]);
    let note = hosts.there.show("fix")["note"].clone();
    assert_eq!(note, "it's $(id) `x` \\ \"q\" 日本\nnext");
    // A session that is begun there outlives the connection it was begun over.
    let begun = hosts.ok(&["--host", "box", "run", "--detach", "--", "sleep", "1000"]);
    assert_eq!(hosts.there.show(&begun)["state"], "running");
    hosts.ok(&["--host", "box", "stop", "fix"]);
    assert_eq!(hosts.there.show("fix")["state"], "stopped");
    assert_eq!(hosts.here.show("mine")["state"], "running");
}

#[test]
fn exit_codes_and_standard_input_go_through() {
    let hosts = added();
    for code in [0, 3, 127, 255] {
        let script = format!("exit {code}");
        let ended = hosts.berth(&["--host", "box", "run", "--", "sh", "-c", &script]);
        assert_eq!(ended.code, code, "{ended:?}");
    }
    assert_eq!(hosts.berth(&["--host", "box", "show", "nobody"]).code, 3);
    hosts.there.start_with(&["--name", "cat"], &["echo"]);
    let mut typing = hosts.command(&["--host", "box", "input", "cat", "-"]);
    let mut child = typing.stdin(Stdio::piped()).spawn().expect("berth can be started");
    child.stdin.take().expect("piped").write_all(b"over ssh\r").expect("it reads");
    assert_eq!(wait_child(child), 0);
    hosts.there.wait_output("cat", "over ssh");
}

#[test]
fn a_host_that_cannot_be_reached_is_exit_5_with_a_hint() {
    let hosts = strangers();
    let away = hosts.berth(&["--host", "away", "ls"]);
    assert_eq!(away.code, 5, "{away:?}");
    assert!(away.err.contains("away cannot be reached") && away.err.contains("`ssh away true`"), "{away:?}");
    hosts.without_programs();
    let bare = hosts.berth(&["--host", "box", "--quiet", "ls"]);
    assert_eq!(bare.code, 5, "{bare:?}");
    assert!(bare.err.contains("there is no `berth` on box") && bare.err.contains("--berth PATH"), "{bare:?}");
    let refused = hosts.berth(&["hosts", "add", "box"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    assert_eq!(hosts.ok(&["hosts", "ls", "--json"]), "[]", "a host that does not answer is not added");
    for odd in ["-oProxyCommand=touch x", "a b", ""] {
        let refused = hosts.berth(&[&format!("--host={odd}"), "ls"]);
        assert_eq!(refused.code, 2, "{odd}: {refused:?}");
    }
    let twice = hosts.berth(&["--host", "box", "--host", "away", "ls"]);
    assert_eq!(twice.code, 2, "{twice:?}");
}

#[test]
fn one_list_over_all_hosts_and_one_that_is_away_is_shown_as_it_was() {
    let hosts = added();
    let there = hosts.there.start_with(&["--name", "fix"], &["hang"]);
    let here = hosts.here.start_with(&["--name", "mine"], &["hang"]);
    let list = |hosts: &TestHostPair| -> Vec<serde_json::Value> {
        serde_json::from_str(&hosts.ok(&["ls", "--hosts", "--json"])).expect("JSON")
    };
    let both = list(&hosts);
    let of =
        |id: &str, list: &[serde_json::Value]| list.iter().find(|row| row["id"] == id).expect(id).clone();
    assert_eq!(
        (&of(&there, &both)["host"], &of(&here, &both)["host"]),
        (&"box".into(), &serde_json::Value::Null)
    );
    let text = hosts.ok(&["ls", "--hosts"]);
    assert!(text.contains("box:fix") && text.contains("mine"), "{text}");
    // The host is still configured, and does not answer any more.
    hosts.cut();
    let told = said(hosts.command(&["ls", "--hosts"]).output().expect("berth runs"));
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("box:fix"), "{told:?}");
    assert!(told.err.contains("box is away") && told.err.contains("shown as of"), "{told:?}");
    let still = list(&hosts);
    assert_eq!(of(&there, &still)["host_away"], true);
    assert!(of(&there, &still)["host_age_ms"].is_u64());
    assert!(hosts.ok(&["hosts"]).contains("away ("), "and so does the list of hosts");
    hosts.ok(&["hosts", "rm", "box"]);
    assert_eq!(hosts.berth(&["hosts", "rm", "box"]).code, 3);
    assert_eq!(list(&hosts).len(), 1);
}

#[test]
fn two_hosts_that_tell_of_the_same_session_have_a_row_each() {
    let hosts = added();
    let here = hosts.here.start_with(&["--name", "mine"], &["hang"]);
    // The copy of a whole machine has the sessions of the original.
    let place = |lab: &TestEnvironment| lab.home().join("sessions").join(&here);
    hosts.here.ok(["stop", &here]);
    let copied =
        std::process::Command::new("cp").arg("-a").args([place(&hosts.here), place(&hosts.there)]).status();
    assert!(copied.is_ok_and(|copied| copied.success()));
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&hosts.ok(&["ls", "--hosts", "--all", "--json"])).expect("JSON");
    let mut placed: Vec<_> = rows.iter().map(|row| (row["host"].as_str(), row["id"].as_str())).collect();
    placed.sort_unstable();
    assert_eq!(placed, [(None, Some(here.as_str())), (Some("box"), Some(here.as_str()))]);
    let text = hosts.ok(&["ls", "--hosts", "--all"]);
    let called: Vec<_> =
        text.lines().filter_map(|line| line.split_whitespace().find(|word| word.contains("mine"))).collect();
    assert!(called.len() == 2 && called.contains(&"mine") && called.contains(&"box:mine"), "{text}");
    // Names that are printed can be typed.
    let ids = hosts.ok(&["ls", "--hosts", "--all", "--ids"]);
    assert!(ids.lines().any(|id| id == here) && ids.lines().any(|id| id == format!("box:{here}")), "{ids}");
    assert!(hosts.ok(&["show", &format!("box:{here}")]).contains("mine"));
}

#[test]
fn a_host_with_another_version_is_reported() {
    let hosts = added();
    let said =
        said(hosts.here.command(["proxy", "exec", "--from", "9.9.9", "--", "ls"]).output().expect("berth"));
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("9.9.9 where you are"), "{said:?}");
    // A host that reports an older version.
    let known = hosts.here.home().join("hosts/box.known");
    let text = std::fs::read_to_string(&known).expect("what is known");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json["version"] = "0.0.1".into();
    std::fs::write(&known, json.to_string()).expect("what is known");
    hosts.cut();
    assert!(hosts.ok(&["hosts"]).contains("0.0.1 there"));
}

#[test]
fn a_person_attaches_over_ssh_and_leaves_and_the_session_goes_on() {
    let hosts = added();
    hosts.there.start_with(&["--name", "fix"], &["say:at your service", "echo"]);
    hosts.configure();
    let mut terminal = hosts.here.terminal(["--host", "box", "attach", "fix"]);
    terminal.wait_for("at your service");
    terminal.type_keys("typed from afar\r");
    hosts.there.wait_output("fix", "typed from afar");
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0);
    assert_eq!(hosts.there.show("fix")["state"], "running");
}
