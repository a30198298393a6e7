//! Results of a crash are repaired, all other damage is refused, and no wrong event ever comes out.

use berth_journal::fake_disk::FakeDisk;
use berth_journal::{Journal, JournalError, JournalLimits, SegmentDamage, Seq};
use proptest::prelude::{ProptestConfig, any, prop, proptest};

use crate::common::{
    ByteRecord, OWNER, create, disk_with, notes, open, read, segment, segments, texts, written,
};

const TEXTS: [&str; 4] = ["first", "second", "third", "the last one"];

/// Three segments: a sealed one, one whose tail is superseded, and the superseding one.
fn three_segments(closed: bool) -> FakeDisk {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits { segment_bytes: 80, ..JournalLimits::default() });
    for text in TEXTS {
        journal.append(notes(&[text])).unwrap();
    }
    drop(journal);
    // A last segment that is small would be taken over, and there would be two.
    let limits = JournalLimits { merge_bytes: 0, ..JournalLimits::default() };
    let (mut journal, _) = Journal::open(disk.clone(), OWNER, limits).unwrap();
    journal.append(notes(&["fifth", "sixth"])).unwrap();
    if closed {
        journal.close().unwrap();
    }
    assert_eq!(segments(&disk), [segment(1), segment(3), segment(4)]);
    disk
}

fn damage(error: JournalError) -> (String, u64, SegmentDamage) {
    match error {
        JournalError::Corrupt { path, offset, damage } => {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), offset, damage)
        }
        other => panic!("expected damage, got: {other}"),
    }
}

#[test]
fn whatever_byte_is_damaged_what_was_written_before_it_can_still_be_read() {
    let whole = three_segments(true);
    let expected = texts(&read(&whole).unwrap());
    for name in [segment(1), segment(3), segment(4)] {
        let bytes = whole.files().remove(&name).unwrap();
        for at in 0..bytes.len() {
            let disk = three_segments(true);
            let mut hurt = bytes.clone();
            hurt[at] ^= 1;
            disk.put(&name, &hurt);
            let (events, damage) = berth_journal::salvage_journal::<ByteRecord, _>(&disk, OWNER);
            let found = texts(&events);
            assert!(expected.starts_with(&found), "{name} at {at}: {found:?}");
            assert_eq!(damage.is_none(), read(&disk).is_ok(), "{name} at {at}");
            // The events of the files before the damaged one are complete.
            let before = if name == segment(1) {
                0
            } else if name == segment(3) {
                2
            } else {
                3
            };
            assert!(found.len() >= before, "{name} at {at}: {found:?}");
        }
    }
    let (events, damage) = berth_journal::salvage_journal::<ByteRecord, _>(&whole, OWNER);
    assert!(texts(&events) == expected && damage.is_none());
}

#[test]
fn a_journal_cut_anywhere_gives_a_prefix_and_keeps_the_rest_aside() {
    for closed in [false, true] {
        let whole = written(&TEXTS, closed).files().remove(&segment(1)).unwrap();
        for length in 0..whole.len() {
            let disk = FakeDisk::new(0);
            disk.put(&segment(1), &whole[..length]);
            assert!(
                TEXTS.starts_with(
                    &texts(&read(&disk).unwrap()).iter().map(String::as_str).collect::<Vec<_>>()
                )
            );
            let (mut journal, recovered) = open(&disk).unwrap();
            let seen = texts(&recovered.events);
            assert!(seen.iter().zip(TEXTS).all(|(seen, text)| seen == text), "{seen:?} at {length}");
            assert_eq!(journal.next_seq(), Seq(seen.len() as u64 + 1));
            let good: usize = 32 + seen.iter().map(|text| 20 + text.len()).sum::<usize>();
            if let Some(torn) = recovered.torn {
                let offset = if seen.is_empty() { 0 } else { good };
                assert_eq!((torn.segment, torn.offset as usize), (segment(1), offset));
                assert_eq!(torn.bytes as usize, length - offset);
                assert_eq!(disk.files()[&torn.kept_as], whole[offset..length]);
            } else {
                assert_eq!(good, length);
            }
            journal.append(notes(&["more"])).unwrap();
            drop(journal);
            let (_, again) = open(&disk).unwrap();
            assert_eq!(again.torn, None, "at {length}");
            assert_eq!(texts(&again.events), [seen, vec!["more".to_owned()]].concat());
        }
    }
}

