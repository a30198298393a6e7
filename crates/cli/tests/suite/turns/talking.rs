//! Talking at a terminal: `berth attach` for an agent that takes turns.

use berth_harness::{TestEnvironment, TestTerminal, signal, wait_gone, wait_until};
use rustix::process::Signal;

use crate::turns::{did, gate, lab, mark, open, prompts, start, states, text, turn, wait_mark};

/// The last line when the user may type: the prompt, and nothing behind it.
const PROMPT: &str = "> ";

/// A terminal that talks to session `s`.
fn talk(lab: &TestEnvironment) -> TestTerminal {
    let mut terminal = lab.terminal(["attach", "s"]);
    terminal.wait_for("Ctrl-D leaves it running");
    terminal
}

/// Waits until the last line on the screen is this one.
fn wait_last(terminal: &mut TestTerminal, line: &str) {
    terminal.wait_until(line, |terminal| {
        terminal.text().lines().last().is_some_and(|last| last == line.trim_end())
    });
}

#[test]
fn a_paste_of_many_lines_is_one_turn_to_the_byte() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let mut terminal = talk(&lab);
    assert!(String::from_utf8_lossy(&terminal.raw).contains("\x1b[?2004h"), "bracketed paste is asked for");
    let lines: Vec<String> = (1..=10_000).map(|n| format!("line {n}: 漢字 \"quoted\" é")).collect();
    terminal.type_keys(&format!("look: \x1b[200~{}\x1b[201~", lines.join("\r")));
    terminal.wait_for("> look: [pasted 10000 lines]");
    assert!(states(&lab, "s").is_empty(), "nothing is sent without Enter");
    terminal.type_keys(" ok\r");
    terminal.wait_for("[9997 more lines]");
    wait_until("the turn", || states(&lab, "s") == ["done"]);
    assert_eq!(text(&turn(&lab, &id, 1), "prompt"), format!("look: {} ok", lines.join("\n")));
    // A message of several typed lines is one turn.
    terminal.type_keys("one\x1b\rtwo\\\rthree\r");
    terminal.wait_for("ECHO: one\ntwo\nthree");
    assert_eq!(text(&turn(&lab, &id, 2), "prompt"), "one\ntwo\nthree");
    terminal.type_keys("\x04");
    assert_eq!(terminal.wait_exit(), 0);
    assert!(terminal.text().contains("come back with `berth attach s`"), "{}", terminal.text());
}

#[test]
fn keepers_that_leave_while_a_user_talks_are_not_left_as_zombies() {
    let lab = lab();
    let id = start(&lab, &["--name", "s", "--idle", "50ms"]);
    let gone = || wait_until("its keeper to leave", || !lab.session_dir(&id).join("sock").exists());
    let mut terminal = talk(&lab);
    for turn in ["one", "two"] {
        // Brought back by the user who talks, and released again.
        gone();
        terminal.type_keys(&format!("{turn}\r"));
        terminal.wait_for(&format!("ECHO: {turn}"));
    }
    gone();
    let talker = terminal.identity().pid;
    let children = || {
        let all = berth_host::process::all_processes().expect("/proc can be read");
        all.into_iter()
            .filter(|stat| stat.ppid == talker)
            .map(|stat| (stat.pid, stat.state))
            .collect::<Vec<_>>()
    };
    wait_until("no child to be left below it", || children().is_empty());
    terminal.type_keys("\x04");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn messages_sent_while_a_turn_runs_wait_and_the_prompt_shows_how_many() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let (go, wait) = gate(&lab, "go");
    let mut terminal = talk(&lab);
    let first = format!("say:half of\n{wait} first");
    terminal.type_keys(&format!("{}\r", first.replace('\n', "\x1b\r")));
    terminal.wait_for("half of");
    terminal.type_keys("second 漢字\r");
    wait_last(&mut terminal, "1 queued > ");
    // The chat counts a message before the keeper has it.
    wait_until("the keeper to have the second", || lab.ok(["queue", "s"]).contains("second"));
    lab.ok(["send", "s", "third, of another client"]);
    wait_last(&mut terminal, "2 queued > ");
    assert!(terminal.text().contains("queued: second 漢字"), "{}", terminal.text());
    terminal.type_keys("a draft");
    wait_last(&mut terminal, "2 queued > a draft");
    open(&go);
    let told = "half ofECHO: first\n> second 漢字\nECHO: second 漢字\n> third, of another client\n\
                ECHO: third, of another client\n> a draft";
    terminal.wait_until("all turns", |terminal| terminal.text().ends_with(told));
    assert_eq!(prompts(&did(&lab, &id)), [first.as_str(), "second 漢字", "third, of another client"]);
    // An earlier message comes back with the key Up, and the draft with Down.
    terminal.type_keys("\x1b[A");
    wait_last(&mut terminal, "> second 漢字");
    terminal.type_keys("\x1b[B");
    wait_last(&mut terminal, "> a draft");
}

