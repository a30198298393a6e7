//! Attaching and leaving: the screen comes as it is, the terminal goes back as it was.

use berth_harness::{signal, wait_until};
use berth_screen::{ActiveScreen, reset_terminal};
use rustix::process::Signal;

use crate::terminal::{contains, lab, watched};

/// Everything a full-screen application sets, and a cursor in an odd place.
const FULL_SCREEN: &str = concat!(
    r"say:\e[?1049h\e[?2004h\e[?1002h\e[?1006h\e[?1004h\e[?1h\e[?25l\e[>1u",
    r"\e[2;10r\e[2J\e[3;5H\e[1;35mfull\e[0m \e[44mscreen\e[7;11H\e[4mx"
);

#[test]
fn ctrl_backslash_in_every_encoding_leaves_the_session_running_and_the_terminal_sane() {
    for key in ["\x1c", "\x1b[92;5u", "\x1b[27;5;92~"] {
        let lab = lab();
        let id = lab.start(&["expect", FULL_SCREEN, "hang"]);
        let mut terminal = lab.terminal(["attach", &id]);
        terminal.type_keys("\r");
        terminal.wait_for("full screen");
        terminal.type_keys(key);
        assert_eq!(terminal.wait_exit(), 0);
        assert!(
            contains(&terminal.raw, &reset_terminal(ActiveScreen::Alternate)),
            "{:?}",
            terminal.raw.escape_ascii().to_string()
        );
        let text = terminal.text();
        assert!(text.contains("[detached from") && text.contains("berth attach"), "{text}");
        let left_on = terminal.restore();
        for mode in [
            "\x1b[?1049h",
            "\x1b[?2004h",
            "\x1b[?1002h",
            "\x1b[?1006h",
            "\x1b[?1004h",
            "\x1b[?1h",
            "\x1b[?25l",
            "\x1b[>1u",
        ] {
            assert!(!contains(&left_on, mode.as_bytes()), "{:?} is still set", mode);
        }
        assert_eq!(lab.show(&id)["state"], "running");
        wait_until("the release", || lab.show(&id)["writer"].is_null());
    }
}

#[test]
fn a_shell_finds_its_terminal_as_it_was_whatever_ended_the_attachment() {
    for ending in ["detach", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "exit", "keeper killed", "refused"] {
        let lab = lab();
        let go = lab.dir().join("go");
        let wait = format!("wait-file:{}", go.display());
        let id = lab.start(&[r"say:\e[?25lready", &wait, "exit:3"]);
        let rival = (ending == "refused").then(|| {
            let mut rival = lab.terminal(["attach", &id]);
            rival.wait_for("ready");
            rival
        });
        let script = format!(
            "stty rows 24 cols 80 -echo tostop intr ^G; cd {0}; stty -a >before; {1} attach {2}; stty -a >after; echo it is over",
            lab.dir().display(),
            env!("CARGO_BIN_EXE_berth"),
            id
        );
        let mut terminal = lab.terminal_running("/bin/sh".as_ref(), ["-c", &script]);
        if rival.is_none() {
            terminal.wait_for("ready");
        }
        let client = || {
            let pid = lab.show(&id)["writer"]["pid"].as_u64().expect("there is a writer");
            berth_host::identity::ProcessIdentity::of(u32::try_from(pid).expect("pids fit")).expect("it runs")
        };
        match ending {
            "detach" => terminal.type_keys("\x1c"),
            "SIGTERM" => signal(&client(), Signal::TERM),
            "SIGHUP" => signal(&client(), Signal::HUP),
            "SIGINT" => signal(&client(), Signal::INT),
            "SIGQUIT" => signal(&client(), Signal::QUIT),
            "exit" => std::fs::write(&go, "").expect("a file"),
            "keeper killed" => lab.kill_keeper(&id),
            _ => {}
        }
        terminal.wait_for("it is over");
        assert_eq!(terminal.wait_exit(), 0);
        let [before, after] = ["before", "after"]
            .map(|name| std::fs::read_to_string(lab.dir().join(name)).expect("stty wrote"));
        assert!(before.contains("speed") && before.contains("intr = ^G"), "{before}");
        assert_eq!(before, after, "after {ending}");
    }
}

