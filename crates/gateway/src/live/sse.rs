//! Server-sent events, as bytes.

use berth_verbs::events::Line;
use bytes::Bytes;
use serde::Serialize;

/// What a stream begins with: how long a browser waits before it comes back, in milliseconds.
pub(crate) const HELLO: &[u8] = b"retry: 1000\n\n";
/// Says that the stream is alive. A comment: nobody is told of it.
pub(crate) const HEARTBEAT: &[u8] = b": alive\n\n";

/// Lays an event out. Only what can be resumed from has an id.
pub(crate) fn write(out: &mut Vec<u8>, id: Option<u64>, kind: &str, data: &impl Serialize) {
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    out.extend_from_slice(format!("event: {kind}\ndata: ").as_bytes());
    // JSON on one line: line ends in it are escaped.
    serde_json::to_writer(&mut *out, data).expect("plain data, written to memory");
    out.extend_from_slice(b"\n\n");
}

/// An event of a session.
pub(crate) fn line(line: &Line) -> Bytes {
    let mut out = Vec::new();
    write(&mut out, Some(line.seq), "event", line);
    out.into()
}

/// One event by itself.
pub(crate) fn event(kind: &str, data: &impl Serialize) -> Bytes {
    let mut out = Vec::new();
    write(&mut out, None, kind, data);
    out.into()
}
