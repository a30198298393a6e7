//! The list on a terminal, and off it.

use super::{ended, keep_busy, lab};

#[test]
fn lines_fit_a_narrow_terminal_and_nothing_wraps() {
    let lab = lab();
    for name in ["a-name-that-is-rather-long-for-a-phone", "short"] {
        ended(&lab, name);
    }
    lab.start_with(&["--name", "wide"], &["say:日本語", "hang"]);
    for (rows, cols) in [(20, 40), (24, 80), (10, 24), (30, 200)] {
        let mut terminal = lab.terminal_of_size(["ls"], rows, cols);
        assert_eq!(terminal.wait_exit(), 0);
        let text = terminal.text();
        assert_eq!(text.trim_end().lines().count(), 4, "{cols}:\n{text}");
        assert!(text.contains("running") && text.starts_with("SESSION"), "{cols}:\n{text}");
        assert_eq!(text.contains("a-name-that-is-rather-long-for-a-phone"), cols == 200, "{cols}:\n{text}");
    }
    let whole = lab.ok(["ls"]);
    assert!(whole.starts_with("ID ") && whole.contains("a-name-that-is-rather-long-for-a-phone"), "{whole}");
}

#[test]
fn colours_are_for_terminals_unless_somebody_says_otherwise() {
    let lab = lab();
    lab.start_with(&["--name", "on"], &["hang"]);
    let has = |bytes: &[u8]| bytes.windows(5).any(|window| window == b"\x1b[32m");
    assert!(!lab.ok(["ls"]).contains('\x1b'));
    assert!(has(lab.ok(["ls", "--color", "always"]).as_bytes()));
    for (args, wanted) in [(&["ls"][..], true), (&["ls", "--color", "never"], false)] {
        let mut terminal = lab.terminal(args);
        terminal.wait_exit();
        assert_eq!(has(&terminal.raw), wanted, "{args:?}");
    }
    let env = std::path::Path::new("/usr/bin/env");
    let mut terminal = lab.terminal_running(env, ["NO_COLOR=1", env!("CARGO_BIN_EXE_berth"), "ls"]);
    terminal.wait_exit();
    assert!(!has(&terminal.raw), "{:?}", terminal.text());
}

#[test]
fn who_needs_somebody_is_on_top_with_what_it_asks() {
    let lab = lab();
    let asking = lab.ok(["run", "-d", "--name", "asking", "--agent", "fake"]);
    let working = lab.ok(["run", "-d", "--name", "working", "--agent", "fake"]);
    lab.ok(["send", &asking, "ask:Bash:rm"]);
    lab.ok(["wait", &asking, "--for", "needs-you", "--timeout", "60s"]);
    let gate = keep_busy(&lab, &working, "say:yes");
    lab.ok(["send", &working, "next"]);
    let mut terminal = lab.terminal(["ls"]);
    terminal.wait_exit();
    let text = terminal.text();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines[1][0] == "asking" && lines[1].contains(&"needs-you"), "{text}");
    assert!(lines[1].ends_with(&["asks:", "Bash:", "rm"]), "{text}");
    assert_eq!(lines[2][0], "working", "{text}");
    let queue = lines[0].iter().position(|word| *word == "QUEUE").expect("a column");
    assert_eq!(lines[2][queue], "1", "{text}");
    std::fs::write(gate, "").expect("our own directory");
}
