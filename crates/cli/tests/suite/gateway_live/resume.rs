//! Resuming a stream: however it broke, its reader gets every event once.

use std::sync::atomic::{AtomicBool, Ordering};

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use berth_harness::{GatewayProcess, SeededRng, TestEnvironment};

use crate::gateway_live::{connect, lab, note};

/// How many events happen while readers come and go.
const EVENTS: u64 = 400;
/// How many readers there are.
const READERS: usize = 4;

/// Reads a stream in many pieces, with a break after each, until all events are there; returns the lines.
fn read_in_pieces(
    gateway: &std::sync::RwLock<GatewayProcess>,
    path: &str,
    last: u64,
    seed: &mut SeededRng,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    while (lines.len() as u64) < last {
        let heard = lines.len().to_string();
        let open = gateway.read().expect("a gateway").try_events(path, &[("Last-Event-ID", &heard)]);
        // The gateway does not listen at this moment.
        let Some(mut stream) = open else {
            std::thread::yield_now();
            continue;
        };
        let wanted = 1 + seed.below(40);
        let mut got = 0;
        while got < wanted && (lines.len() as u64) < last {
            let Some(event) = stream.next() else { break };
            if event.id.is_empty() {
                continue;
            }
            assert_eq!(event.id, (lines.len() + 1).to_string(), "after event {heard}");
            lines.push(event.data);
            got += 1;
        }
    }
    lines
}

fn disturb(
    lab: &TestEnvironment,
    id: &str,
    gateway: &std::sync::RwLock<GatewayProcess>,
    keeper: &mut KeeperConnection,
    seed: &mut SeededRng,
) {
    match seed.below(3) {
        0 => {
            let mut gateway = gateway.write().expect("a gateway");
            gateway.kill();
            *gateway = lab.serve();
        }
        1 => {
            let _ = keeper.ask(KeeperRequest::Restart);
        }
        _ => {
            lab.ok(["stop", "--grace", "0s", id]);
            lab.ok(["resume", "-d", id]);
        }
    }
    *keeper = berth_harness::retry("the keeper", || {
        let mut keeper = KeeperConnection::open(&lab.session_dir(id), "a test".to_owned()).ok()?;
        keeper.ask(KeeperRequest::Status).ok().map(|_| keeper)
    });
}

#[test]
fn a_reader_that_resumes_from_its_last_number_gets_every_event_once() {
    let lab = lab();
    let mut seed = SeededRng::announce("resume");
    let id = lab.start(&["hang"]);
    let gateway = std::sync::RwLock::new(lab.serve());
    let path = format!("/v1/sessions/{id}/events");
    let mut keeper = connect(&lab, &id);
    let disturbed = AtomicBool::new(false);
    let seeds: Vec<SeededRng> = (0..READERS).map(|_| seed.fork()).collect();
    let all = std::thread::scope(|scope| {
        let readers: Vec<_> = seeds
            .into_iter()
            .map(|mut seed| {
                let (gateway, path) = (&gateway, &path);
                scope.spawn(move || read_in_pieces(gateway, path, EVENTS, &mut seed))
            })
            .collect();
        let mut last = 0;
        while last < EVENTS {
            last = note(&mut keeper, &format!("number {last}"));
            if last % 60 == 0 {
                disturb(&lab, &id, &gateway, &mut keeper, &mut seed);
                disturbed.store(true, Ordering::Relaxed);
            }
        }
        readers.into_iter().map(|reader| reader.join().expect("a reader")).collect::<Vec<_>>()
    });
    assert!(disturbed.into_inner());
    let log: Vec<_> = lab.log(&id).into_iter().take(EVENTS as usize).collect();
    for lines in all {
        let told: Vec<serde_json::Value> =
            lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert!(told == log, "the stream differs from the log");
    }
}
