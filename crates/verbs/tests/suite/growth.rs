//! The cost of looking at a session does not grow with its age: how much is read of its journal is counted.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use berth_api::ProblemCode;
use berth_api::turn::QuestionReply;
use berth_core::{Actor, ClockReading, Event, FinalState, SendMode, TurnEnd};
use berth_journal::RealDisk;
use berth_keeper::journaled_session::{JournaledSession, SessionInput};
use berth_store::session_status;
use berth_verbs::{answer, queue, transcript, turns, why};

use crate::common::{KeeperlessSession, prompt, run_starting};

/// More than is taken over from a small last file when a journal is opened, and little of an old journal, which has 20 MB.
const ALLOWANCE_BYTES: u64 = 512 << 10;

/// A function that looks at a session.
type SessionProbeFn<'a> = &'a dyn Fn(&OldSession);

struct OldSession {
    files: KeeperlessSession,
    turns: u64,
}

impl std::ops::Deref for OldSession {
    type Target = KeeperlessSession;

    fn deref(&self) -> &KeeperlessSession {
        &self.files
    }
}

impl OldSession {
    fn new(turns: u64) -> Self {
        let files = KeeperlessSession::new("claude", "old", |_, owner| {
            let numbers: Vec<u64> = (1..=turns).collect();
            // The last ones as they come in life: an opening reads the last write again.
            let (past, last) = numbers.split_at(numbers.len() - 10);
            for some in past.chunks(1000).chain(last.chunks(1)) {
                let events = some.iter().flat_map(|turn| match waiting(turns).contains(turn) {
                    true => life_in_queue(*turn),
                    false => life_of(*turn).to_vec(),
                });
                let batch = events.map(SessionInput::Note).collect();
                owner.take(batch, ClockReading::default()).expect("room");
            }
        });
        fs::create_dir_all(files.root.join("names")).expect("a directory");
        fs::write(files.root.join("names/old"), files.id.as_str()).expect("a pointer");
        Self { files, turns }
    }

    /// The bytes of the journal that `what` reads.
    fn cost(&self, what: impl FnOnce(&Self)) -> u64 {
        let before = RealDisk::read_bytes();
        what(self);
        RealDisk::read_bytes() - before
    }

    /// Numbers of the turns on the page of the transcript behind this turn.
    fn transcript_after(&self, turn: u64) -> Vec<u64> {
        let page = transcript::page(&self.ctx(), &self.id, turn, 5).expect("readable");
        page.turns.iter().map(|told| told.turn.number).collect()
    }
}

/// The two turns that wait for ever in a session with so many turns.
fn waiting(turns: u64) -> [u64; 2] {
    [7, turns - 2]
}

/// The events of a turn that waits for ever.
fn life_in_queue(turn: u64) -> Vec<Event> {
    life_of(turn).into_iter().take(1).collect()
}

fn life_of(turn: u64) -> [Event; 4] {
    let text = format!("prompt {turn} {}", "word ".repeat(40));
    let prompt = prompt(text, Some(format!("key {turn}")), SendMode::Queue);
    let end = TurnEnd::without_answer(FinalState::Done, "done");
    [
        Event::TurnAccepted { turn, prompt },
        Event::TurnDelivered { turn, epoch: berth_core::Epoch(1), output_from: turn },
        Event::TurnBegan { turn },
        Event::TurnEnded { turn, end, at_boot_ms: 0 },
    ]
}

