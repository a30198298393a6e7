//! An agent may not command its supervisor: commands that run inside of a session, as an agent's tools do, through
//! the command line, the keepers' sockets and the gateway's.
//!
//! Start with [`inside`].

mod children;
mod directories;
mod escapes;
mod given;
mod notified;
mod other_account;
mod refused;
mod sockets;
mod stdio;

use std::path::PathBuf;

use berth_harness::{TestEnvironment, wait_until};

const BERTH: &str = env!("CARGO_BIN_EXE_berth");

/// A lab whose config file has the agent `fake`, with a store for its transcripts.
fn lab() -> TestEnvironment {
    TestEnvironment::with_agent(BERTH)
}

/// Starts the agent in a session of this name; the id.
fn agent(lab: &TestEnvironment, name: &str, options: &[&str]) -> String {
    lab.ok([&["run", "-d", "--agent", "fake", "--name", name], options].concat())
}

/// The output of a command, errors and all, and how it ended.
#[derive(Debug)]
struct CombinedOutput {
    code: i32,
    text: String,
}

impl CombinedOutput {
    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.text
    }

    /// Asserts that the caller was refused, with a hint what to do about it.
    fn refused(self, inside: &str) -> String {
        assert_eq!(self.code, 11, "{self:?}");
        assert!(self.text.contains(&format!("inside of session `{inside}` may not ")), "{self:?}");
        assert!(self.text.contains("hint: ask a person") && self.text.contains("--grant "), "{self:?}");
        self.text
    }
}

/// Runs a shell command as a tool of the agent in this session; `berth` in it is the one under test.
fn inside(lab: &TestEnvironment, session: &str, command: &str) -> CombinedOutput {
    let bin = std::path::Path::new(BERTH).parent().expect("a directory").display();
    let said = lab.berth(["send", "--wait", session, &format!("sh:PATH={bin}:$PATH; {{ {command}; }} 2>&1")]);
    assert_eq!(said.code, 0, "the turn itself: {said:?}");
    let text = said.out.trim_end();
    let (text, code) = match text.rsplit_once("exit ") {
        Some((text, code)) if code.chars().all(|digit| digit.is_ascii_digit()) => {
            (text.to_owned(), code.parse().expect("a number"))
        }
        _ => (text.to_owned(), 0),
    };
    CombinedOutput { code, text }
}

/// Waits until a session asks something.
fn wait_asks(lab: &TestEnvironment, session: &str) {
    let asked = || lab.show(session)["turns"]["asks"].as_array().is_some_and(|asks| asks.len() == 1);
    wait_until("it to ask", asked);
}

/// A file that a process inside waits for, or makes.
fn file(lab: &TestEnvironment, name: &str) -> PathBuf {
    lab.dir().join(name)
}
