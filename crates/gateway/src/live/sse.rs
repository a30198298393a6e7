//! Server-sent events as bytes.

use berth_verbs::events::EventLine;
use bytes::Bytes;
use serde::Serialize;

/// Beginning of every stream: the time that a browser waits before it reconnects, in milliseconds.
pub(crate) const HELLO: &[u8] = b"retry: 1000\n\n";
/// A heartbeat. It is an SSE comment, which browsers do not pass to the page.
pub(crate) const HEARTBEAT: &[u8] = b": alive\n\n";

/// Writes an event. Only an event from which a client can resume has an id.
pub(crate) fn write(out: &mut Vec<u8>, id: Option<u64>, kind: &str, data: &impl Serialize) {
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    out.extend_from_slice(format!("event: {kind}\ndata: ").as_bytes());
    // JSON on one line: line ends in strings are escaped.
    serde_json::to_writer(&mut *out, data).expect("plain data, written to memory");
    out.extend_from_slice(b"\n\n");
}

/// An event of a session, from which a client can resume.
pub(crate) fn line(line: &EventLine) -> Bytes {
    let mut out = Vec::new();
    write(&mut out, Some(line.seq), "event", line);
    out.into()
}

/// An event without an id.
pub(crate) fn event(kind: &str, data: &impl Serialize) -> Bytes {
    let mut out = Vec::new();
    write(&mut out, None, kind, data);
    out.into()
}
