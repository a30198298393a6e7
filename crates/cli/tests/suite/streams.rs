//! Standard input and output in every bad state: closed, silent for ever, full, or without a reader.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use berth_harness::{CommandOutput, TestEnvironment, said, wait_until};

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// Runs a command to its end with a pipe on standard input that stays open and never says anything.
fn with_silent_stdin(lab: &TestEnvironment, args: &[&str]) -> CommandOutput {
    let mut command = lab.command(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("berth can be started");
    let held = child.stdin.take();
    wait_until(&format!("the end of {args:?}"), || child.try_wait().expect("our own child").is_some());
    drop(held);
    said(child.wait_with_output().expect("our own child"))
}

/// Runs a command with one of its streams redirected as a shell does it.
fn redirected(lab: &TestEnvironment, redirection: &str, args: &[&str]) -> CommandOutput {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$@\" {redirection}"), "sh", env!("CARGO_BIN_EXE_berth")]).args(args);
    shell.env("BERTH_HOME", lab.home()).env("BERTH_CONFIG", lab.config()).env_remove("BERTH_SESSION");
    said(shell.stdin(Stdio::null()).output().expect("a shell"))
}

/// Runs a command whose standard output is a pipe without a reader.
fn without_reader(lab: &TestEnvironment, args: &[&str]) -> CommandOutput {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    said(lab.command(args).stdout(Stdio::from(OwnedFd::from(writer))).output().expect("berth can be started"))
}

/// One of each command, in an order in which each has what it needs, with the code it ends with.
fn every_command(lab: &TestEnvironment, how: impl Fn(&[&str]) -> CommandOutput) {
    let agent = lab.agent();
    let check = |code: i32, args: &[&str]| {
        let said = how(args);
        assert_eq!(said.code, code, "{args:?}: {said:?}");
        assert!(!said.err.contains("panicked"), "{args:?}: {said:?}");
    };
    check(0, &[]);
    check(0, &["--help"]);
    check(0, &["run", "-d", "--name", "live", "--", &agent, "say:hello", "hang"]);
    check(5, &["run", "--", &agent, "say:hello", "exit:5"]);
    check(0, &["wait", "live", "--for", "output:hello"]);
    check(0, &["ls", "--all"]);
    check(0, &["ls", "--json"]);
    check(0, &["show", "live"]);
    check(0, &["show", "live", "--json"]);
    check(0, &["why", "live"]);
    check(2, &["attach", "live"]);
    check(0, &["input", "live", "--enter", "text"]);
    check(0, &["screen", "live"]);
    check(0, &["output", "live"]);
    check(0, &["log", "live"]);
    check(0, &["log", "live", "--json"]);
    check(6, &["wait", "live", "--timeout", "10ms"]);
    check(0, &["rename", "live", "other"]);
    check(4, &["resume", "other"]);
    check(0, &["stop", "other"]);
    check(143, &["wait", "other"]);
    check(0, &["output", "other", "--follow"]);
    check(0, &["log", "other", "--follow"]);
    check(0, &["resume", "-d", "other"]);
    check(0, &["stop", "other", "--json"]);
    check(3, &["show", "no-such"]);
}

#[test]
fn a5_no_command_waits_for_a_standard_input_that_never_ends() {
    let lab = lab();
    every_command(&lab, |args| with_silent_stdin(&lab, args));
}

#[test]
fn a5_no_command_minds_a_closed_standard_input() {
    let lab = lab();
    every_command(&lab, |args| redirected(&lab, "<&-", args));
    let id = lab.start(&["hang"]);
    let typed = redirected(&lab, "<&-", &["input", &id, "-"]);
    assert_eq!(typed.code, 0, "nothing to type is typed: {typed:?}");
}

