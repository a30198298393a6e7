//! Full-screen programs, and changes to the terminal they run in.

use berth_harness::{TestEnvironment, signal, wait_until};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

use crate::terminal::{contains, kept_screen, lab};

fn gate(lab: &TestEnvironment, name: &str) -> (std::path::PathBuf, String) {
    let path = lab.dir().join(name);
    let step = format!("wait-file:{}", path.display());
    (path, step)
}

fn open(gate: &std::path::Path) {
    std::fs::write(gate, "").expect("a file");
}

#[test]
fn a_paste_of_ten_thousand_lines_reaches_the_program_to_the_byte_with_its_brackets() {
    let lab = lab();
    let lines: String = (1..=10_000).map(|n| format!("line {n}: 漢字 \x1c tab\there\r")).collect();
    let paste = format!("\x1b[200~{lines}\x1b[201~");
    let got = lab.dir().join("got");
    let script = format!(
        "stty raw -echo; printf '\\033[?2004hready'; head -c {} >{}; printf done; cat",
        paste.len(),
        got.display()
    );
    let id = lab.ok(["run", "-d", "--", "sh", "-c", &script]);
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("ready");
    assert!(contains(&terminal.restore(), b"\x1b[?2004h"), "the terminal was asked for brackets");
    terminal.type_keys(&paste);
    terminal.wait_for("done");
    let got = std::fs::read(&got).expect("head wrote");
    assert!(got == paste.as_bytes(), "{} bytes arrived of {}", got.len(), paste.len());
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0, "the same key, typed, leaves");
}

#[test]
fn a_terminal_that_changes_its_size_in_a_flood_ends_with_the_right_screen() {
    let lab = lab();
    let ((go, wait), (rest, wait_rest)) = (gate(&lab, "go"), gate(&lab, "rest"));
    let id = lab.start(&["say:ready", &wait, "flood:2M", &wait_rest, "flood:20K", "say:finished", "hang"]);
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("ready");
    open(&go);
    for (rows, cols) in [(30, 100), (20, 40), (2, 2), (50, 132), (1, 1), (3, 10), (24, 80), (20, 40)] {
        terminal.resize(rows, cols);
        wait_until("the agent's terminal to follow", || {
            let shown = lab.show(&id);
            shown["rows"] == rows.max(1) && shown["cols"].as_u64() == Some(u64::from(cols.max(2)))
        });
    }
    open(&rest);
    terminal.wait_for("finished");
    let mut fresh = kept_screen(&lab, &id);
    assert_eq!(terminal.text(), fresh.text());
    let fresh = fresh.restore();
    terminal.wait_until("the same screen as a fresh one", |terminal| terminal.restore() == fresh);
}

#[test]
fn a_program_on_the_older_alternate_screen_comes_back_and_leaves_the_shells_screen_behind() {
    for (enter, leave) in
        [(r"\e7\e[?47h", r"\e[2J\e[?47l\e8"), (r"\e[?1048h\e[?1047h", r"\e[?1047l\e[?1048l")]
    {
        let lab = lab();
        let (go, wait) = gate(&lab, "go");
        let full = format!(r"say:{enter}\e[H\e[44mfull screen\e[0m\e[5;3Hx");
        let id = lab.start(&[
            "raw",
            "say:on the primary screen",
            "expect:1",
            &full,
            &wait,
            &format!("say:{leave}!"),
            "hang",
        ]);
        let mut first = lab.terminal(["attach", &id]);
        first.wait_for("on the primary screen");
        first.type_keys("1");
        first.wait_for("full screen\n\n\n\n  x");
        let seen = first.restore();
        first.type_keys("\x1c");
        assert_eq!(first.wait_exit(), 0);
        assert!(!first.text().contains("full screen"), "{enter:?} is left: {}", first.text());
        let mut second = lab.terminal(["attach", &id]);
        second.wait_for("full screen\n\n\n\n  x");
        second.wait_until("the same screen", |second| second.restore() == seen);
        open(&go);
        second.wait_for("on the primary screen!");
        assert!(!second.text().contains("full screen"), "{}", second.text());
    }
}

