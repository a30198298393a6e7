//! Appends, new segments, failures, and appends after them.

use std::cell::Cell;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use berth_journal::fake_disk::{DiskCounts, FakeDisk};
use berth_journal::{Journal, JournalDisk, JournalError, JournalLimits, RealDisk, Seq};
use berth_test_dir::TestDir;

use crate::common::{
    ByteRecord, FakeJournal, OWNER, create, note, notes, open, read, segment, segments, texts,
};

#[test]
fn events_are_numbered_from_one_and_come_back_in_order() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits::default());
    let committed = journal.append(notes(&["a", "b"])).unwrap();
    assert_eq!(committed.iter().map(|event| event.seq()).collect::<Vec<_>>(), [Seq(1), Seq(2)]);
    journal.append(notes(&["c"])).unwrap();
    assert_eq!(journal.next_seq(), Seq(4));
    journal.close().unwrap();

    let (journal, recovered) = open(&disk).unwrap();
    assert_eq!(texts(&recovered.events), ["a", "b", "c"]);
    assert_eq!(recovered.events[2].seq(), Seq(3));
    assert_eq!(recovered.torn, None);
    assert_eq!(journal.next_seq(), Seq(4));
}

#[test]
fn a_batch_is_one_write_and_one_sync_and_only_a_new_segment_syncs_the_directory() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits::default());
    assert_eq!(disk.counts(), DiskCounts::default());
    journal.append(notes(&["a", "b", "c"])).unwrap();
    assert_eq!(disk.counts(), DiskCounts { writes: 1, file_syncs: 1, dir_syncs: 1 });
    journal.append(notes(&["d", "e"])).unwrap();
    assert_eq!(disk.counts(), DiskCounts { writes: 2, file_syncs: 2, dir_syncs: 1 });
    journal.append(Vec::new()).unwrap();
    assert_eq!(disk.counts(), DiskCounts { writes: 2, file_syncs: 2, dir_syncs: 1 });
}

#[test]
fn a_full_segment_is_sealed_in_the_write_that_fills_it() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits { segment_bytes: 60, ..JournalLimits::default() });
    journal.append(notes(&["a"])).unwrap();
    journal.append(notes(&["b", "c"])).unwrap();
    // The index is the third write.
    assert_eq!(disk.counts(), DiskCounts { writes: 3, file_syncs: 2, dir_syncs: 1 });
    journal.append(notes(&["d"])).unwrap();
    assert_eq!(segments(&disk), [segment(1), segment(4)]);
    assert_eq!(texts(&read(&disk).unwrap()), ["a", "b", "c", "d"]);
    journal.close().unwrap();
    assert_eq!(texts(&open(&disk).unwrap().1.events), ["a", "b", "c", "d"]);
}

#[test]
fn a_closed_journal_is_opened_without_writing() {
    let disk = crate::common::written(&["a", "b"], true);
    let before = (disk.counts(), disk.files());
    let (journal, _) = open(&disk).unwrap();
    journal.close().unwrap();
    assert_eq!((disk.counts(), disk.files()), before);
}

#[test]
fn a_journal_can_be_reopened_any_number_of_times() {
    let disk = FakeDisk::new(0);
    drop(create(&disk, JournalLimits::default()));
    let mut expected = Vec::new();
    for round in 0..20 {
        let (mut journal, recovered) = open(&disk).unwrap();
        assert_eq!(texts(&recovered.events), expected);
        journal.append(vec![note(&format!("event {round}"))]).unwrap();
        expected.push(format!("event {round}"));
        match round % 3 {
            0 => journal.close().unwrap(),
            1 => drop(journal),
            _ => disk.crash(),
        }
    }
}

