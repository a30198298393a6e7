//! A program that speaks JSON-RPC on its standard input and output, one message per line.
//!
//! Promise: requests are numbered from 1 on; an answer that has come already is found.
//! Not here: what the methods mean.
//! Start with [`RpcClient::ask`] and [`RpcClient::answer`].

use std::process::Command;

use serde_json::{Value, json};

use crate::JsonLineProcess;

/// A conversation in requests and answers.
#[derive(Debug)]
pub struct RpcClient {
    /// All messages in both directions.
    pub talk: JsonLineProcess,
    next: u64,
}

impl RpcClient {
    /// Starts a program to talk to.
    pub fn start(command: &mut Command) -> Self {
        Self { talk: JsonLineProcess::start(command), next: 1 }
    }

    /// Asks, and does not wait; the number of the request.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.talk.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a message that has no answer.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.talk.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Waits for the answer to a request, which may have come already.
    pub fn answer(&mut self, id: u64) -> Value {
        // The other side numbers its own requests, and may use the same numbers.
        let is_it = |said: &Value| said["id"] == id && said.get("method").is_none();
        match self.talk.heard.iter().find(|said| is_it(said)) {
            Some(said) => said.clone(),
            None => self.talk.wait("an answer", is_it),
        }
    }
}