#[test]
fn a5_the_demo_asks_nothing() {
    let lab = lab();
    let said = with_silent_stdin(&lab, &["demo"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!said.err.contains("panicked"), "{said:?}");
    let wide: Vec<&str> = said.out.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(wide, [""; 0], "it is readable in 80 columns");
    assert!(said.out.contains("Going on.") && said.out.contains("to 8 are fixed now."), "{}", said.out);
    // The agent takes the time it announces, also on a machine that has other things to do.
    assert!(said.out.contains("about ten seconds"), "{}", said.out);
}

fn demo_dir(lab: &TestEnvironment) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(lab.dir()).expect("a directory").flatten();
    entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("berth-demo-")))
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    use std::io::{BufRead, BufReader};
    let lab = lab();
    for (signal, code) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)] {
        let mut command = lab.command(["demo"]);
        let mut demo =
            command.env("TMPDIR", lab.dir()).stdout(Stdio::piped()).spawn().expect("berth can be started");
        let mut lines = BufReader::new(demo.stdout.take().expect("a pipe")).lines();
        let second = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("2. ")));
        assert!(second.is_some(), "both agents run");
        let home = demo_dir(&lab).expect("the demo has a directory");
        let name = home.file_name().expect("a name").to_string_lossy().into_owned();
        let suffix = name.strip_prefix(&format!("berth-demo-{}-", demo.id()));
        assert_eq!(suffix.map(str::len), Some(16), "the name cannot be guessed: {name}");
        let mode = std::os::unix::fs::MetadataExt::mode(&home.metadata().expect("it is there"));
        assert_eq!(mode & 0o777, 0o700, "{name}");
        let identity = berth_host::identity::ProcessIdentity::of(demo.id()).expect("our own child");
        berth_harness::signal(&identity, signal);
        assert!(!lines.any(|line| line.is_ok_and(|line| line.starts_with("4. "))), "it went on");
        assert_eq!(berth_harness::wait_child(demo), code);
        assert!(!home.exists());
        let state = home.join("state").display().to_string();
        let left = || berth_host::process_tree::processes_with_variable("BERTH_HOME", &state);
        wait_until("the keepers' end", || left().expect("/proc").processes.is_empty());
    }
}

#[test]
fn a_closed_standard_error_causes_no_panic_and_changes_no_exit_code() {
    for redirection in ["2>&-", "<&- 2>&-", "2>/dev/full", ">/dev/null 2>&-"] {
        let lab = lab();
        every_command(&lab, |args| redirected(&lab, redirection, args));
    }
}

/// A `/dev/null` of the caller's own is a success, also one that is open for reading and writing, as Python and Node open
/// it, and as Rust's runtime opens it in place of a closed standard output.
#[test]
fn a_standard_output_that_is_dev_null_changes_no_exit_code() {
    let lab = lab();
    every_command(&lab, |args| redirected(&lab, "1<>/dev/null", args));
}

/// Redirections with which no output arrives.
const UNHEARD: [&str; 4] = [">&-", "<&- >&-", ">/dev/full", "1</dev/null"];

#[test]
fn output_that_cannot_be_printed_is_a_failure_with_a_sentence() {
    let lab = lab();
    let agent = lab.agent();
    let id = lab.start(&["say:hello", "hang"]);
    lab.wait_output(&id, "hello");
    let printing: [&[&str]; 10] = [
        &["--help"],
        &["ls"],
        &["ls", "--json"],
        &["show", &id],
        &["why", &id],
        &["screen", &id],
        &["output", &id],
        &["log", &id],
        &["log", &id, "--json"],
        &["run", "--", &agent, "say:hello"],
    ];
    for (args, redirection) in printing.iter().flat_map(|args| UNHEARD.map(|way| (*args, way))) {
        let said = redirected(&lab, redirection, args);
        assert_eq!(said.code, 1, "{args:?} {redirection}: {said:?}");
        assert!(!said.err.contains("panicked"), "{args:?} {redirection}: {said:?}");
        assert!(
            args == ["--help"] || said.err.contains("standard output"),
            "{args:?} {redirection}: {said:?}"
        );
    }
    assert_eq!(lab.show(&id)["state"], "running");
    for args in [&["rename", &id, "other"][..], &["stop", "other"]] {
        let said = redirected(&lab, ">&-", args);
        assert_eq!(said.code, 0, "a command that prints nothing misses nothing: {args:?}: {said:?}");
    }
}

#[test]
fn a_session_whose_id_could_not_be_printed_is_named_in_the_error() {
    for redirection in UNHEARD {
        let lab = lab();
        for args in [&["run", "-d", "--key", "k"][..], &["run", "-d", "--json", "--key", "k"]] {
            let said = redirected(&lab, redirection, &[args, &["--", &lab.agent(), "hang"]].concat());
            assert_eq!(said.code, 1, "{redirection}: {said:?}");
            let listed = lab.json(["ls", "--json"]);
            let id = listed[0]["id"].as_str().expect("it runs");
            assert!(said.err.contains(id), "{redirection}: {said:?}");
        }
    }
}

#[test]
fn a_turn_whose_receipt_could_not_be_printed_is_named_in_the_error_with_its_key() {
    let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
    let id = lab.ok(["run", "-d", "--agent", "fake"]);
    let mut number = 0;
    for redirection in UNHEARD {
        for more in [&[][..], &["--json"], &["--wait"], &["--wait", "--json"], &["--wait", "--quiet"]] {
            number += 1;
            let key = format!("k{number}");
            let said =
                redirected(&lab, redirection, &[&["send", &id, "--key", &key, "hello"], more].concat());
            assert_eq!(said.code, 1, "{redirection} {more:?}: {said:?}");
            let named = format!("turn {id}.{number} of session {id} is accepted, with the key `{key}`");
            assert!(said.err.contains(&named), "{redirection} {more:?}: {said:?}");
        }
        let said = redirected(&lab, redirection, &["run", "-d", "--agent", "fake", "--prompt", "hello"]);
        assert!(said.code == 1 && said.err.contains(".1 of session "), "{redirection}: {said:?}");
    }
    assert_eq!(lab.ok(["wait", &format!("{id}.{number}")]), "");
    let turns = lab.json(["turns", &id, "--json"]);
    assert_eq!(turns.as_array().map(Vec::len), Some(number), "each was accepted once: {turns}");
}

