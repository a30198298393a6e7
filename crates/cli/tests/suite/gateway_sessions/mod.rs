//! Sessions through the gateway: everything the command line can do with them, asked over HTTP. The row of the
//! scenario list is in the name of the test.
//!
//! Start with [`GatewayApiFixture`], a lab with a gateway and the agent `fake`.

mod creating;
mod diagnostics;
mod helpers;
mod life;
mod not_found;
mod status;
mod transcripts;

use std::path::{Path, PathBuf};
use std::sync::Barrier;

use berth_harness::{GatewayProcess, HttpResponse, TestEnvironment, wait_until};
use serde_json::{Value, json};

/// A lab whose config file has the agent `fake`, and a gateway of it.
struct GatewayApiFixture {
    // Dropped first: its sessions are the lab's.
    gateway: GatewayProcess,
    lab: TestEnvironment,
}

impl GatewayApiFixture {
    fn new() -> Self {
        let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
        let gateway = lab.serve();
        Self { gateway, lab }
    }

    fn get(&self, path: &str) -> Value {
        self.gateway.get(path).ok()
    }

    fn post(&self, path: &str, body: Value) -> HttpResponse {
        self.gateway.post(path, &body)
    }

    fn patch(&self, path: &str, body: Value) -> HttpResponse {
        self.gateway.ask("PATCH", path, &[], Some(&body))
    }

    fn session(&self, session: &str) -> Value {
        self.get(&format!("/v1/sessions/{session}"))
    }

    /// Starts the agent `fake` in a session; its id.
    fn fake(&self, more: Value) -> String {
        let mut body = json!({"agent": "fake", "cwd": self.lab.dir()});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        text(&self.post("/v1/sessions", body).ok()["session"], "id")
    }

    /// Starts the fake agent with a script in a terminal; the session's id.
    fn terminal(&self, script: &[&str]) -> String {
        let agent = self.lab.agent();
        let command: Vec<&str> = std::iter::once(agent.as_str()).chain(script.iter().copied()).collect();
        let made = self.post("/v1/sessions", json!({"command": command, "cwd": self.lab.dir()})).ok();
        text(&made["session"], "id")
    }

    /// Waits until the last turn of a session is over.
    fn wait_idle(&self, session: &str) {
        self.lab.ok(["wait", session]);
    }

    /// A file that a prompt waits for, and the step that does.
    fn gate(&self, name: &str) -> (PathBuf, String) {
        let path = self.lab.dir().join(name);
        let step = format!("wait-file:{}", path.display());
        (path, step)
    }
}

fn open(gate: &Path) {
    std::fs::write(gate, "").expect("a file");
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

/// Does all of it at the same moment; returns the results, in order.
fn at_once<T: Send>(works: Vec<Box<dyn FnOnce() -> T + Send + '_>>) -> Vec<T> {
    let barrier = Barrier::new(works.len());
    std::thread::scope(|scope| {
        let barrier = &barrier;
        let begun = works.into_iter().map(|work| {
            scope.spawn(move || {
                barrier.wait();
                work()
            })
        });
        let begun: Vec<_> = begun.collect();
        begun.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

/// Waits until a session's files are old enough to be believed without a second look.
fn settled(api: &GatewayApiFixture, id: &str) {
    let path = api.lab.session_dir(id).join("status.json");
    wait_until("the status cache to be a moment old", || {
        let changed = std::fs::metadata(&path).and_then(|file| file.modified());
        changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_millis() > 100))
    });
}
