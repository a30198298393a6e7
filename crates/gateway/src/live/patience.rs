//! A connection that gives up on who takes nothing.
//!
//! Promise: when the other side has taken no byte of what waits for it for as long as [`STALLED`], writing fails,
//! and with it the connection. Who only has nothing to be told waits for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long somebody may take nothing while something waits for them. Streams are resumed by the number of the last
/// event, terminals by a fresh screen.
pub(crate) const STALLED: Duration = Duration::from_secs(60);

/// A stream whose reader must read.
pub(crate) struct Patient<S> {
    stream: S,
    limit: Duration,
    /// Since when something waits, as the end of that time.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self::with_limit(stream, STALLED)
    }

    fn with_limit(stream: S, limit: Duration) -> Self {
        Self { stream, limit, stalled: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled =
            self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(stalled.as_mut().poll(cx));
        self.stalled = None;
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other side takes nothing any more")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
    }

    #[test]
    fn who_takes_nothing_is_given_up_and_who_takes_a_little_is_not() {
        run(async {
            let (ours, mut theirs) = tokio::io::duplex(16);
            let mut patient = Patient::with_limit(ours, Duration::from_millis(200));
            let reader = tokio::spawn(async move {
                let mut byte = [0; 16];
                // Slower in all than the limit, never slower than it at once.
                for _ in 0..20 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    theirs.read_exact(&mut byte).await.expect("bytes");
                }
                theirs
            });
            patient.write_all(&[7; 320]).await.expect("somebody reads");
            let _theirs = reader.await.expect("it read all");
            patient.write_all(&[7; 16]).await.expect("room for so much");
            let error = patient.write_all(&[7; 1]).await.expect_err("nobody reads");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
