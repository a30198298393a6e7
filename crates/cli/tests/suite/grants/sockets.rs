//! The other doors: a keeper's socket, a keeper of one's own, and the gateway's socket.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use std::path::PathBuf;

use berth_api::frame::{self, FrameKind};
use berth_api::message::{
    AttachMode, ClaimedCaller, KeeperAnswer, KeeperCall, KeeperRequest, PROTOCOL, WindowSize, WriterTakeover,
};
use berth_api::record::{Grant, SessionSpec};
use berth_api::{KeeperConnection, Problem, ProblemCode};
use berth_core::SessionId;
use berth_harness::{TestEnvironment, signal, wait_until};
use berth_host::identity::ProcessIdentity;
use berth_store::StateDir;
use rustix::process::Signal;

use crate::grants::{BERTH, CombinedOutput, agent, inside, lab};

/// The variable that tells this test binary what to do inside of a session, and to which one.
const PART: &str = "BERTH_TEST_PART";

/// Runs a part of this file inside of a session; returns the text that it prints after `said: `.
fn part(lab: &TestEnvironment, session: &str, name: &str, about: &str) -> String {
    let me = std::env::current_exe().expect("this very program");
    let command = format!(
        "env {PART}={name}:{about} {} --exact grants::sockets::subprocess_of_other_tests --nocapture \
         --test-threads 1",
        me.display()
    );
    let CombinedOutput { text, code } = inside(lab, session, &command);
    let said = text.lines().find_map(|line| line.split_once("said: ")).map(|(_, said)| said.to_owned());
    said.unwrap_or_else(|| panic!("{code}: {text}"))
}

/// The part that other tests run inside of a session.
#[test]
fn subprocess_of_other_tests() {
    let Ok(wanted) = std::env::var(PART) else { return };
    let (name, about) = wanted.split_once(':').expect("a part, and what it is about");
    let home =
        StateDir::open(std::env::var_os("BERTH_HOME").expect("set in a session").into()).expect("a home");
    let id = SessionId::parse(about);
    let dir = || PathBuf::from(home.session(id.as_ref().expect("an id")).argument());
    let ask = |request: KeeperRequest| {
        word(KeeperConnection::open(&dir(), "a test".into()).expect("a keeper").ask(request))
    };
    let said = match name {
        "stop" => ask(KeeperRequest::Stop { grace_ms: 0 }),
        "status" => ask(KeeperRequest::Status),
        "take" => ask(KeeperRequest::Attach { role: AttachMode::Take, size: WindowSize::default() }),
        "observe" => ask(KeeperRequest::Attach { role: AttachMode::Observer, size: WindowSize::default() }),
        "restart" => ask(KeeperRequest::Restart),
        "hand-on" => {
            let requests = [KeeperRequest::Status, KeeperRequest::Stop { grace_ms: 0 }];
            hand_on(&dir(), &requests, true)
        }
        "release" => {
            let (helper, owner) = about.split_once('/').expect("a helper, and its owner");
            let helpers = home.helpers().expect("the shelf of helpers");
            let helper = helpers.session(&SessionId::parse(helper).expect("an id"));
            let dir = PathBuf::from(helper.argument());
            hand_on(&dir, &[KeeperRequest::Leave { owner: owner.to_owned() }], false)
        }
        "forge" => forge(&home, about),
        other => panic!("there is no part {other}"),
    };
    println!("said: {said}");
}

fn word(answer: Result<KeeperAnswer, Problem>) -> String {
    answer.map_or_else(|problem| problem.code.word().to_owned(), |_| "done".to_owned())
}

