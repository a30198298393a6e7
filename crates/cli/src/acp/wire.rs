//! The line to the editor: JSON-RPC, a message a line, on standard input and output.
//!
//! Promise: one message is one line, whoever of us writes it; an editor that no longer reads ends nothing; a line longer
//! than [`MAX_LINE_BYTES`] is refused and passed over, not kept.
//! Not here: what the messages mean (see `acp`). Start with [`Wire`].

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, CancelRequestNotification, PROTOCOL_LEVEL_METHOD_NAMES, RequestId,
    RequestPermissionRequest, SessionNotification, SessionUpdate,
};
use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_driver::{Out, rpc};
use serde::Serialize;
use serde_json::{Value, json};

/// The longest line that an editor may send: a prompt has its own, lower limit, and quotes grow in JSON.
const MAX_LINE_BYTES: usize = 16 << 20;
/// How many questions may wait for the editor's person.
const MOST_ASKED: usize = 256;

/// Both directions.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// Held while a line is written.
    writing: Mutex<()>,
    asked: Mutex<HashMap<String, Asked>>,
    count: AtomicU64,
}

/// A permission that the editor's person was asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) session: SessionId,
    /// What the editor calls the session.
    pub(super) wire: String,
    pub(super) request: String,
    /// In which run: agents number their questions anew in each.
    pub(super) epoch: u64,
}

impl Wire {
    fn write(&self, fill: impl FnOnce(&mut Out)) {
        let mut out = Out::default();
        fill(&mut out);
        let _writing = self.writing.lock().expect("nobody panics while writing");
        if let Err(error) = crate::print::message(&out.bytes) {
            // It will close its end of our input as well, and then we leave.
            tracing::info!(%error, "the editor does not read any more");
        }
    }

    pub(super) fn answer(&self, id: &Value, result: &impl Serialize) {
        self.write(|out| rpc::answer(out, id, result));
    }

    pub(super) fn refuse(&self, id: &Value, code: i64, message: &str) {
        self.write(|out| rpc::refuse(out, id, code, message));
    }

    /// Passes a problem on: what happened, what to do next, and for programs which kind it is.
    pub(super) fn problem(&self, id: &Value, problem: &Problem, more: Option<Value>) {
        let code = match problem.code {
            Code::Usage => rpc::INVALID_PARAMS,
            Code::NotFound => rpc::NOT_FOUND,
            Code::Refused
            | Code::Held
            | Code::InUse
            | Code::Unreachable
            | Code::TimedOut
            | Code::NeedsYes
            | Code::NotAllowed
            | Code::Full
            | Code::Unavailable
            | Code::Bug => rpc::INTERNAL,
        };
        let message = match &problem.hint {
            Some(hint) => format!("{} ({hint})", problem.what),
            None => problem.what.clone(),
        };
        let mut data = json!({ "code": problem.code, "hint": problem.hint });
        if let Some(more) = more {
            data["turn"] = more;
        }
        self.write(|out| rpc::refuse_with(out, id, code, &message, Some(&data)));
    }

    pub(super) fn update(&self, session: &str, update: SessionUpdate) {
        let params = SessionNotification::new(session.to_owned(), update);
        self.write(|out| rpc::notify(out, CLIENT_METHOD_NAMES.session_update, &params));
    }

    /// Asks for a permission; the name of the question, or nothing when too many wait.
    pub(super) fn ask(&self, about: Asked, params: &RequestPermissionRequest) -> Option<String> {
        let id = format!("berth-{}", self.count.fetch_add(1, Ordering::Relaxed));
        {
            let mut asked = self.asked.lock().expect("nobody panics with it");
            if asked.len() >= MOST_ASKED {
                return None;
            }
            asked.insert(id.clone(), about);
        }
        self.write(|out| rpc::request(out, &id, CLIENT_METHOD_NAMES.session_request_permission, params));
        Some(id)
    }

    /// What a question was about, once: whoever takes it answers it.
    pub(super) fn take_asked(&self, id: &str) -> Option<Asked> {
        self.asked.lock().expect("nobody panics with it").remove(id)
    }

    /// The question needs no answer any more.
    pub(super) fn unask(&self, id: &str) {
        if self.take_asked(id).is_some() {
            let params = CancelRequestNotification::new(RequestId::Str(id.to_owned()));
            self.write(|out| rpc::notify(out, PROTOCOL_LEVEL_METHOD_NAMES.cancel_request, &params));
        }
    }
}

/// What came from the editor.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong,
    End,
}

/// Reads one line.
pub(super) fn read(input: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            // A line without an end was never said to its end.
            return Ok(Line::End);
        }
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        is_too_long |= line.len() + part.len() > MAX_LINE_BYTES;
        if is_too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(if is_too_long { Line::TooLong } else { Line::Whole(line) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_one_read() {
        let text = [&vec![b'x'; MAX_LINE_BYTES + 1][..], b"\nnext\nhalf"].concat();
        let mut input = io::BufReader::with_capacity(1 << 16, &text[..]);
        assert_eq!(read(&mut input).expect("memory"), Line::TooLong);
        assert_eq!(read(&mut input).expect("memory"), Line::Whole(b"next".to_vec()));
        assert_eq!(read(&mut input).expect("memory"), Line::End);
    }
}