#[test]
fn looking_at_an_old_session_reads_no_more_than_looking_at_a_young_one() {
    let (young, old) = (OldSession::new(10), OldSession::new(30_000));
    let turn_at = |session: &OldSession, number: u64| {
        let past = session.files().past().expect("readable");
        let view = past.turns(number, 1, 0).expect("readable").pop().expect("a turn");
        assert_eq!((view.number, view.state), (number, berth_api::TurnState::Done));
        assert!(view.prompt.starts_with(&format!("prompt {number} ")));
    };
    let looks: [(&str, SessionProbeFn<'_>); 14] = [
        ("history", &|it| {
            assert_eq!(
                session_status::history(&it.home, &it.id).expect("readable").session.turns.last(),
                it.turns
            )
        }),
        ("status", &|it| {
            assert_eq!(
                session_status::status(&it.home, &it.id).expect("readable").name.as_deref(),
                Some("old")
            )
        }),
        ("why", &|it| drop(why::why(&it.home, &it.id).expect("readable"))),
        ("name", &|it| assert_eq!(it.home.session_named("old").expect("readable"), Some(it.id.clone()))),
        ("first turn", &|it| turn_at(it, 1)),
        ("a turn in the middle", &|it| turn_at(it, it.turns / 2)),
        ("last turn", &|it| turn_at(it, it.turns)),
        ("key", &|it| {
            let past = it.files().past_with_keys().expect("readable");
            assert_eq!(past.history.session.turns.keyed("key 7"), Some(7));
        }),
        ("latest turns", &|it| {
            let page = it.ctx().session(&it.id).turns(it.turns - 1, u64::MAX, usize::MAX).expect("readable");
            assert_eq!((page.turns.len(), page.total), (2, it.turns));
        }),
        ("queue", &|it| {
            let queue = queue::waiting_turns(&it.ctx(), &it.id, "old").expect("readable");
            let numbers: Vec<u64> = queue.queued.iter().map(|turn| turn.number).collect();
            assert_eq!(numbers, waiting(it.turns));
        }),
        ("turns of a chat", &|it| {
            let status = it.ctx().session(&it.id).status().expect("readable");
            let chat = turns::latest(&it.ctx(), &it.id, &status).expect("readable").turns;
            let is_there = |number| chat.iter().any(|turn| turn.number == number);
            assert!(waiting(it.turns).into_iter().all(is_there), "{chat:?}");
            assert_eq!(chat.last().map(|turn| turn.number), Some(it.turns));
        }),
        ("an answer to no question", &|it| {
            let reply = QuestionReply::option("allow");
            let refused = answer::answer(&it.ctx(), &it.id, "old", Some("0".to_owned()), reply, None);
            assert_eq!(refused.expect_err("there is no question").code, ProblemCode::NotFound);
        }),
        ("first page of the transcript", &|it| assert_eq!(it.transcript_after(0), [1, 2, 3, 4, 5])),
        ("last page of the transcript", &|it| assert_eq!(it.transcript_after(it.turns - 1), [it.turns])),
    ];
    for (what, look) in looks {
        let (few, many) = (young.cost(look), old.cost(look));
        assert!(
            many <= few + ALLOWANCE_BYTES,
            "{what}: {few} bytes of a young journal, {many} of an old one"
        );
    }
    let open = |it: &OldSession| {
        let lease = it.files().claim().expect("a lease").expect("free");
        let (owner, torn) = JournaledSession::open(&lease).expect("readable");
        assert_eq!((owner.history().session.turns.last(), torn), (it.turns, None));
        assert_eq!(owner.history().session.turns.keyed("key 7"), Some(7));
    };
    let (few, many) = (young.cost(open), old.cost(open));
    assert!(many <= few + ALLOWANCE_BYTES, "opening: {few} bytes of a young journal, {many} of an old one");
}

#[test]
fn the_output_of_a_turn_ends_at_the_next_delivery_or_run() {
    let session = OldSession::new(100);
    let lease = session.files().claim().expect("a lease").expect("free");
    let (mut owner, _) = JournaledSession::open(&lease).expect("readable");
    let delivered =
        |turn, output_from| Event::TurnDelivered { turn, epoch: berth_core::Epoch(1), output_from };
    let [first, .., first_end] = life_of(101);
    let [second, .., second_end] = life_of(102);
    let [third, .., third_end] = life_of(103);
    // The second turn was moved before the first one, and both are steered into one stretch of output. The agent dies
    // before the first byte for the third turn, and the next run begins where that turn began.
    let steered = [first, second, delivered(102, 500), delivered(101, 500), second_end, first_end];
    let died = [run_starting(2, 900), third, delivered(103, 950), third_end, run_starting(3, 950)];
    let events = [steered.to_vec(), died.to_vec()].concat();
    owner.take(events.into_iter().map(SessionInput::Note).collect(), ClockReading::default()).expect("room");
    let past = session.files().past().expect("readable");
    let turns = [50, 100, 101, 102, 103];
    let expected = [51, 500, 900, 900, 950].map(Some);
    let together = past.output_ends(&turns).expect("readable");
    assert_eq!(turns.map(|turn| together.get(&turn).copied()), expected);
    let alone = turns.map(|turn| past.output_ends(&[turn]).expect("readable").remove(&turn));
    assert_eq!(alone, expected);
    assert_eq!(past.output_ends(&[]).expect("readable").len(), 0);
    drop((owner, lease));
}

#[test]
fn without_a_turn_index_a_page_of_the_transcript_costs_a_few_passes_and_not_one_for_each_turn() {
    let session = OldSession::new(2000);
    let files = session.files();
    let index = PathBuf::from(files.argument()).join("turns.idx");
    let bytes = fs::metadata(&index).expect("an index").len();
    // Another file would invalidate the snapshot, and with it the belief in the index.
    let damaged = fs::OpenOptions::new().write(true).open(&index).expect("an index");
    damaged.write_all_at(&vec![0xff; usize::try_from(bytes).expect("short")], 0).expect("our own file");
    let journal_bytes: u64 =
        files.journal_files().iter().map(|file| file.metadata().expect("a file").len()).sum();
    let read = session.cost(|it| assert_eq!(it.transcript_after(1980), [1981, 1982, 1983, 1984, 1985]));
    assert!(read < 3 * journal_bytes, "{read} bytes of {journal_bytes}");
}

#[test]
fn an_answer_in_an_earlier_run_is_known_where_the_start_of_that_run_is_far_back() {
    let session = OldSession::new(10);
    let lease = session.files().claim().expect("a lease").expect("free");
    let (mut owner, _) = JournaledSession::open(&lease).expect("readable");
    let run = |epoch| run_starting(epoch, 900);
    let reply = berth_core::ChosenReply { chosen: vec![], text: Some("the first answer".to_owned()) };
    let answered = Event::Answered {
        request: "7".to_owned(),
        reply,
        by: Actor { place: "a desk".to_owned(), ..Actor::default() },
    };
    let long_run: Vec<Event> = (11..=300).flat_map(life_of).collect();
    let ended = Event::RunEnded { epoch: berth_core::Epoch(1), outcome: berth_core::RunOutcome::Lost };
    let events = [vec![run(1)], long_run, vec![answered, ended, run(2)]].concat();
    let notes = events.into_iter().map(SessionInput::Note).collect();
    owner.take(notes, ClockReading::default()).expect("room");
    drop((owner, lease));
    let refused = |epoch| {
        let reply = QuestionReply::option("allow");
        let request = Some("7".to_owned());
        answer::answer(&session.ctx(), &session.id, "old", request, reply, Some(epoch))
            .expect_err("it is late")
    };
    let late = refused(1);
    assert!(late.what.contains("by a desk: ") && late.code == ProblemCode::Refused, "{late:?}");
    assert_eq!(refused(2).code, ProblemCode::NotFound, "another question may have this id");
}

#[test]
fn pages_of_a_journal_have_each_event_once_in_both_directions() {
    let session = OldSession::new(100);
    let files = session.files();
    let seq = session_status::history(&session.home, &session.id).expect("readable").seq;
    let numbers = |page: Vec<berth_journal::Committed<berth_store::session_view::StoredEvent>>| {
        page.iter().map(|event| event.seq().0).collect::<Vec<_>>()
    };
    let pages: Vec<Vec<u64>> = files.pages(3, 4096).map(|page| numbers(page.expect("readable"))).collect();
    assert!(pages.len() > 3, "{pages:?}");
    assert_eq!(pages.concat(), (3..=seq).collect::<Vec<_>>());
    let mut back: Vec<Vec<u64>> =
        files.pages_back(seq).map(|page| numbers(page.expect("readable"))).collect();
    assert!(back.len() > 3, "{back:?}");
    back.reverse();
    assert_eq!(back.concat(), (1..=seq).collect::<Vec<_>>());
}

#[test]
fn a_snapshot_of_another_journal_is_not_believed() {
    let session = OldSession::new(100);
    let files = session.files();
    let dir = PathBuf::from(files.argument());
    let kept = session.root.join("kept");
    fs::create_dir_all(&kept).expect("a directory");
    for entry in fs::read_dir(dir.join("journal")).expect("a journal").flatten() {
        fs::copy(entry.path(), kept.join(entry.file_name())).expect("a copy");
    }
    // The session goes on for more turns, and then a user restores its journal.
    let lease = files.claim().expect("a lease").expect("free");
    let (mut owner, _) = JournaledSession::open(&lease).expect("readable");
    let more = (101..=200).flat_map(life_of).map(SessionInput::Note).collect();
    owner.take(more, ClockReading::default()).expect("room");
    owner.close().expect("room");
    drop(lease);
    assert_eq!(
        session_status::history(&session.home, &session.id).expect("readable").session.turns.last(),
        200
    );
    fs::remove_dir_all(dir.join("journal")).expect("our own directory");
    fs::rename(&kept, dir.join("journal")).expect("our own directory");
    let seen = || {
        let past = files.past().expect("readable");
        let turns = past.turns(1, u64::MAX, usize::MAX).expect("readable");
        (past.history.session.turns.last(), turns.len(), turns.last().map(|last| last.prompt.clone()))
    };
    let (total, count, _) = seen();
    assert_eq!((total, count), (100, 100), "the snapshot is ahead of the journal");
    // Another future, as long as the one that was lost.
    let lease = files.claim().expect("a lease").expect("free");
    let (mut owner, _) = JournaledSession::open(&lease).expect("readable");
    let other = (101..=200).flat_map(|turn| {
        let [accepted, delivered, began, ended] = life_of(turn);
        let Event::TurnAccepted { turn, prompt } = accepted else { unreachable!("the first event") };
        let prompt = berth_core::TurnPrompt { text: format!("another {turn}"), ..prompt };
        [Event::TurnAccepted { turn, prompt }, delivered, began, ended]
    });
    owner.take(other.map(SessionInput::Note).collect(), ClockReading::default()).expect("room");
    drop((owner, lease));
    assert_eq!(seen(), (200, 200, Some("another 200".to_owned())));
}
