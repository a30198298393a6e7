//! Random streams, made of sequences that applications write.

use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use crate::ScreenSize;

/// An event of a screen.
#[derive(Clone, Debug)]
pub(super) enum ScreenTestStep {
    /// Whole sequences and characters.
    Bytes(Vec<u8>),
    Resize(ScreenSize),
}

/// Ways to the alternate screen that the emulator itself does not know.
pub(super) const OLDER_SCREENS: [&str; 7] = [
    "\x1b[?47h",
    "\x1b[?47l",
    "\x1b[?1047h",
    "\x1b[?1047l",
    "\x1b[?1048h",
    "\x1b[?1048l",
    "\x1b[?1048;1047h",
];

pub(super) fn size() -> impl Strategy<Value = ScreenSize> {
    (1..9u16, 2..22u16).prop_map(|(rows, cols)| ScreenSize { rows, cols })
}

pub(super) fn steps(most: usize) -> impl Strategy<Value = Vec<ScreenTestStep>> {
    vec(
        prop_oneof![
            40 => item().prop_map(ScreenTestStep::Bytes),
            1 => size().prop_map(ScreenTestStep::Resize),
        ],
        0..most,
    )
}

/// Whole sequences and characters, no resizes.
pub(super) fn stream(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(item(), 0..most).prop_map(|items| items.concat())
}

/// Mostly lines, as from a build or a test run.
pub(super) fn flood() -> impl Strategy<Value = Vec<u8>> {
    let item = prop_oneof![
        12 => lines(),
        4 => text(),
        4 => colours(),
        2 => fixed(),
        1 => item(),
    ];
    vec(item, 0..30).prop_map(|items| items.concat())
}

fn item() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        6 => text(),
        3 => lines(),
        5 => colours(),
        6 => moves(),
        6 => fixed(),
        3 => counted(),
        1 => repeats(),
    ]
    .boxed()
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[ -~]{1,30}".prop_map(String::into_bytes),
        2 => "[a漢字e\u{301}😀\u{200d}❤\u{fe0f}é ]{1,12}".prop_map(String::into_bytes),
        1 => select(vec![
            b"\xff".to_vec(), b"\x80".to_vec(), b"\xe2\x28\xa1".to_vec(), b"\xf0\x9f\x98!".to_vec(),
            b"\xc2\x85".to_vec(), b"\x7f".to_vec(), "\u{301}".into(),
        ]),
    ]
}

fn lines() -> impl Strategy<Value = Vec<u8>> {
    let end = select(vec![
        "\r\n",
        "\r\n",
        "\r\n",
        "\n",
        "\r",
        "\n\r",
        "\r\r\n",
        "\x1b[K\r\n",
        "\x1b[0m\r\n",
        "\t\r\n",
    ]);
    let line =
        ("[a-z漢\u{301} ]{0,26}", end).prop_map(|(text, end)| [text.as_bytes(), end.as_bytes()].concat());
    vec(line, 1..14).prop_map(|lines| lines.concat())
}

fn colours() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        select(vec![
            "0",
            "",
            "1",
            "2",
            "3",
            "4",
            "4:2",
            "4:3",
            "4:4",
            "4:5",
            "4:0",
            "7",
            "8",
            "9",
            "21",
            "22",
            "23",
            "24",
            "27",
            "28",
            "29",
            "31",
            "39",
            "42",
            "49",
            "94",
            "103",
            "38;5;196",
            "48;5;17",
            "38;2;1;2;3",
            "48;2;200;100;0",
            "38:2::9:8:7",
            "58:2::1:2:3",
            "58;5;9",
            "59",
            "1;4;31",
            "0;7",
        ])
        .prop_map(|parameters| format!("\x1b[{parameters}m").into_bytes()),
        select(vec!["", "1", "2", "7"]).prop_map(|mode| format!("\x1b[{mode}K").into_bytes()),
    ]
}

fn moves() -> impl Strategy<Value = Vec<u8>> {
    (0..11u16, 0..24u16, select(vec!['H', 'f', 'r']))
        .prop_map(|(row, column, last)| format!("\x1b[{row};{column}{last}").into_bytes())
}

fn counted() -> impl Strategy<Value = Vec<u8>> {
    let last = select("@ABCDEFGILMPSTXZb`ade".chars().collect::<Vec<_>>());
    (0..12u16, last).prop_map(|(count, last)| format!("\x1b[{count}{last}").into_bytes())
}