#[test]
fn a_question_is_answered_with_a_key_once_it_could_be_read() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let mut terminal = talk(&lab);
    let command = format!("rm -rf {} # the end", "x".repeat(300));
    for (key, option) in [("y", "allow-once"), ("2", "allow-always"), ("n", "reject")] {
        let before = lab.events(&id, "answered").len();
        terminal.type_keys(&format!("ask:Bash:{command}\r"));
        terminal.wait_for("answer with [y/1] allow-once  [2] allow-always  [n/3] reject");
        let shown = terminal.text().replace('\n', "");
        assert!(shown.contains(&command), "the command in full: {shown}");
        terminal.type_keys(key);
        terminal.wait_for(&format!("[answered: {option}]\nBash: {option}"));
        assert_eq!(lab.events(&id, "answered").len(), before + 1);
        terminal.type_keys("\x0c");
        wait_last(&mut terminal, PROMPT);
    }
    // A user who is typing when the question comes types on.
    let (go, wait) = gate(&lab, "go");
    terminal.type_keys(&format!("{wait} ask:Bash:ls\r"));
    terminal.wait_for("waiting");
    terminal.type_keys("wh");
    wait_last(&mut terminal, "> wh");
    open(&go);
    terminal.wait_for("(on an empty line)");
    terminal.type_keys("y");
    wait_last(&mut terminal, "> why");
    assert_eq!(lab.events(&id, "answered").len(), 3);
    terminal.type_keys("\x15n");
    terminal.wait_for("Bash: reject");
}

#[test]
fn a_no_with_a_reason_is_written_in_the_chat_and_ctrl_c_goes_back_to_the_question() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let mut terminal = talk(&lab);
    terminal.type_keys("ask:Bash:rm -rf x\r");
    terminal.wait_for("Allow Bash?");
    terminal.wait_for("[t] tell it");
    terminal.type_keys("t");
    wait_last(&mut terminal, "? ");
    terminal.type_keys("no");
    wait_last(&mut terminal, "? no");
    terminal.type_keys("\x03");
    wait_last(&mut terminal, PROMPT);
    assert!(lab.events(&id, "answered").is_empty());
    terminal.type_keys("tuse mktemp instead\r");
    terminal.wait_for("[answered: reject: use mktemp instead]");
    assert_eq!(lab.events(&id, "answered")[0]["text"], "use mktemp instead");
    wait_until("the turn", || states(&lab, "s") == ["done"]);
}

#[test]
fn a_reason_whose_question_goes_away_is_not_sent_as_a_message_by_the_enter_that_was_meant_for_it() {
    let lab = lab();
    start(&lab, &["--name", "s"]);
    let mut terminal = talk(&lab);
    terminal.type_keys("ask:Bash:ls\r");
    terminal.wait_for("[t] tell it");
    terminal.type_keys("tuse mktemp");
    terminal.wait_for("? use mktemp");
    lab.ok(["answer", "s", "deny"]);
    terminal.wait_for("the question is no longer asked");
    terminal.type_keys("\r");
    terminal.wait_for("Enter sends this as a message");
    wait_last(&mut terminal, "> use mktemp");
    assert_eq!(states(&lab, "s").len(), 1);
    terminal.type_keys("\r");
    terminal.wait_for("ECHO: use mktemp");
    assert_eq!(states(&lab, "s").len(), 2);
}

