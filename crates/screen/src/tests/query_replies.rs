//! Every query is answered once, in order.

use crate::{Screen, ScreenSize};

fn answers(queries: &str) -> String {
    let mut screen = Screen::new(ScreenSize { rows: 24, cols: 80 });
    screen.feed(queries.as_bytes());
    let answers = String::from_utf8(screen.take_answers()).unwrap();
    assert_eq!(screen.take_answers(), b"", "answered once");
    answers
}

#[test]
fn queries_are_answered_in_the_order_they_were_asked() {
    let version = format!("\x1bP>|berth({})\x1b\\", env!("CARGO_PKG_VERSION"));
    assert_eq!(answers("\x1b[>0q\x1b[c"), format!("{version}\x1b[?6c"));
    assert_eq!(answers("\x1b[c\x1b[>q"), format!("\x1b[?6c{version}"));
    assert_eq!(answers("ab\x1b[6n\x1b[?6n\x1b[5n"), "\x1b[1;3R\x1b[?1;3R\x1b[0n");
}

#[test]
fn device_and_terminal_queries_have_answers() {
    assert_eq!(answers("\x1b[=c"), "\x1bP!|00000000\x1b\\");
    assert_eq!(answers("\x1b[?996n"), "\x1b[?997;1n");
    assert_eq!(answers("\x1bP+q544e;436f\x1b\\"), "\x1bP0+r544e;436f\x1b\\");
    assert_eq!(answers("\x1bP+q54\n\x07id\x1b\\"), "\x1bP0+r54\x1b\\");
    assert_eq!(answers("\x1b[>4;2m\x1b[?4m"), "\x1b[>4;2m");
    assert_eq!(answers("\x1b[>5u\x1b[?u"), "\x1b[?5u");
    assert_eq!(answers("\x1b[18t\x1b[14t"), "\x1b[8;24;80t\x1b[4;480;800t");
    assert_eq!(answers("\x1b[?2026$p"), "\x1b[?2026;2$y");
}

#[test]
fn settings_are_reported_as_they_are() {
    assert_eq!(answers("\x1b[1;38:2::1:2:3m\x1bP$qm\x1b\\"), "\x1bP1$r0;1;38;2;1;2;3m\x1b\\");
    assert_eq!(answers("\x1b[3;9r\x1bP$qr\x1b\\"), "\x1bP1$r3;9r\x1b\\");
    assert_eq!(answers("\x1b[5 q\x1bP$q q\x1b\\"), "\x1bP1$r5 q\x1b\\");
    assert_eq!(answers("\x1bP$q\"p\x1b\\"), "\x1bP0$r\x1b\\");
}

#[test]
fn colours_are_those_the_application_set_or_dark_ones() {
    assert_eq!(answers("\x1b]11;?\x07"), "\x1b]11;rgb:1818/1818/1818\x07");
    assert_eq!(answers("\x1b]10;?\x1b\\"), "\x1b]10;rgb:d8d8/d8d8/d8d8\x1b\\");
    assert_eq!(answers("\x1b]4;196;?\x07"), "\x1b]4;196;rgb:ffff/0000/0000\x07");
    let changed = "\x1b]4;1;?\x07\x1b]4;1;#102030\x07\x1b]4;1;?\x07";
    assert_eq!(answers(changed), "\x1b]4;1;rgb:cdcd/0000/0000\x07\x1b]4;1;rgb:1010/2020/3030\x07");
}

#[test]
fn a_query_in_pieces_is_answered_once() {
    let mut screen = Screen::new(ScreenSize { rows: 24, cols: 80 });
    for byte in b"\x1b[>0q\x1b[c" {
        screen.feed(&[*byte]);
    }
    assert_eq!(screen.take_answers().iter().filter(|byte| **byte == 0x1b).count(), 3);
}

#[test]
fn a_flood_of_queries_does_not_become_a_flood_of_answers() {
    assert!(answers(&"\x1b[>0q".repeat(100_000)).len() <= 16 * 1024);
}