/// Repeats, often more than the screen has cells.
///
/// Not of a wide character in insert mode: on a line that does not scroll, because the region ends above it, the
/// emulator tears such characters apart in a pattern of its own, which shortening does not keep.
fn repeats() -> impl Strategy<Value = Vec<u8>> {
    (select(vec!["x", "\x1b[4l"]), 0..500u16)
        .prop_map(|(before, count)| format!("{before}\x1b[{count}b").into_bytes())
}

fn fixed() -> impl Strategy<Value = Vec<u8>> {
    let rare = select(vec![
        "\x1bc",
        "\x1b#8",
        "\x1b[?3h",
        "\x1b[3g",
        "\x1b[g",
        "\x1bH",
        "\x1b[?6h",
        "\x1b[?6l",
        "\x1b[20h",
        "\x1b[20l",
        "\x1b]2;a title; with more\x07",
        "\x1b]0;é\x1b\\",
        "\x1b[22t",
        "\x1b[23t",
        "\x1b]4;1;#102030\x07",
        "\x1b[c",
        "\x1b[>c",
        "\x1b[=c",
        "\x1b[>0q",
        "\x1b[5n",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b]11;?\x07",
        "\x1b[?996n",
        "\x1b[?u",
        "\x1b[?2026$p",
        "\x1bP$qm\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1b[18t",
        "\x1b[14t",
        "\x1b[?4m",
        "\x1bPq#0;2;0;0;0~~\x1b\\",
        "\x1b_Gi=1;AAAA\x1b\\",
        "\x1b^x\x1b\\",
        "\x1bXx\x18",
        "\x1b]52;c;aGk=\x07",
    ]);
    let common = select(vec![
        "\x1b[J",
        "\x1b[1J",
        "\x1b[2J",
        "\x1b[3J",
        "\x1b[H",
        "\x1b[r",
        "\x1b[2;4r",
        "\x1b[3;3r",
        "\x1b[20;30r",
        "\x1b[?1049h",
        "\x1b[?1049l",
        "\x1b7",
        "\x1b8",
        "\x1b[s",
        "\x1b[u",
        "\x1bM",
        "\x1bD",
        "\x1bE",
        "\x1b[4h",
        "\x1b[4l",
        "\x1b[?7l",
        "\x1b[?7h",
        "\x1b[?25l",
        "\x1b[?25h",
        "\x1b[?2026h",
        "\x1b[?2026l",
        "\x1b(0",
        "\x1b(B",
        "\x1b)0",
        "\x1b*0",
        "\x0e",
        "\x0f",
        "\t",
        "\t",
        "\x08",
        "\x07",
        "\x0b",
        "\r",
        "\n",
        "\0",
        "\x1b]8;id=a;http://a.example/;x\x1b\\",
        "\x1b]8;id=b;http://b.example\x07",
        "\x1b]8;;\x07",
        "\x1b[?1h",
        "\x1b[?1l",
        "\x1b=",
        "\x1b>",
        "\x1b[?1000h",
        "\x1b[?1002h",
        "\x1b[?1003h",
        "\x1b[?1003l",
        "\x1b[?1005h",
        "\x1b[?1006h",
        "\x1b[?1006l",
        "\x1b[?1016h",
        "\x1b[?1007l",
        "\x1b[?1042l",
        "\x1b[?1004h",
        "\x1b[?2004h",
        "\x1b[?2004l",
        "\x1b[>1u",
        "\x1b[>7u",
        "\x1b[<u",
        "\x1b[<9u",
        "\x1b[=5;1u",
        "\x1b[=2;2u",
        "\x1b[=1;3u",
        "\x1b[>4;2m",
        "\x1b[>4;1m",
        "\x1b[>4m",
        "\x1b[2 q",
        "\x1b[5 q",
        "\x1b[0 q",
        "\x1b[?12h",
        "\x1b[?12l",
        "\x1b[3\x1b[31m",
        "\x1b[3\x18",
        "\x1b[1\n2C",
        "\x1b]0;cut\x1b[4C",
        "\x1b[3\x0e1m",
    ]);
    prop_oneof![2 => rare, 10 => common, 1 => select(OLDER_SCREENS.to_vec())]
        .prop_map(|sequence| sequence.as_bytes().to_vec())
}

/// The bytes in pieces, cut anywhere.
pub(super) fn pieces(bytes: &[u8], cuts: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    let mut cuts = cuts.iter().cycle();
    while !rest.is_empty() {
        let length = usize::from(*cuts.next().unwrap_or(&255)).clamp(1, rest.len());
        let (piece, next) = rest.split_at(length);
        pieces.push(piece.to_vec());
        rest = next;
    }
    pieces
}

/// Lengths of pieces: often tiny, sometimes everything.
pub(super) fn cuts() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(vec![]), vec(1..4u8, 1..9), vec(any::<u8>(), 1..9)]
}
