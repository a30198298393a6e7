//! A client of one keeper that waits for many things at once.
//!
//! Promise: the same messages as `berth_api::Connection`; what has arrived and was not asked for yet is at most one
//! frame and one read. Only a process of this account, or root's, is taken for a keeper.

use std::io;

use berth_api::client::Arrival;
use berth_api::frame::{self, Kind};
use berth_api::message::{Asker, Call, PROTOCOL, Request};
use berth_store::SessionFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// What a keeper tells.
#[derive(Debug)]
pub(crate) struct Hearing {
    stream: OwnedReadHalf,
    /// What was read beyond the last whole frame.
    ahead: Vec<u8>,
}

/// What is said to a keeper.
#[derive(Debug)]
pub(crate) struct Saying {
    stream: OwnedWriteHalf,
    asker: Asker,
}

/// Connects to the keeper of a session.
pub(crate) async fn open(session: SessionFiles, asker: Asker) -> io::Result<(Hearing, Saying)> {
    // A keeper whose queue is full is waited for; that must not hold up anybody else.
    let connected = tokio::task::spawn_blocking(move || {
        let stream = session.stream()?;
        let peer = berth_host::socket::peer(&stream)?;
        if peer.uid != rustix::process::geteuid().as_raw() && peer.uid != 0 {
            let what = format!("who listens there is user {}", peer.uid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        stream.set_nonblocking(true)?;
        Ok(stream)
    });
    let (read, write) = UnixStream::from_std(connected.await??)?.into_split();
    Ok((Hearing { stream: read, ahead: Vec::new() }, Saying { stream: write, asker }))
}

impl Hearing {
    /// Waits for the next thing; `None` when the keeper closed the connection. Nothing is lost if nobody waits for
    /// it to the end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Arrival>> {
        loop {
            if let Some(arrival) = self.ready()? {
                return Ok(Some(arrival));
            }
            self.ahead.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.ahead).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The next thing, if it is here already.
    pub(crate) fn ready(&mut self) -> io::Result<Option<Arrival>> {
        let Some(frame) = frame::take(&mut self.ahead)? else { return Ok(None) };
        if self.ahead.is_empty() && self.ahead.capacity() > 4 * READ_BYTES {
            self.ahead = Vec::new();
        }
        Arrival::understand(frame).map(Some)
    }
}

impl Saying {
    /// Asks; the answer is heard.
    pub(crate) async fn ask(&mut self, request: Request) -> io::Result<()> {
        let Asker { place, agent, also } = self.asker.clone();
        let call = Call { protocol: PROTOCOL, place, agent, also, trace: crate::trace::current(), request };
        let json = serde_json::to_vec(&call)?;
        self.stream.write_all(&frame::encode(Kind::Call, &[&json])).await
    }

    /// Types, as the writer with this number.
    pub(crate) async fn type_keys(&mut self, fence: u64, keys: &[u8]) -> io::Result<()> {
        self.stream.write_all(&frame::encode(Kind::Input, &[&fence.to_le_bytes(), keys])).await
    }
}
