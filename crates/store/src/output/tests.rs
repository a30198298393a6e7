//! The output files against a model that is one long vector of bytes.
//!
//! Small writes with many reopenings come from proptest: each reopening begins a file, so there are borders enough.
//! Files of full size are written once, and what takes gigabytes is made of holes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use berth_core::ClockReading;
use berth_test_dir::TestDir;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::{INDEX_EVERY_MS, KEEP_BYTES, OutputChange, OutputFiles, OutputLog, SEGMENT_BYTES, TerminalSize};
use crate::SessionFiles;

/// Directory of the test's session in its state directory.
const SESSION: &str = "sessions/0123456789ab";

/// A time at which both clocks show the same number.
fn at(ms: u64) -> ClockReading {
    ClockReading { wall_ms: ms, boot_ms: ms }
}

/// A state directory with one session.
struct OutputTestDir(TestDir);

impl OutputTestDir {
    fn new() -> Self {
        let dir = TestDir::new();
        fs::create_dir_all(dir.join(SESSION)).expect("our own directory");
        Self(dir)
    }

    /// Directory of the output; it does not exist before the first byte does.
    fn output(&self) -> PathBuf {
        self.0.join(SESSION).join("output")
    }
}

/// Bytes that encode their own offset.
fn bytes_at(offset: u64, length: usize) -> Vec<u8> {
    let byte = |at: u64| (at ^ (at >> 8) ^ (at >> 16)).wrapping_mul(167) as u8;
    (offset..offset + length as u64).map(byte).collect()
}

/// Appends all of `bytes`, in as many calls as that takes. The time does not change meanwhile.
fn append_all(log: &mut OutputLog, bytes: &[u8], now_ms: u64) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (taken, remark) = log.append(rest, at(now_ms)).expect("the disk has room");
        assert_eq!(remark, None, "so little is not dropped");
        rest = &rest[taken..];
    }
}

/// Reads from `offset` to the end with a buffer of this size, as a client does.
fn reader(out: &Path) -> OutputFiles {
    let session = out.parent().expect("the directory of a session");
    SessionFiles::understand(session.as_os_str()).expect("a session").output()
}

fn read_all(dir: &Path, mut offset: u64, buffer_bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; buffer_bytes];
    let mut all = Vec::new();
    loop {
        let (count, from) = reader(dir).read_at(offset, &mut buffer).expect("readable");
        assert!(from >= offset, "reading never goes back");
        if count == 0 {
            return all;
        }
        all.extend_from_slice(&buffer[..count]);
        offset = from + count as u64;
    }
}

fn files(dir: &Path, kind: &str) -> Vec<(u64, u64)> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .expect("the directory is there")
        .map(|entry| entry.expect("readable"))
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name.strip_suffix(kind)?.parse().ok()?, entry.metadata().ok()?.len()))
        })
        .collect();
    found.sort_unstable();
    found
}

#[derive(Clone, Debug)]
enum OutputTestStep {
    Write(usize),
    Reopen,
    Wait(u64),
    ReadFrom { at: u64, buffer_bytes: usize },
    Tail(u64),
    Finish,
}

