//! The readiness of a helper, and the errors when it never gets ready.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use berth_api::KeeperConnection;
use berth_api::helper::{HelperOwner, HelperRequirements};
use berth_api::message::KeeperRequest;
use berth_harness::{said, wait_gone, wait_until};
use berth_host::lock::LockFile;

use crate::helpers::{
    HelperLookalike, dir, ensure, ensured, ensuring, events, is_alive, lab, owner, owners, process, shown,
    text,
};

fn free_port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    free.local_addr().expect("an address").port()
}

#[test]
fn the_address_is_printed_alone_on_a_line() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let port = free_port();
    let tcp = format!("tcp:{port}");
    let listen = format!("listen-tcp:{port}");
    let said = ensure(&lab, &place, "web", &session, &["--ready", &tcp], &["sleep:50", &listen, "hang"]);
    assert_eq!((said.code, said.out), (0, format!("tcp:127.0.0.1:{port}\n")), "{}", said.err);
    // A child of the helper listens, at a path that is relative to the helper's directory.
    let script = ["child", "[", "listen-unix:broker.sock", "hang", "]", "hang"];
    let said = ensure(&lab, &place, "broker", &session, &["--ready", "unix:broker.sock"], &script);
    let path = place.join("broker.sock");
    assert_eq!((said.code, said.out), (0, format!("unix:{}\n", path.display())), "{}", said.err);
    let said = ensure(
        &lab,
        &place,
        "line",
        &session,
        &["--ready", "line:^up [0-9]+$"],
        &[r"say:\e[1mup\e[0m 42\n", "hang"],
    );
    assert_eq!((said.code, said.out.as_str()), (0, "running\n"), "{}", said.err);
    let said = ensure(&lab, &place, "plain", &session, &[], &["hang"]);
    assert_eq!((said.code, said.out.as_str()), (0, "running\n"), "{}", said.err);
}

#[test]
fn a_command_that_fails_before_it_is_ready_is_quoted() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let script = ["flood:100K", r"say:\n\e[31mno such database\e[0m\n", "exit:7"];
    let said = ensure(&lab, &place, "web", &session, &["--ready", "line:listening"], &script);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("exit 7") && said.err.contains("\n  no such database"), "{said:?}");
    assert!(said.err.len() < 4000, "bounded: {} bytes", said.err.len());
    let id = text(&shown(&lab, &helper_id(&lab)), "id");
    wait_until("its end to be recorded", || shown(&lab, &id)["state"] == "stopped");
    assert_eq!(owners(&shown(&lab, &id)), Vec::<String>::new());
    // There is nothing to start, so nothing that could print.
    let said = lab.command(["helper", "ensure", "x", "--owner", &session, "--", "/not/there"]);
    let said = berth_harness::said({ said }.current_dir(&place).output().expect("berth"));
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("/not/there") && said.err.contains("helper `x`"), "{said:?}");
}

/// The id of the only helper there is.
fn helper_id(lab: &berth_harness::TestEnvironment) -> String {
    text(&lab.json(["helper", "ls", "--all", "--json"])[0], "id")
}

#[test]
fn a_helper_that_never_gets_ready_is_ended_and_waiting_clients_are_told_in_time() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (one, two) = (owner(&lab), owner(&lab));
    // Another process has the port; the helper says so and hangs, deaf.
    let stranger = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = stranger.local_addr().expect("an address").port();
    let ready = format!("tcp:{port}");
    let script = ["ignore:TERM,HUP", r"say:port is taken\n", "hang"];
    let options = ["--ready", &ready, "--ready-timeout", "10s"];
    let _bystander = HelperLookalike::new(&lab, &place, &script);
    let began_at = Instant::now();
    let first = ensuring(&lab, &place, "web", &one, &options, &script).spawn().expect("berth");
    wait_until("the first to have started it", || lab.berth(["helper", "show", "web"]).code == 0);
    let id = helper_id(&lab);
    wait_until("it to run", || shown(&lab, &id)["pid"].is_u64());
    let running = process(&shown(&lab, &id), "pid");
    let second = ensuring(&lab, &place, "web", &two, &options, &script).spawn().expect("berth");
    for waiting in [first, second] {
        let said = said(waiting.wait_with_output().expect("our own child"));
        assert_eq!((said.code, said.out.as_str()), (6, ""), "{said:?}");
        assert!(said.err.contains("within 10s") && said.err.contains("\n  port is taken"), "{said:?}");
        let me = format!("pid {}", std::process::id());
        assert!(said.err.contains(&me), "it says who has the port: {said:?}");
    }
    let took = began_at.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    wait_gone(&running);
    wait_until("its end to be recorded", || shown(&lab, &id)["state"] == "stopped");
    assert_eq!(events(&lab, &id, "never_ready").len(), 1);
    assert_eq!(events(&lab, &id, "stop_requested").len(), 1);
}

