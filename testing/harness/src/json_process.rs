//! A program that speaks JSON, one value per line, on its standard input and output.
//!
//! Promise: its output is always drained; waiting for a line ends with the line, with the program's end, or with a
//! failure that shows all that was said. A talk that is dropped kills its program, as with `kill -9`.
//! Start with [`JsonLineProcess::start`].

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::Value;

use crate::{PATIENCE, ProcessKillGuard};

/// A conversation with a program. Killed with its input open when dropped: the reaction of a program to the end of its
/// input is another story.
#[derive(Debug)]
pub struct JsonLineProcess {
    child: ProcessKillGuard,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    complaints: Option<JoinHandle<String>>,
    /// All lines that came before the ones waited for.
    pub heard: Vec<Value>,
}

impl JsonLineProcess {
    /// Starts a program to talk to.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let mut errors = child.stderr.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(value).is_err() {
                    // The test does not listen any more, and the program must not notice.
                    continue;
                }
            }
        });
        let complaints = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let child = ProcessKillGuard::new(child);
        Self { child, input, lines, complaints: Some(complaints), heard: Vec::new() }
    }

    /// The process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a message. A program that no longer listens is not a failure: the test judges its answer instead.
    pub fn say(&mut self, value: &Value) {
        let input = self.input.as_mut().expect("the input is open");
        let _ = writeln!(input, "{value}").and_then(|()| input.flush());
    }

    /// Waits for a line, and returns it.
    pub fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        match self.wait_or_end(&wanted) {
            Some(value) => value,
            None => panic!("it ended without {what}; it said: {}", self.all_heard()),
        }
    }

    /// Waits for a line; `None` when the program closed its output first.
    pub fn wait_or_end(&mut self, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(value) => {
                    self.heard.push(value.clone());
                    if wanted(&value) {
                        return Some(value);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("waited in vain; it said: {}", self.all_heard()),
            }
        }
    }

    /// Kills the program now, with its input open.
    pub fn kill(&mut self) {
        self.child.kill_and_wait();
    }

    /// Closes the program's input and waits for its end; returns its code (128 + N for a signal)
    /// and its standard error.
    pub fn end(mut self) -> (i32, String) {
        self.input = None;
        while self.wait_or_end(|_| false).is_some() {}
        let status = self.child.wait().expect("our own child");
        let complaints = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        use std::os::unix::process::ExitStatusExt;
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).expect("it ended");
        (code, complaints)
    }

    fn all_heard(&self) -> String {
        let shortened =
            self.heard.iter().map(|value| value.to_string().chars().take(400).collect::<String>());
        shortened.collect::<Vec<_>>().join("\n")
    }
}
