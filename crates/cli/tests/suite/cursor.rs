//! The cursor over a session's events: no event is skipped and none is told twice, however the keepers end.
//!
//! `BERTH_SEED=N` repeats a run, `BERTH_TURN_ROUNDS=N` makes it longer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_api::message::KeeperRequest;
use berth_api::record::EventEntry;
use berth_api::{AccessScope, KeeperConnection};
use berth_core::SessionId;
use berth_harness::{PATIENCE, SeededRng, TestEnvironment, signal, wait_until};
use berth_host::identity::ProcessIdentity;
use berth_store::StateDir;
use berth_verbs::session_cursor::CursorNews;
use berth_verbs::{SessionCursor, VerbContext};
use rustix::process::Signal;

/// How many things happen to a session in one life.
const DEEDS: u64 = 24;
/// How many cursors look on. Each begins at another number.
const CURSORS: u64 = 4;

fn lab() -> TestEnvironment {
    TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))
}

fn ctx(lab: &TestEnvironment) -> VerbContext {
    VerbContext {
        home: StateDir::open(lab.home()).expect("a state directory"),
        place: "a test".to_owned(),
        size: None,
        parent: None,
        also: vec![],
        unseen: None,
        scope: AccessScope::Admin,
    }
}

fn start(lab: &TestEnvironment) -> (VerbContext, SessionId) {
    let id = lab.ok(["run", "-d", "--agent", "fake", "--on-unknown", "continue"]);
    (ctx(lab), SessionId::parse(&id).expect("an id"))
}

fn next(cursor: &mut SessionCursor) -> CursorNews {
    cursor.next(Some(Instant::now() + PATIENCE)).expect("news in time")
}

/// Waits for news of one kind; the events before it, by number.
fn until(cursor: &mut SessionCursor, is_it: impl Fn(&CursorNews) -> bool) -> Vec<u64> {
    let mut seqs = Vec::new();
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "waited in vain; told so far: {seqs:?}");
        match next(cursor) {
            news if is_it(&news) => return seqs,
            CursorNews::Event { seq, .. } => seqs.push(seq),
            _ => {}
        }
    }
}

fn journal(ctx: &VerbContext, id: &SessionId, from: u64) -> Vec<(u64, EventEntry)> {
    let events = ctx.home.session(id).read(from).expect("a journal");
    events.iter().map(|event| (event.seq().0, event.get().entry())).collect()
}

#[test]
fn keepers_that_die_and_are_replaced_make_a_cursor_neither_skip_nor_repeat_an_event() {
    let mut seed = SeededRng::announce("cursor");
    let rounds = std::env::var("BERTH_TURN_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for life in 0..rounds {
        a_life(&lab(), &mut seed, life);
    }
}

fn a_life(lab: &TestEnvironment, seed: &mut SeededRng, life: u64) {
    let (ctx, id) = start(lab);
    // The number of the last event there will be, once it is known.
    let last = AtomicU64::new(u64::MAX);
    std::thread::scope(|threads| {
        let followers: Vec<_> = (0..CURSORS)
            .map(|at| {
                let (ctx, id, last, mut seed) = (&ctx, &id, &last, seed.fork());
                let from = 1 + at * seed.below(20);
                let follower = move || {
                    seed.dawdle(200_000);
                    follow(ctx.session(id).events(from), last)
                };
                (from, threads.spawn(follower))
            })
            .collect();
        for deed in 0..DEEDS {
            disturb(lab, seed, id.as_str(), deed);
            seed.dawdle(30_000);
        }
        lab.ok(["send", "--wait", id.as_str(), "the last"]);
        // The end is a crash: no keeper tells of its events, and the first reader that looks records the loss.
        if seed.below(2) == 0 {
            lab.kill_keeper(id.as_str());
        } else {
            lab.ok(["stop", "--grace", "0s", id.as_str()]);
        }
        ctx.session(&id).status().expect("a status");
        let all = journal(&ctx, &id, 1);
        last.store(all.last().expect("events").0, Ordering::SeqCst);
        for (from, follower) in followers {
            let told = follower.join().expect("a follower");
            let expected: Vec<_> = all.iter().filter(|(seq, _)| *seq >= from).cloned().collect();
            let seqs = |events: &[(u64, EventEntry)]| events.iter().map(|(seq, _)| *seq).collect::<Vec<_>>();
            assert_eq!(seqs(&told), seqs(&expected), "life {life}, from {from}");
            assert_eq!(told, expected, "life {life}, from {from}");
        }
    });
}

