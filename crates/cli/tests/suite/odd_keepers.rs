//! Keepers that refuse, drop their callers, die in the middle of a request, or are gone while another process clears up
//! after them. Some are played by the test, which then holds the lease.

use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_api::frame::{self, FrameKind};
use berth_api::message::KeeperAnswer;
use berth_core::SessionId;
use berth_harness::{CommandOutput, TestEnvironment, said};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use berth_host::lock::LockFile;
use berth_store::store::Lease;
use berth_store::{SessionFiles, StateDir};
use berth_verbs::keepers;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// A session whose keeper is dead, and its lease in our hands.
fn orphan(lab: &TestEnvironment) -> (String, Lease) {
    let id = lab.start(&["hang"]);
    lab.kill_keeper(&id);
    let lease = SessionFiles::understand(lab.session_dir(&id).as_os_str())
        .expect("a session")
        .claim()
        .expect("a lease")
        .expect("the lock is free");
    // Every berth command that holds a lease signs it.
    lease.sign(&ProcessIdentity::me().expect("this process"), 1).expect("a lease");
    (id, lease)
}

/// Answers every caller in this way, until the test is over.
fn play_keeper(lab: &TestEnvironment, id: &str, meet: impl Fn(UnixStream) + Send + 'static) {
    let listener: UnixListener =
        berth_host::socket::listen_at(&lab.session_dir(id), "sock").expect("a socket");
    listener.set_nonblocking(false).expect("a socket");
    std::thread::spawn(move || {
        while let Ok((caller, _)) = listener.accept() {
            meet(caller);
        }
    });
}

/// Reads one call and says nothing.
fn hear_out(mut caller: UnixStream) {
    let _ = frame::read_frame(&mut caller);
}

fn begin(lab: &TestEnvironment, args: &[&str]) -> Child {
    let mut command = lab.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth starts")
}

fn end(child: Child) -> CommandOutput {
    said(child.wait_with_output().expect("our own child"))
}

#[test]
fn a_follower_is_told_when_the_keeper_refuses() {
    let lab = lab();
    let (id, _lease) = orphan(&lab);
    play_keeper(&lab, &id, |mut caller| {
        let _ = frame::read_frame(&mut caller);
        let problem = Problem::refused("not today");
        let answer = serde_json::to_vec(&KeeperAnswer::Problem { problem }).expect("plain data");
        let _ = frame::write_frame(&mut caller, FrameKind::Answer, &[&answer]);
        let _ = caller.read(&mut [0]);
    });
    for args in [&["output", &id, "--follow"][..], &["log", &id, "--follow"], &["wait", &id]] {
        let said = lab.berth(args);
        assert_eq!(said.code, 1, "{args:?}: {said:?}");
        assert!(said.err.contains("not today"), "{args:?}: {said:?}");
    }
}

