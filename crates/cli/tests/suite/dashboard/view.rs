//! The dashboard's rows and preview, and that they follow changes.

use berth_harness::TestTerminal;

use crate::common::screen_settings;
use crate::dashboard::{agent, contains, lab, open};

#[test]
fn berth_alone_is_the_dashboard_on_a_terminal_and_the_list_off_it() {
    let lab = lab();
    let id = lab.start_with(&["--name", "tests", "--cwd", "/"], &["say:hello from the agent", "hang"]);
    lab.wait_output(&id, "hello");
    let listed = lab.berth::<&str>([]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.out.contains("tests") && !listed.out.contains('\x1b'), "{listed:?}");
    let mut terminal = open(&lab);
    terminal.wait_for("1 running");
    let is_previewed = |terminal: &mut TestTerminal| terminal.text().contains("\nhello from the agent");
    terminal.wait_until("the preview", is_previewed);
    screen_settings().bind(|| insta::assert_snapshot!("one-session", terminal.text()));
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn an_empty_dashboard_shows_a_first_step_and_sessions_appear_and_vanish() {
    let lab = lab();
    let mut terminal = open(&lab);
    terminal.wait_for("No sessions yet");
    screen_settings().bind(|| insta::assert_snapshot!("no-sessions", terminal.text()));
    let id = lab.start_with(&["--name", "newcomer"], &["say:here I am", "exit:3"]);
    terminal.wait_for("newcomer");
    terminal.wait_for("exit 3");
    terminal.wait_for("here I am");
    terminal.wait_until("its keeper to leave", |_| lab.processes().len() <= 1);
    std::fs::remove_dir_all(lab.session_dir(&id)).expect("a directory of the lab");
    terminal.wait_for("newcomer is gone");
    terminal.wait_for("No sessions yet");
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn the_selected_screen_is_live_and_in_its_own_colours() {
    let lab = lab();
    let gate = lab.dir().join("gate");
    let wait = format!("wait-file:{}", gate.display());
    let id = lab.start_with(
        &["--name", "tests"],
        &["say:before", &wait, r"say:\e[31mafterwards 日本 🙂\e[0m", "hang"],
    );
    let size = (lab.number(&id, "rows"), lab.number(&id, "cols"));
    let mut terminal = lab.terminal_of_size::<&str>([], 30, 100);
    terminal.wait_for("before");
    std::fs::write(&gate, "").expect("a file");
    terminal.wait_for("afterwards 日本 🙂");
    assert!(contains(&terminal.raw, b"\x1b[38;5;1;49mafterwards"), "{}", terminal.raw.escape_ascii());
    // Looking changes nothing for the session that is looked at.
    assert_eq!((lab.number(&id, "rows"), lab.number(&id, "cols")), size);
    assert_eq!(lab.show(&id)["clients"], 0);
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn the_text_of_an_agent_is_shown_while_the_agent_says_it() {
    let lab = lab();
    agent(&lab, "docs");
    let gate = lab.dir().join("gate");
    let prompt =
        format!("say:the first half\ntool:Read:notes.md\nwait-file:{}\nsay:the second half", gate.display());
    let mut terminal = open(&lab);
    terminal.wait_for("nothing was said yet");
    lab.ok(["send", "docs", &prompt]);
    terminal.wait_for("working");
    terminal.wait_until("the first half", |terminal| terminal.text().matches("the first half").count() == 2);
    terminal.wait_for("· Read");
    assert_eq!(terminal.text().matches("the second half").count(), 1, "that is the prompt");
    std::fs::write(&gate, "").expect("a file");
    terminal
        .wait_until("the second half", |terminal| terminal.text().matches("the second half").count() == 2);
    terminal.wait_for("idle");
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), 0);
    // Text that was said is still there when the dashboard is opened afterwards.
    let mut terminal = open(&lab);
    terminal.wait_until("both halves", |terminal| terminal.text().matches("the second half").count() == 2);
}

#[test]
fn a_dashboard_opened_in_the_middle_of_a_turn_shows_text_and_tools_so_far_in_order() {
    let lab = lab();
    agent(&lab, "docs");
    let mark = lab.dir().join("mark");
    let prompt =
        format!("say:one\ntool:Read:notes.md\nsay:two\ntool:Bash:ls\ntouch:{}\nsilent", mark.display());
    lab.ok(["send", "docs", &prompt]);
    berth_harness::wait_until("the agent to come so far", || mark.exists());
    let mut terminal = open(&lab);
    terminal.wait_for("· Bash");
    let text = terminal.text();
    let answer = text.split("\n").skip_while(|line| !line.contains("silent")).skip(1);
    let answer: Vec<&str> = answer.map(str::trim).filter(|line| !line.is_empty()).take(4).collect();
    assert!(
        matches!(answer.as_slice(), ["one", read, "two", bash] if read.contains("Read") && bash.contains("Bash")),
        "{text}"
    );
}

#[test]
fn the_dashboard_survives_every_size() {
    let lab = lab();
    lab.start_with(&["--name", "tests"], &["say:the preview", "hang"]);
    let mut terminal = open(&lab);
    terminal.wait_for("the preview");
    for (rows, cols, shown) in [
        (20, 40, "Enter look"),
        (40, 120, "│"),
        (5, 18, "berth needs"),
        (1, 1, "b"),
        (6, 20, "tests"),
        (24, 80, "the preview"),
    ] {
        terminal.resize(rows, cols);
        terminal.wait_for(shown);
    }
    let text = terminal.text();
    assert!(text.lines().nth(1).is_some_and(|row| row.starts_with("› running     tests")), "{text}");
    // As if it had always had that size.
    let mut fresh = open(&lab);
    fresh.wait_for("the preview");
    let without_ages = |text: String| text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    fresh.wait_until("the same picture", |fresh| without_ages(fresh.text()) == without_ages(terminal.text()));
}

#[test]
fn nothing_a_session_writes_reaches_the_terminal_as_it_is() {
    let lab = lab();
    let id = lab.start_with(
        &["--name", "evil"],
        &[
            r"say:\e]0;evil title\x07\e[?1003h\e[?2031h\eP+q544e\e\\\e[5n\e]52;c;ZXZpbA==\x07 harmless",
            "hang",
        ],
    );
    lab.wait_output(&id, "harmless");
    let mut terminal = open(&lab);
    terminal.wait_for("› running     evil");
    terminal.wait_for(" harmless");
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), 0);
    let entered =
        terminal.raw.windows(8).position(|window| window == b"\x1b[?1049h").expect("it was entered");
    for obeyed in [&b"\x1b]0;evil"[..], b"\x1b[?1003h", b"\x1b[?2031h", b"\x1bP", b"\x1b[5n", b"\x1b]52"] {
        assert!(!contains(&terminal.raw[entered..], obeyed), "{:?}", obeyed.escape_ascii().to_string());
    }
}

#[test]
fn a_bell_rings_when_another_one_needs_you() {
    let lab = lab();
    agent(&lab, "quiet");
    agent(&lab, "asker");
    let mut terminal = open(&lab);
    terminal.wait_for("2 idle");
    terminal.type_keys("/quiet\r");
    terminal.wait_for("/quiet");
    terminal.wait_for("› idle        quiet");
    assert!(!contains(&terminal.raw, b"\x07"));
    lab.ok(["send", "asker", "ask:Bash:rm -rf x"]);
    terminal.wait_for("1 needs you");
    terminal.wait_for_raw(b"\x07");
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), 0);
}
