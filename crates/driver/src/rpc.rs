//! JSON-RPC 2.0, a message a line: what drivers that speak it have in common, and whoever answers an editor.
//!
//! Promise: any bytes are read as something, without a panic; what we write is one line.
//! Not here: which requests are under way (their ids say it), what they mean (the drivers know).
//! Start with [`read`].

use serde::Serialize;
use serde_json::Value;

use crate::Out;

/// What was asked for is not offered.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The request makes no sense.
pub const INVALID_REQUEST: i64 = -32600;
/// The details make no sense.
pub const INVALID_PARAMS: i64 = -32602;
/// It was tried and did not work.
pub const INTERNAL: i64 = -32603;
/// What came is no JSON.
pub const PARSE_ERROR: i64 = -32700;
/// Somebody has to log in first.
pub const AUTH_REQUIRED: i64 = -32000;
/// What is named is not there.
pub const NOT_FOUND: i64 = -32002;

/// How much of what an agent says about a problem is passed on.
const MAX_SAID_BYTES: usize = 2 << 10;

/// What a line is.
#[derive(Debug)]
pub enum Incoming {
    /// It wants an answer.
    Request {
        /** To be given back as it is. */
        id: Value,
        /** What it wants. */
        method: String,
        /** The details. */
        params: Value,
    },
    /// It wants none.
    Notification {
        /** What it tells. */
        method: String,
        /** The details. */
        params: Value,
    },
    /// It answers one of ours.
    Answer {
        /** Ours are strings. */
        id: String,
        /** What was asked for, or why not. */
        result: Result<Value, Problem>,
    },
    /// It answers nothing of ours.
    Stray,
    /// Nothing that can be understood.
    Garbage,
    /// An empty line.
    Nothing,
}

/// Why a request was not granted.
#[derive(Debug)]
pub struct Problem {
    /// Which kind, as JSON-RPC and the protocols number them.
    pub code: i64,
    /// In words.
    pub message: String,
    /// The details.
    pub data: Value,
}

impl Problem {
    /// In one line for people: the message, and the details it came with.
    pub fn said(&self) -> String {
        let details = match &self.data {
            Value::Object(data) => data.get("details").and_then(Value::as_str),
            Value::String(text) => Some(text.as_str()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        };
        let said = match details {
            Some(details) if !details.is_empty() && !self.message.contains(details) => {
                format!("{}: {details}", self.message)
            }
            Some(_) | None => self.message.clone(),
        };
        let said = if said.trim().is_empty() { format!("error {}", self.code) } else { said };
        said[..said.floor_char_boundary(MAX_SAID_BYTES)].to_owned()
    }
}

/// Reads a line.
pub fn read(line: &[u8]) -> Incoming {
    if line.trim_ascii().is_empty() {
        return Incoming::Nothing;
    }
    let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else { return Incoming::Garbage };
    let id = message.remove("id").filter(|id| !id.is_null());
    let params = message.remove("params").unwrap_or_default();
    match (message.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Incoming::Request { id, method, params },
        (Some(Value::String(method)), None) => Incoming::Notification { method, params },
        (Some(_), _) => Incoming::Garbage,
        (None, Some(Value::String(id))) => {
            let result = match message.remove("error").filter(|error| !error.is_null()) {
                Some(error) => Err(problem(error)),
                None => Ok(message.remove("result").unwrap_or_default()),
            };
            Incoming::Answer { id, result }
        }
        (None, Some(_)) => Incoming::Stray,
        // What an agent says of a line it could not read has no id.
        (None, None) if message.contains_key("error") => Incoming::Stray,
        (None, None) => Incoming::Garbage,
    }
}

fn problem(mut error: Value) -> Problem {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let message = match error.get_mut("message").map(Value::take) {
        Some(Value::String(message)) => message,
        Some(_) | None => String::new(),
    };
    Problem { code, message, data: error.get_mut("data").map(Value::take).unwrap_or_default() }
}

#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    method: &'a str,
    params: &'a P,
}

/// Asks for something.
pub fn request(out: &mut Out, id: &str, method: &str, params: &impl Serialize) {
    out.line(&Call { jsonrpc: "2.0", id: Some(id), method, params });
}

/// Says something.
pub fn notify(out: &mut Out, method: &str, params: &impl Serialize) {
    out.line(&Call { jsonrpc: "2.0", id: None, method, params });
}

/// Gives what was asked for.
pub fn answer(out: &mut Out, id: &Value, result: &impl Serialize) {
    #[derive(Serialize)]
    struct Granted<'a, R> {
        jsonrpc: &'static str,
        id: &'a Value,
        result: &'a R,
    }
    out.line(&Granted { jsonrpc: "2.0", id, result });
}

/// Does not give what was asked for.
pub fn refuse(out: &mut Out, id: &Value, code: i64, message: &str) {
    refuse_with(out, id, code, message, None);
}

/// The same, with details for programs.
pub fn refuse_with(out: &mut Out, id: &Value, code: i64, message: &str, data: Option<&Value>) {
    #[derive(Serialize)]
    struct Error<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a Value>,
    }
    #[derive(Serialize)]
    struct Refused<'a> {
        jsonrpc: &'static str,
        id: &'a Value,
        error: Error<'a>,
    }
    out.line(&Refused { jsonrpc: "2.0", id, error: Error { code, message, data } });
}
