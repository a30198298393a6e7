use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;

use berth_harness::TestDir;
use proptest::prelude::*;

use super::*;

struct TranscriptCopiesFixture {
    root: TestDir,
    copies: TranscriptCopies,
}

impl TranscriptCopiesFixture {
    fn new() -> Self {
        let root = TestDir::new();
        Self { copies: TranscriptCopies::of(&root), root }
    }

    fn file(&self) -> PathBuf {
        self.root.join("transcript.jsonl")
    }

    fn source<'a>(&self, id: &'a str, path: &'a Path) -> CopySource<'a> {
        CopySource { kind: "claude", id, session: "s1", name: "", path }
    }

    fn take(&self, turn: u64, look: CopyCheck) -> CopyResult {
        let path = self.file();
        self.copies.take(&self.source("x", &path), (turn * 1000, Some(turn)), look).expect("a copy")
    }

    fn read(&self, copy: &TranscriptCopy, size: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.copies.write(copy, size, &mut bytes).expect("what was copied");
        bytes
    }

    /// The file as marked after a turn, from the copy that has the mark.
    fn at(&self, turn: u64) -> Vec<u8> {
        let all = self.copies.list("claude", "x").expect("copies");
        let of = |copy: &TranscriptCopy| {
            copy.marks.iter().find(|mark| mark.turn == Some(turn)).map(|mark| mark.size)
        };
        let (copy, size) = all.iter().rev().find_map(|copy| Some((copy, of(copy)?))).expect("a mark");
        self.read(copy, size)
    }

    fn piece_bytes(&self) -> u64 {
        let mut bytes = 0;
        self.copies.pieces.each(|_, _, size| bytes += size).expect("pieces");
        bytes
    }
}

/// Bytes that do not repeat.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..count).map(|_| next()).collect()
}

#[derive(Clone, Debug)]
enum TranscriptChange {
    Append(usize),
    Truncate(u8),
    Overwrite(u8),
    Replace(usize),
    Nothing,
}