#[test]
fn reattaching_shows_the_same_screen_with_all_modes_and_the_cursor() {
    let lab = lab();
    let id = lab.start(&["say:on the primary screen\n", "expect", FULL_SCREEN, "hang"]);
    let mut first = lab.terminal(["attach", &id]);
    first.wait_for("on the primary screen");
    first.type_keys("\r");
    first.wait_for("full screen\n\n\n\n          x");
    let seen = first.restore();
    for mode in
        ["\x1b[?1049h", "\x1b[?2004h", "\x1b[?1002h", "\x1b[?1006h", "\x1b[?25l", "\x1b[>1u", "\x1b[2;10r"]
    {
        assert!(contains(&seen, mode.as_bytes()), "the agent's {mode:?} did not arrive");
    }
    first.type_keys("\x1b[92;5u");
    assert_eq!(first.wait_exit(), 0);
    let mut second = lab.terminal(["attach", &id]);
    second.wait_for("full screen\n\n\n\n          x");
    insta::assert_snapshot!("full-screen", second.text());
    assert_eq!(second.restore().escape_ascii().to_string(), seen.escape_ascii().to_string());
}

#[test]
fn a_sequence_or_character_cut_in_half_reaches_clients_that_attach_or_leave_in_between_whole() {
    let lab = lab();
    let script = [
        r"say:ready\r\n\e[3",
        "expect:1",
        r"say:1mred\e[0m and caf\xc3",
        "expect:2",
        r"say:\xa9 open\e]2;ti",
        "expect:3",
        r"say:tle\e\\ end",
    ];
    let mut steps = vec!["raw"];
    steps.extend(script);
    steps.push("hang");
    let id = lab.start(&steps);
    lab.wait_output(&id, "ready");
    // The observer attaches while `ESC [ 3` is out and `1 m` is not.
    let mut watcher = lab.terminal(["attach", "--observe", &id]);
    watcher.wait_for("ready");
    lab.ok(["input", &id, "1"]);
    watcher.wait_for("red and caf");
    // Now half a character is out.
    let mut leaver = lab.terminal(["attach", "--observe", &id]);
    leaver.wait_for("red and caf");
    leaver.type_keys("\x1c");
    assert_eq!(leaver.wait_exit(), 0);
    let leave = reset_terminal(ActiveScreen::Alternate);
    let leave = leaver.raw.windows(leave.len()).position(|window| window == leave);
    let before = &leaver.raw[..leave.expect("it gave the terminal back")];
    assert!(!contains(before, b"caf\xc3"), "half a character was shown: {}", before.escape_ascii());
    lab.ok(["input", &id, "2"]);
    watcher.wait_for("café open");
    lab.ok(["input", &id, "3"]);
    watcher.wait_for("red and café open end");
    assert_eq!(watched(&mut watcher), lab.ok(["screen", &id]).trim_end());
    let mut fresh = lab.terminal(["attach", "--observe", &id]);
    fresh.wait_for("red and café open end");
    fresh.wait_until("the whole picture", |fresh| fresh.raw.ends_with(b"\x1b[?2026l"));
    let fresh = fresh.restore();
    watcher.wait_until("the same picture as a fresh one", |watcher| watcher.restore() == fresh);
}

#[test]
fn a_run_on_a_terminal_is_attached_and_passes_the_exit_code_through() {
    let lab = lab();
    for (command, code, word) in
        [("echo hi; exit 7", 7, "exit 7"), ("echo hi; kill -9 $$", 137, "killed by SIGKILL")]
    {
        let mut terminal = lab.terminal(["run", "--", "sh", "-c", command]);
        assert_eq!(terminal.wait_exit(), code);
        let text = terminal.text();
        // As it came, or on the screen that was painted because it came before we were attached.
        assert!(contains(&terminal.raw, b"hi"), "{}", terminal.raw.escape_ascii());
        assert!(text.contains("ended: ") && text.contains(word), "{text}");
    }
    // Output of a run that ended before the client could show it is shown as well.
    let mut terminal = lab.terminal(["run", "--", lab.agent().as_str(), "say:quick", "exit:0"]);
    assert_eq!(terminal.wait_exit(), 0);
    assert!(contains(&terminal.raw, b"quick"), "{}", terminal.raw.escape_ascii());
}

