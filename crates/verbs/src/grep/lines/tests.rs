//! Tests of the fast path against the slow one, on streams made to hide words.

use std::fs;

use berth_harness::{SeededRng, TestDir};

use super::super::pattern::PatternOptions;
use super::*;

const WORDS: [&str; 10] =
    ["error", "time out", "E2E", "naïve", "\"quoted\"", "C:\\new", "a/b", "😀 smile", "rrerror", "x"];
const CONTROLS: [&str; 16] = [
    "\x1b[1;31m",
    "\x1b[0m",
    "\x1b[1C",
    "\x1b[5;1H",
    "\x1b]0;error\x07",
    "\x1b]8;;http://error\x1b\\",
    "\x1b[?25l",
    "\x1b(B",
    "\r",
    "\x07",
    "\x08",
    "\x1b[",
    "\x1b]0;never ends",
    "\x1bM",
    "\x7f",
    "\x1b[20G",
];
const PATTERNS: [&str; 17] = [
    "error",
    "(?i)ERROR",
    "time out",
    "time +out",
    "err.r",
    "^error",
    "error$",
    r"\berror\b",
    "na.ve",
    "naïve",
    r#""quoted""#,
    r"C:\\new",
    "😀 smile",
    "error|naïve",
    r"\d\w\d|[a-e]/b",
    " smile",
    "(time|err)(or| out)",
];

fn pick<'a>(seed: &mut SeededRng, from: &[&'a str]) -> &'a str {
    from[seed.below(from.len() as u64) as usize]
}