/// Everything a cursor tells, up to the last event.
fn follow(mut cursor: SessionCursor, last: &AtomicU64) -> Vec<(u64, EventEntry)> {
    let mut told: Vec<(u64, EventEntry)> = Vec::new();
    let mut end: Option<Instant> = None;
    loop {
        let last = last.load(Ordering::SeqCst);
        let is_late = *end.get_or_insert_with(|| Instant::now() + PATIENCE) < Instant::now();
        if last == u64::MAX {
            end = None;
        } else if is_late || told.last().is_some_and(|(seq, _)| *seq >= last) {
            return told;
        }
        let news = cursor.next(Some(Instant::now() + Duration::from_millis(100)));
        if let Some(CursorNews::Event { seq, entry }) = news {
            told.push((seq, *entry));
        }
    }
}

fn disturb(lab: &TestEnvironment, seed: &mut SeededRng, id: &str, deed: u64) {
    match seed.below(8) {
        0..=2 => drop(lab.ok(["send", id, &format!("sleep:{} {deed}", seed.below(10))])),
        3 => drop(lab.berth(["tag", id, &format!("t{deed}")])),
        4 => drop(lab.berth(["stop", "--grace", "0s", id])),
        5 => {
            let keeper = KeeperConnection::open(&lab.session_dir(id), "a test".into());
            // The keeper may be gone by now.
            let _ = keeper.map(|mut keeper| keeper.send(KeeperRequest::Restart));
        }
        _ => {
            let pid = lab.show(id)["keeper_pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
            let keeper = pid.and_then(|pid| ProcessIdentity::of(pid).ok());
            keeper.iter().for_each(|keeper| signal(keeper, Signal::KILL));
        }
    }
}

#[test]
fn a_cursor_far_behind_is_brought_up_to_date_from_disk_and_then_told_by_the_keeper() {
    let lab = lab();
    let (ctx, id) = start(&lab);
    for at in 0..20 {
        lab.ok(["tag", id.as_str(), &format!("t{at}")]);
    }
    let seq = ctx.session(&id).status().expect("a status").seq;
    let mut cursor = ctx.session(&id).events(3);
    let CursorNews::Connected(status) = next(&mut cursor) else { panic!("the status is told first") };
    assert_eq!(status.seq, seq);
    for expected in 3..=seq {
        let CursorNews::Event { seq, .. } = next(&mut cursor) else { panic!("then the past") };
        assert_eq!(seq, expected);
    }
    lab.ok(["tag", id.as_str(), "late"]);
    until(&mut cursor, |news| matches!(news, CursorNews::Event { seq: late, .. } if *late == seq + 1));
}

#[test]
fn a_cursor_without_a_keeper_tells_the_journal_to_its_end_and_finds_the_next_keeper() {
    let lab = lab();
    let (ctx, id) = start(&lab);
    lab.ok(["stop", "--grace", "0s", id.as_str()]);
    let seq = ctx.session(&id).status().expect("a status").seq;
    let mut cursor = ctx.session(&id).events(1);
    let seqs =
        until(&mut cursor, |news| matches!(news, CursorNews::NoKeeper(Ok(status)) if status.seq == seq));
    assert_eq!(seqs, (1..=seq).collect::<Vec<_>>());
    lab.ok(["send", "--wait", id.as_str(), "hello"]);
    until(&mut cursor, |news| matches!(news, CursorNews::Connected(_)));
    let mut news = ctx.session(&id).news();
    assert!(until(&mut news, |news| matches!(news, CursorNews::Connected(_))).is_empty());
}

#[test]
fn a_cursor_that_heals_records_the_loss_of_a_killed_keeper_and_tells_it() {
    let lab = lab();
    let (ctx, id) = start(&lab);
    let mut cursor = ctx.session(&id).events(1).healing();
    until(&mut cursor, |news| matches!(news, CursorNews::Connected(_)));
    lab.kill_keeper(id.as_str());
    until(
        &mut cursor,
        |news| matches!(news, CursorNews::Event { entry, .. } if matches!(entry.event, berth_api::record::Event::RunEnded { .. })),
    );
    assert!(until(&mut cursor, |news| matches!(news, CursorNews::NoKeeper(Ok(_)))).is_empty());
}

#[test]
fn a_keeper_that_does_not_answer_is_called_silent_and_its_journal_is_read() {
    let lab = lab();
    let (ctx, id) = start(&lab);
    let seq = ctx.session(&id).status().expect("a status").seq;
    let keeper = lab.process(id.as_str(), "keeper_pid");
    signal(&keeper, Signal::STOP);
    let mut cursor = ctx.session(&id).events(1);
    assert!(until(&mut cursor, |news| *news == CursorNews::Silent).is_empty());
    let told = until(&mut cursor, |news| matches!(news, CursorNews::Event { seq: last, .. } if *last == seq));
    assert_eq!(told, (1..seq).collect::<Vec<_>>());
    signal(&keeper, Signal::CONT);
    assert!(until(&mut cursor, |news| matches!(news, CursorNews::Connected(_))).is_empty());
    lab.ok(["tag", id.as_str(), "later"]);
    until(&mut cursor, |news| matches!(news, CursorNews::Event { seq: next, .. } if *next == seq + 1));
}

#[test]
fn a_cursor_whose_keeper_is_there_and_whose_journal_could_not_be_read_reads_it_again_by_itself() {
    let lab = lab();
    let (ctx, id) = start(&lab);
    let seq = ctx.session(&id).status().expect("a status").seq;
    let journal = lab.session_dir(id.as_str()).join("journal");
    let away = journal.with_extension("away");
    std::fs::rename(&journal, &away).expect("moved away");
    let mut cursor = ctx.session(&id).events(1);
    assert!(until(&mut cursor, |news| matches!(news, CursorNews::Trouble(_))).is_empty());
    for _ in 0..3 {
        let is_lost = |news: &CursorNews| {
            assert!(!matches!(news, CursorNews::Trouble(_)), "told once: {news:?}");
            *news == CursorNews::Lost
        };
        assert!(until(&mut cursor, is_lost).is_empty());
    }
    std::fs::rename(&away, &journal).expect("moved back");
    let told = until(&mut cursor, |news| matches!(news, CursorNews::Event { seq: last, .. } if *last == seq));
    assert_eq!(told, (1..seq).collect::<Vec<_>>());
}

#[test]
fn the_purge_of_a_session_ends_its_cursor() {
    let lab = lab();
    let (ctx, id) = start(&lab);
    let mut cursor = ctx.session(&id).events(1);
    until(&mut cursor, |news| matches!(news, CursorNews::Connected(_)));
    lab.ok(["stop", "--grace", "0s", id.as_str()]);
    lab.ok(["purge", "--yes", id.as_str()]);
    wait_until("the purge", || !lab.session_dir(id.as_str()).exists());
    until(&mut cursor, |news| matches!(news, CursorNews::Purged(_)));
    assert!(matches!(cursor.next(None), Some(CursorNews::Purged(_))), "and nothing is waited for any more");
}

#[test]
fn a_cursor_waits_no_longer_than_it_is_told_to() {
    let lab = lab();
    let (ctx, id) = start(&lab);
    let mut cursor = ctx.session(&id).events(u64::MAX);
    until(&mut cursor, |news| matches!(news, CursorNews::Connected(_)));
    let begun = Instant::now();
    while cursor.next(Some(begun + Duration::from_millis(50))).is_some() {}
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(begun.elapsed() < PATIENCE);
}
