//! State directories: which users may use them, how many may write at once, and which files stay in them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use berth_api::message::{KeeperRequest, WindowSize, WriterTakeover};
use berth_api::record::SessionSpec;
use berth_api::{KeeperConnection, Problem, ProblemCode};
use berth_harness::{CommandOutput, TestEnvironment, said, wait_child, wait_until};

/// An account that is not ours.
const NOBODY: u32 = 65534;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// Every file below a directory with its bytes; sockets without.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry")) {
        if entry.file_type().expect("a type").is_dir() {
            files.extend(tree(&entry.path()));
        } else {
            files.insert(entry.path(), fs::read(entry.path()).unwrap_or_default());
        }
    }
    files
}

/// Runs a berth command as the user `nobody`.
fn as_nobody(lab: &TestEnvironment, args: &[&str]) -> CommandOutput {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_berth")])
        .args(args);
    said(command.env("BERTH_HOME", lab.home()).stdin(Stdio::null()).output().expect("setpriv is installed"))
}

/// True if this test can change accounts, and the other account can run the binary.
fn can_be_nobody() -> bool {
    let can = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_berth"), "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("SKIPPED: this needs root, setpriv, and a binary that others may execute");
    }
    can
}

fn give_to(uid: u32, dir: &Path) {
    let status = Command::new("chown").args(["-R", &uid.to_string()]).arg(dir).status().expect("chown");
    assert!(status.success());
}

/// Starts a second keeper for a session, with this first request; returns its answer, and its exit code.
fn second_keeper(lab: &TestEnvironment, id: &str, request: KeeperRequest) -> (Problem, i32) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let dir = lab.session_dir(id);
    let mut command = lab.command(["keeper", dir.to_str().expect("text")]);
    let child = command.stdin(std::os::fd::OwnedFd::from(theirs)).spawn().expect("a keeper");
    drop(command);
    let answer = KeeperConnection::over(ours, "a test".to_owned()).ask(request);
    (answer.expect_err("it must not start"), wait_child(child))
}

#[test]
fn d16_a_state_directory_that_others_could_have_prepared_is_refused() {
    let lab = lab();
    let refused = |why: &str| {
        for args in [&["ls"][..], &["run", "-d", "--", "true"]] {
            let said = lab.berth(args);
            assert_eq!((said.code, said.out.as_str()), (1, ""), "{why}: {said:?}");
            assert!(said.err.contains(why) && said.err.contains("BERTH_HOME"), "{why}: {said:?}");
        }
    };
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    fs::create_dir(lab.home()).expect("a directory");
    for open in [0o777, 0o755, 0o701, 0o710] {
        mode(&lab.home(), open);
        refused("is open to other users");
        assert_eq!(
            fs::read_dir(lab.home()).expect("a directory").count(),
            0,
            "and nothing was written there"
        );
    }
    mode(&lab.home(), 0o700);
    lab.ok(["ls"]);
    mode(&lab.home().join("sessions"), 0o777);
    refused("is open to other users");
    mode(&lab.home().join("sessions"), 0o700);
    fs::remove_dir(lab.home().join("names")).expect("an empty directory");
    fs::create_dir(lab.dir().join("elsewhere")).expect("a directory");
    symlink(lab.dir().join("elsewhere"), lab.home().join("names")).expect("a link");
    refused("is a symbolic link");
    fs::remove_file(lab.home().join("names")).expect("a link");
    lab.ok(["ls"]);
    fs::rename(lab.home(), lab.dir().join("moved")).expect("a rename");
    symlink(lab.dir().join("moved"), lab.home()).expect("a link");
    refused("is a symbolic link");
    fs::remove_file(lab.home()).expect("a link");
    fs::write(lab.home(), "a file").expect("a file");
    refused("is not a directory");
    fs::remove_file(lab.home()).expect("a file");
}

#[test]
fn d16_a_state_directory_of_another_user_is_refused() {
    if !can_be_nobody() {
        return;
    }
    let lab = lab();
    lab.ok(["ls"]);
    let theirs = as_nobody(&lab, &["ls"]);
    assert_eq!(theirs.code, 1, "{theirs:?}");
    assert!(theirs.err.contains("belongs to user 0, not to you (user 65534)"), "{theirs:?}");
    chown(lab.home(), Some(NOBODY), None).expect("root may do that");
    let ours = lab.berth(["ls"]);
    assert_eq!(ours.code, 1, "{ours:?}");
    assert!(ours.err.contains("belongs to user 65534"), "{ours:?}");
}

