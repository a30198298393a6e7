//! Streams as real programs write them.

use super::shoot;
use crate::{Screen, ScreenSize};

const SIZE: ScreenSize = ScreenSize { rows: 6, cols: 30 };

fn screen(stream: &[u8]) -> Screen {
    let mut screen = Screen::new(SIZE);
    screen.feed(stream);
    let bytes = screen.restore();
    let mut client = Screen::new(SIZE);
    client.feed(b"\x1b[?1049hdirt\x1b[41m");
    client.feed(&bytes);
    assert_eq!(shoot(&mut client), shoot(&mut screen));
    screen
}

#[test]
fn a_shell_prompt_with_a_finished_command() {
    let mut screen = screen(
        b"\x1b]0;user@host: ~\x07\x1b[01;32muser@host\x1b[00m:\x1b[01;34m~\x1b[00m$ ls\r\n\x1b[0m\x1b[01;34mdir\x1b[0m  file\r\n\
        \x1b[?2004h\x1b]0;user@host: ~\x07\x1b[01;32muser@host\x1b[00m$ ",
    );
    assert_eq!(screen.text(), "user@host:~$ ls\ndir  file\nuser@host$");
    assert_eq!(
        screen.ansi(),
        "\x1b[0;1;32muser@host\x1b[0m:\x1b[0;1;34m~\x1b[0m$ ls\n\x1b[0;1;34mdir\x1b[0m  file\n\x1b[0;1;32muser@host\x1b[0m$ "
            .trim_end()
    );
    assert_eq!(screen.title(), Some("user@host: ~"));
    assert_eq!(screen.cursor(), (2, 11));
    assert!(!screen.in_alternate());
}

#[test]
fn vim_with_a_status_line_and_a_split() {
    let mut screen = screen(
        b"$ vim\r\n\x1b[?1049h\x1b[22;0;0t\x1b[>4;2m\x1b[?1h\x1b=\x1b[?2004h\x1b[1;6r\x1b[?12h\x1b[?12l\x1b[22;2t\x1b[27m\x1b[23m\x1b[29m\
        \x1b[m\x1b[H\x1b[2J\x1b[?25l\x1b[6;1H\"notes\" 2L, 9B\x1b[1;1Hone\r\ntwo\x1b[1m\x1b[34m\x1b[3;1H~                   \x1b[4;1H~\
        \x1b[m\x1b[5;1H\x1b[1m\x1b[7mnotes                         \x1b[m\x1b[1;1H\x1b[?25h\x1b[2 q",
    );
    assert_eq!(screen.text(), "one\ntwo\n~\n~\nnotes\n\"notes\" 2L, 9B");
    assert!(screen.in_alternate());
    let bytes = String::from_utf8(screen.restore()).unwrap();
    for needed in ["\x1b[>4;2m", "\x1b[?1h", "\x1b=", "\x1b[?2004h", "\x1b[2 q", "\x1b[?25h", "$ vim"] {
        assert!(bytes.contains(needed), "{needed:?} in {bytes:?}");
    }
    screen.feed(b"\x1b[23;0;0t\x1b[?1049l");
    assert_eq!(screen.text(), "$ vim");
}

#[test]
fn less_scrolls_back_with_reverse_index() {
    let mut screen = screen(
        b"\x1b[?1049h\x1b[?1h\x1b=\r3\r\n4\r\n5\r\n6\r\n7\r\n\x1b[7m:\x1b[27m\x1b[K\r\x1b[K\x1b[H\x1bM2\r\n\x1b[H\x1bM1\r\n\
        \x1b[6;1H\r\x1b[K:\x1b[K",
    );
    assert_eq!(screen.text(), "1\n2\n3\n4\n5\n:");
    assert_eq!(screen.cursor(), (5, 1));
}

#[test]
fn htop_paints_meters_with_line_drawing_and_mouse() {
    let mut screen = screen(
        b"\x1b[?1049h\x1b[1;6r\x1b(B\x1b[m\x1b[4l\x1b[?7h\x1b[?1h\x1b=\x1b[?25l\x1b[39;49m\x1b[?1006;1000h\x1b[39;49m\x1b(B\x1b[m\
        \x1b[H\x1b[2J\x1b[2;3H\x1b[36m0\x1b[39m\x1b(B\x1b[0;1m[\x1b[32m||||\x1b[90m     12.5%\x1b[39m]\x1b[4;1H\x1b[30;42m  PID USER\
        \x1b[K\x1b[5;1H\x1b[30;46m    1 root\x1b[K\x1b[6;1H\x1b[39;49m\x1b(0lqk\x1b(B\x1b[6;10HF10\x1b[30;46mQuit",
    );
    assert_eq!(screen.text(), "\n  0[||||     12.5%]\n\n  PID USER\n    1 root\n┌─┐      F10Quit");
    let bytes = String::from_utf8(screen.restore()).unwrap();
    assert!(bytes.contains("\x1b[?1000h") && bytes.contains("\x1b[?1006h") && bytes.contains("\x1b[?25l"));
}

#[test]
fn an_agent_redraws_its_last_lines_in_synchronized_updates() {
    let mut stream = b"\x1b[>1u\x1b[?2004h\x1b[?1004h> fix the login\r\n\r\n".to_vec();
    for step in 0..20 {
        stream.extend_from_slice(b"\x1b[?2026h\x1b[2K\x1b[1A\x1b[2K\x1b[G");
        stream.extend_from_slice(
            format!("\x1b[38;2;215;119;87m✻\x1b[39m Thinking… {step}s\r\n  ⎿ 漢字\x1b[K").as_bytes(),
        );
        stream.extend_from_slice(b"\x1b[?2026l");
    }
    let mut screen = screen(&stream);
    assert_eq!(screen.text(), "> fix the login\n✻ Thinking… 19s\n  ⎿ 漢字");
    let bytes = String::from_utf8(screen.restore()).unwrap();
    assert!(bytes.contains("\x1b[>1u") && bytes.contains("\x1b[?1004h"));
}

#[test]
fn a_frame_that_never_ends_is_shown_as_far_as_it_got() {
    assert_eq!(screen(b"old\x1b[?2026h\rnew").text(), "new");
}

#[test]
fn a_coloured_background_up_to_the_edge_stays_on_its_line() {
    assert_eq!(
        screen(b"\x1b[44m\x1b[K\r\nx\x1b[m").ansi(),
        format!("\x1b[0;44m{}\x1b[0m\n\x1b[0;44mx\x1b[0m", " ".repeat(30))
    );
}
