//! No stream and no size breaks anything.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::streams::{cuts, pieces, stream};
use super::{cases, shoot};
use crate::emulator::{Emulator, EmulatorPanicked};
use crate::{Screen, ScreenSize};

const SIZE: ScreenSize = ScreenSize { rows: 5, cols: 12 };

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn random_bytes_and_sizes_break_nothing(
        steps in vec((vec(any::<u8>(), 0..200), 0..40u16, 0..40u16), 1..20),
    ) {
        let mut screen = Screen::new(SIZE);
        for (bytes, rows, cols) in steps {
            screen.feed(&bytes);
            screen.resize(ScreenSize { rows, cols });
            screen.restore();
        }
        prop_assert!(!screen.damaged());
        prop_assert!(screen.text().lines().count() <= 40);
    }

    #[test]
    fn the_split_of_a_stream_does_not_matter(bytes in stream(40), noise in vec(any::<u8>(), 0..80), cuts in cuts()) {
        let bytes = [bytes, noise].concat();
        let mut whole = Screen::new(SIZE);
        whole.feed(&bytes);
        let mut split = Screen::new(SIZE);
        for piece in pieces(&bytes, &cuts) {
            split.feed(&piece);
            split.cursor();
        }
        prop_assert_eq!(shoot(&mut split), shoot(&mut whole));
        prop_assert_eq!(split.take_answers(), whole.take_answers());
        prop_assert_eq!(split.title(), whole.title());
    }
}

#[test]
fn a_panic_in_the_emulator_does_not_get_out() {
    let mut emulator = Emulator::new(SIZE);
    // The emulator drops a title when it means to drop a keyboard mode, and there is no title.
    assert!(matches!(emulator.advance("\x1b[>1u".repeat(5000).as_bytes()), Err(EmulatorPanicked)));
}

#[test]
fn a_screen_whose_emulator_panicked_begins_again_and_says_so() {
    let mut screen = Screen::new(SIZE);
    screen.feed(b"before\x1b[?2004h");
    screen.settled().0.advance("\x1b[>1u".repeat(4096).as_bytes()).unwrap();
    assert!(!screen.damaged());
    screen.feed(b"\x1b[>1u");
    assert!(screen.damaged());
    screen.feed(b"after");
    assert_eq!(screen.text(), "after");
}

#[test]
fn an_application_that_stacks_modes_for_ever_gets_the_last_one() {
    let mut screen = Screen::new(SIZE);
    screen.feed("\x1b[>1u\x1b[22t".repeat(10_000).as_bytes());
    screen.feed(b"\x1b[>5u\x1b[?u");
    assert_eq!(screen.take_answers(), b"\x1b[?5u");
    assert!(!screen.damaged());
    assert!(screen.restore().len() < 1000);
}

#[test]
fn a_string_without_end_costs_nothing_and_what_follows_is_shown() {
    let mut screen = Screen::new(SIZE);
    screen.feed(b"\x1b]0;");
    for _ in 0..100 {
        screen.feed(&[b'x'; 4096]);
    }
    screen.feed(b"\x07shown");
    assert_eq!(screen.title(), None);
    assert_eq!(screen.text(), "shown");
}

#[test]
fn marks_without_end_stay_a_few_on_one_character() {
    let mut screen = Screen::new(SIZE);
    screen.feed(b"\x1b[4me");
    for _ in 0..100 {
        screen.feed("\u{301}".repeat(10_000).as_bytes());
    }
    assert!(screen.text().chars().count() < 1024 * 1024 / 2);
    screen.feed("\u{301}".repeat(1_000_000).as_bytes());
    screen.settled().0.cut_marks();
    assert_eq!(screen.text(), format!("e{}", "\u{301}".repeat(32)));
    assert!(screen.ansi().starts_with("\x1b[0;4me"));
}

#[test]
fn a_byte_9c_inside_a_picture_is_not_its_end() {
    let mut screen = Screen::new(SIZE);
    screen.feed("\x1bPq\u{dc}picture\x1b\\shown".as_bytes());
    assert_eq!(screen.text(), "shown");
}

#[test]
fn a_screen_may_move_between_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<Screen>();
}
