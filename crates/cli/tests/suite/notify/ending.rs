//! A notifier that hangs holds up no session, and is not a leftover of one.

use std::fs;

use berth_harness::{TestEnvironment, signal, wait_gone, wait_until};
use rustix::process::Signal;

use crate::notify::server::{WebhookReply, WebhookServer};
use crate::notify::{lab_telling, log, notifiers, settled, start};

/// Starts a session in an environment where notifiers live this long.
fn start_with_limit(lab: &TestEnvironment, ms: &str, name: &str) -> String {
    let mut run = lab.command(["run", "-d", "--agent", "fake", "--name", name]);
    let ran = run.env("BERTH_TEST_NOTIFIER_MS", ms).output().expect("berth starts");
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).expect("text").trim().to_owned()
}

#[test]
fn a_session_ends_and_its_keeper_leaves_while_a_webhook_hangs() {
    let server = WebhookServer::new(&[WebhookReply::Hang]);
    let lab = lab_telling(&server);
    let id = start_with_limit(&lab, "600000", "s");
    let keeper = lab.process(&id, "keeper_pid");
    lab.ok(["send", "s", "say:done"]);
    server.wait(1);
    let notifier = notifiers(&lab).remove(0);
    // The notifier is neither the keeper's process nor the run's.
    let ps = lab.json(["ps", "s", "--json"]);
    assert!(!ps.to_string().contains("notifier"), "{ps}");
    let whose = lab.json(["why", "--pid", &notifier.pid.to_string(), "--json"]);
    assert_eq!(whose["verdict"], "not-ours", "{whose}");
    let stat = berth_host::identity::process_stat(notifier.pid).expect("it lives");
    assert_ne!(stat.ppid, keeper.pid);
    lab.ok(["stop", "s", "--grace", "5s"]);
    wait_gone(&keeper);
    assert_eq!(notifiers(&lab), std::slice::from_ref(&notifier), "it still waits");
    // A sweep does not clear up files of the notifier.
    lab.ok(["sweep"]);
    assert_eq!(notifiers(&lab), std::slice::from_ref(&notifier));
    signal(&notifier, Signal::KILL);
}

#[test]
fn a_notifier_gives_up_by_its_limit() {
    let server = WebhookServer::new(&[WebhookReply::Hang]);
    let lab = lab_telling(&server);
    start_with_limit(&lab, "3000", "s");
    lab.ok(["send", "s", "say:done"]);
    server.wait(1);
    settled(&lab);
    let last = log(&lab).pop().expect("a line");
    assert_eq!((&last["outcome"], &last["channel"]), (&"failed".into(), &"webhook".into()), "{last}");
}

#[test]
fn a_notifier_has_nothing_of_the_run_it_tells_of() {
    let server = WebhookServer::new(&[WebhookReply::Hang]);
    let lab = lab_telling(&server);
    let id = start_with_limit(&lab, "600000", "s");
    lab.ok(["send", "s", "say:done"]);
    server.wait(1);
    let notifier = notifiers(&lab).remove(0);
    let environment = fs::read(format!("/proc/{}/environ", notifier.pid)).expect("it lives");
    for name in ["BERTH_RUN=", "BERTH_SESSION="] {
        let has = environment.split(|byte| *byte == 0).any(|one| one.starts_with(name.as_bytes()));
        assert!(!has, "{name}");
    }
    let open = fs::read_dir(format!("/proc/{}/fd", notifier.pid)).expect("it lives");
    let open: Vec<String> = open
        .filter_map(|entry| Some(fs::read_link(entry.ok()?.path()).ok()?.display().to_string()))
        .filter(|path| path.contains(&id))
        .collect();
    assert_eq!(open, Vec::<String>::new());
    let group = fs::read_to_string(format!("/proc/{}/cgroup", notifier.pid)).expect("it lives");
    assert!(!group.contains(&format!("{id}.")), "{group}");
    signal(&notifier, Signal::KILL);
    wait_gone(&notifier);
    // The event it was killed over is not told again, and the next event is.
    lab.ok(["send", "s", "say:more"]);
    server.wait(2);
    for notifier in notifiers(&lab) {
        signal(&notifier, Signal::KILL);
    }
    settled(&lab);
}

#[test]
fn a_notifier_that_an_agents_own_command_started_outlives_the_agents_run() {
    let server = WebhookServer::new(&[WebhookReply::Hang]);
    let lab = lab_telling(&server);
    let lost = lab.start_with(&["--name", "lost"], &["hang"]);
    lab.kill_keeper(&lost);
    let berth = env!("CARGO_BIN_EXE_berth");
    let script = format!("BERTH_TEST_NOTIFIER_MS=600000 {berth} show lost; echo shown; sleep 1000");
    let id = lab.ok(["run", "-d", "--name", "outer", "--notify", "none", "--", "sh", "-c", &script]);
    lab.wait_output(&id, "shown");
    server.wait(1);
    let notifier = notifiers(&lab).remove(0);
    wait_until("its seat to be signed", || {
        let whose = lab.json(["why", "--pid", &notifier.pid.to_string(), "--json"]);
        whose["verdict"] == "not-ours"
    });
    lab.ok(["stop", "outer", "--grace", "0s"]);
    assert_eq!(notifiers(&lab), std::slice::from_ref(&notifier));
    signal(&notifier, Signal::KILL);
}

#[test]
fn the_number_of_notifiers_is_limited_and_one_too_many_waits_or_says_so() {
    let server = WebhookServer::new(&[WebhookReply::Hang]);
    let lab = lab_telling(&server);
    start_with_limit(&lab, "600000", "s");
    for turn in 1..=berth_store::notifications::MOST_AT_WORK {
        lab.ok(["send", "s", "say:done"]);
        server.wait(turn);
    }
    // First a session that has no time to wait for long.
    start_with_limit(&lab, "200", "hasty");
    lab.ok(["send", "hasty", "say:one_too_many"]);
    wait_until("the log", || {
        log(&lab)
            .iter()
            .any(|line| line["detail"].as_str().is_some_and(|why| why.contains("busy all the time")))
    });
    // Then one that has: it tells as soon as another notifier is done.
    wait_until("the hasty one to be gone", || {
        notifiers(&lab).len() == berth_store::notifications::MOST_AT_WORK
    });
    let at_work = notifiers(&lab);
    lab.ok(["send", "s", "say:the_next"]);
    wait_until("one more", || notifiers(&lab).len() > at_work.len());
    assert_eq!(server.heard().len(), berth_store::notifications::MOST_AT_WORK);
    signal(&at_work[0], Signal::KILL);
    server.wait(berth_store::notifications::MOST_AT_WORK + 1);
    for notifier in notifiers(&lab) {
        signal(&notifier, Signal::KILL);
    }
    settled(&lab);
    // A notifier that died left its seat.
    start(&lab, &["--name", "t"]);
    lab.ok(["send", "t", "say:done"]);
    server.wait(berth_store::notifications::MOST_AT_WORK + 2);
    for notifier in notifiers(&lab) {
        signal(&notifier, Signal::KILL);
    }
}
