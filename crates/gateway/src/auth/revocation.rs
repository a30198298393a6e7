//! Revocation of tokens during long requests: a long request ends with the token that it was opened with.
//!
//! Promise: a wait, an event stream and a terminal end at most [`CHECK_INTERVAL`] after their token was revoked or expired,
//! whatever their handler does. A client that reads nothing for too long is disconnected: it costs one buffer for a
//! while, and nothing for ever.
//! Start with [`until_revoked`] for answers, [`revocable_body`] for bodies and [`RevocationHandle`] for connections that were upgraded
//! from HTTP.

use std::any::Any;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures_util::task::AtomicWaker;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Interval, Sleep};

/// Interval for checking a token during a long request.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A check whether a token is still valid.
pub(crate) type TokenCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Waits for the answer; `None` if `holds` fails before that. A verb that was begun goes on, as when its caller
/// disconnects.
pub(crate) async fn until_revoked<T>(answer: impl Future<Output = T>, holds: &TokenCheck) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    loop {
        match tokio::time::timeout(CHECK_INTERVAL, answer.as_mut()).await {
            Ok(answer) => return Some(answer),
            Err(_) if holds() => {}
            Err(_) => return None,
        }
    }
}

/// A body that ends when `holds` fails. A body of known length is sent at once, and stays as it is.
pub(crate) fn revocable_body(body: Body, holds: TokenCheck) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let mut look = tokio::time::interval_at(tokio::time::Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    Body::new(RevocableBody { body, look, holds, is_over: false })
}

struct RevocableBody {
    body: Body,
    look: Interval,
    holds: TokenCheck,
    is_over: bool,
}

impl HttpBody for RevocableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        while !this.is_over && this.look.poll_tick(context).is_ready() {
            this.is_over = !(this.holds)();
        }
        if this.is_over {
            return Poll::Ready(None);
        }
        Pin::new(&mut this.body).poll_frame(context)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Handle that can cut a connection off.
#[derive(Clone, Debug, Default)]
pub(crate) struct RevocationHandle(Arc<RevocationState>);

#[derive(Debug, Default)]
struct RevocationState {
    is_cut: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

impl RevocationHandle {
    /// Wraps a connection, so that it can be cut off.
    pub(crate) fn hold<S>(&self, stream: S) -> RevocableStream<S> {
        RevocableStream {
            stream,
            knot: self.0.clone(),
            patience: None,
            until: None,
            waits: false,
            _guard: None,
        }
    }

    /// Cuts the connection off when `holds` fails. Must be called within the runtime; the check ends with the
    /// connection.
    pub(crate) fn watch(&self, holds: TokenCheck) {
        let knot = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(CHECK_INTERVAL).await;
                // The connection is closed already.
                let Some(knot) = Weak::upgrade(&knot) else { return };
                if !holds() {
                    knot.cut();
                    return;
                }
            }
        });
    }

    /// Cuts the connection now.
    pub(crate) fn cut(&self) {
        self.0.cut();
    }
}

impl RevocationState {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.reader.wake();
        self.writer.wake();
    }
}

/// A connection that can be cut off. After that, reads return the end and writes fail.
#[derive(Debug)]
pub(crate) struct RevocableStream<S> {
    stream: S,
    knot: Arc<RevocationState>,
    /// Longest time for which the other end may read nothing.
    patience: Option<Duration>,
    /// Time at which the other end must have read something; set by the first write that had to wait.
    until: Option<Pin<Box<Sleep>>>,
    waits: bool,
    /// A guard that is dropped with the stream, also after an upgrade from HTTP.
    _guard: Option<Box<dyn Any + Send>>,
}

impl<S> RevocableStream<S> {
    /// Closes the connection if the other end reads nothing for so long. The guard is dropped with the connection.
    pub(crate) fn patient(self, patience: Duration, guard: impl Send + 'static) -> Self {
        Self { patience: Some(patience), _guard: Some(Box::new(guard)), ..self }
    }

    fn is_cut(&self, waker: impl Fn(&RevocationState) -> &AtomicWaker, context: &Context<'_>) -> bool {
        // The waker is registered first, so that a cut between the two lines is seen here.
        waker(&self.knot).register(context.waker());
        self.knot.is_cut.load(Ordering::Acquire)
    }
}

