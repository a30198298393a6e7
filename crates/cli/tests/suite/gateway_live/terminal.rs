//! A browser's terminal: attached, slow, cut off, and sending invalid messages.

use berth_api::message::KeeperRequest;
use berth_harness::tungstenite::Message;
use berth_harness::{SocketMessage, signal, wait_until};
use berth_screen::{Screen, ScreenSize};
use serde_json::json;

use crate::gateway_live::{connect, lab, resident_kib};

#[test]
fn a_client_attaches_sees_the_screen_types_and_leaves_and_the_run_goes_on() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let pid = lab.number(&id, "pid");
    let mut terminal = gateway.terminal(&id, "role=writer&rows=30&cols=100");
    let fence = terminal.wait_remark("attached")["fence"].as_u64().expect("a number to type with");
    terminal.wait_for("ready");
    assert_eq!(terminal.screens, 1, "the first thing shown is a whole screen");
    terminal.type_keys(b"<\xc3\xa4\x1b[A>");
    terminal.wait_for("<ä");
    let status = lab.show(&id);
    assert_eq!((&status["rows"], &status["cols"]), (&json!(30), &json!(100)));
    assert!(status["writer"]["place"].as_str().is_some_and(|place| place.contains("socket")), "{status}");
    terminal.say(&json!({"resize": {"rows": 12, "cols": 40}}));
    wait_until("the size", || lab.show(&id)["rows"] == 12);
    terminal.close();
    wait_until("no client types", || lab.show(&id)["writer"].is_null());
    assert_eq!((lab.number(&id, "pid"), lab.show(&id)["state"].as_str()), (pid, Some("running")));
    let mut again = gateway.terminal(&id, "role=writer");
    assert!(again.wait_remark("attached")["fence"].as_u64().is_some_and(|next| next > fence));
    again.wait_for("ready");
}

#[test]
fn an_observer_sees_the_screen_and_its_keys_and_sizes_have_no_effect() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let mut writer = gateway.terminal(&id, "role=writer&rows=20&cols=90");
    writer.wait_for("ready");
    let mut observer = gateway.terminal(&id, "rows=5&cols=5");
    assert_eq!(observer.wait_remark("attached"), json!({"fence": null}));
    observer.wait_for("ready");
    observer.type_keys(b"WRONG");
    observer.type_keys(b"WRONG");
    assert_eq!(observer.wait_remark("problem")["code"], "usage");
    observer.say(&json!({"resize": {"rows": 3, "cols": 3}}));
    writer.type_keys(b"right");
    observer.wait_for("right");
    assert_eq!(lab.output(&id), b"readyright");
    assert_eq!(lab.show(&id)["rows"], 20);
}

#[test]
fn an_observer_sees_the_screen_in_the_writers_new_size_at_once_though_the_agent_says_nothing() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let mut writer = gateway.terminal(&id, "role=writer&rows=20&cols=90");
    writer.wait_for("ready");
    let mut observer = gateway.terminal(&id, "role=observer");
    assert_eq!(observer.wait_remark("size"), json!({"rows": 20, "cols": 90}));
    observer.wait_for("ready");
    let before = lab.output(&id);
    for (rows, cols) in [(12, 40), (30, 120)] {
        writer.say(&json!({"resize": {"rows": rows, "cols": cols}}));
        assert_eq!(observer.wait_remark("size"), json!({"rows": rows, "cols": cols}));
        assert_eq!(observer.wait_remark("screen"), true);
    }
    assert_eq!(lab.output(&id), before, "nothing was written meanwhile");
}

#[test]
fn an_attached_client_is_told_of_the_end_of_the_run_and_stays_when_the_keeper_is_replaced() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["say:ready", "echo:!", "exit:7"]);
    let mut terminal = gateway.terminal(&id, "role=writer");
    let before = terminal.wait_remark("attached");
    terminal.wait_for("ready");
    let _ = connect(&lab, &id).ask(KeeperRequest::Restart);
    let after = terminal.wait_remark("attached");
    assert!(after["fence"].as_u64() > before["fence"].as_u64(), "{before} {after}");
    terminal.type_keys(b"bye!");
    let ended = terminal.wait_remark("ended");
    assert_eq!((&ended["id"], &ended["exit"]), (&json!(id), &json!(7)));
    assert_eq!(terminal.wait_closed(), Some(1000));
    let mut late = gateway.terminal(&id, "role=observer");
    assert_eq!(late.wait_remark("ended")["exit"], 7);
    assert_eq!(late.wait_closed(), Some(1000));
}

