//! What HTTP itself refuses before anybody is asked, in the shape of every other refusal.
//!
//! Promise: a request that cannot be read (no HTTP, a head that is too long) is answered with a problem as well. Whoever
//! reads requests (hyper) answers these by itself, with a status and nothing else, and has no place to say more; so it is
//! said on the way out.
//!
//! Only while nobody is answered: from the moment a request was read what is sent may be ours, and a piece of a body can
//! look like anything. That ends when the answer was handed over whole (its body is dropped, after its last bytes were put
//! into hyper's buffer) and hyper then flushes us, which it does when that buffer is empty: so all of it has passed here,
//! and what comes next is hyper's own, or the answer to a request that is said to be read before. What cannot be read while
//! an answer is on its way gets the bare status.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::answer;
use super::limits::MAX_HEAD_BYTES;
use crate::fault::Fault;

/// What is on its way out of a connection.
#[derive(Clone, Default, Debug)]
pub(super) struct Ours(Arc<AtomicU8>);

/// Nothing of ours.
const NOTHING: u8 = 0;
/// An answer, or a connection that became something else than HTTP.
const OURS: u8 = 1;
/// The rest of an answer, in buffers.
const REST: u8 = 2;

impl Ours {
    /// A request was read.
    pub(super) fn begin(&self) {
        self.0.store(OURS, Ordering::Relaxed);
    }

    /// The answer is over when what comes back is dropped.
    pub(super) fn until_dropped(&self) -> Rest {
        Rest(self.clone())
    }

    /// Everything that was to be sent is sent.
    fn is_sent(&self) {
        let _ = self.0.compare_exchange(REST, NOTHING, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_ours(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NOTHING
    }
}

/// An answer that is being handed over.
#[derive(Debug)]
pub(super) struct Rest(Ours);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.0.store(REST, Ordering::Relaxed);
    }
}

/// A stream on which refusals have words.
pub(super) struct Worded<S> {
    stream: S,
    /// Whether what is sent may be ours.
    answering: Ours,
    /// A refusal on its way, and how much was to be sent in its place.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> Worded<S> {
    pub(super) fn new(stream: S, answering: Ours) -> Self {
        Self { stream, answering, instead: None }
    }

    /// Takes note of what is to be sent, if that is a refusal without words.
    fn look_at(&mut self, head: &[u8]) {
        if self.instead.is_none() && !self.answering.is_ours() {
            self.instead = worded(head).map(|instead| (instead, head.len()));
        }
    }
}

/// A refusal with words in place of one without; nothing for everything else.
fn worded(head: &[u8]) -> Option<Vec<u8>> {
    let status = head.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    let (status, line, what) = match status {
        b"400" => {
            (StatusCode::BAD_REQUEST, "400 Bad Request", "the request is not valid HTTP/1.1".to_owned())
        }
        b"414" => (
            StatusCode::URI_TOO_LONG,
            "414 URI Too Long",
            format!("the path of the request has more than {MAX_HEAD_BYTES} bytes"),
        ),
        b"431" => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "431 Request Header Fields Too Large",
            format!("the head of the request has more than {MAX_HEAD_BYTES} bytes, or more than 100 headers"),
        ),
        _ => return None,
    };
    let text = std::str::from_utf8(head).ok()?;
    let is_bare = text.ends_with("\r\n\r\n") && text.contains("\r\ncontent-length: 0\r\n");
    is_bare.then(|| answer(line, "", &Fault::usage(what).json(status)).into_bytes())
}

impl<S: AsyncWrite + Unpin> Worded<S> {
    /// Sends what is sent in the place of something else. Then that counts as sent.
    fn poll_instead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some((left, length)) = &mut self.instead {
            if left.is_empty() {
                let length = *length;
                self.instead = None;
                return Poll::Ready(Ok(length));
            }
            let count = ready!(Pin::new(&mut self.stream).poll_write(context, left))?;
            if count == 0 {
                return Poll::Ready(Ok(0));
            }
            left.drain(..count);
        }
        Poll::Ready(Ok(0))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Worded<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.look_at(bytes);
        if this.instead.is_some() {
            return this.poll_instead(context);
        }
        Pin::new(&mut this.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(head) = bytes.iter().find(|slice| !slice.is_empty()) {
            this.look_at(head);
        }
        if this.instead.is_some() {
            return this.poll_instead(context);
        }
        Pin::new(&mut this.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(context))?;
        this.answering.is_sent();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Worded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn a_refusal_without_words_gets_some_and_everything_else_stays_as_it_is() {
        let ours = [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            "\u{1}\u{2}",
            "",
        ];
        for text in ours {
            assert_eq!(worded(text.as_bytes()), None, "{text}");
        }
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        // A pipe that takes a little at a time.
        let (near, mut far) = tokio::io::duplex(7);
        let answering = Ours::default();
        let heard = runtime.block_on(async {
            let mut stream = Worded::new(near, answering.clone());
            let mut heard = String::new();
            let saying = async {
                stream.write_all(bare).await.expect("somebody reads");
                answering.begin();
                let rest = answering.until_dropped();
                stream.write_all(b"and then ").await.expect("somebody reads");
                // In the middle of an answer, and while its end may be in a buffer.
                stream.flush().await.expect("somebody reads");
                stream.write_all(bare).await.expect("somebody reads");
                drop(rest);
                stream.write_all(bare).await.expect("somebody reads");
                stream.flush().await.expect("somebody reads");
                stream.write_all(bare).await.expect("somebody reads");
                drop(stream);
            };
            let ((), read) = tokio::join!(saying, far.read_to_string(&mut heard));
            read.expect("text");
            heard
        });
        let (first, later) = heard.split_once("and then ").expect("an answer");
        assert!(first.starts_with("HTTP/1.1 431 ") && first.contains("application/problem+json"), "{first}");
        assert!(first.contains("\"code\":\"usage\""), "{first}");
        let bare = std::str::from_utf8(bare).expect("text");
        assert_eq!(later.strip_prefix(&bare.repeat(2)), Some(first));
    }
}
