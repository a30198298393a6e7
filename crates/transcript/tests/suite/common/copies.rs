//! Test helpers for copies of transcripts, and their findings.

use std::fs;
use std::path::PathBuf;

use berth_transcript::check::check;
use berth_transcript::repair::{RepairOptions, RepairResult, repair};
use serde_json::Value;

use crate::common::TranscriptTestHome;
use crate::common::talk::{lines, resumed};

/// A place with an original in it.
pub(crate) struct RepairFixture {
    pub(crate) home: TranscriptTestHome,
    pub(crate) original: PathBuf,
    pub(crate) copy: PathBuf,
}

impl RepairFixture {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let home = TranscriptTestHome::new();
        let (original, copy) = (home.0.join("talk.jsonl"), home.0.join("copy.jsonl"));
        fs::write(&original, bytes).unwrap();
        Self { home, original, copy }
    }

    pub(crate) fn repair(&self, wish: &RepairOptions) -> Result<RepairResult, String> {
        let before =
            (fs::read(&self.original).unwrap(), fs::metadata(&self.original).unwrap().modified().unwrap());
        let made = repair(&self.original, &self.copy, wish);
        let after =
            (fs::read(&self.original).unwrap(), fs::metadata(&self.original).unwrap().modified().unwrap());
        assert!(before == after, "the original was changed");
        made
    }

    pub(crate) fn mended(&self) -> (RepairResult, Vec<u8>) {
        let made = self.repair(&RepairOptions::default()).unwrap();
        assert_eq!(made.left, [], "{made:#?}");
        let report = check(&self.copy, &mut |_| {}).unwrap();
        assert!(report.is_clean(), "{report:#?}");
        (made, fs::read(&self.copy).unwrap())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.home.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Checks the dialogue that a resume of the copy has.
#[track_caller]
pub(crate) fn mends(records: &[Value], expected: &[&str]) -> (RepairResult, RepairFixture) {
    let place = RepairFixture::new(&lines(records));
    let (made, bytes) = place.mended();
    assert_eq!(resumed(&bytes), expected, "{made:#?}\n{}", String::from_utf8_lossy(&bytes));
    (made, place)
}
