//! Agents that are not there, not logged in, mute or mad; prompts that are empty, huge or not text. Each problem is
//! reported, and the session is intact.

use std::io::Write;

use berth_harness::{CommandOutput, TestEnvironment, said, wait_until};

use crate::turns::{did, gate, lab, mark, open, spawned, start, states, text, turns, wait_mark};

/// Asserts that the command says what is wrong and what to do, and that no agent runs.
fn refused(lab: &TestEnvironment, told: &CommandOutput, words: &[&str]) {
    assert!(told.code != 0 && told.out.is_empty(), "{told:?}");
    for word in words {
        assert!(told.err.contains(word), "`{word}` is missing: {told:?}");
    }
    wait_until("nothing of it to be left", || lab.processes().is_empty());
}

#[test]
fn an_agent_that_is_not_installed_is_named_with_the_command_that_installs_it() {
    let lab = lab();
    let known = std::fs::read_to_string(lab.config()).expect("a config file");
    let more = "[agents.absent]\ndriver = \"acp\"\ncommand = [\"no-such-agent-anywhere\"]\ninstall = \"npm install it\"\n";
    std::fs::write(lab.config(), known + more).expect("a config file");
    let told = lab.berth(["run", "-d", "--agent", "absent"]);
    refused(&lab, &told, &["no-such-agent-anywhere", "npm install it"]);
    let told = lab.berth(["run", "-d", "--agent", "fak"]);
    refused(&lab, &told, &["fak", "hint:"]);
    assert_eq!(lab.ok(["ls", "--all", "--json"]), "[]");
}

#[test]
fn an_agent_that_is_not_logged_in_or_refuses_its_flags_says_so() {
    let lab = lab();
    lab.add_agent("stranger", &["--not-logged-in"]);
    lab.add_agent("picky", &["--no-such-flag"]);
    let told = lab.berth(["run", "-d", "--agent", "stranger"]);
    refused(&lab, &told, &["not logged in", "hint:"]);
    let told = lab.berth(["run", "--agent", "stranger", "--prompt", "hello"]);
    refused(&lab, &told, &["not logged in"]);
    let told = lab.berth(["run", "-d", "--agent", "picky"]);
    refused(&lab, &told, &["exit 2", "--no-such-flag", "hint:"]);
    // The agent itself refuses options from the command line.
    let told = lab.berth(["run", "-d", "--agent", "fake", "--", "--nor-this"]);
    refused(&lab, &told, &["--nor-this"]);
}

/// The agent is mended while a turn waits: then it runs.
#[test]
fn a_turn_for_an_agent_that_cannot_be_used_waits_until_it_can() {
    let lab = lab();
    let program = lab.dir().join("agent");
    let script = |flags: &str| {
        let text = format!("#!/bin/sh\nexec {} acp --store {} {flags}\n", lab.agent(), lab.store().display());
        // Replaced by a rename: a script that is being executed must not be written over.
        let new = lab.dir().join("new");
        std::fs::write(&new, text).expect("a script");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&new, mode).expect("our own file");
        std::fs::rename(&new, &program).expect("our own file");
    };
    script("");
    let known = std::fs::read_to_string(lab.config()).expect("a config file");
    let more = format!("[agents.moody]\ndriver = \"acp\"\ncommand = [{:?}]\n", program.display().to_string());
    std::fs::write(lab.config(), known + &more).expect("a config file");
    let id = lab.ok(["run", "-d", "--agent", "moody", "--name", "s", "--prompt", "hello"]);
    lab.ok(["wait", "s", "--timeout", "60s"]);
    lab.ok(["stop", "--grace", "0s", "s"]);
    script("--not-logged-in");
    let sent = lab.berth(["send", "--wait", "s", "more"]);
    assert!(sent.code != 0 && sent.err.contains("not logged in"), "{sent:?}");
    let waiting = states(&lab, "s").len() == 2;
    script("");
    if waiting {
        lab.ok(["resume", "-d", "s"]);
        assert_eq!(lab.berth(["wait", "s.2", "--timeout", "60s"]).code, 0);
    }
    assert_eq!(lab.ok(["send", "--wait", "s", "and on"]), "ECHO: and on");
    assert_eq!(did(&lab, &id).len(), if waiting { 3 } else { 2 });
}

#[test]
fn an_agent_that_never_answers_is_given_up_on() {
    let lab = lab();
    lab.add_agent("mute", &["--never-init"]);
    let mut run = lab.command(["run", "-d", "--agent", "mute"]);
    let told = said(run.env("BERTH_READY_MS", "300").output().expect("berth starts"));
    refused(&lab, &told, &["did not get ready", "hint:"]);
}

#[test]
fn an_agent_that_prints_garbage_is_understood_where_it_makes_sense() {
    let lab = lab();
    let id = start(&lab, &[]);
    assert_eq!(lab.ok(["send", "--wait", &id, "garbage\nhello"]), "ECHO: hello");
    // A line that is longer than any we read: kept in the output, and not understood.
    let long = lab.berth(["send", "--wait", &id, "garbage:20000000\nstill here"]);
    assert_eq!((long.code, long.out.as_str()), (0, "ECHO: still here\n"), "{long:?}");
    assert_eq!(states(&lab, &id), ["done", "done"]);
    assert!(lab.number(&id, "output_bytes") > 20_000_000);
    assert_eq!(lab.ok(["send", "--wait", &id, "and on"]), "ECHO: and on");
}

