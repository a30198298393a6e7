//! The connection to the editor: JSON-RPC on standard input and output, one message per line.
//!
//! Promise: one message is one line, even if several threads write. An editor that stops reading ends nothing. A line
//! longer than [`MAX_LINE_BYTES`] is refused and skipped, not kept.
//! Not here: the meaning of the messages (see `acp`). Start with [`EditorConnection`].

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, CancelRequestNotification, PROTOCOL_LEVEL_METHOD_NAMES, RequestId,
    RequestPermissionRequest, SessionNotification, SessionUpdate,
};
use berth_api::{Problem, ProblemCode};
use berth_core::SessionId;
use berth_driver::{DriverOutput, rpc};
use serde::Serialize;
use serde_json::{Value, json};

/// The longest line that an editor may send: a prompt has its own, lower limit, and quotes grow in JSON.
const MAX_LINE_BYTES: usize = 16 << 20;
/// How many questions may wait for the editor's user.
const MOST_ASKED: usize = 256;

/// Writes messages to the editor and remembers its open questions.
#[derive(Debug, Default)]
pub(super) struct EditorConnection {
    /// Held while a line is written.
    writing: Mutex<()>,
    asked: Mutex<HashMap<String, PendingPermission>>,
    count: AtomicU64,
}

/// A permission request that is open in the editor.
#[derive(Clone, Debug)]
pub(super) struct PendingPermission {
    pub(super) session: SessionId,
    /// The session id that the editor uses.
    pub(super) wire: String,
    pub(super) request: String,
    /// The epoch of the run: agents number their questions anew in each run.
    pub(super) epoch: u64,
}

impl EditorConnection {
    fn write(&self, fill: impl FnOnce(&mut DriverOutput)) {
        let mut out = DriverOutput::default();
        fill(&mut out);
        let _writing = self.writing.lock().expect("no thread panics while writing");
        if let Err(error) = berth_host::stdio::write_stdout(&out.bytes) {
            // The editor closes our input too, and then this process ends.
            tracing::info!(%error, "the editor has stopped reading");
        }
    }

    pub(super) fn answer(&self, id: &Value, result: &impl Serialize) {
        self.write(|out| rpc::send_result(out, id, result));
    }

    pub(super) fn refuse(&self, id: &Value, code: i64, message: &str) {
        self.write(|out| rpc::send_error(out, id, code, message));
    }

    /// Answers with a problem: what happened, what to do next, and a code for programs.
    pub(super) fn problem(&self, id: &Value, problem: &Problem, more: Option<Value>) {
        let code = match problem.code {
            ProblemCode::Usage => rpc::INVALID_PARAMS,
            ProblemCode::NotFound => rpc::NOT_FOUND,
            ProblemCode::Refused
            | ProblemCode::Held
            | ProblemCode::InUse
            | ProblemCode::Unreachable
            | ProblemCode::TimedOut
            | ProblemCode::NeedsYes
            | ProblemCode::NotAllowed
            | ProblemCode::Full
            | ProblemCode::Unavailable
            | ProblemCode::Bug => rpc::INTERNAL,
        };
        let message = match &problem.hint {
            Some(hint) => format!("{} ({hint})", problem.what),
            None => problem.what.clone(),
        };
        let mut data = json!({ "code": problem.code, "hint": problem.hint });
        if let Some(more) = more {
            data["turn"] = more;
        }
        self.write(|out| rpc::send_error_with_data(out, id, code, &message, Some(&data)));
    }

    pub(super) fn update(&self, session: &str, update: SessionUpdate) {
        let params = SessionNotification::new(session.to_owned(), update);
        self.write(|out| rpc::send_notification(out, CLIENT_METHOD_NAMES.session_update, &params));
    }

    /// Sends a permission request; gives its id, or nothing when too many are open.
    pub(super) fn ask(&self, about: PendingPermission, params: &RequestPermissionRequest) -> Option<String> {
        let id = format!("berth-{}", self.count.fetch_add(1, Ordering::Relaxed));
        {
            let mut asked = self.asked.lock().expect("no thread panics while holding this lock");
            if asked.len() >= MOST_ASKED {
                return None;
            }
            asked.insert(id.clone(), about);
        }
        self.write(|out| rpc::send_request(out, &id, CLIENT_METHOD_NAMES.session_request_permission, params));
        Some(id)
    }

    /// Takes an open question, once: the caller must answer it.
    pub(super) fn take_asked(&self, id: &str) -> Option<PendingPermission> {
        self.asked.lock().expect("no thread panics while holding this lock").remove(id)
    }

    /// Withdraws a question that needs no answer any more.
    pub(super) fn unask(&self, id: &str) {
        if self.take_asked(id).is_some() {
            let params = CancelRequestNotification::new(RequestId::Str(id.to_owned()));
            self.write(|out| {
                rpc::send_notification(out, PROTOCOL_LEVEL_METHOD_NAMES.cancel_request, &params)
            });
        }
    }
}

/// A line from the editor.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum EditorLine {
    Whole(Vec<u8>),
    TooLong,
    End,
}

/// Reads the next line.
pub(super) fn read(input: &mut impl BufRead) -> io::Result<EditorLine> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            // The input ended within a line: an incomplete message is dropped.
            return Ok(EditorLine::End);
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
            return Ok(if is_too_long { EditorLine::TooLong } else { EditorLine::Whole(line) });
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
        assert_eq!(read(&mut input).expect("memory"), EditorLine::TooLong);
        assert_eq!(read(&mut input).expect("memory"), EditorLine::Whole(b"next".to_vec()));
        assert_eq!(read(&mut input).expect("memory"), EditorLine::End);
    }
}