#[test]
fn a_port_of_another_process_does_not_make_a_helper_ready() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let stranger = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = stranger.local_addr().expect("an address").port();
    let ready = format!("tcp:{port}");
    let said =
        ensure(&lab, &place, "web", &session, &["--ready", &ready, "--ready-timeout", "300ms"], &["hang"]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.err.contains("printed nothing"), "{said:?}");
}

/// D15: a client that disconnects while it waits leaves no answer to the next one.
#[test]
fn d15_a_client_that_disconnects_in_the_middle_leaves_no_answer_to_the_next() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (one, two, three) = (owner(&lab), owner(&lab), owner(&lab));
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let script = [wait.as_str(), "say:up", "hang"];
    let options = ["--ready", "line:up", "--json"];
    let mut first = ensuring(&lab, &place, "broker", &one, &options, &script).spawn().expect("berth");
    wait_until("the first to have started it", || lab.berth(["helper", "show", "broker"]).code == 0);
    let id = helper_id(&lab);
    wait_until("it to run", || shown(&lab, &id)["pid"].is_u64());
    // This client asks and is gone before the answer.
    let mut second =
        KeeperConnection::open(&lab.home().join("helpers").join(&id), "a test".into()).expect("a keeper");
    let agent = lab.agent();
    let command = [agent.as_str()].iter().chain(&script).map(|word| (*word).to_owned()).collect();
    let wanted = HelperRequirements { name: "broker".into(), command, ..HelperRequirements::default() };
    let owner = HelperOwner { session: two.clone(), keep: false };
    second.send(KeeperRequest::Join { owner, wanted }).expect("a request");
    wait_until("it to be heard", || owners(&shown(&lab, &id)).contains(&two));
    drop(second);
    first.kill().expect("our own child");
    first.wait().expect("our own child");
    let third = ensuring(&lab, &place, "broker", &three, &options, &script).spawn().expect("berth");
    wait_until("the third to be heard", || owners(&shown(&lab, &id)).contains(&three));
    std::fs::write(&go, "").expect("a file");
    let said = said(third.wait_with_output().expect("our own child"));
    assert_eq!(said.code, 0, "{said:?}");
    let answer: serde_json::Value = serde_json::from_str(&said.out).expect("one answer, its own");
    assert_eq!((text(&answer, "id"), &answer["helper"]["ready"]), (id.clone(), &true.into()));
    // A session that asked is an owner until it releases the helper, answered or not: the sessions live.
    assert_eq!(owners(&answer), [one.clone(), two.clone(), three.clone()]);
    let running = process(&answer, "pid");
    for session in [&one, &two] {
        lab.ok(["stop", session]);
    }
    wait_until("those to be out", || owners(&shown(&lab, &id)) == [three.as_str()]);
    assert!(is_alive(&running));
    lab.ok(["helper", "release", &id, "--owner", &three]);
    wait_gone(&running);
}

