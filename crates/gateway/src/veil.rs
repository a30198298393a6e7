//! What whoever has a list of sessions is not told: which others there are.
//!
//! Promise: in an answer to them `parent` is `null` where it names a session that is there and none of theirs, and who
//! writes a conversation is not named either. It is done here, to what goes out, and not where answers are made: those are
//! shared with who may see all, and the next route cannot forget it.
//! Not here: which sessions are whose (see `caller`).
//! Start with [`draw`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use berth_api::Code;
use berth_core::SessionId;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

use crate::caller::Caller;
use crate::fault::ProblemBody;
use crate::gate::Gate;

/// What a session is told to come from, as it is written. Inside of a text the quotes would have backslashes.
const KEY: &[u8] = b"\"parent\":\"";
/// The same with an id, and the quote behind it.
const WHOLE: usize = KEY.len() + SessionId::LENGTH + 1;
/// The kinds of answers that tell of sessions.
const KINDS: [&str; 3] = ["application/json", "application/x-ndjson", "text/event-stream"];
/// What every refusal is.
const PROBLEM: &str = "application/problem+json";

/// The answer, as they may see it.
pub(crate) async fn draw(gate: &Arc<Gate>, caller: &Caller, answer: Response) -> Response {
    if caller.sessions.is_none() {
        return answer;
    }
    let (gate, caller) = (gate.clone(), caller.clone());
    let hides = move |id: &SessionId| !caller.may_see(id) && gate.home.session_dir(id).is_dir();
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    match kind.and_then(|kind| kind.split(';').next()).unwrap_or_default() {
        kind if KINDS.contains(&kind) => {
            answer.map(|body| Body::new(Veiled { body, held: BytesMut::new(), hides: Box::new(hides) }))
        }
        PROBLEM => reworded(answer, hides).await,
        _ => answer,
    }
}

/// A problem that does not name who writes a conversation, if they are hidden. It is made as a whole, and has a few words.
/// Others may say again what somebody asked for: with other words for what is there than for what is not they would tell.
async fn reworded(answer: Response, hides: impl Fn(&SessionId) -> bool) -> Response {
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
    let names = |text: &str| {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.filter_map(SessionId::parse).any(|id| hides(&id))
    };
    let tells = |problem: &ProblemBody| {
        problem.code == Code::InUse.word()
            && (names(&problem.title) || problem.detail.as_deref().is_some_and(names))
    };
    let body = match serde_json::from_slice::<ProblemBody>(&bytes) {
        Ok(problem) if tells(&problem) => {
            let title = "a session that the token does not include is in the way".to_owned();
            serde_json::to_vec(&ProblemBody { title, detail: None, ..problem }).unwrap_or_default().into()
        }
        Ok(_) | Err(_) => bytes,
    };
    let mut answer = Response::from_parts(parts, Body::from(body));
    answer.headers_mut().remove(header::CONTENT_LENGTH);
    answer
}

/// A body that names nobody who is hidden. Nothing gets longer or shorter.
struct Veiled {
    body: Body,
    /// The end of what came, while it may be the beginning of a name.
    held: BytesMut,
    hides: Box<dyn Fn(&SessionId) -> bool + Send + Sync>,
}

impl Veiled {
    /// What can be sent on of what came.
    fn pass(&mut self, came: &[u8]) -> Bytes {
        self.held.extend_from_slice(came);
        let mut at = 0;
        while let Some(found) = self.held[at..].windows(KEY.len()).position(|bytes| bytes == KEY) {
            at += found;
            let Some(named) = self.held.get_mut(at..at + WHOLE) else { break };
            let id = std::str::from_utf8(&named[KEY.len()..WHOLE - 1]).ok().and_then(SessionId::parse);
            if named.ends_with(b"\"") && id.is_some_and(|id| (self.hides)(&id)) {
                let (value, blank) = named[KEY.len() - 1..].split_at_mut(4);
                value.copy_from_slice(b"null");
                blank.fill(b' ');
            }
            at += KEY.len();
        }
        let ends_so = |from: &usize| may_begin(&self.held[*from..]);
        let from = self.held.len().saturating_sub(WHOLE - 1);
        let kept = (from..self.held.len()).find(ends_so).unwrap_or(self.held.len());
        self.held.split_to(kept).freeze()
    }
}

/// Whether more could make a name of this.
fn may_begin(bytes: &[u8]) -> bool {
    let (key, id) = bytes.split_at(bytes.len().min(KEY.len()));
    KEY.starts_with(key) && id.iter().all(u8::is_ascii_alphanumeric)
}

impl hyper::body::Body for Veiled {
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
                    Ok(came) => this.pass(&came),
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if this.held.is_empty() => return Poll::Ready(None),
                None => this.held.split().freeze(),
            };
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, held) = (self.body.size_hint(), self.held.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + held);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_null_wherever_a_piece_ends_and_everything_else_stays() {
        let (hidden, shown) = ("mj277ycbmc9g", "0123456789ab");
        let text = format!(
            "{{\"id\":\"{hidden}\",\"parent\":\"{hidden}\",\"note\":\"\\\"parent\\\":\\\"{hidden}\\\"\",\
             \"then\":{{\"parent\":\"{shown}\"}},\"parent\":null,\"parent\":\"{hidden}x\",\"par"
        );
        let named = format!("\"parent\":\"{hidden}\",");
        let expected = text.replacen(&named, &format!("\"parent\":null{},", " ".repeat(10)), 1);
        for size in 1..text.len() {
            let hides = Box::new(move |id: &SessionId| id.as_str() == hidden);
            let mut veiled = Veiled { body: Body::empty(), held: BytesMut::new(), hides };
            let mut told = Vec::new();
            text.as_bytes().chunks(size).for_each(|piece| told.extend(veiled.pass(piece)));
            told.extend(veiled.held.split());
            assert_eq!(String::from_utf8(told).expect("text"), expected, "in pieces of {size}");
        }
    }
}
