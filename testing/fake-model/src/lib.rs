//! A model server on loopback: it speaks the streams that Claude Code and Codex expect, and answers as
//! the prompt tells it to.
//!
//! Promise: it listens on 127.0.0.1 only; every request is recorded before it is answered, with all its texts; nothing
//! of it is left when it is dropped. A test never waits for time: an answer is held until it is released, and
//! [`FakeModel::arrived`] returns once it is held.
//! Not here: judging what agents do with the answers (see the tests beside this crate).
//! Start with [`FakeModel::start`] and the language of prompts, [`script`].
//!
//! Besides the two APIs: `POST /release/<name>` releases, `GET /requests` lists the requests, `GET /bodies` their
//! bodies as they were sent.

#![forbid(unsafe_code)]

mod http;
mod recorded_request;
mod response_stream;
pub mod script;
mod serve;

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use recorded_request::{AnswerState, MessageRole, MessageText, ModelApi, ModelRequest, ModelToolResult};

use serve::SharedModelState;

/// How long a test waits for an agent to ask something. Never reached by a good run.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct FakeModel {
    at: SocketAddr,
    shared: Arc<SharedModelState>,
    listener: Option<JoinHandle<()>>,
}

impl FakeModel {
    /// Starts a server on a free port.
    pub fn start() -> io::Result<Self> {
        Self::start_at(0)
    }

    /// Starts a server on this port; 0 for a free one.
    pub fn start_at(port: u16) -> io::Result<Self> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let at = socket.local_addr()?;
        let shared = Arc::new(SharedModelState::default());
        let inside = Arc::clone(&shared);
        let listener = std::thread::Builder::new().name("fake-model".into()).spawn(move || {
            for stream in socket.incoming() {
                if inside.is_over() {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let for_it = Arc::clone(&inside);
                // Held answers wait in their threads, and tests hold few.
                let _ = std::thread::Builder::new()
                    .name("fake-model answer".into())
                    .spawn(move || for_it.connection(&stream));
            }
        })?;
        Ok(Self { at, shared, listener: Some(listener) })
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.at.port()
    }

    /// The base URL for agents: for `ANTHROPIC_BASE_URL` as it is, for Codex with `/v1` behind it.
    pub fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    /// Everything that was asked so far, in the order it came, housekeeping included.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.asked().clone()
    }

    /// The requests of conversations: no titles, no quota checks.
    pub fn turns(&self) -> Vec<ModelRequest> {
        self.requests().into_iter().filter(|asked| !asked.housekeeping).collect()
    }

    /// The prompts of conversations, each as often as it was asked, in order. The requests that bring tool
    /// results are of the same prompt and do not count.
    pub fn prompts(&self) -> Vec<String> {
        let first = self.turns().into_iter().filter(|asked| asked.round == 0);
        first.map(|asked| asked.prompt().to_owned()).collect()
    }

    /// Waits until the recorded requests fulfil a condition; `what` names it in the failure.
    pub fn wait(&self, what: &str, happened: impl Fn(&[ModelRequest]) -> bool) {
        assert!(
            self.shared.wait(PATIENCE, happened),
            "waited in vain for {what}; asked: {:#?}",
            self.requests()
        );
    }

    /// Waits until an answer is held by this name.
    pub fn arrived(&self, name: &str) {
        let arrived = self.shared.wait_held(PATIENCE, name);
        assert!(arrived, "no answer is held by the name {name}; asked: {:#?}", self.requests());
    }

    /// How many answers have been held by this name, those that were released included.
    pub fn arrivals(&self, name: &str) -> usize {
        self.shared.arrivals(name)
    }

    /// Lets all answers held by this name go on, those that are still to come included.
    pub fn release(&self, name: &str) {
        self.shared.release(name);
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.shared.end();
        // The listener sees that it is over when the next connection comes.
        if let Ok(stream) = TcpStream::connect(self.at) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Checks that requests of one conversation follow one another without a fork: each has the texts of the one before it,
/// then more. Retries of one request are fine.
pub fn one_line(requests: &[ModelRequest]) -> Result<(), String> {
    for (number, pair) in requests.windows(2).enumerate() {
        let (before, after) = (pair[0].user_texts(), pair[1].user_texts());
        if !after.starts_with(&before) {
            return Err(format!(
                "request {} does not go on from the one before it: it says {after:?}, the other {before:?}",
                number + 1
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