#[test]
fn a_flipped_byte_gives_a_prefix_only_if_it_is_in_the_last_write_of_an_unsealed_journal() {
    let whole = written(&TEXTS, false).files().remove(&segment(1)).unwrap();
    let last_write = whole.len() - 20 - TEXTS[3].len();
    for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        let disk = FakeDisk::new(0);
        disk.put(&segment(1), &bytes);
        match open(&disk) {
            Ok((_, recovered)) if at >= last_write => {
                assert_eq!(texts(&recovered.events), TEXTS[..3], "byte {at} bit {bit}");
                assert_eq!(disk.files()[&recovered.torn.unwrap().kept_as], bytes[last_write..]);
            }
            Ok((_, recovered)) => panic!("byte {at} bit {bit} gave {:?}", texts(&recovered.events)),
            Err(error) => {
                assert!(at < last_write, "byte {at} bit {bit}: {error}");
                damage(error);
                assert_eq!(disk.files()[&segment(1)], bytes, "refused, and yet changed");
            }
        }
    }
}

#[test]
fn a_flipped_byte_in_a_sealed_journal_is_refused_unless_it_is_in_the_seal() {
    let whole = written(&TEXTS, true).files().remove(&segment(1)).unwrap();
    let seal = whole.len() - 20;
    for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        let disk = FakeDisk::new(0);
        disk.put(&segment(1), &bytes);
        match open(&disk) {
            Ok((_, recovered)) => {
                assert!(at >= seal, "byte {at} bit {bit} gave {:?}", texts(&recovered.events));
                assert_eq!(texts(&recovered.events), TEXTS);
            }
            Err(error) => {
                assert!(at < seal, "byte {at} bit {bit}: {error}");
                damage(error);
                assert_eq!(disk.files().len(), 1);
                assert_eq!(disk.files()[&segment(1)], bytes);
            }
        }
    }
}

#[test]
fn a_flipped_byte_anywhere_in_several_segments_never_gives_a_wrong_event() {
    for closed in [false, true] {
        let files = three_segments(closed).files();
        let truth = texts(&read(&disk_with(&files)).unwrap());
        assert_eq!(truth, ["first", "second", "third", "the last one", "fifth", "sixth"]);
        // The superseded tail of the second segment may be anything.
        let superseded = 32 + 20 + "third".len();
        for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".log")) {
            for at in 0..bytes.len() {
                let disk = disk_with(&files);
                let mut changed = bytes.clone();
                changed[at] ^= 0x10;
                disk.put(name, &changed);
                let void = *name == segment(3) && at >= superseded;
                let last = *name == segment(4) && (!closed || at >= bytes.len() - 20);
                match open(&disk) {
                    Ok((_, recovered)) => {
                        let seen = texts(&recovered.events);
                        assert!(void || last, "byte {at} of {name} gave {seen:?}");
                        assert!(truth.starts_with(&seen) && (!void || seen == truth), "{seen:?}");
                    }
                    Err(_) => assert!(!void, "byte {at} of {name} is void, and was refused"),
                }
            }
        }
    }
}

#[test]
fn a_segment_with_another_behind_it_may_not_lose_a_byte_that_counts() {
    let files = three_segments(false).files();
    for (first, counts_until) in [(1, files[&segment(1)].len()), (3, 32 + 20 + "third".len())] {
        for length in 0..counts_until {
            let disk = disk_with(&files);
            disk.put(&segment(first), &files[&segment(first)][..length]);
            let (name, ..) = damage(open(&disk).err().unwrap());
            assert_eq!(name, segment(first));
            damage(read(&disk).unwrap_err());
        }
    }
}

#[test]
fn a_missing_segment_is_a_gap_wherever_it_is() {
    let whole = three_segments(true).files();
    for first in [1, 3] {
        let mut files = whole.clone();
        files.remove(&segment(first));
        damage(open(&disk_with(&files)).err().unwrap());
    }
}

