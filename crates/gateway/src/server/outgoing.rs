//! The body of an answer on its way out.
//!
//! Promise: a connection counts as served until the last byte of its answer is handed over. A stream of events is
//! counted, and ends when the gateway does.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{Response, header};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::limits::Serving;
use crate::gate::Gate;

/// A body, and what goes with it.
pub(super) struct Outgoing {
    body: Body,
    _serving: Serving,
    stream: Option<Stream>,
}

/// What is special about a stream of events.
struct Stream {
    sent: Counter,
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Outgoing {
    pub(super) fn wrap(response: Response<Body>, serving: Serving, gate: &Gate) -> Response<Self> {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let stream = is_stream.then(|| Stream {
            sent: gate.metrics.events_sent.clone(),
            ending: Box::pin(gate.ending.clone().cancelled_owned()),
        });
        response.map(|body| Self { body, _serving: serving, stream })
    }
}

impl hyper::body::Body for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        let Some(stream) = &mut this.stream else { return polled };
        match &polled {
            // A comment keeps the connection open, and tells nothing.
            Poll::Ready(Some(Ok(frame))) if frame.data_ref().is_some_and(|data| !data.starts_with(b":")) => {
                stream.sent.inc();
                polled
            }
            Poll::Pending if stream.ending.as_mut().poll(context).is_ready() => Poll::Ready(None),
            Poll::Ready(_) | Poll::Pending => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