fn change() -> impl Strategy<Value = TranscriptChange> {
    prop_oneof![
        6 => (1..5000_usize).prop_map(TranscriptChange::Append),
        2 => (1..400_000_usize).prop_map(TranscriptChange::Append),
        1 => any::<u8>().prop_map(TranscriptChange::Truncate),
        1 => any::<u8>().prop_map(TranscriptChange::Overwrite),
        1 => (0..300_000_usize).prop_map(TranscriptChange::Replace),
        1 => Just(TranscriptChange::Nothing),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn after_any_change_of_a_file_every_mark_gives_back_what_it_had(changes in prop::collection::vec(change(), 1..20)) {
        let place = TranscriptCopiesFixture::new();
        let (mut now, mut then): (Vec<u8>, Vec<Vec<u8>>) = Default::default();
        for (turn, change) in changes.iter().enumerate() {
            match change {
                TranscriptChange::Append(count) => now.extend(noise(turn as u64 + 1, *count)),
                TranscriptChange::Truncate(part) => now.truncate(now.len() * usize::from(*part) / 256),
                TranscriptChange::Overwrite(part) if !now.is_empty() => {
                    let at = (now.len() - 1) * usize::from(*part) / 256;
                    now[at] ^= 1;
                }
                TranscriptChange::Replace(count) => now = noise(turn as u64 + 1000, *count),
                TranscriptChange::Overwrite(_) | TranscriptChange::Nothing => {}
            }
            fs::write(place.file(), &now).unwrap();
            place.take(turn as u64, CopyCheck::Whole);
            then.push(now.clone());
        }
        for (turn, bytes) in then.iter().enumerate() {
            prop_assert!(place.at(turn as u64) == *bytes, "turn {turn}");
        }
        // Nothing that is needed is a stray.
        let before = place.piece_bytes();
        place.copies.tidy(CopyLimit(u64::MAX)).unwrap();
        prop_assert!(place.piece_bytes() <= before);
        for (turn, bytes) in then.iter().enumerate() {
            prop_assert!(place.at(turn as u64) == *bytes, "turn {turn} after tidying");
        }
    }
}

#[test]
fn a_file_that_grows_costs_only_the_bytes_it_grew_by() {
    let place = TranscriptCopiesFixture::new();
    let mut file = File::create(place.file()).unwrap();
    for turn in 0..200_u64 {
        file.write_all(&noise(turn + 1, 4096)).unwrap();
        place.take(turn, CopyCheck::AtItsEnd);
    }
    let size = fs::metadata(place.file()).unwrap().len();
    place.copies.tidy(CopyLimit(u64::MAX)).unwrap();
    let kept = place.piece_bytes();
    assert!(kept >= size && kept <= size + PIECE_BYTES, "{kept} bytes are kept of a file of {size}");
    let all = place.copies.list("claude", "x").unwrap();
    assert_eq!(all.len(), 1);
    assert!(all[0].pieces.len() <= (size / PIECE_BYTES) as usize + MOST_SHORT_PIECES + 1);
    assert_eq!(all[0].marks.len(), 200);
}

#[test]
fn two_conversations_with_one_beginning_share_it() {
    let place = TranscriptCopiesFixture::new();
    let whole = noise(7, 2_000_000);
    let (one, other) = (place.root.join("one"), place.root.join("other"));
    fs::write(&one, &whole).unwrap();
    fs::write(&other, [&whole[..], b"more"].concat()).unwrap();
    place.copies.take(&place.source("a", &one), (1, None), CopyCheck::Whole).unwrap();
    let taken = place.copies.take(&place.source("b", &other), (2, None), CopyCheck::Whole).unwrap();
    assert!(taken.added <= PIECE_BYTES, "{taken:?}");
}

#[test]
fn a_change_outside_the_compared_end_is_noticed_when_the_whole_file_is_compared() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), noise(1, 1_000_000)).unwrap();
    place.take(1, CopyCheck::Whole);
    let mut file = File::options().write(true).open(place.file()).unwrap();
    file.write_all(b"damage").unwrap();
    file.seek(io::SeekFrom::End(0)).unwrap();
    file.write_all(b"more").unwrap();
    place.take(2, CopyCheck::Whole);
    assert_eq!(place.at(1), noise(1, 1_000_000));
    assert!(place.at(2).starts_with(b"damage") && place.at(2).ends_with(b"more"));
    assert_eq!(place.copies.list("claude", "x").unwrap().len(), 2);
}

#[test]
fn a_good_copy_is_not_replaced_by_damage_that_came_before_the_last_piece() {
    let place = TranscriptCopiesFixture::new();
    let mut file = File::create(place.file()).unwrap();
    let good = noise(1, 10_000);
    for turn in 0..10_u64 {
        file.write_all(&good[turn as usize * 1000..][..1000]).unwrap();
        place.take(turn, CopyCheck::AtItsEnd);
    }
    // A block of zeros, where no check looks; then so much that all short pieces become one.
    file.write_all_at(&[0; 1000], 4000).unwrap();
    file.write_all(&noise(2, PIECE_BYTES as usize)).unwrap();
    place.take(10, CopyCheck::AtItsEnd);
    place.copies.tidy(CopyLimit(u64::MAX)).unwrap();
    assert!(place.at(9) == good, "the zeros are in the copy of a turn before them");
}

#[test]
fn two_processes_that_copy_one_conversation_at_once_both_succeed() {
    let place = TranscriptCopiesFixture::new();
    let (one, other) = (place.root.join("one"), place.root.join("other"));
    for round in 1..=50_u64 {
        fs::write(&one, noise(1, 1000 * round as usize)).unwrap();
        fs::write(&other, noise(2, 1000 * round as usize)).unwrap();
        std::thread::scope(|scope| {
            for path in [&one, &other] {
                let place = &place;
                scope.spawn(move || {
                    place
                        .copies
                        .take(&place.source("x", path), (round, Some(round)), CopyCheck::AtItsEnd)
                        .unwrap()
                });
            }
        });
        let all = place.copies.list("claude", "x").unwrap();
        assert_eq!(all.len(), 2, "round {round}");
        assert!(all.iter().all(|copy| copy.marks.len() as u64 == round), "round {round}");
    }
}