#[test]
fn a_lost_superseding_segment_does_not_bring_back_what_it_superseded() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits::default());
    journal.append(notes(&["a"])).unwrap();
    drop(journal);
    let (mut journal, _) = open(&disk).unwrap();
    disk.leave_free(0);
    journal.append(notes(&["void"])).unwrap_err();
    disk.heal();
    journal.append(notes(&["b"])).unwrap();
    drop(journal);
    let whole = disk.files()[&segment(2)].clone();
    for length in 0..32 + 20 + 1 {
        disk.put(&segment(2), &whole[..length]);
        damage(open(&disk).err().unwrap());
    }
}

#[test]
fn good_frames_of_a_write_that_lost_its_first_page_are_a_torn_tail() {
    let disk = FakeDisk::new(0);
    let mut journal = create(&disk, JournalLimits::default());
    journal.append(notes(&["a"])).unwrap();
    let before = disk.files()[&segment(1)].len();
    journal.append(notes(&["b", "c", "d"])).unwrap();
    drop(journal);
    let mut bytes = disk.files()[&segment(1)].clone();
    bytes[before..before + 21].fill(0);
    disk.put(&segment(1), &bytes);
    let (_, recovered) = open(&disk).unwrap();
    assert_eq!(texts(&recovered.events), ["a"]);
    assert_eq!(disk.files()[&recovered.torn.unwrap().kept_as], bytes[before..]);
}

#[test]
fn torn_bytes_of_an_older_crash_are_not_overwritten() {
    let disk = FakeDisk::new(0);
    let mut kept = Vec::new();
    for garbage in ["one", "two", "two"] {
        disk.put(&segment(1), garbage.as_bytes());
        let (_, recovered) = open(&disk).unwrap();
        let torn = recovered.torn.unwrap();
        assert_eq!(disk.files()[&torn.kept_as], garbage.as_bytes());
        kept.push(torn.kept_as);
    }
    assert_eq!(
        kept,
        [0, 2, 2].map(|n| {
            if n == 0 { format!("{}.torn-0", segment(1)) } else { format!("{}.torn-0.{n}", segment(1)) }
        })
    );
}

#[test]
fn bytes_behind_a_seal_are_refused() {
    let disk = written(&TEXTS, true);
    let mut bytes = disk.files()[&segment(1)].clone();
    bytes.push(0);
    disk.put(&segment(1), &bytes);
    assert_eq!(damage(open(&disk).err().unwrap()).2, SegmentDamage::BehindSeal);
}

#[test]
fn a_frame_with_the_wrong_number_is_refused_although_it_is_intact() {
    let disk = written(&TEXTS, false);
    let mut bytes = disk.files()[&segment(1)].clone();
    bytes.extend_from_within(32..32 + 20 + TEXTS[0].len());
    disk.put(&segment(1), &bytes);
    let expected = SegmentDamage::Misnumbered { expected: Seq(5), found: Seq(1) };
    assert_eq!(damage(open(&disk).err().unwrap()).2, expected);
}

#[test]
fn an_event_cut_out_from_under_the_seal_is_missed() {
    let disk = written(&TEXTS, true);
    let mut bytes = disk.files()[&segment(1)].clone();
    let seal = bytes.len() - 20;
    bytes.drain(seal - 20 - TEXTS[3].len()..seal);
    disk.put(&segment(1), &bytes);
    let expected = SegmentDamage::WrongSeal { last: Seq(3), found: Seq(4) };
    assert_eq!(damage(open(&disk).err().unwrap()).2, expected);
}

#[test]
fn a_renamed_segment_is_refused() {
    let files = three_segments(true).files();
    let disk = disk_with(files.iter().filter(|(name, _)| **name != segment(4)));
    disk.put(&segment(5), &files[&segment(4)]);
    assert_eq!(damage(open(&disk).err().unwrap()).2, SegmentDamage::Misnamed { found: Seq(4) });
}

