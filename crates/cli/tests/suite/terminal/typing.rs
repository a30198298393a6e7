//! Typing: from scripts, in bulk, and at an agent that takes its time.

use berth_harness::wait_until;
use rustix::process::Signal;

use crate::terminal::{contains, lab};

#[test]
fn input_types_the_text_and_presses_enter_only_when_asked() {
    let lab = lab();
    let id = lab.start(&["raw", "say:ready ", "echo"]);
    lab.wait_output(&id, "ready");
    lab.ok(["input", &id, "plain"]);
    lab.ok(["input", &id, "--enter", "two", "words"]);
    lab.ok(["input", &id, "-e", "ünïcödé €"]);
    lab.ok(["input", &id, "the flag last", "--enter"]);
    lab.ok(["input", &id, "--enter", "--", "--dashes", "-e"]);
    assert_eq!(lab.berth(["input", &id, "--dashes"]).code, 2, "a mistyped flag is not typed");
    lab.ok(["input", &id, "\x03"]);
    let mut piped = lab.command(["input", &id, "-"]);
    piped.stdin(std::fs::File::open("/proc/sys/kernel/ostype").expect("a small file"));
    assert!(piped.status().expect("berth can be started").success());
    let expected = "ready plaintwo words\rünïcödé €\rthe flag last\r--dashes -e\r\x03Linux\n";
    wait_until("the last key", || lab.output(&id).len() >= expected.len());
    assert_eq!(String::from_utf8(lab.output(&id)).expect("text"), expected);
    let typed: Vec<_> = lab.events(&id, "typed").iter().map(|event| event["bytes"].as_u64()).collect();
    assert_eq!(typed, [5, 10, 16, 14, 12, 1, 6].map(Some));
}

#[test]
fn input_is_refused_while_a_person_types_and_take_turns_them_into_an_observer() {
    let lab = lab();
    let id = lab.start_echo();
    let mut person = lab.terminal(["attach", &id]);
    person.wait_for("ready");
    let said = lab.berth(["input", &id, "WRONG"]);
    assert_eq!(said.code, 4, "{said:?}");
    let pid = format!("pid {} ", person.identity().pid);
    assert!(said.err.contains(&pid) && said.err.contains("since 20"), "{said:?}");
    person.type_keys("mine");
    person.wait_for("mine");
    lab.ok(["input", "--take", &id, "theirs"]);
    person.wait_for("theirs");
    person.wait_for("taken over: only watching");
    person.type_keys("WRONG");
    person.wait_for_raw(b"\x07");
    lab.ok(["input", &id, "again"]);
    person.wait_for("again");
    assert_eq!(lab.output(&id), b"readyminetheirsagain");
    person.type_keys("\x1c");
    assert_eq!(person.wait_exit(), 0);
    let mut back = lab.terminal(["attach", &id]);
    back.wait_for("again");
    back.type_keys("!");
    back.wait_for("again!");
}

#[test]
fn a_large_paste_arrives_whole_at_an_agent_that_starts_reading_late() {
    let lab = lab();
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let id = lab.start(&["raw", r"say:\e[?2004hready\r\n", &wait, "echo:<END>", "say: all read", "hang"]);
    let mut person = lab.terminal(["attach", &id]);
    person.wait_for("ready");
    let lines: String = (0..100 * 1024 / 8).map(|line| format!("{line:07}\r")).collect();
    person.type_keys(&format!("\x1b[200~{lines}\x1b[201~<END>"));
    std::fs::write(&go, "").expect("a file");
    person.wait_for("all read");
    let output = lab.output(&id);
    let echoed = &output[b"\x1b[?2004hready\r\n".len()..];
    let expected = format!("\x1b[200~{lines}\x1b[201~<END> all read");
    assert_eq!(echoed.len(), expected.len());
    assert!(echoed == expected.as_bytes(), "the paste was changed on its way");
}

#[test]
fn f1_a_person_can_go_away_in_the_middle_of_a_paste_the_agent_never_reads() {
    for way in ["SIGTERM", "close"] {
        let lab = lab();
        let id = lab.start(&["raw", "say:ready", "hang"]);
        let mut person = lab.terminal(["attach", &id]);
        person.wait_for("ready");
        // More than the keeper, the socket and the terminal hold together: the client stops taking
        // keys, and it must still hear its signals.
        let typed = person.type_until_full(&[b'x'; 4096], 8 * 1024 * 1024);
        assert!(typed < 8 * 1024 * 1024, "the keeper took {typed} bytes for an agent that reads none");
        match way {
            "SIGTERM" => person.signal(Signal::TERM),
            _ => person.close(),
        }
        let code = person.wait_exit();
        assert_eq!(code, if way == "close" { 129 } else { 143 });
        wait_until("the release", || lab.show(&id)["writer"].is_null());
        assert_eq!(lab.show(&id)["state"], "running");
        assert!(!contains(&lab.output(&id), b"x"));
    }
}

#[test]
fn more_than_the_agent_can_be_sent_at_once_is_refused_whole() {
    let lab = lab();
    let id = lab.start(&["raw", "say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let piece = "x".repeat(100 * 1024);
    let codes: Vec<_> = (0..4).map(|_| lab.berth(["input", &id, &piece]).code).collect();
    assert_eq!(codes, [0, 0, 1, 1], "input that cannot be queued is refused, not cut");
    let said = lab.berth(["input", &id, &piece]);
    assert!(said.err.contains("does not read") && said.err.contains("nothing was typed"), "{said:?}");
    assert_eq!(lab.events(&id, "typed").len(), 2);
}
