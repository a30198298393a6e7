//! JSON-RPC 2.0 with one message in each line: shared by drivers, and by the server for editors.
//!
//! Promise: any bytes are parsed without a panic, and every message we write is one line.
//! Not here: the requests under way (their ids tell), their meaning (the drivers know it).
//! Start with [`read_rpc`].

use serde::Serialize;
use serde_json::Value;

use crate::DriverOutput;

/// Error code: the method is not offered.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Error code: the request is not valid.
pub const INVALID_REQUEST: i64 = -32600;
/// Error code: the parameters are not valid.
pub const INVALID_PARAMS: i64 = -32602;
/// Error code: the request was tried and failed.
pub const INTERNAL: i64 = -32603;
/// Error code: the line is not valid JSON.
pub const PARSE_ERROR: i64 = -32700;
/// Error code: the user has to log in first.
pub const AUTH_REQUIRED: i64 = -32000;
/// Error code: the thing that the request names does not exist.
pub const NOT_FOUND: i64 = -32002;

/// Size limit of an agent's text about a problem.
const MAX_SAID_BYTES: usize = 2 << 10;

/// A parsed line.
#[derive(Debug)]
pub enum RpcMessage {
    /// A request, which needs an answer.
    Request {
        /** Id, which the answer repeats unchanged. */
        id: Value,
        /** Name of the method. */
        method: String,
        /** Parameters; null if absent. */
        params: Value,
    },
    /// A notification, which needs no answer.
    Notification {
        /** Name of the method. */
        method: String,
        /** Parameters; null if absent. */
        params: Value,
    },
    /// An answer to one of our requests.
    Answer {
        /** Id of our request; ours are strings. */
        id: String,
        /** The result, or the reason of a failure. */
        result: Result<Value, RpcError>,
    },
    /// An answer that belongs to none of our requests.
    Stray,
    /// A line that is not a valid message.
    Garbage,
    /// An empty line.
    Nothing,
}

/// Reason of a failed request.
#[derive(Debug)]
pub struct RpcError {
    /// Error code, as JSON-RPC and the protocols number them.
    pub code: i64,
    /// Message of the error.
    pub message: String,
    /// Details of the error; null if absent.
    pub data: Value,
}

impl RpcError {
    /// The error in one line for people: its message, and the details that came with it.
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

/// Parses a line.
pub fn read_rpc(line: &[u8]) -> RpcMessage {
    if line.trim_ascii().is_empty() {
        return RpcMessage::Nothing;
    }
    let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else { return RpcMessage::Garbage };
    let id = message.remove("id").filter(|id| !id.is_null());
    let params = message.remove("params").unwrap_or_default();
    match (message.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => RpcMessage::Request { id, method, params },
        (Some(Value::String(method)), None) => RpcMessage::Notification { method, params },
        (Some(_), _) => RpcMessage::Garbage,
        (None, Some(Value::String(id))) => {
            let result = match message.remove("error").filter(|error| !error.is_null()) {
                Some(error) => Err(problem(error)),
                None => Ok(message.remove("result").unwrap_or_default()),
            };
            RpcMessage::Answer { id, result }
        }
        (None, Some(_)) => RpcMessage::Stray,
        // The error about a line that an agent could not read has no id.
        (None, None) if message.contains_key("error") => RpcMessage::Stray,
        (None, None) => RpcMessage::Garbage,
    }
}

fn problem(mut error: Value) -> RpcError {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let message = match error.get_mut("message").map(Value::take) {
        Some(Value::String(message)) => message,
        Some(_) | None => String::new(),
    };
    RpcError { code, message, data: error.get_mut("data").map(Value::take).unwrap_or_default() }
}

#[derive(Serialize)]
struct RpcCall<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    method: &'a str,
    params: &'a P,
}

/// Writes a request.
pub fn send_request(out: &mut DriverOutput, id: &str, method: &str, params: &impl Serialize) {
    out.line(&RpcCall { jsonrpc: "2.0", id: Some(id), method, params });
}

/// Writes a notification.
pub fn send_notification(out: &mut DriverOutput, method: &str, params: &impl Serialize) {
    out.line(&RpcCall { jsonrpc: "2.0", id: None, method, params });
}

/// Writes a successful answer.
pub fn send_result(out: &mut DriverOutput, id: &Value, result: &impl Serialize) {
    #[derive(Serialize)]
    struct RpcResultReply<'a, R> {
        jsonrpc: &'static str,
        id: &'a Value,
        result: &'a R,
    }
    out.line(&RpcResultReply { jsonrpc: "2.0", id, result });
}

/// Writes an error as the answer.
pub fn send_error(out: &mut DriverOutput, id: &Value, code: i64, message: &str) {
    send_error_with_data(out, id, code, message, None);
}

/// Writes an error with details for programs.
pub fn send_error_with_data(
    out: &mut DriverOutput,
    id: &Value,
    code: i64,
    message: &str,
    data: Option<&Value>,
) {
    #[derive(Serialize)]
    struct RpcErrorBody<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a Value>,
    }
    #[derive(Serialize)]
    struct RpcErrorReply<'a> {
        jsonrpc: &'static str,
        id: &'a Value,
        error: RpcErrorBody<'a>,
    }
    out.line(&RpcErrorReply { jsonrpc: "2.0", id, error: RpcErrorBody { code, message, data } });
}
