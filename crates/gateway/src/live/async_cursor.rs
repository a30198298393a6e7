//! Asynchronous cursor over a session, for tasks that wait for many things at once.
//!
//! Promise: waiting takes no thread; connecting and reading files take one for that moment. Cancelling a wait loses
//! nothing.
//! Start with [`AsyncCursor::next`].

use std::io;
use std::time::Instant;

use berth_api::message::KeeperRequest;
use berth_verbs::session_cursor::{CursorNews, SessionCursor};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

/// A cursor that needs no thread to wait. It must not read past events: see [`berth_verbs::SessionHandle::news`].
#[derive(Debug)]
pub(crate) struct AsyncCursor {
    place: AsyncCursorState,
    /// The connection of the cursor, while it has one.
    readable: Option<UnixStream>,
    /// True if the session changed during a read, which may have missed the change.
    look_again: bool,
}

/// Owner of the cursor at the moment.
#[derive(Debug)]
enum AsyncCursorState {
    Here(Box<SessionCursor>),
    Looking(JoinHandle<Box<SessionCursor>>),
    /// The read panicked, or the gateway is shutting down.
    Nowhere,
}

impl AsyncCursor {
    pub(crate) fn new(cursor: SessionCursor) -> Self {
        Self { place: AsyncCursorState::Here(Box::new(cursor)), readable: None, look_again: false }
    }

    /// Waits for a notification. Waits forever once it has reported that the session is purged.
    pub(crate) async fn next(&mut self) -> CursorNews {
        loop {
            let cursor = match &mut self.place {
                AsyncCursorState::Here(cursor) => cursor,
                AsyncCursorState::Looking(looking) => {
                    let looked = looking.await;
                    self.place = looked.map_or(AsyncCursorState::Nowhere, AsyncCursorState::Here);
                    if std::mem::take(&mut self.look_again) {
                        self.look_soon();
                    }
                    continue;
                }
                AsyncCursorState::Nowhere => std::future::pending().await,
            };
            if let Some(news) = cursor.take() {
                return news;
            }
            if cursor.is_look_due() {
                self.connect_and_read();
                continue;
            }
            let due = cursor.due().map(tokio::time::Instant::from_std);
            let Some(connection) = cursor.fd() else {
                self.readable = None;
                sleep_until(due).await;
                continue;
            };
            if self.readable.is_none() {
                let copy = connection.try_clone_to_owned().map(std::os::unix::net::UnixStream::from);
                self.readable = copy.and_then(UnixStream::from_std).ok();
            }
            let Some(readable) = &self.readable else {
                // No file descriptor is left, so the connection is polled.
                sleep_until(Some((Instant::now() + RETRY).into())).await;
                continue;
            };
            let take = || cursor.take().ok_or_else(|| io::ErrorKind::WouldBlock.into());
            tokio::select! {
                _ = readable.readable() => if let Ok(news) = readable.try_io(Interest::READABLE, take) {
                    return news;
                },
                () = sleep_until(due) => {}
            }
        }
    }

    /// A notification that has arrived already.
    pub(crate) fn ready(&mut self) -> Option<CursorNews> {
        match &mut self.place {
            AsyncCursorState::Here(cursor) => cursor.take(),
            AsyncCursorState::Looking(_) | AsyncCursorState::Nowhere => None,
        }
    }

    /// Sends a request to the keeper, see [`SessionCursor::ask`].
    pub(crate) fn ask(&mut self, request: KeeperRequest) {
        if let AsyncCursorState::Here(cursor) = &mut self.place {
            cursor.ask(request);
        }
    }

    /// Reads the session soon, see [`SessionCursor::look_soon`].
    pub(crate) fn look_soon(&mut self) {
        match &mut self.place {
            AsyncCursorState::Here(cursor) => cursor.look_soon(),
            AsyncCursorState::Looking(_) => self.look_again = true,
            AsyncCursorState::Nowhere => {}
        }
    }

    /// Connects and reads in another thread: connecting waits for a keeper whose queue is full, which must not delay
    /// other tasks.
    fn connect_and_read(&mut self) {
        self.readable = None;
        if let AsyncCursorState::Here(mut cursor) =
            std::mem::replace(&mut self.place, AsyncCursorState::Nowhere)
        {
            let looking = tokio::task::spawn_blocking(move || {
                cursor.look_if_due();
                cursor
            });
            self.place = AsyncCursorState::Looking(looking);
        }
    }
}

/// Sleeps until this moment; forever without one.
pub(crate) async fn sleep_until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Interval for polling a connection that the runtime cannot watch.
const RETRY: std::time::Duration = std::time::Duration::from_millis(200);