#[test]
fn a_record_over_the_limit_is_refused_before_anything_is_written() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits { record_bytes: 4, ..JournalLimits::default() });
    let refused = journal.append(notes(&["fits", "not so"])).unwrap_err();
    assert!(matches!(refused, JournalError::RecordTooLarge { seq: Seq(2), bytes: 6, limit: 4 }), "{refused}");
    let refused = journal.append(notes(&[""])).unwrap_err();
    assert!(matches!(refused, JournalError::EmptyRecord { seq: Seq(1) }), "{refused}");
    assert_eq!(disk.counts(), DiskCounts::default());
    assert_eq!(journal.append(notes(&["fits"])).unwrap()[0].seq(), Seq(1));
}

#[test]
fn a_second_journal_in_the_same_directory_is_refused() {
    let disk = crate::common::written(&["a"], true);
    let refused = FakeJournal::create(disk, OWNER, JournalLimits::default()).err().unwrap();
    assert!(matches!(refused, JournalError::NotEmpty { .. }), "{refused}");
}

#[test]
fn a_segment_of_another_process_is_never_replaced() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits::default());
    disk.put(&segment(1), b"not ours");
    for _ in 0..2 {
        let refused = journal.append(notes(&["a"])).unwrap_err();
        assert!(matches!(refused, JournalError::Create { .. }), "{refused}");
    }
    assert_eq!(disk.files()[&segment(1)], b"not ours");
}

#[test]
fn after_a_failed_sync_the_next_append_supersedes_what_the_failed_one_left() {
    for seed in 0..50 {
        let disk = FakeDisk::new(seed);
        let mut journal = create(&disk, JournalLimits::default());
        journal.append(notes(&["a"])).unwrap();
        disk.fail_sync(1);
        let failed = journal.append(notes(&["lost", "lost too", "lost as well"])).unwrap_err();
        assert!(matches!(failed, JournalError::Sync { .. }), "{failed}");
        assert_eq!(journal.next_seq(), Seq(2));
        let old = disk.files()[&segment(1)].clone();
        assert_eq!(journal.append(notes(&["b"])).unwrap()[0].seq(), Seq(2));
        journal.append(notes(&["c"])).unwrap();
        assert_eq!(disk.files()[&segment(1)], old, "the segment is not touched again");
        assert_eq!(texts(&read(&disk).unwrap()), ["a", "b", "c"], "seed {seed}");
        disk.crash();
        assert_eq!(texts(&open(&disk).unwrap().1.events), ["a", "b", "c"], "seed {seed}");
    }
}

#[test]
fn a_failed_sync_of_the_first_segment_is_survived_whichever_sync_it_is() {
    for (seed, which) in (0..50).flat_map(|seed| [(seed, 1), (seed, 2)]) {
        let disk = FakeDisk::new(seed);
        let mut journal = create(&disk, JournalLimits::default());
        disk.fail_sync(which);
        journal.append(notes(&["lost"])).unwrap_err();
        disk.fail_sync(which);
        journal.append(notes(&["lost again"])).unwrap_err();
        journal.append(notes(&["a"])).unwrap();
        disk.crash();
        assert_eq!(texts(&open(&disk).unwrap().1.events), ["a"], "seed {seed}, sync {which}");
    }
}

#[test]
fn events_from_open_are_safe_even_if_an_earlier_sync_failed_silently() {
    for seed in 0..100 {
        let disk = FakeDisk::new(seed);
        let mut journal = create(&disk, JournalLimits::default());
        journal.append(notes(&["a"])).unwrap();
        disk.fail_sync(1);
        journal.append(notes(&["b"])).unwrap_err();
        drop(journal);
        // The process is gone, but the kernel is not: it may still show `b`, and considers it clean.
        let seen = texts(&open(&disk).unwrap().1.events);
        disk.crash();
        assert_eq!(texts(&open(&disk).unwrap().1.events), seen, "seed {seed}");
    }
}

