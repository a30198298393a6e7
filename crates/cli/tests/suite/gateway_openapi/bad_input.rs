//! Invalid bodies and heads, over a raw socket: a typed answer each, nothing done, and memory stays as it was.

use std::io::{Read, Write};

use berth_harness::{GatewayProcess, HttpResponse, exchange};
use serde_json::json;

use crate::gateway_openapi::lab;

fn post(gateway: &GatewayProcess, path: &str, body: &[u8]) -> HttpResponse {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    exchange(gateway.connect(), &[head.as_bytes(), body].concat())
}

/// Memory of a process in bytes.
fn memory_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn a_body_that_is_not_json_or_not_of_the_right_shape_is_refused_with_the_place_of_the_mistake() {
    let lab = lab();
    let gateway = lab.serve();
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let deep_objects = br#"{"a":"#.repeat(50_000);
    let table: Vec<(Vec<u8>, &str)> = vec![
        (b"{".to_vec(), "EOF"),
        (b"{}}".to_vec(), "trailing"),
        (b"nonsense".to_vec(), "expected"),
        (b"\xff\xfe{}".to_vec(), "expected"),
        (b"{\"name\": \"\xc3\x28\"}".to_vec(), "name"),
        (b"{\"name\": \"\\ud800\"}".to_vec(), "name"),
        (b"\xef\xbb\xbf{}".to_vec(), "expected"),
        (b"{\"name\": 1}".to_vec(), "name"),
        (b"{\"name\": [\"a\"]}".to_vec(), "name"),
        (b"{\"tags\": {\"a\": 1}}".to_vec(), "tags"),
        (b"{\"tui\": \"yes\"}".to_vec(), "tui"),
        (b"{\"command\": \"ls\"}".to_vec(), "command"),
        (b"{\"env\": {\"A\": 1}}".to_vec(), "env"),
        (b"{\"nmae\": \"a\"}".to_vec(), "nmae"),
        (b"{\"limits\": {\"memory\": 1}}".to_vec(), "memory"),
        (b"{\"name\": \"a\", \"name\": \"b\"}".to_vec(), "name"),
        (b"{\"limits\": {\"memory_bytes\": NaN}}".to_vec(), "limits"),
        (b"{\"limits\": {\"memory_bytes\": 1e400}}".to_vec(), "limits"),
        (b"{\"limits\": {\"memory_bytes\": -1}}".to_vec(), "limits"),
        (b"{\"limits\": {\"memory_bytes\": 1.5}}".to_vec(), "limits"),
        (b"{\"limits\": {\"memory_bytes\": 99999999999999999999}}".to_vec(), "limits"),
        (deep, "expected"),
        (deep_objects.clone(), "`a`"),
        ([br#"{"env":"#, deep_objects.as_slice()].concat(), "env"),
        (b"[]".to_vec(), "expected an object"),
        (b"[\"name\", null]".to_vec(), "expected an object"),
        (b"{\"limits\": [1]}".to_vec(), "limits"),
        (b"{\"policy\": []}".to_vec(), "policy"),
        (b"{\"limits\": {\"processes\": 1, \"processes\": 2}}".to_vec(), "processes"),
        (b"null".to_vec(), "expected"),
        (b"\"{}\"".to_vec(), "expected"),
    ];
    for (body, named) in table {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let reply = post(&gateway, "/v1/sessions", &body);
        let problem = reply.problem(400, "usage");
        let title = problem["title"].as_str().unwrap_or_default();
        assert!(title.contains(named), "{shown}: {title}");
        assert!(reply.body.len() < 4096, "{shown}: an answer of {} bytes", reply.body.len());
    }
    assert_eq!(gateway.get("/v1/sessions?all=true").ok()["sessions"], json!([]));
}

/// Text that a client sends is never returned as a header or a line of its own.
#[test]
fn text_from_a_client_breaks_out_of_no_header_and_no_line() {
    let lab = lab();
    let gateway = lab.serve();
    lab.start_with(&["--name", "fix"], &["hang"]);
    for path in [
        "/v1/sessions/fix%0d%0aX-Evil:%201",
        "/v1/sessions/fix/export?format=cast%0d%0aX-Evil:%201",
        "/v1/sessions/fix/turns/1%0d%0aX-Evil:%201",
        "/v1/helpers/x%0d%0aX-Evil:%201/log",
        "/v1/tokens/x%0aX-Evil:%201",
        "/v1/hosts/x%0d%0aX-Evil:%201/sessions",
        "/assets/x%0d%0aX-Evil:%201",
        "/login?link=x%0d%0aX-Evil:%201",
    ] {
        let reply = gateway.get(path);
        // The owner needs no login, and is sent to the page.
        let is_fine =
            if path.starts_with("/login") { reply.status == 303 } else { (400..500).contains(&reply.status) };
        assert!(is_fine || reply.status == 200, "{path}: {reply:?}");
        assert!(reply.header("location").is_none_or(|to| to == "/"), "{path}: {reply:?}");
        assert_eq!(reply.header("x-evil"), None, "{path}");
    }
    let name = json!({"name": "a\r\nX-Evil: 1", "agent": "fake"});
    gateway.post("/v1/sessions", &name).problem(400, "usage");
    let keys = json!({"text": "x"});
    // A line break in a header ends it: the text behind it is another header, or not a request.
    let reply = gateway.ask("POST", "/v1/sessions/fix/turns", &[("Idempotency-Key", "a\nb")], Some(&keys));
    assert_eq!(reply.status, 400, "{reply:?}");
    let reply = gateway.ask("POST", "/v1/sessions/fix/turns", &[("Idempotency-Key", "\u{e9}")], Some(&keys));
    reply.problem(400, "usage");
}

#[test]
fn names_that_are_paths_lead_nowhere_in_any_route_that_takes_one() {
    let lab = lab();
    let gateway = lab.serve();
    let operations = gateway.get("/openapi.json").ok()["paths"].as_object().expect("paths").clone();
    let mut count = 0;
    for (path, of_path) in operations {
        for method in of_path.as_object().expect("operations").keys().map(|method| method.to_uppercase()) {
            if !path.contains('{') {
                continue;
            }
            for odd in [
                "..",
                "%2e%2e",
                "..%2f..%2f..%2f..%2fetc%2fpasswd",
                "%2fetc%2fpasswd",
                "%00",
                "%ff%fe",
                "%c0%ae%c0%ae%c0%af",
                "~root",
                "-rf",
                "*",
                "%25%32%65",
                "con%5c..%5c",
            ] {
                let parts = path.split('/').map(|part| if part.starts_with('{') { odd } else { part });
                let at = parts.collect::<Vec<_>>().join("/");
                let reply = gateway.ask(&method, &at, &[], None);
                assert!(
                    matches!(reply.status, 400 | 404),
                    "{method} {at}: {} {}",
                    reply.status,
                    reply.text()
                );
                let code = if reply.status == 400 { "usage" } else { "not-found" };
                reply.problem(reply.status, code);
                assert!(!reply.text().contains("root:"), "{method} {at}");
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count}");
    assert_eq!(gateway.get("/healthz").status, 200);
}

/// A body that says it is huge, and one that does not say how long it is and never ends.
#[test]
fn bodies_without_end_are_refused_and_leave_no_memory_behind() {
    let lab = lab();
    let mut gateway = lab.serve();
    post(&gateway, "/v1/sessions", &vec![b' '; (2 << 20) + 1]).problem(413, "usage");
    let before = memory_bytes(gateway.pid());
    let head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for _ in 0..8 {
        // A promise of ten gigabytes is refused before they come, or when the first two million bytes have.
        let mut stream = gateway.connect();
        let _ = stream.write_all(format!("{head}Content-Length: 10000000000\r\n\r\n").as_bytes());
        let piece = vec![b' '; 1 << 16];
        let sent = (0..1024).take_while(|_| stream.write_all(&piece).is_ok()).count();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(sent < 1024, "it listened to {sent} pieces");
        // Chunks that never end.
        let mut stream = gateway.connect();
        let _ = stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
        let chunk = [b"10000\r\n".as_slice(), &piece, b"\r\n"].concat();
        let sent = (0..1024).take_while(|_| stream.write_all(&chunk).is_ok()).count();
        assert!(sent < 1024, "it listened to {sent} chunks");
    }
    // A string that is nothing but escapes, just within the limit, sixteen times.
    let text = format!("{{\"name\": \"{}\"}}", "\\u0041".repeat(300_000));
    for _ in 0..16 {
        post(&gateway, "/v1/sessions", text.as_bytes()).problem(400, "usage");
    }
    let after = memory_bytes(gateway.pid());
    assert!(after < before + (64 << 20), "{before} bytes before, {after} after");
    assert!(gateway.is_running());
    assert_eq!(gateway.get("/healthz").status, 200);
}
