//! A restored terminal equals one that saw the whole stream.

use proptest::{prop_assert_eq, proptest};

use super::streams::{ScreenTestStep, size, steps, stream};
use super::{EmulatorSnapshot, cases, shoot};
use crate::{Screen, ScreenSize};

fn play(screen: &mut Screen, steps: &[ScreenTestStep]) {
    for step in steps {
        match step {
            ScreenTestStep::Bytes(bytes) => screen.feed(bytes),
            ScreenTestStep::Resize(size) => screen.resize(*size),
        }
    }
}

/// A terminal that gets `bytes` after having shown `before`.
fn client(size: ScreenSize, before: &[u8], bytes: &[u8]) -> Screen {
    let mut client = Screen::new(size);
    client.feed(before);
    client.take_answers();
    client.feed(bytes);
    assert_eq!(client.take_answers(), b"", "restoring asks nothing");
    client
}

/// The behaviour of the screen from here on. This shows state that only the emulator knows: the region that really
/// scrolls, tab stops and character sets.
fn goes_on(screen: &mut Screen) -> EmulatorSnapshot {
    screen.feed(b"\x1b[2J\x1b[H");
    screen.feed("a\tq\r\n".repeat(20).as_bytes());
    shoot(screen)
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_terminal_in_any_state_is_brought_to_the_same_screen(
        size in size(),
        steps in steps(50),
        dirt in stream(25),
    ) {
        let mut screen = Screen::new(size);
        play(&mut screen, &steps);
        let bytes = screen.restore();
        let wanted = shoot(&mut screen);
        prop_assert_eq!(&shoot(&mut screen), &wanted, "looking changes nothing");
        let mut fresh = client(screen.size(), b"", &bytes);
        prop_assert_eq!(&shoot(&mut fresh), &wanted, "fresh");
        let follows = goes_on(&mut screen);
        prop_assert_eq!(&goes_on(&mut fresh), &follows, "fresh, going on");
        if screen.size().rows > 1 {
            // The emulator cannot free the scroll region of a single row.
            let mut dirty = client(screen.size(), &dirt, &bytes);
            prop_assert_eq!(&shoot(&mut dirty), &wanted, "dirty");
            prop_assert_eq!(&goes_on(&mut dirty), &follows, "dirty, going on");
        }
    }
}

fn restored(stream: &[u8]) -> String {
    let mut screen = Screen::new(ScreenSize { rows: 4, cols: 10 });
    screen.feed(stream);
    String::from_utf8(screen.restore()).unwrap()
}

#[test]
fn restoring_starts_with_the_end_of_unfinished_sequences() {
    assert!(restored(b"").starts_with("\x1b\\"));
}

#[test]
fn a_title_is_restored_without_controls_and_only_if_there_is_one() {
    assert!(!restored(b"").contains("\x1b]2;"));
    assert!(restored("\x1b]0; vim\u{9c} x\x07".as_bytes()).contains("\x1b]2;vim x\x1b\\"));
}

#[test]
fn blanks_at_the_end_of_a_line_cost_nothing_and_gaps_are_jumped() {
    let bytes = restored(b"a        b\r\nc      ");
    assert!(bytes.contains("\x1b[1;1Ha\x1b[8Cb\x1b[2;1Hc\x1b[3g"), "{bytes:?}");
}

#[test]
fn links_colours_and_both_screens_come_back() {
    let bytes = restored(b"\x1b]8;id=7;http://x\x07l\x1b]8;;\x07\x1b[?1049h\x1b[38;2;1;2;3;4:3mA");
    let link = bytes.find("\x1b]8;id=7;http://x\x1b\\l").unwrap();
    let swap = bytes.find("\x1b[?1049h").unwrap();
    let colour = bytes.find("\x1b[0;4:3;38;2;1;2;3mA").unwrap();
    assert!(link < swap && swap < colour, "{bytes:?}");
}

#[test]
fn a_cursor_outside_the_scroll_region_goes_to_the_nearest_row_inside_and_prints_nothing_there() {
    // Saved with a wrap pending, and brought back when rows only count from the region on.
    for (saved_in, goes_to) in [(1, 1), (4, 2)] {
        let stream = format!("\x1b[{saved_in};10HX\x1b7\x1b[2;3r\x1b[?6h\x1b8");
        let size = ScreenSize { rows: 4, cols: 10 };
        let mut screen = Screen::new(size);
        screen.feed(stream.as_bytes());
        let mut fresh = client(size, b"", &screen.restore());
        assert_eq!(fresh.text(), screen.text());
        assert_eq!(fresh.cursor(), (goes_to, 9));
    }
}

#[test]
fn marks_on_the_gap_before_a_wide_character_that_did_not_fit_come_back() {
    let size = ScreenSize { rows: 3, cols: 4 };
    let mut screen = Screen::new(size);
    // The second line of `abc漢` begins with the wide character. With wrapping off another one does not
    // fit in the gap, but its accent does.
    screen.feed("abc漢\x1b[?7l\x1b[1;4H漢\u{301}\x1b[H".as_bytes());
    assert_eq!(screen.text(), "abc \u{301}\n漢");
    assert_eq!(client(size, b"", &screen.restore()).text(), screen.text());
}

#[test]
fn the_older_ways_to_the_alternate_screen_come_back_and_lead_back() {
    let size = ScreenSize { rows: 4, cols: 12 };
    for (enter, leave, goes_to) in [
        // The cursor stays where it was on the other screen, unless the application saved it.
        ("\x1b[?47h", "\x1b[?47l", (2, 4)),
        ("\x1b[?1047h", "\x1b[?1047l", (2, 4)),
        ("\x1b7\x1b[?47h", "\x1b[2J\x1b[?47l\x1b8", (1, 2)),
        ("\x1b[?1048;1047h", "\x1b[?1047;1048l", (1, 2)),
        ("\x1b7\x1b[?1047h", "\x1b[?1049l", (1, 2)),
        ("\x1b[?1049h", "\x1b[?1049l", (1, 2)),
        ("\x1b[?1049h", "\x1b[?1047l", (2, 4)),
    ] {
        let mut watched = Screen::new(size);
        watched.feed(format!("one\r\n$ {enter}\x1b[Hfull\x1b[3;1Htext").as_bytes());
        assert!(watched.in_alternate(), "{enter:?}");
        let mut fresh = client(size, b"dirt\x1b[?1047h", &watched.restore());
        assert_eq!(fresh.text(), "full\n\ntext", "{enter:?}");
        for screen in [&mut watched, &mut fresh] {
            screen.feed(leave.as_bytes());
            assert_eq!(screen.text(), "one\n$", "{enter:?} {leave:?}");
            assert_eq!(screen.cursor(), goes_to, "{enter:?} {leave:?}");
        }
        assert_eq!(shoot(&mut watched), shoot(&mut fresh), "{enter:?} {leave:?}");
    }
}
