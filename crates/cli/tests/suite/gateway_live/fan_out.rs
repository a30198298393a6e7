//! Many readers of one busy session: no event lost, no reader slowed, memory bounded.

use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::turn::NewTurn;
use berth_harness::{ServerEventStream, wait_until};

use crate::gateway_live::{agent, connect, lab, note, own_kib, resident_kib};

/// How many read at once. The benchmark has a thousand; this is a debug build.
const READERS: usize = 300;
/// How many small events every reader is sent.
const SMALL: u64 = 100;
/// How many large events are not read when they happen: more than the gateway keeps and a socket holds.
const LARGE: u64 = 12;
/// The size of each large event, in bytes.
const LARGE_BYTES: usize = 700_000;
/// How many of the sleeping readers wake up in the end.
const WAKING: usize = 20;
/// The most memory that a reader who takes nothing may cost the gateway.
const READER_KIB: u64 = 64;
/// Memory between the large pieces in a keeper's heap, which cannot be given back.
const BETWEEN_KIB: u64 = 2 * 1024;
/// Memory that all readers share: the ring, encoded events, and what an allocator keeps.
const SHARED_KIB: u64 = 64 * 1024;

/// Reads the events `from` to `to`.
fn read(stream: &mut ServerEventStream, from: u64, to: u64) {
    for seq in from..=to {
        let event = stream.wait_for("the next event", |event| !event.id.is_empty());
        assert_eq!(event.id, seq.to_string());
    }
}

#[test]
fn of_hundreds_of_readers_none_loses_an_event_and_a_sleeping_one_costs_little() {
    let lab = lab();
    let gateway = lab.serve();
    let id = agent(&lab);
    let pid = lab.number(&id, "keeper_pid");
    let path = format!("/v1/sessions/{id}/events");
    let mut keeper = connect(&lab, &id);
    let first = note(&mut keeper, "the first");
    let mut streams: Vec<ServerEventStream> = (0..READERS).map(|_| gateway.events(&path, &[])).collect();
    streams.iter_mut().for_each(|stream| read(stream, 1, first));
    let sizes = || (resident_kib(gateway.pid()), own_kib(pid));
    let awake = sizes();
    let busy = first + SMALL;
    std::thread::scope(|scope| {
        let share = READERS.div_ceil(4);
        for streams in streams.chunks_mut(share) {
            scope.spawn(move || streams.iter_mut().for_each(|stream| read(stream, first + 1, busy)));
        }
        (1..=SMALL)
            .for_each(|number| assert_eq!(note(&mut keeper, &format!("note {number}")), first + number));
    });
    // The first turn never ends, so that those behind it only wait.
    let wait = format!("wait-file:{}", lab.dir().join("never").display());
    lab.ok(["send", &id, &wait]);
    for _ in 0..LARGE {
        let submit = NewTurn { text: "x".repeat(LARGE_BYTES), ..NewTurn::default() };
        match keeper.ask(KeeperRequest::Send { submit }) {
            Ok(KeeperAnswer::Receipt { .. }) => {}
            other => panic!("an odd answer: {other:?}"),
        }
    }
    let last = note(&mut keeper, "the last");
    // Another reader takes all events: then the gateway has had them all.
    read(&mut gateway.events(&path, &[]), 1, last);
    let asleep = sizes();
    let told_kib = LARGE * LARGE_BYTES as u64 / 1024;
    println!(
        "{READERS} readers who slept while {told_kib} KiB were told; KiB of gateway and keeper: {awake:?} {asleep:?}"
    );
    assert!(
        asleep.0 < awake.0 + SHARED_KIB + READERS as u64 * READER_KIB,
        "the gateway: {awake:?} {asleep:?}"
    );
    // Turns that wait are in the keeper's memory, each text once. Memory used to tell of them (the request, the record,
    // bytes that wait for the gateway: once, however many read there) is free by now, and given back when it is quiet.
    let most_kib = awake.1 + told_kib + BETWEEN_KIB;
    assert!(most_kib < awake.1 + 2 * told_kib, "a second copy would be seen");
    wait_until("the keeper to have each text once", || own_kib(pid) < most_kib);
    println!("KiB of the keeper when it is quiet: {}", own_kib(pid));
    let step = READERS / WAKING;
    streams.iter_mut().step_by(step).for_each(|stream| read(stream, busy + 1, last));
}
