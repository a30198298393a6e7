//! `run --replace`: the new session first.

use std::io::Read;
use std::process::Stdio;

use berth_api::frame::{self, FrameKind};
use berth_api::message::KeeperAnswer;
use berth_api::{Problem, SessionStatus};
use berth_harness::{TestEnvironment, said, wait_until};

use crate::current::{TerminalShell, agent, lab};

fn count(lab: &TestEnvironment) -> usize {
    lab.json(["ls", "--all", "--json"]).as_array().map_or(0, Vec::len)
}

#[test]
fn a10_if_the_new_session_does_not_start_the_old_one_lives_and_is_still_current() {
    let lab = lab();
    agent(&lab, "broken", &["--do", "exit:3"]);
    let mut shell = TerminalShell::new(&lab);
    let old = shell.ok(&format!("berth run -d --name fix -- {} hang", lab.agent()));
    let pid = lab.number(&old, "pid");
    for new in [
        "-- /no/such/program",
        "--cwd /no/such/dir -- true",
        "--agent broken",
        "--agent no-such-agent",
        "--name 'not a name' -- true",
        "--key '' -- true",
    ] {
        let said = shell.run(&format!("berth run -d --replace @ --yes {new}"));
        assert_ne!(said.code, 0, "{new}: {said:?}");
        assert_eq!(
            (lab.show(&old)["state"].as_str(), lab.number(&old, "pid")),
            (Some("running"), pid),
            "{new}"
        );
        assert!(lab.events(&old, "stop_requested").is_empty(), "{new}");
        assert_eq!(shell.ok("berth use"), "fix", "{new}");
    }
}

#[test]
fn an_old_session_that_was_over_and_came_back_meanwhile_is_not_ended_without_a_yes() {
    let lab = lab();
    let old = lab.start_with(&["--name", "old"], &["hang"]);
    lab.ok(["stop", "--grace", "0s", "old"]);
    // The new session waits for its name. There is no question about a session that does not run.
    let path = lab.home().join("names/new");
    std::fs::write(&path, "000000000000").expect("a stale pointer");
    let pointer = berth_host::lock::LockFile::open_or_create(&path).expect("a lock");
    assert!(pointer.try_exclusive().expect("a lock"));
    let mut run = lab.command(["run", "-d", "--replace", "old", "--name", "new", "--", &lab.agent(), "hang"]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth starts");
    wait_until("it to wait", || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", run.id())).into_iter().flatten().flatten();
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|file| file == path)
    });
    lab.ok(["resume", "-d", "old"]);
    drop(pointer);
    let said = said(run.wait_with_output().expect("our own child"));
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("started again meanwhile"), "{said:?}");
    let states = [&old, "new"].map(|session| lab.show(session)["state"].clone());
    assert_eq!(states, ["running", "running"], "{said:?}");
}

#[test]
fn the_old_session_is_ended_when_the_new_one_runs_and_the_new_one_is_current() {
    let lab = lab();
    let mut shell = TerminalShell::new(&lab);
    let old = shell.ok(&format!("berth run -d --name fix -- {} hang", lab.agent()));
    let new = shell.ok(&format!("berth run -d --yes --replace fix -- {} hang", lab.agent()));
    assert_eq!(
        (lab.show(&old)["state"].as_str(), lab.show(&new)["state"].as_str()),
        (Some("stopped"), Some("running"))
    );
    assert_eq!(lab.show(&old)["name"], "fix", "it keeps its name, which was not asked for");
    assert_eq!(shell.current(""), new);
    let at = |id: &str, kind: &str| lab.events(id, kind)[0]["at"].as_str().expect("a time").to_owned();
    assert!(at(&new, "run_started") <= at(&old, "stop_requested"), "the new one was first");
    // A session that is already over needs no yes: nothing is ended.
    lab.ok(["run", "-d", "--replace", "fix", "--", &lab.agent(), "hang"]);
    assert_eq!(lab.events(&old, "stop_requested").len(), 1);
}

#[test]
fn an_agent_that_takes_turns_replaces_another_only_once_it_is_ready() {
    let lab = lab();
    let go = lab.dir().join("go");
    agent(&lab, "slow", &["--do", &format!("wait-file:{}", go.display())]);
    let old = lab.start(&["hang"]);
    let mut command = lab.command(["run", "-d", "--agent", "slow", "--yes", "--replace", &old]);
    let starting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth starts");
    wait_until("the new one's process", || {
        let all = lab.json(["ls", "--json"]);
        all.as_array().is_some_and(|all| all.iter().any(|one| one["id"] != old && one["pid"].is_u64()))
    });
    assert!(lab.events(&old, "stop_requested").is_empty(), "the new one runs, and takes no turns yet");
    std::fs::write(go, "").expect("a file");
    let said = said(starting.wait_with_output().expect("our own child"));
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(lab.show(&old)["state"], "stopped");
    assert_eq!(lab.show(said.out.trim())["state"], "idle");
}

