//! The head of a journal stands for its events and for nothing else.

use berth_journal::fake_disk::FakeDisk;
use berth_journal::{ChainHead, Journal, JournalLimits, Seq, chain_heads, segments_between};

use crate::common::{ByteRecord, OWNER, notes, open, segment, written};

const TEXTS: [&str; 5] = ["a", "bb", "ccc", "dddd", "eeeee"];

fn head(disk: &FakeDisk, seq: u64) -> ChainHead {
    let (found, last) = chain_heads(disk, OWNER, &[Seq(seq)]).unwrap();
    assert_eq!(found, [last]);
    last
}

#[test]
fn head_is_the_same_however_the_events_lie_in_segments() {
    let one_file = head(&written(&TEXTS, true), 5);
    for (segment_bytes, merge_bytes) in [(1, 0), (60, 0), (100, 1000), (8 << 20, 0), (8 << 20, 1000)] {
        let limits = JournalLimits { segment_bytes, merge_bytes, ..JournalLimits::default() };
        let disk = FakeDisk::new(0);
        for text in TEXTS {
            let (mut journal, _) = Journal::<ByteRecord, _>::open(disk.clone(), OWNER, limits).unwrap();
            journal.append(notes(&[text])).unwrap();
        }
        assert_eq!(head(&disk, 5), one_file, "segments of {segment_bytes}, merged below {merge_bytes}");
    }
}

#[test]
fn head_at_an_event_stays_when_others_follow_and_changes_with_every_event_before_it() {
    let disk = written(&TEXTS[..3], true);
    let noted = head(&disk, 3);
    let (mut journal, _) = open(&disk).unwrap();
    journal.append(notes(&TEXTS[3..])).unwrap();
    assert_eq!(head(&disk, 3), noted);
    assert_ne!(head(&disk, 5).hash, noted.hash);
    for edited in [["a", "bb", "ccd"], ["b", "bb", "ccc"], ["bb", "a", "ccc"], ["ab", "b", "ccc"]] {
        assert_ne!(head(&written(&edited, true), 3), noted, "{edited:?}");
    }
    let (_, other) = chain_heads(&written(&["a"], true), OWNER, &[Seq(1)]).unwrap();
    assert_ne!(other.hash, head(&written(&["b"], true), 1).hash);
}

#[test]
fn heads_of_events_that_are_not_there_are_left_out() {
    let disk = written(&TEXTS, true);
    let (found, last) = chain_heads(&disk, OWNER, &[Seq(9), Seq(2), Seq(0), Seq(2)]).unwrap();
    assert_eq!(found.iter().map(|head| head.seq).collect::<Vec<_>>(), [Seq(0), Seq(2)]);
    assert_eq!(last, head(&disk, 5));
}

#[test]
fn head_is_read_back_from_its_text_and_nothing_else_is() {
    let noted = head(&written(&TEXTS, true), 5);
    assert_eq!(noted.to_string().parse(), Ok(noted));
    let hex = &noted.to_string()[2..];
    for text in
        ["", "5", "5:", "5:12", &format!("x:{hex}"), &format!("5:{hex}0"), &format!("5:{}g", &hex[1..])]
    {
        assert!(text.parse::<ChainHead>().is_err(), "{text}");
    }
}

#[test]
fn files_of_a_range_are_those_that_may_hold_it() {
    let disk = FakeDisk::new(0);
    let mut journal =
        crate::common::create(&disk, JournalLimits { segment_bytes: 1, ..JournalLimits::default() });
    TEXTS.iter().for_each(|text| drop(journal.append(notes(&[text])).unwrap()));
    assert_eq!(segments_between(&disk, Seq(2), Seq(3)).unwrap(), [segment(2), segment(3)]);
    assert_eq!(segments_between(&disk, Seq(5), Seq(90)).unwrap(), [segment(5)]);
}