#[test]
fn a_follower_of_a_keeper_that_drops_all_clients_retries_with_a_back_off() {
    let lab = lab();
    let (id, _lease) = orphan(&lab);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    play_keeper(&lab, &id, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(lab.berth(["wait", &id, "--timeout", "1s"]).code, 6);
    let calls = calls.load(Ordering::Relaxed);
    assert!((2..50).contains(&calls), "{calls} connections in a second");
}

#[test]
fn following_a_session_with_an_earlier_run_goes_on_to_the_end_of_this_one() {
    let lab = lab();
    let id = lab.start(&["expect:go", "exit:3"]);
    lab.ok(["stop", &id]);
    lab.ok(["resume", "-d", &id]);
    let mut log = begin(&lab, &["log", &id, "--follow"]);
    let mut heard = Vec::new();
    let mut out = log.stdout.take().expect("a pipe");
    while !String::from_utf8_lossy(&heard).contains("run 2 started") {
        let mut more = [0; 4096];
        let count = out.read(&mut more).expect("a pipe");
        assert_ne!(count, 0, "it ended too early: {}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&more[..count]);
    }
    lab.ok(["input", &id, "--enter", "go"]);
    out.read_to_end(&mut heard).expect("a pipe");
    assert_eq!(end(log).code, 0);
    let heard = String::from_utf8_lossy(&heard).into_owned();
    assert!(heard.contains("run 2 is over"), "{heard}");
    assert_eq!(heard.trim_end(), lab.ok(["log", &id]), "each event once");
}

#[test]
fn a_new_name_that_was_not_answered_keeps_its_pointer() {
    let lab = lab();
    let (id, _lease) = orphan(&lab);
    play_keeper(&lab, &id, hear_out);
    let said = lab.berth(["rename", &id, "perhaps"]);
    assert_eq!(said.code, 5, "{said:?}");
    let pointer = std::fs::read_to_string(lab.home().join("names/perhaps")).expect("the pointer");
    assert_eq!(pointer, id);
}

#[test]
fn keys_whose_keeper_died_before_it_answered_may_or_may_not_have_been_typed() {
    let lab = lab();
    let agent = lab.agent();
    let mut run = lab.command(["run", "-d", "--", &agent, "hang"]);
    let id = said(run.env("BERTH_KILLPOINT", "typing").output().expect("berth starts")).out;
    let said = lab.berth(["input", id.trim(), "hello"]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("may or may not have been typed"), "{said:?}");
    assert_eq!(lab.show(id.trim())["state"], "lost");
}

#[test]
fn a3_of_many_concurrent_stops_of_a_lost_session_all_return_when_it_is_over() {
    let lab = lab();
    // Deaf, so that clearing up takes its time.
    let id = lab.start(&["ignore:HUP,TERM", "say:deaf", "hang"]);
    lab.wait_output(&id, "deaf");
    let agent = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    let stops: Vec<_> = (0..6).map(|_| begin(&lab, &["stop", &id, "--json"])).collect();
    for stop in stops {
        let said = end(stop);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(matches!(agent.check(), ProcessLiveness::Gone), "{said:?}");
        let stopped: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!(stopped[0]["state"], "lost", "{stopped}");
        assert!(stopped[0]["ended_at"].is_string(), "{stopped}");
    }
    assert_eq!(lab.events(&id, "run_ended").len(), 1);
}

#[test]
fn a3_a_command_waits_until_another_process_has_recorded_the_loss() {
    let lab = lab();
    let (id, lease) = orphan(&lab);
    let home = StateDir::open(lab.home()).expect("the state directory");
    let id = SessionId::parse(&id).expect("an id");
    std::thread::scope(|scope| {
        let started = Instant::now();
        let healing = scope.spawn(|| keepers::recover_session(&home, &id));
        // Longer than a claim is tried for.
        let long = Duration::from_millis(500);
        berth_harness::wait_until("a while", || healing.is_finished() || started.elapsed() > long);
        assert!(!healing.is_finished(), "it did not wait");
        drop(lease);
        assert_eq!(healing.join().expect("no panic"), Ok(vec![]));
    });
    assert_eq!(lab.events(id.as_str(), "run_ended").len(), 1);
}

#[test]
fn a3_while_another_process_clears_up_nothing_is_called_stopped_or_running() {
    let lab = lab();
    let (id, lease) = orphan(&lab);
    let [stop, resume, show, ls] =
        [&["stop", &id][..], &["resume", "-d", &id], &["show", &id, "--json"], &["ls", "--json"]]
            .map(|args| begin(&lab, args));
    let why = lab.json(["why", &id, "--json"]);
    assert_eq!(why["state"], "lost");
    assert!(why["evidence"][0]["fact"].as_str().expect("a text").contains("clearing up"), "{why}");
    let [stop, resume, show, ls] = [stop, resume, show, ls].map(end);
    for said in [&stop, &resume, &show] {
        assert_eq!(said.code, 4, "{said:?}");
    }
    assert_eq!(ls.code, 1, "{ls:?}");
    for said in [&stop, &resume, &show, &ls] {
        assert!(said.err.contains("another command is clearing up after its keeper"), "{said:?}");
    }
    let parse = |said: &CommandOutput| serde_json::from_str::<serde_json::Value>(&said.out).expect("JSON");
    assert_eq!(parse(&show)["state"], "lost");
    assert_eq!(parse(&ls)[0]["state"], "lost");
    drop(lease);
    lab.ok(["stop", &id]);
    assert!(lab.show(&id)["ended_at"].is_string());
}

#[test]
fn the_process_that_clears_up_signs_the_lease() {
    let lab = lab();
    let (id, lease) = orphan(&lab);
    drop(lease);
    let healer = begin(&lab, &["show", &id]);
    let pid = healer.id();
    assert_eq!(end(healer).code, 0);
    let holder =
        SessionFiles::understand(lab.session_dir(&id).as_os_str()).expect("a session").lease_holder();
    assert!(holder.starts_with(&format!("pid={pid} ")) && holder.ends_with("epoch=1"), "{holder}");
}

/// Asserts that a command that needs the lease names the program that locked it, and gives no useless advice.
fn names_the_stranger(said: &CommandOutput) {
    let stranger = format!("another program has locked its lease: pid {} (", std::process::id());
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains(&stranger), "{said:?}");
    assert!(!said.err.contains("running already") && !said.err.contains("berth stop"), "{said:?}");
}

#[test]
fn a_lease_locked_by_another_program_is_said_to_be_by_every_command_that_needs_it() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    lab.ok(["stop", &id]);
    let keeper_was = lab.json(["why", &id, "--json"]);
    let foreign = LockFile::open_or_create(&lab.session_dir(&id).join("lease")).expect("a lease");
    // The keeper that stopped holds it a moment longer.
    assert!(foreign.acquire(Duration::from_secs(10)).expect("a lock"));
    for args in [
        &["resume", "-d", &id][..],
        &["purge", "--yes", &id],
        &["archive", &id],
        &["tag", &id, "a"],
        &["rename", &id, "other"],
    ] {
        names_the_stranger(&lab.berth(args));
    }
    // `stop` succeeds, because the session is stopped already.
    lab.ok(["stop", &id]);
    assert_eq!(lab.show(&id)["state"], "stopped");
    let why = lab.json(["why", &id, "--json"]);
    assert_eq!(why["state"], keeper_was["state"]);
    let lease = why["evidence"][0]["fact"].as_str().expect("a text");
    assert!(lease.contains(&format!("locked by another program, pid {} (", std::process::id())), "{why}");
    let pids = |why: &serde_json::Value| why.to_string().matches("keeper, pid").count();
    assert_eq!(pids(&why), 0, "{why}");
    drop(foreign);
    lab.ok(["resume", "-d", &id]);
    lab.ok(["stop", &id]);
}

