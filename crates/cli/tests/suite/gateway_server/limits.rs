//! Clients that are too numerous, too slow, or never done.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use berth_harness::{GatewayProcess, TestEnvironment, exchange, request, wait_until};

use crate::gateway_server::lab;

/// Resident memory of a process, in bytes.
fn memory_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// A number of `/metrics`.
fn metric(gateway: &GatewayProcess, name: &str) -> u64 {
    let text = gateway.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

/// A gateway that is not patient with clients.
fn impatient(lab: &TestEnvironment, args: &[&str]) -> GatewayProcess {
    let mut command = lab.command(["serve"].iter().chain(args));
    command.env("BERTH_CLIENT_MS", "700");
    lab.serve_from(command, args)
}

#[test]
fn a_thousand_idle_connections_keep_no_client_out_and_cost_little() {
    const MANY: usize = 1000;
    berth_host::open_file_limit::raise_limit(4096).expect("a limit");
    let lab = lab();
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0"]);
    for _ in 0..20 {
        assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).status, 200);
    }
    let before = memory_bytes(gateway.pid());
    let mut idle: Vec<TcpStream> = (0..MANY).map(|_| gateway.connect_tcp()).collect();
    // Half of them have said something already, and will never say the rest.
    for stream in idle.iter_mut().step_by(2) {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: ").expect("connected");
    }
    wait_until("all of them", || metric(&gateway, "berth_http_connections") > MANY as u64);
    // A request that had to wait for one of these would never be answered.
    assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).status, 200);
    assert_eq!(gateway.get("/readyz").status, 200);
    let each = memory_bytes(gateway.pid()).saturating_sub(before) / MANY as u64;
    assert!(each < 40 * 1024, "{each} bytes for each connection");
    drop(idle);
    wait_until("their end", || metric(&gateway, "berth_http_connections") == 1);
}

/// A gateway on TCP that may have so many files open.
fn with_files(lab: &TestEnvironment, count: u32) -> GatewayProcess {
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {count} && exec \"$0\" serve --listen 127.0.0.1:0");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_berth")]);
    command.env("BERTH_HOME", lab.home()).env("BERTH_CONFIG", lab.config());
    lab.serve_from(command, &["--listen", "127.0.0.1:0"])
}

#[test]
fn at_the_limit_an_idle_connection_makes_room() {
    let lab = lab();
    lab.ok(["ls"]);
    // Half of the files it may have open are for connections.
    let gateway = with_files(&lab, 100);
    let mut idle: Vec<TcpStream> = (0..300).map(|_| gateway.connect_tcp()).collect();
    for _ in 0..20 {
        assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).status, 200);
    }
    assert!(metric(&gateway, "berth_http_connections") <= 50);
    assert!(metric(&gateway, "berth_http_connections_evicted_total") >= 250);
    assert_eq!(metric(&gateway, "berth_http_connections_refused_total"), 0);
    // The oldest connections were closed first.
    assert_eq!(idle[0].read(&mut [0; 1]).expect("closed"), 0);
    let last = idle.pop().expect("many");
    assert_eq!(exchange(last, &request("GET", "/healthz", &[], None)).status, 200);
}

#[test]
fn strangers_that_do_not_read_their_answers_keep_no_client_out() {
    let lab = lab();
    lab.ok(["ls"]);
    let gateway = with_files(&lab, 100);
    let host = gateway.address.clone().expect("it listens on TCP");
    // More than all buffers on the way hold, of a page that needs no token.
    let asked = format!("GET /openapi.json HTTP/1.1\r\nHost: {host}\r\n\r\n").repeat(100);
    let strangers: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = gateway.connect_tcp();
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).expect("a socket");
            // A connection that makes room for the next may be closed already.
            if stream.write_all(asked.as_bytes()).is_ok() {
                let _ = stream.peek(&mut [0; 1]);
            }
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).status, 200);
    }
    assert_eq!(metric(&gateway, "berth_http_connections_refused_total"), 0);
    drop(strangers);
}

/// A token that may only read.
fn token(lab: &TestEnvironment, number: usize) -> String {
    lab.ok(["token", "new", "--scope", "read", "--name", &format!("bot{number}")])
}

/// A request to follow all sessions with this token.
fn follow(gateway: &GatewayProcess, token: &str) -> Vec<u8> {
    let host = gateway.address.clone().expect("it listens on TCP");
    let bearer = format!("Bearer {}", token.trim());
    let headers = [("Host", &*host), ("Authorization", &*bearer), ("Accept", "text/event-stream")];
    request("GET", "/v1/events", &headers, None)
}