#[test]
fn a_full_disk_loses_nothing_and_is_forgotten_when_there_is_space_again() {
    for free in 0..120 {
        let disk = FakeDisk::new(free as u64);
        let mut journal = create(&disk, JournalLimits::default());
        journal.append(notes(&["a"])).unwrap();
        disk.leave_free(free);
        let mut expected = vec!["a".to_owned()];
        for text in ["some forty bytes that may or may not fit", "second", "third"] {
            match journal.append(vec![note(text)]) {
                Ok(_) => expected.push(text.to_owned()),
                Err(JournalError::Write { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        disk.heal();
        journal.append(notes(&["z"])).unwrap();
        expected.push("z".to_owned());
        assert_eq!(texts(&read(&disk).unwrap()), expected, "{free} bytes free");
        disk.crash();
        assert_eq!(texts(&open(&disk).unwrap().1.events), expected, "{free} bytes free");
    }
}

#[test]
fn a_committed_event_survives_although_the_name_of_its_file_was_new() {
    for seed in 0..50 {
        let disk = FakeDisk::new(seed);
        let mut journal = create(&disk, JournalLimits { segment_bytes: 1, ..JournalLimits::default() });
        journal.append(notes(&["a"])).unwrap();
        journal.append(notes(&["b"])).unwrap();
        disk.crash();
        assert_eq!(texts(&open(&disk).unwrap().1.events), ["a", "b"], "seed {seed}");
    }
}

#[test]
fn a_reader_beside_the_writer_sees_every_committed_event_and_starts_where_it_likes() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits { segment_bytes: 100, ..JournalLimits::default() });
    assert_eq!(read(&disk).unwrap(), []);
    for n in 1..=30 {
        journal.append(vec![note(&n.to_string())]).unwrap();
        assert_eq!(read(&disk).unwrap().len(), n);
    }
    for from in 0..=32 {
        let seen = berth_journal::read_journal::<ByteRecord, _>(&disk, OWNER, Seq(from)).unwrap();
        let expected: Vec<String> = (from.max(1)..=30).map(|n| n.to_string()).collect();
        assert_eq!(texts(&seen), expected);
    }
}

#[test]
fn a_reader_in_the_middle_of_an_append_sees_a_prefix_and_writes_nothing() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits { segment_bytes: 90, ..JournalLimits::default() });
    for batch in [&["a"][..], &["b", "c"], &["d", "e", "f"], &["g"]] {
        let before = disk.files();
        let whole = {
            journal.append(notes(batch)).unwrap();
            disk.files()
        };
        let all = texts(&read(&disk).unwrap());
        // Every way the file system can show the write: each length of the file that grew.
        let mut grown = whole.iter().filter(|(name, bytes)| before.get(*name) != Some(bytes));
        let (name, bytes) = grown.find(|(name, _)| name.ends_with(".log")).unwrap();
        for length in before.get(name).map_or(0, Vec::len)..=bytes.len() {
            let mut files = whole.clone();
            files.get_mut(name).unwrap().truncate(length);
            let beside = crate::common::disk_with(&files);
            let seen = texts(&read(&beside).unwrap());
            assert!(seen.len() >= all.len() - batch.len() && all.starts_with(&seen), "{seen:?} at {length}");
            assert_eq!(beside.files(), files);
        }
    }
}

/// A directory that is listed while a segment is being made: the first listing is not the last word.
struct StaleListingDisk {
    disk: FakeDisk,
    missing: Cell<Option<String>>,
}

impl JournalDisk for StaleListingDisk {
    type File = ();

    fn list(&self) -> io::Result<Vec<String>> {
        let missing = self.missing.take();
        Ok(self.disk.list()?.into_iter().filter(|name| Some(name) != missing.as_ref()).collect())
    }

    fn read_at(&self, name: &str, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        self.disk.read_at(name, offset, most)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }

    fn create_new(&self, _: &str) -> io::Result<()> {
        unreachable!("a reader writes nothing")
    }

    fn append(&self, (): &mut (), _: &[u8]) -> io::Result<()> {
        unreachable!("a reader writes nothing")
    }

    fn sync_file(&self, (): &mut ()) -> io::Result<()> {
        unreachable!("a reader writes nothing")
    }

    fn sync_dir(&self) -> io::Result<()> {
        unreachable!("a reader writes nothing")
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unreachable!("a reader writes nothing")
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        unreachable!("a reader writes nothing")
    }
}