#[test]
fn a_question_goes_away_when_another_client_answers_and_no_key_answers_it_then() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let mut terminal = talk(&lab);
    terminal.type_keys("ask:Bash:ls\r");
    terminal.wait_for("answer with [y/1]");
    lab.ok(["answer", "s", "deny"]);
    terminal.wait_for("Bash: reject");
    assert!(terminal.text().contains("[answered by a script on"), "{}", terminal.text());
    terminal.type_keys("y");
    wait_last(&mut terminal, "> y");
    assert_eq!(lab.events(&id, "answered").len(), 1);
    // A client that attaches while the agent asks gets the question as well.
    terminal.type_keys("\x03ask:Edit:file.txt\r");
    let mut second = talk(&lab);
    second.wait_for("answer with [y/1]");
    second.type_keys("y");
    second.wait_for("Edit: allow-once");
    terminal.wait_for("Edit: allow-once");
}

#[test]
fn ctrl_c_empties_the_line_then_cancels_the_turn_then_leaves() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let (_, wait) = gate(&lab, "never");
    let mut terminal = talk(&lab);
    terminal.type_keys(&format!("{wait} x\r"));
    terminal.wait_for("waiting");
    terminal.type_keys("half a thought");
    wait_last(&mut terminal, "> half a thought");
    terminal.type_keys("\x03");
    wait_last(&mut terminal, PROMPT);
    assert_eq!(states(&lab, "s"), ["delivered"], "the turn goes on");
    terminal.type_keys("\x03");
    terminal.wait_for("[turn s.1 cancelled");
    assert_eq!(states(&lab, "s"), ["cancelled"]);
    wait_last(&mut terminal, PROMPT);
    terminal.type_keys("\x03");
    terminal.wait_for("press Ctrl-C again to leave");
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait_exit(), 0);
    assert_eq!(lab.show(&id)["state"], "idle", "the session stays");
}

#[test]
fn a_shell_finds_its_terminal_as_it_was_whatever_ended_the_talk() {
    for (ending, code) in [("\x04", 0), ("\x1c", 0), ("TERM", 143), ("HUP", 129), ("INT", 130)] {
        let lab = lab();
        start(&lab, &["--name", "s"]);
        let (begun, touch) = mark(&lab, "begun");
        let (_, wait) = gate(&lab, "never");
        let script = format!(
            "stty rows 24 cols 80 -echo tostop intr ^G; cd {0}; stty -a >before; {1} attach s; echo it is over: $?; stty -a >after",
            lab.dir().display(),
            env!("CARGO_BIN_EXE_berth"),
        );
        let mut terminal = lab.terminal_running("/bin/sh".as_ref(), ["-c", &script]);
        terminal.wait_for("Ctrl-D leaves it running");
        terminal.type_keys(&format!("{touch} {wait} x\r"));
        wait_mark(&begun);
        let how = [("TERM", Signal::TERM), ("HUP", Signal::HUP), ("INT", Signal::INT)];
        match how.iter().find(|(name, _)| *name == ending) {
            Some((_, how)) => {
                let clients = lab.processes().into_iter();
                let client = clients.filter(|identity| {
                    let line = std::fs::read(format!("/proc/{}/cmdline", identity.pid)).unwrap_or_default();
                    line.ends_with(b"attach\0s\0") && !line.starts_with(b"/bin/sh")
                });
                client.for_each(|client| signal(&client, *how));
            }
            None => terminal.type_keys(ending),
        }
        terminal.wait_for(&format!("it is over: {code}"));
        assert_eq!(terminal.wait_exit(), 0);
        let [before, after] = ["before", "after"]
            .map(|name| std::fs::read_to_string(lab.dir().join(name)).expect("stty wrote"));
        assert_eq!(before, after, "after {ending:?}");
        let left_on = terminal.restore();
        let left_on = String::from_utf8_lossy(&left_on);
        assert!(!left_on.contains("\x1b[?2004h") && !left_on.contains("\x1b[?7l"), "{left_on:?}");
        assert_eq!(states(&lab, "s"), ["delivered"], "the turn goes on");
        lab.ok(["cancel", "s.1"]);
    }
}

