//! The end of a gateway: requests under way are finished, and sessions go on.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::gateway_server::lab;

#[test]
fn told_to_end_it_ends_at_once_and_takes_its_socket_away() {
    for signal in [Signal::TERM, Signal::INT] {
        let lab = lab();
        let id = lab.start(&["hang"]);
        let mut gateway = lab.serve_with(&["--listen", "127.0.0.1:0"]);
        // An idle connection holds nothing up.
        let mut idle = gateway.connect();
        assert_eq!(gateway.get("/healthz").status, 200);
        let told = Instant::now();
        gateway.signal(signal);
        assert_eq!(gateway.wait(), 0);
        assert!(told.elapsed() < Duration::from_secs(4), "{:?}", told.elapsed());
        assert_eq!(idle.read(&mut [0; 8]).expect("closed in order"), 0);
        assert!(!lab.home().join("gateway.sock").exists() && lab.home().join("gateway.lock").exists());
        assert_eq!(lab.show(&id)["state"], "running");
    }
}

#[test]
fn a_client_that_never_finishes_does_not_hold_up_the_end() {
    let lab = lab();
    let mut gateway = lab.serve();
    let mut stream = gateway.connect();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").expect("connected");
    assert_eq!(gateway.get("/healthz").status, 200);
    let told = Instant::now();
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait(), 0);
    assert!(told.elapsed() < Duration::from_secs(9), "{:?}", told.elapsed());
}
