//! Streams are cut only where they may be.

use alacritty_terminal::vte::{Parser, Perform};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::cases;
use super::streams::{cuts, pieces, stream};
use crate::splitter::incomplete_utf8_bytes;
use crate::{HELD_LIMIT_BYTES, StreamSplitter};

fn push(splitter: &mut StreamSplitter, bytes: &[u8]) -> Vec<u8> {
    splitter.push(bytes).into_owned()
}

#[test]
fn plain_text_and_whole_sequences_pass_without_a_copy() {
    let mut splitter = StreamSplitter::new();
    for whole in [
        "plain é 漢字 text\r\n",
        "\x1b[1;31mred\x1b[0m",
        "\x1b]0;title\x07x",
        "\x1b]0;title\x1b\\",
        "\x1b(B\x1b#8\x1b7",
        "\x1bPq picture\x1b\\",
        "\x1b_app\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\",
        "\x1b[12\x18",
        "\x1b]0;x\x1a",
        "\x1b[1\x1b[m",
    ] {
        let passed = splitter.push(whole.as_bytes());
        assert!(matches!(passed, std::borrow::Cow::Borrowed(_)), "{whole:?}");
        assert_eq!(&*passed, whole.as_bytes());
        assert!(!splitter.is_inside_sequence());
    }
    assert_eq!(splitter.flush(), b"");
}

#[test]
fn a_sequence_is_held_back_until_it_is_whole() {
    for (sequence, first_whole) in [
        ("\x1b[38;5;1m", 9),
        ("\x1b]0;title\x07", 10),
        ("\x1b]0;title\x1b\\", 11),
        ("\x1b(B", 3),
        ("\x1b#8", 3),
        ("\x1bP+q544e\x1b\\", 10),
        ("\x1b_G\x07x\x1b\\", 7),
        ("\x1b[1\x1b]0;x\x07", 9),
        ("é", 2),
        ("漢", 3),
        ("😀", 4),
    ] {
        let bytes = sequence.as_bytes();
        assert_eq!(bytes.len(), first_whole);
        let mut splitter = StreamSplitter::new();
        for (index, byte) in bytes.iter().enumerate() {
            let passed = push(&mut splitter, &[*byte]);
            let wanted = if index + 1 == first_whole { bytes } else { b"" };
            assert_eq!(passed, wanted, "{sequence:?} at {index}");
        }
    }
}

#[test]
fn text_before_a_half_sequence_passes_at_once() {
    let mut splitter = StreamSplitter::new();
    assert_eq!(push(&mut splitter, b"text\x1b[3"), b"text");
    assert_eq!(push(&mut splitter, b"1mred\xe2\x82"), b"\x1b[31mred");
    assert_eq!(push(&mut splitter, b"\xac\x1b"), "€".as_bytes());
    assert_eq!(splitter.flush(), b"\x1b");
    assert_eq!(push(&mut splitter, b"[x"), b"[x");
}

#[test]
fn invalid_bytes_are_never_held_back() {
    for invalid in [
        &b"\xff"[..],
        b"\x80",
        b"\xc0",
        b"\xc1",
        b"\xe0\x80",
        b"\xed\xa0",
        b"\xf4\x90",
        b"\xf5",
        b"a\xe2\x28",
        b"\xf0\x9f\x98\x41",
    ] {
        assert_eq!(push(&mut StreamSplitter::new(), invalid), invalid);
    }
}

