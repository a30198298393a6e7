//! No event is sent twice, whichever process dies or is replaced on the way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use berth_harness::{TestEnvironment, wait_until};

use crate::notify::{
    WebhookReply, WebhookServer, lab_with, log, pair, send, settled, spawned, start, told, webhook,
};

/// Waits for the end of the keeper, and then has `show` record the loss, as the first command that looks does.
fn healed(lab: &berth_harness::TestEnvironment, id: &str) {
    wait_until("its keeper to be gone", || {
        !matches!(
            berth_host::lock::lock_state(&lab.session_dir(id).join("lease")),
            Ok(Some(berth_host::lock::LockState::Held))
        )
    });
    lab.ok(["show", id]);
}

#[test]
fn a_keeper_that_replaces_its_program_sends_nothing_again() {
    let (lab, server) = told();
    let id = start(&lab, &["--name", "s"]);
    send(&lab, "s", "say:one");
    server.wait(1);
    lab.ok(["send", "s", "ask:Bash:x"]);
    server.wait(2);
    for _ in 0..3 {
        let before = lab.events(&id, "keeper_restarted").len();
        let mut keeper = KeeperConnection::open(&lab.session_dir(&id), String::new()).expect("a keeper");
        let _ = keeper.ask(KeeperRequest::Restart);
        wait_until("the new program", || lab.events(&id, "keeper_restarted").len() > before);
    }
    settled(&lab);
    assert_eq!(server.about(), [pair("finished", "s"), pair("needs-you", "s")]);
    // The new keeper sends new events.
    lab.ok(["answer", "s", "allow", "--yes"]);
    server.wait(3);
}

#[test]
fn a_keeper_that_is_killed_on_its_way_to_tell_is_told_of_itself_and_nothing_twice() {
    for (point, expected) in [("telling", vec!["failed"]), ("told", vec!["failed", "failed"])] {
        let (lab, server) = told();
        let agent = ["run", "-d", "--name", "s", "--agent", "fake"];
        let run = lab.command(agent).env("BERTH_KILLPOINT", point).output().expect("berth starts");
        assert!(run.status.success(), "{run:?}");
        let id = String::from_utf8(run.stdout).expect("text").trim().to_owned();
        lab.ok(["send", "s", "fail:7:broken"]);
        healed(&lab, &id);
        server.wait(expected.len());
        settled(&lab);
        let what: Vec<String> = server.about().into_iter().map(|(what, _)| what).collect();
        assert_eq!(what, expected, "{point}");
        let ids: std::collections::BTreeSet<_> =
            server.heard().iter().map(|heard| heard.header("webhook-id").to_owned()).collect();
        assert_eq!(ids.len(), expected.len(), "{point}: each of another event");
    }
}

#[test]
fn a_keeper_whose_program_was_replaced_by_another_version_tells_all_the_same() {
    let server = WebhookServer::new(&[WebhookReply::Status(200)]);
    let place = lab_with("");
    let installed = place.dir().join("berth");
    let berth = Path::new(env!("CARGO_BIN_EXE_berth"));
    fs::rename(lab_program(&place), &installed).expect("a rename");
    let lab = TestEnvironment::new(installed.to_str().expect("a path"));
    fs::copy(place.config(), lab.config()).expect("a config file");
    fs::write(lab.config(), fs::read_to_string(lab.config()).expect("it") + &webhook(&server)).expect("it");
    start(&lab, &["--name", "s"]);
    // Package managers do this: another file takes the name. This one runs no session at all.
    let other = place.dir().join("other");
    fs::write(&other, "#!/bin/sh\nexit 9\n").expect("a script");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("a script that can be run");
    fs::rename(&other, &installed).expect("a rename");
    let mut send = Command::new(berth);
    send.args(["send", "s", "say:one"]).env("BERTH_HOME", lab.home()).env("BERTH_CONFIG", lab.config());
    assert!(send.status().expect("berth starts").success());
    server.wait(1);
    settled(&lab);
    assert_eq!(server.about(), [pair("finished", "s")]);
    // The rest is cleared up by a program that works.
    fs::rename(lab_program(&place), &installed).expect("a rename");
}

/// Another name for the program under test, in a lab.
fn lab_program(lab: &TestEnvironment) -> PathBuf {
    let path = lab.dir().join("again");
    let berth = Path::new(env!("CARGO_BIN_EXE_berth"));
    fs::hard_link(berth, &path).or_else(|_| fs::copy(berth, &path).map(drop)).expect("a program");
    path
}

#[test]
fn of_many_commands_that_find_a_lost_run_at_once_one_sends_it() {
    let (lab, server) = told();
    for round in 1..=5 {
        let id = lab.start_with(&["--name", &format!("s{round}")], &["hang"]);
        lab.kill_keeper(&id);
        let healers: Vec<_> = (0..4).map(|_| spawned(&mut lab.command(["show", &id]))).collect();
        for healer in healers {
            assert!(healer.wait_with_output().expect("our own child").status.success());
        }
        server.wait(round);
        settled(&lab);
        assert_eq!(server.heard().len(), round);
    }
}

#[test]
fn a_notifier_that_is_started_again_for_the_same_event_sends_nothing() {
    let (lab, server) = told();
    let id = start(&lab, &["--name", "s"]);
    send(&lab, "s", "say:one");
    let event = server.wait(1)[0].json()["data"]["event"].as_u64().expect("a number");
    settled(&lab);
    let again = |events: &[String]| {
        let mut notifier = Command::new(env!("CARGO_BIN_EXE_berth"));
        notifier.arg("notifier").arg(lab.session_dir(&id)).args(events);
        notifier.env("BERTH_HOME", lab.home()).env("BERTH_CONFIG", lab.config());
        notifier.status().expect("it starts")
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(again(&[format!("{event}=finished")]).success()));
        }
    });
    assert_eq!(server.heard().len(), 1);
    // An event that was not claimed is sent by exactly one of them.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(again(&[format!("{}=failed", event - 1)]).success()));
        }
    });
    assert_eq!(server.heard().len(), 2);
    assert_eq!(log(&lab).len(), 2);
    for nonsense in [&[][..], &["x".to_owned()], &["1=sometimes".to_owned()]] {
        assert_eq!(again(nonsense).code(), Some(2), "{nonsense:?}");
    }
    assert!(!again(&["999=failed".to_owned()]).success(), "there is no such event");
}