#[test]
fn mouse_and_focus_reports_reach_the_program_and_are_off_after_leaving() {
    let lab = lab();
    let modes = [r"\e[?1003h", r"\e[?1006h", r"\e[?1004h"];
    let id = lab.start(&["raw", &format!("say:{}ready", modes.concat()), "echo:MARK", "hang"]);
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("ready");
    let asked = terminal.restore();
    assert!(contains(&asked, b"\x1b[?1003h") && contains(&asked, b"\x1b[?1006h"), "{}", asked.escape_ascii());
    let reports = "\x1b[<35;10;5M\x1b[<0;80;24M\x1b[<0;80;24m\x1b[I\x1b[O";
    terminal.type_keys(&format!("{reports}MARK"));
    lab.wait_output(&id, "MARK");
    let output = lab.output(&id);
    assert!(contains(&output, reports.as_bytes()), "{}", output.escape_ascii());
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0);
    let left_on = terminal.restore();
    for mode in [&b"\x1b[?1003h"[..], b"\x1b[?1006h", b"\x1b[?1004h"] {
        assert!(!contains(&left_on, mode), "{} is still set", mode.escape_ascii());
    }
}

#[test]
fn an_attachment_that_is_suspended_gives_the_terminal_to_the_shell_and_comes_back_with_the_screen() {
    let lab = lab();
    let id =
        lab.start(&["raw", r"say:\e[?1049h\e[?1000h\e[?25lfull screen", "expect:1", "say: goes on", "hang"]);
    let script = format!(
        "set -m; {} attach {id}; stty -a >{}; echo the shell again; read go; fg; echo it is over; read go",
        env!("CARGO_BIN_EXE_berth"),
        lab.dir().join("between").display(),
    );
    let mut terminal = lab.terminal_running("/bin/bash".as_ref(), ["-c", &script]);
    terminal.wait_for("full screen");
    let writer = lab.show(&id)["writer"]["pid"].as_u64().expect("there is a writer");
    let client = ProcessIdentity::of(u32::try_from(writer).expect("pids fit")).expect("it runs");
    signal(&client, Signal::TSTP);
    terminal.wait_for("the shell again");
    let between = std::fs::read_to_string(lab.dir().join("between")).expect("stty wrote");
    assert!(between.contains(" icanon") && between.contains(" echo "), "{between}");
    let shell = terminal.restore();
    for mode in [&b"\x1b[?1049h"[..], b"\x1b[?1000h", b"\x1b[?25l"] {
        assert!(!contains(&shell, mode), "{} is still set", mode.escape_ascii());
    }
    terminal.type_keys("\n");
    terminal.wait_for("full screen");
    terminal.type_keys("1");
    terminal.wait_for("full screen goes on");
    let back = terminal.restore();
    assert!(contains(&back, b"\x1b[?1049h") && contains(&back, b"\x1b[?1000h"), "{}", back.escape_ascii());
    terminal.type_keys("\x1c");
    // The shell stays until it is told to go: its last output may be lost with a terminal that closes.
    terminal.wait_for("it is over");
    terminal.type_keys("\n");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn no_terminal_is_too_small_to_attach_in() {
    for (rows, cols) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 10)] {
        let lab = lab();
        let id = lab.start(&["raw", r"say:\e[?1049hhello 漢字", "expect:1", "say: again", "hang"]);
        let mut terminal = lab.terminal_of_size(["attach", &id], rows, cols);
        terminal.wait_for_raw(b"\x1b[?1049h");
        terminal.type_keys("1");
        lab.wait_output(&id, "again");
        terminal.type_keys("\x1c");
        assert_eq!(terminal.wait_exit(), 0, "{rows}×{cols}");
        assert_eq!(lab.show(&id)["state"], "running");
    }
}