#[test]
fn a_token_or_a_link_that_could_not_be_printed_is_taken_back() {
    let lab = lab();
    let token = ["token", "new", "--scope", "read", "--name", "unseen"];
    let link = ["link", "--base", "http://127.0.0.1:1"];
    for (args, more) in
        [&token[..], &link].into_iter().flat_map(|args| [(args, &[][..]), (args, &["--json"])])
    {
        let args = [args, more].concat();
        for redirection in UNHEARD {
            let said = redirected(&lab, redirection, &args);
            assert_eq!(said.code, 1, "{args:?} {redirection}: {said:?}");
            assert!(said.err.contains("was revoked"), "{args:?} {redirection}: {said:?}");
        }
        assert_eq!(without_reader(&lab, &args).code, 128 + 13, "{args:?}");
        assert_eq!(lab.json(["token", "ls", "--json"]), serde_json::json!([]), "{args:?}");
    }
    let audit = lab.ok(["audit", "--json"]);
    let count = |event: &str| audit.lines().filter(|line| line.contains(&format!("\"{event}\""))).count();
    assert_eq!(count("token-made"), count("token-revoked"), "{audit}");
    assert!(!lab.ok(token).is_empty(), "its name is free");
}

#[test]
fn a_gateway_whose_address_no_program_could_read_ends_with_a_failure() {
    for redirection in UNHEARD {
        let lab = lab();
        let said = redirected(&lab, redirection, &["serve", "--json"]);
        assert_eq!(said.code, 1, "{redirection}: {said:?}");
        assert!(said.err.contains("standard output"), "{redirection}: {said:?}");
        assert!(!lab.home().join("gateway.sock").exists(), "{redirection}");
    }
}

#[test]
fn a_reader_that_went_away_ends_the_command_as_it_ends_any_filter() {
    let lab = lab();
    let id = lab.start(&["say:hello", "hang"]);
    lab.wait_output(&id, "hello");
    for args in [&["ls"][..], &["show", &id], &["output", &id], &["log", &id], &["log", &id, "--follow"]] {
        let said = without_reader(&lab, args);
        assert_eq!((said.code, said.err.as_str()), (128 + 13, ""), "{args:?}");
    }
    let said = without_reader(&lab, &["run", "--name", "streamed", "--", &lab.agent(), "say:hello", "hang"]);
    assert_eq!(said.code, 128 + 13, "{said:?}");
    assert_eq!(lab.show("streamed")["state"], "running", "losing a reader changes no run");
}

#[test]
fn killing_a_foreground_run_off_a_terminal_kills_no_session() {
    let lab = lab();
    let file = File::create(lab.dir().join("out")).expect("a file");
    let mut command = lab.command(["run", "--name", "goes-on", "--", &lab.agent(), "say:up", "hang"]);
    let mut client = command.stdout(file).spawn().expect("berth");
    wait_until("its output", || std::fs::read(lab.dir().join("out")).is_ok_and(|bytes| bytes == b"up"));
    client.kill().expect("our own child");
    client.wait().expect("our own child");
    assert_eq!(lab.show("goes-on")["state"], "running");
}

#[test]
fn text_from_standard_input_is_typed_whole_or_not_at_all() {
    let lab = lab();
    let id = lab.start(&["raw", "say:ready", "echo:END"]);
    lab.wait_output(&id, "ready");
    let from_file = |bytes: &[u8]| {
        let path = lab.dir().join("typed");
        std::fs::write(&path, bytes).expect("a file");
        said(
            lab.command(["input", &id, "-"])
                .stdin(File::open(path).expect("a file"))
                .output()
                .expect("berth"),
        )
    };
    let too_much = from_file(&vec![b'x'; 128 * 1024 + 1]);
    assert_eq!(too_much.code, 1, "{too_much:?}");
    assert!(too_much.err.contains("nothing was"), "{too_much:?}");
    let no_text = from_file(b"\xff\xfe");
    assert_eq!(no_text.code, 1, "{no_text:?}");
    assert!(no_text.err.contains("nothing was typed"), "{no_text:?}");
    assert_eq!(from_file("grüße END".as_bytes()).code, 0);
    assert_eq!(lab.berth(["wait", &id]).code, 0);
    assert_eq!(lab.ok(["output", &id]), "readygrüße END");
}
