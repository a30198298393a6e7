//! Turns over HTTP: sent by many, repeated, waited for, cancelled, changed and answered, whatever is killed meanwhile. The
//! row of the scenario list is in the name of the test.
//!
//! `BERTH_TURN_ROUNDS=500` runs the races that often, `BERTH_SEED=N` repeats a run.
//! Start with `first`; what the agent did is read from its own transcript ([`Did`]).

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

use berth_harness::{Gateway, Lab, Reply, wait_until};
use serde_json::{Value, json};

use crate::turns::common::*;

/// Where a session is.
fn at(id: &str, rest: &str) -> String {
    format!("/v1/sessions/{id}/{rest}")
}

/// A session whose agent works on its first turn until [`open`] is called; its id, and what to open.
fn busy(lab: &Lab) -> (String, PathBuf) {
    let (go, wait) = gate(lab, "go");
    let (begun, touch) = mark(lab, "begun");
    let id = start(lab, &["--prompt", &format!("{touch} {wait} x")]);
    wait_mark(&begun);
    (id, go)
}

/// Sends a turn; the reply.
fn send(gateway: &Gateway, id: &str, body: &Value) -> Reply {
    gateway.post(&at(id, "turns"), body)
}

/// Sends a turn with a key.
fn send_keyed(gateway: &Gateway, id: &str, key: &str, body: &Value) -> Reply {
    gateway.ask("POST", &at(id, "turns"), &[("Idempotency-Key", key)], Some(body))
}

/// Sends a turn and waits for it; what came of it.
fn told(gateway: &Gateway, id: &str, prompt: &str) -> Value {
    let reply = send(gateway, id, &json!({"text": prompt, "wait": true}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// A turn as the gateway tells it.
fn seen(gateway: &Gateway, id: &str, number: u64) -> Value {
    gateway.get(&at(id, &format!("turns/{number}"))).ok()
}

/// The states of all turns, as the gateway tells them.
fn seen_states(gateway: &Gateway, id: &str) -> Vec<String> {
    let all = gateway.get(&at(id, "turns")).ok();
    all["turns"].as_array().expect("an array").iter().map(|turn| text(turn, "state")).collect()
}

/// Waits for the end of everything in a session.
fn wait_idle(gateway: &Gateway, id: &str) {
    let reply = gateway.post(&at(id, "wait"), &json!({"for": "idle", "timeout_ms": 60_000}));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// Waits until a session has accepted so many turns.
fn wait_accepted(gateway: &Gateway, id: &str, count: u64) {
    wait_until("it to be accepted", || gateway.get(&at(id, "turns?limit=0")).ok()["total"] == count);
}
