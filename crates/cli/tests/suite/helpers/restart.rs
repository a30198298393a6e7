//! Keepers that replace their own program in place: ownership goes on.

use std::path::{Path, PathBuf};

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use berth_harness::{TestEnvironment, signal, wait_gone, wait_until};
use rustix::process::Signal;

use crate::helpers::{dir, ensured, events, is_alive, lab, owner, owners, process, shown, text};

fn ask_to_restart(dir: &Path) -> KeeperConnection {
    let mut connection = KeeperConnection::open(dir, "a test".into()).expect("a keeper");
    connection.send(KeeperRequest::Restart).expect("a request");
    connection
}

fn helper_dir(lab: &TestEnvironment, id: &str) -> PathBuf {
    lab.home().join("helpers").join(id)
}

#[test]
fn a_helpers_keeper_that_replaces_its_program_knows_its_owners_and_notices_their_end() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (one, two) = (owner(&lab), owner(&lab));
    let helper = ensured(&lab, &place, "broker", &one, &[], &["hang"]);
    ensured(&lab, &place, "broker", &two, &[], &["hang"]);
    let id = text(&helper, "id");
    for round in 1..=3 {
        drop(ask_to_restart(&helper_dir(&lab, &id)));
        wait_until("the new program", || events(&lab, &id, "keeper_restarted").len() == round);
        let now = shown(&lab, &id);
        assert_eq!((owners(&now), &now["pid"]), (vec![one.clone(), two.clone()], &helper["pid"]));
    }
    lab.kill_keeper(&one);
    wait_until("the dead to be out", || owners(&shown(&lab, &id)) == [two.as_str()]);
    let running = process(&helper, "pid");
    lab.ok(["stop", &two]);
    wait_gone(&running);
}

#[test]
fn an_owners_keeper_that_replaces_its_program_is_still_the_owner() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let helper = ensured(&lab, &place, "broker", &session, &[], &["hang"]);
    let id = text(&helper, "id");
    for round in 1..=3 {
        drop(ask_to_restart(&lab.session_dir(&session)));
        wait_until("the new program", || lab.events(&session, "keeper_restarted").len() == round);
    }
    let now = shown(&lab, &id);
    assert_eq!((owners(&now), &now["pid"]), (vec![session.clone()], &helper["pid"]));
    assert!(is_alive(&process(&helper, "pid")));
    assert_eq!(events(&lab, &id, "owner_left").len(), 0);
    // The session can own another helper: its command line is another, its directory the same.
    let other = ensured(&lab, &place, "other", &session, &[], &["hang"]);
    let running = [process(&helper, "pid"), process(&other, "pid")];
    lab.ok(["stop", &session]);
    running.iter().for_each(wait_gone);
}

/// The owner dies while the helper's keeper cannot look: it stands still, and then replaces itself.
#[test]
fn an_owner_that_dies_while_the_keeper_replaces_its_program_is_noticed() {
    for round in 0..5 {
        let lab = lab();
        let place = dir(&lab, "place");
        let session = owner(&lab);
        let helper = ensured(&lab, &place, "broker", &session, &[], &["hang"]);
        let (running, keeper) = (process(&helper, "pid"), process(&helper, "keeper_pid"));
        signal(&keeper, Signal::STOP);
        let waiting = (round > 0).then(|| ask_to_restart(&helper_dir(&lab, &text(&helper, "id"))));
        lab.kill_keeper(&session);
        signal(&keeper, Signal::CONT);
        wait_gone(&running);
        drop(waiting);
    }
}

/// The new keeper looks for the ready line again, from the beginning of the run.
#[test]
fn a_helper_whose_keeper_replaces_its_program_gets_ready_all_the_same() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let script = ["say:half ", &wait, "say:done", "hang"];
    let ready = ["--ready", "line:half done"];
    let first =
        crate::helpers::ensuring(&lab, &place, "web", &session, &ready, &script).spawn().expect("berth");
    wait_until("it to be started", || lab.berth(["helper", "show", "web"]).code == 0);
    let id = text(&lab.json(["helper", "ls", "--json"])[0], "id");
    wait_until("its first words", || lab.ok(["helper", "output", &id]).contains("half"));
    drop(ask_to_restart(&helper_dir(&lab, &id)));
    wait_until("the new program", || events(&lab, &id, "keeper_restarted").len() == 1);
    fs_touch(&go);
    // The client's connection did not survive the replacement, so it asked again.
    let said = berth_harness::said(first.wait_with_output().expect("our own child"));
    assert_eq!((said.code, said.out.as_str()), (0, "running\n"), "{said:?}");
    let next = ensured(&lab, &place, "web", &session, &ready, &script);
    assert_eq!((&next["helper"]["ready"], &next["epoch"]), (&true.into(), &1.into()));
}

fn fs_touch(path: &Path) {
    std::fs::write(path, "").expect("a file");
}
