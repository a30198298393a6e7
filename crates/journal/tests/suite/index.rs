//! The index beside a segment, and checkpoints: they save reads, and are never believed unchecked.

use std::collections::BTreeMap;

use berth_journal::fake_disk::{FakeDisk, SplitMix64};
use berth_journal::{Checkpoint, Journal, JournalError, JournalLimits, Seq};

use crate::common::{ByteRecord, FakeJournal, OWNER, create, disk_with, note, notes, segments, texts};

const LIMITS: JournalLimits =
    JournalLimits { segment_bytes: 40_000, record_bytes: 1 << 20, merge_bytes: 1000 };
const EVENTS: u64 = 1000;

fn index(first: u64) -> String {
    format!("{first:020}.idx")
}

/// A journal of several segments, the last of which is neither small nor full.
fn long_journal() -> (FakeDisk, FakeJournal) {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, LIMITS);
    for n in 1..=EVENTS {
        journal.append(vec![note(&format!("event {n} {}", "x".repeat(80)))]).unwrap();
    }
    assert!(segments(&disk).len() >= 3);
    (disk, journal)
}

fn piece(disk: &FakeDisk, from: u64, to: u64) -> Vec<String> {
    let seen =
        berth_journal::read_journal_range::<ByteRecord, _>(disk, OWNER, Seq(from), Seq(to), usize::MAX)
            .unwrap();
    texts(&seen)
}

fn inspect_from(disk: &FakeDisk, checkpoint: Checkpoint) -> Result<Option<Vec<String>>, JournalError> {
    let unsettled = Journal::<ByteRecord, _>::inspect_from(disk.clone(), OWNER, LIMITS, checkpoint)?;
    let after = berth_journal::read_journal_after::<ByteRecord, _>(disk, OWNER, checkpoint)?;
    let seen = unsettled.map(|unsettled| texts(unsettled.events()));
    assert_eq!(after.map(|events| texts(&events)), seen, "a reader and a writer agree on a checkpoint");
    Ok(seen)
}

fn read_bytes(disk: &FakeDisk, act: impl FnOnce()) -> u64 {
    let before = disk.read_bytes();
    act();
    disk.read_bytes() - before
}

#[test]
fn reading_one_event_costs_the_same_wherever_it_is() {
    let (disk, _journal) = long_journal();
    for from in [2, 17, EVENTS / 2, EVENTS - 1, EVENTS, EVENTS + 1, u64::MAX] {
        let read = read_bytes(&disk, || {
            assert_eq!(piece(&disk, from, from).len(), usize::from(from <= EVENTS));
        });
        assert!(read < 10_000, "{read} bytes to read event {from}");
    }
    // Without the index, a segment is read from its start.
    let without = disk_with(disk.files().iter().filter(|(name, _)| name.ends_with(".log")));
    let read = read_bytes(&without, || assert_eq!(piece(&without, 300, 300).len(), 1));
    assert!(read > 20_000, "{read} bytes");
}

#[test]
fn reading_a_piece_from_the_middle_costs_little_more_than_the_piece() {
    let (disk, _journal) = long_journal();
    let file = segments(&disk).remove(0);
    let segment_bytes = disk.files()[&file].len() as u64;
    for piece_bytes in [1000, 4096, 8192] {
        let read = read_bytes(&disk, || {
            let (from, to) = (Seq(2), Seq(u64::MAX));
            let events =
                berth_journal::read_journal_range::<ByteRecord, _>(&disk, OWNER, from, to, piece_bytes)
                    .unwrap();
            let bytes: usize = texts(&events).iter().map(String::len).sum();
            assert!((piece_bytes..piece_bytes + 200).contains(&bytes), "{bytes} of {piece_bytes}");
        });
        // The smallest read, the headers of this segment and the next, and a look into the index.
        let allowed = 4096.max(piece_bytes as u64 * 3 / 2 + 512) + 100;
        assert!(read <= allowed && allowed < segment_bytes / 2, "{read} bytes for {piece_bytes}");
    }
}

#[test]
fn garbage_in_an_index_changes_what_a_read_costs_and_not_what_it_finds() {
    let (whole, _journal) = long_journal();
    let files = whole.files();
    let truth = piece(&whole, 1, u64::MAX);
    let mut rng = SplitMix64::new(1);
    for round in 0..300 {
        let disk = disk_with(&files);
        for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".idx")) {
            let mut hurt = bytes.clone();
            match rng.below(5) {
                0 => hurt.truncate(rng.below(hurt.len() as u64) as usize),
                1 => hurt.fill_with(|| rng.draw() as u8),
                // Offsets of other events, so that each frame there is a good one.
                2 => hurt.rotate_left(4 * (1 + rng.below(20) as usize)),
                3 => hurt.extend_from_slice(bytes),
                _ => hurt.fill(0),
            }
            disk.put(name, &hurt);
        }
        for _ in 0..20 {
            let from = 1 + rng.below(EVENTS + 5);
            let to = from + rng.below(30);
            let expected = &truth[(from as usize - 1).min(truth.len())..(to as usize).min(truth.len())];
            assert_eq!(piece(&disk, from, to), expected, "round {round}: {from} to {to}");
        }
    }
}

