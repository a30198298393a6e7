//! Helpers of the tests.

use berth_journal::fake_disk::FakeDisk;
use berth_journal::{Committed, Journal, JournalError, JournalLimits, JournalRecord, RecoveredJournal, Seq};

pub(crate) const OWNER: &str = "session-a";

/// The simplest record: its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteRecord(pub(crate) Vec<u8>);

impl JournalRecord for ByteRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes == b"unheard of" {
            Err("unknown kind of note".to_owned())
        } else {
            Ok(ByteRecord(bytes.to_vec()))
        }
    }
}

pub(crate) type FakeJournal = Journal<ByteRecord, FakeDisk>;

pub(crate) fn note(text: &str) -> ByteRecord {
    ByteRecord(text.as_bytes().to_vec())
}

pub(crate) fn notes(texts: &[&str]) -> Vec<ByteRecord> {
    texts.iter().map(|text| note(text)).collect()
}

pub(crate) fn texts(events: &[Committed<ByteRecord>]) -> Vec<String> {
    events.iter().map(|event| String::from_utf8_lossy(&event.0).into_owned()).collect()
}

pub(crate) fn create(disk: &FakeDisk, limits: JournalLimits) -> FakeJournal {
    Journal::create(disk.clone(), OWNER, limits).expect("the disk is empty")
}

pub(crate) fn open(disk: &FakeDisk) -> Result<(FakeJournal, RecoveredJournal<ByteRecord>), JournalError> {
    Journal::open(disk.clone(), OWNER, JournalLimits::default())
}

pub(crate) fn read(disk: &FakeDisk) -> Result<Vec<Committed<ByteRecord>>, JournalError> {
    berth_journal::read_journal(disk, OWNER, Seq(1))
}

/// `00000000000000000001.log`
pub(crate) fn segment(first: u64) -> String {
    format!("{first:020}.log")
}

/// The names of all segments, in order.
pub(crate) fn segments(disk: &FakeDisk) -> Vec<String> {
    disk.files().into_keys().filter(|name| name.ends_with(".log")).collect()
}

/// A journal with one write for each text, closed or not.
pub(crate) fn written(texts: &[&str], closed: bool) -> FakeDisk {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits::default());
    for text in texts {
        journal.append(vec![note(text)]).unwrap();
    }
    if closed {
        journal.close().unwrap();
    }
    disk
}

/// A fresh disk with these files.
pub(crate) fn disk_with<'a>(files: impl IntoIterator<Item = (&'a String, &'a Vec<u8>)>) -> FakeDisk {
    let disk = FakeDisk::new(0);
    for (name, bytes) in files {
        disk.put(name, bytes);
    }
    disk
}
