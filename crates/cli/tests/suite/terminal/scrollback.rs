//! Lines that scrolled away before a client attached are printed first.

use crate::terminal::{assert_contiguous, contains, flood_numbers, lab};

/// The bytes a client writes before it paints the screen.
fn before_the_screen(raw: &[u8]) -> &[u8] {
    let screen = b"\x1b[?2026h";
    let at = raw.windows(screen.len()).position(|window| window == screen).expect("a screen");
    &raw[..at]
}

#[test]
fn a_client_that_attaches_gets_lines_that_scrolled_away_above_the_screen_each_once() {
    let lab = lab();
    let id = lab.start(&["flood:60K", "say:the end", "hang"]);
    lab.wait_output(&id, "the end");
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("the end");
    // As a terminal with a scrollback shows it: earlier lines, then the screen.
    let text = terminal.text();
    let seen = [before_the_screen(&terminal.raw), text.as_bytes()].concat();
    let numbers = flood_numbers(&seen);
    assert_eq!(assert_contiguous(&numbers), assert_contiguous(&flood_numbers(&lab.output(&id))));
}

#[test]
fn only_as_many_lines_as_wanted_are_printed_and_none_for_zero() {
    let lab = lab();
    let id = lab.start(&["flood:400K", "say:the end", "hang"]);
    lab.wait_output(&id, "the end");
    let all = flood_numbers(&lab.output(&id));
    for (lines, count) in [(Some("0"), 0), (Some("7"), 7), (Some("20000"), all.len()), (None, 2000)] {
        let option = lines.map(|lines| ["--lines", lines]);
        let mut terminal = lab.terminal(["attach", &id].into_iter().chain(option.into_iter().flatten()));
        terminal.wait_for("the end");
        let printed = flood_numbers(before_the_screen(&terminal.raw)).len();
        let on_screen = flood_numbers(terminal.text().as_bytes()).len();
        assert_eq!(printed, count.min(all.len() - on_screen), "--lines {lines:?}");
        terminal.type_keys("\x1c");
        assert_eq!(terminal.wait_exit(), 0);
    }
    let bad = lab.berth(["attach", &id, "--lines", "many"]);
    assert_eq!(bad.code, 2, "{bad:?}");
}

#[test]
fn how_much_is_read_does_not_depend_on_how_much_was_printed_and_no_sequence_is_torn() {
    let lab = lab();
    let id = lab.start(&["flood-colour:6M", "say:the end", "hang"]);
    lab.wait_output(&id, "the end");
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("the end");
    let printed = before_the_screen(&terminal.raw);
    assert!(printed.len() < 1 << 20, "{} bytes were printed", printed.len());
    let mut plain = Vec::new();
    berth_screen::PlainTextFilter::default().feed(printed, &mut plain);
    let numbers = flood_numbers(&plain);
    assert_eq!(numbers.len(), 2000);
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a line is missing or torn");
}

#[test]
fn the_alternate_screen_has_no_scrollback_and_the_main_screen_comes_back_afterwards() {
    let lab = lab();
    let id = lab.start(&[
        "raw",
        "flood:10K",
        r"say:\e[?1049h\e[Hfull screen",
        "expect:1",
        r"say:\e[?1049l$ done",
        "hang",
    ]);
    lab.wait_output(&id, "full screen");
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("full screen");
    assert!(!contains(before_the_screen(&terminal.raw), b"the quick"));
    terminal.type_keys("1");
    terminal.wait_for("$ done");
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0);
    let mut again = lab.terminal(["attach", &id]);
    again.wait_for("$ done");
    assert!(contains(before_the_screen(&again.raw), b"000000000001 the quick"));
    assert!(!contains(before_the_screen(&again.raw), b"full screen"));
}

#[test]
fn lines_are_joined_that_a_narrower_terminal_had_wrapped() {
    let lab = lab();
    let long = "y".repeat(100);
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let id =
        lab.start(&["say:ready\n", &wait, &format!("say:{long}\n"), "flood:4K", "say:\nthe end", "hang"]);
    let mut narrow = lab.terminal_of_size(["attach", &id], 10, 40);
    narrow.wait_for("ready");
    std::fs::write(&go, "").expect("a file");
    narrow.wait_for("the end");
    narrow.type_keys("\x1c");
    assert_eq!(narrow.wait_exit(), 0);
    let mut wide = lab.terminal_of_size(["attach", &id], 10, 132);
    wide.wait_for("the end");
    assert!(contains(before_the_screen(&wide.raw), long.as_bytes()), "{}", wide.raw.escape_ascii());
}
