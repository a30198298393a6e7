//! Races for names: many claim one at the same moment, on real files.
//!
//! A seed chooses how a name is stale and which claimants are late, by how much. `BERTH_SEED=N` replays one; the
//! moments at which the kernel switches between threads are not in it.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Barrier;

use berth_api::{Problem, SessionStatus};
use berth_core::{Command, Conversation, SafeName, SessionId, SessionSpec};
use berth_journal::fake_disk::SplitMix64;
use berth_keeper::import::{ImportLock, ImportSource, import_session};
use berth_keeper::recover;
use berth_store::names::RequestedName;
use berth_store::{StateDir, session_status};
use berth_test_dir::TestDir;

/// The number of threads that claim one name.
const TAKERS: usize = 4;
/// The longest delay of a claimant, in turns of an empty loop.
const LATEST: u64 = 20_000;

fn seeds() -> Range<u64> {
    match std::env::var("BERTH_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).expect("BERTH_SEED is a number"),
        Err(_) => 0..40,
    }
}

/// A state directory, and the lock of imports.
struct SessionNamesFixture {
    root: TestDir,
    home: StateDir,
    lock: ImportLock,
}

impl SessionNamesFixture {
    fn new() -> Self {
        let root = TestDir::new();
        let home = StateDir::open(root.to_path_buf()).expect("a state directory");
        let lock = ImportLock::acquire(&home).expect("a lock");
        Self { root, home, lock }
    }

    /// Makes a session of this name without a run.
    fn make(&self, name: &SafeName, conversation: String) -> Result<SessionStatus, Problem> {
        let past = ImportSource {
            spec: SessionSpec {
                driver: "pty".to_owned(),
                conversation: "claude".to_owned(),
                ..SessionSpec::default()
            },
            name: RequestedName::Chosen(name.clone()),
            conversation: Conversation { id: conversation, store: String::new() },
            file: PathBuf::new(),
            bytes: 0,
            began_at_ms: 0,
            last_at_ms: 0,
        };
        import_session(&self.home, &self.lock, past)
    }

    /// Renames like `berth rename`.
    fn rename(&self, id: &SessionId, old: &SafeName, new: &SafeName) -> Result<(), Problem> {
        let (_, claim) = self.home.claim_name(&RequestedName::Chosen(new.clone()), id)?;
        recover::with_lease(&self.home, id, Command::Rename { name: new.clone() })?;
        drop(claim);
        self.home.drop_name(old, id);
        Ok(())
    }

    /// The sessions whose records have this name.
    fn called(&self, name: &SafeName) -> Vec<SessionId> {
        let all = self.home.session_ids().expect("a list");
        let says_so = |id: &SessionId| {
            session_status::history(&self.home, id)
                .is_ok_and(|history| history.session.name.as_ref() == Some(name))
        };
        all.into_iter().filter(says_so).collect()
    }

    fn files(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(dir)).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    }
}

fn name(text: &str) -> SafeName {
    SafeName::parse(text).expect("a name")
}

fn id_of(status: &SessionStatus) -> SessionId {
    SessionId::parse(&status.id).expect("an id")
}