#[test]
fn a_client_that_waits_for_a_helper_is_told_that_it_was_stopped() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let waiting =
        ensuring(&lab, &place, "web", &session, &["--ready", "line:never"], &["say:warming up", "hang"]);
    let waiting = { waiting }.spawn().expect("berth");
    wait_until("it to be started", || lab.berth(["helper", "show", "web"]).code == 0);
    let id = helper_id(&lab);
    wait_until("its words", || lab.ok(["helper", "output", &id]).contains("warming up"));
    lab.ok(["helper", "stop", &id]);
    let said = said(waiting.wait_with_output().expect("our own child"));
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("was stopped before") && said.err.contains("warming up"), "{said:?}");
    let next = ensured(&lab, &place, "web", &session, &[], &["hang"]);
    assert_eq!(next["epoch"], 2);
}

/// A helper that gets ready when the file is there, and a client that waits for it.
fn slow_helper(
    lab: &berth_harness::TestEnvironment,
    session: &str,
) -> (std::path::PathBuf, String, std::process::Child) {
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let script = [wait.as_str(), "say:up", "hang"];
    let options = ["--ready", "line:up", "--json"];
    let waiting =
        ensuring(lab, &dir(lab, "place"), "slow", session, &options, &script).spawn().expect("berth");
    wait_until("it to be started", || lab.berth(["helper", "show", "slow"]).code == 0);
    let id = helper_id(lab);
    wait_until("it to run", || shown(lab, &id)["pid"].is_u64());
    (go, id, waiting)
}

#[test]
fn a_later_client_waits_for_its_own_timeout_and_the_helper_goes_on() {
    let lab = lab();
    let (one, two) = (owner(&lab), owner(&lab));
    let (go, id, first) = slow_helper(&lab, &one);
    let running = process(&shown(&lab, &id), "pid");
    let wait = format!("wait-file:{}", go.display());
    let script = [wait.as_str(), "say:up", "hang"];
    let second = ensure(&lab, &dir(&lab, "place"), "slow", &two, &["--ready-timeout", "300ms"], &script);
    assert_eq!((second.code, second.out.as_str()), (6, ""), "{second:?}");
    assert!(second.err.contains("not ready after 300ms") && second.err.contains("it goes on"), "{second:?}");
    std::fs::write(&go, "").expect("a file");
    let said = said(first.wait_with_output().expect("our own child"));
    assert_eq!(said.code, 0, "{said:?}");
    assert!(is_alive(&running));
    assert_eq!(owners(&shown(&lab, &id)), [one, two], "a session that asked owns it until it leaves");
}

#[test]
fn a_keeper_that_replaces_its_program_is_waited_for() {
    let lab = lab();
    let (one, two) = (owner(&lab), owner(&lab));
    let (go, id, first) = slow_helper(&lab, &one);
    let wait = format!("wait-file:{}", go.display());
    let script = [wait.as_str(), "say:up", "hang"];
    let second =
        ensuring(&lab, &dir(&lab, "place"), "slow", &two, &["--json"], &script).spawn().expect("berth");
    wait_until("the second to be heard", || owners(&shown(&lab, &id)).contains(&two));
    let mut keeper =
        KeeperConnection::open(&lab.home().join("helpers").join(&id), "a test".into()).expect("a keeper");
    keeper.ask(KeeperRequest::Restart).expect("it does");
    wait_until("its new program", || events(&lab, &id, "keeper_restarted").len() == 1);
    std::fs::write(&go, "").expect("a file");
    for waiting in [first, second] {
        let said = said(waiting.wait_with_output().expect("our own child"));
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert_eq!((&shown(&lab, &id)["epoch"], owners(&shown(&lab, &id))), (&1.into(), vec![one, two]));
}

/// Lines are cut at their ends, wherever the stream was cut.
#[test]
fn a_pattern_is_looked_for_in_whole_lines_and_in_a_last_one_that_rests() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let ready_within = |time: &str, name: &str, pattern: &str, script: &[&str]| {
        let options = ["--ready", pattern, "--ready-timeout", time];
        ensure(&lab, &place, name, &session, &options, script).code
    };
    let ready = |name: &str, pattern: &str, script: &[&str]| ready_within("60s", name, pattern, script);
    let never_ready = |name: &str, pattern: &str, script: &[&str]| ready_within("4s", name, pattern, script);
    assert_eq!(ready("prompt", "line:^ready> $", &["flood:300K", r"say:\nready> ", "hang"]), 0);
    let script = ["say:not ", "sleep:20", r"say:up yet\n", "flood:300K", r"say:\nup\n", "hang"];
    assert_eq!(ready("late", "line:^up$", &script), 0);
    assert_eq!(never_ready("never", "line:^up", &["flood:300K", r"say:\nnot up\n", "hang"]), 6);
    assert_eq!(never_ready("never-2", "line:one\\ntwo", &[r"say:one\ntwo\n", "hang"]), 6);
    // A pattern that would take more memory than a keeper has.
    assert_eq!(ready("big", "line:((a{200}){200}){200}", &["hang"]), 2);
}

