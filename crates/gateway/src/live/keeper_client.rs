//! Asynchronous client of one keeper.
//!
//! Promise: it speaks the same protocol as `berth_api::KeeperConnection`. It buffers at most one frame and one read of data
//! that was not asked for yet. It accepts only a process of this account, or of root, as a keeper.

use std::io;

use berth_api::client::KeeperMessage;
use berth_api::frame::{self, FrameKind};
use berth_api::message::{ClaimedCaller, KeeperCall, KeeperRequest, PROTOCOL};
use berth_store::SessionFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Number of bytes to read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Receiving half of a connection to a keeper.
#[derive(Debug)]
pub(crate) struct KeeperReader {
    stream: OwnedReadHalf,
    /// Bytes that were read beyond the last whole frame.
    ahead: Vec<u8>,
}

/// Sending half of a connection to a keeper.
#[derive(Debug)]
pub(crate) struct KeeperWriter {
    stream: OwnedWriteHalf,
    asker: ClaimedCaller,
}

/// Connects to the keeper of a session.
pub(crate) async fn open(
    session: SessionFiles,
    asker: ClaimedCaller,
) -> io::Result<(KeeperReader, KeeperWriter)> {
    // Connecting waits for a keeper whose queue is full, which must not delay other requests.
    let connected = tokio::task::spawn_blocking(move || {
        let stream = session.stream()?;
        let peer = berth_host::socket::peer_credentials(&stream)?;
        if peer.uid != rustix::process::geteuid().as_raw() && peer.uid != 0 {
            let what = format!("the process that listens there belongs to user {}", peer.uid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        stream.set_nonblocking(true)?;
        Ok(stream)
    });
    let (read, write) = UnixStream::from_std(connected.await??)?.into_split();
    Ok((KeeperReader { stream: read, ahead: Vec::new() }, KeeperWriter { stream: write, asker }))
}

impl KeeperReader {
    /// Waits for the next message; `None` when the keeper closed the connection. Cancelling the wait loses no message.
    pub(crate) async fn next(&mut self) -> io::Result<Option<KeeperMessage>> {
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

    /// The next message, if it has arrived already.
    pub(crate) fn ready(&mut self) -> io::Result<Option<KeeperMessage>> {
        let Some(frame) = frame::take_frame(&mut self.ahead)? else { return Ok(None) };
        if self.ahead.is_empty() && self.ahead.capacity() > 4 * READ_BYTES {
            self.ahead = Vec::new();
        }
        KeeperMessage::understand(frame).map(Some)
    }
}

impl KeeperWriter {
    /// Sends a request; [`KeeperReader`] receives the answer.
    pub(crate) async fn ask(&mut self, request: KeeperRequest) -> io::Result<()> {
        let ClaimedCaller { place, agent, also } = self.asker.clone();
        let call =
            KeeperCall { protocol: PROTOCOL, place, agent, also, trace: crate::trace::current(), request };
        let json = serde_json::to_vec(&call)?;
        self.stream.write_all(&frame::encode_frame(FrameKind::Call, &[&json])).await
    }

    /// Sends keys, as the writer with this fence.
    pub(crate) async fn type_keys(&mut self, fence: u64, keys: &[u8]) -> io::Result<()> {
        self.stream.write_all(&frame::encode_frame(FrameKind::Input, &[&fence.to_le_bytes(), keys])).await
    }
}
