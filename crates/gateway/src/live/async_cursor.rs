//! A cursor over a session for clients that wait for many things at once.
//!
//! Promise: waiting takes no thread; only a look (connecting, reading the files) takes one for that moment. Nothing is lost
//! if a caller stops waiting halfway.
//! Start with [`AsyncCursor::next`].

use std::io;
use std::time::Instant;

use berth_api::message::Request;
use berth_verbs::cursor::{Cursor, News};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

/// A cursor that is waited for without a thread. It must not read the past: see [`berth_verbs::Session::news`].
#[derive(Debug)]
pub(crate) struct AsyncCursor {
    place: Place,
    /// The cursor's connection, while it has one.
    readable: Option<UnixStream>,
    /// The session changed during a look, which may have missed it.
    look_again: bool,
}

/// Where the cursor is.
#[derive(Debug)]
enum Place {
    Here(Box<Cursor>),
    Looking(JoinHandle<Box<Cursor>>),
    /// The look panicked, or the gateway is being shut down.
    Nowhere,
}

impl AsyncCursor {
    pub(crate) fn new(cursor: Cursor) -> Self {
        Self { place: Place::Here(Box::new(cursor)), readable: None, look_again: false }
    }

    /// Waits for news. Waits for ever once the session is purged and that has been told.
    pub(crate) async fn next(&mut self) -> News {
        loop {
            let cursor = match &mut self.place {
                Place::Here(cursor) => cursor,
                Place::Looking(looking) => {
                    let looked = looking.await;
                    self.place = looked.map_or(Place::Nowhere, Place::Here);
                    if std::mem::take(&mut self.look_again) {
                        self.look_soon();
                    }
                    continue;
                }
                Place::Nowhere => std::future::pending().await,
            };
            if let Some(news) = cursor.take() {
                return news;
            }
            if cursor.is_look_due() {
                self.look();
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
                // No more descriptors to be had: then it is looked at now and then.
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

    /// News that is here already.
    pub(crate) fn ready(&mut self) -> Option<News> {
        match &mut self.place {
            Place::Here(cursor) => cursor.take(),
            Place::Looking(_) | Place::Nowhere => None,
        }
    }

    /// Asks the keeper for something, see [`Cursor::ask`].
    pub(crate) fn ask(&mut self, request: Request) {
        if let Place::Here(cursor) = &mut self.place {
            cursor.ask(request);
        }
    }

    /// Looks at the session soon, see [`Cursor::look_soon`].
    pub(crate) fn look_soon(&mut self) {
        match &mut self.place {
            Place::Here(cursor) => cursor.look_soon(),
            Place::Looking(_) => self.look_again = true,
            Place::Nowhere => {}
        }
    }

    /// A keeper whose queue is full is waited for; that must not hold up anybody else.
    fn look(&mut self) {
        self.readable = None;
        if let Place::Here(mut cursor) = std::mem::replace(&mut self.place, Place::Nowhere) {
            let looking = tokio::task::spawn_blocking(move || {
                cursor.look_if_due();
                cursor
            });
            self.place = Place::Looking(looking);
        }
    }
}

/// Waits until this moment, for ever if there is none.
pub(crate) async fn sleep_until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// How often a connection is read that the runtime cannot watch.
const RETRY: std::time::Duration = std::time::Duration::from_millis(200);