#[test]
fn a_reader_who_listed_the_directory_too_early_looks_again() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits { segment_bytes: 1, ..JournalLimits::default() });
    for text in ["a", "b", "c"] {
        journal.append(notes(&[text])).unwrap();
    }
    let early = StaleListingDisk { disk, missing: Cell::new(Some(segment(2))) };
    let seen = berth_journal::read_journal::<ByteRecord, _>(&early, OWNER, Seq(1)).unwrap();
    assert_eq!(texts(&seen), ["a", "b", "c"]);
}

#[test]
fn opening_removes_its_own_unfinished_files_and_no_others() {
    let disk = crate::common::written(&["a"], true);
    let (unfinished, stranger) = (format!("{}.new", segment(2)), "notes.new");
    disk.put(&unfinished, b"half");
    disk.put(stranger, b"mine");
    drop(open(&disk).unwrap());
    assert_eq!(disk.files().into_keys().collect::<Vec<_>>(), [segment(1), stranger.to_owned()]);
}

#[test]
fn an_event_that_this_program_does_not_know_is_named_and_kept() {
    let disk = crate::common::written(&["a", "unheard of"], true);
    let before = disk.files();
    let refused = open(&disk).err().unwrap();
    assert!(matches!(refused, JournalError::Undecodable { seq: Seq(2), .. }), "{refused}");
    assert_eq!(disk.files(), before);
}

#[test]
fn a_journal_works_on_a_real_disk_with_private_files() {
    let dir = TestDir::new();
    let disk = || RealDisk::new(dir.to_path_buf());
    let limits = JournalLimits { segment_bytes: 100, ..JournalLimits::default() };
    let mut journal: Journal<ByteRecord> = Journal::create(disk(), OWNER, limits).unwrap();
    for text in ["a", "b", "c", "d", "e"] {
        journal.append(notes(&[text])).unwrap();
    }
    drop(journal);
    let (mut journal, recovered) = Journal::<ByteRecord>::open(disk(), OWNER, limits).unwrap();
    assert_eq!(texts(&recovered.events), ["a", "b", "c", "d", "e"]);
    journal.append(notes(&["f"])).unwrap();
    journal.close().unwrap();
    let seen = berth_journal::read_journal::<ByteRecord, _>(&disk(), OWNER, Seq(5)).unwrap();
    assert_eq!(texts(&seen), ["e", "f"]);
    for entry in std::fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
    }
}

#[test]
fn a_piece_of_a_journal_is_read_without_the_files_behind_it() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits { segment_bytes: 60, ..JournalLimits::default() });
    let all: Vec<String> = (1..=40).map(|number| format!("note {number}")).collect();
    for text in &all {
        journal.append(vec![note(text)]).unwrap();
    }
    let piece = |from: usize, to: usize| {
        berth_journal::read_journal_range::<ByteRecord, _>(
            &disk,
            OWNER,
            Seq(from as u64),
            Seq(to as u64),
            usize::MAX,
        )
        .map(|it| texts(&it))
    };
    for from in 1..=41 {
        for to in [from - 1, from, from + 1, from + 7, 40, 1000] {
            let expected = &all[(from - 1).min(40)..to.clamp(from - 1, 40)];
            assert_eq!(piece(from, to).unwrap(), expected, "{from} to {to}");
        }
    }
    let little =
        berth_journal::read_journal_range::<ByteRecord, _>(&disk, OWNER, Seq(3), Seq(40), 10).unwrap();
    assert_eq!(texts(&little), all[2..4], "it goes on until there are ten bytes");
    // Segments without a wanted event are not read, so their damage is not found yet.
    let name = segments(&disk).into_iter().rev().nth(1).unwrap();
    let mut bytes = disk.files().remove(&name).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.put(&name, &bytes);
    assert_eq!(piece(1, 10).unwrap(), all[..10]);
    assert!(piece(1, 40).is_err());
}