fn steps() -> impl Strategy<Value = Vec<OutputTestStep>> {
    let step = prop_oneof![
        4 => (1..400_usize).prop_map(OutputTestStep::Write),
        1 => Just(OutputTestStep::Reopen),
        2 => (0..300_u64).prop_map(OutputTestStep::Wait),
        2 => (any::<u64>(), 1..100_usize).prop_map(|(at, buffer_bytes)| OutputTestStep::ReadFrom { at, buffer_bytes }),
        1 => (0..2000_u64).prop_map(OutputTestStep::Tail),
        1 => Just(OutputTestStep::Finish),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_was_written_is_read_back_from_every_offset(steps in steps()) {
        let dir = OutputTestDir::new();
        let out = dir.output();
        let mut log = reader(&out).open_log().expect("a new log");
        let mut written: Vec<u8> = Vec::new();
        let mut now_ms = 1_000_000;
        // Time and first offset of each write, for checking the time index.
        let mut writes: Vec<(u64, u64)> = Vec::new();
        for step in steps {
            let end = written.len() as u64;
            match step {
                OutputTestStep::Write(length) => {
                    let bytes = bytes_at(end, length);
                    append_all(&mut log, &bytes, now_ms);
                    written.extend(bytes);
                    writes.push((now_ms, end));
                }
                OutputTestStep::Reopen => {
                    log = reader(&out).open_log().expect("it can be opened again");
                    // A new keeper is never so fast that the clock shows an unchanged time.
                    now_ms += INDEX_EVERY_MS;
                }
                OutputTestStep::Wait(ms) => now_ms += ms,
                OutputTestStep::ReadFrom { at, buffer_bytes } => {
                    // Up to a little behind the end.
                    let at = at % (end + 10);
                    let expected = written.get(at as usize..).unwrap_or_default();
                    prop_assert_eq!(read_all(&out, at, buffer_bytes), expected);
                }
                OutputTestStep::Tail(limit) => {
                    let from = end.saturating_sub(limit) as usize;
                    prop_assert_eq!(reader(&out).tail(0, limit).expect("readable"), &written[from..]);
                }
                OutputTestStep::Finish => log.finish().expect("the disk syncs"),
            }
            prop_assert_eq!(log.end(), written.len() as u64);
            prop_assert_eq!(reader(&out).end().expect("readable"), log.end());
        }
        let index = reader(&out).time_index().expect("readable");
        prop_assert!(index.iter().all(|pair| writes.contains(pair)), "{:?} is not among {:?}", index, writes);
        prop_assert_eq!(index.first(), writes.first());
        for pair in index.windows(2) {
            prop_assert!(pair[1].0 >= pair[0].0 + INDEX_EVERY_MS, "{:?} is too often", pair);
            prop_assert!(pair[1].1 > pair[0].1, "{:?} goes back", pair);
        }
        // No write is far from an indexed time: its time is at most one interval behind the last record before it.
        for (when, offset) in writes {
            let noted = index.iter().rfind(|(_, from)| *from <= offset).expect("the first write is noted");
            prop_assert!(when < noted.0 + INDEX_EVERY_MS, "{} at {} has only {:?}", offset, when, noted);
        }
    }
}

#[test]
fn a_full_file_is_followed_by_the_next_and_reading_crosses_the_border() {
    const CHUNK_BYTES: usize = 64 * 1024 - 7;
    let dir = OutputTestDir::new();
    let out = dir.output();
    let mut log = reader(&out).open_log().expect("a new log");
    let total = 2 * SEGMENT_BYTES + SEGMENT_BYTES / 4;
    let mut now_ms = 5_000;
    while log.end() < total {
        let chunk = bytes_at(log.end(), CHUNK_BYTES);
        append_all(&mut log, &chunk, now_ms);
        log.sync_if_due(now_ms).expect("the disk syncs");
        now_ms += 10;
    }
    log.finish().expect("the disk syncs");

    let segments = files(&out, ".out");
    assert_eq!(segments.len(), 3, "{segments:?}");
    for pair in segments.windows(2) {
        assert_eq!(pair[0].0 + pair[0].1, pair[1].0, "a file begins where the one before ends");
    }
    for (start, length) in &segments[..2] {
        let full = SEGMENT_BYTES..SEGMENT_BYTES + CHUNK_BYTES as u64;
        assert!(full.contains(length), "the file from {start} on has {length} bytes");
    }
    assert_eq!(log.file_start(), Some(segments[2].0));

    for (border, _) in &segments[1..] {
        let from = border - 100;
        let mut buffer = vec![0; 200];
        let (count, begin) = reader(&out).read_at(from, &mut buffer).expect("readable");
        assert_eq!((count, begin), (100, from), "one call reads one file");
        let (count, begin) = reader(&out).read_at(*border, &mut buffer).expect("readable");
        assert_eq!((count, begin), (200, *border));
        assert_eq!(buffer, bytes_at(*border, 200));
    }
    let last = SEGMENT_BYTES + SEGMENT_BYTES / 2;
    let tail = reader(&out).tail(0, last).expect("readable");
    assert!(tail == bytes_at(log.end() - last, last as usize), "the tail over two borders is something else");

    let index = reader(&out).time_index().expect("readable");
    assert!(index.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "times and offsets grow together");
    for (when, offset) in index {
        assert_eq!(offset, (when - 5_000) / 10 * CHUNK_BYTES as u64, "what came at {when} ms");
    }

    let end = log.end();
    drop(log);
    let mut log = reader(&out).open_log().expect("it can be opened again");
    assert_eq!((log.end(), log.file_start()), (end, None));
    append_all(&mut log, b"more", now_ms);
    assert_eq!(log.file_start(), Some(end));
    assert_eq!(read_all(&out, end - 3, 64), [bytes_at(end - 3, 3), b"more".to_vec()].concat());
}

#[test]
fn each_size_is_noted_at_the_first_byte_written_at_it_and_holds_for_later_offsets() {
    let dir = OutputTestDir::new();
    let out = dir.output();
    let size = |rows, cols| TerminalSize { rows, cols };
    let mut log = reader(&out).open_log().expect("it can be opened");
    log.set_size(24, 80);
    append_all(&mut log, b"0123", 1);
    // Of several sizes without output between them only the last one counts.
    log.set_size(30, 90);
    log.set_size(40, 100);
    append_all(&mut log, b"4567", 2);
    log.set_size(50, 110);
    drop(log);
    let mut log = reader(&out).open_log().expect("it can be opened");
    log.set_size(40, 100);
    append_all(&mut log, b"89", 3);
    log.set_size(2, 2);
    append_all(&mut log, b"ab", 4);
    let all = [(0, size(24, 80)), (4, size(40, 100)), (10, size(2, 2))];
    assert_eq!(reader(&out).sizes(0).expect("readable"), all);
    assert_eq!(reader(&out).sizes(3).expect("readable"), all);
    assert_eq!(reader(&out).sizes(5).expect("readable"), all[1..]);
    assert_eq!(reader(&out).sizes(9).expect("readable"), [(8, size(40, 100)), (10, size(2, 2))]);
    assert_eq!(reader(&out).sizes(11).expect("readable"), all[2..]);
    assert_eq!(reader(&out).range(2, 9).expect("readable"), b"2345678");
    assert_eq!(
        reader(&dir.0.join("sessions/ba9876543210/output")).sizes(0).expect("nothing is not an error"),
        []
    );
}

/// Makes a file of output that is one hole.
fn put_hole(dir: &Path, start: u64, length: u64) {
    fs::create_dir_all(dir).expect("the directory can be made");
    let file = File::create(dir.join(format!("{start:020}.out"))).expect("the file can be made");
    file.set_len(length).expect("a hole costs nothing");
}

#[test]
fn the_oldest_output_is_dropped_and_an_offset_before_it_reads_what_is_left() {
    let dir = OutputTestDir::new();
    let out = dir.output();
    let count = KEEP_BYTES / SEGMENT_BYTES + 3;
    for n in 0..count {
        put_hole(&out, n * SEGMENT_BYTES, SEGMENT_BYTES);
        fs::write(out.join(format!("{:020}.idx", n * SEGMENT_BYTES)), [0; 16]).expect("writable");
        fs::write(out.join(format!("{:020}.size", n * SEGMENT_BYTES)), [0; 12]).expect("writable");
    }
    let end = count * SEGMENT_BYTES;
    let mut log = reader(&out).open_log().expect("it can be opened");
    assert_eq!(log.end(), end);

    let (taken, remark) = log.append(b"new", at(7)).expect("the disk has room");
    assert_eq!(taken, 3);
    let first = files(&out, ".out")[0].0;
    assert_eq!(remark, Some(OutputChange::Dropped { before: first }), "what is gone is said");
    assert_eq!(end - first, KEEP_BYTES, "a full measure is kept behind the new file");
    assert!(files(&out, ".idx").iter().all(|(start, _)| *start >= first), "times without bytes are left");
    assert!(files(&out, ".size").iter().all(|(start, _)| *start >= first), "sizes without bytes are left");

    let mut buffer = [9; 10];
    for gone in [0, 1, first - 1] {
        assert_eq!(reader(&out).read_at(gone, &mut buffer).expect("readable"), (10, first), "from {gone}");
        assert_eq!(buffer, [0; 10]);
    }
    assert_eq!(reader(&out).tail(0, 5).expect("readable"), b"\0\0new");
    assert_eq!(log.append(b"er", at(8)).expect("the disk has room"), (2, None), "said once");
}

/// A power cut takes the end of a full file whose sync was still under way, and leaves the next one.
#[test]
fn output_behind_a_hole_left_by_a_power_cut_is_still_read() {
    let dir = OutputTestDir::new();
    let out = dir.output();
    fs::create_dir_all(&out).expect("the directory can be made");
    fs::write(out.join(format!("{:020}.out", 0)), b"before").expect("writable");
    fs::write(out.join(format!("{:020}.out", 10)), b"after").expect("writable");
    let mut buffer = [0; 64];
    for lost in 6..10 {
        assert_eq!(reader(&out).read_at(lost, &mut buffer).expect("readable"), (5, 10), "from {lost}");
        assert_eq!(&buffer[..5], b"after");
    }
    assert_eq!(read_all(&out, 0, 64), b"beforeafter");
    assert_eq!(reader(&out).tail(0, 12).expect("readable"), b"oreafter");
    assert_eq!(reader(&out).end().expect("readable"), 15);
}

#[test]
fn nothing_is_there_before_the_first_byte() {
    let dir = OutputTestDir::new();
    let out = dir.output();
    let log = reader(&out).open_log().expect("a new log");
    assert_eq!((log.end(), log.file_name(), log.sync_due_ms()), (0, None, None));
    assert!(!out.exists(), "looking makes no directory");
    assert_eq!(reader(&out).read_at(3, &mut [0; 8]).expect("readable"), (0, 3));
    assert_eq!(reader(&out).tail(0, 100).expect("readable"), b"");
    assert_eq!(reader(&out).time_index().expect("readable"), []);
    assert_eq!(reader(&out).end().expect("readable"), 0);
}
