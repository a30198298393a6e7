//! Turns over HTTP: sent by many, repeated, waited for, cancelled, changed and answered, with processes killed
//! meanwhile. The row of the scenario list is in the name of the test.
//!
//! `BERTH_TURN_ROUNDS=500` runs the races that often, `BERTH_SEED=N` repeats a run.
//! Start with `first`; the agent's own transcript ([`PromptRecord`]) shows which prompts it got.

mod answers;
mod bad_input;
mod cancel;
mod conversations;
mod crash;
mod first;
mod keys;
mod leaving;
mod order;
mod queue;
mod scopes;
mod store_full;
mod waits;

use std::path::PathBuf;

use berth_harness::{GatewayProcess, HttpResponse, TestEnvironment, wait_until};
use serde_json::{Value, json};

use crate::turns::common::*;

/// The path of a session in the API.
fn at(id: &str, rest: &str) -> String {
    format!("/v1/sessions/{id}/{rest}")
}

/// A session whose agent works on its first turn until [`open`] is called; returns its id, and the file to open.
fn busy(lab: &TestEnvironment) -> (String, PathBuf) {
    let (go, wait) = gate(lab, "go");
    let (begun, touch) = mark(lab, "begun");
    let id = start(lab, &["--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    (id, go)
}

/// Sends a turn; the reply.
fn send(gateway: &GatewayProcess, id: &str, body: &Value) -> HttpResponse {
    gateway.post(&at(id, "turns"), body)
}

/// Sends a turn with a key.
fn send_keyed(gateway: &GatewayProcess, id: &str, key: &str, body: &Value) -> HttpResponse {
    gateway.ask("POST", &at(id, "turns"), &[("Idempotency-Key", key)], Some(body))
}

/// Sends a turn and waits for it; returns the turn.
fn told(gateway: &GatewayProcess, id: &str, prompt: &str) -> Value {
    let reply = send(gateway, id, &json!({"text": prompt, "wait": true}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// A turn as the gateway tells it.
fn seen(gateway: &GatewayProcess, id: &str, number: u64) -> Value {
    gateway.get(&at(id, &format!("turns/{number}"))).ok()
}

/// The states of all turns, as the gateway tells them.
fn seen_states(gateway: &GatewayProcess, id: &str) -> Vec<String> {
    let all = gateway.get(&at(id, "turns")).ok();
    all["turns"].as_array().expect("an array").iter().map(|turn| text(turn, "state")).collect()
}

/// Waits for the end of everything in a session.
fn wait_idle(gateway: &GatewayProcess, id: &str) {
    let reply = gateway.post(&at(id, "wait"), &json!({"for": "idle", "timeout_ms": 60_000}));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// Waits until a session has accepted so many turns.
fn wait_accepted(gateway: &GatewayProcess, id: &str, count: u64) {
    wait_until("it to be accepted", || gateway.get(&at(id, "turns?limit=0")).ok()["total"] == count);
}