#[test]
fn b13_a_missing_permission_is_reported_as_that_and_not_as_in_use_or_not_there() {
    if !can_be_nobody() {
        return;
    }
    let lab = lab();
    let id = lab.start_with(&["--name", "mine"], &["exit:0"]);
    assert_eq!(lab.berth(["wait", &id]).code, 0);
    give_to(NOBODY, &lab.home());
    let dir = lab.session_dir(&id);
    assert_eq!(as_nobody(&lab, &["show", "mine"]).code, 0);
    let denied = |args: &[&str]| {
        let said = as_nobody(&lab, args);
        assert_eq!(said.code, 1, "{args:?}: {said:?}");
        assert!(said.err.contains("ermission denied"), "{args:?}: {said:?}");
        assert!(said.err.contains(&id), "{args:?}: {said:?}");
    };
    // Each path in turn belongs to another user and is closed.
    for closed in ["lease", "journal", ""] {
        let path = dir.join(closed);
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        chown(&path, Some(0), None).expect("root may do that");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("chmod");
        denied(&["resume", &id]);
        if closed != "lease" {
            denied(&["show", &id]);
            denied(&["show", "mine"]);
            denied(&["log", "mine"]);
            denied(&["run", "-d", "--name", "mine", "--", "true"]);
        }
        chown(&path, Some(NOBODY), None).expect("root may do that");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
    }
    assert_eq!(as_nobody(&lab, &["resume", "mine"]).code, 0);
    give_to(0, &lab.home());
}

#[test]
fn a_transcript_that_may_not_be_read_is_said_to_be_that_and_nothing_is_made() {
    if !can_be_nobody() {
        return;
    }
    let lab = lab();
    lab.ok(["ls"]);
    give_to(NOBODY, &lab.home());
    let (talk, place) = (lab.dir().join("talk.jsonl"), lab.dir().join("place"));
    fs::write(&talk, "{\"type\":\"user\"}\n").expect("a file");
    fs::set_permissions(&talk, fs::Permissions::from_mode(0o600)).expect("chmod");
    fs::create_dir(&place).expect("a directory");
    give_to(NOBODY, &place);
    let (path, copy) = (talk.display().to_string(), place.join("copy.jsonl").display().to_string());
    for args in [
        &["transcript", "check", &path][..],
        &["transcript", "tree", &path],
        &["transcript", "show", &path],
        &["transcript", "repair", &path, "--to", &copy],
    ] {
        let said = as_nobody(&lab, args);
        assert_eq!(said.code, 1, "{args:?}: {said:?}");
        assert!(said.err.contains("ermission denied") && said.err.contains(&path), "{args:?}: {said:?}");
        assert!(said.out.is_empty(), "{args:?}: {said:?}");
    }
    assert_eq!(fs::read_dir(&place).expect("a directory").count(), 0, "half a copy was left");
    give_to(0, &lab.home());
}

#[test]
fn e10_a_second_keeper_yields_with_exit_4_and_changes_nothing() {
    let lab = lab();
    let id = lab.start(&["say:up", "hang"]);
    lab.wait_output(&id, "up");
    let keeper = lab.process(&id, "keeper_pid");
    let before = tree(&lab.session_dir(&id));
    let (problem, code) = second_keeper(
        &lab,
        &id,
        KeeperRequest::Resume {
            size: WindowSize::default(),
            fresh: false,
            take: WriterTakeover::None,
            restore: false,
            interface: None,
        },
    );
    assert_eq!((problem.code, code), (ProblemCode::Held, 4), "{problem:?}");
    assert!(problem.what.contains(&format!("pid={}", keeper.pid)), "it names the holder: {problem:?}");
    let create = KeeperRequest::Create {
        spec: SessionSpec::default(),
        name: None,
        size: WindowSize::default(),
        take: WriterTakeover::None,
        tags: vec![],
        note: None,
    };
    assert_eq!(second_keeper(&lab, &id, create).1, 4);
    assert_eq!(tree(&lab.session_dir(&id)), before);
    assert_eq!(lab.process(&id, "keeper_pid"), keeper);
}

#[test]
fn a_keeper_asked_to_create_a_session_that_exists_refuses_and_deletes_nothing() {
    let lab = lab();
    let id = lab.start(&["say:kept", "exit:0"]);
    assert_eq!(lab.berth(["wait", &id]).code, 0);
    let before = tree(&lab.session_dir(&id));
    let create = KeeperRequest::Create {
        spec: SessionSpec::default(),
        name: None,
        size: WindowSize::default(),
        take: WriterTakeover::None,
        tags: vec![],
        note: None,
    };
    let (problem, code) = second_keeper(&lab, &id, create);
    assert_eq!((problem.code, code), (ProblemCode::Refused, 1), "{problem:?}");
    assert_eq!(tree(&lab.session_dir(&id)), before);
}