#[test]
fn an_attached_person_sees_the_last_words_and_the_end_and_gets_its_code() {
    let lab = lab();
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let id = lab.start_with(&["--name", "finite"], &["say:ready\n", &wait, "say:last words\n", "exit:5"]);
    let mut writer = lab.terminal(["attach", "finite"]);
    let mut observer = lab.terminal(["attach", "--observe", "finite"]);
    writer.wait_for("ready");
    observer.wait_for("ready");
    std::fs::write(&go, "").expect("a file");
    for terminal in [&mut writer, &mut observer] {
        assert_eq!(terminal.wait_exit(), 5);
        assert!(contains(&terminal.raw, b"last words"), "{}", terminal.raw.escape_ascii());
        assert!(terminal.text().contains("[finite ended: failed · exit 5]"), "{}", terminal.text());
    }
    let mut late = lab.terminal(["attach", "--observe", &id]);
    assert_eq!(late.wait_exit(), 1);
    assert!(late.text().contains("berth resume"), "{}", late.text());
}

#[test]
fn stopping_a_session_ends_its_attachments_with_the_signal_and_the_reason() {
    let lab = lab();
    let id = lab.start(&["say:ready", "hang"]);
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("ready");
    lab.ok(["stop", &id]);
    assert_eq!(terminal.wait_exit(), 143);
    assert!(terminal.text().contains("stopped by"), "{}", terminal.text());
}

#[test]
fn a_query_is_answered_exactly_once_when_no_client_or_only_an_observer_is_attached() {
    for observed in [false, true] {
        let lab = lab();
        let go = lab.dir().join("go");
        let wait = format!("wait-file:{}", go.display());
        let id = lab.start(&[
            "raw",
            "say:ready",
            &wait,
            r"say:\e[c",
            r"expect:\e[?",
            "expect:c",
            r"say:\e[>q",
            r"expect:\eP>|berth(",
            r"expect:\e\\",
            "say:answered",
            "echo:MARK",
            "hang",
        ]);
        let watcher = observed.then(|| {
            let mut watcher = lab.terminal(["attach", "--observe", &id]);
            watcher.wait_for("ready");
            watcher
        });
        std::fs::write(&go, "").expect("a file");
        lab.wait_output(&id, "answered");
        lab.ok(["input", &id, "MARK"]);
        lab.wait_output(&id, "MARK");
        let output = lab.output(&id);
        assert!(output.ends_with(b"answeredMARK"), "observed: {observed}, {}", output.escape_ascii());
        drop(watcher);
    }
}

#[test]
fn a_query_is_left_to_the_terminal_of_an_attached_writer() {
    let lab = lab();
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let id = lab.start(&["raw", "say:ready", &wait, r"say:\e[c asked ", "echo:MARK", "hang"]);
    let mut writer = lab.terminal(["attach", &id]);
    writer.wait_for("ready");
    std::fs::write(&go, "").expect("a file");
    writer.wait_for_raw(b"\x1b[c asked ");
    writer.type_keys("\x1b[?99cMARK");
    lab.wait_output(&id, "MARK");
    let output = lab.output(&id);
    assert!(output.ends_with(b" asked \x1b[?99cMARK"), "{}", output.escape_ascii());
}

#[test]
fn attaching_without_a_terminal_is_refused_with_the_commands_for_scripts() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let said = lab.berth(["attach", &id]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("berth output") && said.err.contains("berth input"), "{said:?}");
    wait_until("no client to be attached", || lab.show(&id)["clients"] == 0);
}

#[test]
fn a_client_whose_terminal_is_stopped_still_obeys_term_and_hangup() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let lab = lab();
        let [go, done] = ["go", "done"].map(|name| lab.dir().join(name));
        let [wait, touch] = [format!("wait-file:{}", go.display()), format!("touch:{}", done.display())];
        let id = lab.start(&["say:ready", &wait, "flood:4M", &touch, "hang"]);
        let mut terminal = lab.terminal(["attach", &id]);
        terminal.wait_for("ready");
        // The terminal is not read from here on, as if the user had pressed Ctrl-S.
        std::fs::write(&go, "").expect("a file");
        berth_harness::wait_until("the flood", || done.exists());
        let client = terminal.identity();
        // The client cannot read more of the keeper's messages by now: it is blocked on its terminal.
        terminal.signal(signal);
        berth_harness::wait_gone(&client);
        assert_eq!(terminal.wait_exit(), code);
        assert_eq!(lab.show(&id)["state"], "running");
    }
}