impl<S: AsyncWrite + Unpin> RevocableStream<S> {
    /// The result of an attempt to send: fails if the connection was cut off, or if sending takes too long.
    fn send<T>(
        &mut self,
        context: &mut Context<'_>,
        attempt: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.is_cut(|knot| &knot.writer, context) {
            let why = "its token was revoked, or has expired";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, why)));
        }
        let tried = attempt(Pin::new(&mut self.stream), context);
        let Some(patience) = self.patience.filter(|_| tried.is_pending()) else {
            self.waits = false;
            return tried;
        };
        let until = Instant::now() + patience;
        let timer = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if !self.waits {
            self.waits = true;
            timer.as_mut().reset(until);
        }
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RevocableStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_cut(|knot| &knot.reader, context) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RevocableStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().send(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().send(context, |stream, context| stream.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().send(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().send(context, |stream, context| stream.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
    }

    /// A token that the test revokes.
    fn token() -> (Arc<AtomicBool>, TokenCheck) {
        let good = Arc::new(AtomicBool::new(true));
        let seen = good.clone();
        (good, Arc::new(move || seen.load(Ordering::SeqCst)))
    }

    #[test]
    fn an_answer_is_waited_for_while_its_token_holds_and_no_longer() {
        run(async {
            let (good, holds) = token();
            let slow = tokio::time::sleep(CHECK_INTERVAL + CHECK_INTERVAL / 2);
            assert_eq!(until_revoked(slow, &holds).await, Some(()), "the token was not revoked");
            good.store(false, Ordering::SeqCst);
            assert_eq!(until_revoked(std::future::pending::<()>(), &holds).await, None);
        });
    }

    #[test]
    fn a_stream_ends_soon_after_its_token_though_it_is_silent() {
        run(async {
            let (good, holds) = token();
            let silent = futures_util::stream::pending::<Result<Bytes, io::Error>>();
            let mut body = revocable_body(Body::from_stream(silent), holds);
            let begun = std::time::Instant::now();
            good.store(false, Ordering::SeqCst);
            assert!(body.frame().await.is_none());
            assert!(begun.elapsed() < CHECK_INTERVAL * 3, "{:?}", begun.elapsed());
        });
    }

    #[test]
    fn a_busy_stream_ends_as_well_and_goes_on_while_its_token_holds() {
        run(async {
            let (good, holds) = token();
            let busy = futures_util::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Some((Ok::<_, io::Error>(Bytes::from_static(b"x")), ()))
            });
            let mut body = revocable_body(Body::from_stream(busy), holds);
            let begun = std::time::Instant::now();
            while begun.elapsed() < CHECK_INTERVAL + CHECK_INTERVAL / 2 {
                assert!(body.frame().await.is_some(), "the token was not revoked");
            }
            good.store(false, Ordering::SeqCst);
            while body.frame().await.is_some() {
                assert!(begun.elapsed() < CHECK_INTERVAL * 5);
            }
        });
    }

    #[test]
    fn a_connection_is_cut_off_in_the_middle_of_a_wait() {
        run(async {
            let (good, holds) = token();
            let (ours, mut theirs) = tokio::io::duplex(64);
            let revocation = RevocationHandle::default();
            let mut held = revocation.hold(ours);
            revocation.watch(holds);
            held.write_all(b"hello").await.expect("it is open");
            let mut hello = [0; 5];
            theirs.read_exact(&mut hello).await.expect("it is open");
            good.store(false, Ordering::SeqCst);
            let mut more = [0; 1];
            assert_eq!(held.read(&mut more).await.expect("an end"), 0);
            let refused = held.write_all(b"x").await.expect_err("it is cut");
            assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn a_client_that_reads_nothing_is_disconnected_and_a_slow_reader_is_not() {
        run(async {
            let (ours, _deaf) = tokio::io::duplex(16);
            let mut patient = RevocationHandle::default().hold(ours).patient(Duration::from_millis(50), ());
            let given_up = patient.write_all(&[0; 64]).await.expect_err("the client does not read");
            assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
            let (ours, mut theirs) = tokio::io::duplex(16);
            let mut patient = RevocationHandle::default().hold(ours).patient(Duration::from_secs(1), ());
            let reading = tokio::spawn(async move {
                let mut buffer = [0; 8];
                while theirs.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
            // Longer in all than the timeout, but something is read within each timeout.
            patient.write_all(&[0; 1600]).await.expect("it is read slowly, and read");
            drop(patient);
            reading.await.expect("it ends");
        });
    }
}
