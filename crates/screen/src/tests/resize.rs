//! Our own resize gives the same screen as that of the emulator.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Line;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::Processor;
use proptest::collection::vec;
use proptest::{prop_assert_eq, proptest};

use super::cases;
use super::streams::size;
use crate::{Screen, ScreenSize};

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn lines_wrap_anew_as_the_emulator_wraps_them(
        first in size(),
        sizes in vec(size(), 1..6),
        text in "([a-z漢]{0,40}\r\n|[a-z]{1,30}){0,8}",
    ) {
        let config = Config { scrolling_history: 0, ..Config::default() };
        let mut term = Term::new(config, &first, VoidListener);
        <Processor>::new().advance(&mut term, text.as_bytes());
        let mut screen = Screen::new(first);
        screen.feed(text.as_bytes());
        for size in sizes {
            term.resize(size);
            screen.resize(size);
            let grid = screen.settled().0.grid();
            prop_assert_eq!(&grid.cursor.point, &term.grid().cursor.point);
            for line in (0..grid.screen_lines()).map(Line::from) {
                prop_assert_eq!(&grid[line][..], &term.grid()[line][..]);
            }
        }
    }
}

#[test]
fn the_alternate_screen_is_cut_and_the_primary_screen_behind_it_wraps() {
    let mut screen = Screen::new(ScreenSize { rows: 3, cols: 10 });
    screen.feed(b"\n0123456789abc\x1b[?1049h\x1b[Hfull screen");
    screen.resize(ScreenSize { rows: 5, cols: 5 });
    assert_eq!(screen.text(), "full\nn");
    screen.feed(b"\x1b[?1049l");
    assert_eq!(screen.text(), "01234\n56789\nabc");
    assert_eq!(screen.size(), ScreenSize { rows: 5, cols: 5 });
}

#[test]
fn modes_survive_a_resize_and_the_scroll_region_does_not() {
    let mut screen = Screen::new(ScreenSize { rows: 3, cols: 10 });
    screen.feed(b"\x1b[?1049h\x1b[>1u\x1b[=5;1u\x1b[?2004h\x1b[2;3r");
    screen.resize(ScreenSize { rows: 9, cols: 10 });
    let bytes = String::from_utf8(screen.restore()).unwrap();
    assert!(
        bytes.contains("\x1b[>1u\x1b[=5;1u") && bytes.contains("\x1b[?2004h") && !bytes.contains("\x1b[2;3r")
    );
}

#[test]
fn a_coloured_row_that_grew_is_cleared_in_full() {
    let mut screen = Screen::new(ScreenSize { rows: 3, cols: 4 });
    screen.feed(b"\x1b[41m\r\n\n\n\n\n\x1b[m");
    screen.resize(ScreenSize { rows: 3, cols: 8 });
    screen.feed(b"\n\n\n");
    assert_eq!(screen.ansi(), "");
}