#[test]
fn files_that_a_killed_process_left_are_removed_and_nothing_else() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), noise(1, 700_000)).unwrap();
    place.take(1, CopyCheck::Whole);
    let before = place.piece_bytes();
    // Pieces without a copy that names them, and half of a file.
    place.copies.pieces.put(&[7; 32], b"unnamed by a copy").unwrap();
    fs::write(place.root.join("history/pieces/07/.x.1.0.tmp"), b"half").unwrap();
    fs::write(place.root.join("history/.full.1.0.tmp"), b"half").unwrap();
    let tidied = place.copies.tidy(CopyLimit(u64::MAX)).unwrap().expect("no process copies");
    assert_eq!((tidied.bytes, tidied.freed), (before, 25));
    assert_eq!(place.at(1), noise(1, 700_000));
}

#[test]
fn f13_nothing_is_removed_while_a_description_cannot_be_read() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), noise(1, 700_000)).unwrap();
    place.take(1, CopyCheck::Whole);
    place.copies.pieces.put(&[7; 32], b"unnamed by a copy").unwrap();
    let before = place.piece_bytes();
    let described = place.copies.dir_of("claude", "x").join("00000001.json");
    let good = fs::read(&described).unwrap();
    fs::write(&described, &good[..good.len() / 2]).unwrap();
    let error = place.copies.tidy(CopyLimit(0)).unwrap_err();
    assert!(error.to_string().contains("00000001.json"), "{error}");
    assert_eq!(place.piece_bytes(), before);
    fs::write(&described, good).unwrap();
    assert!(place.copies.tidy(CopyLimit(u64::MAX)).unwrap().is_some());
}

#[test]
fn no_process_tidies_while_another_one_copies() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), b"text").unwrap();
    place.take(1, CopyCheck::Whole);
    let copying = place.copies.lock().unwrap().shared().unwrap();
    assert_eq!(place.copies.tidy(CopyLimit(0)).unwrap(), None);
    drop(copying);
    assert!(place.copies.tidy(CopyLimit(u64::MAX)).unwrap().is_some());
}

#[test]
fn beyond_the_limit_the_oldest_is_removed_and_a_copy_without_an_original_stays() {
    let place = TranscriptCopiesFixture::new();
    for (at, id) in ["old", "gone", "new"].into_iter().enumerate() {
        let path = place.root.join(id);
        fs::write(&path, noise(at as u64 + 1, 100_000)).unwrap();
        place.copies.take(&place.source(id, &path), (at as u64, None), CopyCheck::Whole).unwrap();
    }
    fs::remove_file(place.root.join("gone")).unwrap();
    let tidied = place.copies.tidy(CopyLimit(250_000)).unwrap().unwrap();
    assert_eq!(tidied.dropped, [("claude".to_owned(), "old".to_owned())]);
    assert!(!tidied.full && place.copies.full().is_none());
    let tidied = place.copies.tidy(CopyLimit(50_000)).unwrap().unwrap();
    assert_eq!(tidied.dropped, [("claude".to_owned(), "new".to_owned())]);
    assert!(tidied.full, "what has no original stays, whatever the limit");
    assert!(place.copies.full().unwrap().contains("the limit is 50000"));
    assert_eq!(place.copies.list("claude", "gone").unwrap().len(), 1);
    assert!(!place.copies.tidy(CopyLimit(150_000)).unwrap().unwrap().full);
    assert!(place.copies.full().is_none());
}

#[test]
fn a_piece_that_was_damaged_is_an_error_and_never_given_out() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), noise(1, 1000)).unwrap();
    place.take(1, CopyCheck::Whole);
    let mut paths = Vec::new();
    place.copies.pieces.each(|path, _, _| paths.push(path.to_owned())).unwrap();
    let mut bytes = fs::read(&paths[0]).unwrap();
    bytes[500] ^= 1;
    fs::write(&paths[0], bytes).unwrap();
    let copy = &place.copies.list("claude", "x").unwrap()[0];
    let error = place.copies.write(copy, 1000, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("not what was written"), "{error}");
}

