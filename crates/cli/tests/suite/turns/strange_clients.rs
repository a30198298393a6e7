//! Clients of a keeper that never finish what they send, or lie about where they are.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use berth_harness::{TestEnvironment, wait_until};

use super::*;

/// The length that a frame of the longest kind announces, and its kind: a call.
const LONGEST_HEADER: [u8; 5] = [0, 0, 0, 1, b'c'];
/// How much of that frame is sent: nearly all of it.
const SENT_BYTES: usize = 15 << 20;
/// How many clients do so. All that they send together is 480 MiB.
const HOARDERS: usize = 32;
/// How much memory a keeper may have had at any time, in KiB.
const MOST_MEMORY_KIB: u64 = 160 << 10;

fn connect(lab: &TestEnvironment, id: &str) -> UnixStream {
    let stream = berth_host::socket::connect(&lab.session_dir(id), "sock").expect("the keeper listens");
    // These timeouts pass only if the keeper fails to disconnect the client.
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    stream.set_write_timeout(Some(Duration::from_secs(30))).expect("a socket");
    stream
}

/// Waits until the keeper has closed a connection.
fn expect_end(stream: &mut UnixStream) {
    let mut rest = Vec::new();
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
}

/// The most memory that a process ever had, in KiB.
fn peak_memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_client_that_begins_with_a_long_frame_is_disconnected_before_it_arrives() {
    let lab = lab();
    let id = start(&lab, &[]);
    let mut stream = connect(&lab, &id);
    stream.write_all(&LONGEST_HEADER).expect("room in the socket");
    expect_end(&mut stream);
    assert_eq!(lab.ok(["send", "--wait", &id, "hello"]), "ECHO: hello");
}

#[test]
fn clients_that_never_finish_their_frames_cost_a_keeper_a_bounded_amount_of_memory() {
    let lab = lab();
    let id = start(&lab, &[]);
    let keeper = lab.number(&id, "keeper_pid");
    let piece = vec![b' '; SENT_BYTES];
    let mut hoarders = Vec::new();
    for _ in 0..HOARDERS {
        let mut stream = connect(&lab, &id);
        // A request that is accepted, so that longer ones may follow.
        let status = br#"{"protocol":1,"place":"","request":{"ask":"status"}}"#;
        berth_api::frame::write_frame(&mut stream, berth_api::frame::FrameKind::Call, &[status])
            .expect("room");
        berth_api::frame::read_frame(&mut stream).expect("an answer").expect("an answer");
        // The keeper disconnects the client that hoards most, which may be this one.
        let _ = stream.write_all(&LONGEST_HEADER).and_then(|()| stream.write_all(&piece));
        hoarders.push(stream);
    }
    // A prompt as long as any gets through meanwhile.
    let long = "x".repeat(1 << 20);
    let dir = lab.session_dir(&id);
    let mut sender = KeeperConnection::open(&dir, "a test".to_owned()).expect("the keeper listens");
    let submit = berth_api::turn::NewTurn { text: long, ..Default::default() };
    sender.ask(KeeperRequest::Send { submit }).expect("it is accepted");
    let peak = peak_memory_kib(keeper);
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
    drop(hoarders);
    wait_until("the turn's end", || states(&lab, &id) == ["done"]);
}

#[test]
fn the_place_that_a_client_claims_is_recorded_cut_cleaned_and_as_claimed() {
    let lab = lab();
    let id = start(&lab, &[]);
    let place = format!("token admin at 9.9.9.9\x1b[2J\n{}", "x".repeat(1_000));
    let mut liar = KeeperConnection::open(&lab.session_dir(&id), place).expect("the keeper listens");
    let submit = berth_api::turn::NewTurn { text: "hello".to_owned(), ..Default::default() };
    liar.ask(KeeperRequest::Send { submit }).expect("it is accepted");
    let by = &lab.json(["turn", "--json", &format!("{id}.1")])["by"];
    let place = text(by, "place");
    assert!(place.starts_with("token admin at 9.9.9.9?[2J?x"), "{by}");
    assert!(place.ends_with("x (claimed)") && place.chars().count() < 300, "{by}");
    assert_eq!(by["pid"], std::process::id());
    lab.ok(["wait", &id, "--timeout", "60s"]);
    lab.ok(["send", "--wait", &id, "from a command"]);
    let by = &lab.json(["turn", "--json", &format!("{id}.2")])["by"];
    assert!(text(by, "place").ends_with(" (claimed)"), "{by}");
}
