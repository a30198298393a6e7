//! E11: a keeper loop that stands still is replaced in place, and only the log shows it.

use berth_api::KeeperConnection;
use berth_api::client::KeeperMessage;
use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_harness::{TestEnvironment, TestTerminal, signal, wait_until};
use rustix::process::Signal;

use crate::crash::{endings, lab};

/// Long enough that a slow disk is not taken for a loop that stands still.
const STUCK_MS: &str = "2000";

/// A session whose keeper stands still when `berth input` types into it, once per image.
fn start_stalling(lab: &TestEnvironment, script: &[&str]) -> String {
    let agent = lab.agent();
    let mut args = vec!["run", "-d", "--", &agent];
    args.extend(script);
    let mut command = lab.command(args);
    command.env("BERTH_KILLPOINT", "stall:typing").env("BERTH_STUCK_MS", STUCK_MS);
    let said = berth_harness::said(command.output().expect("berth starts"));
    assert_eq!(said.code, 0, "{said:?}");
    said.out.trim().to_owned()
}

fn stall(lab: &TestEnvironment, id: &str) {
    let restarts = lab.events(id, "keeper_restarted").len();
    // The caller is told that the outcome is not known, not that all is well.
    let said = lab.berth(["input", id, "LOST"]);
    assert_eq!(said.code, 5, "{said:?}");
    wait_until("the replacement", || lab.events(id, "keeper_restarted").len() == restarts + 1);
}

fn watching(lab: &TestEnvironment, id: &str) -> TestTerminal {
    let mut terminal = lab.terminal(["attach", "--observe", id]);
    terminal.wait_for("ready");
    terminal
}

#[test]
fn e11_a_keeper_that_stands_still_is_replaced_in_place_and_the_agent_goes_on() {
    let lab = lab();
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let id =
        start_stalling(&lab, &[r"say:\e[?2004hready\r\n", &wait, "flood:1M", "raw", "say:done\r\n", "echo"]);
    let pids = |lab: &TestEnvironment| (lab.number(&id, "pid"), lab.number(&id, "keeper_pid"));
    let before = pids(&lab);
    let agent = lab.process(&id, "pid");
    let mut observer = watching(&lab, &id);
    stall(&lab, &id);
    assert_eq!(pids(&lab), before);
    assert_eq!(lab.process(&id, "pid"), agent);
    // The attached observer reconnects by itself.
    wait_until("the observer to be back", || lab.show(&id)["clients"] == 1);
    std::fs::write(&go, "").expect("a file");
    observer.wait_for("done");
    let screen = lab.ok(["screen", &id]);
    let drawn = observer.text();
    // The observer's last row says that it only watches.
    let (drawn, _) = drawn.rsplit_once('\n').expect("several rows");
    assert!(screen.ends_with(drawn.trim_end()), "{drawn}\n{screen}");
    let mut writer = lab.terminal(["attach", &id]);
    writer.wait_for("done");
    writer.type_keys("<typed>");
    observer.wait_for("<typed>");
    assert!(
        lab.output(&id).ends_with(b"done\r\n<typed>"),
        "input that the stuck keeper had not taken was not typed"
    );
    assert!(lab.events(&id, "typed").is_empty());
    lab.ok(["stop", &id]);
    assert_eq!(endings(&lab, &id).len(), 1);
    assert_eq!(observer.wait_exit(), 143);
}

#[test]
fn a_keeper_that_stood_still_serves_the_next_client_after_many_have_given_up() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let keeper = lab.process(&id, "keeper_pid");
    signal(&keeper, Signal::STOP);
    let open = || KeeperConnection::open(&lab.session_dir(&id), "a test".into()).expect("room in the queue");
    // More than a keeper serves at once, and each has asked something.
    for _ in 0..110 {
        open().send(KeeperRequest::Status).expect("room in the socket");
    }
    let mut last = open();
    last.send(KeeperRequest::Status).expect("room in the socket");
    signal(&keeper, Signal::CONT);
    let heard = last.next().expect("an answer");
    assert!(matches!(heard, Some(KeeperMessage::Answer(KeeperAnswer::Done { .. }))), "{heard:?}");
}

#[test]
fn e11_an_agent_that_ended_while_its_keeper_stood_still_is_not_forgotten() {
    let lab = lab();
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let id = start_stalling(&lab, &["say:ready\n", &wait, "say:last words\n", "exit:6"]);
    let agent = lab.process(&id, "pid");
    lab.wait_output(&id, "ready");
    let mut input = lab.command(["input", &id, "LOST"]);
    let input = input.stderr(std::process::Stdio::null()).spawn().expect("berth starts");
    wait_until("the keeper to stand still", || !answers(&lab, &id));
    std::fs::write(&go, "").expect("a file");
    berth_harness::wait_gone(&agent);
    assert_eq!(berth_harness::wait_child(input), 5);
    assert_eq!(lab.berth(["wait", &id]).code, 6);
    assert_eq!(lab.events(&id, "keeper_restarted").len(), 1);
    assert_eq!(endings(&lab, &id), [(1, r#"{"exited":{"code":6}}"#.to_owned())]);
    assert_eq!(lab.ok(["output", &id]), "ready\r\nlast words\r");
}

#[test]
fn e11_a_sigterm_to_a_keeper_that_stands_still_ends_the_session_in_order_once_it_turns_again() {
    let lab = lab();
    let id = start_stalling(&lab, &["say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    let keeper = lab.process(&id, "keeper_pid");
    let mut input = lab.command(["input", &id, "LOST"]);
    let input = input.stderr(std::process::Stdio::null()).spawn().expect("berth starts");
    wait_until("the keeper to stand still", || !answers(&lab, &id));
    signal(&keeper, Signal::TERM);
    assert_eq!(berth_harness::wait_child(input), 5);
    assert_eq!(lab.berth(["wait", &id]).code, 143);
    assert_eq!(lab.show(&id)["state"], "stopped", "{:#?}", lab.log(&id));
    assert_eq!(lab.events(&id, "keeper_restarted").len(), 1);
    assert_eq!(lab.show(&id)["stopped_by"]["place"], "SIGTERM to the keeper");
}

/// True if the keeper answers within a moment.
fn answers(lab: &TestEnvironment, id: &str) -> bool {
    let dir = lab.session_dir(id);
    let Ok(mut keeper) = berth_api::KeeperConnection::open(&dir, String::new()) else { return false };
    let _ = keeper.set_timeout(Some(std::time::Duration::from_millis(50)));
    keeper.ask(berth_api::message::KeeperRequest::Status).is_ok()
}
