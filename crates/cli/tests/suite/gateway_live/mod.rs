//! Sessions as they live, over HTTP: streams of events, the list as it changes, output, screens, typing, terminals.
//! The row of the scenario list is in the name of the test.
//!
//! `BERTH_SEED=N` repeats a run.

mod events;
mod fan_out;
mod list;
mod output;
mod resume;
mod terminal;
mod terminal_limits;
mod writer;

use berth_api::KeeperConnection;
use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_harness::TestEnvironment;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// A client of the keeper itself.
fn connect(lab: &TestEnvironment, id: &str) -> KeeperConnection {
    KeeperConnection::open(&lab.session_dir(id), "a test".to_owned()).expect("the keeper listens")
}

/// Makes one event happen; its number.
fn note(keeper: &mut KeeperConnection, text: &str) -> u64 {
    match keeper.ask(KeeperRequest::Note { note: Some(text.to_owned()) }) {
        Ok(KeeperAnswer::Done { status }) => status.seq,
        other => panic!("an odd answer: {other:?}"),
    }
}

/// An agent that takes turns, in a session of its own.
fn agent(lab: &TestEnvironment) -> String {
    lab.add_agent("fake", &[]);
    lab.ok(["run", "-d", "--agent", "fake"])
}

/// Resident memory of a process, in KiB.
fn resident_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS:")
}

/// The part of resident memory that is the process's own, without the pages of its program, which come and go with use.
fn own_kib(pid: u32) -> u64 {
    status_kib(pid, "RssAnon:")
}

fn status_kib(pid: u32, size: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with(size)).expect("a size");
    line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

/// How many connections a process has.
fn sockets(pid: u32) -> usize {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    let links = fds.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}