/// Words with something between their characters.
fn terminal_line(seed: &mut SeededRng) -> Vec<u8> {
    let mut line = Vec::new();
    for _ in 0..seed.below(6) {
        for c in pick(seed, &WORDS).chars() {
            if seed.below(5) == 0 {
                line.extend_from_slice(pick(seed, &CONTROLS).as_bytes());
            }
            line.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        if seed.below(12) == 0 {
            line.push(seed.below(256) as u8);
        }
        line.push(b' ');
    }
    line.retain(|byte| *byte != b'\n');
    line
}

/// A terminal line as a record, with required and needless escapes of characters.
fn record_line(seed: &mut SeededRng) -> Vec<u8> {
    let said = String::from_utf8_lossy(&terminal_line(seed)).into_owned();
    let mut line = String::from(r#"{"type":"assistant","message":{"content":[{"text":""#);
    for c in said.chars() {
        match c {
            c if c.is_control() || seed.below(12) == 0 => {
                let mut units = [0; 2];
                line.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
            '"' | '\\' => line.extend(['\\', c]),
            '/' if seed.below(2) == 0 => line.push_str("\\/"),
            ' ' if seed.below(8) == 0 => line.push_str("\\n"),
            c => line.push(c),
        }
    }
    line.push_str("\"}]}}");
    match seed.below(10) {
        // An agent may write anything: half a record, or no record.
        0 => line.truncate(line.floor_char_boundary(line.len() / 2)),
        1 => return terminal_line(seed),
        _ => {}
    }
    line.into_bytes()
}

struct SearchedFiles {
    /// Removed with the test.
    _dir: TestDir,
    source: FileStream,
}

impl SearchedFiles {
    fn new(seed: &mut SeededRng, kind: StreamKind, bytes: &[u8]) -> Self {
        let dir = TestDir::new();
        let (mut pieces, mut begin) = (Vec::new(), 0);
        while begin < bytes.len() || pieces.is_empty() {
            let end = (begin + 1 + seed.below(bytes.len() as u64 + 1) as usize).min(bytes.len());
            let path = dir.join(format!("{begin}"));
            fs::write(&path, &bytes[begin..end]).unwrap();
            let bytes = (end - begin) as u64;
            pieces.push(StreamFile { path, start: begin as u64, bytes, until: u64::MAX });
            begin = end;
        }
        Self { _dir: dir, source: FileStream { kind, pieces } }
    }

    fn search(
        &self,
        pattern: &SearchPattern,
        context: ContextLines,
        range: Range<usize>,
    ) -> Vec<MatchedLine> {
        thread_local!(static SCRATCH: std::cell::RefCell<SearchBuffers> = std::cell::RefCell::default());
        let mut gather = MatchCollector::new(pattern, context, u64::MAX);
        let mut go_on = |_| ControlFlow::Continue(());
        SCRATCH.with_borrow_mut(|scratch| {
            search(&self.source, range, &mut gather, scratch, &mut go_on).unwrap();
        });
        gather.found
    }

    fn all(&self) -> Range<usize> {
        0..self.source.pieces.len()
    }
}

/// The matches without the gaps: the fast path does not know how much it left out.
fn plain(found: Vec<MatchedLine>) -> Vec<MatchedLine> {
    found.into_iter().map(|found| MatchedLine { gap: false, ..found }).collect()
}

/// Every pattern with every option, for the fast path and for the slow one.
fn patterns() -> Vec<(&'static str, SearchPattern, SearchPattern)> {
    let manners = [(false, false), (true, false), (false, true)];
    let made = PATTERNS.iter().flat_map(|pattern| manners.map(|manner| (*pattern, manner)));
    made.map(|(pattern, (ignore_case, words))| {
        let manner = PatternOptions { ignore_case, words, fixed: false };
        let short = SearchPattern::new(&[pattern.to_owned()], manner).unwrap();
        let long = SearchPattern { literals: None, ..short.clone() };
        (pattern, short, long)
    })
    .collect()
}

fn agree(name: &str, kind: StreamKind, line: fn(&mut SeededRng) -> Vec<u8>) {
    let mut seed = SeededRng::announce(name);
    let patterns = patterns();
    let short_ways = patterns.iter().filter(|(_, short, _)| short.literals.is_some()).count();
    assert!(short_ways * 3 > patterns.len() * 2, "{short_ways}: the test tests little");
    let mut found_some = 0;
    for _ in 0..30 {
        let lines: Vec<Vec<u8>> = (0..seed.below(12)).map(|_| line(&mut seed)).collect();
        let mut bytes = lines.join(&b"\n"[..]);
        if seed.below(2) == 0 {
            bytes.push(b'\n');
        }
        let files = SearchedFiles::new(&mut seed, kind, &bytes);
        for (pattern, short, long) in &patterns {
            let expected = plain(files.search(long, ContextLines::default(), files.all()));
            let found = plain(files.search(short, ContextLines::default(), files.all()));
            assert_eq!(found, expected, "{pattern} in {:?}", String::from_utf8_lossy(&bytes));
            let pieces = files.all().flat_map(|at| files.search(short, ContextLines::default(), at..at + 1));
            assert_eq!(plain(pieces.collect()), expected, "piece by piece: {pattern}");
            found_some += u64::from(!found.is_empty());
        }
    }
    assert!(found_some > 150, "{found_some}: the test tests nothing");
}

#[test]
fn in_terminal_output_the_short_way_finds_what_the_long_one_finds() {
    agree("terminal", StreamKind::Terminal, terminal_line);
}

#[test]
fn in_records_the_short_way_finds_what_the_long_one_finds() {
    agree("records", StreamKind::Records, record_line);
}

fn texts(found: &[MatchedLine]) -> Vec<String> {
    found.iter().map(|found| String::from_utf8_lossy(&found.text).into_owned()).collect()
}

#[test]
fn context_is_what_stands_around_and_gaps_are_told() {
    let mut seed = SeededRng::announce("context");
    let files = SearchedFiles::new(&mut seed, StreamKind::Terminal, b"1\n2\nhit\n4\n5\n6\n7\n8\nhit\n10\n");
    let pattern = SearchPattern::new(&["hit".to_owned()], PatternOptions::default()).unwrap();
    let found = files.search(&pattern, ContextLines { before: 1, after: 1 }, files.all());
    assert_eq!(texts(&found), ["2", "hit", "4", "8", "hit", "10"]);
    let gaps: Vec<bool> = found.iter().map(|found| found.gap).collect();
    assert_eq!(gaps, [true, false, false, true, false, false]);
    let offsets: Vec<u64> = found.iter().map(|found| found.offset).collect();
    assert_eq!(offsets, [2, 4, 8, 16, 18, 22]);
}

#[test]
fn a_line_longer_than_memory_is_searched_in_pieces_and_shown_around_the_match() {
    let mut seed = SeededRng::announce("long");
    let mut bytes = b"x ".repeat(MAX_LINE_BYTES + 1);
    let at = bytes.len() / 2;
    bytes[at..at + 6].copy_from_slice(b"needle");
    bytes.extend_from_slice(b"\nneedle again\n");
    let files = SearchedFiles::new(&mut seed, StreamKind::Terminal, &bytes);
    let pattern = SearchPattern::new(&["needle".to_owned()], PatternOptions::default()).unwrap();
    let found = files.search(&pattern, ContextLines::default(), files.all());
    assert_eq!(found.len(), 2, "{:?}", texts(&found));
    assert!(found[0].text.len() <= MAX_SHOWN_BYTES && found[0].cut == (true, true));
    let (begin, end) = found[0].spans[0];
    assert_eq!(&found[0].text[begin..end], b"needle");
    assert_eq!(texts(&found)[1], "needle again");
}

#[test]
fn a_search_can_be_ended_at_any_read() {
    let mut seed = SeededRng::announce("ended");
    let files = SearchedFiles::new(&mut seed, StreamKind::Terminal, &b"hit\n".repeat(CHUNK_BYTES));
    let pattern = SearchPattern::new(&["hit".to_owned()], PatternOptions::default()).unwrap();
    let mut gather = MatchCollector::new(&pattern, ContextLines::default(), u64::MAX);
    let mut reads = 0;
    let mut enough = |_| {
        reads += 1;
        ControlFlow::Break(())
    };
    search(&files.source, files.all(), &mut gather, &mut SearchBuffers::default(), &mut enough).unwrap();
    assert_eq!((reads, gather.matches), (1, 0));
}