#[test]
fn a_talk_that_is_suspended_gives_the_terminal_to_the_shell_and_comes_back() {
    let lab = lab();
    start(&lab, &["--name", "s"]);
    let script = format!(
        "set -m; {} attach s; stty -a >{}; echo the shell again; fg; echo it is over",
        env!("CARGO_BIN_EXE_berth"),
        lab.dir().join("between").display(),
    );
    let mut terminal = lab.terminal_running("/bin/bash".as_ref(), ["-c", &script]);
    terminal.wait_for("Ctrl-D leaves it running");
    terminal.type_keys("a draft");
    terminal.wait_for("> a draft");
    terminal.type_keys("\x1a");
    terminal.wait_for("the shell again");
    wait_last(&mut terminal, "> a draft");
    let between = std::fs::read_to_string(lab.dir().join("between")).expect("stty wrote");
    assert!(between.contains(" icanon") && between.contains(" echo "), "{between}");
    terminal.type_keys("!\r");
    terminal.wait_for("ECHO: a draft!");
    terminal.type_keys("\x04");
    terminal.wait_for("it is over");
}

#[test]
fn a_talk_goes_on_through_a_lost_and_a_replaced_keeper_and_tells_nothing_twice() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let mut terminal = talk(&lab);
    terminal.type_keys("one\r");
    terminal.wait_for("ECHO: one");
    let keeper = lab.process("s", "keeper_pid");
    lab.kill_keeper(&id);
    wait_gone(&keeper);
    // The next message brings the keeper back.
    terminal.type_keys("two\r");
    terminal.wait_for("ECHO: two");
    let (go, wait) = gate(&lab, "go");
    terminal.type_keys(&format!("say:half of it\\n\x1b\r{wait} rest\r"));
    terminal.wait_for("half of it");
    let mut connection =
        berth_api::KeeperConnection::open(&lab.session_dir(&id), "a test".to_owned()).expect("it listens");
    // The keeper answers, and runs another program afterwards.
    let answered = connection.ask(berth_api::message::KeeperRequest::Restart);
    assert!(answered.is_ok(), "{answered:?}");
    wait_until("the new program", || !lab.events(&id, "keeper_restarted").is_empty());
    open(&go);
    terminal.wait_for("ECHO: rest");
    wait_last(&mut terminal, PROMPT);
    let shown = terminal.text();
    for once in ["ECHO: one", "ECHO: two", "\nhalf of it", "ECHO: rest", "> one", "> two"] {
        assert_eq!(shown.matches(once).count(), 1, "{once:?} in:\n{shown}");
    }
}

#[test]
fn a_turn_whose_keeper_dies_is_told_to_be_unknown_and_the_talk_goes_on() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let (_, wait) = gate(&lab, "never");
    let (begun, touch) = mark(&lab, "begun");
    let mut terminal = talk(&lab);
    terminal.type_keys(&format!("{touch} {wait} x\r"));
    wait_mark(&begun);
    lab.kill_keeper(&id);
    terminal.wait_for("[turn s.1 unknown");
    wait_last(&mut terminal, PROMPT);
    assert_eq!(states(&lab, "s"), ["unknown"]);
    assert_eq!(lab.show("s")["keeper_pid"], serde_json::Value::Null, "nothing comes back without a request");
    lab.ok(["queue", "s", "resume"]);
    terminal.type_keys("again\r");
    terminal.wait_for("ECHO: again");
}

