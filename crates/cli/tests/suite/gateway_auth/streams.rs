//! Streams and other long requests end with the token they were opened with.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use berth_harness::{GatewayProcess, request};

use crate::gateway_auth::{bearer, lab, serve, token};

/// A second, and what a busy machine needs on top.
const BOUND: Duration = Duration::from_secs(10);

/// Opens something, reads its first line, and gives the rest.
fn open(gateway: &GatewayProcess, path: &str, headers: &[(&str, &str)]) -> (String, BufReader<TcpStream>) {
    let host = gateway.address.clone().expect("it listens on TCP");
    let headers = [&[("Host", host.as_str())], headers].concat();
    let mut stream = gateway.connect_tcp();
    stream.write_all(&request("GET", path, &headers, None)).expect("the gateway listens");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("an answer");
    (line, reader)
}

#[test]
fn an_event_stream_ends_when_its_token_is_revoked_in_the_middle() {
    let lab = lab();
    let gateway = serve(&lab);
    let id = lab.start_with(&["--name", "one"], &["hang"]);
    for (number, path) in ["/v1/events".to_owned(), format!("/v1/sessions/{id}/events")].iter().enumerate() {
        let name = format!("bot{number}");
        let secret = bearer(&token(&lab, "read", &name, &[]));
        let headers = [("Authorization", secret.as_str()), ("Accept", "text/event-stream")];
        let (first, mut stream) = open(&gateway, path, &headers);
        assert!(first.contains(" 200 "), "{path}: {first}");
        let mut line = String::new();
        while !line.starts_with("data:") {
            line.clear();
            assert!(stream.read_line(&mut line).expect("an event") > 0, "{path} ended early");
        }
        let begun = Instant::now();
        lab.ok(["token", "revoke", &name]);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("an end");
        assert!(begun.elapsed() < BOUND, "{path}: {:?}", begun.elapsed());
        assert!(open(&gateway, path, &headers).0.contains(" 401 "), "{path}");
    }
    lab.ok(["stop", "one", "--grace", "0s"]);
}

#[test]
fn an_answer_that_is_waited_for_ends_when_its_token_is_revoked_in_the_middle() {
    let lab = lab();
    let gateway = serve(&lab);
    lab.start_with(&["--name", "one"], &["hang"]);
    let secret = bearer(&token(&lab, "read", "bot", &[]));
    let host = gateway.address.clone().expect("it listens on TCP");
    let mut stream = gateway.connect_tcp();
    let body = r#"{"for":"exit"}"#;
    let head = format!(
        "POST /v1/sessions/one/wait HTTP/1.1\r\nHost: {host}\r\nAuthorization: {secret}\r\nExpect: 100-continue\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("the gateway listens");
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut line = String::new();
    // The request is accepted, and the gateway asks for its body.
    reader.read_line(&mut line).expect("an answer");
    assert!(line.contains(" 100 "), "{line}");
    stream.write_all(body.as_bytes()).expect("the gateway listens");
    let begun = Instant::now();
    lab.ok(["token", "revoke", "bot"]);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).expect("an end");
    assert!(rest.contains("HTTP/1.1 401 ") && rest.contains("during the request"), "{rest}");
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert_eq!(lab.show("one")["state"], "running");
    lab.ok(["stop", "one", "--grace", "0s"]);
}

#[test]
fn a_terminal_ends_when_its_token_is_revoked_in_the_middle() {
    let lab = lab();
    let gateway = serve(&lab);
    lab.start_with(&["--name", "one"], &["hang"]);
    let secret = bearer(&token(&lab, "control", "bot", &[]));
    let host = gateway.address.clone().expect("it listens on TCP");
    let request = tungstenite::http::Request::builder()
        .uri(format!("ws://{host}/v1/sessions/one/terminal?role=writer&rows=24&cols=80"))
        .header("Host", &host)
        .header("Authorization", &secret)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
        .header("Sec-WebSocket-Protocol", "berth.terminal.v1");
    let (mut socket, _) = tungstenite::client(request.body(()).expect("a request"), gateway.connect_tcp())
        .expect("it lets us in");
    assert!(socket.read().is_ok(), "attached");
    let begun = Instant::now();
    lab.ok(["token", "revoke", "bot"]);
    while let Ok(message) = socket.read() {
        if message.is_close() {
            break;
        }
        assert!(begun.elapsed() < BOUND);
    }
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert_eq!(lab.show("one")["state"], "running", "only the observers are gone");
    lab.ok(["stop", "one", "--grace", "0s"]);
}
