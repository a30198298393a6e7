//! E11: a loop that stands still is replaced in place, and nobody but the log notices.

use berth_api::Connection;
use berth_api::client::Arrival;
use berth_api::message::{Answer, Request};
use berth_harness::{Lab, Terminal, signal, wait_until};
use rustix::process::Signal;

use crate::crash::{endings, lab};

/// Long enough that a slow disk is not taken for a loop that stands still.
const STUCK_MS: &str = "2000";

/// A session whose keeper stands still when somebody types with `berth input`, once per image.
fn start_stalling(lab: &Lab, script: &[&str]) -> String {
    let agent = lab.agent();
    let mut args = vec!["run", "-d", "--", &agent];
    args.extend(script);
    let mut command = lab.command(args);
    command.env("BERTH_KILLPOINT", "stall:typing").env("BERTH_STUCK_MS", STUCK_MS);
    let said = berth_harness::said(command.output().expect("berth starts"));
    assert_eq!(said.code, 0, "{said:?}");
    said.out.trim().to_owned()
}

fn stall(lab: &Lab, id: &str) {
    let restarts = lab.events(id, "keeper_restarted").len();
    // The caller is told that it does not know, not that all is well.
    let said = lab.berth(["input", id, "LOST"]);
    assert_eq!(said.code, 5, "{said:?}");
    wait_until("the replacement", || lab.events(id, "keeper_restarted").len() == restarts + 1);
}

fn watching(lab: &Lab, id: &str) -> Terminal {
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
    let pids = |lab: &Lab| (lab.number(&id, "pid"), lab.number(&id, "keeper_pid"));
    let before = pids(&lab);
    let agent = lab.process(&id, "pid");
    let mut observer = watching(&lab, &id);
    stall(&lab, &id);
    assert_eq!(pids(&lab), before);
    assert_eq!(lab.process(&id, "pid"), agent);
    // Whoever was attached is back without doing anything.
    wait_until("the observer to be back", || lab.show(&id)["clients"] == 1);
    std::fs::write(&go, "").expect("a file");
    observer.wait_for("done");
    let screen = lab.ok(["screen", &id]);
    let drawn = observer.text();
    // Its last row says that it only watches.
    let (drawn, _) = drawn.rsplit_once('\n').expect("several rows");
    assert!(screen.ends_with(drawn.trim_end()), "{drawn}\n{screen}");
    let mut writer = lab.terminal(["attach", &id]);
    writer.wait_for("done");
    writer.type_keys("<typed>");
    observer.wait_for("<typed>");
    assert!(
        lab.output(&id).ends_with(b"done\r\n<typed>"),
        "what the stuck keeper had not taken was not typed"
    );
    assert!(lab.events(&id, "typed").is_empty());
    lab.ok(["stop", &id]);
    assert_eq!(endings(&lab, &id).len(), 1);
    assert_eq!(observer.wait_exit(), 143);
}

#[test]
fn who_comes_after_many_who_gave_up_on_a_keeper_that_stood_still_is_served() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let keeper = lab.process(&id, "keeper_pid");
    signal(&keeper, Signal::STOP);
    let open = || Connection::open(&lab.session_dir(&id), "a test".into()).expect("room in the queue");
    // More than a keeper serves at once, and each has asked something.
    for _ in 0..110 {
        open().send(Request::Status).expect("room in the socket");
    }
    let mut last = open();
    last.send(Request::Status).expect("room in the socket");
    signal(&keeper, Signal::CONT);
    let heard = last.next().expect("an answer");
    assert!(matches!(heard, Some(Arrival::Answer(Answer::Done { .. }))), "{heard:?}");
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

/// Whether the keeper answers within a moment.
fn answers(lab: &Lab, id: &str) -> bool {
    let dir = lab.session_dir(id);
    let Ok(mut keeper) = berth_api::Connection::open(&dir, String::new()) else { return false };
    let _ = keeper.set_patience(Some(std::time::Duration::from_millis(50)));
    keeper.ask(berth_api::message::Request::Status).is_ok()
}
