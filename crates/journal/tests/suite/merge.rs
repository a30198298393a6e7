//! Many short lives of one journal: each takes over a small last segment and replaces it.

use berth_journal::fake_disk::FakeDisk;
use berth_journal::{Journal, JournalError, JournalLimits, SegmentDamage, Seq};

use crate::common::{
    ByteRecord, FakeJournal, OWNER, note, notes, open, read, segment, segments, texts, written,
};

fn open_with(disk: &FakeDisk, limits: JournalLimits) -> FakeJournal {
    Journal::<ByteRecord, _>::open(disk.clone(), OWNER, limits).unwrap().0
}

#[test]
fn number_of_segments_follows_from_the_size_and_not_from_the_number_of_lives() {
    let limits = JournalLimits { merge_bytes: 1000, ..JournalLimits::default() };
    let disk = FakeDisk::new(0);
    let mut expected = Vec::new();
    for life in 0..700 {
        let mut journal = open_with(&disk, limits);
        for text in [format!("began {life}"), format!("ended {life}")] {
            journal.append(vec![note(&text)]).unwrap();
            expected.push(text);
        }
        // Every third one is killed.
        if life % 3 != 0 {
            journal.close().unwrap();
        }
    }
    assert_eq!(texts(&read(&disk).unwrap()), expected);
    let bytes: usize = disk.files().values().map(Vec::len).sum();
    let most = bytes / 1000 + 1;
    assert!(segments(&disk).len() <= most, "{} segments for {bytes} bytes", segments(&disk).len());
}

#[test]
fn last_segment_that_is_large_is_left_as_it_is() {
    let disk = written(&["a", "b"], true);
    let before = disk.files();
    let mut journal = open_with(&disk, JournalLimits { merge_bytes: 50, ..JournalLimits::default() });
    journal.append(notes(&["c"])).unwrap();
    assert_eq!(segments(&disk), [segment(1), segment(3)]);
    assert_eq!(disk.files()[&segment(1)], before[&segment(1)]);
    assert_eq!(texts(&read(&disk).unwrap()), ["a", "b", "c"]);
}

#[test]
fn opening_a_closed_journal_writes_nothing_until_the_first_append() {
    let disk = written(&["a", "b"], true);
    let before = disk.files();
    let (mut journal, _) = open(&disk).unwrap();
    assert_eq!(disk.files(), before);
    journal.append(notes(&["c"])).unwrap();
    assert_eq!(segments(&disk), [segment(1)]);
    assert_eq!(texts(&read(&disk).unwrap()), ["a", "b", "c"]);
}

/// Committed events come back whatever the disk does, also events that are being taken over.
#[test]
fn power_may_go_and_syncs_may_fail_at_any_step_of_taking_over() {
    for seed in 0..40 {
        for (step, closed, fails) in (0..16).flat_map(|step| {
            [(step, true, true), (step, true, false), (step, false, true), (step, false, false)]
        }) {
            let disk = FakeDisk::new(seed);
            let mut journal =
                crate::common::create(&disk, JournalLimits { segment_bytes: 70, ..JournalLimits::default() });
            for text in ["a", "b", "c"] {
                journal.append(notes(&[text])).unwrap();
            }
            if closed {
                journal.close().unwrap();
            }
            if fails {
                disk.fail_sync(step + 1);
            } else {
                disk.cut_power_after(step);
            }
            let mut committed = vec!["a", "b", "c"];
            let mut tried = vec![];
            if let Ok((mut journal, recovered)) = open(&disk) {
                assert_eq!(texts(&recovered.events), committed);
                for text in ["d", "e"] {
                    match journal.append(notes(&[text])) {
                        Ok(_) => committed.push(text),
                        Err(_) => tried.push(text),
                    }
                }
            }
            disk.crash();
            let (_, recovered) =
                open(&disk).unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
            let seen = texts(&recovered.events);
            assert!(
                seen.starts_with(&committed.iter().map(ToString::to_string).collect::<Vec<_>>()),
                "{seen:?}"
            );
            let extra = &seen[committed.len()..];
            assert!(extra.len() <= 1 && extra.iter().all(|text| tried.contains(&text.as_str())), "{seen:?}");
        }
    }
}

/// A segment has its name only after its first write is on disk, so no crash explains a flaw there. To take it for a
/// torn end would lose every event that was taken over.
#[test]
fn flipped_byte_in_what_a_segment_took_over_is_damage_and_not_a_torn_end() {
    let disk = written(&["a", "b", "c"], true);
    let (mut journal, _) = open(&disk).unwrap();
    journal.append(notes(&["d"])).unwrap();
    drop(journal);
    let whole = disk.files()[&segment(1)].clone();
    for at in 32..whole.len() {
        for cut in [false, true] {
            let mut hurt = whole.clone();
            hurt[at] ^= 1;
            hurt.truncate(if cut { at } else { whole.len() });
            disk.put(&segment(1), &hurt);
            let before = disk.files();
            match open(&disk).err() {
                Some(JournalError::Corrupt {
                    damage: SegmentDamage::Frame { .. } | SegmentDamage::EndsEarly { .. },
                    ..
                }) => {}
                other => panic!("at {at}, cut {cut}: {other:?}"),
            }
            assert_eq!(disk.files(), before, "nothing was changed");
        }
    }
}

#[test]
fn torn_end_is_kept_aside_when_its_segment_is_taken_over() {
    let disk = written(&["a", "b"], false);
    let mut torn = disk.files()[&segment(1)].clone();
    torn.pop();
    disk.put(&segment(1), &torn);
    let (mut journal, recovered) = open(&disk).unwrap();
    assert_eq!(texts(&recovered.events), ["a"]);
    let kept = recovered.torn.unwrap().kept_as;
    assert_eq!(disk.files()[&kept], torn[53..]);
    let committed = journal.append(notes(&["c"])).unwrap();
    assert_eq!(committed[0].seq(), Seq(2));
    assert_eq!(segments(&disk), [segment(1)]);
    assert_eq!(texts(&read(&disk).unwrap()), ["a", "c"]);
}