#[test]
fn a_segment_of_another_owner_is_refused_and_named() {
    let disk = written(&TEXTS, true);
    let refused =
        Journal::<ByteRecord, _>::open(disk.clone(), "session-b", JournalLimits::default()).err().unwrap();
    assert!(matches!(refused, JournalError::WrongOwner { .. }), "{refused}");
    assert!(
        refused.to_string().contains("session-b") && refused.to_string().contains(&segment(1)),
        "{refused}"
    );

    // Not even with the right header in front.
    let mut other = disk.files()[&segment(1)].clone();
    let fresh = FakeDisk::new(0);
    let mut journal =
        Journal::<ByteRecord, _>::create(fresh.clone(), "session-b", JournalLimits::default()).unwrap();
    journal.append(notes(&["x"])).unwrap();
    other[..32].copy_from_slice(&fresh.files()[&segment(1)][..32]);
    fresh.put(&segment(1), &other);
    let (_, recovered) =
        Journal::<ByteRecord, _>::open(fresh, "session-b", JournalLimits::default()).unwrap();
    assert_eq!(texts(&recovered.events), [""; 0]);
}

#[test]
fn a_newer_format_is_refused_with_the_way_out_and_left_alone() {
    let disk = written(&TEXTS, true);
    let mut bytes = disk.files()[&segment(1)].clone();
    bytes[8..10].copy_from_slice(&3u16.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..28]);
    bytes[28..32].copy_from_slice(&sum.to_le_bytes());
    disk.put(&segment(1), &bytes);
    for refused in [open(&disk).err().unwrap(), read(&disk).unwrap_err()] {
        let expected = "was written by a newer berth (format 3, this one reads up to 1): upgrade";
        assert!(refused.to_string().ends_with(expected), "{refused}");
    }
    assert_eq!(disk.files(), [(segment(1), bytes)].into());
}

#[test]
fn a_refusal_says_which_file_where_what_and_what_next() {
    let disk = written(&TEXTS, true);
    let mut bytes = disk.files()[&segment(1)].clone();
    bytes[32 + 20] ^= 1;
    disk.put(&segment(1), &bytes);
    assert_eq!(
        open(&disk).err().unwrap().to_string(),
        "/fake/00000000000000000001.log is damaged at byte 32: event 1 should be here, but its checksum is wrong; \
         nothing was changed: copy the directory to a safe place, then restore this file from a backup"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_in_any_batches_come_back_whatever_the_segment_size(
        batches in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 0..5), 0..20),
        segment_bytes in 1u64..2000,
        closed: bool,
    ) {
        let disk = FakeDisk::new(0);
        let mut journal = create(&disk, JournalLimits { segment_bytes, ..JournalLimits::default() });
        for batch in &batches {
            journal.append(batch.iter().cloned().map(ByteRecord).collect()).unwrap();
        }
        if closed {
            journal.close().unwrap();
        }
        let expected: Vec<ByteRecord> = batches.into_iter().flatten().map(ByteRecord).collect();
        let seen: Vec<ByteRecord> = read(&disk).unwrap().into_iter().map(|event| event.into_inner()).collect();
        assert_eq!(seen, expected);
        let (_, recovered) = Journal::<ByteRecord, _>::open(disk, OWNER, JournalLimits::default()).unwrap();
        assert_eq!(recovered.events.iter().map(|event| event.get().clone()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn garbage_in_place_of_any_range_never_gives_a_wrong_event(
        which in 0usize..6,
        at in 0usize..200,
        garbage in prop::collection::vec(any::<u8>(), 0..60),
        cut: bool,
        closed: bool,
    ) {
        let files = three_segments(closed).files();
        let truth = texts(&read(&disk_with(&files)).unwrap());
        let (name, bytes) = files.iter().nth(which).unwrap();
        let mut bytes = bytes.clone();
        let at = at.min(bytes.len());
        let end = if cut { bytes.len() } else { (at + garbage.len()).min(bytes.len()) };
        bytes.splice(at..end, garbage);
        let disk = disk_with(&files);
        disk.put(name, &bytes);
        if let Ok((_, recovered)) = open(&disk) {
            assert!(truth.starts_with(&texts(&recovered.events)));
        }
        for from in 1..=truth.len() {
            if let Ok(seen) = berth_journal::read_journal::<ByteRecord, _>(&disk, OWNER, Seq(from as u64)) {
                assert!(truth[from - 1..].starts_with(&texts(&seen)));
            }
        }
    }
}
