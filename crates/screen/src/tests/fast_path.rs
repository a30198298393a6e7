//! Delaying and skipping text changes nothing.

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Line;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::cases;
use super::streams::{OLDER_SCREENS, ScreenTestStep, cuts, flood, pieces, size, steps};
use crate::emulator::Emulator;
use crate::{Screen, ScreenSize};

/// The cells, cursors and modes inside `screen` and inside an emulator that was fed directly are the same,
/// apart from marks that are too many on one character.
fn assert_same(
    screen: &mut Screen,
    plain: &mut Emulator,
) -> Result<(), proptest::test_runner::TestCaseError> {
    let (emulator, _) = screen.settled();
    emulator.cut_marks();
    plain.cut_marks();
    prop_assert_eq!(&emulator.grid().cursor, &plain.grid().cursor);
    prop_assert_eq!(&emulator.grid().saved_cursor, &plain.grid().saved_cursor);
    prop_assert_eq!(emulator.mode(), plain.mode());
    for line in (0..plain.grid().screen_lines()).map(Line::from) {
        for (got, wanted) in emulator.grid()[line].into_iter().zip(&plain.grid()[line]) {
            prop_assert_eq!(got, wanted, "line {:?}", line);
        }
    }
    Ok(())
}

/// The stream without sequences that the emulator alone does not know.
fn known(bytes: &[u8]) -> Vec<u8> {
    let mut known = Vec::new();
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        match OLDER_SCREENS.iter().find(|sequence| rest.starts_with(sequence.as_bytes())) {
            Some(sequence) => rest = &rest[sequence.len()..],
            None => {
                known.push(*first);
                rest = &rest[1..];
            }
        }
    }
    known
}

/// Feeds `steps` both ways; `looks` has the steps after which the screen is read.
fn check(
    size: ScreenSize,
    steps: &[ScreenTestStep],
    cuts: &[u8],
    looks: &[bool],
) -> Result<(), proptest::test_runner::TestCaseError> {
    let mut screen = Screen::new(size);
    let mut plain = Emulator::new(size);
    for (step, look) in steps.iter().zip(looks.iter().cycle()) {
        match step {
            ScreenTestStep::Bytes(bytes) => {
                let bytes = &known(bytes);
                pieces(bytes, cuts).iter().for_each(|piece| screen.feed(piece));
                plain.advance(bytes).unwrap();
            }
            ScreenTestStep::Resize(size) if *size == screen.size() => {}
            ScreenTestStep::Resize(size) => {
                screen.resize(*size);
                plain.resize(*size).unwrap();
            }
        }
        if *look {
            assert_same(&mut screen, &mut plain)?;
        }
    }
    assert_same(&mut screen, &mut plain)?;
    // Hidden state shows in later output: the last character, tab stops, character sets, the scroll region, both
    // screens.
    for probe in ["\x1b[3b", "\t\tX", "qq\r\n\n\n\n\nZ", "\x1b[?1049l", "\x1b8qq", "\x1b[?1049h", "\x1b8qq"] {
        screen.feed(probe.as_bytes());
        plain.advance(probe.as_bytes()).unwrap();
        assert_same(&mut screen, &mut plain)?;
    }
    prop_assert!(!screen.damaged());
    Ok(())
}

fn flooding() -> impl Strategy<Value = Vec<ScreenTestStep>> {
    let step = prop_oneof![8 => flood().prop_map(ScreenTestStep::Bytes), 1 => size().prop_map(ScreenTestStep::Resize)];
    proptest::collection::vec(step, 0..4)
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn any_stream_gives_the_screen_that_feeding_it_directly_gives(
        size in size(),
        steps in steps(60),
        cuts in cuts(),
        looks in proptest::collection::vec(any::<bool>(), 1..4),
    ) {
        check(size, &steps, &cuts, &looks)?;
    }

    #[test]
    fn a_flood_gives_the_screen_that_feeding_it_directly_gives(
        size in size(),
        steps in flooding(),
        cuts in cuts(),
    ) {
        check(size, &steps, &cuts, &[false])?;
    }
}

#[test]
fn a_flood_longer_than_the_limit_gives_the_screen_that_feeding_it_directly_gives() {
    let size = ScreenSize { rows: 24, cols: 80 };
    for chunk_bytes in [1, 37, 4096, 65536] {
        let mut screen = Screen::new(size);
        let mut plain = Emulator::new(size);
        let mut flood = Vec::new();
        for number in 0..6000 {
            let end = if number % 7 == 0 { "\n" } else { "\r\n" };
            let colour = number % 9 + 90;
            flood.extend_from_slice(
                format!("{number}\t\x1b[{colour};1mword é 漢字 {}\x1b[22m{end}", "x".repeat(number % 90))
                    .as_bytes(),
            );
        }
        flood.chunks(chunk_bytes).for_each(|chunk| screen.feed(chunk));
        plain.advance(&flood).unwrap();
        assert_same(&mut screen, &mut plain).unwrap();
    }
}

#[test]
fn fetching_answers_leaves_text_put_off() {
    let mut screen = Screen::new(ScreenSize { rows: 3, cols: 20 });
    screen.feed(b"\x1b[5nfirst\r\n");
    assert_eq!(screen.take_answers(), b"\x1b[0n");
    assert!(screen.has_pending());
    assert_eq!(screen.text(), "first");
    assert!(!screen.has_pending());
}

#[test]
fn a_character_repeated_more_often_than_there_are_cells_ends_in_the_right_place() {
    // Three wide characters fit in a line of seven cells, and a mark takes no cell at all.
    for text in ["漢\x1b[30b", "e\x1b[400b", "e\u{301}\x1b[20b", "e\u{301}\x1b[65535b"] {
        let size = ScreenSize { rows: 1, cols: 7 };
        let mut screen = Screen::new(size);
        let mut plain = Emulator::new(size);
        screen.feed(text.as_bytes());
        plain.advance(text.as_bytes()).unwrap();
        assert_same(&mut screen, &mut plain).unwrap();
    }
}