#[test]
fn a_browser_that_reads_nothing_holds_up_no_agent_and_then_sees_a_screen_without_a_torn_sequence() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["say:ready", "expect:go", "flood-colour:20M", "say:\\nall-done", "hang"]);
    let mut terminal = gateway.terminal(&id, "role=writer&rows=24&cols=80");
    terminal.wait_for("ready");
    let keeper = lab.number(&id, "keeper_pid");
    let sizes = || (resident_kib(gateway.pid()), resident_kib(keeper));
    let before = sizes();
    terminal.type_keys(b"go\r");
    // The client does not read its socket, and the agent comes to its end nevertheless.
    lab.wait_output(&id, "all-done");
    let after = sizes();
    println!("KiB of gateway and keeper: {before:?} {after:?}");
    assert!(after.0 < before.0 + 8 * 1024 && after.1 < before.1 + 8 * 1024, "{before:?} {after:?}");
    assert!(lab.number(&id, "output_bytes") > 20 * 1024 * 1024);
    terminal.wait_for("all-done");
    assert!(terminal.screens >= 2, "it was given a fresh screen");
    assert!(terminal.received < 2 * 1024 * 1024, "{} bytes waited for it", terminal.received);
    let mut screen = Screen::new(ScreenSize { rows: 24, cols: 80 });
    screen.feed(&terminal.shown);
    let expected = gateway.get(&format!("/v1/sessions/{id}/screen?format=ansi")).text();
    assert_eq!(screen.ansi().trim_end(), expected.trim_end());
}

#[test]
fn an_invalid_message_is_answered_and_one_that_is_too_large_ends_the_connection() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let path = format!("/v1/sessions/{id}/terminal");
    let refused =
        |path: &str, protocol: Option<&str>| gateway.socket(path, protocol).err().expect("a refusal");
    for protocol in [None, Some("berth.terminal.v9"), Some("chat")] {
        let (status, body) = refused(&path, protocol);
        assert!(status == 400 && body.contains("berth.terminal.v1"), "{status} {body}");
    }
    let right = Some("berth.terminal.v1");
    for query in ["role=owner", "rows=-1", "rows=70000", "size=3"] {
        assert_eq!(refused(&format!("{path}?{query}"), right).0, 400, "{query}");
    }
    assert_eq!(refused("/v1/sessions/nobody/terminal", right).0, 404);
    let plain = gateway.get(&path);
    assert!((400..500).contains(&plain.status), "{}", plain.text());
    plain.problem(plain.status, "usage");
    let mut terminal = gateway.terminal(&id, "role=writer");
    terminal.wait_for("ready");
    for nonsense in [
        "",
        "{",
        "null",
        "{\"resize\":{\"rows\":1}}",
        "{\"stop\":true}",
        "{\"resize\":{\"rows\":1,\"cols\":1,\"x\":1}}",
    ] {
        terminal.say_text(nonsense);
        assert_eq!(terminal.wait_remark("problem")["code"], "usage", "{nonsense}");
    }
    terminal.send(Message::Ping("are you there".into())).expect("the gateway listens");
    terminal.type_keys(&[b'y'; 100_000]);
    wait_until("the keys", || lab.output(&id).len() == 100_005);
    let _ = terminal.try_type(&[b'n'; 128 * 1024 + 1]);
    assert_eq!(terminal.wait_closed(), Some(1009));
    wait_until("no client types", || lab.show(&id)["writer"].is_null());
    assert_eq!(lab.output(&id).len(), 100_005, "nothing of it was typed");
}

#[test]
fn a_gateway_killed_while_a_client_is_attached_frees_the_right_to_type_and_the_run_goes_on() {
    let lab = lab();
    let mut gateway = lab.serve();
    let id = lab.start_echo();
    let pid = lab.number(&id, "pid");
    let mut terminal = gateway.terminal(&id, "role=writer");
    terminal.wait_for("ready");
    gateway.kill();
    assert_eq!(terminal.wait_closed(), None);
    wait_until("no client types", || lab.show(&id)["writer"].is_null());
    let gateway = lab.serve();
    let mut again = gateway.terminal(&id, "role=writer");
    again.wait_for("ready");
    again.type_keys(b"more");
    again.wait_for("more");
    assert_eq!(lab.number(&id, "pid"), pid);
    // A browser that is stopped, not gone, keeps its right, and is told when it loses it.
    let other = gateway.terminal(&id, "role=take");
    assert!(again.wait_remark("replaced")["by"].is_string());
    drop(other);
    signal(&lab.process(&id, "pid"), rustix::process::Signal::KILL);
    assert_eq!(again.wait_remark("ended")["signal"], 9);
    assert!(matches!(again.hear(), SocketMessage::Closed(Some(1000))));
}

#[test]
fn a_terminal_is_a_connection_that_counts_and_ends_with_the_gateway() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let connections = || {
        let metrics = gateway.get("/metrics").text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("berth_http_connections "));
        line.and_then(|count| count.parse::<usize>().ok()).expect("a number")
    };
    wait_until("no client but ours", || connections() == 1);
    let mut terminals: Vec<_> = (0..3).map(|_| gateway.terminal(&id, "role=observer")).collect();
    terminals.iter_mut().for_each(|terminal| terminal.wait_for("ready"));
    wait_until("each terminal and us", || connections() == 4);
    terminals.pop().expect("three").close();
    wait_until("two of them and us", || connections() == 3);
    let pid = rustix::process::Pid::from_raw(gateway.pid().cast_signed()).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    for mut terminal in terminals {
        assert_eq!(terminal.wait_closed(), Some(1001));
    }
    assert_eq!(lab.show(&id)["state"], "running");
}
