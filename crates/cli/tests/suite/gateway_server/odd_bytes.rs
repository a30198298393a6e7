//! Bytes that are not a valid request, or are an odd one: they are refused, and the gateway goes on.

use std::io::{Read, Write};

use berth_harness::{GatewayProcess, exchange, request};

use crate::gateway_server::lab;

/// Sends bytes and reads until the end; returns the statuses of the answers.
fn statuses(gateway: &GatewayProcess, bytes: &[u8]) -> Vec<u16> {
    let mut stream = gateway.connect();
    let _ = stream.write_all(bytes);
    // A client that hangs up before the answer wants none; an incomplete request can only end in this way.
    let is_whole = bytes.ends_with(b"\r\n\r\n");
    if !is_whole {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    let text = String::from_utf8_lossy(&heard);
    let first_lines = text.match_indices("HTTP/1.").map(|(at, _)| &text[at..]);
    first_lines.filter_map(|line| line.get(9..12)?.parse().ok()).collect()
}

#[test]
fn bytes_that_are_not_a_request_are_refused_and_other_clients_are_unaffected() {
    let lab = lab();
    let gateway = lab.serve();
    let long = "a".repeat(100_000);
    let headers: String = (0..200).map(|at| format!("X-{at}: y\r\n")).collect();
    let table: Vec<(Vec<u8>, &[u16])> = vec![
        (b"NONSENSE\r\n\r\n".to_vec(), &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), &[400]),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n".to_vec(), &[400]),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n".to_vec(), &[400]),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n".to_vec(), &[400]),
        (
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_vec(),
            &[400],
        ),
        (b"GET /a\x00b HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), &[400]),
        (format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{headers}\r\n").into_bytes(), &[431]),
        (format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n").into_bytes(), &[431]),
        (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes(), &[414, 431]),
        // Without a host name the request may be meant for any server: the gateway requires a name of its own.
        (b"GET /healthz HTTP/1.0\r\n\r\n".to_vec(), &[400]),
        (b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n".to_vec(), &[400]),
        // The following are requests.
        (b"GET /healthz HTTP/1.0\r\nHost: x\r\n\r\n".to_vec(), &[200]),
        (b"GET /healthz HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(), &[200]),
    ];
    for (bytes, expected) in table {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        let heard = statuses(&gateway, &bytes);
        assert!(matches!(heard.as_slice(), [one] if expected.contains(one)), "{shown:?}: {heard:?}");
    }
    // Two that are sent at once are answered in order, each on its own.
    let both = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut stream = gateway.connect();
    stream.write_all(both).expect("connected");
    let mut heard = String::new();
    stream.read_to_string(&mut heard).expect("text");
    let (first, second) =
        (heard.find("HTTP/1.1 200").expect("the first"), heard.find("HTTP/1.1 404").expect("the second"));
    assert!(first < second, "{heard}");
    assert_eq!(gateway.get("/healthz").status, 200);
}

#[test]
fn no_path_leads_anywhere_but_to_a_route() {
    let lab = lab();
    let gateway = lab.serve();
    lab.start_with(&["--name", "fix"], &["hang"]);
    for path in [
        "/../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//healthz",
        "/healthz/",
        "/v1/sessions/..",
        "/v1/sessions/%2e%2e",
        "/v1/sessions/..%2f..%2fgateway.lock",
        "/v1/sessions/fix%00",
        "/v1/sessions/%00",
        "/v1/sessions/%ff%fe",
        "/v1/sessions/%c0%ae%c0%ae",
        "/v1/sessions/fix%0d%0aSet-Cookie:%20a=b",
        "/v1/sessions/./fix",
    ] {
        let reply = gateway.get(path);
        assert!(matches!(reply.status, 400 | 404), "{path}: {reply:?}");
        let problem = reply.json();
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path}");
        assert!(problem["code"] == "not-found" || problem["code"] == "usage", "{path}: {problem}");
        assert!(reply.header("set-cookie").is_none() && !reply.text().contains("root:"), "{path}");
    }
    let long = format!("/v1/sessions/{}", "x".repeat(4000));
    gateway.get(&long).problem(404, "not-found");
    gateway.ask("DELETE", "/healthz", &[], None).problem(405, "usage");
    gateway.ask("BREW", "/healthz", &[], None).problem(405, "usage");
    let head = exchange(gateway.connect(), &request("HEAD", "/nothing", &[], None));
    assert_eq!(head.status, 404);
}
