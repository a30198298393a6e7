//! Telling people who do not look, from the outside: a web server, a terminal and programs of the test's own hear
//! what real keepers, healers and notifiers tell.
//!
//! That nobody is told is seen once no notifier is left: it is started before anybody hears of the event.

mod channels;
mod commands;
mod ending;
mod formats;
mod looking;
mod occasions;
mod once;
mod server;
mod webhook;

use std::fs;
use std::process::{Child, Command, Stdio};

use berth_harness::{Lab, wait_until};
use berth_host::identity::Identity;
use serde_json::Value;

use server::{Reply, Server};

/// The secret of every webhook here.
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A lab whose config file has the agent `fake`, and this besides.
fn lab_with(notify: &str) -> Lab {
    let lab = Lab::with_agent(env!("CARGO_BIN_EXE_berth"));
    let agent = fs::read_to_string(lab.config()).expect("a config file");
    fs::write(lab.config(), format!("{agent}{notify}")).expect("a config file");
    lab
}

/// A lab that tells a server of everything.
fn lab_telling(server: &Server) -> Lab {
    lab_with(&webhook(server))
}

fn webhook(server: &Server) -> String {
    format!("[notify.webhook]\nurl = {:?}\nsecret = {SECRET:?}\n", server.url("/hook"))
}

/// A lab and the server it tells of everything.
fn told() -> (Lab, Server) {
    let server = Server::new(&[Reply::Status(200)]);
    (lab_telling(&server), server)
}

/// The notifiers of this lab that are at work.
fn notifiers(lab: &Lab) -> Vec<Identity> {
    let is_notifier = |it: &Identity| {
        fs::read(format!("/proc/{}/cmdline", it.pid)).is_ok_and(|line| line.starts_with(b"berth\0notifier\0"))
    };
    lab.processes().into_iter().filter(is_notifier).collect()
}

/// Waits until everybody was told who is.
fn settled(lab: &Lab) {
    wait_until("the notifiers to be gone", || notifiers(lab).is_empty());
}

/// The log of notifications.
fn log(lab: &Lab) -> Vec<Value> {
    lab.json(["notify", "log", "--last", "0", "--json"]).as_array().expect("an array").clone()
}

fn start(lab: &Lab, options: &[&str]) -> String {
    lab.ok([&["run", "-d", "--agent", "fake"], options].concat())
}

/// Sends a turn and waits until it is over, in a way that is not looking at it.
fn send(lab: &Lab, session: &str, text: &str) {
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
