//! Notifications to users who do not look, from the outside: a web server, a terminal and programs of the test's own
//! hear from real keepers, healers and notifiers.
//!
//! A test sees that nothing was sent once no notifier is left: notifiers start before any client hears of the event.

mod channels;
mod commands;
mod ending;
mod formats;
mod occasions;
mod once;
mod server;
mod watching_clients;
mod webhook;

use std::fs;
use std::process::{Child, Command, Stdio};

use berth_harness::{TestEnvironment, wait_until};
use berth_host::identity::ProcessIdentity;
use serde_json::Value;

use server::{WebhookReply, WebhookServer};

/// The secret of every webhook here.
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A lab whose config file has the agent `fake`, and these settings besides.
fn lab_with(notify: &str) -> TestEnvironment {
    let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
    let agent = fs::read_to_string(lab.config()).expect("a config file");
    fs::write(lab.config(), format!("{agent}{notify}")).expect("a config file");
    lab
}

/// A lab that tells a server of everything.
fn lab_telling(server: &WebhookServer) -> TestEnvironment {
    lab_with(&webhook(server))
}

fn webhook(server: &WebhookServer) -> String {
    format!("[notify.webhook]\nurl = {:?}\nsecret = {SECRET:?}\n", server.url("/hook"))
}

/// A lab and the server it tells of everything.
fn told() -> (TestEnvironment, WebhookServer) {
    let server = WebhookServer::new(&[WebhookReply::Status(200)]);
    (lab_telling(&server), server)
}

/// The notifiers of this lab that are at work.
fn notifiers(lab: &TestEnvironment) -> Vec<ProcessIdentity> {
    let is_notifier = |it: &ProcessIdentity| {
        fs::read(format!("/proc/{}/cmdline", it.pid)).is_ok_and(|line| line.starts_with(b"berth\0notifier\0"))
    };
    lab.processes().into_iter().filter(is_notifier).collect()
}

/// Waits until all notifications are sent.
fn settled(lab: &TestEnvironment) {
    wait_until("the notifiers to be gone", || notifiers(lab).is_empty());
}

/// The log of notifications.
fn log(lab: &TestEnvironment) -> Vec<Value> {
    lab.json(["notify", "log", "--last", "0", "--json"]).as_array().expect("an array").clone()
}

fn start(lab: &TestEnvironment, options: &[&str]) -> String {
    lab.ok([&["run", "-d", "--agent", "fake"], options].concat())
}

/// Sends a turn and waits until it is over, in a way that does not count as looking at it.
fn send(lab: &TestEnvironment, session: &str, text: &str) {
    let sent = lab.json(["send", session, "--json", text]);
    let turn = sent["turn"].as_str().expect("a turn").to_owned();
    wait_until("the turn to be over", || {
        let state = lab.json(["turn", &turn, "--json"])["state"].clone();
        !matches!(state.as_str(), Some("queued" | "delivered" | "working"))
    });
}

fn spawned(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth can be started")
}

fn pair(what: &str, name: &str) -> (String, String) {
    (what.to_owned(), name.to_owned())
}