#[test]
fn e10_two_state_directories_know_nothing_of_each_other() {
    let [one, two] = [lab(), lab()];
    let a = one.start_with(&["--name", "same", "--key", "same"], &["hang"]);
    let b = two.start_with(&["--name", "same", "--key", "same"], &["hang"]);
    assert_ne!(a, b);
    assert_eq!(one.json(["ls", "--json"]).as_array().map(Vec::len), Some(1));
    assert_eq!(two.berth(["show", &a]).code, 3);
    let untouched = two.process(&b, "pid");
    one.ok(["stop", "same"]);
    one.ok(["resume", "-d", "same"]);
    one.kill_keeper("same");
    one.ok(["ls"]);
    assert_eq!(two.process("same", "pid"), untouched);
    assert_eq!(two.show("same")["epoch"], 1);
}

#[test]
fn a_state_directory_may_have_a_relative_or_a_very_long_path() {
    let lab = lab();
    let agent = lab.agent();
    let long = "long".repeat(50);
    fs::create_dir_all(lab.dir().join("a/b")).expect("a directory");
    let deep = format!("{}/{long}/{long}", lab.dir().display());
    for (home, absolute) in [("../rel", lab.dir().join("a/../rel")), (&deep, PathBuf::from(&deep))] {
        let berth = |cwd: &str, home: &str, args: &[&str]| {
            let mut command = lab.command(args);
            said(command.current_dir(lab.dir().join(cwd)).env("BERTH_HOME", home).output().expect("berth"))
        };
        let started = berth("a", home, &["run", "-d", "--cwd", "b", "--", &agent, "report", "expect"]);
        assert_eq!(started.code, 0, "{started:?}");
        let id = started.out.trim();
        let waited = berth("a", home, &["wait", id, "--for", "output:BERTH_HOME", "--timeout", "60s"]);
        assert_eq!(waited.code, 0, "{waited:?}");
        let said = berth("a", home, &["output", id]).out;
        let report: serde_json::Value = serde_json::from_str(said.trim()).expect("a report");
        let told = report["env"]["BERTH_HOME"].as_str().expect("a path");
        assert_eq!(
            fs::canonicalize(told).expect("it is there"),
            fs::canonicalize(&absolute).expect("it is there")
        );
        assert!(told.starts_with('/'), "in the agent's directory {told} would be another place");
        let typed = berth("a/b", told, &["input", id, "--enter", "go"]);
        assert_eq!(typed.code, 0, "{typed:?}");
        assert_eq!(berth("a", home, &["wait", id]).code, 0);
    }
}

#[test]
fn a_run_started_inside_a_session_is_a_session_of_its_own() {
    let lab = lab();
    let berth = env!("CARGO_BIN_EXE_berth");
    let script = format!("{berth} run -d --name inner -- {} report hang; echo made; exec cat", lab.agent());
    let outer = lab.ok(["run", "-d", "--", "sh", "-c", &script]);
    lab.wait_output(&outer, "made");
    lab.wait_output("inner", "BERTH_RUN");
    let inner = lab.show("inner")["id"].as_str().expect("an id").to_owned();
    let report: serde_json::Value =
        serde_json::from_str(lab.ok(["output", "inner"]).trim()).expect("a report");
    assert_eq!(report["env"]["BERTH_SESSION"], inner.as_str());
    assert_eq!(report["env"]["BERTH_RUN"], format!("{inner}:1"));
    // Otherwise a command that clears up after the outer keeper would take the inner keeper for a leftover.
    let keeper = lab.number("inner", "keeper_pid");
    let environment = fs::read(format!("/proc/{keeper}/environ")).expect("it runs");
    assert!(!String::from_utf8_lossy(&environment).contains(&outer), "the keeper carries the outer mark");
    lab.ok(["stop", "inner"]);
    assert_eq!(lab.show(&outer)["state"], "running", "ending the inner one leaves the outer alone");
}

