//! The key that leaves, and the text that leaving writes.

use berth_harness::wait_until;

use crate::terminal::{contains, lab};

#[test]
fn the_leave_key_comes_from_the_option_else_from_the_config_and_the_usual_one_goes_to_the_agent() {
    let lab = lab();
    let id = lab.start_echo();
    std::fs::write(lab.config(), "[ui]\nleave_key = \"ctrl-]\"\n").expect("a config file");
    for (option, key) in [(None, "\x1d"), (Some("ctrl-b"), "\x02"), (Some("^G"), "\x1b[103;5u")] {
        let option = option.map(|option| ["--leave-key", option]);
        let mut terminal = lab.terminal(["attach", &id].into_iter().chain(option.into_iter().flatten()));
        terminal.wait_for("ready");
        terminal.type_keys("<\x1c>");
        terminal.wait_for_raw(b"<\x1c>");
        terminal.type_keys(key);
        assert_eq!(terminal.wait_exit(), 0, "{option:?}");
        wait_until("the release", || lab.show(&id)["writer"].is_null());
    }
    assert!(contains(&lab.output(&id), b"<\x1c><\x1c><\x1c>"));
    let mut watcher = lab.terminal(["attach", "-o", &id]);
    watcher.wait_for("Ctrl-] leaves");
    for bad in ["ctrl-c", "x", "ctrl-[", "ctrl-m"] {
        let said = lab.berth(["attach", &id, "--leave-key", bad]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(&format!("`{bad}`")), "{said:?}");
    }
    std::fs::write(lab.config(), "[ui]\nleave_key = \"enter\"\n").expect("a config file");
    let said = lab.berth(["config"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("2:") && said.err.contains("as in ctrl-b"), "{said:?}");
}

#[test]
fn leaving_the_primary_screen_sends_nothing_that_moves_the_cursor_to_an_earlier_place() {
    let lab = lab();
    let id = lab.start(&["say:one\ntwo\nready", "hang"]);
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("ready");
    terminal.wait_until("the whole screen", |terminal| terminal.raw.ends_with(b"\x1b[?2026l"));
    let shown = terminal.raw.len();
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0);
    let leaving = &terminal.raw[shown..];
    assert!(contains(leaving, &berth_screen::reset_terminal(berth_screen::ActiveScreen::Primary)));
    assert!(!contains(leaving, b"1049"), "{}", leaving.escape_ascii());
}
