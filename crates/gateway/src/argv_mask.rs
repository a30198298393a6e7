//! Command lines in answers to callers below the scope `control`: secrets in them are `***`.
//!
//! Promise: every answer of a route passes here (JSON, lines of JSON and event streams alike), so the next route cannot
//! forget it; caches and feeds keep one form of each answer for all callers. An array that has no secret in it stays
//! as it was, byte for byte.
//! Not here: what a secret is (see `berth_api::redact`), values of variables (no answer has them).
//! Start with [`apply`]; [`whole`] is for bytes that are complete.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use berth_api::{Scope, Status, redact};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame};
use memchr::memmem;

use crate::caller::Caller;

/// The keys that have the words of a command, without the quote that begins them.
const KEYS: [&[u8]; 3] = [b"command", b"again", b"tui"];
/// What follows such a key.
const OPENS: &[u8] = b"\":[";
/// The longest key with its quote and what follows, less one byte.
const LONGEST_BEGINNING: usize = 1 + 7 + OPENS.len() - 1;
/// The kinds of answers that have command lines.
const KINDS: [&str; 3] = ["application/json", "application/x-ndjson", "text/event-stream"];
/// An answer up to this size is masked as a whole, and keeps its `Content-Length`.
const MOST_AT_ONCE: u64 = 4 << 20;
/// The longest command line that is waited for: a request for a session has no room for more.
const MOST_HELD: usize = 8 << 20;

/// Whether command lines are masked for this caller.
pub(crate) fn is_for(caller: &Caller) -> bool {
    caller.scope < Scope::Control
}

/// Masks the command lines of an answer, if the caller is below `control`.
pub(crate) async fn apply(caller: &Caller, answer: Response) -> Response {
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !is_for(caller) || !KINDS.contains(&kind) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = match body.size_hint().exact() {
        Some(size) if size <= MOST_AT_ONCE => match body.collect().await {
            Ok(bytes) => Body::from(whole(&bytes.to_bytes())),
            Err(error) => Body::from_stream(futures_util::stream::once(async { Err::<Bytes, _>(error) })),
        },
        Some(_) | None => Body::new(Masked { body, held: BytesMut::new() }),
    };
    Response::from_parts(parts, body)
}

/// Masks the command line of a status, if the caller is below `control`.
pub(crate) fn status(caller: &Caller, status: &mut Status) {
    if is_for(caller) {
        status.what.command = redact::words(&status.what.command);
    }
}

/// Masks the command lines in JSON that is complete.
pub(crate) fn whole(bytes: &Bytes) -> Bytes {
    let Some(mut out) = masked(bytes) else { return bytes.clone() };
    out.done.extend_from_slice(&bytes[out.upto..]);
    out.done.into()
}

/// A part of an answer, masked.
struct Part {
    done: Vec<u8>,
    /// How many bytes were read. The bytes behind them are the beginning of a command line, or may become one.
    upto: usize,
}

/// Masks what is complete of some JSON. `None` if it stays as it is, to its last byte.
fn masked(bytes: &[u8]) -> Option<Part> {
    let mut part = Part { done: Vec::new(), upto: 0 };
    let mut from = 0;
    let opens = memmem::Finder::new(OPENS);
    while let Some(found) = opens.find(&bytes[from..]) {
        let (quote, array) = (from + found, from + found + OPENS.len() - 1);
        from = array;
        // Inside of a text the quotes of a key would have backslashes.
        let named =
            |key: &&[u8]| bytes[..quote].strip_suffix(*key).is_some_and(|before| before.ends_with(b"\""));
        let Some(key) = KEYS.iter().find(|key| named(key)) else { continue };
        let mut words = serde_json::Deserializer::from_slice(&bytes[array..]).into_iter::<Vec<String>>();
        match words.next() {
            Some(Ok(argv)) => {
                from = array + words.byte_offset();
                let shown = redact::words(&argv);
                if shown != argv {
                    part.done.extend_from_slice(&bytes[part.upto..array]);
                    serde_json::to_writer(&mut part.done, &shown).expect("words, written to memory");
                    part.upto = from;
                }
            }
            Some(Err(error)) if error.is_eof() => {
                let begins = quote - key.len() - 1;
                part.done.extend_from_slice(&bytes[part.upto..begins]);
                part.upto = begins;
                return Some(part);
            }
            // An array of that name that is not a command line.
            Some(Err(_)) | None => {}
        }
    }
    let tail = bytes.len().saturating_sub(LONGEST_BEGINNING).max(from);
    let begins = (tail..bytes.len()).find(|at| may_begin(&bytes[*at..])).unwrap_or(bytes.len());
    if part.upto == 0 && begins == bytes.len() {
        return None;
    }
    part.done.extend_from_slice(&bytes[part.upto..begins]);
    part.upto = begins;
    Some(part)
}

/// Whether these bytes may be the beginning of a key.
fn may_begin(bytes: &[u8]) -> bool {
    KEYS.iter().any(|key| {
        let mut beginning = b"\"".iter().chain(*key).chain(OPENS);
        bytes.iter().all(|byte| beginning.next() == Some(byte))
    })
}

/// A body whose command lines are masked as it passes.
struct Masked {
    body: Body,
    /// The last bytes that came, while they may be the beginning of a command line.
    held: BytesMut,
}

impl Masked {
    /// Takes the next bytes. Returns those that can be sent on.
    fn pass(&mut self, came: Bytes) -> Bytes {
        if self.held.is_empty() {
            let Some(part) = masked(&came) else { return came };
            self.held.extend_from_slice(&came[part.upto..]);
            return part.done.into();
        }
        self.held.extend_from_slice(&came);
        let Some(part) = masked(&self.held) else { return self.held.split().freeze() };
        let _ = self.held.split_to(part.upto);
        part.done.into()
    }
}

impl hyper::body::Body for Masked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        loop {
            let bytes = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(came) => this.pass(came),
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if this.held.is_empty() => return Poll::Ready(None),
                // The answer broke off within a command line; sending the held bytes would show it unmasked.
                None => {
                    this.held.clear();
                    return Poll::Ready(Some(Err(axum::Error::new("the answer was cut off"))));
                }
            };
            if this.held.len() > MOST_HELD {
                return Poll::Ready(Some(Err(axum::Error::new("a command line in the answer is too long"))));
            }
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_wherever_a_piece_ends_and_everything_else_stays() {
        let text = concat!(
            r#"{"id":"a","command":["sh","-c","A ] \" x","--token","hunter2"],"again":["x","--token=hunter2"],"#,
            r#""note":"\"command\":[\"--token\",\"a\"]","tui":[],"command":[{"a":1}],"other":["--token","b"],"#,
            r#""command":["plain","é"],"comm":1}"#
        );
        let expected =
            text.replacen(r#""hunter2""#, r#""***""#, 1).replacen("--token=hunter2", "--token=***", 1);
        for size in 1..=text.len() {
            let mut body = Masked { body: Body::empty(), held: BytesMut::new() };
            let mut sent = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                sent.extend(body.pass(Bytes::copy_from_slice(piece)));
            }
            assert!(body.held.is_empty(), "in pieces of {size}");
            assert_eq!(String::from_utf8(sent).expect("text"), expected, "in pieces of {size}");
        }
        assert_eq!(whole(&Bytes::from_static(text.as_bytes())), expected);
    }
}
