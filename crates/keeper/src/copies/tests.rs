use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;

struct Place {
    root: PathBuf,
    copies: Copies,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("berth-copies-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).expect("a directory");
        Self { copies: Copies::of(&root), root }
    }

    fn file(&self) -> PathBuf {
        self.root.join("transcript.jsonl")
    }

    fn source<'a>(&self, id: &'a str, path: &'a Path) -> Source<'a> {
        Source { kind: "claude", id, session: "s1", name: "", path }
    }

    fn take(&self, turn: u64, look: Look) -> Taken {
        let path = self.file();
        self.copies.take(&self.source("x", &path), (turn * 1000, Some(turn)), look).expect("a copy")
    }

    fn read(&self, copy: &Copy, size: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.copies.write(copy, size, &mut bytes).expect("what was copied");
        bytes
    }

    /// What was marked after a turn, wherever that is.
    fn at(&self, turn: u64) -> Vec<u8> {
        let all = self.copies.list("claude", "x").expect("copies");
        let of = |copy: &Copy| copy.marks.iter().find(|mark| mark.turn == Some(turn)).map(|mark| mark.size);
        let (copy, size) = all.iter().rev().find_map(|copy| Some((copy, of(copy)?))).expect("a mark");
        self.read(copy, size)
    }

    fn piece_bytes(&self) -> u64 {
        let mut bytes = 0;
        self.copies.pieces.each(|_, _, size| bytes += size).expect("pieces");
        bytes
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).expect("our own directory");
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
enum Change {
    Append(usize),
    Truncate(u8),
    Overwrite(u8),
    Replace(usize),
    Nothing,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (1..5000_usize).prop_map(Change::Append),
        2 => (1..400_000_usize).prop_map(Change::Append),
        1 => any::<u8>().prop_map(Change::Truncate),
        1 => any::<u8>().prop_map(Change::Overwrite),
        1 => (0..300_000_usize).prop_map(Change::Replace),
        1 => Just(Change::Nothing),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_becomes_of_a_file_every_mark_gives_back_what_it_had(changes in prop::collection::vec(change(), 1..20)) {
        let place = Place::new();
        let (mut now, mut then): (Vec<u8>, Vec<Vec<u8>>) = Default::default();
        for (turn, change) in changes.iter().enumerate() {
            match change {
                Change::Append(count) => now.extend(noise(turn as u64 + 1, *count)),
                Change::Truncate(part) => now.truncate(now.len() * usize::from(*part) / 256),
                Change::Overwrite(part) if !now.is_empty() => {
                    let at = (now.len() - 1) * usize::from(*part) / 256;
                    now[at] ^= 1;
                }
                Change::Replace(count) => now = noise(turn as u64 + 1000, *count),
                Change::Overwrite(_) | Change::Nothing => {}
            }
            fs::write(place.file(), &now).unwrap();
            place.take(turn as u64, Look::Whole);
            then.push(now.clone());
        }
        for (turn, bytes) in then.iter().enumerate() {
            prop_assert!(place.at(turn as u64) == *bytes, "turn {turn}");
        }
        // Nothing that is needed is a stray.
        let before = place.piece_bytes();
        place.copies.tidy(Limit(u64::MAX)).unwrap();
        prop_assert!(place.piece_bytes() <= before);
        for (turn, bytes) in then.iter().enumerate() {
            prop_assert!(place.at(turn as u64) == *bytes, "turn {turn} after tidying");
        }
    }
}

#[test]
fn a_file_that_grows_costs_what_it_grew_by_and_not_itself_again() {
    let place = Place::new();
    let mut file = File::create(place.file()).unwrap();
    for turn in 0..200_u64 {
        file.write_all(&noise(turn + 1, 4096)).unwrap();
        place.take(turn, Look::AtItsEnd);
    }
    let size = fs::metadata(place.file()).unwrap().len();
    place.copies.tidy(Limit(u64::MAX)).unwrap();
    let kept = place.piece_bytes();
    assert!(kept >= size && kept <= size + PIECE_BYTES, "{kept} bytes are kept of a file of {size}");
    let all = place.copies.list("claude", "x").unwrap();
    assert_eq!(all.len(), 1);
    assert!(all[0].pieces.len() <= (size / PIECE_BYTES) as usize + MOST_SHORT_PIECES + 1);
    assert_eq!(all[0].marks.len(), 200);
}

#[test]
fn two_conversations_with_one_beginning_share_it() {
    let place = Place::new();
    let whole = noise(7, 2_000_000);
    let (one, other) = (place.root.join("one"), place.root.join("other"));
    fs::write(&one, &whole).unwrap();
    fs::write(&other, [&whole[..], b"more"].concat()).unwrap();
    place.copies.take(&place.source("a", &one), (1, None), Look::Whole).unwrap();
    let taken = place.copies.take(&place.source("b", &other), (2, None), Look::Whole).unwrap();
    assert!(taken.added <= PIECE_BYTES, "{taken:?}");
}

#[test]
fn a_file_that_was_changed_behind_what_is_looked_at_is_noticed_when_all_is() {
    let place = Place::new();
    fs::write(place.file(), noise(1, 1_000_000)).unwrap();
    place.take(1, Look::Whole);
    let mut file = File::options().write(true).open(place.file()).unwrap();
    file.write_all(b"damage").unwrap();
    file.seek(io::SeekFrom::End(0)).unwrap();
    file.write_all(b"more").unwrap();
    place.take(2, Look::Whole);
    assert_eq!(place.at(1), noise(1, 1_000_000));
    assert!(place.at(2).starts_with(b"damage") && place.at(2).ends_with(b"more"));
    assert_eq!(place.copies.list("claude", "x").unwrap().len(), 2);
}

#[test]
fn what_was_copied_is_not_replaced_by_damage_that_came_before_the_last_piece() {
    let place = Place::new();
    let mut file = File::create(place.file()).unwrap();
    let good = noise(1, 10_000);
    for turn in 0..10_u64 {
        file.write_all(&good[turn as usize * 1000..][..1000]).unwrap();
        place.take(turn, Look::AtItsEnd);
    }
    // A block of zeros, where nobody looks; then so much that all short pieces become one.
    file.write_all_at(&[0; 1000], 4000).unwrap();
    file.write_all(&noise(2, PIECE_BYTES as usize)).unwrap();
    place.take(10, Look::AtItsEnd);
    place.copies.tidy(Limit(u64::MAX)).unwrap();
    assert!(place.at(9) == good, "the zeros are in the copy of a turn before them");
}

#[test]
fn of_two_who_copy_one_conversation_at_once_both_are_in_what_is_kept() {
    let place = Place::new();
    let (one, other) = (place.root.join("one"), place.root.join("other"));
    for round in 1..=50_u64 {
        fs::write(&one, noise(1, 1000 * round as usize)).unwrap();
        fs::write(&other, noise(2, 1000 * round as usize)).unwrap();
        std::thread::scope(|scope| {
            for path in [&one, &other] {
                let place = &place;
                scope.spawn(move || {
                    place.copies.take(&place.source("x", path), (round, Some(round)), Look::AtItsEnd).unwrap()
                });
            }
        });
        let all = place.copies.list("claude", "x").unwrap();
        assert_eq!(all.len(), 2, "round {round}");
        assert!(all.iter().all(|copy| copy.marks.len() as u64 == round), "round {round}");
    }
}

#[test]
fn what_was_left_by_somebody_who_was_killed_goes_and_nothing_else() {
    let place = Place::new();
    fs::write(place.file(), noise(1, 700_000)).unwrap();
    place.take(1, Look::Whole);
    let before = place.piece_bytes();
    // Pieces without a copy that names them, and half of a file.
    place.copies.pieces.put(&[7; 32], b"nobody names this").unwrap();
    fs::write(place.root.join("history/pieces/07/.x.1.0.tmp"), b"half").unwrap();
    fs::write(place.root.join("history/.full.1.0.tmp"), b"half").unwrap();
    let tidied = place.copies.tidy(Limit(u64::MAX)).unwrap().expect("nobody copies");
    assert_eq!((tidied.bytes, tidied.freed), (before, 25));
    assert_eq!(place.at(1), noise(1, 700_000));
}

#[test]
fn f13_nothing_goes_while_what_says_what_is_needed_cannot_be_read() {
    let place = Place::new();
    fs::write(place.file(), noise(1, 700_000)).unwrap();
    place.take(1, Look::Whole);
    place.copies.pieces.put(&[7; 32], b"nobody names this").unwrap();
    let before = place.piece_bytes();
    let described = place.copies.dir_of("claude", "x").join("00000001.json");
    let good = fs::read(&described).unwrap();
    fs::write(&described, &good[..good.len() / 2]).unwrap();
    let error = place.copies.tidy(Limit(0)).unwrap_err();
    assert!(error.to_string().contains("00000001.json"), "{error}");
    assert_eq!(place.piece_bytes(), before);
    fs::write(&described, good).unwrap();
    assert!(place.copies.tidy(Limit(u64::MAX)).unwrap().is_some());
}

#[test]
fn nobody_tidies_while_somebody_copies() {
    let place = Place::new();
    fs::write(place.file(), b"text").unwrap();
    place.take(1, Look::Whole);
    let copying = place.copies.lock().unwrap().shared().unwrap();
    assert_eq!(place.copies.tidy(Limit(0)).unwrap(), None);
    drop(copying);
    assert!(place.copies.tidy(Limit(u64::MAX)).unwrap().is_some());
}

#[test]
fn beyond_the_limit_the_oldest_goes_and_what_has_no_original_any_more_stays() {
    let place = Place::new();
    for (at, id) in ["old", "gone", "new"].into_iter().enumerate() {
        let path = place.root.join(id);
        fs::write(&path, noise(at as u64 + 1, 100_000)).unwrap();
        place.copies.take(&place.source(id, &path), (at as u64, None), Look::Whole).unwrap();
    }
    fs::remove_file(place.root.join("gone")).unwrap();
    let tidied = place.copies.tidy(Limit(250_000)).unwrap().unwrap();
    assert_eq!(tidied.dropped, [("claude".to_owned(), "old".to_owned())]);
    assert!(!tidied.full && place.copies.full().is_none());
    let tidied = place.copies.tidy(Limit(50_000)).unwrap().unwrap();
    assert_eq!(tidied.dropped, [("claude".to_owned(), "new".to_owned())]);
    assert!(tidied.full, "what has no original stays, whatever the limit");
    assert!(place.copies.full().unwrap().contains("the limit is 50000"));
    assert_eq!(place.copies.list("claude", "gone").unwrap().len(), 1);
    assert!(!place.copies.tidy(Limit(150_000)).unwrap().unwrap().full);
    assert!(place.copies.full().is_none());
}

#[test]
fn a_piece_that_was_damaged_is_an_error_and_never_given_out() {
    let place = Place::new();
    fs::write(place.file(), noise(1, 1000)).unwrap();
    place.take(1, Look::Whole);
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
    let place = Place::new();
    fs::write(place.file(), b"x").unwrap();
    for turn in 0..(MOST_MARKS as u64 + 10) {
        let path = place.file();
        let source = place.source("x", &path);
        place.copies.take(&source, (turn, Some(turn)), Look::AtItsEnd).unwrap();
    }
    let marks = &place.copies.list("claude", "x").unwrap()[0].marks;
    assert!(marks.len() <= MOST_MARKS);
    let last: Vec<_> = marks.iter().rev().take(100).filter_map(|mark| mark.turn).collect();
    let newest = MOST_MARKS as u64 + 9;
    assert_eq!(last, (newest - 99..=newest).rev().collect::<Vec<_>>());
}

#[test]
fn the_only_good_copy_stays_when_its_original_was_damaged_and_copied_again() {
    let place = Place::new();
    let good = noise(1, 700_000);
    fs::write(place.file(), &good).unwrap();
    place.take(1, Look::Whole);
    // As large as before, and nothing of it is there.
    fs::write(place.file(), vec![0; good.len()]).unwrap();
    assert!(place.copies.tidy(Limit(0)).unwrap().unwrap().dropped.is_empty(), "its size proves nothing");
    place.take(2, Look::Whole);
    place.copies.tidy(Limit(0)).unwrap().unwrap();
    assert!(place.at(1) == good, "what came later does not have it");
    // Of the zeros, the original has all.
    assert_eq!(place.copies.list("claude", "x").unwrap().len(), 1);
}

#[test]
fn a_copy_that_a_later_one_has_in_it_goes_first_however_that_is_cut() {
    let place = Place::new();
    let mut now = noise(1, 300_000);
    for turn in 1..=3 {
        now.extend(noise(turn + 10, 5000));
        fs::write(place.file(), &now).unwrap();
        place.take(turn, Look::Whole);
    }
    // The same in another file of the same name: a look at its end alone cannot tell.
    now.extend(noise(99, 5000));
    let new = place.root.join("new");
    fs::write(&new, &now).unwrap();
    fs::rename(&new, place.file()).unwrap();
    place.take(4, Look::AtItsEnd);
    assert_eq!(place.copies.list("claude", "x").unwrap().len(), 2);
    fs::remove_file(place.file()).unwrap();
    let tidied = place.copies.tidy(Limit(0)).unwrap().unwrap();
    assert!(tidied.dropped.len() == 1 && tidied.full, "{tidied:?}");
    assert!(place.at(4) == now);
}

#[test]
fn a_piece_that_is_not_on_disk_any_more_keeps_nobody_from_tidying() {
    let place = Place::new();
    fs::write(place.file(), noise(1, 700_000)).unwrap();
    place.take(1, Look::Whole);
    let mut paths = Vec::new();
    place.copies.pieces.each(|path, _, _| paths.push(path.to_owned())).unwrap();
    fs::remove_file(&paths[0]).unwrap();
    fs::write(&paths[1], b"short").unwrap();
    let tidied = place.copies.tidy(Limit(0)).unwrap().unwrap();
    assert_eq!((tidied.dropped.len(), tidied.bytes, place.piece_bytes()), (1, 0, 0), "{tidied:?}");
}

#[test]
fn a_file_that_was_moved_is_found_where_it_is_now() {
    let place = Place::new();
    fs::write(place.file(), noise(1, 1000)).unwrap();
    place.take(1, Look::Whole);
    let there = place.root.join("there.jsonl");
    fs::rename(place.file(), &there).unwrap();
    place.copies.take(&place.source("x", &there), (1000, Some(1)), Look::Whole).unwrap();
    let all = place.copies.list("claude", "x").unwrap();
    assert_eq!((all.len(), &all[0].original), (1, &there));
}

#[test]
fn conversations_of_one_id_in_two_accounts_have_a_copy_each() {
    let place = Place::new();
    let (one, other) = (place.root.join("one"), place.root.join("other"));
    fs::write(&one, noise(1, 1000)).unwrap();
    fs::write(&other, noise(2, 1000)).unwrap();
    for turn in 1..=3 {
        for path in [&one, &other] {
            place.copies.take(&place.source("x", path), (turn, Some(turn)), Look::Whole).unwrap();
        }
    }
    assert_eq!(place.copies.list("claude", "x").unwrap().len(), 2, "not one more with each turn");
}

#[test]
fn what_another_session_has_too_is_handed_on_when_one_is_forgotten() {
    let place = Place::new();
    fs::write(place.file(), noise(1, 1000)).unwrap();
    place.take(1, Look::Whole);
    let handed =
        place.copies.forget("s1", Duration::ZERO, |_, id| (id == "x").then(|| "s2".to_owned())).unwrap();
    assert_eq!((handed, &*place.copies.list("claude", "x").unwrap()[0].session), (0, "s2"));
    assert!(place.at(1) == noise(1, 1000));
    assert_eq!(place.copies.forget("s1", Duration::ZERO, |_, _| None).unwrap(), 0);
    assert_eq!(place.copies.forget("s2", Duration::ZERO, |_, _| None).unwrap(), 1000);
    assert!(place.copies.list("claude", "x").unwrap().is_empty());
}

#[test]
fn a_file_beside_a_transcript_that_nobody_writes_any_more_costs_nothing() {
    let place = Place::new();
    let (main, beside) = (place.file(), place.root.join("agent-1.jsonl"));
    fs::write(&beside, "{}\n").expect("a file");
    let mut turn = 0;
    let mut take = |look: Look| {
        turn += 1;
        fs::write(&main, noise(7, 100 * turn as usize)).expect("a file");
        let mut taking = place.copies.begin("claude", "x").expect("a list");
        let of = |name, path| Source { kind: "claude", id: "x", session: "s1", name, path };
        taking.take(&of("", &main), (1000, Some(turn)), look).expect("a copy");
        taking.take(&of("subagents/agent-1.jsonl", &beside), (1000, Some(turn)), look).expect("a copy");
        let all = place.copies.list("claude", "x").expect("copies");
        let marks = |name: &str| {
            let of_it = all.iter().filter(|copy| copy.name == name);
            of_it.flat_map(|copy| &copy.marks).map(|mark| (mark.size, mark.order)).collect::<Vec<_>>()
        };
        (marks(""), marks("subagents/agent-1.jsonl"))
    };
    assert_eq!(take(Look::Whole), (vec![(100, 1)], vec![(3, 1)]));
    assert_eq!(take(Look::AtItsEnd), (vec![(100, 1), (200, 2)], vec![(3, 1)]));
    assert_eq!(take(Look::Whole).1, [(3, 1)]);
    fs::write(&beside, "{}\n{}\n").expect("a file");
    assert_eq!(take(Look::AtItsEnd).1, [(3, 1), (6, 4)]);
}

#[test]
fn a_description_with_a_piece_of_no_size_or_too_much_is_refused_and_nobody_panics() {
    let place = Place::new();
    fs::write(place.file(), noise(1, 1000)).expect("a file");
    place.take(1, Look::Whole);
    let path = entries(&place.copies.dir_of("claude", "x")).expect("descriptions").remove(0);
    let good = fs::read_to_string(&path).expect("text");
    for size in ["0", "99999999999"] {
        let bad = good.replacen("\"size\":1000", &format!("\"size\":{size}"), 1);
        assert_ne!(bad, good);
        fs::write(&path, bad).expect("a damaged description");
        let (file, mark) = (place.file(), (2000, Some(2)));
        let error = place.copies.take(&place.source("x", &file), mark, Look::Whole).expect_err("no copy");
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}

#[test]
fn a_turn_whose_end_was_seen_before_it_was_told_is_one_point() {
    let place = Place::new();
    let path = place.file();
    fs::write(&path, "x").expect("a file");
    for turn in [None, Some(1), None] {
        place.copies.take(&place.source("x", &path), (1000, turn), Look::Whole).expect("a copy");
    }
    let all = place.copies.list("claude", "x").expect("copies");
    assert_eq!(all[0].marks.iter().map(|mark| mark.turn).collect::<Vec<_>>(), [Some(1)]);
}