#[test]
fn a_talk_whose_terminal_vanishes_ends_and_changes_nothing() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let mut terminal = talk(&lab);
    terminal.type_keys(&format!("{touch} {wait} x\r"));
    wait_mark(&begun);
    let client = terminal.identity();
    terminal.close();
    wait_gone(&client);
    open(&go);
    lab.ok(["wait", "s.1", "--timeout", "60s"]);
    assert_eq!(states(&lab, &id), ["done"]);
}

#[test]
fn no_terminal_is_too_small_to_talk_in() {
    for (rows, cols) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 10), (2, 80), (24, 1)] {
        let lab = lab();
        start(&lab, &["--name", "s"]);
        let mut terminal = lab.terminal_of_size(["attach", "s"], rows, cols);
        terminal.wait_for_raw(b"\x1b[?2004h");
        terminal.type_keys("hello 漢字 there\r");
        wait_until("the turn", || states(&lab, "s") == ["done"]);
        terminal.resize(24, 80);
        terminal.type_keys("again");
        wait_last(&mut terminal, "> again");
        terminal.type_keys("\x03\x04");
        assert_eq!(terminal.wait_exit(), 0, "{rows}×{cols}");
    }
}

#[test]
fn a_terminal_that_can_only_print_lines_gets_lines_and_its_question_goes_away_when_another_client_answers() {
    for term in ["TERM=dumb", "-uTERM"] {
        let lab = lab();
        let id = start(&lab, &["--name", "s"]);
        let berth = env!("CARGO_BIN_EXE_berth");
        let mut terminal = lab.terminal_running("/usr/bin/env".as_ref(), [term, berth, "attach", "s"]);
        terminal.wait_for("each line is a turn");
        terminal.type_keys("hello\n");
        terminal.wait_for("ECHO: hello");
        terminal.type_keys("ask:Bash:ls\n");
        terminal.wait_for("answer (allow-once, allow-always, reject):");
        lab.ok(["answer", "s", "deny"]);
        terminal.wait_for("Bash: reject");
        assert!(terminal.text().contains("answered by a script on"), "{}", terminal.text());
        // A line that was typed before the question could be read answers nothing.
        terminal.type_keys("ask:Bash:ls\ny\n");
        terminal
            .wait_until("the second question", |terminal| terminal.text().matches("answer (").count() == 2);
        assert_eq!(lab.events(&id, "answered").len(), 1);
        terminal.type_keys("y\n");
        terminal.wait_for("Bash: allow-once");
        assert_eq!(lab.events(&id, "answered").len(), 2);
        terminal.type_keys("\x04");
        assert_eq!(terminal.wait_exit(), 0);
    }
}

#[test]
fn control_characters_of_an_answer_are_visible_in_text_and_exact_in_json() {
    let lab = lab();
    start(&lab, &["--name", "s"]);
    let evil = "hello \x1b[2Jworld\x07";
    let mut terminal = lab.terminal(["send", "--wait", "s", evil]);
    terminal.wait_for_raw("hello \u{241b}[2Jworld\u{2407}".as_bytes());
    assert_eq!(terminal.wait_exit(), 0);
    let mut terminal = lab.terminal(["result", "s.1"]);
    terminal.wait_for_raw("hello \u{241b}[2Jworld\u{2407}".as_bytes());
    assert_eq!(terminal.wait_exit(), 0);
    // A pipe often ends at a terminal.
    assert_eq!(lab.ok(["send", "--wait", "s", evil]), "ECHO: hello \u{241b}[2Jworld\u{2407}");
    assert_eq!(lab.ok(["result", "s.1"]), "ECHO: hello \u{241b}[2Jworld\u{2407}");
    assert_eq!(lab.json(["result", "--json", "s.1"])["answer"], format!("ECHO: {evil}"));
}
