//! A connection whose other end must take what it is sent.
//!
//! Promise: who takes nothing for too long is given up, so a client that stopped reading costs one buffer for a while,
//! and nothing for ever.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::limits::Ticket;

/// A stream with limited patience for its reader.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Until when something has to be taken; there from the first time that nothing was.
    until: Option<Pin<Box<Sleep>>>,
    waits: bool,
    /// A connection counts as long as its stream is there, also when it became something else than HTTP.
    _ticket: Option<Ticket>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration, ticket: Option<Ticket>) -> Self {
        Self { stream, patience, until: None, waits: false, _ticket: ticket }
    }

    /// What became of an attempt to send, or that it takes too long.
    fn judge<T>(&mut self, tried: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.waits = false;
            return tried;
        }
        let until = Instant::now() + self.patience;
        let timer = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if !self.waits {
            self.waits = true;
            timer.as_mut().reset(until);
        }
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let tried = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.judge(tried, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let tried = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.judge(tried, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let tried = Pin::new(&mut this.stream).poll_flush(context);
        this.judge(tried, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let tried = Pin::new(&mut this.stream).poll_shutdown(context);
        this.judge(tried, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    #[test]
    fn who_takes_nothing_is_given_up_and_who_takes_a_little_is_not() {
        runtime().block_on(async {
            let (ours, _deaf) = tokio::io::duplex(16);
            let mut patient = Patient::new(ours, Duration::from_millis(50), None);
            let given_up = patient.write_all(&[0; 64]).await.expect_err("nobody reads");
            assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
            let (ours, mut theirs) = tokio::io::duplex(16);
            let mut patient = Patient::new(ours, Duration::from_secs(1), None);
            let reading = tokio::spawn(async move {
                let mut buffer = [0; 8];
                while tokio::io::AsyncReadExt::read(&mut theirs, &mut buffer)
                    .await
                    .is_ok_and(|count| count > 0)
                {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
            // Longer in all than anybody is waited for, and each time something is taken.
            patient.write_all(&[0; 1600]).await.expect("it is read slowly, and read");
            drop(patient);
            reading.await.expect("it ends");
        });
    }
}