#[test]
fn a_picture_over_the_limit_passes_torn_until_it_ends() {
    let mut splitter = StreamSplitter::new();
    let half = [b"x\x1bPq".as_slice(), &vec![b'~'; HELD_LIMIT_BYTES / 2]].concat();
    let more = vec![b'~'; HELD_LIMIT_BYTES / 2];
    assert_eq!(push(&mut splitter, &half), b"x");
    assert!(!splitter.is_inside_sequence());
    assert_eq!(push(&mut splitter, &more).len(), half.len() - 1 + more.len());
    assert!(splitter.is_inside_sequence());
    assert_eq!(push(&mut splitter, b"more"), b"more");
    assert!(splitter.is_inside_sequence());
    assert_eq!(push(&mut splitter, b"\x1b"), b"\x1b");
    assert!(splitter.is_inside_sequence());
    assert_eq!(push(&mut splitter, b"\\text\x1b["), b"\\text");
    assert!(!splitter.is_inside_sequence());
}

#[test]
fn a_picture_over_the_limit_in_one_piece_is_torn_too() {
    let mut splitter = StreamSplitter::new();
    let picture = [b"\x1b_G".as_slice(), &vec![b'A'; 2 * HELD_LIMIT_BYTES]].concat();
    assert_eq!(push(&mut splitter, &picture), picture);
    assert!(splitter.is_inside_sequence());
    assert_eq!(push(&mut splitter, b"\x1b\\"), b"\x1b\\");
    assert!(!splitter.is_inside_sequence());
}

#[test]
fn a_dropping_splitter_leaves_out_what_is_too_long_and_nothing_else() {
    let mut splitter = StreamSplitter::dropping(16);
    assert_eq!(push(&mut splitter, b"a\x1b]0;0123456789"), b"a");
    assert_eq!(push(&mut splitter, b"0123456789"), b"");
    assert_eq!(push(&mut splitter, b"x\x07b\x1b[m\x1bP0123456789012345678"), b"b\x1b[m");
    assert_eq!(push(&mut splitter, b"\x1b\\c"), b"c");
    assert!(!splitter.is_inside_sequence());
}

/// Notices whether the last byte was printed.
struct PrintDetector(bool);

impl Perform for PrintDetector {
    fn print(&mut self, _character: char) {
        self.0 = true;
    }
}

/// True if a terminal that has read `stream` prints an `x` that follows.
fn ends_in_ground(stream: &[u8]) -> bool {
    let mut parser: Parser = Parser::new();
    let mut ground = PrintDetector(false);
    parser.advance(&mut ground, stream);
    ground.0 = false;
    parser.advance(&mut ground, b"x");
    ground.0
}

fn grammar_bytes() -> impl Strategy<Value = Vec<u8>> {
    // 0x9c is left out: the parser takes it for the end of a device control string, see `State`.
    let likely =
        select(b"\x1b\x1b\x1b[]P_X^\\()#;0123mhHqc \x07\x18\x1a\r\n~x\xc3\xa9\xe2\x82\xac\xf0\x9f".to_vec());
    vec(prop_oneof![9 => likely, 1 => any::<u8>().prop_filter("ST", |byte| *byte != 0x9c)], 0..60)
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn pieces_end_in_ground_state_and_are_the_whole_stream_together(bytes in grammar_bytes(), cuts in cuts()) {
        let mut splitter = StreamSplitter::new();
        let mut passed = Vec::new();
        for piece in pieces(&bytes, &cuts) {
            passed.extend(push(&mut splitter, &piece));
            prop_assert!(ends_in_ground(&passed), "{:?}", passed);
            let next = bytes.get(passed.len());
            let goes_on = next.is_none_or(|next| matches!(next, 0x80..0xc0));
            prop_assert!(incomplete_utf8_bytes(&passed) == 0 || !goes_on, "{:?}", passed);
        }
        let held = splitter.flush();
        // Nothing was held back without need.
        prop_assert!(held.is_empty() || held[0] == 0x1b || held.len() <= 3);
        passed.extend(held);
        prop_assert_eq!(passed, bytes);
    }

    #[test]
    fn a_stream_of_whole_items_holds_nothing_back_at_its_end(bytes in stream(20)) {
        let mut splitter = StreamSplitter::new();
        splitter.push(&bytes);
        let held = splitter.flush();
        prop_assert_eq!(held, b"");
    }
}