#[test]
fn opening_makes_an_index_where_there_is_none_or_a_wrong_one() {
    let (whole, journal) = long_journal();
    journal.close().unwrap();
    let right: BTreeMap<String, Vec<u8>> = whole.files();
    let logs = right.iter().filter(|(name, _)| name.ends_with(".log"));
    let disk = disk_with(logs);
    disk.put(&index(1), b"garbage");
    drop(Journal::<ByteRecord, _>::open(disk.clone(), OWNER, LIMITS).unwrap());
    assert_eq!(disk.files(), right);
}

#[test]
fn opening_behind_a_checkpoint_makes_an_index_for_older_segments_without_one() {
    let (whole, journal) = long_journal();
    let checkpoint = journal.checkpoint().unwrap();
    journal.close().unwrap();
    let right = whole.files();
    let disk = disk_with(right.iter().filter(|(name, _)| **name != index(1)));
    let unsettled = Journal::<ByteRecord, _>::inspect_from(disk.clone(), OWNER, LIMITS, checkpoint).unwrap();
    drop(unsettled.unwrap().settle().unwrap());
    assert_eq!(disk.files(), right);
}

#[test]
fn opening_behind_a_checkpoint_costs_the_tail() {
    let (disk, mut journal) = long_journal();
    let checkpoint = journal.checkpoint().unwrap();
    assert_eq!(checkpoint.seq, Seq(EVENTS));
    journal.append(notes(&["tail 1", "tail 2"])).unwrap();
    drop(journal);
    let read = read_bytes(&disk, || {
        assert_eq!(inspect_from(&disk, checkpoint).unwrap().unwrap(), ["tail 1", "tail 2"]);
    });
    assert!(read < 5000, "{read} bytes");
    let unsettled = Journal::<ByteRecord, _>::inspect_from(disk.clone(), OWNER, LIMITS, checkpoint).unwrap();
    let (mut journal, recovered) = unsettled.unwrap().settle().unwrap();
    assert_eq!(texts(&recovered.events), ["tail 1", "tail 2"]);
    assert_eq!(journal.checkpoint().unwrap().seq, Seq(EVENTS + 2));
    assert_eq!(journal.append(notes(&["on"])).unwrap()[0].seq(), Seq(EVENTS + 3));
    disk.crash();
    assert_eq!(piece(&disk, EVENTS + 1, u64::MAX), ["tail 1", "tail 2", "on"]);
}

#[test]
fn checkpoint_of_any_event_leads_to_what_follows_it() {
    let disk = FakeDisk::new(0);
    let limits = JournalLimits { segment_bytes: 300, merge_bytes: 100, ..LIMITS };
    let mut checkpoints = Vec::new();
    let mut truth = Vec::new();
    for life in 0..12 {
        let (mut journal, _) = Journal::<ByteRecord, _>::open(disk.clone(), OWNER, limits).unwrap();
        for batch in 0..4 {
            let texts: Vec<String> = (0..=batch).map(|n| format!("{life} {batch} {n}")).collect();
            journal.append(texts.iter().map(|text| note(text)).collect()).unwrap();
            truth.extend(texts);
            checkpoints.push(journal.checkpoint().unwrap());
        }
        if life % 2 == 0 {
            journal.close().unwrap();
        }
        // Those of earlier lives as well, although their events have moved to other segments.
        for checkpoint in &checkpoints {
            let expected = &truth[checkpoint.seq.0 as usize..];
            assert_eq!(inspect_from(&disk, *checkpoint).unwrap().unwrap(), expected, "{checkpoint:?}");
        }
    }
}

#[test]
fn checkpoint_ahead_of_the_end_is_refused() {
    let (disk, mut journal) = long_journal();
    let before = disk.files();
    journal.append(notes(&["lost"])).unwrap();
    let ahead = journal.checkpoint().unwrap();
    let shorter = disk_with(&before);
    assert_eq!(inspect_from(&shorter, ahead).unwrap(), None);
    for seq in [EVENTS + 2, u64::MAX] {
        assert_eq!(inspect_from(&disk, Checkpoint { seq: Seq(seq), ..ahead }).unwrap(), None);
    }
    assert_eq!(inspect_from(&FakeDisk::new(0), ahead).unwrap(), None);
}

