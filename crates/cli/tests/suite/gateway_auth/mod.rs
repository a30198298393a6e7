//! Permissions of clients of the gateway, tested from outside: with right tokens, wrong ones, and other people's pages.

mod audit;
mod directories;
mod login;
mod proxies;
mod request_checks;
mod scopes;
mod secrets;
mod streams;
mod tokens;

use std::io::{BufRead, BufReader, Write};

use berth_harness::{GatewayProcess, HttpResponse, TestEnvironment};
use berth_harness::{exchange, request};

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// A gateway on a port of its own.
fn serve(lab: &TestEnvironment) -> GatewayProcess {
    lab.serve_with(&["--listen=127.0.0.1:0"])
}

/// Makes a token, and gives its secret.
fn token(lab: &TestEnvironment, scope: &str, name: &str, more: &[&str]) -> String {
    let args = [&["token", "new", "--scope", scope, "--name", name], more].concat();
    lab.ok(args).trim().to_owned()
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Asks over TCP with a token.
fn ask(
    gateway: &GatewayProcess,
    method: &str,
    path: &str,
    token: &str,
    body: Option<&serde_json::Value>,
) -> HttpResponse {
    gateway.ask_tcp(method, path, &[("Authorization", &bearer(token))], body)
}

/// Where its own page is.
fn origin(gateway: &GatewayProcess) -> String {
    format!("http://{}", gateway.address.as_ref().expect("it listens on TCP"))
}

/// Posts a form over TCP, with exactly these headers besides the host.
fn post_form(gateway: &GatewayProcess, path: &str, headers: &[(&str, &str)], form: &str) -> HttpResponse {
    let host = gateway.address.clone().expect("it listens on TCP");
    let length = form.len().to_string();
    let own = [
        ("Host", host.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Content-Length", length.as_str()),
    ];
    let mut bytes = request("POST", path, &[&own[..], headers].concat(), None);
    bytes.extend(form.as_bytes());
    exchange(gateway.connect_tcp(), &bytes)
}

/// Only the status: what follows may never end.
fn status(gateway: &GatewayProcess, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
    let host = gateway.address.clone().expect("it listens on TCP");
    let headers = [&[("Host", host.as_str())], headers].concat();
    let mut stream = gateway.connect_tcp();
    stream.write_all(&request(method, path, &headers, None)).expect("the gateway listens");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{line:?}"))
}

/// The key of a login, as the page shows it with every request.
fn key_of(reply: &HttpResponse) -> String {
    bearer(reply.ok()["secret"].as_str().expect("a secret"))
}