#[test]
fn many_marks_are_thinned_and_the_last_ones_stay() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), b"x").unwrap();
    for turn in 0..(MOST_MARKS as u64 + 10) {
        let path = place.file();
        let source = place.source("x", &path);
        place.copies.take(&source, (turn, Some(turn)), CopyCheck::AtItsEnd).unwrap();
    }
    let marks = &place.copies.list("claude", "x").unwrap()[0].marks;
    assert!(marks.len() <= MOST_MARKS);
    let last: Vec<_> = marks.iter().rev().take(100).filter_map(|mark| mark.turn).collect();
    let newest = MOST_MARKS as u64 + 9;
    assert_eq!(last, (newest - 99..=newest).rev().collect::<Vec<_>>());
}

#[test]
fn the_only_good_copy_stays_when_its_original_was_damaged_and_copied_again() {
    let place = TranscriptCopiesFixture::new();
    let good = noise(1, 700_000);
    fs::write(place.file(), &good).unwrap();
    place.take(1, CopyCheck::Whole);
    // As large as before, and nothing of it is there.
    fs::write(place.file(), vec![0; good.len()]).unwrap();
    assert!(place.copies.tidy(CopyLimit(0)).unwrap().unwrap().dropped.is_empty(), "its size proves nothing");
    place.take(2, CopyCheck::Whole);
    place.copies.tidy(CopyLimit(0)).unwrap().unwrap();
    assert!(place.at(1) == good, "what came later does not have it");
    // Of the zeros, the original has all.
    assert_eq!(place.copies.list("claude", "x").unwrap().len(), 1);
}

#[test]
fn a_copy_that_a_later_one_has_in_it_goes_first_however_that_is_cut() {
    let place = TranscriptCopiesFixture::new();
    let mut now = noise(1, 300_000);
    for turn in 1..=3 {
        now.extend(noise(turn + 10, 5000));
        fs::write(place.file(), &now).unwrap();
        place.take(turn, CopyCheck::Whole);
    }
    // This state in another file of that name: a look at its end alone cannot tell the difference.
    now.extend(noise(99, 5000));
    let new = place.root.join("new");
    fs::write(&new, &now).unwrap();
    fs::rename(&new, place.file()).unwrap();
    place.take(4, CopyCheck::AtItsEnd);
    assert_eq!(place.copies.list("claude", "x").unwrap().len(), 2);
    fs::remove_file(place.file()).unwrap();
    let tidied = place.copies.tidy(CopyLimit(0)).unwrap().unwrap();
    assert!(tidied.dropped.len() == 1 && tidied.full, "{tidied:?}");
    assert!(place.at(4) == now);
}

#[test]
fn a_piece_that_is_not_on_disk_any_more_does_not_prevent_tidying() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), noise(1, 700_000)).unwrap();
    place.take(1, CopyCheck::Whole);
    let mut paths = Vec::new();
    place.copies.pieces.each(|path, _, _| paths.push(path.to_owned())).unwrap();
    fs::remove_file(&paths[0]).unwrap();
    fs::write(&paths[1], b"short").unwrap();
    let tidied = place.copies.tidy(CopyLimit(0)).unwrap().unwrap();
    assert_eq!((tidied.dropped.len(), tidied.bytes, place.piece_bytes()), (1, 0, 0), "{tidied:?}");
}

#[test]
fn a_file_that_was_moved_is_found_where_it_is_now() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), noise(1, 1000)).unwrap();
    place.take(1, CopyCheck::Whole);
    let there = place.root.join("there.jsonl");
    fs::rename(place.file(), &there).unwrap();
    place.copies.take(&place.source("x", &there), (1000, Some(1)), CopyCheck::Whole).unwrap();
    let all = place.copies.list("claude", "x").unwrap();
    assert_eq!((all.len(), &all[0].original), (1, &there));
}

#[test]
fn conversations_of_one_id_in_two_accounts_have_a_copy_each() {
    let place = TranscriptCopiesFixture::new();
    let (one, other) = (place.root.join("one"), place.root.join("other"));
    fs::write(&one, noise(1, 1000)).unwrap();
    fs::write(&other, noise(2, 1000)).unwrap();
    for turn in 1..=3 {
        for path in [&one, &other] {
            place.copies.take(&place.source("x", path), (turn, Some(turn)), CopyCheck::Whole).unwrap();
        }
    }
    assert_eq!(place.copies.list("claude", "x").unwrap().len(), 2, "not one more with each turn");
}