/// Connects, hands the connection to a child that writes these requests, and is gone before it does. `accepted`: the
/// keeper has accepted the connection before that. The answers go to the file `test.answer` in the directory.
#[expect(clippy::zombie_processes, reason = "this process ends before it, and init waits")]
fn hand_on(dir: &std::path::Path, requests: &[KeeperRequest], accepted: bool) -> String {
    let mut stream = berth_host::socket::connect(dir, berth_api::client::SOCKET_NAME).expect("a keeper");
    let call = |request| {
        let place = "a test".into();
        let call = KeeperCall { protocol: PROTOCOL, place, agent: None, also: vec![], trace: None, request };
        frame::encode_frame(FrameKind::Call, &[&serde_json::to_vec(&call).expect("plain data")])
    };
    if accepted {
        stream.write_all(&call(KeeperRequest::Status)).expect("a keeper that reads");
        frame::read_frame(&mut stream).expect("an answer");
    }
    let calls: Vec<u8> = requests.iter().flat_map(|request| call(request.clone())).collect();
    std::fs::write(dir.join("test.calls"), calls).expect("a file");
    let script = "while kill -0 $1 2>/dev/null; do sleep 0.01; done; cat test.calls; cat <&1 >test.answer";
    let mut late = Command::new("setsid");
    late.args(["sh", "-c", script, "sh", &std::process::id().to_string()]).current_dir(dir);
    late.stdin(Stdio::null()).stdout(OwnedFd::from(stream)).stderr(Stdio::null());
    late.spawn().expect("setsid");
    "gone".to_owned()
}

/// The answers that came over a connection that was handed on, once there are so many.
fn answers_to(dir: &std::path::Path, count: usize) -> Vec<KeeperAnswer> {
    let answers = || {
        let mut bytes = std::fs::read(dir.join("test.answer")).unwrap_or_default();
        let mut answers: Vec<KeeperAnswer> = Vec::new();
        while let Ok(Some(frame)) = frame::take_frame(&mut bytes) {
            answers.push(serde_json::from_slice(&frame.payload).expect("an answer"));
        }
        answers
    };
    wait_until("the answers", || answers().len() == count);
    answers()
}

/// Starts a keeper by hand, with a record that gives everything and names another parent.
#[expect(clippy::zombie_processes, reason = "this process ends right away, and init waits")]
fn forge(home: &StateDir, grant: &str) -> String {
    let id = home.mint().expect("an id");
    let spec = SessionSpec {
        driver: "pty".into(),
        command: vec!["sleep".into(), "1000".into()],
        cwd: "/".into(),
        parent: Some("0123456789ab".into()),
        grant: if grant == "admin" { Grant::Admin } else { Grant::None },
        ..SessionSpec::default()
    };
    let name = Some("forged".to_owned());
    let create = KeeperRequest::Create {
        spec,
        name,
        size: WindowSize::default(),
        take: WriterTakeover::None,
        tags: vec![],
        note: None,
    };
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let mut command = Command::new(BERTH);
    // Keepers are known by their first word.
    command.arg0("berth").arg("keeper").arg(home.session(&id).argument()).stdin(OwnedFd::from(theirs));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a keeper");
    drop(command);
    let answer = KeeperConnection::over(ours, "a test".into()).ask(create);
    if answer.is_err() {
        let _ = child.wait_with_output();
        home.unmint(&id);
    }
    answer.map_or_else(|problem| problem.code.word().to_owned(), |_| id.to_string())
}

#[test]
fn a_keepers_socket_tells_an_agent_from_a_person() {
    let lab = lab();
    let outer = agent(&lab, "outer", &[]);
    let term = lab.start_with(&["--name", "term"], &["echo"]);
    for about in [&term, &outer] {
        assert_eq!(part(&lab, "outer", "stop", about), "not-allowed");
        assert_eq!(part(&lab, "outer", "restart", about), "not-allowed");
        assert_eq!(part(&lab, "outer", "status", about), "done");
    }
    assert_eq!(part(&lab, "outer", "take", &term), "not-allowed");
    assert_eq!(part(&lab, "outer", "observe", &term), "done");
    assert_eq!(lab.show("term")["state"], "running");
}