#[test]
fn f6_a_hundred_writers_at_once_lose_no_record() {
    let lab = lab();
    let agent = lab.agent();
    let spawn = |args: &[&str]| {
        lab.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth")
    };
    let finish = |children: Vec<std::process::Child>| -> Vec<String> {
        let said = children.into_iter().map(|child| said(child.wait_with_output().expect("it ends")));
        said.inspect(|said| assert_eq!(said.code, 0, "{said:?}")).map(|said| said.out).collect()
    };
    let names: Vec<String> = (0..100).map(|n| format!("n{n}")).collect();
    let ids = finish(
        names.iter().map(|name| spawn(&["run", "-d", "--name", name, "--", &agent, "exit:0"])).collect(),
    );
    let renamed: Vec<String> = names.iter().map(|name| format!("{name}-renamed")).collect();
    finish(names.iter().zip(&renamed).map(|(old, new)| spawn(&["rename", old, new])).collect());
    let listed = lab.json(["ls", "--all", "--json"]);
    let listed: BTreeMap<_, _> = listed
        .as_array()
        .expect("an array")
        .iter()
        .map(|status| (status["name"].as_str(), status["id"].as_str()))
        .collect();
    assert_eq!(listed.len(), 100);
    for (name, id) in renamed.iter().zip(&ids) {
        assert_eq!(listed.get(&Some(name)), Some(&Some(id.trim())));
    }
    assert_eq!(fs::read_dir(lab.home().join("names")).expect("a directory").count(), 100, "no stray pointer");
}

#[test]
fn f8_a_busy_session_has_a_bounded_number_of_files_and_no_leftovers() {
    let lab = lab();
    let id = lab.start(&["raw", "say:ready", "echo"]);
    lab.wait_output(&id, "ready");
    let names = || -> Vec<_> {
        let dir = lab.session_dir(&id);
        tree(&dir)
            .into_keys()
            .map(|path| path.strip_prefix(&dir).expect("inside").display().to_string())
            // A snapshot exists once enough has happened.
            .filter(|name| name != "snapshot")
            .collect()
    };
    let few = names();
    for round in 0..60 {
        lab.ok(["input", &id, "text "]);
        if round % 10 == 0 {
            let mut terminal = lab.terminal(["attach", &id]);
            terminal.wait_for("ready");
            terminal.type_keys("\x1c");
            assert_eq!(terminal.wait_exit(), 0);
        }
    }
    assert_eq!(names(), few, "as many as before");
    lab.ok(["stop", &id]);
    for _ in 0..3 {
        lab.ok(["resume", "-d", &id]);
        lab.ok(["stop", &id]);
    }
    // A keeper writes its last words after its last answer.
    wait_until("the keeper to leave", || lab.processes().is_empty());
    let stray: Vec<_> =
        names().into_iter().filter(|name| name.contains("tmp") || name.contains(".new")).collect();
    assert_eq!(stray, Vec::<String>::new());
    // Each run has a journal segment, an output file and its index; the last one leaves a screen.
    assert!(names().len() <= few.len() + 3 * 3 + 1, "{:?}", names());
}

#[test]
fn h5_the_last_activity_survives_the_death_of_the_keeper() {
    let lab = lab();
    let id = lab.start(&["say:busy", "hang"]);
    lab.wait_output(&id, "busy");
    lab.kill_keeper(&id);
    // As if the agent had gone on for an hour: its output is the only trace of that.
    let later = SystemTime::now() + Duration::from_secs(3600);
    let output = fs::read_dir(lab.session_dir(&id).join("output")).expect("a directory");
    let mut files = output.map(|entry| entry.expect("an entry").path());
    let file = files.find(|path| path.extension().is_some_and(|kind| kind == "out")).expect("an output file");
    fs::File::options()
        .append(true)
        .open(file)
        .and_then(|file| file.set_modified(later))
        .expect("a new time");
    fs::remove_file(lab.session_dir(&id).join("status.json")).expect("the status cache");
    let later = later.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let expected = serde_json::to_value(berth_api::Timestamp(later)).expect("a time");
    assert_eq!(lab.show(&id)["last_activity_at"], expected);
    assert_eq!(lab.json(["ls", "--json"])[0]["last_activity_at"], expected);
}

/// The number of journal files follows from the size of a journal, not from the number of its runs.
#[test]
fn session_with_many_runs_has_one_small_journal_file() {
    let lab = lab();
    let id = lab.start(&["exit:0"]);
    for run in 1..=12 {
        berth_harness::wait_until("its keeper to leave", || lab.processes().is_empty());
        assert_eq!(lab.events(&id, "run_ended").len(), run);
        if run % 4 == 0 {
            lab.ok(["tag", &id, &format!("run-{run}")]);
        }
        lab.ok(["resume", "-d", &id]);
    }
    berth_harness::wait_until("its keeper to leave", || lab.processes().is_empty());
    let files = fs::read_dir(lab.session_dir(&id).join("journal")).expect("a journal");
    let names: Vec<_> = files.map(|file| file.expect("a file").file_name()).collect();
    assert_eq!(names, ["00000000000000000001.log"]);
}
