//! An observer's terminal, with each combination of its size and the writer's.

use crate::terminal::{contains, lab, watched};

#[test]
fn a_smaller_observer_sees_the_part_with_the_cursor_and_that_it_only_watches() {
    let lab = lab();
    let rows: String = (1..=40).map(|row| format!(r"\e[{row};1Hrow {row} {}", "x".repeat(120))).collect();
    let id = lab.start_with(&["--name", "wide"], &["raw", "expect:go", &format!("say:{rows}"), "echo"]);
    let mut writer = lab.terminal_of_size(["attach", &id], 40, 140);
    let mut observer = lab.terminal_of_size(["attach", "-o", "wide"], 16, 80);
    observer.wait_for("only watching wide (140×40) · Ctrl-\\ leaves");
    writer.type_keys("go");
    writer.wait_for("row 40");
    // The cursor is behind the last character of the last row.
    let expected = vec!["x".repeat(79); 15];
    observer.wait_until("the end of the last rows", |observer| watched(observer) == expected.join("\n"));
    writer.type_keys("\x1b[H");
    observer.wait_for("row 1 xx");
    let first: Vec<_> = (1..=15).map(|row| format!("{:x<80}", format!("row {row} "))).collect();
    observer.wait_until("the first rows", |observer| watched(observer) == first.join("\n"));
    // Nothing that the session sets reaches an observer's terminal but what is drawn.
    assert!(!contains(&observer.raw, b"\x1b[?2004h"), "{}", observer.raw.escape_ascii());
}

#[test]
fn an_observer_shows_the_right_screen_after_resizes_of_either_side() {
    let lab = lab();
    let id = lab.start(&["winch", "raw", r"say:\e[?2004h\e[?1000hready\r\n", "echo"]);
    lab.wait_output(&id, "ready");
    let mut writer = lab.terminal_of_size(["attach", &id], 30, 100);
    writer.wait_for("size 100x30");
    let mut observer = lab.terminal_of_size(["attach", "--observe", &id], 10, 60);
    observer.wait_for("(100×30)");
    for (at, (rows, cols)) in [(40, 120), (5, 20), (24, 80), (1, 12), (50, 150)].into_iter().enumerate() {
        writer.resize(rows, cols);
        observer.wait_for(&format!("({cols}×{rows})"));
        observer.resize(rows / 2 + 2, 60 + cols / 2);
        let mark = format!("\r\n<{at}>");
        writer.type_keys(&mark);
        observer.wait_for(mark.trim_start());
        let kept = lab.ok(["screen", &id]);
        let kept: Vec<&str> = kept.lines().collect();
        let shown = watched(&mut observer);
        let last: Vec<&str> = shown.lines().collect();
        let height = usize::from(rows / 2 + 1).min(kept.len());
        assert_eq!(last[last.len().saturating_sub(height)..], kept[kept.len() - height..], "round {at}");
    }
    for mode in ["\x1b[?2004h", "\x1b[?1000h"] {
        assert!(!contains(&observer.raw, mode.as_bytes()), "{mode:?} reached the observer");
    }
}

#[test]
fn leaving_a_view_restores_the_observers_screen() {
    let lab = lab();
    lab.start_with(&["--name", "seen"], &["say:ready", "hang"]);
    let script = format!("echo before; {} attach -o seen; echo after", env!("CARGO_BIN_EXE_berth"));
    let mut observer = lab.terminal_running("/bin/sh".as_ref(), ["-c", &script]);
    observer.wait_for("ready");
    assert!(!observer.text().contains("before"));
    observer.type_keys("\x1c");
    observer.wait_for("after");
    assert_eq!(observer.wait_exit(), 0);
    let text = observer.text();
    let lines: Vec<&str> = text.lines().map(|line| line.split(';').next().unwrap_or_default()).collect();
    assert_eq!(lines, ["before", "[detached from seen", "after"], "{text}");
}

#[test]
fn a_writer_that_is_taken_over_sees_one_line_that_says_so_and_gets_its_terminal_back() {
    let lab = lab();
    let id = lab.start_with(&["--name", "fix"], &["raw", r"say:\e[?1049h\e[?2004h\e[Hready", "echo"]);
    let script = format!("{} attach fix; echo after", env!("CARGO_BIN_EXE_berth"));
    let mut loser = lab.terminal_running_of_size("/bin/sh".as_ref(), ["-c", &script], 24, 120);
    loser.wait_for("ready");
    let mut taker = lab.terminal_of_size(["attach", "--take", &id], 10, 40);
    loser.wait_for("taken over: only watching fix (40×10) · Ctrl-\\ leaves · by pid ");
    loser.wait_for_raw(b"\x07");
    taker.wait_for("ready");
    taker.type_keys(" and theirs");
    loser.wait_for("ready and theirs");
    assert!(!contains(&loser.restore(), b"\x1b[?2004h"), "paste mode is still set");
    loser.type_keys("\x1c");
    loser.wait_for("after");
    assert!(!loser.text().contains("taken over") && !loser.text().contains("theirs"), "{}", loser.text());
    assert_eq!(loser.wait_exit(), 0);
    assert!(!contains(&loser.restore(), b"\x1b[?1049h"));
}
