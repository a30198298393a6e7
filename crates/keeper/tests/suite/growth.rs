//! The cost of looking at a session does not grow with its age: how much is read of its journal is counted.

use std::fs;
use std::path::PathBuf;

use berth_core::{Actor, Command, Event, Final, Manner, Name, Prompt, SessionId, Spec, TurnEnd};
use berth_journal::RealDisk;
use berth_keeper::journaled_session::{Input, JournaledSession};
use berth_keeper::why;
use berth_store::{Home, SessionFiles, view};

/// More than is taken over from a small last file when a journal is opened, and little of an old journal, which has 20 MB.
const ALLOWANCE_BYTES: u64 = 512 << 10;

/// Something that looks at a session.
type Look<'a> = &'a dyn Fn(&OldSession);

struct OldSession {
    root: PathBuf,
    home: Home,
    id: SessionId,
    turns: u64,
}

impl OldSession {
    fn new(turns: u64) -> Self {
        let root = std::env::temp_dir().join(format!("berth-growth-{turns}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let home = Home::open(root.clone()).expect("a state directory");
        let id = SessionId::parse("0123456789ab").expect("an id");
        let files = home.session(&id);
        files.make().expect("a directory");
        let lease = files.claim().expect("a lease").expect("free");
        let mut owner = JournaledSession::create(&lease).expect("a journal");
        let spec = Spec { driver: "claude".to_owned(), ..Spec::default() };
        let name = Some(Name::parse("old").expect("a name"));
        let create = Input::Command(Command::Create { spec, name });
        owner.take(vec![create], berth_core::Now::default()).expect("room");
        let numbers: Vec<u64> = (1..=turns).collect();
        // The last ones as they come in life: an opening reads the last write again.
        let (past, last) = numbers.split_at(numbers.len() - 10);
        for some in past.chunks(1000).chain(last.chunks(1)) {
            let batch = some.iter().flat_map(|turn| life_of(*turn)).map(Input::Note).collect();
            owner.take(batch, berth_core::Now::default()).expect("room");
        }
        owner.close().expect("room");
        fs::create_dir_all(root.join("names")).expect("a directory");
        fs::write(root.join("names/old"), id.as_str()).expect("a pointer");
        Self { root, home, id, turns }
    }

    /// How many bytes of the journal something reads.
    fn cost(&self, what: impl FnOnce(&Self)) -> u64 {
        let before = RealDisk::read_bytes();
        what(self);
        RealDisk::read_bytes() - before
    }

    fn files(&self) -> SessionFiles {
        self.home.session(&self.id)
    }
}

impl Drop for OldSession {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn life_of(turn: u64) -> [Event; 4] {
    let prompt = Prompt {
        by: Actor::default(),
        text: format!("prompt {turn} {}", "word ".repeat(40)),
        key: Some(format!("key {turn}")),
        start_by: None,
        manner: Manner::Queue,
        retry: None,
    };
    let end = TurnEnd::without_answer(Final::Done, "done");
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
    let looks: [(&str, Look<'_>); 8] = [
        ("history", &|it| {
            assert_eq!(view::history(&it.home, &it.id).expect("readable").session.turns.last(), it.turns)
        }),
        ("status", &|it| {
            assert_eq!(view::status(&it.home, &it.id).expect("readable").name.as_deref(), Some("old"))
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
fn a_snapshot_of_another_journal_is_not_believed() {
    let session = OldSession::new(100);
    let files = session.files();
    let dir = PathBuf::from(files.argument());
    let kept = session.root.join("kept");
    fs::create_dir_all(&kept).expect("a directory");
    for entry in fs::read_dir(dir.join("journal")).expect("a journal").flatten() {
        fs::copy(entry.path(), kept.join(entry.file_name())).expect("a copy");
    }
    // The session goes on for more turns, and then somebody restores its journal.
    let lease = files.claim().expect("a lease").expect("free");
    let (mut owner, _) = JournaledSession::open(&lease).expect("readable");
    let more = (101..=200).flat_map(life_of).map(Input::Note).collect();
    owner.take(more, berth_core::Now::default()).expect("room");
    owner.close().expect("room");
    drop(lease);
    assert_eq!(view::history(&session.home, &session.id).expect("readable").session.turns.last(), 200);
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
        let prompt = Prompt { text: format!("another {turn}"), ..prompt };
        [Event::TurnAccepted { turn, prompt }, delivered, began, ended]
    });
    owner.take(other.map(Input::Note).collect(), berth_core::Now::default()).expect("room");
    drop((owner, lease));
    assert_eq!(seen(), (200, 200, Some("another 200".to_owned())));
}
