//! The list on a terminal, and off it.

use super::{ended, keep_busy, lab};
use crate::common::screen_settings;

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
fn colours_are_for_terminals_unless_set_otherwise() {
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
fn a_session_that_needs_an_answer_is_on_top_with_its_question() {
    let lab = lab();
    let [asking, working] = ["asking", "working"]
        .map(|name| lab.ok(["run", "-d", "--name", name, "--cwd", "/", "--agent", "fake"]));
    lab.ok(["send", &asking, "ask:Bash:rm"]);
    lab.ok(["wait", &asking, "--for", "needs-you", "--timeout", "60s"]);
    let gate = keep_busy(&lab, &working, "say:yes");
    lab.ok(["send", &working, "next"]);
    let mut terminal = lab.terminal(["ls"]);
    terminal.wait_exit();
    screen_settings().bind(|| insta::assert_snapshot!("asking-on-top", terminal.text()));
    std::fs::write(gate, "").expect("our own directory");
}