fn be_late(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

#[test]
fn of_many_takers_of_a_stale_name_one_gets_it_and_the_others_are_told_which() {
    for seed in seeds() {
        let mut rng = SplitMix64::new(seed);
        let place = SessionNamesFixture::new();
        let wanted = name("wanted");
        let pointer = place.root.join("names/wanted");
        let before = match rng.below(5) {
            // A crash between pointer and session, before and after the directory was made.
            0 => fs::write(&pointer, "000000000000").map(|()| 0),
            1 => {
                let id = place.home.mint().expect("a session");
                fs::write(&pointer, id.as_str()).map(|()| 1)
            }
            // A session that was renamed by a command that was killed before it dropped the old name.
            2 => {
                let id = id_of(&place.make(&name("other"), "renamed".to_owned()).expect("a session"));
                fs::write(&pointer, id.as_str()).map(|()| 1)
            }
            3 => fs::write(&pointer, "").map(|()| 0),
            _ => Ok(0),
        };
        let before = before.expect("a pointer");
        let late: Vec<u64> = (0..TAKERS).map(|_| rng.below(LATEST)).collect();
        let gate = Barrier::new(TAKERS);
        let made: Vec<Result<SessionStatus, Problem>> = std::thread::scope(|scope| {
            let take = |(taker, late): (usize, u64)| {
                let (place, wanted, gate) = (&place, &wanted, &gate);
                scope.spawn(move || {
                    gate.wait();
                    be_late(late);
                    place.make(wanted, format!("taker-{taker}"))
                })
            };
            let takers: Vec<_> = late.into_iter().enumerate().map(take).collect();
            takers.into_iter().map(|taker| taker.join().expect("no panic")).collect()
        });
        let won: Vec<SessionId> = made.iter().flatten().map(id_of).collect();
        let [winner] = &won[..] else { panic!("BERTH_SEED={seed}: {made:?}") };
        let refusal = format!("the name `wanted` is in use by session {winner}");
        for lost in made.iter().filter_map(|made| made.as_ref().err()) {
            assert_eq!(lost.what, refusal, "BERTH_SEED={seed}");
        }
        assert_eq!(place.called(&wanted), won, "BERTH_SEED={seed}");
        assert_eq!(place.home.session_named("wanted").expect("an answer"), Some(winner.clone()));
        assert_eq!(place.files("sessions").len(), before + 1, "BERTH_SEED={seed}: the losers leave nothing");
        assert!(place.files("names").iter().all(|file| !file.starts_with('.')), "BERTH_SEED={seed}");
    }
}

#[test]
fn a_rename_against_sessions_that_want_both_names_leaves_each_name_with_one_session() {
    for seed in seeds() {
        let mut rng = SplitMix64::new(seed);
        let place = SessionNamesFixture::new();
        let (old, new) = (name("old"), name("new"));
        let renamed = id_of(&place.make(&old, "renamed".to_owned()).expect("a session"));
        if rng.coin() {
            fs::write(place.root.join("names/new"), "000000000000").expect("a stale pointer");
        }
        let late = [rng.below(LATEST), rng.below(LATEST), rng.below(LATEST)];
        let gate = Barrier::new(3);
        let (moved, took_old, took_new) = std::thread::scope(|scope| {
            let (place, old, new, gate, renamed) = (&place, &old, &new, &gate, &renamed);
            let mover = scope.spawn(move || {
                gate.wait();
                be_late(late[0]);
                place.rename(renamed, old, new)
            });
            let take = |wanted, late| {
                scope.spawn(move || {
                    gate.wait();
                    be_late(late);
                    place.make(wanted, format!("taker-of-{wanted}"))
                })
            };
            let (of_old, of_new) = (take(old, late[1]), take(new, late[2]));
            let moved = mover.join().expect("no panic");
            (moved, of_old.join().expect("no panic"), of_new.join().expect("no panic"))
        });
        let what = format!("BERTH_SEED={seed}: {moved:?} {took_old:?} {took_new:?}");
        assert!(moved.is_ok() != took_new.is_ok(), "one of two gets the new name: {what}");
        assert!(moved.is_ok() || took_old.is_err(), "the old name is free only after the rename: {what}");
        let has_new = if moved.is_ok() { Some(renamed.clone()) } else { took_new.as_ref().ok().map(id_of) };
        let has_old = if moved.is_err() { Some(renamed) } else { took_old.as_ref().ok().map(id_of) };
        for (name, has_it) in [(&old, has_old), (&new, has_new)] {
            assert_eq!(place.called(name), Vec::from_iter(has_it.clone()), "{name}: {what}");
            assert_eq!(place.home.session_named(name.as_str()).expect("an answer"), has_it, "{name}: {what}");
        }
        assert!(place.files("names").iter().all(|file| !file.starts_with('.')), "{what}");
    }
}

#[test]
fn the_name_of_a_session_that_is_being_made_waits_for_its_end() {
    let place = SessionNamesFixture::new();
    let wanted = name("wanted");
    let given_up = place.home.mint().expect("a session");
    let (_, claim) =
        place.home.claim_name(&RequestedName::Chosen(wanted.clone()), &given_up).expect("a claim");
    std::thread::scope(|scope| {
        let next = scope.spawn(|| place.make(&wanted, "next".to_owned()));
        // The waiting command has the file open; the claim opened it under another name.
        let has_open = || {
            let open = fs::read_dir("/proc/self/fd").expect("a list").flatten();
            open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|file| file.ends_with("names/wanted")))
                .count()
        };
        while has_open() == 0 {
            std::thread::yield_now();
        }
        assert!(!next.is_finished());
        claim.give_up();
        place.home.unmint(&given_up);
        let made = next.join().expect("no panic").expect("the name is free");
        assert_eq!(place.home.session_named("wanted").expect("an answer"), Some(id_of(&made)));
    });
}