#[test]
fn a_lost_session_whose_lease_another_program_has_locked_is_not_said_to_be_cleared_up() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    lab.kill_keeper(&id);
    let foreign = LockFile::open_or_create(&lab.session_dir(&id).join("lease")).expect("a lease");
    assert!(foreign.acquire(Duration::from_secs(5)).expect("a lock"));
    let show = lab.berth(["show", &id, "--json"]);
    names_the_stranger(&show);
    let shown: serde_json::Value = serde_json::from_str(&show.out).expect("JSON");
    assert_eq!(
        (&shown["state"], &shown["keeper_pid"]),
        (&"lost".into(), &serde_json::Value::Null),
        "{shown}"
    );
    for args in [&["resume", "-d", &id][..], &["stop", &id]] {
        names_the_stranger(&lab.berth(args));
    }
    drop(foreign);
    lab.ok(["stop", &id]);
    assert!(lab.show(&id)["ended_at"].is_string());
}

#[test]
fn secrets_in_the_command_line_of_a_program_that_locked_a_lease_are_masked() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    lab.ok(["stop", &id]);
    let lease = lab.session_dir(&id).join("lease");
    let mut stranger = std::process::Command::new("flock");
    stranger.arg(&lease).args(["sh", "-c", "echo locked; read line", "sh", "--token", "hunter2-secret"]);
    let mut stranger = stranger.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("flock");
    let mut locked = [0; 6];
    stranger.stdout.as_mut().expect("a pipe").read_exact(&mut locked).expect("it has the lock");
    for args in [&["why", &id][..], &["why", &id, "--json"], &["resume", "-d", &id]] {
        let said = lab.berth(args);
        let text = format!("{}{}", said.out, said.err);
        assert!(text.contains(&format!("pid {} (flock", stranger.id())), "{args:?}: {said:?}");
        assert!(text.contains("--token") && !text.contains("hunter2"), "{args:?}: {said:?}");
    }
    drop(stranger.stdin.take());
    stranger.wait().expect("our own child");
}