#[test]
fn checkpoint_of_an_event_that_was_superseded_is_refused() {
    let (disk, mut journal) = long_journal();
    let before = disk.files();
    journal.append(notes(&["this one"])).unwrap();
    let checkpoint = journal.checkpoint().unwrap();
    // An equal number in another history, first in an equal segment and then in one that supersedes it.
    let other = disk_with(&before);
    let (mut journal, _) = Journal::<ByteRecord, _>::open(other.clone(), OWNER, LIMITS).unwrap();
    journal.append(notes(&["another"])).unwrap();
    assert_eq!(inspect_from(&other, checkpoint).unwrap(), None);
    let log = segments(&disk).pop().unwrap();
    other.put(&log, &disk.files()[&log]);
    assert!(segments(&other).pop().unwrap() > log, "the event is there, in a segment that does not count");
    assert_eq!(inspect_from(&other, checkpoint).unwrap(), None);
}

#[test]
fn damage_behind_a_checkpoint_is_refused_and_damage_before_it_is_found_by_those_who_read_everything() {
    let (disk, mut journal) = long_journal();
    let checkpoint = journal.checkpoint().unwrap();
    for text in ["one", "two", "three"] {
        journal.append(notes(&[text])).unwrap();
    }
    drop(journal);
    let files = disk.files();
    let last = segments(&disk).pop().unwrap();
    let mut hurt = files[&last].clone();
    let at = hurt.len() - 2 * (20 + 5);
    hurt[at] ^= 1;
    disk.put(&last, &hurt);
    assert!(matches!(inspect_from(&disk, checkpoint), Err(JournalError::Corrupt { .. })));
    disk.put(&last, &files[&last]);
    // The event of the checkpoint itself.
    let mut hurt = files[&last].clone();
    let at = hurt.len() - 3 * (20 + 5);
    hurt[at] ^= 1;
    disk.put(&last, &hurt);
    assert!(matches!(inspect_from(&disk, checkpoint), Err(JournalError::Corrupt { .. })));
    disk.put(&last, &files[&last]);
    let oldest = segments(&disk).remove(0);
    let mut hurt = files[&oldest].clone();
    hurt[500] ^= 1;
    disk.put(&oldest, &hurt);
    assert_eq!(inspect_from(&disk, checkpoint).unwrap().unwrap(), ["one", "two", "three"]);
    crate::common::read(&disk).unwrap_err();
    berth_journal::chain_heads(&disk, OWNER, &[Seq(u64::MAX)]).unwrap_err();
    assert!(berth_journal::salvage_journal::<ByteRecord, _>(&disk, OWNER).1.is_some());
    crate::common::open(&disk).map(drop).unwrap_err();
}

#[test]
fn torn_end_behind_a_checkpoint_is_cut_and_kept() {
    let (disk, mut journal) = long_journal();
    let checkpoint = journal.checkpoint().unwrap();
    journal.append(notes(&["whole"])).unwrap();
    journal.append(notes(&["torn"])).unwrap();
    drop(journal);
    let last = segments(&disk).pop().unwrap();
    let mut torn = disk.files()[&last].clone();
    torn.pop();
    disk.put(&last, &torn);
    let unsettled = Journal::<ByteRecord, _>::inspect_from(disk.clone(), OWNER, LIMITS, checkpoint).unwrap();
    let (_, recovered) = unsettled.unwrap().settle().unwrap();
    assert_eq!(texts(&recovered.events), ["whole"]);
    let kept = recovered.torn.unwrap();
    let begin = torn.len() - (20 + 3);
    assert_eq!((kept.offset, kept.bytes), (begin as u64, 23));
    assert_eq!(disk.files()[&kept.kept_as], torn[begin..]);
    assert_eq!(piece(&disk, EVENTS + 1, u64::MAX), ["whole"]);
}

/// A reader may have seen events that no sync covered, so an opening copies the last write as a whole.
#[test]
fn opening_behind_a_checkpoint_in_the_last_write_settles_all_of_that_write() {
    let (disk, mut journal) = long_journal();
    journal.append(notes(&["one", "two", "three"])).unwrap();
    let checkpoint = journal.checkpoint().unwrap();
    drop(journal);
    let unsettled = Journal::<ByteRecord, _>::inspect_from(disk.clone(), OWNER, LIMITS, checkpoint).unwrap();
    drop(unsettled.unwrap().settle().unwrap());
    assert_eq!(segments(&disk).pop().unwrap(), crate::common::segment(EVENTS + 1));
    assert_eq!(piece(&disk, EVENTS + 1, u64::MAX), ["one", "two", "three"]);
}