#[test]
fn a_copy_that_another_session_shares_is_handed_on_when_one_is_forgotten() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), noise(1, 1000)).unwrap();
    place.take(1, CopyCheck::Whole);
    let handed =
        place.copies.forget("s1", Duration::ZERO, |_, id| (id == "x").then(|| "s2".to_owned())).unwrap();
    assert_eq!((handed, &*place.copies.list("claude", "x").unwrap()[0].session), (0, "s2"));
    assert!(place.at(1) == noise(1, 1000));
    assert_eq!(place.copies.forget("s1", Duration::ZERO, |_, _| None).unwrap(), 0);
    assert_eq!(place.copies.forget("s2", Duration::ZERO, |_, _| None).unwrap(), 1000);
    assert!(place.copies.list("claude", "x").unwrap().is_empty());
}

#[test]
fn a_file_beside_a_transcript_that_is_not_written_any_more_costs_nothing() {
    let place = TranscriptCopiesFixture::new();
    let (main, beside) = (place.file(), place.root.join("agent-1.jsonl"));
    fs::write(&beside, "{}\n").expect("a file");
    let mut turn = 0;
    let mut take = |look: CopyCheck| {
        turn += 1;
        fs::write(&main, noise(7, 100 * turn as usize)).expect("a file");
        let mut taking = place.copies.begin("claude", "x").expect("a list");
        let of = |name, path| CopySource { kind: "claude", id: "x", session: "s1", name, path };
        taking.take(&of("", &main), (1000, Some(turn)), look).expect("a copy");
        taking.take(&of("subagents/agent-1.jsonl", &beside), (1000, Some(turn)), look).expect("a copy");
        let all = place.copies.list("claude", "x").expect("copies");
        let marks = |name: &str| {
            let of_it = all.iter().filter(|copy| copy.name == name);
            of_it.flat_map(|copy| &copy.marks).map(|mark| (mark.size, mark.order)).collect::<Vec<_>>()
        };
        (marks(""), marks("subagents/agent-1.jsonl"))
    };
    assert_eq!(take(CopyCheck::Whole), (vec![(100, 1)], vec![(3, 1)]));
    assert_eq!(take(CopyCheck::AtItsEnd), (vec![(100, 1), (200, 2)], vec![(3, 1)]));
    assert_eq!(take(CopyCheck::Whole).1, [(3, 1)]);
    fs::write(&beside, "{}\n{}\n").expect("a file");
    assert_eq!(take(CopyCheck::AtItsEnd).1, [(3, 1), (6, 4)]);
}

#[test]
fn a_description_with_a_piece_of_no_size_or_too_much_is_rejected_without_a_panic() {
    let place = TranscriptCopiesFixture::new();
    fs::write(place.file(), noise(1, 1000)).expect("a file");
    place.take(1, CopyCheck::Whole);
    let path = entries(&place.copies.dir_of("claude", "x")).expect("descriptions").remove(0);
    let good = fs::read_to_string(&path).expect("text");
    for size in ["0", "99999999999"] {
        let bad = good.replacen("\"size\":1000", &format!("\"size\":{size}"), 1);
        assert_ne!(bad, good);
        fs::write(&path, bad).expect("a damaged description");
        let (file, mark) = (place.file(), (2000, Some(2)));
        let error =
            place.copies.take(&place.source("x", &file), mark, CopyCheck::Whole).expect_err("no copy");
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}

#[test]
fn a_turn_whose_end_was_seen_before_it_was_told_is_one_point() {
    let place = TranscriptCopiesFixture::new();
    let path = place.file();
    fs::write(&path, "x").expect("a file");
    for turn in [None, Some(1), None] {
        place.copies.take(&place.source("x", &path), (1000, turn), CopyCheck::Whole).expect("a copy");
    }
    let all = place.copies.list("claude", "x").expect("copies");
    assert_eq!(all[0].marks.iter().map(|mark| mark.turn).collect::<Vec<_>>(), [Some(1)]);
}