#[test]
fn a_token_with_too_many_streams_loses_its_own_oldest_and_keeps_no_other_token_out() {
    let lab = lab();
    lab.ok(["ls"]);
    // One in eight of its 100 connections is for the streams of one token.
    let gateway = with_files(&lab, 200);
    let (greedy, other) = (follow(&gateway, &token(&lab, 0)), follow(&gateway, &token(&lab, 1)));
    let open = |asked: &[u8]| {
        let mut stream = gateway.connect_tcp();
        stream.write_all(asked).expect("it is let in");
        let mut heard = [0; 12];
        stream.read_exact(&mut heard).expect("an answer");
        assert_eq!(&heard, b"HTTP/1.1 200");
        stream
    };
    let mut theirs = open(&other);
    let mut streams: Vec<TcpStream> = (0..150).map(|_| open(&greedy)).collect();
    let mut heard = String::new();
    let mut first = streams.remove(0);
    // The stream sends all events before it was closed, then the reason, then the end of the answer.
    while !heard.contains("\r\n0\r\n\r\n") {
        let mut piece = [0; 4096];
        let count = first.read(&mut piece).expect("the rest of it");
        assert!(count > 0, "it was cut off: {heard}");
        heard.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    assert!(heard.contains("event: problem") && heard.contains("\"code\":\"full\""), "{heard}");
    assert!(heard.contains("more than 12 event streams"), "{heard}");
    for _ in 0..20 {
        assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).status, 200);
    }
    assert_eq!(metric(&gateway, "berth_http_connections_refused_total"), 0);
    // The streams of others, and the youngest of its own, go on.
    for stream in [&mut theirs, streams.last_mut().expect("many")] {
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket");
        let mut rest = Vec::new();
        let over = stream.read_to_end(&mut rest).expect_err("it goes on");
        assert!(matches!(over.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{over}");
        assert!(!String::from_utf8_lossy(&rest).contains("event: problem"), "{rest:?}");
    }
}

#[test]
fn a_token_with_too_many_waits_loses_its_own_oldest() {
    let lab = lab();
    lab.start_with(&["--name", "s"], &["hang"]);
    let token = token(&lab, 0);
    let gateway = with_files(&lab, 200);
    let host = gateway.address.clone().expect("it listens on TCP");
    let body = "{\"for\":\"exit\"}";
    let asked = format!(
        "POST /v1/sessions/s/wait HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\
         Content-Type: application/json\r\nConnection: close\r\n\r\n{body}",
        token.trim(),
        body.len()
    );
    let mut waits: Vec<TcpStream> = (0..30)
        .map(|_| {
            let mut stream = gateway.connect_tcp();
            stream.write_all(asked.as_bytes()).expect("it is let in");
            stream.set_nonblocking(true).expect("a socket");
            stream
        })
        .collect();
    let is_answered = |stream: &TcpStream| stream.peek(&mut [0; 1]).is_ok();
    wait_until("12 of them to be left", || waits.iter().filter(|wait| is_answered(wait)).count() == 18);
    lab.ok(["stop", "s", "--grace", "0s"]);
    let mut told = Vec::new();
    for wait in &mut waits {
        wait.set_nonblocking(false).expect("a socket");
        let mut heard = String::new();
        wait.read_to_string(&mut heard).expect("an answer");
        assert!(heard.contains(" 200 OK") || heard.contains("more than 12 waits"), "{heard}");
        told.push(heard.starts_with("HTTP/1.1 429 "));
    }
    assert_eq!(told.iter().filter(|is_refused| **is_refused).count(), 18, "{told:?}");
}

#[test]
fn strangers_whose_logins_never_come_keep_no_client_out_and_only_a_few_are_waited_for() {
    let lab = lab();
    lab.ok(["ls"]);
    let token = token(&lab, 0);
    let gateway = with_files(&lab, 100);
    let host = gateway.address.clone().expect("it listens on TCP");
    let head = format!(
        "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Expect: 100-continue\r\nContent-Length: 100\r\n\r\n"
    );
    let begin = || {
        let mut stream = gateway.connect_tcp();
        stream.write_all(head.as_bytes()).expect("it is let in");
        // From here on its body is waited for.
        let mut heard = [0; 12];
        stream.read_exact(&mut heard).expect("an answer");
        assert_eq!(&heard, b"HTTP/1.1 100");
        stream
    };
    let mut strangers: Vec<TcpStream> = (0..40).map(|_| begin()).collect();
    let bearer = format!("Bearer {}", token.trim());
    for _ in 0..40 {
        let reply = gateway.ask_tcp("GET", "/v1/sessions", &[("Authorization", &bearer)], None);
        assert_eq!(reply.status, 200, "{reply:?}");
        strangers.push(begin());
    }
    assert_eq!(metric(&gateway, "berth_http_connections_refused_total"), 0);
    // The first ones were given up for later ones: they got 429, or were closed to make room.
    let mut heard = String::new();
    strangers[0].read_to_string(&mut heard).expect("an answer");
    assert!(heard.contains("HTTP/1.1 429 ") && heard.contains("16 newer logins"), "{heard}");
}

#[test]
fn at_the_limit_a_stranger_is_told_so_and_the_owner_is_served() {
    let lab = lab();
    lab.ok(["ls"]);
    let gateway = with_files(&lab, 200);
    // Streams are served for as long as they go on, so no connection makes room. One token has no more than 12.
    let follows: Vec<Vec<u8>> = (0..10).map(|number| follow(&gateway, &token(&lab, number))).collect();
    let mut served: Vec<TcpStream> = Vec::new();
    let refused = loop {
        let mut stream = gateway.connect_tcp();
        let is_refused = || metric(&gateway, "berth_http_connections_refused_total") > 0;
        let connections = || metric(&gateway, "berth_http_connections");
        // Beside the streams there is the connection that asks.
        wait_until("it to be let in or not", || connections() > served.len() as u64 + 1 || is_refused());
        // The connection that asked before may still be counted: the answer decides.
        if !is_refused() {
            let follow = &follows[served.len() / 12];
            stream.write_all(follow).expect("it is let in, or was hung up on");
        }
        let mut heard = vec![0; 12];
        stream.read_exact(&mut heard).expect("an answer");
        if heard != b"HTTP/1.1 200" {
            stream.read_to_end(&mut heard).expect("the rest of it");
            break heard;
        }
        served.push(stream);
    };
    let refused = String::from_utf8(refused).expect("text");
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\r\nRetry-After: 1\r\n"), "{refused}");
    assert!(refused.contains("\r\nContent-Type: application/problem+json\r\n"), "{refused}");
    assert!(refused.contains("\"code\":\"full\""), "{refused}");
    assert!(served.len() >= 90, "{}", served.len());
    assert_eq!(gateway.get("/readyz").status, 200);
    assert_eq!(metric(&gateway, "berth_http_connections_refused_total"), 1);
}

#[test]
fn a_body_that_does_not_come_is_408() {
    let lab = lab();
    let gateway = impatient(&lab, &[]);
    for (path, kind) in
        [("/v1/sessions", "application/json"), ("/login", "application/x-www-form-urlencoded")]
    {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 100\r\n\
             Connection: close\r\n\r\n{{\"na"
        );
        exchange(gateway.connect(), head.as_bytes()).problem(408, "usage");
    }
}

#[test]
fn a_head_that_never_ends_is_not_waited_for_and_nor_is_the_next_request() {
    let lab = lab();
    let gateway = impatient(&lab, &["--listen", "127.0.0.1:0"]);
    let started = Instant::now();
    let mut slow = gateway.connect_tcp();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").expect("connected");
    let mut silent = gateway.connect_tcp();
    let mut kept = gateway.connect_tcp();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").expect("connected");
    for stream in [&mut slow, &mut silent, &mut kept] {
        let mut heard = Vec::new();
        // Closed by the gateway; a connection with half a request may get an answer that says so.
        let _ = stream.read_to_end(&mut heard);
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    // A drop at a time does not make the timeout longer: it is for the whole head.
    let mut dripping = gateway.connect_tcp();
    let dripped = Instant::now();
    while dripped.elapsed() < Duration::from_secs(20) && dripping.write_all(b"X").is_ok() {
        // The next drop comes after a while, unless the gateway says something before: then it has had enough.
        let pause = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let _ = poll(&mut [PollFd::new(&dripping, PollFlags::IN)], Some(&pause));
    }
    assert!(dripped.elapsed() < Duration::from_secs(20), "it was waited for");
    wait_until("their end", || metric(&gateway, "berth_http_connections") == 1);
}

#[test]
fn a_client_that_reads_no_answers_is_disconnected_and_costs_little() {
    let lab = lab();
    let gateway = impatient(&lab, &["--listen", "127.0.0.1:0"]);
    assert!(gateway.ask_tcp("GET", "/openapi.json", &[], None).body.len() > 1000);
    let before = memory_bytes(gateway.pid());
    let mut deaf = gateway.connect_tcp();
    deaf.set_nonblocking(true).expect("a socket");
    // Asks for as long as the gateway reads: no answer is read, so the answers fill every buffer there is.
    let ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let until = Instant::now() + Duration::from_secs(60);
    let mut sent = 0;
    loop {
        match deaf.write(&ask[sent % ask.len()..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // Until there is room, or it is over.
                let mut room = [PollFd::new(&deaf, PollFlags::OUT)];
                let _ = poll(&mut room, Some(&Timespec { tv_sec: 60, tv_nsec: 0 }));
            }
            Err(_) => break,
        }
        assert!(Instant::now() < until, "it is still listened to after {sent} bytes");
    }
    let more = memory_bytes(gateway.pid()).saturating_sub(before);
    assert!(more < 24 << 20, "{more} bytes for one client");
    wait_until("its end", || metric(&gateway, "berth_http_connections") == 1);
}
