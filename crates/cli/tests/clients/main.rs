//! Clients that foreign tools make from `berth openapi`, driven against a real gateway with an agent that takes turns;
//! schemathesis, which tries everything the description allows and much that it does not; and the examples in Python.
//!
//! The scripts of the clients are in `testing/clients/`, and `testing/clients/install` brings the tools.

mod generated;
mod replays;
mod schemathesis;

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_harness::{GatewayProcess, TestEnvironment};

/// A lab whose config file has the agent `fake`.
fn lab() -> TestEnvironment {
    TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// Directory of the scripts that drive the clients.
fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/clients")
}

/// Directory of the installed tools.
fn tools() -> PathBuf {
    let install = scripts().join("install");
    let there = Command::new(&install).arg("--check").output().expect("bash");
    assert!(there.status.success(), "run testing/clients/install first: {there:?}");
    let place = Command::new(&install).arg("--where").output().expect("bash");
    PathBuf::from(String::from_utf8(place.stdout).expect("a path").trim())
}

/// Writes the description into the lab; returns its path.
fn described(lab: &TestEnvironment) -> PathBuf {
    let path = lab.dir().join("openapi.json");
    std::fs::write(&path, lab.ok(["openapi"])).expect("a file");
    path
}

/// A gateway on the network, and a token for everything.
fn serve(lab: &TestEnvironment, name: &str) -> (GatewayProcess, String) {
    let token = lab.ok(["token", "new", "--scope", "admin", "--name", name]);
    (lab.serve_with(&["--listen", "127.0.0.1:0"]), token)
}

/// Lets a program find the gateway.
fn pointed(command: &mut Command, lab: &TestEnvironment, gateway: &GatewayProcess, token: &str) {
    let address = gateway.address.as_ref().expect("it listens");
    command
        .env("BERTH_URL", format!("http://{address}"))
        .env("BERTH_TOKEN", token)
        .env("BERTH_LAB", lab.dir());
}

/// Runs a program to its end; returns its output. Fails with all of its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out
}
