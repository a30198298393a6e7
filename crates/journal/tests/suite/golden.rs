//! The bytes of each format version, as they were when it was released. They never change. `v1` was written before a
//! small segment was taken over by the next one and before the header said how much of a segment was placed; `v1-placed`
//! after that.

use std::collections::BTreeMap;
use std::path::PathBuf;

use berth_journal::fake_disk::FakeDisk;
use berth_journal::{Journal, JournalLimits};

use crate::common::{ByteRecord, disk_with, notes, open, texts};

const EVENTS: [&str; 7] = ["created", "started", "said hello", "said more", "went on", "came back", "ended"];

fn golden(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version)
}

fn golden_files(version: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(golden(version)).unwrap().map(Result::unwrap);
    let files =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()));
    files.filter(|(name, _)| name.ends_with(".log")).collect()
}

/// A life with everything that version 1 has: a batch, a full segment, a segment that took over the one before, a seal.
fn write_v1() -> BTreeMap<String, Vec<u8>> {
    let disk = FakeDisk::new(0);
    let limits = JournalLimits { segment_bytes: 115, ..JournalLimits::default() };
    let mut journal = Journal::<ByteRecord, _>::create(disk.clone(), crate::common::OWNER, limits).unwrap();
    journal.append(notes(&EVENTS[..2])).unwrap();
    journal.append(notes(&EVENTS[2..3])).unwrap();
    journal.append(notes(&EVENTS[3..4])).unwrap();
    journal.append(notes(&EVENTS[4..5])).unwrap();
    drop(journal);
    let (mut journal, _) =
        Journal::<ByteRecord, _>::open(disk.clone(), crate::common::OWNER, limits).unwrap();
    journal.append(notes(&EVENTS[5..6])).unwrap();
    journal.append(notes(&EVENTS[6..7])).unwrap();
    journal.close().unwrap();
    disk.files().into_iter().filter(|(name, _)| name.ends_with(".log")).collect()
}

#[test]
fn version_1_is_read() {
    for version in ["v1", "v1-placed"] {
        let (_, recovered) = open(&disk_with(&golden_files(version))).unwrap();
        assert_eq!(texts(&recovered.events), EVENTS);
        assert_eq!(recovered.torn, None);
    }
}

#[test]
fn version_1_is_written_byte_for_byte() {
    assert_eq!(write_v1(), golden_files("v1-placed"));
}