/// A keeper that replaces its program begins no wait anew.
#[test]
fn the_time_to_get_ready_does_not_begin_anew_with_a_new_program() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let options = ["--ready", "line:never", "--ready-timeout", "15s"];
    let waiting = ensuring(&lab, &place, "web", &session, &options, &["hang"]).spawn().expect("berth");
    wait_until("it to be started", || lab.berth(["helper", "show", "web"]).code == 0);
    let id = helper_id(&lab);
    wait_until("it to run", || shown(&lab, &id)["pid"].is_u64());
    let runs_since = Instant::now();
    wait_until("most of its time to pass", || runs_since.elapsed() > Duration::from_secs(9));
    let mut keeper =
        KeeperConnection::open(&lab.home().join("helpers").join(&id), "a test".into()).expect("a keeper");
    let _ = keeper.send(KeeperRequest::Restart);
    wait_until("it to be given up", || events(&lab, &id, "never_ready").len() == 1);
    let at = |kind| events(&lab, &id, kind)[0]["at_ms"].as_u64().expect("a time");
    let left = at("never_ready") - at("keeper_restarted");
    assert!(left < 15_000, "the new program gave it {left} ms, as if it began anew");
    drop(waiting.wait_with_output());
}

#[test]
fn ensure_waits_for_a_helper_that_many_clients_are_connected_to() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (one, two) = (owner(&lab), owner(&lab));
    let id = text(&ensured(&lab, &place, "web", &one, &[], &["hang"]), "id");
    let keeper = lab.home().join("helpers").join(&id);
    let connect = |_| KeeperConnection::open(&keeper, "a test".into()).expect("a keeper");
    let crowd: Vec<KeeperConnection> = (0..96).map(connect).collect();
    let joining = ensuring(&lab, &place, "web", &two, &["--json"], &["hang"]).spawn().expect("berth");
    let mut leaving = lab.command(["helper", "release", &id, "--owner", &one]);
    leaving.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    // There is no event for clients that were turned away; if this is too short, they were not.
    let a_moment = || {
        let since = Instant::now();
        wait_until("a moment to pass", || since.elapsed() > Duration::from_millis(500));
    };
    a_moment();
    let leaving = leaving.spawn().expect("berth");
    a_moment();
    drop(crowd);
    for waiting in [joining, leaving] {
        let said = said(waiting.wait_with_output().expect("our own child"));
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert_eq!(owners(&shown(&lab, &id)), [two]);
}

/// A client that started a helper and stands still, for example stopped by its terminal.
#[test]
fn a_client_that_stands_still_while_starting_a_helper_holds_up_no_other_client() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let id = text(&ensured(&lab, &place, "web", &session, &[], &["hang"]), "id");
    lab.ok(["helper", "stop", "--grace", "0s", &id]);
    let held = LockFile::open_or_create(&lab.home().join("helpers").join(&id).join("start")).expect("a file");
    assert!(held.acquire(Duration::ZERO).expect("a lock"));
    let began_at = Instant::now();
    ensured(&lab, &place, "other", &session, &[], &["hang"]);
    assert_eq!(ensured(&lab, &place, "web", &session, &[], &["hang"])["epoch"], 2);
    assert!(began_at.elapsed() < Duration::from_secs(30), "{:?}", began_at.elapsed());
}