#[test]
fn an_agent_that_closes_its_output_and_lives_on_is_ended() {
    let lab = lab();
    let (_, wait) = gate(&lab, "never");
    let id = start(&lab, &[]);
    let agent = lab.process(&id, "pid");
    let told = lab.berth(["send", "--wait", &id, &format!("say:half\nclose {wait}")]);
    assert!([1, 9].contains(&told.code), "{told:?}");
    assert!(told.err.contains("closed its input or its output"), "{told:?}");
    assert!(matches!(agent.check(), berth_host::identity::ProcessLiveness::Gone));
    assert_eq!(lab.ok(["send", "--wait", &id, "next"]), "ECHO: next");
    assert_eq!(did(&lab, &id).len(), 2);
}

/// 50 MB of answer: the beginning is kept, the rest is in the output; a follower gets the part it can take.
#[test]
fn an_agent_that_floods_costs_a_bounded_answer_and_no_more() {
    let lab = lab();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &[]);
    lab.ok(["send", &id, &format!("{touch} flood:50M {wait} say:end")]);
    wait_mark(&begun);
    open(&go);
    assert_eq!(lab.berth(["wait", &format!("{id}.1"), "--timeout", "60s"]).code, 0);
    let turn = crate::turns::turn(&lab, &id, 1);
    assert_eq!((text(&turn, "state"), &turn["cut"]), ("done".into(), &true.into()));
    assert!(text(&turn, "answer").len() <= 4 << 20, "{}", text(&turn, "answer").len());
    assert!(lab.number(&id, "output_bytes") > 50_000_000);
    // The keeper is as small as before.
    let keeper = lab.number(&id, "keeper_pid");
    let status = std::fs::read_to_string(format!("/proc/{keeper}/status")).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    assert!(peak_kib < 64 * 1024, "{peak_kib} KiB");
    assert_eq!(lab.ok(["send", "--wait", &id, "next"]), "ECHO: next");
}

fn piped(lab: &TestEnvironment, id: &str, bytes: &[u8]) -> CommandOutput {
    let mut child = spawned(lab.command(["send", "--wait", id, "-"]).stdin(std::process::Stdio::piped()));
    // A command that has read enough closes its end.
    let _ = child.stdin.take().expect("a pipe").write_all(bytes);
    crate::turns::finish(child)
}

#[test]
fn a_prompt_that_is_empty_too_long_or_no_text_is_refused_and_nothing_is_stored() {
    const MOST: usize = 1 << 20;
    let lab = lab();
    let id = start(&lab, &[]);
    let before = lab.log(&id).len();
    for prompt in ["", " ", "\n\t "] {
        let told = lab.berth(["send", &id, prompt]);
        assert!(told.code != 0 && told.out.is_empty() && told.err.contains("empty"), "{prompt:?}: {told:?}");
        let told = piped(&lab, &id, prompt.as_bytes());
        assert!(told.code != 0 && told.err.contains("empty"), "{prompt:?}: {told:?}");
    }
    let told = piped(&lab, &id, &vec![b'x'; MOST + 1]);
    assert!(told.code == 2 && told.err.contains(&MOST.to_string()), "{}", told.err);
    let told = piped(&lab, &id, b"half \xc3");
    assert!(told.code == 2 && told.err.contains("UTF-8"), "{told:?}");
    use std::os::unix::ffi::OsStrExt;
    let args = [b"send".as_slice(), id.as_bytes(), b"half \xc3"].map(std::ffi::OsStr::from_bytes);
    let told = lab.berth(args);
    assert!(told.code == 2 && told.out.is_empty(), "{told:?}");
    let long_key = "k".repeat(257);
    let told = lab.berth(["send", "--key", &long_key, &id, "hello"]);
    assert!(told.code != 0 && told.err.contains("256"), "{told:?}");
    assert!(lab.berth(["send", "--key", "", &id, "hello"]).code != 0);
    assert_eq!((lab.log(&id).len(), turns(&lab, &id).len()), (before, 0), "nothing is stored");
    // Without a keeper the refusal is the same, and no keeper is started for it.
    lab.ok(["stop", "--grace", "0s", &id]);
    assert!(lab.berth(["send", &id, " "]).code != 0);
    assert_eq!(lab.show(&id)["state"], "stopped");
    // The longest prompt there may be is said, whole.
    let longest = piped(&lab, &id, &vec![b'x'; MOST]);
    assert_eq!((longest.code, longest.out.len()), (0, "ECHO: ".len() + MOST + 1), "{}", longest.err);
    assert_eq!(turns(&lab, &id).len(), 1);
}

#[test]
fn unknown_sessions_and_turns_are_not_found() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    for args in [
        &["send", "nobody", "hello"][..],
        &["turns", "nobody"],
        &["turn", "s.1"],
        &["result", "s.1"],
        &["cancel", "s.1"],
        &["wait", "s.1"],
        &["wait", "s", "--for", "done"],
        &["queue", "nobody"],
        &["answer", "s", "allow"],
        &["fork", "nobody"],
        &["turn", "nobody.1"],
        &["turn", "s"],
        &["turn", "s.0"],
        &["cancel", "s.x"],
    ] {
        let told = lab.berth(args);
        assert_eq!((told.code, told.out.as_str()), (3, ""), "{args:?}: {told:?}");
    }
    for args in [&["result", "1"][..], &["--session", "s", "turn", "x"], &["--session", "s", "result", "x.y"]]
    {
        let told = lab.berth(args);
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{args:?}: {told:?}");
    }
    assert!(turns(&lab, &id).is_empty());
}