#[test]
fn without_a_yes_nothing_is_started_and_nothing_ended() {
    let lab = lab();
    let old = lab.start_with(&["--name", "fix"], &["hang"]);
    let said = lab.berth(["run", "-d", "--replace", "fix", "--", "true"]);
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.err.contains("`fix`") && said.err.contains("--yes"), "{said:?}");
    assert_eq!(lab.berth(["run", "-d", "--yes", "--replace", "no-such", "--", "true"]).code, 3);
    assert_eq!(lab.berth(["run", "-d", "--yes", "--replace", "@", "--", "true"]).code, 2);
    let mut shell = TerminalShell::new(&lab);
    let mark = shell.begin("berth run -d --replace fix -- true");
    shell.terminal.wait_for("[y/N]");
    shell.terminal.type_keys("n\n");
    assert_eq!(shell.finish(&mark), 1);
    assert_eq!(shell.run("berth use").code, 2);
    assert_eq!((count(&lab), lab.show(&old)["state"].as_str()), (1, Some("running")));
}

#[test]
fn a_name_goes_over_to_the_new_session_and_the_old_one_keeps_a_part_of_it() {
    let lab = lab();
    let program = lab.agent();
    let old = lab.start_with(&["--name", "fix"], &["hang"]);
    let new = lab.ok(["run", "-d", "-y", "--replace", "fix", "--name", "fix", "--", &program, "hang"]);
    assert_eq!((lab.show("fix")["id"].as_str(), lab.show(&new)["name"].as_str()), (Some(&*new), Some("fix")));
    let kept = format!("fix-{}", &old[..4]);
    assert_eq!(
        (lab.show(&kept)["id"].as_str(), lab.show(&old)["name"].as_str()),
        (Some(&*old), Some(&*kept))
    );
    // Another name is just a name, and the name of a third session is refused before anything happens.
    let third = lab.ok(["run", "-d", "-y", "--replace", "fix", "--name", "third", "--", &program, "hang"]);
    let said = lab.berth(["run", "-d", "-y", "--replace", "third", "--name", "fix", "--", &program, "hang"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(
        (lab.show(&third)["state"].as_str(), lab.show(&new)["state"].as_str()),
        (Some("running"), Some("stopped"))
    );
}

#[test]
fn an_old_session_that_cannot_be_ended_is_an_error_that_names_both() {
    let lab = lab();
    let old = lab.start(&["hang"]);
    lab.kill_keeper(&old);
    let _lease = berth_store::SessionFiles::understand(lab.session_dir(&old).as_os_str())
        .expect("a session")
        .claim()
        .expect("a lease")
        .expect("the lock is free");
    let listener = berth_host::socket::listen_at(&lab.session_dir(&old), "sock").expect("a socket");
    listener.set_nonblocking(false).expect("a socket");
    let id = old.clone();
    // A keeper that says its session runs, and will not stop.
    std::thread::spawn(move || {
        while let Ok((mut caller, _)) = listener.accept() {
            let Ok(Some(call)) = frame::read_frame(&mut caller) else { continue };
            let is_stop = call.payload.windows(6).any(|window| window == b"\"stop\"");
            let problem = Problem::refused("not today");
            let status =
                SessionStatus { id: id.clone(), state: "running".into(), ..SessionStatus::default() };
            let answer = if is_stop {
                KeeperAnswer::Problem { problem }
            } else {
                KeeperAnswer::Done { status: Box::new(status) }
            };
            let answer = serde_json::to_vec(&answer).expect("plain data");
            let _ = frame::write_frame(&mut caller, FrameKind::Answer, &[&answer]);
            let _ = caller.read(&mut [0]);
        }
    });
    let said = lab.berth(["run", "-d", "-y", "--replace", &old, "--", &lab.agent(), "hang"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    let all = lab.json(["ls", "--all", "--json"]);
    let new =
        all.as_array().and_then(|all| all.iter().find(|one| one["id"] != *old)).expect("the new one runs");
    assert_eq!(new["state"], "running");
    let new = new["name"].as_str().expect("a name");
    assert!(said.err.contains(&old) && said.err.contains(new) && said.err.contains("not today"), "{said:?}");
}

#[test]
fn a_repeated_replacement_with_one_key_is_one_replacement() {
    let lab = lab();
    let program = lab.agent();
    let old = lab.start(&["hang"]);
    let args = ["run", "-d", "-y", "--key", "k", "--replace", &old, "--", &program, "hang"];
    let new = lab.ok(args);
    assert_eq!(lab.ok(args), new);
    assert_eq!((count(&lab), lab.events(&old, "stop_requested").len()), (2, 1));
    // The session the key means cannot make room for itself, and one that is over replaces nothing.
    let itself = lab.berth(["run", "-d", "-y", "--key", "k", "--replace", &new, "--", &program, "hang"]);
    assert_eq!(itself.code, 2, "{itself:?}");
    assert_eq!(lab.show(&new)["state"], "running");
    lab.ok(["resume", "-d", &old]);
    lab.ok(["stop", &new]);
    let over = lab.berth(args);
    assert_eq!(over.code, 1, "{over:?}");
    assert_eq!(lab.show(&old)["state"], "running");
}