/// The keeper attributes a process when it accepts the connection, so the end of the process afterwards changes nothing.
#[test]
fn an_agent_that_ends_after_it_connected_is_refused_as_the_agent_it_was() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    let term = lab.start_with(&["--name", "term"], &["echo"]);
    assert_eq!(part(&lab, "outer", "hand-on", &term), "gone");
    match answers_to(&lab.session_dir(&term), 2).as_slice() {
        [KeeperAnswer::Done { .. }, KeeperAnswer::Problem { problem }] => {
            assert_eq!(problem.code, ProblemCode::NotAllowed);
            assert!(problem.what.contains("inside of session `outer` may not"), "{problem:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(lab.show("term")["state"], "running");
}

/// A suspended keeper accepts a connection only after the process that made it has ended.
#[test]
fn an_agent_that_ends_before_its_connection_is_accepted_releases_no_helper_of_a_stranger() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    let other = agent(&lab, "other", &[]);
    inside(&lab, "other", &format!("berth helper ensure theirs -- {} hang", lab.agent())).ok();
    let helper = lab.json(["helper", "show", "theirs", "--json"]);
    let id = helper["id"].as_str().expect("an id").to_owned();
    let keeper = u32::try_from(helper["keeper_pid"].as_u64().expect("a keeper")).expect("pids fit");
    let keeper = ProcessIdentity::of(keeper).expect("it runs");
    signal(&keeper, Signal::STOP);
    let said = part(&lab, "outer", "release", &format!("{id}/{other}"));
    signal(&keeper, Signal::CONT);
    assert_eq!(said, "gone");
    match answers_to(&lab.home().join("helpers").join(&id), 1).as_slice() {
        [KeeperAnswer::Problem { problem }] => {
            assert_eq!(problem.code, ProblemCode::NotAllowed);
            assert!(problem.what.contains("cannot identify the caller"), "{problem:?}");
        }
        other => panic!("{other:?}"),
    }
    let helper = lab.json(["helper", "show", "theirs", "--json"]);
    assert_eq!(
        (&helper["state"], &helper["helper"]["owners"][0]["session"]),
        (&"running".into(), &other.into())
    );
}

#[test]
fn a_keeper_started_by_hand_grants_no_more_than_its_starter_has() {
    let lab = lab();
    let outer = agent(&lab, "outer", &[]);
    assert_eq!(part(&lab, "outer", "forge", "admin"), "not-allowed");
    assert_eq!(lab.json(["ls", "--all", "--json"]).as_array().expect("a list").len(), 1);
    let id = part(&lab, "outer", "forge", "none");
    assert_eq!(lab.show(&id)["parent"], outer.as_str(), "by evidence, whatever was said");
}

/// Requests that a gateway makes for an agent at its local socket.
#[test]
fn requests_made_for_an_agent_are_judged_as_requests_of_the_agent() {
    let lab = lab();
    let outer = agent(&lab, "outer", &[]);
    let child = inside(&lab, "outer", "berth run -d --agent fake --name child").ok();
    let term = lab.start_with(&["--name", "term"], &["echo"]);
    let ask = |id: &str, request| {
        let asker = ClaimedCaller { place: "a gateway".into(), agent: Some(outer.clone()), also: vec![] };
        word(KeeperConnection::open_for(&lab.session_dir(id), asker).expect("a keeper").ask(request))
    };
    assert_eq!(ask(&term, KeeperRequest::Stop { grace_ms: 0 }), "not-allowed");
    assert_eq!(ask(&outer, KeeperRequest::Stop { grace_ms: 0 }), "not-allowed");
    assert_eq!(ask(&term, KeeperRequest::Status), "done");
    assert_eq!(ask(child.trim(), KeeperRequest::Stop { grace_ms: 0 }), "done");
}

/// Asks the gateway from inside of a session: the status, and the body.
fn ask(lab: &TestEnvironment, method: &str, path: &str, body: &str) -> String {
    let asked = format!(
        "curl -sS -X {method} -H 'content-type: application/json' -d '{body}' -w ' %{{http_code}}' \
         --unix-socket $BERTH_HOME/gateway.sock http://localhost/v1{path}"
    );
    inside(lab, "outer", &asked).ok()
}

#[test]
fn the_gateways_socket_tells_an_agent_from_a_person() {
    let lab = lab();
    let gateway = lab.serve();
    agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    inside(&lab, "outer", "berth run -d --agent fake --name child").ok();
    let list =
        inside(&lab, "outer", "curl -sS --unix-socket $BERTH_HOME/gateway.sock http://localhost/v1/sessions");
    assert!(list.ok().contains("\"name\":\"other\""));
    for (method, path, body) in [
        ("POST", "/sessions/other/turns", "{\"text\":\"do this\"}"),
        ("POST", "/sessions/outer/turns", "{\"text\":\"do that\"}"),
        ("POST", "/sessions/child/answers", "{\"answer\":\"allow\",\"request\":\"0\",\"epoch\":1}"),
        ("PATCH", "/sessions/other/queue", "{\"paused\":true}"),
        ("POST", "/sessions/other/stop", "{}"),
        ("POST", "/sessions/outer/stop", "{}"),
        ("DELETE", "/sessions/other", ""),
        ("POST", "/tokens", "{\"name\":\"mine\",\"scope\":\"admin\"}"),
        ("POST", "/links", "{}"),
    ] {
        let said = ask(&lab, method, path, body);
        assert!(
            said.ends_with(" 403") && said.contains("\"code\":\"not-allowed\""),
            "{method} {path}: {said}"
        );
    }
    assert_eq!(lab.show("other")["state"], "idle");
    assert_eq!(lab.json(["token", "ls", "--json"]).as_array().map(Vec::len), Some(0));
    let said = ask(&lab, "POST", "/sessions/child/turns", "{\"text\":\"hello\"}");
    assert!(said.ends_with(" 202"), "{said}");
    // A user at the same socket may.
    gateway.post("/v1/sessions/other/turns", &serde_json::json!({"text": "hello"})).ok();
}

/// A process that takes on the mark of another session may do only what both sessions allow, at every door.
#[test]
fn the_mark_of_another_session_gives_no_rights_of_its_agent() {
    let lab = lab();
    let _gateway = lab.serve();
    let parent = agent(&lab, "parent", &[]);
    inside(&lab, "parent", "berth run -d --agent fake --name kid").ok();
    inside(&lab, "parent", "berth run -d --name over -- true").ok();
    lab.berth(["wait", "over", "--for", "exit"]);
    agent(&lab, "outer", &["--grant", "send"]);
    let disguise = format!("env BERTH_SESSION={parent} BERTH_RUN={parent}:1");
    let curl = "curl -sS -X POST -H 'content-type: application/json' -d '{}' -w ' %{http_code}' \
                --unix-socket $BERTH_HOME/gateway.sock http://localhost/v1/sessions";
    let said = inside(&lab, "outer", &format!("{disguise} {curl}/kid/stop")).ok();
    assert!(said.ends_with(" 403") && said.contains("not-allowed"), "{said}");
    // Verbs that need no keeper are refused as well.
    let said = inside(&lab, "outer", &format!("{disguise} {curl}/over/archive")).ok();
    assert!(said.ends_with(" 403"), "{said}");
    assert_eq!(inside(&lab, "outer", &format!("{disguise} berth archive over")).code, 11);
    assert_eq!(inside(&lab, "outer", &format!("{disguise} berth stop kid")).code, 11);
    assert_eq!((&lab.show("kid")["state"], &lab.show("over")["state"]), (&"idle".into(), &"stopped".into()));
    // The parent's own agent may, at the same doors.
    assert!(inside(&lab, "parent", &format!("{curl}/kid/stop")).ok().ends_with(" 200"));
    inside(&lab, "parent", "berth archive over").ok();
}

/// Waiting for a turn resumes a session only for an agent that may resume it.
#[test]
fn an_agent_that_waits_at_the_gateway_resumes_no_stranger() {
    let lab = lab();
    let gateway = lab.serve();
    agent(&lab, "outer", &[]);
    let other = agent(&lab, "other", &["--on-unknown", "continue"]);
    let begun = crate::grants::file(&lab, "begun");
    let never = crate::grants::file(&lab, "never");
    lab.ok(["send", "other", &format!("touch:{} wait-file:{} x", begun.display(), never.display())]);
    wait_until("it to have begun", || begun.exists());
    lab.ok(["send", "other", "second"]);
    lab.kill_keeper(&other);
    let said = ask(&lab, "POST", "/sessions/other/wait", "{\"for\":\"done\",\"timeout_ms\":20000}");
    assert!(said.ends_with(" 409") && said.contains("\"code\":\"held\""), "{said}");
    assert!(lab.show("other")["keeper_pid"].is_null(), "no keeper was started");
    // A user at the socket has all rights, as before.
    let waited = gateway.post("/v1/sessions/other/wait", &serde_json::json!({"for": "done"})).ok();
    assert_eq!(waited["turn"]["answer"], "ECHO: second", "{waited}");
}
