//! Body of an answer while it is sent.
//!
//! Promise: the connection of a known caller counts as served until the last piece of its answer is handed over. Pieces
//! are no larger than the send buffer of a client, so a connection in the middle of a download is not idle. Events of a
//! stream are counted, and a stream ends when the gateway shuts down.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{Response, header};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use memchr::memmem;
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::connection_limits::{MAX_HEAD_BYTES, ServingGuard};
use crate::app_state::AppState;
use crate::quota::RequestPermit;

/// A body, and the guards that live as long as it is sent.
pub(super) struct ResponseBody {
    body: Body,
    /// The caller counts as served, and its request as under way.
    _counts: ResponseGuards,
    stream: Option<Box<EventStreamState>>,
    /// Rest of a frame that was too large to send at once.
    rest: Bytes,
}

/// Guards that are held until an answer is sent.
type ResponseGuards = (Option<ServingGuard>, Option<Arc<RequestPermit>>);

/// State of an event stream.
struct EventStreamState {
    sent: Counter,
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl ResponseBody {
    pub(super) fn wrap(response: Response<Body>, counts: ResponseGuards, state: &AppState) -> Response<Self> {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let stream = is_stream.then(|| {
            Box::new(EventStreamState {
                sent: state.metrics.events_sent.clone(),
                ending: Box::pin(state.ending.clone().cancelled_owned()),
            })
        });
        response.map(|body| Self { body, _counts: counts, stream, rest: Bytes::new() })
    }

    /// A piece of the rest, if there is one.
    fn piece(&mut self) -> Option<Frame<Bytes>> {
        let length = self.rest.len().min(MAX_HEAD_BYTES);
        (length > 0).then(|| Frame::data(self.rest.split_to(length)))
    }
}

/// Counts the events in a piece of a stream: several may be sent together, and an empty line ends each.
fn events_in(piece: &[u8]) -> u64 {
    // A comment is a heartbeat, not an event.
    if piece.starts_with(b":") { 0 } else { memmem::find_iter(piece, b"\n\n").count() as u64 }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if !this.rest.is_empty() {
            return Poll::Ready(this.piece().map(Ok));
        }
        let mut polled = Pin::new(&mut this.body).poll_frame(context);
        if let (Some(stream), Poll::Ready(Some(Ok(frame)))) = (&this.stream, &polled) {
            stream.sent.inc_by(frame.data_ref().map_or(0, |data| events_in(data)));
        }
        let is_large =
            |frame: &Frame<Bytes>| frame.data_ref().is_some_and(|data| data.len() > MAX_HEAD_BYTES);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && is_large(frame)
        {
            this.rest = frame.data_mut().map(std::mem::take).unwrap_or_default();
            polled = Poll::Ready(this.piece().map(Ok));
        }
        let Some(stream) = &mut this.stream else { return polled };
        if polled.is_pending() && stream.ending.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let upper = hint.upper().map(|upper| upper + rest);
        hint.set_lower(hint.lower() + rest);
        upper.into_iter().for_each(|upper| hint.set_upper(upper));
        hint
    }
}
